//! Limits by class: so many control requests run at the same time, the others wait their turn.
//!
//! The class is known only at the call, so the permit is taken within the future and not in `poll_ready`. Data requests need none here:
//! their memory is bounded before they are read.

use std::sync::Arc;
use std::task::{Context, Poll};

use kaas_proto::ResponseBody;
use tokio::sync::Semaphore;
use tower::{Layer, Service};

use super::Typed;
use super::deadline::class_of;
use crate::apis::Class;
use crate::error::ApiError;
use crate::request::{BoxFuture, Reply, Request};

/// Control requests that run at the same time, of all connections.
const CONTROL_MAX: usize = 32;

/// Makes services that share one limit.
#[derive(Clone, Debug)]
pub(super) struct ClassesLayer {
    control: Arc<Semaphore>,
}

impl ClassesLayer {
    pub(super) fn new() -> Self {
        ClassesLayer { control: Arc::new(Semaphore::new(CONTROL_MAX)) }
    }
}

impl<S> Layer<S> for ClassesLayer {
    type Service = Classes<S>;

    fn layer(&self, inner: S) -> Classes<S> {
        Classes { inner, control: Arc::clone(&self.control) }
    }
}

/// The classes layer.
#[derive(Clone, Debug)]
pub(super) struct Classes<S> {
    inner: S,
    control: Arc<Semaphore>,
}

impl<S> Service<Request> for Classes<S>
where
    S: Typed,
    S::Future: Send + 'static,
{
    type Response = Reply<ResponseBody>;
    type Error = ApiError;
    type Future = BoxFuture<Result<Reply<ResponseBody>, ApiError>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), ApiError>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, request: Request) -> Self::Future {
        let class = class_of(&request.body);
        let future = self.inner.call(request);
        if class == Class::Data {
            return Box::pin(future);
        }
        let control = Arc::clone(&self.control);
        Box::pin(async move {
            let _permit = control.acquire_owned().await.expect("the semaphore is never closed");
            future.await
        })
    }
}
