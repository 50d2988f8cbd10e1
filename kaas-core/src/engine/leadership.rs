//! Leading partitions on a volume that several brokers share.
//!
//! Who should lead what is decided elsewhere; being wrong about it costs nothing but time. A takeover refuses to go on
//! before whoever led until now is fenced or has resigned, and of two that take over at once one wins.

use std::sync::mpsc::sync_channel;

use uuid::Uuid;

use super::commit::Event;
use super::fence::{Fence, is_down_for_good, revoke};
use super::{Engine, Inner};
use crate::error::{LeadError, StorageError};
use crate::log::{Lead, Partition, Recovered, Taker, resign, take_over};

impl Engine {
    /// This engine's identity on a shared volume; another each time an engine is opened.
    pub fn incarnation(&self) -> Uuid {
        self.inner.incarnation
    }

    /// Whether this engine has found itself fenced: it acknowledges and serves nothing any more, for good. Open another.
    pub fn is_fenced(&self) -> bool {
        self.inner.gate.has_failed()
    }

    /// Revokes the fence of a broker's incarnation, durably: it acknowledges nothing after this returns. May be done on
    /// suspicion, by anyone, any number of times. Blocks.
    ///
    /// # Errors
    /// It may or may not have been revoked.
    pub fn revoke(&self, broker_id: i32, incarnation: Uuid) -> Result<(), StorageError> {
        Ok(revoke(&*self.inner.options.volume, broker_id, incarnation)?)
    }

    /// Takes `partition` over and serves it: claims `epoch` (or the first that is free), reads what the leader before
    /// has left, seals it, and begins a segment with the first append. Returns the epoch; the one that is led already,
    /// if it is. Blocks.
    ///
    /// # Errors
    /// [`LeadError`]: the partition is not led. [`LeadError::NotRevoked`] says whose fence to [`revoke`](Self::revoke).
    pub fn lead(&self, partition: &Partition, epoch: Option<i32>) -> Result<i32, LeadError> {
        let inner = &*self.inner;
        if !inner.options.shared {
            return Err(LeadError::NotShared);
        }
        if let Lead::Led(epoch) = partition.begin_takeover()? {
            return Ok(epoch);
        }
        let taken = inner.take_over(partition, epoch);
        if let Err(error) = &taken {
            tracing::warn!(partition = %partition.dir(), %error, "not taken over");
        }
        let result = partition.end_takeover(taken);
        if inner.gate.has_failed() {
            inner.stop_leading();
            return Err(LeadError::Fenced);
        }
        result
    }

    /// Gives `partition` up: refuses new appends, commits what is pending, lets go of its files and says so durably,
    /// so that another may take over without revoking this broker's fence. Blocks.
    ///
    /// # Errors
    /// [`LeadError`]. After [`LeadError::Storage`] the partition is given up, but the others cannot know.
    pub fn resign(&self, partition: &Partition) -> Result<(), LeadError> {
        let inner = &*self.inner;
        if !inner.options.shared {
            return Err(LeadError::NotShared);
        }
        let epoch = partition.begin_resigning()?;
        let (answer, answered) = sync_channel(1);
        if !inner.queue.send(Event::Resign(partition.key(), answer)) {
            return Err(LeadError::Closed);
        }
        inner.commit();
        match answered.recv() {
            Ok(true) => {}
            Ok(false) if inner.gate.has_failed() => return Err(LeadError::Fenced),
            Ok(false) => return Err(LeadError::NotLeader),
            Err(_) => return Err(LeadError::Closed),
        }
        let nonce = inner.incarnation.to_string();
        Ok(resign(&*inner.options.volume, partition.dir(), epoch, &nonce)?)
    }
}

impl Inner {
    fn take_over(&self, partition: &Partition, epoch: Option<i32>) -> Result<Recovered, LeadError> {
        let volume = &*self.options.volume;
        let taker = Taker {
            context: self.recover_context(),
            broker_id: self.options.broker_id,
            incarnation: self.incarnation,
            is_fenced: &|broker_id, incarnation| is_down_for_good(volume, broker_id, incarnation),
        };
        let flush_messages = partition.config().flush_messages;
        let log = take_over(&taker, partition.dir(), epoch, flush_messages)?;
        // Behind the seal: whoever found it unfinished had revoked this fence before it looked.
        self.gate.check().map_err(|_| LeadError::Fenced)?;
        Ok(log)
    }

    fn stop_leading(&self) {
        for topic in self.topics.load().iter() {
            topic.partitions.iter().for_each(|partition| partition.fence());
        }
    }
}
