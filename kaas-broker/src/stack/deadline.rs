//! Administration ends in time: a call that does not is answered REQUEST_TIMED_OUT, its effect unknown.

use std::task::{Context, Poll};
use std::time::Duration;

use kaas_proto::ErrorCode;
use kaas_proto::{RequestBody, ResponseBody};
use tower::Service;

use super::Typed;
use crate::apis::Class;
use crate::error::ApiError;
use crate::request::{BoxFuture, Reply, Request};

/// The longest that a control request runs, whatever time-out it carries.
const CONTROL_MAX: Duration = Duration::from_secs(30);

/// The deadline layer.
#[derive(Clone, Debug)]
pub(super) struct Deadline<S> {
    inner: S,
}

impl<S> Deadline<S> {
    pub(super) fn new(inner: S) -> Self {
        Deadline { inner }
    }
}

/// The class of a request.
pub(super) fn class_of(body: &RequestBody) -> Class {
    crate::apis::find(body.api_key().code()).map_or(Class::Control, |api| api.class)
}

impl<S> Service<Request> for Deadline<S>
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
        Box::pin(async move {
            match tokio::time::timeout(CONTROL_MAX, future).await {
                Ok(result) => result,
                Err(_) => Err(ApiError::new(ErrorCode::RequestTimedOut)),
            }
        })
    }
}
