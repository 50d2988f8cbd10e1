//! What the handlers share: the engine, the configuration and the fetch sessions.

use std::sync::Arc;

use kaas_core::{Engine, Partition, Topic};
use kaas_proto::ErrorCode;

use crate::config::BrokerConfig;
use crate::error::ApiError;
use crate::groups::Groups;
use crate::handlers::fetch::{Conversions, SessionCache};
use crate::transactions::Transactions;

/// One broker. Handlers are implemented on it, one file an API.
#[derive(Debug)]
pub struct Broker {
    /// The storage engine.
    pub engine: Engine,
    /// The configuration it started with.
    pub config: Arc<BrokerConfig>,
    /// Fetch sessions (KIP-227).
    pub sessions: SessionCache,
    /// The coordinator of consumer groups.
    pub groups: Groups,
    /// The coordinator of transactions.
    pub transactions: Transactions,
    /// What the conversions for old readers share.
    pub conversions: Conversions,
}

impl Broker {
    /// A broker over an open engine.
    pub fn new(
        engine: Engine,
        groups: Groups,
        transactions: Transactions,
        config: Arc<BrokerConfig>,
    ) -> Broker {
        let sessions = SessionCache::new(config.fetch_sessions_max);
        Broker { engine, config, sessions, groups, transactions, conversions: Conversions::default() }
    }

    /// A topic by name.
    pub fn topic(&self, name: &str) -> Option<Arc<Topic>> {
        self.engine.topics().by_name(name)
    }

    /// A partition by the name of its topic.
    pub fn partition(&self, topic: &str, index: i32) -> Result<Arc<Partition>, ErrorCode> {
        self.topic(topic)
            .and_then(|topic| partition_of(&topic, index))
            .ok_or(ErrorCode::UnknownTopicOrPartition)
    }

    /// Runs work that waits for the disk on a thread that may wait.
    pub async fn blocking<T: Send + 'static>(
        self: &Arc<Self>,
        work: impl FnOnce(&Broker) -> T + Send + 'static,
    ) -> Result<T, ApiError> {
        let broker = Arc::clone(self);
        tokio::task::spawn_blocking(move || work(&broker))
            .await
            .map_err(|error| ApiError::because(ErrorCode::UnknownServerError, error.to_string()))
    }
}

/// A partition of a topic, `None` when there is no such index.
pub fn partition_of(topic: &Topic, index: i32) -> Option<Arc<Partition>> {
    topic.partitions.get(usize::try_from(index).ok()?).cloned()
}

/// Compares the leader epoch that a client believes in with the real one (KIP-320); a negative epoch is no belief.
pub fn check_leader_epoch(believed: i32, current: i32) -> Result<(), ErrorCode> {
    match believed {
        epoch if epoch < 0 || epoch == current => Ok(()),
        epoch if epoch < current => Err(ErrorCode::FencedLeaderEpoch),
        _ => Err(ErrorCode::UnknownLeaderEpoch),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_older_epoch_is_fenced_and_a_newer_one_unknown() {
        assert_eq!(check_leader_epoch(-1, 3), Ok(()));
        assert_eq!(check_leader_epoch(3, 3), Ok(()));
        assert_eq!(check_leader_epoch(2, 3), Err(ErrorCode::FencedLeaderEpoch));
        assert_eq!(check_leader_epoch(4, 3), Err(ErrorCode::UnknownLeaderEpoch));
    }
}
