//! A stopping broker takes no new request; what it has is answered.

use std::task::{Context, Poll};

use kaas_proto::Rope;
use tokio_util::sync::CancellationToken;
use tower::Service;

use crate::request::{BoxFuture, ConnError, RawRequest, Reply};

/// Refuses requests once the broker stops.
#[derive(Clone, Debug)]
pub(super) struct Drain<S> {
    inner: S,
    stopping: CancellationToken,
}

impl<S> Drain<S> {
    pub(super) fn new(inner: S, stopping: CancellationToken) -> Self {
        Drain { inner, stopping }
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
        Box::pin(self.inner.call(request))
    }
}
