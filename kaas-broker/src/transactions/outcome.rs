//! What callers of the transaction coordinator are told.

use kaas_core::coordinator::{CoordinatorError, Pending};
use kaas_core::transaction::TransactionError;
use kaas_proto::ErrorCode;

use crate::coordinators::answer;
use crate::error::transaction_code;

/// The first version of AddPartitionsToTxn, AddOffsetsToTxn and EndTxn whose clients know PRODUCER_FENCED (KIP-588).
pub(crate) const FENCED_FROM: i16 = 2;

/// Waits for what became of a call on a transactional id.
pub(crate) async fn outcome<T: Unpin>(
    called: Result<Pending<Result<T, TransactionError>>, CoordinatorError>,
) -> Result<T, ErrorCode> {
    answer(called).await?.map_err(|error| transaction_code(&error))
}

/// The code for a client of this version: those before `fenced_from` know a fenced producer by another code.
pub(crate) fn code_for<T>(outcome: Result<T, ErrorCode>, version: i16, fenced_from: i16) -> i16 {
    match outcome {
        Ok(_) => ErrorCode::None,
        Err(ErrorCode::ProducerFenced) if version < fenced_from => ErrorCode::InvalidProducerEpoch,
        Err(code) => code,
    }
    .code()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn old_clients_know_a_fenced_producer_by_its_epoch() {
        let fenced: Result<(), _> = Err(ErrorCode::ProducerFenced);
        assert_eq!(code_for(fenced, 1, FENCED_FROM), ErrorCode::InvalidProducerEpoch.code());
        assert_eq!(code_for(fenced, 2, FENCED_FROM), ErrorCode::ProducerFenced.code());
        assert_eq!(code_for(Ok(5), 0, FENCED_FROM), 0);
    }
}
