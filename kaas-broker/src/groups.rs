//! The group coordinator as the broker runs it.

use std::convert::Infallible;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use kaas_core::Engine;
use kaas_core::coordinator::{
    Coordinator, CoordinatorError, CoordinatorKind, CoordinatorOptions, Host, Now, Outbox, SLOTS,
};
use kaas_core::group::{GroupError, GroupOptions, GroupReply, GroupSlot};
use kaas_proto::{ErrorCode, KStr};
use tokio::sync::oneshot;
use uuid::Uuid;

use crate::broker::Broker;
use crate::coordinators::answer;
use crate::error::{coordinator_code, group_code};
use crate::request::BoxFuture;

/// How long to wait for a slot that is being loaded before it is asked again.
const LOAD_WAIT: Duration = Duration::from_millis(20);

/// A caller of JoinGroup or SyncGroup that waits for others.
pub(crate) type Token = oneshot::Sender<GroupReply>;

/// All slots of consumer groups.
pub type Groups = Coordinator<GroupSlot<Token>>;

/// Opens the coordinator. With `sync` a commit counts when it is on the device.
///
/// # Errors
/// When a thread cannot be started.
pub fn open(engine: &Engine, options: GroupOptions, sync: bool) -> io::Result<Groups> {
    let coordinator = CoordinatorOptions { sync, ..CoordinatorOptions::new(CoordinatorKind::Groups) };
    Coordinator::open(engine, &coordinator, Arc::new(GroupHost(options)))
}

struct GroupHost(GroupOptions);

impl Host<GroupSlot<Token>> for GroupHost {
    fn machine(&self, _: u32, _: u32) -> GroupSlot<Token> {
        GroupSlot::new(self.0)
    }

    fn effect(&self, _: u32, effect: Infallible) {
        match effect {}
    }
}

/// The code of what became of one thing.
pub(crate) fn code_of(result: Result<(), GroupError>) -> i16 {
    result.map_or_else(group_code, |()| ErrorCode::None).code()
}

/// Text of a request that outlives its frame.
pub(crate) fn owned(text: &Option<KStr>) -> Option<String> {
    text.as_ref().map(KStr::to_string)
}

impl Broker {
    /// Makes a call that waits for other members, and waits for its answer.
    pub(crate) fn parked(
        &self,
        group: &str,
        call: impl FnOnce(&mut GroupSlot<Token>, Token, Now, &mut Outbox<GroupSlot<Token>>),
    ) -> BoxFuture<Result<GroupReply, ErrorCode>> {
        let (token, reply) = oneshot::channel();
        let called = self.groups.call_now(group, |slot, now, out| call(slot, token, now, out));
        Box::pin(async move {
            called.map_err(|error| coordinator_code(&error))?;
            // A token that was dropped: the slot is loaded again, or another broker's.
            reply.await.map_err(|_| coordinator_code(&CoordinatorError::Moved))
        })
    }

    /// The identity of the topic of each of these partitions; none for a partition that does not exist.
    pub(crate) fn topic_ids<'a>(
        &self,
        partitions: impl Iterator<Item = (&'a KStr, i32)>,
    ) -> Vec<Option<Uuid>> {
        let id = |(topic, index): (&KStr, i32)| Some(self.partition(topic, index).ok()?.topic_id());
        partitions.map(id).collect()
    }

    /// Forgets what a broker that died behind the deletion of a topic could not forget any more.
    pub async fn forget_offsets_of_missing_topics(self: Arc<Self>) {
        self.forget_offsets(&|topic, id| self.topic(topic).is_none_or(|found| found.id != id)).await;
    }

    /// Forgets what groups have committed for topics that are `gone`. A slot that is being loaded is waited for; one that is
    /// another's, or cannot be loaded, keeps it until its retention is over: another topic of that name does not meet it.
    pub(crate) async fn forget_offsets(&self, gone: &(dyn Fn(&str, Uuid) -> bool + Sync)) {
        let mut slot = 0;
        while slot < SLOTS {
            let called = self.groups.call_slot(slot, |slot, now, out| slot.forget_topics(gone, now, out));
            match answer(called).await {
                Err(ErrorCode::CoordinatorLoadInProgress) => {
                    tokio::time::sleep(LOAD_WAIT).await;
                    continue;
                }
                Err(code) => tracing::warn!(slot, code = code.name(), "offsets of a deleted topic remain"),
                Ok(()) => {}
            }
            slot += 1;
        }
    }
}
