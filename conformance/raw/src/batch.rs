//! Record batches from JSON and to JSON, well-formed or not.

use std::io::{Read, Write};

use anyhow::{Context, Result, bail};
use serde_json::{Map, Value, json};

use crate::encode::{from_hex, number, text, to_hex};

/// Bytes of a v2 batch before its records.
const HEADER_BYTES: usize = 61;
/// Where the batch's length counts from.
const LENGTH_FROM: usize = 12;
const MAGIC_AT: usize = 16;
const CRC_AT: usize = 17;
const CRC_FROM: usize = 21;
/// The checksum of an LZ4 frame's header with independent blocks of 64 KiB and nothing else.
const LZ4_HEADER_CHECKSUM: u8 = 0x82;
/// The time of records that do not say theirs, in milliseconds since the epoch.
const TIME: i64 = 1_700_000_000_000;
/// The bit of control batches in a batch's attributes.
const CONTROL: i16 = 0x20;
/// Records longer than this are shown by their length and CRC only.
const SHOWN_BYTES_MAX: usize = 256;

/// The bytes of a `records` field: null, one batch, or an array of batches.
pub(crate) fn encode_all(value: &Value) -> Result<Option<Vec<u8>>> {
    match value {
        Value::Null => Ok(None),
        Value::Array(batches) => {
            let mut out = Vec::new();
            for batch in batches {
                out.extend(encode(batch)?);
            }
            Ok(Some(out))
        }
        batch => encode(batch).map(Some),
    }
}

/// One batch. Every header field can be given; what is not is computed from the records.
///
/// Keys: `records`, `codec`, `attributes`, `baseOffset`, `leaderEpoch`, `magic`, `time`, `maxTime`, `pid`, `epoch`, `seq`,
/// `lastOffsetDelta`, `count`; then, breaking what was built: `length` and `crc` replace, `cut` takes bytes off the end,
/// `tail` adds some. `hex` alone gives the bytes themselves.
fn encode(value: &Value) -> Result<Vec<u8>> {
    let map = value.as_object().context("a batch is an object")?;
    if let Some(hex) = map.get("hex") {
        return from_hex(text(hex)?);
    }
    let int = |key: &str, default: i64| map.get(key).map_or(Ok(default), number);
    let magic = int("magic", 2)?;
    if magic < 2 {
        return message_set(map, magic as i8);
    }
    let none = Vec::new();
    let records = map.get("records").and_then(Value::as_array).unwrap_or(&none);
    let time = int("time", TIME)?;
    let mut body = Vec::new();
    let mut latest = 0;
    for (index, one) in records.iter().enumerate() {
        body.extend(record(one, index as i64)?);
        latest = latest.max(one.get("time").map_or(Ok(0), number)?);
    }
    let codec = map.get("codec").map_or(Ok("none"), text)?;
    let (code, body) = compress(codec, body)?;
    let count = records.len() as i64;
    let mut out = Vec::new();
    out.extend(int("baseOffset", 0)?.to_be_bytes());
    out.extend((int("length", (HEADER_BYTES - LENGTH_FROM + body.len()) as i64)? as i32).to_be_bytes());
    out.extend((int("leaderEpoch", -1)? as i32).to_be_bytes());
    out.push(magic as u8);
    out.extend([0; 4]);
    out.extend((int("attributes", 0)? as i16 | code).to_be_bytes());
    out.extend((int("lastOffsetDelta", count - 1)? as i32).to_be_bytes());
    out.extend(time.to_be_bytes());
    out.extend(int("maxTime", time + latest)?.to_be_bytes());
    out.extend(int("pid", -1)?.to_be_bytes());
    out.extend((int("epoch", -1)? as i16).to_be_bytes());
    out.extend((int("seq", -1)? as i32).to_be_bytes());
    out.extend((int("count", count)? as i32).to_be_bytes());
    out.extend(body);
    let crc = int("crc", i64::from(crc32c::crc32c(&out[CRC_FROM..])))? as u32;
    out[CRC_AT..CRC_FROM].copy_from_slice(&crc.to_be_bytes());
    out.truncate(out.len() - int("cut", 0)? as usize);
    if let Some(tail) = map.get("tail") {
        out.extend(from_hex(text(tail)?)?);
    }
    Ok(out)
}

/// One record with its length before it: a string is a value; an object has `key`, `value`, `time` (from the batch's),
/// `delta` (from its offset), `headers`, `attributes`; `length` lies; `hex` is the record's bytes after the length.
fn record(value: &Value, index: i64) -> Result<Vec<u8>> {
    let mut body = Vec::new();
    if let Some(hex) = value.get("hex") {
        body = from_hex(text(hex)?)?;
    } else {
        let whole = json!({ "value": value });
        let value = if value.is_object() { value } else { &whole };
        let int = |key: &str, default: i64| value.get(key).map_or(Ok(default), number);
        body.push(int("attributes", 0)? as u8);
        varint(&mut body, int("time", 0)?);
        varint(&mut body, int("delta", index)?);
        nullable(&mut body, value.get("key").unwrap_or(&Value::Null))?;
        nullable(&mut body, value.get("value").unwrap_or(&Value::Null))?;
        let none = Vec::new();
        let headers = value.get("headers").and_then(Value::as_array).unwrap_or(&none);
        varint(&mut body, int("headerCount", headers.len() as i64)?);
        for header in headers {
            nullable(&mut body, &header[0])?;
            nullable(&mut body, &header[1])?;
        }
    }
    let mut out = Vec::new();
    varint(&mut out, value.get("length").map_or(Ok(body.len() as i64), number)?);
    out.extend(body);
    Ok(out)
}

/// Messages of the formats before record batches, magic 0 and 1: `records`, then `cut` and `tail` as of a batch.
///
/// A message is a value as text, or an object of `key`, `value`, `time`, `offset` (its place by default), `attributes`, `magic`;
/// `set` gives a compressed set as the value, with its `codec`; `length` and `crc` lie.
fn message_set(map: &Map<String, Value>, magic: i8) -> Result<Vec<u8>> {
    let mut out = Vec::new();
    for (index, value) in map.get("records").and_then(Value::as_array).into_iter().flatten().enumerate() {
        let whole = json!({ "value": value });
        let value = if value.is_object() { value } else { &whole };
        message(&mut out, value, magic, index as i64)?;
    }
    let cut = map.get("cut").map_or(Ok(0), number)? as usize;
    out.truncate(out.len().saturating_sub(cut));
    if let Some(tail) = map.get("tail") {
        out.extend(from_hex(text(tail)?)?);
    }
    Ok(out)
}

fn message(out: &mut Vec<u8>, value: &Value, magic: i8, index: i64) -> Result<()> {
    let int = |key: &str, default: i64| value.get(key).map_or(Ok(default), number);
    let magic = int("magic", magic.into())? as i8;
    let sized = |field: Option<&Value>| -> Result<Option<Vec<u8>>> {
        Ok(match field {
            None | Some(Value::Null) => None,
            Some(field) => Some(text(field)?.as_bytes().to_vec()),
        })
    };
    let (code, content) = match value.get("set") {
        Some(set) => {
            let set = set.as_object().context("a set is an object")?;
            let codec = set.get("codec").map_or(Ok("none"), text)?;
            let (code, bytes) = compress(codec, message_set(set, magic)?)?;
            (code, Some(bytes))
        }
        None => (0, sized(value.get("value"))?),
    };
    let mut body = vec![magic as u8, int("attributes", 0)? as u8 | code as u8];
    if magic >= 1 {
        body.extend(int("time", TIME)?.to_be_bytes());
    }
    for field in [sized(value.get("key"))?, content] {
        body.extend(field.as_ref().map_or(-1, |bytes| bytes.len() as i32).to_be_bytes());
        body.extend(field.unwrap_or_default());
    }
    out.extend(int("offset", index)?.to_be_bytes());
    out.extend((int("length", body.len() as i64 + 4)? as i32).to_be_bytes());
    out.extend((int("crc", i64::from(crc32(&body)))? as u32).to_be_bytes());
    out.extend(body);
    Ok(())
}

fn crc32(bytes: &[u8]) -> u32 {
    let mut crc = flate2::Crc::new();
    crc.update(bytes);
    crc.sum()
}

/// The attribute bits of a codec and what it makes of `bytes`; `codeN` sets the bits only.
fn compress(codec: &str, bytes: Vec<u8>) -> Result<(i16, Vec<u8>)> {
    Ok(match codec {
        "none" => (0, bytes),
        "gzip" => {
            let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
            encoder.write_all(&bytes)?;
            (1, encoder.finish()?)
        }
        "snappy" => (2, snap::raw::Encoder::new().compress_vec(&bytes)?),
        "snappy-xerial" => {
            let block = snap::raw::Encoder::new().compress_vec(&bytes)?;
            let mut out = b"\x82SNAPPY\0\0\0\0\x01\0\0\0\x01".to_vec();
            out.extend((block.len() as u32).to_be_bytes());
            out.extend(block);
            (2, out)
        }
        "lz4" => {
            let mut encoder = lz4_flex::frame::FrameEncoder::new(Vec::new());
            encoder.write_all(&bytes)?;
            (3, encoder.finish()?)
        }
        "zstd" => (4, zstd::stream::encode_all(&bytes[..], 3)?),
        other => match other.strip_prefix("code") {
            Some(code) => (code.parse()?, bytes),
            None => bail!("no codec is called {other}"),
        },
    })
}

fn decompress(code: u8, bytes: &[u8]) -> Result<Vec<u8>> {
    let mut out = Vec::new();
    match code {
        0 => out.extend(bytes),
        1 => drop(flate2::read::MultiGzDecoder::new(bytes).read_to_end(&mut out)?),
        2 => {
            // Both compressors frame their blocks as xerial's Java library does.
            let mut rest = bytes.get(16..).context("a xerial header")?;
            while let Some((length, blocks)) = rest.split_first_chunk() {
                let (block, after) =
                    blocks.split_at_checked(u32::from_be_bytes(*length) as usize).context("a block")?;
                out.extend(snap::raw::Decoder::new().decompress_vec(block)?);
                rest = after;
            }
        }
        3 => drop(lz4_flex::frame::FrameDecoder::new(bytes).read_to_end(&mut out)?),
        4 => drop(zstd::stream::read::Decoder::new(bytes)?.read_to_end(&mut out)?),
        other => bail!("codec {other}"),
    }
    Ok(out)
}

/// The messages of a set, and those inside of them. A cut message at the end is told only where it is all there is: Kafka fills
/// an answer up with one, of bytes that mean nothing.
fn describe_set(bytes: &[u8]) -> Result<Value> {
    let mut messages = Vec::new();
    let mut rest = bytes;
    while let Some((head, body)) = rest.split_first_chunk::<LENGTH_FROM>() {
        let field = |at: usize| u32::from_be_bytes([head[at], head[at + 1], head[at + 2], head[at + 3]]);
        let Some((body, after)) = body.split_at_checked(field(8) as usize) else { break };
        let offset = i64::from(field(0)) << 32 | i64::from(field(4));
        messages.push(describe_message(offset, body)?);
        rest = after;
    }
    if messages.is_empty() {
        messages.push(json!({ "partialBytes": rest.len() }));
    }
    Ok(Value::Array(messages))
}

fn describe_message(offset: i64, body: &[u8]) -> Result<Value> {
    let (crc, covered) = body.split_first_chunk().context("a crc")?;
    let (&[magic, attributes], mut rest) = covered.split_first_chunk().context("a magic")?;
    let mut described = json!({ "offset": offset, "magic": magic, "attributes": attributes });
    described["crcGood"] = (u32::from_be_bytes(*crc) == crc32(covered)).into();
    if magic > 0 {
        let (time, after) = rest.split_first_chunk().context("a timestamp")?;
        described["timestamp"] = i64::from_be_bytes(*time).into();
        rest = after;
    }
    let mut next = || -> Result<Option<&[u8]>> {
        let (length, after) = rest.split_first_chunk().context("a length")?;
        let Ok(length) = usize::try_from(i32::from_be_bytes(*length)) else {
            rest = after;
            return Ok(None);
        };
        let (field, after) = after.split_at_checked(length).context("a field")?;
        rest = after;
        Ok(Some(field))
    };
    let (key, value) = (next()?, next()?);
    described["key"] = key.map(to_hex).into();
    let code = attributes & 7;
    match value {
        Some(packed) if code > 0 => {
            let mut packed = packed.to_vec();
            if code == 3 && magic == 0 {
                // KAFKA-3160: the checksum of the frame's header is another one in magic 0. Both brokers write the same
                // seven bytes, of which the last is told and then replaced by the one that the format wants.
                described["lz4Header"] = to_hex(&packed[..7]).into();
                packed[6] = LZ4_HEADER_CHECKSUM;
            }
            described["set"] = describe_set(&decompress(code, &packed)?)?;
        }
        value => described["value"] = value.map(to_hex).into(),
    }
    Ok(described)
}

fn varint(out: &mut Vec<u8>, number: i64) {
    let mut left = ((number << 1) ^ (number >> 63)) as u64;
    while left >= 0x80 {
        out.push(left as u8 | 0x80);
        left >>= 7;
    }
    out.push(left as u8);
}

fn nullable(out: &mut Vec<u8>, value: &Value) -> Result<()> {
    if value.is_null() {
        varint(out, -1);
    } else {
        let bytes = text(value)?.as_bytes();
        varint(out, bytes.len() as i64);
        out.extend(bytes);
    }
    Ok(())
}

/// What lies in a `records` field of an answer, header by header; the records themselves stay in hexadecimal.
///
/// The CRC is told as good or bad: it is the broker's own wherever the broker rewrites a batch. `unpack` shows records decompressed,
/// where two right compressors need not give the same bytes.
pub(crate) fn describe(mut bytes: &[u8], unpack: bool) -> Value {
    if bytes.get(MAGIC_AT).is_some_and(|magic| *magic < 2) {
        return describe_set(bytes).unwrap_or_else(|error| json!({ "undecodable": format!("{error:#}") }));
    }
    let mut batches = Vec::new();
    while !bytes.is_empty() {
        let length =
            bytes.get(8..12).map(|field| i32::from_be_bytes([field[0], field[1], field[2], field[3]]));
        let end = length.map_or(usize::MAX, |length| (length.max(0) as usize).saturating_add(LENGTH_FROM));
        if bytes.len() < HEADER_BYTES || end > bytes.len() {
            batches.push(json!({ "partialBytes": bytes.len() }));
            break;
        }
        batches.push(describe_batch(&bytes[..end], unpack));
        bytes = &bytes[end..];
    }
    Value::Array(batches)
}

fn describe_batch(batch: &[u8], unpack: bool) -> Value {
    let long = |at: usize| batch[at..at + 8].iter().fold(0i64, |sum, byte| sum << 8 | i64::from(*byte));
    let int = |at: usize| long(at - 4) as i32;
    let short = |at: usize| int(at - 2) as i16;
    let mut records = batch[HEADER_BYTES..].to_vec();
    if unpack && let Ok(unpacked) = decompress(short(21) as u8 & 7, &records) {
        records = unpacked;
    }
    let records = &records[..];
    let marker = (short(21) & CONTROL != 0).then(|| describe_marker(records)).flatten();
    let shown = if let Some(marker) = marker {
        marker
    } else if records.len() <= SHOWN_BYTES_MAX {
        Value::from(to_hex(records))
    } else {
        json!({ "bytes": records.len(), "crc32c": crc32c::crc32c(records) })
    };
    json!({
        "baseOffset": long(0),
        "partitionLeaderEpoch": int(12),
        "magic": batch[MAGIC_AT],
        "crcGood": crc32c::crc32c(&batch[CRC_FROM..]) == int(CRC_AT) as u32,
        "attributes": short(21),
        "lastOffsetDelta": int(23),
        "baseTimestamp": long(27),
        "maxTimestamp": long(35),
        "producerId": long(43),
        "producerEpoch": short(51),
        "baseSequence": int(53),
        "count": int(57),
        "records": shown,
    })
}

/// The end of a transaction, in words: its coordinator's epoch is each broker's own.
fn describe_marker(record: &[u8]) -> Option<Value> {
    // Length, attributes, time, offset, the key's length, version and type, the value's length, version and epoch, headers.
    let [_, 0, 0, 0, 8, 0, 0, 0, kind, 12, 0, 0, a, b, c, d, 0] = *record else { return None };
    let kind = match kind {
        0 => "abort",
        1 => "commit",
        _ => return None,
    };
    Some(json!({ "marker": kind, "coordinatorEpoch": i32::from_be_bytes([a, b, c, d]) }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_batch_is_described_as_it_was_asked_for() {
        let asked = json!({ "records": ["a", {"key": "k", "value": null, "time": 5}], "pid": 7, "epoch": 1, "seq": 3 });
        let bytes = encode_all(&asked).unwrap().unwrap();
        let described = &describe(&bytes, false)[0];
        assert_eq!(described["crcGood"], true);
        assert_eq!(described["maxTimestamp"], TIME + 5);
        let numbers = ["lastOffsetDelta", "count", "producerId", "producerEpoch", "baseSequence"];
        assert_eq!(numbers.map(|key| described[key].as_i64().unwrap()), [1, 2, 7, 1, 3]);
        assert_eq!(describe(&bytes[..bytes.len() - 1], false)[0]["partialBytes"], bytes.len() - 1);
    }

    #[test]
    fn messages_are_described_with_what_is_inside() {
        let inner =
            json!({ "codec": "snappy-xerial", "records": ["a", {"key": "k", "value": null, "time": 5}] });
        let asked = json!({ "magic": 1, "records": [{"set": inner, "offset": 1}], "tail": "00" });
        let described = describe(&encode_all(&asked).unwrap().unwrap(), false);
        let wrapper = &described[0];
        assert_eq!(
            (&wrapper["crcGood"], &wrapper["attributes"], &wrapper["offset"]),
            (&true.into(), &2.into(), &1.into())
        );
        assert_eq!((&wrapper["set"][0]["value"], &wrapper["set"][1]["key"]), (&"61".into(), &"6b".into()));
        assert_eq!((&wrapper["set"][1]["timestamp"], described.as_array().unwrap().len()), (&5.into(), 1));
    }

    #[test]
    fn a_wrong_crc_is_told() {
        let bytes = encode_all(&json!({ "records": ["a"], "crc": 1 })).unwrap().unwrap();
        assert_eq!(describe(&bytes, false)[0]["crcGood"], false);
    }
}
