//! Counts of requests and of connections that a request closed.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll};

use kaas_proto::Rope;
use tower::Service;

use crate::apis;
use crate::request::{BoxFuture, ConnError, RawRequest, Reply};

/// What has been served since start.
#[derive(Debug, Default)]
pub struct Metrics {
    /// One counter for each row of [`apis::APIS`].
    by_api: [AtomicU64; apis::APIS.len()],
    refused: AtomicU64,
}

impl Metrics {
    /// Requests by API, as name and count, without those that never came.
    pub fn requests(&self) -> Vec<(&'static str, u64)> {
        let counts = self.by_api.iter().map(|count| count.load(Ordering::Relaxed));
        apis::APIS.iter().map(|api| api.key.info().name).zip(counts).filter(|(_, count)| *count > 0).collect()
    }

    /// Requests that closed their connection instead of being answered.
    pub fn refused(&self) -> u64 {
        self.refused.load(Ordering::Relaxed)
    }

    fn arrived(&self, api_key: i16) {
        if let Some(at) = apis::APIS.iter().position(|api| api.key.code() == api_key) {
            self.by_api[at].fetch_add(1, Ordering::Relaxed);
        }
    }
}

/// Feeds [`Metrics`].
#[derive(Clone, Debug)]
pub(super) struct Count<S> {
    inner: S,
    metrics: Arc<Metrics>,
}

impl<S> Count<S> {
    pub(super) fn new(inner: S, metrics: Arc<Metrics>) -> Self {
        Count { inner, metrics }
    }
}

impl<S> Service<RawRequest> for Count<S>
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
        self.metrics.arrived(request.preamble.api_key);
        let metrics = Arc::clone(&self.metrics);
        let future = self.inner.call(request);
        Box::pin(async move {
            let result = future.await;
            if result.is_err() {
                metrics.refused.fetch_add(1, Ordering::Relaxed);
            }
            result
        })
    }
}
