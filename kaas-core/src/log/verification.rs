//! Whether a transaction may begin in a partition (KIP-890): the coordinator was asked, and nothing has decided the
//! producer's transaction since.
//!
//! Without it a batch that arrives behind the marker of its transaction would open one that nobody ever ends.

use std::collections::HashMap;

use super::producers::{Expiry, Grant};

/// Stands for one question to the coordinator. It is good until the producer's next transactional batch or marker.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct VerificationGuard(u64);

/// What is known about the transaction that a batch belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum TxnProof {
    /// Nothing: the batch must go on with an open transaction.
    #[default]
    None,
    /// The coordinator was asked under this guard, and said that the partition belongs to the transaction.
    Verified(VerificationGuard),
    /// The host does not ask coordinators (`transaction.partition.verification.enable=false`).
    NotRequired,
}

#[derive(Debug, Clone, Copy)]
struct Question {
    guard: VerificationGuard,
    asked_ms: i64,
    producer_epoch: i16,
    lowest_sequence: i32,
}

/// The open questions of one partition, by producer.
#[derive(Debug, Default)]
pub(crate) struct Verifications {
    open: HashMap<i64, Question>,
    next: u64,
    /// At so many questions the old ones are looked for: as many again as there were, so that a question costs the same
    /// however many there are.
    sweep_at: usize,
}

/// Below so many questions nobody looks for old ones.
const SWEEP_MIN: usize = 64;

impl Verifications {
    /// A guard for a question that is about to be asked. Questions about the same producer share one.
    pub(crate) fn ask(
        &mut self,
        producer_id: i64,
        producer_epoch: i16,
        first_sequence: i32,
        expiry: Expiry,
    ) -> VerificationGuard {
        let age = |question: &Question| expiry.now_ms.saturating_sub(question.asked_ms);
        if self.open.len() >= self.sweep_at.max(SWEEP_MIN) {
            self.open.retain(|_, question| age(question) < expiry.expiration_ms);
            self.sweep_at = self.open.len() * 2;
        }
        if self.open.get(&producer_id).is_some_and(|question| age(question) >= expiry.expiration_ms) {
            self.open.remove(&producer_id);
        }
        let next = &mut self.next;
        let question = self.open.entry(producer_id).or_insert_with(|| {
            *next += 1;
            let (asked_ms, lowest_sequence) = (expiry.now_ms, first_sequence);
            Question { guard: VerificationGuard(*next), asked_ms, producer_epoch, lowest_sequence }
        });
        if producer_epoch > question.producer_epoch {
            question.producer_epoch = producer_epoch;
            question.lowest_sequence = first_sequence;
        } else if producer_epoch == question.producer_epoch {
            question.lowest_sequence = question.lowest_sequence.min(first_sequence);
        }
        question.guard
    }

    /// What a batch of this producer may do.
    pub(crate) fn grant(&self, producer_id: i64, proof: TxnProof) -> Grant {
        let question = self.open.get(&producer_id);
        let may_begin = match proof {
            TxnProof::None => false,
            TxnProof::Verified(guard) => question.is_some_and(|question| question.guard == guard),
            TxnProof::NotRequired => true,
        };
        Grant { may_begin, lowest_sequence: question.map(|question| question.lowest_sequence) }
    }

    /// Ends the question: a transactional batch or a marker of the producer has been appended.
    pub(crate) fn clear(&mut self, producer_id: i64) {
        self.open.remove(&producer_id);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const AT: Expiry = Expiry { now_ms: 0, expiration_ms: 100 };

    #[test]
    fn a_guard_is_good_until_the_question_is_settled() {
        let mut questions = Verifications::default();
        let guard = questions.ask(1, 0, 5, AT);
        assert_eq!(questions.ask(1, 0, 3, AT), guard, "the same question");
        let grant = questions.grant(1, TxnProof::Verified(guard));
        assert!(grant.may_begin);
        assert_eq!(grant.lowest_sequence, Some(3));
        assert!(!questions.grant(2, TxnProof::Verified(guard)).may_begin, "another's");
        assert!(!questions.grant(1, TxnProof::None).may_begin);
        questions.clear(1);
        assert!(!questions.grant(1, TxnProof::Verified(guard)).may_begin);
        let later = questions.ask(1, 0, 0, AT);
        assert!(!questions.grant(1, TxnProof::Verified(guard)).may_begin, "an older question");
        assert!(questions.grant(1, TxnProof::Verified(later)).may_begin);
    }

    #[test]
    fn a_newer_epoch_begins_its_own_sequence_and_old_questions_end() {
        let mut questions = Verifications::default();
        let guard = questions.ask(1, 0, 9, AT);
        questions.ask(1, 1, 20, AT);
        assert_eq!(questions.grant(1, TxnProof::None).lowest_sequence, Some(20));
        let later = Expiry { now_ms: 100, ..AT };
        (2..).take(SWEEP_MIN).for_each(|id| _ = questions.ask(id, 0, 0, later));
        assert!(!questions.grant(1, TxnProof::Verified(guard)).may_begin);
    }
}
