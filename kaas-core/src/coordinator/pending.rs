//! An answer that is there, and leaves when what it rests on is durable.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use tokio::sync::oneshot;

/// Why a coordinator did not answer. Nothing of the call may have happened, or all of it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CoordinatorError {
    /// The slot is being loaded: ask again.
    #[error("the coordinator is loading")]
    Loading,
    /// The slot was given up or is being loaded again, or the broker stops: look for the coordinator again.
    #[error("this is not the coordinator any more")]
    Moved,
    /// The slot cannot be loaded.
    #[error("the coordinator is not available: {0}")]
    Unavailable(String),
}

/// The answer to a call. It is `Ok` once everything that it says is durable.
#[derive(Debug)]
pub struct Pending<R> {
    result: Option<R>,
    durable: Option<oneshot::Receiver<()>>,
}

impl<R> Pending<R> {
    pub(super) fn new(result: R, durable: Option<oneshot::Receiver<()>>) -> Self {
        Self { result: Some(result), durable }
    }

    /// Blocks until the answer may leave. Not for use inside an async runtime.
    ///
    /// # Errors
    /// As the future.
    pub fn wait(self) -> Result<R, CoordinatorError> {
        if let Some(durable) = self.durable {
            durable.blocking_recv().map_err(|_| CoordinatorError::Moved)?;
        }
        self.result.ok_or(CoordinatorError::Moved)
    }
}

impl<R: Unpin> Future for Pending<R> {
    type Output = Result<R, CoordinatorError>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        if let Some(durable) = &mut self.durable {
            let released = ready!(Pin::new(durable).poll(context));
            self.durable = None;
            if released.is_err() {
                self.result = None;
            }
        }
        Poll::Ready(self.result.take().ok_or(CoordinatorError::Moved))
    }
}
