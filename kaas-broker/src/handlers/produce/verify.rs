//! Whether the batches of a transaction belong to it (KIP-890): the coordinator is asked before the first one of each partition.
//!
//! The log hands out a guard before the question and takes it back with the batch, so a marker that is written between the two makes
//! the batch be refused: no record comes behind the end of its transaction and stays open for ever.

use std::collections::HashMap;

use kaas_core::transaction::{ProducerIdentity, TransactionError};
use kaas_core::{TxnProof, VerificationGuard};
use kaas_proto::{ErrorCode, KStr};

use super::batches::TopicBatches;
use super::response::Refusal;
use crate::broker::{Broker, partition_of};
use crate::coordinators::answer;
use crate::error::transaction_code;

/// What is known about the transaction of each partition's batch.
#[derive(Default)]
pub(super) struct Proofs {
    otherwise: TxnProof,
    asked: HashMap<(KStr, i32), Result<VerificationGuard, ErrorCode>>,
}

/// A question about one partition.
struct Question<'a> {
    topic: &'a KStr,
    partition: i32,
    producer: ProducerIdentity,
    guard: VerificationGuard,
}

impl Proofs {
    /// What the partition's batch may do. Without a question it must go on with what is open.
    pub(super) fn of(&self, topic: &KStr, partition: i32) -> Result<TxnProof, Refusal> {
        if self.asked.is_empty() {
            return Ok(self.otherwise);
        }
        match self.asked.get(&(topic.clone(), partition)) {
            None => Ok(self.otherwise),
            Some(Ok(guard)) => Ok(TxnProof::Verified(*guard)),
            Some(Err(code)) => Err(refusal(*code)),
        }
    }
}

/// How a producer is told that its batch could not be verified, so that it does the right thing: tries again, or gives up.
fn refusal(code: ErrorCode) -> Refusal {
    match code {
        ErrorCode::InvalidTxnState => {
            Refusal::because(code, "the partition was not added to the transaction")
        }
        ErrorCode::ConcurrentTransactions
        | ErrorCode::CoordinatorLoadInProgress
        | ErrorCode::CoordinatorNotAvailable
        | ErrorCode::NotCoordinator => {
            let why = format!("the transaction could not be verified: {}", code.name());
            Refusal::because(ErrorCode::NotEnoughReplicas, why)
        }
        // Old and new producers know a fenced producer by its epoch, here.
        ErrorCode::ProducerFenced => ErrorCode::InvalidProducerEpoch.into(),
        code => code.into(),
    }
}

impl Broker {
    /// Asks about all batches that need it, in one call.
    ///
    /// # Errors
    /// For all partitions: a transaction has one producer.
    pub(super) async fn verify(
        &self,
        transactional_id: Option<&KStr>,
        topics: &[TopicBatches],
    ) -> Result<Proofs, Refusal> {
        // A transactional batch without an id in its request has been refused.
        let Some(transactional_id) = transactional_id else { return Ok(Proofs::default()) };
        if !self.config.verify_transactions {
            return Ok(Proofs { otherwise: TxnProof::NotRequired, ..Proofs::default() });
        }
        let questions = self.questions(topics)?;
        if questions.is_empty() {
            return Ok(Proofs::default());
        }
        let called = self.transactions.call(transactional_id, |slot, _, _| {
            let verify = |question: &Question<'_>| {
                slot.verify_partition(transactional_id, question.producer, question.topic, question.partition)
            };
            questions.iter().map(verify).collect::<Vec<Result<(), TransactionError>>>()
        });
        let verified: Vec<Result<(), ErrorCode>> = match answer(called).await {
            Ok(verified) => {
                verified.into_iter().map(|one| one.map_err(|error| transaction_code(&error))).collect()
            }
            Err(code) => vec![Err(code); questions.len()],
        };
        let answered = |(question, verified): (Question<'_>, Result<(), ErrorCode>)| {
            let at = (question.topic.clone(), question.partition);
            (at, verified.map(|()| question.guard))
        };
        Ok(Proofs { asked: questions.into_iter().zip(verified).map(answered).collect(), ..Proofs::default() })
    }

    fn questions<'a>(&self, topics: &'a [TopicBatches]) -> Result<Vec<Question<'a>>, Refusal> {
        let mut questions = Vec::new();
        let mut producer_id = None;
        for topic in topics {
            let found = self.topic(&topic.name);
            for batch in &topic.batches {
                let partition = found.as_ref().and_then(|topic| partition_of(topic, batch.index));
                let header = batch.header().filter(|it| it.is_transactional() && it.producer_id >= 0);
                let (Some(partition), Some(header)) = (partition, header) else { continue };
                if *producer_id.get_or_insert(header.producer_id) != header.producer_id {
                    let why = "a request has transactional batches of more than one producer";
                    return Err(Refusal::because(ErrorCode::InvalidProducerIdMapping, why));
                }
                let producer = ProducerIdentity {
                    producer_id: header.producer_id,
                    producer_epoch: header.producer_epoch,
                };
                let guard = partition.begin_verification(
                    header.producer_id,
                    header.producer_epoch,
                    header.base_sequence,
                );
                if let Some(guard) = guard {
                    questions.push(Question { topic: &topic.name, partition: batch.index, producer, guard });
                }
            }
        }
        Ok(questions)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_retry_may_change_is_told_by_a_code_that_is_retried() {
        for code in [
            ErrorCode::ConcurrentTransactions,
            ErrorCode::CoordinatorLoadInProgress,
            ErrorCode::CoordinatorNotAvailable,
            ErrorCode::NotCoordinator,
        ] {
            assert!(refusal(code).code().is_retriable());
        }
        assert_eq!(refusal(ErrorCode::ProducerFenced).code(), ErrorCode::InvalidProducerEpoch);
        assert!(!refusal(ErrorCode::InvalidTxnState).code().is_retriable());
        assert_eq!(refusal(ErrorCode::InvalidProducerIdMapping).code(), ErrorCode::InvalidProducerIdMapping);
    }
}
