//! What a coordinator's host needs of its state machine, and what the machine leaves to be done.

use std::time::Duration;

use serde::Serialize;
use serde::de::DeserializeOwned;

/// A moment, on both clocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Now {
    /// Milliseconds since the Unix epoch, for timestamps and retention. It may jump.
    pub wall_ms: i64,
    /// Time since an arbitrary moment, for timeouts. It never goes back.
    pub mono: Duration,
}

/// The state of one slot and its rules.
///
/// A call changes the machine at once and pushes the entries that repeat the change. The host lets no reply and no effect of that
/// call, nor of any later one, leave before the entries are durable. When they cannot be made so, the machine is thrown away
/// and another one is loaded from what is durable: a machine never undoes anything.
pub trait Machine: Send + Sized + 'static {
    /// One change: a line of the journal. It says the new state of what it is about, whole.
    type Entry: Serialize + DeserializeOwned + Send + 'static;
    /// Stands for a caller whose answer comes later.
    type Token: Send + 'static;
    /// What such a caller gets.
    type Reply: Send + 'static;
    /// What the host is to do once the changes made so far are durable.
    type Effect: Send + 'static;

    /// Repeats a change of an earlier life. Total: an entry that makes no sense changes nothing.
    fn replay(&mut self, entry: Self::Entry);

    /// The whole state: replayed into an empty machine it gives the same.
    fn snapshot(&self) -> Vec<Self::Entry>;

    /// Everything was replayed: timeouts begin, and what was left half done goes on.
    fn loaded(&mut self, now: Now, out: &mut Outbox<Self>);

    /// The next moment, on the monotonic clock, at which [`tick`](Self::tick) may have something to do.
    fn deadline(&self) -> Option<Duration>;

    /// Does what is due.
    fn tick(&mut self, now: Now, out: &mut Outbox<Self>);
}

/// What calls leave to be done, in order.
pub struct Outbox<M: Machine> {
    /// Changes to be made durable.
    pub entries: Vec<M::Entry>,
    /// Answers to earlier callers.
    pub replies: Vec<(M::Token, M::Reply)>,
    /// Work for the host.
    pub effects: Vec<M::Effect>,
}

impl<M: Machine> Default for Outbox<M> {
    fn default() -> Self {
        Self { entries: Vec::new(), replies: Vec::new(), effects: Vec::new() }
    }
}

impl<M: Machine> Outbox<M> {
    /// Whether nothing is to be done.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty() && self.replies.is_empty() && self.effects.is_empty()
    }
}

/// How a caller whose answer comes later is given it. One that is dropped instead learns that the coordinator has moved.
pub trait Answer<R> {
    /// Gives the answer; must return at once.
    fn answer(self, reply: R);
}

impl<R> Answer<R> for tokio::sync::oneshot::Sender<R> {
    fn answer(self, reply: R) {
        // Whoever waited may have gone.
        let _ = self.send(reply);
    }
}

/// For machines that answer every call at once: there is no such caller.
impl<R> Answer<R> for std::convert::Infallible {
    fn answer(self, _: R) {
        match self {}
    }
}

/// Whoever runs a coordinator's machines.
pub trait Host<M: Machine>: Send + Sync + 'static {
    /// A new, empty machine for a slot. The epoch is higher than that of any earlier life of the slot, wherever it was.
    fn machine(&self, slot: u32, epoch: u32) -> M;

    /// Something is to be done, and what it rests on is durable. Must return at once.
    fn effect(&self, slot: u32, effect: M::Effect);
}
