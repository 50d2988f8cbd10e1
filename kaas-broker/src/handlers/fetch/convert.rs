//! What older readers cannot read: stored batches are converted down for them, or kept from them.
//!
//! Versions 0 and 1 read messages of magic 0, versions 2 and 3 of magic 1. Versions below 10 know no zstd (KIP-110), so topics of that
//! codec are closed to them.

use std::sync::Arc;

use bytes::Bytes;
use kaas_core::record::{DownConversion, DownConvertError, OldMagic, down_convert};
use kaas_core::{Compression, LogConfig, ReadData, Slice};
use kaas_proto::ErrorCode;

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
/// Memory for the converted records of one answer, shared evenly by the partitions that have any; each still gets its first batch.
const CONVERTED_BYTES_MAX: usize = 8 << 20;

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
    broker.blocking(move |broker| down(broker, &items, round, magic)).await
}

fn down(broker: &Broker, items: &[Item], mut round: Round, magic: OldMagic) -> Round {
    let with_records = round.outcomes.iter().filter(|outcome| has_records(outcome)).count();
    let share = CONVERTED_BYTES_MAX / with_records.max(1);
    for (outcome, item) in round.outcomes.iter_mut().zip(items) {
        let Some(config) = config(broker, item) else { continue };
        refuse_zstd(outcome, Some(&config));
        if !config.down_conversion {
            *outcome = Outcome::Unreadable(ErrorCode::UnsupportedVersion);
        }
        if let Outcome::Data(data) = outcome
            && !data.slice.is_empty()
        {
            let conversion = DownConversion { magic, from_offset: item.want.offset, bytes_max: share };
            if let Err(code) = convert(data, &conversion) {
                *outcome = Outcome::Unreadable(code);
            }
        }
    }
    round
}

fn convert(data: &mut ReadData, conversion: &DownConversion) -> Result<(), ErrorCode> {
    let converted = down_convert(&data.slice, conversion).map_err(|error| match error {
        DownConvertError::Zstd => ErrorCode::UnsupportedCompressionType,
        DownConvertError::Damaged(_) => ErrorCode::CorruptMessage,
        DownConvertError::Storage(_) => ErrorCode::NotLeaderOrFollower,
    })?;
    data.slice = Slice::Bytes(Bytes::from(converted));
    Ok(())
}

fn has_records(outcome: &Outcome) -> bool {
    matches!(outcome, Outcome::Data(data) if !data.slice.is_empty())
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
