//! From a typed request to its handler.

use std::sync::Arc;
use std::task::{Context, Poll};

use kaas_proto::{ApiRequest, ErrorCode};
use kaas_proto::{RequestBody, ResponseBody};
use tower::Service;

use crate::broker::Broker;
use crate::error::ApiError;
use crate::request::{Answer, BoxFuture, Reply, Request, RequestCx};

/// Serves one API.
pub trait Handler<R: ApiRequest>: Send + Sync + 'static {
    /// The first stage. When it ends, the order of effects is fixed; what still waits is in the reply.
    fn handle(
        self: Arc<Self>,
        cx: RequestCx,
        request: R,
    ) -> impl Future<Output = Result<Reply<R::Response>, ApiError>> + Send;
}

/// The end of the stack.
#[derive(Clone, Debug)]
pub struct Router {
    broker: Arc<Broker>,
}

impl Router {
    /// Routes to the handlers of `broker`.
    pub fn new(broker: Arc<Broker>) -> Router {
        Router { broker }
    }
}

type Routed = BoxFuture<Result<Reply<ResponseBody>, ApiError>>;

fn to<R>(broker: Arc<Broker>, cx: RequestCx, request: R) -> Routed
where
    R: ApiRequest + Send + 'static,
    Broker: Handler<R>,
    R::Response: Into<ResponseBody> + Send + 'static,
{
    Box::pin(async move {
        let reply = broker.handle(cx, request).await?;
        Ok(reply.map(|response| Answer::Send(response.into())))
    })
}

impl Service<Request> for Router {
    type Response = Reply<ResponseBody>;
    type Error = ApiError;
    type Future = Routed;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), ApiError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, Request { cx, body }: Request) -> Routed {
        let broker = Arc::clone(&self.broker);
        match body {
            RequestBody::Produce(request) => to(broker, cx, request),
            RequestBody::Fetch(request) => to(broker, cx, request),
            RequestBody::ListOffsets(request) => to(broker, cx, request),
            RequestBody::Metadata(request) => to(broker, cx, request),
            RequestBody::ApiVersions(request) => to(broker, cx, request),
            RequestBody::FindCoordinator(request) => to(broker, cx, request),
            RequestBody::JoinGroup(request) => to(broker, cx, request),
            RequestBody::SyncGroup(request) => to(broker, cx, request),
            RequestBody::Heartbeat(request) => to(broker, cx, request),
            RequestBody::LeaveGroup(request) => to(broker, cx, request),
            RequestBody::OffsetCommit(request) => to(broker, cx, request),
            RequestBody::OffsetFetch(request) => to(broker, cx, request),
            RequestBody::OffsetDelete(request) => to(broker, cx, request),
            RequestBody::DescribeGroups(request) => to(broker, cx, request),
            RequestBody::ListGroups(request) => to(broker, cx, request),
            RequestBody::DeleteGroups(request) => to(broker, cx, request),
            RequestBody::CreateTopics(request) => to(broker, cx, request),
            RequestBody::DeleteTopics(request) => to(broker, cx, request),
            RequestBody::DeleteRecords(request) => to(broker, cx, request),
            RequestBody::InitProducerId(request) => to(broker, cx, request),
            RequestBody::OffsetForLeaderEpoch(request) => to(broker, cx, request),
            RequestBody::AddPartitionsToTxn(request) => to(broker, cx, request),
            RequestBody::AddOffsetsToTxn(request) => to(broker, cx, request),
            RequestBody::TxnOffsetCommit(request) => to(broker, cx, request),
            RequestBody::EndTxn(request) => to(broker, cx, request),
            RequestBody::WriteTxnMarkers(request) => to(broker, cx, request),
            RequestBody::DescribeConfigs(request) => to(broker, cx, request),
            RequestBody::DescribeCluster(request) => to(broker, cx, request),
            RequestBody::DescribeProducers(request) => to(broker, cx, request),
            RequestBody::DescribeTransactions(request) => to(broker, cx, request),
            RequestBody::ListTransactions(request) => to(broker, cx, request),
            // The gate lets only the keys of the API table pass; a test holds the table against this list.
            _ => Box::pin(std::future::ready(Err(ApiError::new(ErrorCode::UnsupportedVersion)))),
        }
    }
}
