//! One line of a journal: a JSON object whose last member is the checksum of the bytes before it.
//!
//! `{"synced":4096,"entry":{...},"crc32c":123}`: for `jq` it is a member like any other. The checksum is CRC-32C over the line from
//! its brace up to, and without, the comma before `"crc32c"`. A line ends with a newline, and has none inside.

use std::io::Write;

use serde::Serialize;
use serde::de::DeserializeOwned;

const CRC: &[u8] = b",\"crc32c\":";

/// Adds `value`, which must be a struct with members, as a line.
pub(crate) fn push_line<T: Serialize>(buffer: &mut Vec<u8>, value: &T) -> std::io::Result<()> {
    let start = buffer.len();
    serde_json::to_writer(&mut *buffer, value)?;
    // The brace comes back behind the checksum.
    buffer.pop();
    let crc = crc32c::crc32c(&buffer[start..]);
    buffer.extend_from_slice(CRC);
    writeln!(buffer, "{crc}}}")
}

/// The value of a line, without its newline; `None` when the line is not whole.
pub(crate) fn read_line<T: DeserializeOwned>(line: &[u8]) -> Option<T> {
    let body = line.strip_suffix(b"}")?;
    let digits = body.iter().rev().take_while(|byte| byte.is_ascii_digit()).count();
    let (head, crc) = body.split_at(body.len() - digits);
    let head = head.strip_suffix(CRC)?;
    let crc: u32 = std::str::from_utf8(crc).ok()?.parse().ok()?;
    if crc32c::crc32c(head) != crc {
        return None;
    }
    serde_json::from_slice(line).ok()
}

#[cfg(test)]
mod tests {
    use serde::Deserialize;

    use super::*;

    #[derive(Serialize, Deserialize, PartialEq, Debug)]
    struct Sample {
        text: String,
        number: i64,
    }

    #[test]
    fn a_line_reads_back_and_no_changed_byte_goes_unnoticed() {
        let sample =
            Sample { text: "line\nbreak \u{1f600} \"quoted\" ,\"crc32c\":1}".to_owned(), number: -7 };
        let mut buffer = b"before\n".to_vec();
        push_line(&mut buffer, &sample).unwrap();
        let line = buffer.strip_prefix(b"before\n").unwrap().strip_suffix(b"\n").unwrap();
        assert!(!line.contains(&b'\n'));
        assert_eq!(read_line::<Sample>(line).as_ref(), Some(&sample));
        assert!(serde_json::from_slice::<serde_json::Value>(line).unwrap()["crc32c"].is_u64());
        for at in 0..line.len() {
            assert_eq!(read_line::<Sample>(&line[..at]), None, "cut at {at}");
            let mut bad = line.to_vec();
            bad[at] ^= 0x01;
            assert_eq!(read_line::<Sample>(&bad), None, "byte {at}");
        }
    }
}
