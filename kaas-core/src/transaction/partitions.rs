//! AddPartitionsToTxn and AddOffsetsToTxn: what belongs to the transaction.

use super::{Metadata, PARTITIONS_MAX, ProducerIdentity, Slot, State, TransactionError};
use crate::coordinator::{Now, Outbox, slot_of};

/// The topic under whose name the slots of groups take part in transactions.
pub const OFFSETS_TOPIC: &str = "__consumer_offsets";

/// The partition that stands for a group's offsets.
pub fn offsets_partition(group_id: &str) -> (String, i32) {
    // Slots are fewer than any integer type's end.
    (OFFSETS_TOPIC.to_owned(), slot_of(group_id).cast_signed())
}

impl Slot {
    /// Adds partitions to the producer's transaction, which begins with the first ones. All or none.
    pub fn add_partitions(
        &mut self,
        transactional_id: &str,
        producer: ProducerIdentity,
        partitions: &[(String, i32)],
        now: Now,
        out: &mut Outbox<Self>,
    ) -> Result<(), TransactionError> {
        let metadata = self.of_producer(transactional_id, producer)?;
        if metadata.status.is_prepared() {
            return Err(TransactionError::ConcurrentTransactions);
        }
        let begins = metadata.status != State::Ongoing;
        let is_new = |(topic, partition): &(String, i32)| !metadata.partitions.contains(topic, *partition);
        if !begins && !partitions.iter().any(is_new) {
            return Ok(());
        }
        let mut metadata = Metadata {
            status: State::Ongoing,
            start_timestamp_ms: if begins { Some(now.wall_ms) } else { metadata.start_timestamp_ms },
            last_update_timestamp_ms: now.wall_ms,
            ..metadata.clone()
        };
        for (topic, partition) in partitions {
            metadata.partitions.insert(topic, *partition);
        }
        if metadata.partitions.len() > PARTITIONS_MAX {
            return Err(TransactionError::TooManyPartitions);
        }
        self.change(transactional_id, metadata, now, out);
        Ok(())
    }

    /// Whether a partition belongs to the producer's transaction (KIP-890). Changes nothing.
    pub fn verify_partition(
        &self,
        transactional_id: &str,
        producer: ProducerIdentity,
        topic: &str,
        partition: i32,
    ) -> Result<(), TransactionError> {
        let metadata = self.of_producer(transactional_id, producer)?;
        if metadata.status.is_prepared() {
            return Err(TransactionError::ConcurrentTransactions);
        }
        let belongs = metadata.partitions.contains(topic, partition);
        belongs.then_some(()).ok_or(TransactionError::InvalidTransactionState)
    }
}

#[cfg(test)]
mod tests {
    use super::super::TransactionError as Error;
    use super::super::testing::{Bench, partitions};
    use super::*;

    #[test]
    fn the_first_partition_begins_the_transaction() {
        let mut bench = Bench::new();
        let producer = bench.init();
        assert_eq!(bench.verify(producer, "a"), Err(Error::InvalidTransactionState));
        bench.pass(10);
        let begun = bench.now.wall_ms;
        bench.add(producer, &[("a", 0)]).unwrap();
        assert_eq!(bench.state(), State::Ongoing);
        bench.pass(10);
        bench.add(producer, &[("a", 0), ("b", 3)]).unwrap();
        let metadata = bench.slot.metadata("t").unwrap();
        assert_eq!(metadata.start_timestamp_ms, Some(begun));
        assert_eq!(metadata.last_update_timestamp_ms, begun + 10);
        assert_eq!(metadata.partitions, partitions(&[("a", 0), ("b", 3)]));
        assert_eq!(bench.verify(producer, "a"), Ok(()));
        assert_eq!(bench.verify(producer, "b"), Err(Error::InvalidTransactionState), "partition 0 of b");
    }

    #[test]
    fn partitions_that_are_there_already_cost_nothing() {
        let mut bench = Bench::new();
        let producer = bench.init();
        bench.add(producer, &[("a", 0), ("b", 0)]).unwrap();
        let entries = bench.journal.len();
        bench.add(producer, &[("b", 0)]).unwrap();
        bench.add(producer, &[]).unwrap();
        assert_eq!(bench.journal.len(), entries);
    }

    #[test]
    fn a_transaction_may_begin_without_partitions() {
        let mut bench = Bench::new();
        let producer = bench.init();
        bench.add(producer, &[]).unwrap();
        assert_eq!(bench.state(), State::Ongoing);
    }

    #[test]
    fn only_the_producer_that_has_the_id_may_add() {
        let mut bench = Bench::new();
        let stranger = ProducerIdentity { producer_id: 1000, producer_epoch: 0 };
        assert_eq!(bench.add(stranger, &[("a", 0)]), Err(Error::InvalidProducerIdMapping), "no such id");
        let producer = bench.init();
        let newer = ProducerIdentity { producer_epoch: 1, ..producer };
        assert_eq!(bench.add(newer, &[("a", 0)]), Err(Error::ProducerFenced));
        let other = ProducerIdentity { producer_id: 1001, ..producer };
        assert_eq!(bench.add(other, &[("a", 0)]), Err(Error::InvalidProducerIdMapping));
        let empty = bench.call(|slot, now, out| slot.add_partitions("", producer, &[], now, out));
        assert_eq!(empty, Err(Error::InvalidRequest));
    }

    #[test]
    fn nothing_is_added_while_markers_are_owed() {
        let mut bench = Bench::new();
        let producer = bench.init();
        bench.add(producer, &[("a", 0)]).unwrap();
        bench.end(producer, true).unwrap();
        assert_eq!(bench.add(producer, &[("b", 0)]), Err(Error::ConcurrentTransactions));
        assert_eq!(bench.verify(producer, "a"), Err(Error::ConcurrentTransactions));
        bench.write_markers();
        assert_eq!(bench.verify(producer, "a"), Err(Error::InvalidTransactionState));
        bench.add(producer, &[("b", 0)]).unwrap();
        assert_eq!(bench.slot.metadata("t").unwrap().partitions, partitions(&[("b", 0)]));
    }

    #[test]
    fn a_transaction_takes_no_more_partitions_than_its_limit() {
        let mut bench = Bench::new();
        let producer = bench.init();
        let most: Vec<_> = (0..i32::try_from(PARTITIONS_MAX).unwrap()).map(|at| ("a", at)).collect();
        bench.add(producer, &most).unwrap();
        assert_eq!(bench.add(producer, &[("b", 0)]), Err(Error::TooManyPartitions));
        assert_eq!(bench.add(producer, &most[..2]), Ok(()));
    }

    #[test]
    fn groups_take_part_under_kafkas_name() {
        assert_eq!(offsets_partition("consumer-group"), ("__consumer_offsets".to_owned(), 38));
    }
}
