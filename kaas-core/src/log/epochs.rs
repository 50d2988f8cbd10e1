//! The leader epochs of a log: which begins where (KIP-101, KIP-279, KIP-320).

/// The epochs that have records, or may get some: ascending, each with its first offset.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct EpochHistory(Vec<(i32, i64)>);

impl EpochHistory {
    /// From all epochs that there were, in order.
    pub(crate) fn new(epochs: impl IntoIterator<Item = (i32, i64)>) -> Self {
        let mut history = Self::default();
        epochs.into_iter().for_each(|(epoch, start)| history.begin(epoch, start));
        history
    }

    /// A new epoch begins at `start`. Those before it that wrote nothing are not remembered.
    pub(crate) fn begin(&mut self, epoch: i32, start: i64) {
        while self.0.last().is_some_and(|(_, before)| *before >= start) {
            self.0.pop();
        }
        self.0.push((epoch, start));
    }

    /// The log begins at `offset`: epochs that ended there are forgotten.
    pub(crate) fn truncate_below(&mut self, offset: i64) {
        let current = self.0.partition_point(|(_, start)| *start <= offset);
        self.0.drain(..current.saturating_sub(1));
        if let Some((_, start)) = self.0.first_mut() {
            *start = (*start).max(offset);
        }
    }

    /// The epoch that the record at `offset` is of.
    pub(crate) fn epoch_at(&self, offset: i64) -> Option<i32> {
        let at = self.0.partition_point(|(_, start)| *start <= offset).checked_sub(1)?;
        Some(self.0[at].0)
    }

    /// The greatest known epoch that is not above `epoch`, and the first offset of the next; `None` for an epoch
    /// above all. The newest one ends at `log_end`.
    pub(crate) fn end_of(&self, epoch: i32, log_end: i64) -> Option<(i32, i64)> {
        if epoch < 0 {
            return None;
        }
        if self.0.last().is_some_and(|(newest, _)| *newest == epoch) {
            return Some((epoch, log_end));
        }
        let next = self.0.partition_point(|(known, _)| *known <= epoch);
        let (_, start) = self.0.get(next)?;
        let floor = next.checked_sub(1).map_or(epoch, |floor| self.0[floor].0);
        Some((floor, *start))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ends_are_as_kip_101_has_them() {
        let history = EpochHistory::new([(2, 0), (5, 10), (9, 25)]);
        assert_eq!(history.end_of(9, 40), Some((9, 40)), "the newest goes to the end");
        assert_eq!(history.end_of(5, 40), Some((5, 25)));
        assert_eq!(history.end_of(7, 40), Some((5, 25)), "between two");
        assert_eq!(history.end_of(1, 40), Some((1, 0)), "below all");
        assert_eq!(history.end_of(10, 40), None, "above all");
        assert_eq!(history.end_of(-1, 40), None);
        assert_eq!(EpochHistory::default().end_of(0, 0), None);
    }

    #[test]
    fn epochs_without_records_are_not_remembered() {
        let history = EpochHistory::new([(1, 0), (2, 10), (3, 10), (4, 10)]);
        assert_eq!(history, EpochHistory::new([(1, 0), (4, 10)]));
        assert_eq!(history.end_of(2, 12), Some((1, 10)));
        assert_eq!((history.epoch_at(9), history.epoch_at(10)), (Some(1), Some(4)));
    }

    #[test]
    fn what_lies_below_the_log_start_is_forgotten() {
        let mut history = EpochHistory::new([(1, 0), (2, 10), (3, 20)]);
        history.truncate_below(15);
        assert_eq!(history, EpochHistory(vec![(2, 15), (3, 20)]));
        assert_eq!(history.end_of(1, 30), Some((1, 15)));
        assert_eq!((history.epoch_at(14), history.epoch_at(15)), (None, Some(2)));
        history.truncate_below(20);
        assert_eq!(history, EpochHistory(vec![(3, 20)]));
    }
}
