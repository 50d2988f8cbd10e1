//! The request path, assembled. Read from top to bottom: the order in which a request meets its layers.

mod classes;
mod codec;
mod deadline;
mod drain;
mod gate;
mod metrics;
mod rescue;
mod trace;

use std::sync::Arc;

use kaas_proto::ResponseBody;
use kaas_proto::Rope;
use tokio_util::sync::CancellationToken;
use tower::util::BoxCloneSyncService;
use tower::{Service, ServiceBuilder};

pub use metrics::Metrics;

use crate::broker::Broker;
use crate::error::ApiError;
use crate::request::{ConnError, RawRequest, Reply, Request};
use crate::router::Router;

/// The assembled request path; a clone serves one connection.
pub type Stack = BoxCloneSyncService<RawRequest, Reply<Rope>, ConnError>;

/// What the layers share with the rest of the program.
#[derive(Clone)]
pub struct StackParts {
    /// Where requests end.
    pub broker: Arc<Broker>,
    /// Counts requests.
    pub metrics: Arc<Metrics>,
    /// Cancelled when the broker stops.
    pub drain: CancellationToken,
}

/// Puts the layers together.
pub fn assemble(parts: StackParts) -> Stack {
    let stack = ServiceBuilder::new()
        // Everything below logs within the request's span.
        .layer_fn(trace::Trace::new)
        // Counts every outcome, closed connections too.
        .layer_fn(|inner| metrics::Count::new(inner, Arc::clone(&parts.metrics)))
        // A stopping broker takes no new work and finishes what it has.
        .layer_fn(|inner| drain::Drain::new(inner, parts.drain.clone()))
        // Keys and versions that are not served never reach a decoder.
        .layer_fn(gate::Gate::new)
        // Bytes become types here and types become bytes: once, last.
        .layer_fn(codec::Codec::new)
        .layer_fn(check::<RequestErrors, _>)
        // The only place that turns a failure of a whole request into the answer of its API.
        .layer_fn(rescue::Rescue::new)
        // Administration ends in time; long polls and acknowledgements carry their own limits.
        .layer_fn(deadline::Deadline::new)
        // Administration is bounded, so that a flood of it does not take all threads or keep others from connecting.
        .layer(classes::ClassesLayer::new())
        .service(Router::new(Arc::clone(&parts.broker)));
    BoxCloneSyncService::new(stack)
}

/// Makes a type error appear at this place of the stack instead of at its end.
fn check<R: Shape<S>, S>(inner: S) -> S {
    inner
}

/// The shape that a service must have at a place of the stack.
trait Shape<S> {}

/// Typed requests in, typed replies out, errors that close the connection.
struct RequestErrors;

impl<S> Shape<S> for RequestErrors where S: Service<Request, Response = Reply<ResponseBody>, Error = ConnError>
{}

/// The shape below the rescue layer.
pub(crate) trait Typed: Service<Request, Response = Reply<ResponseBody>, Error = ApiError> {}

impl<S: Service<Request, Response = Reply<ResponseBody>, Error = ApiError>> Typed for S {}
