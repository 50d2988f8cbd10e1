//! Conversion up: what a producer of an old version sends becomes one record batch, by the rules of Kafka 3.7.

use bytes::Bytes;

use super::message::{LOG_OVERHEAD, Message, codec, has_right_crc};
use super::wrapper::for_each_inner;
use crate::config::LogConfig;
use crate::error::{AppendError, CorruptBatch, MessageTooLarge};
use crate::record::assemble::Assembler;
use crate::record::rules::RecordRules;
use crate::record::validate::{Frame, ValidBatch, frame, invalid, stamp};
use crate::record::{CompressionCodec, MAGIC_AT};

/// Checks the messages in `set`, whose first one is of magic 0 or 1, and makes one record batch of them.
pub(in crate::record) fn convert(
    set: &Bytes,
    config: &LogConfig,
    now_ms: i64,
) -> Result<ValidBatch, AppendError> {
    let source = check_frames(set, config)?;
    let mut converter = Converter {
        config,
        now_ms,
        magic: set[MAGIC_AT],
        batch: Assembler::new(config.compression.target(source), config.message_bytes_max)?,
    };
    for bytes in frames(set) {
        let bytes = bytes?;
        if bytes[MAGIC_AT] != converter.magic {
            return Err(invalid("the messages of a set must have one magic"));
        }
        let message = message(bytes)?;
        match message.codec() {
            CompressionCodec::None => converter.single(&message)?,
            _ => converter.wrapped(&message)?,
        }
    }
    let (header, records) = converter.batch.finish()?;
    stamp(header, records.into(), config, now_ms, header.max_timestamp)
}

/// The checks that come first, for all messages: sizes and checksums. Returns the codec of the set.
fn check_frames(set: &[u8], config: &LogConfig) -> Result<CompressionCodec, AppendError> {
    let mut source = CompressionCodec::None;
    let mut count = 0;
    for bytes in frames(set) {
        let bytes = bytes?;
        count += 1;
        let limit = config.message_bytes_max;
        if bytes.len() as u64 > u64::from(limit) {
            return Err(MessageTooLarge { size: bytes.len(), limit }.into());
        }
        // A record batch among messages is refused for its magic later; its checksum is another one.
        if bytes[MAGIC_AT] > 1 {
            continue;
        }
        let body = &bytes[LOG_OVERHEAD..];
        if !has_right_crc(body) {
            return Err(CorruptBatch { why: "the checksum of a message is wrong".to_owned() }.into());
        }
        match codec(body) {
            None | Some(CompressionCodec::None) => {}
            Some(unknown @ CompressionCodec::Unknown(_)) => return Err(unknown_codec(unknown)),
            Some(codec) => source = codec,
        }
    }
    if source != CompressionCodec::None && count > 1 {
        return Err(invalid("a compressed message must be the only one"));
    }
    Ok(source)
}

/// The messages of a set, undecoded. What is left of a cut one at the end is dropped, as Kafka drops it.
fn frames(mut set: &[u8]) -> impl Iterator<Item = Result<&[u8], AppendError>> {
    std::iter::from_fn(move || match frame(set) {
        Ok(Frame::Batch(size)) => {
            let (message, rest) = set.split_at(size);
            set = rest;
            Some(Ok(message))
        }
        Ok(Frame::Nothing) => None,
        Err(error) => {
            set = &[];
            Some(Err(error))
        }
    })
}

fn message(bytes: &[u8]) -> Result<Message<'_>, AppendError> {
    let (head, body) =
        bytes.split_first_chunk::<LOG_OVERHEAD>().ok_or_else(|| invalid("a message without a head"))?;
    let [o0, o1, o2, o3, o4, o5, o6, o7, ..] = *head;
    let offset = i64::from_be_bytes([o0, o1, o2, o3, o4, o5, o6, o7]);
    Message::parse(offset, body).map_err(|error| invalid(error.to_string()))
}

pub(super) fn unknown_codec(codec: CompressionCodec) -> AppendError {
    AppendError::UnsupportedCompression { codec: codec.bits() as u8 }
}

struct Converter<'a> {
    config: &'a LogConfig,
    now_ms: i64,
    magic: u8,
    batch: Assembler,
}

impl Converter<'_> {
    fn single(&mut self, message: &Message<'_>) -> Result<(), AppendError> {
        let mut rules = RecordRules::new(self.config, self.now_ms, message.is_log_append_time());
        rules.check(message.timestamp, message.key.is_some());
        rules.finish()?;
        self.batch.push(message.timestamp, message.key, message.value)
    }

    fn wrapped(&mut self, wrapper: &Message<'_>) -> Result<(), AppendError> {
        let mut rules = RecordRules::new(self.config, self.now_ms, wrapper.is_log_append_time());
        for_each_inner(wrapper, self.config.message_bytes_max, |message, right_crc| {
            if message.magic != wrapper.magic {
                rules.refuse("its magic is not that of the message around it".to_owned());
                return Ok(());
            }
            if !right_crc {
                return Err(CorruptBatch { why: "the checksum of a message is wrong".to_owned() }.into());
            }
            if rules.check(message.timestamp, message.key.is_some()) {
                self.batch.push(message.timestamp, message.key, message.value)?;
            }
            Ok(())
        })?;
        rules.finish()
    }
}
