//! A stopping broker takes no new request, and stops when the last reply is there.

use std::task::{Context, Poll};

use kaas_proto::Rope;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tower::Service;

use crate::request::{BoxFuture, ConnError, RawRequest, Reply};

/// Holds a token of the tracker for every request until its answer is there.
#[derive(Clone, Debug)]
pub(super) struct Drain<S> {
    inner: S,
    stopping: CancellationToken,
    in_flight: TaskTracker,
}

impl<S> Drain<S> {
    pub(super) fn new(inner: S, stopping: CancellationToken, in_flight: TaskTracker) -> Self {
        Drain { inner, stopping, in_flight }
    }
}

impl<S> Service<RawRequest> for Drain<S>
where
    S: Service<RawRequest, Response = Reply<Rope>, Error = ConnError>,
    S::Future: Send + 'static,
{
    type Response = Reply<Rope>;
    type Error = ConnError;
    type Future = BoxFuture<Result<Reply<Rope>, ConnError>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), ConnError>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, request: RawRequest) -> Self::Future {
        if self.stopping.is_cancelled() {
            return Box::pin(std::future::ready(Err(ConnError::Draining)));
        }
        let token = self.in_flight.token();
        let future = self.inner.call(request);
        Box::pin(async move {
            Ok(match future.await? {
                Reply::Later(answer) => Reply::Later(Box::pin(async move {
                    let answer = answer.await;
                    drop(token);
                    answer
                })),
                now => now,
            })
        })
    }
}
