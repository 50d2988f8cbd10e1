//! Why the coordinator refuses.

/// Why a call on a transactional id was refused. It changed nothing, but for
/// [`ConcurrentTransactions`](Self::ConcurrentTransactions), which may have fenced the producer and begun to abort.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum TransactionError {
    /// Caller's fault: the transactional id is empty.
    #[error("the transactional id is empty")]
    InvalidRequest,
    /// Caller's fault: a timeout that is not positive, or above `transaction.max.timeout.ms`.
    #[error("the transaction timeout is not positive or above transaction.max.timeout.ms")]
    InvalidTransactionTimeout,
    /// Wait and retry: the last transaction is being ended.
    #[error("the producer's last transaction is still being ended")]
    ConcurrentTransactions,
    /// The caller is over: a newer producer has the transactional id, or its transaction timed out.
    #[error("a newer producer has the transactional id")]
    ProducerFenced,
    /// Caller's fault: the transactional id is not known, or belongs to another producer id.
    #[error("the producer id does not belong to the transactional id")]
    InvalidProducerIdMapping,
    /// Caller's fault: not possible in this state, or a partition that is not part of the transaction.
    #[error("the transaction's state does not allow it")]
    InvalidTransactionState,
    /// Caller's fault: there is nothing to describe.
    #[error("the transactional id is not known")]
    TransactionalIdNotFound,
    /// The slot has [`TRANSACTIONAL_IDS_MAX`](super::TRANSACTIONAL_IDS_MAX) ids.
    #[error("there are too many transactional ids")]
    TooManyTransactionalIds,
    /// The transaction would have more than [`PARTITIONS_MAX`](super::PARTITIONS_MAX) partitions.
    #[error("there are too many partitions in the transaction")]
    TooManyPartitions,
}
