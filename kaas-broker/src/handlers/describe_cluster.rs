//! DescribeCluster (key 60, versions 0-1): the brokers, without topics.
//!
//! * v1: the endpoint type, brokers or controllers (KIP-919); a broker only knows brokers.

use std::sync::Arc;

use kaas_proto::messages::describe_cluster_response::DescribeClusterBroker;
use kaas_proto::messages::{DescribeClusterRequest, DescribeClusterResponse};
use kaas_proto::{ErrorCode, KStr};

use super::{ALL_CLUSTER_OPERATIONS, OPERATIONS_NOT_ASKED};
use crate::broker::Broker;
use crate::error::ApiError;
use crate::request::{Answer, Reply, RequestCx};
use crate::router::Handler;

/// The endpoint type of brokers.
const BROKERS: i8 = 1;
/// The endpoint type of controllers.
const CONTROLLERS: i8 = 2;

impl Handler<DescribeClusterRequest> for Broker {
    async fn handle(
        self: Arc<Self>,
        cx: RequestCx,
        request: DescribeClusterRequest,
    ) -> Result<Reply<DescribeClusterResponse>, ApiError> {
        match request.endpoint_type {
            BROKERS => {}
            CONTROLLERS => {
                let why = "The request was sent to an endpoint of type BROKER, but we wanted an endpoint of type CONTROLLER";
                return Err(ApiError::because(ErrorCode::MismatchedEndpointType, why));
            }
            other => {
                let why = format!("Unsupported endpoint type {other}");
                return Err(ApiError::because(ErrorCode::UnsupportedEndpointType, why));
            }
        }
        let (host, port) = cx.conn.listener.told(cx.conn.local);
        let broker = DescribeClusterBroker {
            broker_id: self.config.node_id,
            host: KStr::from(host),
            port,
            rack: self.config.rack.clone().map(KStr::from),
        };
        Ok(Reply::Now(Answer::Send(DescribeClusterResponse {
            endpoint_type: BROKERS,
            cluster_id: KStr::from(self.engine.cluster_id()),
            controller_id: self.config.node_id,
            brokers: vec![broker],
            cluster_authorized_operations: if request.include_cluster_authorized_operations {
                ALL_CLUSTER_OPERATIONS
            } else {
                OPERATIONS_NOT_ASKED
            },
            ..Default::default()
        })))
    }
}
