//! What bounds groups.

use std::time::Duration;

use super::GroupError;

/// Limits and timeouts of a coordinator of groups. Kafka's names and defaults, but for `groups_max`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GroupOptions {
    /// `group.min.session.timeout.ms`.
    pub min_session_timeout_ms: i32,
    /// `group.max.session.timeout.ms`.
    pub max_session_timeout_ms: i32,
    /// `group.initial.rebalance.delay.ms`: how long an empty group waits for more members after the first one.
    pub initial_rebalance_delay_ms: i32,
    /// `group.max.size`: members of one group.
    pub max_size: usize,
    /// `offset.metadata.max.bytes`: UTF-16 units of a committed offset's metadata, as Kafka counts them.
    pub offset_metadata_max: usize,
    /// `offsets.retention.minutes`, in milliseconds: how long offsets outlive their last use.
    pub offsets_retention_ms: i64,
    /// `offsets.retention.check.interval.ms`: how often a group's offsets are looked at. Must be positive.
    pub offsets_retention_check_interval_ms: i64,
    /// Groups of one slot, the ones with nothing but offsets too.
    pub groups_max: usize,
}

impl Default for GroupOptions {
    fn default() -> Self {
        Self {
            min_session_timeout_ms: 6_000,
            max_session_timeout_ms: 1_800_000,
            initial_rebalance_delay_ms: 3_000,
            max_size: i32::MAX as usize,
            offset_metadata_max: 4_096,
            offsets_retention_ms: 7 * 24 * 60 * 60 * 1_000,
            offsets_retention_check_interval_ms: 600_000,
            groups_max: 200_000,
        }
    }
}

/// Member ids of one group that were handed out and not used yet. Each is forgotten after a session timeout.
pub(super) const PENDING_MEMBERS_MAX: usize = 100_000;

/// How long a new member may wait in its first join before it counts as gone: it cannot send heartbeats, for it does not know
/// its member id yet.
pub(super) const NEW_MEMBER_JOIN_TIMEOUT: Duration = Duration::from_secs(5 * 60);

/// How soon a rebalance that no member came to is tried again, at the earliest.
pub(super) const REBALANCE_RETRY_MIN: Duration = Duration::from_millis(100);

impl GroupOptions {
    pub(super) fn check_session_timeout(&self, timeout_ms: i32) -> Result<(), GroupError> {
        if (self.min_session_timeout_ms..=self.max_session_timeout_ms).contains(&timeout_ms) {
            Ok(())
        } else {
            Err(GroupError::InvalidSessionTimeout)
        }
    }

    pub(super) fn initial_rebalance_delay(&self) -> Duration {
        millis(self.initial_rebalance_delay_ms.into())
    }

    pub(super) fn retention_check_interval(&self) -> Duration {
        millis(self.offsets_retention_check_interval_ms.max(1))
    }
}

/// A timeout that came as milliseconds; negative ones are over at once.
pub(super) fn millis(ms: i64) -> Duration {
    Duration::from_millis(u64::try_from(ms).unwrap_or(0))
}
