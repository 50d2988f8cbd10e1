//! A span around each request, with what its preamble says.

use std::task::{Context, Poll};

use kaas_proto::Rope;
use tower::Service;
use tracing::instrument::{Instrument, Instrumented};

use crate::request::{ConnError, RawRequest, Reply};

/// Opens the span.
#[derive(Clone, Debug)]
pub(super) struct Trace<S> {
    inner: S,
}

impl<S> Trace<S> {
    pub(super) fn new(inner: S) -> Self {
        Trace { inner }
    }
}

impl<S> Service<RawRequest> for Trace<S>
where
    S: Service<RawRequest, Response = Reply<Rope>, Error = ConnError>,
{
    type Response = Reply<Rope>;
    type Error = ConnError;
    type Future = Instrumented<S::Future>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), ConnError>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, request: RawRequest) -> Self::Future {
        let span = tracing::debug_span!(
            "request",
            conn = request.conn.id,
            api = request.preamble.api_key,
            version = request.preamble.api_version,
            correlation = request.preamble.correlation_id,
        );
        let future = span.in_scope(|| self.inner.call(request));
        future.instrument(span)
    }
}
