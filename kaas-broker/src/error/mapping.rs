//! Engine errors to Kafka codes. No arm is a wildcard: a new error of the engine does not compile until someone picks its code.

use kaas_core::coordinator::CoordinatorError;
use kaas_core::error::{
    AppendError, CreateTopicError, DeleteRecordsError, DeleteTopicError, ProducerIdError, ReadError,
};
use kaas_core::group::GroupError;
use kaas_core::transaction::TransactionError;
use kaas_proto::ErrorCode;

/// The code of a refused or failed append.
pub fn append_code(error: &AppendError) -> ErrorCode {
    match error {
        AppendError::CorruptBatch(_) => ErrorCode::CorruptMessage,
        AppendError::InvalidRecord(_) => ErrorCode::InvalidRecord,
        AppendError::InvalidTimestamp(_) => ErrorCode::InvalidTimestamp,
        AppendError::MessageTooLarge(_) => ErrorCode::MessageTooLarge,
        AppendError::RecordListTooLarge(_) => ErrorCode::RecordListTooLarge,
        AppendError::UnsupportedCompression { .. } => ErrorCode::UnsupportedCompressionType,
        AppendError::UnsupportedMagic { .. } => ErrorCode::InvalidRecord,
        AppendError::InvalidTransactionState => ErrorCode::InvalidTxnState,
        AppendError::OutOfOrderSequence(_) => ErrorCode::OutOfOrderSequenceNumber,
        AppendError::InvalidProducerEpoch(_) => ErrorCode::InvalidProducerEpoch,
        AppendError::CoordinatorFenced(_) => ErrorCode::TransactionCoordinatorFenced,
        AppendError::Storage(_) => ErrorCode::KafkaStorageError,
        AppendError::Offline(_) => ErrorCode::KafkaStorageError,
        AppendError::Fenced | AppendError::NotLeader => ErrorCode::NotLeaderOrFollower,
        AppendError::Deleted => ErrorCode::UnknownTopicOrPartition,
        AppendError::Closed => ErrorCode::NotLeaderOrFollower,
    }
}

/// The code of a failed read.
pub fn read_code(error: &ReadError) -> ErrorCode {
    match error {
        ReadError::OffsetOutOfRange(_) => ErrorCode::OffsetOutOfRange,
        ReadError::Storage(_) => ErrorCode::KafkaStorageError,
        // Never served as data: the reader learns that these bytes are not the ones that were written.
        ReadError::Damaged { .. } => ErrorCode::CorruptMessage,
        ReadError::Fenced | ReadError::NotLeader => ErrorCode::NotLeaderOrFollower,
        ReadError::Offline(_) => ErrorCode::KafkaStorageError,
        ReadError::Deleted => ErrorCode::UnknownTopicOrPartition,
    }
}

/// The code of a topic that was not created.
pub fn create_topic_code(error: &CreateTopicError) -> ErrorCode {
    match error {
        CreateTopicError::InvalidName(_) => ErrorCode::InvalidTopicException,
        CreateTopicError::Exists(_) => ErrorCode::TopicAlreadyExists,
        CreateTopicError::PartitionCount(_) => ErrorCode::InvalidPartitions,
        CreateTopicError::Storage(_) => ErrorCode::KafkaStorageError,
        CreateTopicError::Closed => ErrorCode::NotController,
    }
}

/// The code of a topic that was not deleted.
pub fn delete_topic_code(error: &DeleteTopicError) -> ErrorCode {
    match error {
        DeleteTopicError::Unknown(_) => ErrorCode::UnknownTopicOrPartition,
        DeleteTopicError::Storage(_) => ErrorCode::KafkaStorageError,
        DeleteTopicError::Closed => ErrorCode::NotController,
    }
}

/// The code of records that were not deleted.
pub fn delete_records_code(error: &DeleteRecordsError) -> ErrorCode {
    match error {
        DeleteRecordsError::OffsetOutOfRange(_) => ErrorCode::OffsetOutOfRange,
        DeleteRecordsError::Policy => ErrorCode::PolicyViolation,
        DeleteRecordsError::Storage(_) => ErrorCode::KafkaStorageError,
        DeleteRecordsError::Fenced | DeleteRecordsError::NotLeader => ErrorCode::NotLeaderOrFollower,
        DeleteRecordsError::Offline(_) => ErrorCode::KafkaStorageError,
        DeleteRecordsError::Deleted => ErrorCode::UnknownTopicOrPartition,
        DeleteRecordsError::Closed => ErrorCode::NotLeaderOrFollower,
    }
}

/// The code of a producer id that could not be given out.
pub fn producer_id_code(error: &ProducerIdError) -> ErrorCode {
    match error {
        // Retriable for every client, unlike the storage code, which producers treat as fatal here.
        ProducerIdError::Storage(_) => ErrorCode::CoordinatorNotAvailable,
        ProducerIdError::Exhausted => ErrorCode::UnknownServerError,
    }
}

/// The code of a coordinator that did not answer.
pub fn coordinator_code(error: &CoordinatorError) -> ErrorCode {
    match error {
        CoordinatorError::Loading => ErrorCode::CoordinatorLoadInProgress,
        CoordinatorError::Moved => ErrorCode::NotCoordinator,
        CoordinatorError::Unavailable(_) => ErrorCode::CoordinatorNotAvailable,
    }
}

/// The code of a refused call on a group.
pub fn group_code(error: GroupError) -> ErrorCode {
    match error {
        GroupError::InvalidGroupId => ErrorCode::InvalidGroupId,
        GroupError::InvalidSessionTimeout => ErrorCode::InvalidSessionTimeout,
        GroupError::InconsistentGroupProtocol => ErrorCode::InconsistentGroupProtocol,
        GroupError::MemberIdRequired => ErrorCode::MemberIdRequired,
        GroupError::UnknownMemberId => ErrorCode::UnknownMemberId,
        GroupError::IllegalGeneration => ErrorCode::IllegalGeneration,
        GroupError::RebalanceInProgress => ErrorCode::RebalanceInProgress,
        GroupError::FencedInstanceId => ErrorCode::FencedInstanceId,
        GroupError::GroupMaxSizeReached => ErrorCode::GroupMaxSizeReached,
        // Kafka has no code for it: it fails with an exception that it did not expect.
        GroupError::PendingMemberIsDynamic => ErrorCode::UnknownServerError,
        GroupError::GroupIdNotFound => ErrorCode::GroupIdNotFound,
        GroupError::NonEmptyGroup => ErrorCode::NonEmptyGroup,
        GroupError::GroupSubscribedToTopic => ErrorCode::GroupSubscribedToTopic,
        GroupError::OffsetMetadataTooLarge => ErrorCode::OffsetMetadataTooLarge,
        GroupError::UnstableOffsetCommit => ErrorCode::UnstableOffsetCommit,
        GroupError::InvalidProducerEpoch => ErrorCode::InvalidProducerEpoch,
        GroupError::InvalidTxnState => ErrorCode::InvalidTxnState,
        // Kafka has no such limit; clients stop at this code and say it.
        GroupError::TooManyGroups => ErrorCode::PolicyViolation,
    }
}

/// The code of a refused call on a transactional id.
pub fn transaction_code(error: &TransactionError) -> ErrorCode {
    match error {
        TransactionError::InvalidRequest => ErrorCode::InvalidRequest,
        TransactionError::InvalidTransactionTimeout => ErrorCode::InvalidTransactionTimeout,
        TransactionError::ConcurrentTransactions => ErrorCode::ConcurrentTransactions,
        TransactionError::ProducerFenced => ErrorCode::ProducerFenced,
        TransactionError::InvalidProducerIdMapping => ErrorCode::InvalidProducerIdMapping,
        TransactionError::InvalidTransactionState => ErrorCode::InvalidTxnState,
        TransactionError::TransactionalIdNotFound => ErrorCode::TransactionalIdNotFound,
        // Kafka has no such limits; producers stop at this code and say it.
        TransactionError::TooManyTransactionalIds | TransactionError::TooManyPartitions => {
            ErrorCode::PolicyViolation
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io;

    use super::*;

    #[test]
    fn storage_failures_are_retriable_and_refusals_are_not() {
        let full = || io::Error::from(io::ErrorKind::StorageFull).into();
        assert!(append_code(&AppendError::Storage(full())).is_retriable());
        assert!(read_code(&ReadError::Storage(full())).is_retriable());
        assert!(create_topic_code(&CreateTopicError::Storage(full())).is_retriable());
        assert!(producer_id_code(&ProducerIdError::Storage(full())).is_retriable());
        assert!(append_code(&AppendError::Fenced).is_retriable());
        assert_eq!(append_code(&AppendError::NotLeader), ErrorCode::NotLeaderOrFollower);
        assert_eq!(read_code(&ReadError::Fenced), ErrorCode::NotLeaderOrFollower);
        assert!(!append_code(&AppendError::UnsupportedMagic { magic: 1 }).is_retriable());
    }
}
