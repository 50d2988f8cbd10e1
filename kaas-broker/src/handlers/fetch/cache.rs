//! The fetch sessions of all clients: bounded, with Kafka's order of eviction.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use kaas_proto::ErrorCode;
use kaas_proto::messages::FetchRequest;
use parking_lot::Mutex;

use super::items::Items;
use super::session::{Context, FINAL_EPOCH, INITIAL_EPOCH, Session, next_epoch};

/// How long a session is safe from others: unused for so long it is the first to go, older than that it yields to a larger one.
const EVICTION_MIN: Duration = Duration::from_secs(120);

/// All sessions.
#[derive(Debug)]
pub struct SessionCache {
    slots_max: usize,
    slots: Mutex<HashMap<i32, Slot>>,
}

#[derive(Debug)]
struct Slot {
    session: Arc<Mutex<Session>>,
    created: Instant,
    last_used: Instant,
    partitions: usize,
}

impl SessionCache {
    /// An empty cache with so many places (`max.incremental.fetch.session.cache.slots`).
    pub fn new(slots_max: usize) -> SessionCache {
        SessionCache { slots_max, slots: Mutex::default() }
    }

    /// Finds or begins the session of a request, takes its changes, and says what is to be answered.
    pub(super) fn open(
        &self,
        request: &FetchRequest,
        items: Items,
        by_id: bool,
    ) -> Result<Context, ErrorCode> {
        let now = Instant::now();
        let mut slots = self.slots.lock();
        match request.session_epoch {
            FINAL_EPOCH => {
                slots.remove(&request.session_id);
                Ok(Context::Sessionless(Arc::new(items.wanted)))
            }
            INITIAL_EPOCH => {
                slots.remove(&request.session_id);
                let wanted = Arc::new(items.wanted);
                if !self.make_room(&mut slots, wanted.len(), now) {
                    return Ok(Context::Sessionless(wanted));
                }
                let id = free_id(&slots);
                let session = Arc::new(Mutex::new(Session::new(id, by_id, &wanted)));
                let slot =
                    Slot { session: session.clone(), created: now, last_used: now, partitions: wanted.len() };
                slots.insert(id, slot);
                Ok(Context::Full(wanted, session))
            }
            epoch => {
                let slot = slots.get_mut(&request.session_id).ok_or(ErrorCode::FetchSessionIdNotFound)?;
                let shared = slot.session.clone();
                let mut session = shared.lock();
                if session.epoch != epoch {
                    return Err(ErrorCode::InvalidFetchSessionEpoch);
                }
                if session.by_id != by_id {
                    return Err(ErrorCode::FetchSessionTopicIdError);
                }
                let wanted = Arc::new(items.wanted.clone());
                session.update(items);
                if session.len() == 0 {
                    slots.remove(&request.session_id);
                    return Ok(Context::Sessionless(wanted));
                }
                session.epoch = next_epoch(epoch);
                slot.last_used = now;
                slot.partitions = session.len();
                let items = session.items();
                drop(session);
                Ok(Context::Incremental(items, shared))
            }
        }
    }

    /// Whether there is a place for a session of so many partitions, evicting one that may go.
    fn make_room(&self, slots: &mut HashMap<i32, Slot>, partitions: usize, now: Instant) -> bool {
        if slots.len() < self.slots_max {
            return true;
        }
        let unused = |slot: &Slot| now.duration_since(slot.last_used) > EVICTION_MIN;
        let oldest = slots.iter().filter(|(_, slot)| unused(slot)).min_by_key(|(_, slot)| slot.last_used);
        let yields =
            |slot: &Slot| now.duration_since(slot.created) > EVICTION_MIN && slot.partitions < partitions;
        let smallest = slots.iter().filter(|(_, slot)| yields(slot)).min_by_key(|(_, slot)| slot.partitions);
        let Some(id) = oldest.or(smallest).map(|(id, _)| *id) else { return false };
        slots.remove(&id);
        true
    }
}

/// An id that no session has: random, so that a client of another broker, or of the time before a restart, does not hit one.
fn free_id(slots: &HashMap<i32, Slot>) -> i32 {
    loop {
        let random = uuid::Uuid::new_v4().as_u128() as u32;
        let id = (random & 0x7fff_ffff) as i32;
        if id != 0 && !slots.contains_key(&id) {
            return id;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::items::{Item, Key, Want};
    use super::*;

    fn request(session_id: i32, session_epoch: i32) -> FetchRequest {
        FetchRequest { session_id, session_epoch, ..Default::default() }
    }

    fn items(count: i32) -> Items {
        let item = |partition| Item {
            key: Key { topic: "t".into(), topic_id: Default::default(), by_id: false, partition },
            want: Want { offset: 0, bytes_max: 1, leader_epoch: -1, last_fetched_epoch: -1 },
            name: None,
        };
        Items { wanted: (0..count).map(item).collect(), forgotten: Vec::new() }
    }

    fn begin(cache: &SessionCache, count: i32) -> Option<i32> {
        match cache.open(&request(0, 0), items(count), false).unwrap() {
            Context::Full(_, session) => Some(session.lock().id),
            _ => None,
        }
    }

    #[test]
    fn a_session_is_followed_by_its_epochs() {
        let cache = SessionCache::new(10);
        let id = begin(&cache, 2).unwrap();
        assert!(matches!(cache.open(&request(id, 1), Items::default(), false), Ok(Context::Incremental(..))));
        let stale = cache.open(&request(id, 1), Items::default(), false).err();
        assert_eq!(stale, Some(ErrorCode::InvalidFetchSessionEpoch));
        let mixed = cache.open(&request(id, 2), Items::default(), true).err();
        assert_eq!(mixed, Some(ErrorCode::FetchSessionTopicIdError));
        assert!(matches!(
            cache.open(&request(id, FINAL_EPOCH), items(1), false),
            Ok(Context::Sessionless(_))
        ));
        let gone = cache.open(&request(id, 2), Items::default(), false).err();
        assert_eq!(gone, Some(ErrorCode::FetchSessionIdNotFound));
    }

    #[test]
    fn a_full_cache_gives_no_session_and_evicts_nobody_young() {
        let cache = SessionCache::new(1);
        let first = begin(&cache, 1).unwrap();
        assert_eq!(begin(&cache, 9), None);
        assert!(cache.open(&request(first, 1), Items::default(), false).is_ok());
    }

    #[test]
    fn an_old_session_yields_to_a_larger_one_and_an_unused_one_to_any() {
        let cache = SessionCache::new(1);
        let now = Instant::now();
        let later = now + EVICTION_MIN + Duration::from_secs(1);
        begin(&cache, 5).unwrap();
        let mut slots = cache.slots.lock();
        assert!(!cache.make_room(&mut slots, 9, now));
        for slot in slots.values_mut() {
            slot.last_used = later;
        }
        assert!(!cache.make_room(&mut slots, 5, later), "not larger");
        assert!(cache.make_room(&mut slots, 6, later));
        drop(slots);
        begin(&cache, 5).unwrap();
        let mut slots = cache.slots.lock();
        assert!(cache.make_room(&mut slots, 1, later + EVICTION_MIN), "unused");
    }
}
