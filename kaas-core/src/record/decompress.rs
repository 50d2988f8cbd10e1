//! Streamed decompression of a batch's records, with a cap on what comes out.

use std::io::{self, BufRead, BufReader, Read};

use flate2::bufread::MultiGzDecoder;

use super::CompressionCodec;

/// A batch may decompress to this much, however small it is.
pub const DECOMPRESSED_BYTES_MAX: u64 = 64 << 20;

/// A batch may decompress to this many times its own size, however large that is.
const DECOMPRESSED_RATIO_MAX: u64 = 256;

pub(super) const XERIAL_MAGIC: [u8; 8] = [0x82, b'S', b'N', b'A', b'P', b'P', b'Y', 0];
/// Magic, version and lowest compatible version.
const XERIAL_HEADER_BYTES: usize = 16;

const BUFFER_BYTES: usize = 16 << 10;

/// The decompressed records of a batch as a stream; reading past the cap is an error of the stream.
///
/// `None` for a codec that does not exist.
pub(crate) fn decompress(codec: CompressionCodec, bytes: &[u8]) -> io::Result<Option<Box<dyn BufRead + '_>>> {
    let cap = DECOMPRESSED_BYTES_MAX.max((bytes.len() as u64).saturating_mul(DECOMPRESSED_RATIO_MAX));
    Ok(Some(match codec {
        CompressionCodec::None => Box::new(bytes),
        CompressionCodec::Gzip => capped(MultiGzDecoder::new(bytes), cap),
        CompressionCodec::Lz4 => capped(lz4_flex::frame::FrameDecoder::new(bytes), cap),
        CompressionCodec::Zstd => capped(zstd::stream::read::Decoder::with_buffer(bytes)?, cap),
        CompressionCodec::Snappy => capped(Snappy::new(bytes, cap), cap),
        CompressionCodec::Unknown(_) => return Ok(None),
    }))
}

fn capped<'a>(stream: impl Read + 'a, cap: u64) -> Box<dyn BufRead + 'a> {
    Box::new(BufReader::with_capacity(BUFFER_BYTES, Capped { stream, left: cap }))
}

struct Capped<R> {
    stream: R,
    left: u64,
}

impl<R: Read> Read for Capped<R> {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        let read = self.stream.read(buf)?;
        self.left = self.left.checked_sub(read as u64).ok_or_else(too_large)?;
        Ok(read)
    }
}

fn too_large() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, "the batch decompresses to more than is allowed")
}

/// Snappy block by block: either one raw block, or xerial's frame of length-prefixed blocks.
struct Snappy<'a> {
    rest: &'a [u8],
    framed: bool,
    block: Vec<u8>,
    read: usize,
    cap: u64,
}

impl<'a> Snappy<'a> {
    fn new(bytes: &'a [u8], cap: u64) -> Self {
        let framed = bytes.starts_with(&XERIAL_MAGIC) && bytes.len() >= XERIAL_HEADER_BYTES;
        let rest = if framed { &bytes[XERIAL_HEADER_BYTES..] } else { bytes };
        Self { rest, framed, block: Vec::new(), read: 0, cap }
    }

    fn next_block(&mut self) -> io::Result<()> {
        let compressed = if self.framed {
            let bad = || io::Error::new(io::ErrorKind::InvalidData, "a snappy block is cut short");
            let (length, rest) = self.rest.split_first_chunk::<4>().ok_or_else(bad)?;
            let length = usize::try_from(i32::from_be_bytes(*length)).map_err(|_| bad())?;
            let (block, rest) = rest.split_at_checked(length).ok_or_else(bad)?;
            self.rest = rest;
            block
        } else {
            std::mem::take(&mut self.rest)
        };
        // The length comes from the client: checked against the cap, and against what a snappy element can
        // yield (64 bytes from three), before memory is taken.
        let length = snap::raw::decompress_len(compressed)?;
        if length as u64 > self.cap || length > compressed.len().saturating_mul(64) {
            return Err(too_large());
        }
        self.block.resize(length, 0);
        self.read = 0;
        let n = snap::raw::Decoder::new().decompress(compressed, &mut self.block)?;
        self.block.truncate(n);
        Ok(())
    }
}

impl Read for Snappy<'_> {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        while self.read == self.block.len() {
            if self.rest.is_empty() {
                return Ok(0);
            }
            self.next_block()?;
        }
        let taken = buf.len().min(self.block.len() - self.read);
        buf[..taken].copy_from_slice(&self.block[self.read..self.read + taken]);
        self.read += taken;
        Ok(taken)
    }
}
