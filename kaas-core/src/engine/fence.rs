//! The fence: whether this broker may still acknowledge.

use std::fmt;

/// Another broker has taken over.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("this broker has been fenced")]
pub struct Fenced;

/// Asked once per commit cycle, after the syncs and before the acknowledgements.
pub trait Fence: Send + Sync + fmt::Debug {
    /// Reads the fence afresh.
    ///
    /// # Errors
    /// [`Fenced`]: nothing of this cycle may be acknowledged.
    fn check(&self) -> Result<(), Fenced>;

    /// Whether [`check`](Self::check) costs nothing, so that it may be asked for every batch instead of once for a
    /// cycle. Only then may an append that needs no sync be committed by the thread that makes it.
    fn is_free(&self) -> bool {
        false
    }
}

/// The only broker there is: nobody takes over from it.
#[derive(Debug, Clone, Copy, Default)]
pub struct SingleNode;

impl Fence for SingleNode {
    fn check(&self) -> Result<(), Fenced> {
        Ok(())
    }

    fn is_free(&self) -> bool {
        true
    }
}
