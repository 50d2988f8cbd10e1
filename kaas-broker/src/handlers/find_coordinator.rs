//! FindCoordinator (key 10, versions 0-4): which broker coordinates a group or a transactional id.
//!
//! * v1: transactional ids. v3: flexible. v4: several keys, each with its own error.
//! * The address is that of the listener that was asked. One broker coordinates everything.

use std::sync::Arc;

use kaas_proto::messages::find_coordinator_response::Coordinator;
use kaas_proto::messages::{FindCoordinatorRequest, FindCoordinatorResponse};
use kaas_proto::{ErrorCode, KStr};

use crate::broker::Broker;
use crate::error::ApiError;
use crate::request::{Answer, Reply, RequestCx};
use crate::router::Handler;

/// The first version with several keys.
const SEVERAL_FROM: i16 = 4;
/// Groups and transactional ids.
const KEY_TYPES: std::ops::RangeInclusive<i8> = 0..=1;
/// What Kafka says where there is nothing to say.
const NO_ERROR: &str = "NONE";

impl Handler<FindCoordinatorRequest> for Broker {
    async fn handle(
        self: Arc<Self>,
        cx: RequestCx,
        request: FindCoordinatorRequest,
    ) -> Result<Reply<FindCoordinatorResponse>, ApiError> {
        let is_known = KEY_TYPES.contains(&request.key_type);
        if !is_known && cx.version < SEVERAL_FROM {
            let why = format!("Unknown coordinator type received: {}", request.key_type);
            return Err(ApiError::because(ErrorCode::InvalidRequest, why));
        }
        let (host, port) = cx.conn.listener.told(cx.conn.local);
        let (node_id, host) = (self.config.node_id, KStr::from(host));
        let response = if cx.version < SEVERAL_FROM {
            FindCoordinatorResponse {
                error_message: Some(NO_ERROR.into()),
                node_id,
                host,
                port,
                ..Default::default()
            }
        } else {
            let coordinator = |key| match is_known {
                true => Coordinator { key, node_id, host: host.clone(), port, ..Default::default() },
                false => nowhere(key),
            };
            let coordinators = request.coordinator_keys.into_iter().map(coordinator).collect();
            FindCoordinatorResponse { coordinators, ..Default::default() }
        };
        Ok(Reply::Now(Answer::Send(response)))
    }
}

/// The answer about a key of a type that does not exist.
fn nowhere(key: KStr) -> Coordinator {
    let code = ErrorCode::InvalidRequest;
    let (error_code, error_message) = (code.code(), Some(KStr::from(code.name())));
    Coordinator { key, node_id: -1, port: -1, error_code, error_message, ..Default::default() }
}
