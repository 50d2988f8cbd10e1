//! Streamed compression, with a cap on what comes out. The levels are those that Kafka 3.7 uses.

use std::io::{self, Write};

use flate2::write::GzEncoder;
use lz4_flex::frame::{BlockMode, BlockSize, FrameEncoder, FrameInfo};

use super::CompressionCodec;
use super::decompress::XERIAL_MAGIC;

/// Version and lowest compatible version of xerial's frame.
const XERIAL_VERSIONS: [u8; 8] = [0, 0, 0, 1, 0, 0, 0, 1];
/// Bytes that one snappy block is made of, as in Kafka's producer.
const SNAPPY_BLOCK_BYTES: usize = 32 << 10;
/// The zstd level of Kafka 3.7.
const ZSTD_LEVEL: i32 = 3;

/// What was written does not fit.
#[derive(Debug, thiserror::Error)]
#[error("more than {limit} bytes")]
pub(crate) struct TooLong {
    pub(crate) limit: usize,
}

impl TooLong {
    /// Whether an encoder failed because its output does not fit.
    pub(crate) fn caused(error: &io::Error) -> bool {
        error.get_ref().is_some_and(|cause| cause.is::<Self>())
    }
}

/// Compresses what is written to it, into memory.
pub(crate) enum Encoder {
    None(Bounded),
    Gzip(Box<GzEncoder<Bounded>>),
    Snappy(Xerial),
    Lz4(Box<FrameEncoder<Bounded>>),
    Zstd(zstd::stream::write::Encoder<'static, Bounded>),
}

impl Encoder {
    /// An encoder whose output may have `limit` bytes.
    ///
    /// # Errors
    /// A codec that does not exist, or that cannot be set up.
    pub(crate) fn new(codec: CompressionCodec, limit: usize) -> io::Result<Self> {
        let out = Bounded { bytes: Vec::new(), limit };
        Ok(match codec {
            CompressionCodec::None => Self::None(out),
            CompressionCodec::Gzip => {
                Self::Gzip(Box::new(GzEncoder::new(out, flate2::Compression::default())))
            }
            CompressionCodec::Snappy => Self::Snappy(Xerial::new(out)?),
            CompressionCodec::Lz4 => {
                // Kafka reads frames of independent blocks only.
                let info = FrameInfo::new().block_size(BlockSize::Max64KB).block_mode(BlockMode::Independent);
                Self::Lz4(Box::new(FrameEncoder::with_frame_info(info, out)))
            }
            CompressionCodec::Zstd => Self::Zstd(zstd::stream::write::Encoder::new(out, ZSTD_LEVEL)?),
            CompressionCodec::Unknown(codec) => {
                return Err(io::Error::new(io::ErrorKind::Unsupported, format!("codec {codec}")));
            }
        })
    }

    /// Everything that was written, compressed.
    ///
    /// # Errors
    /// [`TooLong`], inside.
    pub(crate) fn finish(self) -> io::Result<Vec<u8>> {
        let out = match self {
            Self::None(out) => out,
            Self::Gzip(encoder) => encoder.finish()?,
            Self::Snappy(encoder) => encoder.finish()?,
            Self::Lz4(encoder) => encoder.finish().map_err(io::Error::from)?,
            Self::Zstd(encoder) => encoder.finish()?,
        };
        Ok(out.bytes)
    }
}

impl Write for Encoder {
    fn write(&mut self, buf: &[u8]) -> io::Result<usize> {
        match self {
            Self::None(out) => out.write(buf),
            Self::Gzip(encoder) => encoder.write(buf),
            Self::Snappy(encoder) => encoder.write(buf),
            Self::Lz4(encoder) => encoder.write(buf),
            Self::Zstd(encoder) => encoder.write(buf),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Memory with a limit.
#[derive(Debug)]
pub(crate) struct Bounded {
    bytes: Vec<u8>,
    limit: usize,
}

impl Write for Bounded {
    fn write(&mut self, buf: &[u8]) -> io::Result<usize> {
        if buf.len() > self.limit.saturating_sub(self.bytes.len()) {
            return Err(io::Error::other(TooLong { limit: self.limit }));
        }
        self.bytes.extend_from_slice(buf);
        Ok(buf.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Snappy blocks in xerial's frame, as Java writes them.
#[derive(Debug)]
pub(crate) struct Xerial {
    out: Bounded,
    block: Vec<u8>,
}

impl Xerial {
    fn new(mut out: Bounded) -> io::Result<Self> {
        out.write_all(&XERIAL_MAGIC)?;
        out.write_all(&XERIAL_VERSIONS)?;
        Ok(Self { out, block: Vec::new() })
    }

    fn finish(mut self) -> io::Result<Bounded> {
        self.put_block()?;
        Ok(self.out)
    }

    fn put_block(&mut self) -> io::Result<()> {
        if self.block.is_empty() {
            return Ok(());
        }
        let compressed = snap::raw::Encoder::new().compress_vec(&self.block)?;
        self.out.write_all(&(compressed.len() as i32).to_be_bytes())?;
        self.out.write_all(&compressed)?;
        self.block.clear();
        Ok(())
    }
}

impl Write for Xerial {
    fn write(&mut self, buf: &[u8]) -> io::Result<usize> {
        let taken = buf.len().min(SNAPPY_BLOCK_BYTES - self.block.len());
        self.block.extend_from_slice(&buf[..taken]);
        if self.block.len() == SNAPPY_BLOCK_BYTES {
            self.put_block()?;
        }
        Ok(taken)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read;

    use super::super::decompress;
    use super::*;

    const CODECS: [CompressionCodec; 5] = [
        CompressionCodec::None,
        CompressionCodec::Gzip,
        CompressionCodec::Snappy,
        CompressionCodec::Lz4,
        CompressionCodec::Zstd,
    ];

    fn noise(len: usize) -> Vec<u8> {
        let mut state = 1u32;
        let next = || {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (state >> 24) as u8
        };
        std::iter::repeat_with(next).take(len).collect()
    }

    #[test]
    fn what_goes_in_comes_out() {
        for codec in CODECS {
            for bytes in [vec![7; 100_000], noise(70_000), vec![1], Vec::new()] {
                let mut encoder = Encoder::new(codec, 1 << 20).unwrap();
                encoder.write_all(&bytes).unwrap();
                let compressed = encoder.finish().unwrap();
                let mut back = Vec::new();
                decompress(codec, &compressed).unwrap().unwrap().read_to_end(&mut back).unwrap();
                assert!(back == bytes, "{codec:?} {}", bytes.len());
            }
        }
    }

    #[test]
    fn an_output_that_does_not_fit_is_told_from_other_failures() {
        for codec in CODECS {
            let mut encoder = Encoder::new(codec, 1000).unwrap();
            let error = encoder.write_all(&noise(200_000)).and_then(|()| encoder.finish()).unwrap_err();
            assert!(TooLong::caused(&error), "{codec:?}: {error}");
        }
        assert!(!TooLong::caused(&io::Error::other("another")));
    }
}
