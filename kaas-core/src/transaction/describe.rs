//! DescribeTransactions and ListTransactions.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::slot::Transaction;
use super::{Partitions, ProducerIdentity, Slot, State, TransactionError};

/// What DescribeTransactions shows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Description {
    /// Where the id is.
    pub state: State,
    /// Its producer.
    pub producer: ProducerIdentity,
    /// How long its transactions may take.
    pub timeout_ms: i32,
    /// When the last transaction began, if one did.
    pub start_timestamp_ms: Option<i64>,
    /// Its partitions; of a decided one, those whose markers are still to be written.
    pub partitions: Partitions,
}

/// What ListTransactions shows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Listing {
    /// The id.
    pub transactional_id: String,
    /// Its producer id.
    pub producer_id: i64,
    /// Where it is.
    pub state: State,
}

/// What ListTransactions asks for.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ListFilter {
    /// Those in one of these states; `None`: in any.
    pub states: Option<BTreeSet<State>>,
    /// Those of one of these producer ids; `None`: of any.
    pub producer_ids: Option<BTreeSet<i64>>,
}

impl ListFilter {
    /// The filter of a request, in which nothing means anything, and the names that are no states: they match nothing.
    pub fn new<'a>(
        state_names: impl IntoIterator<Item = &'a str>,
        producer_ids: impl IntoIterator<Item = i64>,
    ) -> (Self, Vec<&'a str>) {
        let (mut states, mut unknown) = (BTreeSet::new(), Vec::new());
        for name in state_names {
            match State::from_name(name) {
                Some(state) => drop(states.insert(state)),
                None => unknown.push(name),
            }
        }
        let any_state = states.is_empty() && unknown.is_empty();
        let producer_ids: BTreeSet<i64> = producer_ids.into_iter().collect();
        let any_producer = producer_ids.is_empty();
        let filter = Self {
            states: (!any_state).then_some(states),
            producer_ids: (!any_producer).then_some(producer_ids),
        };
        (filter, unknown)
    }

    fn matches(&self, state: State, producer_id: i64) -> bool {
        self.states.as_ref().is_none_or(|states| states.contains(&state))
            && self.producer_ids.as_ref().is_none_or(|ids| ids.contains(&producer_id))
    }
}

impl Slot {
    /// One transactional id.
    pub fn describe(&self, transactional_id: &str) -> Result<Description, TransactionError> {
        if transactional_id.is_empty() {
            return Err(TransactionError::InvalidRequest);
        }
        let transaction =
            self.transactions.get(transactional_id).ok_or(TransactionError::TransactionalIdNotFound)?;
        let metadata = &transaction.metadata;
        let partitions = transaction.owed.as_ref().map_or(&metadata.partitions, |owed| &owed.partitions);
        Ok(Description {
            state: metadata.status,
            producer: metadata.producer(),
            timeout_ms: metadata.timeout_ms,
            start_timestamp_ms: metadata.start_timestamp_ms,
            partitions: partitions.clone(),
        })
    }

    /// All that match, by id.
    pub fn list(&self, filter: &ListFilter) -> Vec<Listing> {
        let listing = |(id, transaction): (&Arc<str>, &Transaction)| {
            let metadata = &transaction.metadata;
            filter.matches(metadata.status, metadata.producer_id).then(|| Listing {
                transactional_id: id.to_string(),
                producer_id: metadata.producer_id,
                state: metadata.status,
            })
        };
        self.transactions.iter().filter_map(listing).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::super::TransactionError as Error;
    use super::super::testing::{Bench, TIMEOUT_MS, partitions};
    use super::*;

    #[test]
    fn a_description_says_what_is_still_owed() {
        let mut bench = Bench::new();
        assert_eq!(bench.slot.describe("t"), Err(Error::TransactionalIdNotFound));
        assert_eq!(bench.slot.describe(""), Err(Error::InvalidRequest));
        let producer = bench.init();
        let started = bench.now.wall_ms;
        let empty = bench.slot.describe("t").unwrap();
        assert_eq!((empty.state, empty.start_timestamp_ms), (State::Empty, None));
        bench.add(producer, &[("a", 0), ("b", 1)]).unwrap();
        let ongoing = Description {
            state: State::Ongoing,
            producer,
            timeout_ms: TIMEOUT_MS,
            start_timestamp_ms: Some(started),
            partitions: partitions(&[("a", 0), ("b", 1)]),
        };
        assert_eq!(bench.slot.describe("t").unwrap(), ongoing);
        bench.end(producer, true).unwrap();
        let decision = bench.effects[0].decision.clone();
        bench.written(&decision, "a", 0);
        let prepared =
            Description { state: State::PrepareCommit, partitions: partitions(&[("b", 1)]), ..ongoing };
        assert_eq!(bench.slot.describe("t").unwrap(), prepared);
        bench.written(&decision, "b", 1);
        let complete = Description { state: State::CompleteCommit, partitions: partitions(&[]), ..prepared };
        assert_eq!(bench.slot.describe("t").unwrap(), complete);
    }

    #[test]
    fn a_list_is_filtered_by_state_and_by_producer() {
        let mut bench = Bench::new();
        let producer = bench.init();
        let count = |names: &[&'static str], ids: &[i64]| {
            let (filter, unknown) = ListFilter::new(names.iter().copied(), ids.iter().copied());
            (bench.slot.list(&filter).len(), unknown)
        };
        assert_eq!(count(&[], &[]), (1, vec![]));
        assert_eq!(count(&["Empty"], &[]), (1, vec![]));
        assert_eq!(count(&["Ongoing", "Dead"], &[]), (0, vec![]));
        assert_eq!(count(&["Empty", "empty"], &[]), (1, vec!["empty"]));
        assert_eq!(count(&["Unknown"], &[]), (0, vec!["Unknown"]), "it is no filter that matches all");
        assert_eq!(count(&[], &[producer.producer_id]), (1, vec![]));
        assert_eq!(count(&[], &[producer.producer_id + 1]), (0, vec![]));
        assert_eq!(count(&["Ongoing"], &[producer.producer_id]), (0, vec![]));
    }
}
