//! Record batches from JSON and to JSON, well-formed or not.

use std::io::Write;

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
/// The time of records that do not say theirs, in milliseconds since the epoch.
const TIME: i64 = 1_700_000_000_000;
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

/// Messages of the formats before record batches, magic 0 and 1.
fn message_set(map: &Map<String, Value>, magic: i8) -> Result<Vec<u8>> {
    let mut out = Vec::new();
    for (offset, value) in map.get("records").and_then(Value::as_array).into_iter().flatten().enumerate() {
        let mut message = vec![magic as u8, 0];
        if magic == 1 {
            message.extend(TIME.to_be_bytes());
        }
        message.extend((-1i32).to_be_bytes());
        let value = text(value)?.as_bytes();
        message.extend((value.len() as i32).to_be_bytes());
        message.extend(value);
        let mut crc = flate2::Crc::new();
        crc.update(&message);
        out.extend((offset as i64).to_be_bytes());
        out.extend((message.len() as i32 + 4).to_be_bytes());
        out.extend(crc.sum().to_be_bytes());
        out.extend(message);
    }
    Ok(out)
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
/// The CRC is told as good or bad: it is the broker's own wherever the broker rewrites a batch.
pub(crate) fn describe(mut bytes: &[u8]) -> Value {
    let mut batches = Vec::new();
    while !bytes.is_empty() {
        let length =
            bytes.get(8..12).map(|field| i32::from_be_bytes([field[0], field[1], field[2], field[3]]));
        let end = length.map_or(usize::MAX, |length| (length.max(0) as usize).saturating_add(LENGTH_FROM));
        if bytes.len() < HEADER_BYTES || end > bytes.len() {
            batches.push(json!({ "partialBytes": bytes.len() }));
            break;
        }
        batches.push(describe_batch(&bytes[..end]));
        bytes = &bytes[end..];
    }
    Value::Array(batches)
}

fn describe_batch(batch: &[u8]) -> Value {
    let long = |at: usize| batch[at..at + 8].iter().fold(0i64, |sum, byte| sum << 8 | i64::from(*byte));
    let int = |at: usize| long(at - 4) as i32;
    let short = |at: usize| int(at - 2) as i16;
    let records = &batch[HEADER_BYTES..];
    let shown = if records.len() <= SHOWN_BYTES_MAX {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_batch_is_described_as_it_was_asked_for() {
        let asked = json!({ "records": ["a", {"key": "k", "value": null, "time": 5}], "pid": 7, "epoch": 1, "seq": 3 });
        let bytes = encode_all(&asked).unwrap().unwrap();
        let described = &describe(&bytes)[0];
        assert_eq!(described["crcGood"], true);
        assert_eq!(described["maxTimestamp"], TIME + 5);
        let numbers = ["lastOffsetDelta", "count", "producerId", "producerEpoch", "baseSequence"];
        assert_eq!(numbers.map(|key| described[key].as_i64().unwrap()), [1, 2, 7, 1, 3]);
        assert_eq!(describe(&bytes[..bytes.len() - 1])[0]["partialBytes"], bytes.len() - 1);
    }

    #[test]
    fn a_wrong_crc_is_told() {
        let bytes = encode_all(&json!({ "records": ["a"], "crc": 1 })).unwrap().unwrap();
        assert_eq!(describe(&bytes)[0]["crcGood"], false);
    }
}
