//! What older readers cannot read: stored batches are converted down for them, or kept from them.
//!
//! Versions 0 and 1 read messages of magic 0, versions 2 and 3 of magic 1. Versions below 10 know no zstd (KIP-110), so topics of that
//! codec are closed to them.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use bytes::Bytes;
use kaas_core::record::{DownConversion, DownConvertError, OldMagic, down_convert};
use kaas_core::{Compression, LogConfig, Slice};
use kaas_proto::ErrorCode;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::items::{Item, Shared};
use super::read::{Outcome, Round};
use crate::broker::Broker;
use crate::error::ApiError;

/// The first version whose readers know zstd.
pub(super) const ZSTD_FROM: i16 = 10;
/// The first version that reads record batches.
const BATCHES_FROM: i16 = 4;
/// The first version whose readers know of failed storage.
const STORAGE_ERROR_FROM: i16 = 6;
/// Most bytes of converted records in one answer, but for the batch that passes it.
const CONVERTED_BYTES_MAX: usize = 8 << 20;
/// Answers that may hold so much at the same time. Converted records are in memory until they are sent, and a reader may take its time;
/// the next answer has one batch only, until one of these is gone.
const LARGE_ANSWERS_MAX: usize = 16;

/// What all conversions of a broker share.
#[derive(Debug)]
pub struct Conversions {
    /// Conversions at work: as many as there are processors, as each holds a record and needs one.
    running: Semaphore,
    large: Arc<Semaphore>,
    /// Which partition comes first: the oldest versions ask for all of them in one order, and none shall starve.
    turn: AtomicUsize,
}

impl Default for Conversions {
    fn default() -> Conversions {
        let processors = std::thread::available_parallelism().map_or(1, usize::from);
        Conversions {
            running: Semaphore::new(processors),
            large: Arc::new(Semaphore::new(LARGE_ANSWERS_MAX)),
            turn: AtomicUsize::new(0),
        }
    }
}

impl Conversions {
    /// How much the next answer may hold, and the right to.
    fn begin(&self) -> (usize, Option<Arc<OwnedSemaphorePermit>>) {
        match Arc::clone(&self.large).try_acquire_owned() {
            Ok(permit) => (CONVERTED_BYTES_MAX, Some(Arc::new(permit))),
            Err(_) => (1, None),
        }
    }
}

/// Converted records, and the right to hold them.
struct Held {
    bytes: Vec<u8>,
    _permit: Option<Arc<OwnedSemaphorePermit>>,
}

impl AsRef<[u8]> for Held {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

/// Makes a round readable for clients of `version`. Converting happens on a thread that may wait, so that no other connection does.
pub(super) async fn for_version(
    broker: &Arc<Broker>,
    items: &Shared,
    mut round: Round,
    version: i16,
) -> Result<Round, ApiError> {
    if version < STORAGE_ERROR_FROM {
        round.outcomes.iter_mut().for_each(hide_storage_error);
    }
    if version >= ZSTD_FROM {
        return Ok(round);
    }
    if version >= BATCHES_FROM {
        let outcomes = round.outcomes.iter_mut().zip(items.iter());
        outcomes.for_each(|(outcome, item)| refuse_zstd(outcome, config(broker, item).as_deref()));
        return Ok(round);
    }
    let magic = if version < 2 { OldMagic::V0 } else { OldMagic::V1 };
    let items = Arc::clone(items);
    let _running = broker.conversions.running.acquire().await;
    broker.blocking(move |broker| down(broker, &items, round, magic)).await
}

/// Converts what the outcomes have, beginning with another one at every call, until the answer is full.
fn down(broker: &Broker, items: &[Item], mut round: Round, magic: OldMagic) -> Round {
    let (mut left, permit) = broker.conversions.begin();
    let turn = broker.conversions.turn.fetch_add(1, Ordering::Relaxed) % items.len().max(1);
    for at in (turn..items.len()).chain(0..turn) {
        let (outcome, item) = (&mut round.outcomes[at], &items[at]);
        let Some(config) = config(broker, item) else { continue };
        refuse_zstd(outcome, Some(&config));
        if !config.down_conversion {
            *outcome = Outcome::Unreadable(ErrorCode::UnsupportedVersion);
        }
        let Outcome::Data(data) = outcome else { continue };
        let conversion = DownConversion {
            magic,
            from_offset: item.want.offset,
            bytes_max: left,
            message_bytes_max: config.message_bytes_max,
        };
        match convert(&data.slice, &conversion) {
            Ok(bytes) => {
                left = left.saturating_sub(bytes.len());
                let held = Held { bytes, _permit: permit.clone() };
                data.slice =
                    if held.bytes.is_empty() { Slice::Empty } else { Slice::Bytes(Bytes::from_owner(held)) };
            }
            Err(code) => *outcome = Outcome::Unreadable(code),
        }
    }
    round
}

/// The records in the old format; none where the answer is full.
fn convert(slice: &Slice, conversion: &DownConversion) -> Result<Vec<u8>, ErrorCode> {
    if slice.is_empty() || conversion.bytes_max == 0 {
        return Ok(Vec::new());
    }
    down_convert(slice, conversion).map_err(|error| match error {
        DownConvertError::Zstd => ErrorCode::UnsupportedCompressionType,
        DownConvertError::RecordTooLarge(_) => ErrorCode::MessageTooLarge,
        DownConvertError::Damaged(_) => ErrorCode::CorruptMessage,
        DownConvertError::Storage(_) => ErrorCode::NotLeaderOrFollower,
    })
}

/// A topic of zstd answers older readers with an error, whatever is in it.
fn refuse_zstd(outcome: &mut Outcome, config: Option<&LogConfig>) {
    if config.is_some_and(|config| config.compression == Compression::Zstd) {
        *outcome = Outcome::Unreadable(ErrorCode::UnsupportedCompressionType);
    }
}

/// Older readers give up on the storage code; this one makes them ask again.
fn hide_storage_error(outcome: &mut Outcome) {
    if let Outcome::Failed(code @ ErrorCode::KafkaStorageError) = outcome {
        *code = ErrorCode::NotLeaderOrFollower;
    }
}

/// The settings of an item's log; these versions name topics.
fn config(broker: &Broker, item: &Item) -> Option<Arc<LogConfig>> {
    broker.partition(&item.key.topic, item.key.partition).ok().map(|partition| partition.config())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn large_answers_are_counted_until_their_bytes_are_gone() {
        let conversions = Conversions::default();
        let mut held: Vec<Bytes> = Vec::new();
        for _ in 0..LARGE_ANSWERS_MAX {
            let (bytes_max, permit) = conversions.begin();
            assert_eq!(bytes_max, CONVERTED_BYTES_MAX);
            held.push(Bytes::from_owner(Held { bytes: vec![1], _permit: permit }));
        }
        let part = held[0].slice(..1);
        held.remove(0);
        assert_eq!(conversions.begin().0, 1);
        drop(part);
        assert_eq!(conversions.begin().0, CONVERTED_BYTES_MAX);
    }
}
