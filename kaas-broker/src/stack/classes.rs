//! Limits by class: so many requests of a class run at the same time, the others wait their turn.
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
/// Lookups that run at the same time. Only one that creates a topic takes long; half of the runtime's 512 blocking threads remain for reads.
const LOOKUP_MAX: usize = 256;

/// Makes services that share one limit.
#[derive(Clone, Debug)]
pub(super) struct ClassesLayer {
    limits: Limits,
}

#[derive(Clone, Debug)]
struct Limits {
    control: Arc<Semaphore>,
    lookup: Arc<Semaphore>,
}

impl Limits {
    fn of(&self, class: Class) -> Option<Arc<Semaphore>> {
        match class {
            Class::Data => None,
            Class::Lookup => Some(Arc::clone(&self.lookup)),
            Class::Control => Some(Arc::clone(&self.control)),
        }
    }
}

impl ClassesLayer {
    pub(super) fn new() -> Self {
        let of = |permits| Arc::new(Semaphore::new(permits));
        ClassesLayer { limits: Limits { control: of(CONTROL_MAX), lookup: of(LOOKUP_MAX) } }
    }
}

impl<S> Layer<S> for ClassesLayer {
    type Service = Classes<S>;

    fn layer(&self, inner: S) -> Classes<S> {
        Classes { inner, limits: self.limits.clone() }
    }
}

/// The classes layer.
#[derive(Clone, Debug)]
pub(super) struct Classes<S> {
    inner: S,
    limits: Limits,
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
        let limit = self.limits.of(class_of(&request.body));
        let future = self.inner.call(request);
        let Some(limit) = limit else { return Box::pin(future) };
        Box::pin(async move {
            let _permit = limit.acquire_owned().await.expect("the semaphore is never closed");
            future.await
        })
    }
}

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;

    use kaas_proto::RequestBody;
    use kaas_proto::messages::{ApiVersionsRequest, ApiVersionsResponse, CreateTopicsRequest};

    use super::*;
    use crate::listener_info::ListenerInfo;
    use crate::request::{Answer, ConnCx, RequestCx};

    fn request(body: RequestBody) -> Request {
        let address = SocketAddr::from(([127, 0, 0, 1], 9092));
        let listener = ListenerInfo {
            name: "PLAINTEXT".to_owned(),
            bound: address,
            advertised: None,
            host: String::new(),
        };
        let conn = ConnCx { id: 1, peer: address, local: address, listener: Arc::new(listener) };
        Request { cx: RequestCx { conn: Arc::new(conn), version: 0, client_id: None }, body }
    }

    #[tokio::test]
    async fn changes_wait_for_each_other_and_lookups_for_no_change() {
        let layer = ClassesLayer::new();
        let mut service = layer.layer(tower::service_fn(|_: Request| async {
            Ok::<_, ApiError>(Reply::Now(Answer::Send(ResponseBody::from(ApiVersionsResponse::default()))))
        }));
        let all = layer.limits.control.acquire_many(CONTROL_MAX as u32).await.unwrap();
        let mut change =
            tokio_test::task::spawn(service.call(request(CreateTopicsRequest::default().into())));
        assert!(change.poll().is_pending());
        assert!(service.call(request(ApiVersionsRequest::default().into())).await.is_ok());
        drop(all);
        assert!(change.poll().is_ready());
    }
}
