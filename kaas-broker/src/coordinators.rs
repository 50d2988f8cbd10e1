//! What the coordinators of groups and of transactions have in common for their callers.

use kaas_core::coordinator::{CoordinatorError, Pending};
use kaas_proto::ErrorCode;

use crate::error::coordinator_code;

/// Waits until the coordinator's answer may leave.
pub(crate) async fn answer<T: Unpin>(called: Result<Pending<T>, CoordinatorError>) -> Result<T, ErrorCode> {
    let answered = match called {
        Ok(pending) => pending.await,
        Err(error) => Err(error),
    };
    answered.map_err(|error| coordinator_code(&error))
}
