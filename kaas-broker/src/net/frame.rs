//! Frames: a four-byte length and so many bytes. The buffer grows with what arrives, never with what is announced.

use std::future::poll_fn;
use std::io;
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;

use bytes::{Buf, BufMut, Bytes, BytesMut};
use tokio::io::AsyncReadExt;
use tokio::net::tcp::ReadHalf;
use tokio::time::Instant;

use super::budget::{Budget, Permit};
use crate::request::Preamble;

/// Bytes of the length before each frame.
const PREFIX: usize = 4;
/// The buffer of a connection whose frames are small.
const CHUNK_MIN: usize = 4 * 1024;
/// Address space reserved at once for a large frame; beyond it the buffer doubles. Untouched pages cost nothing.
const RESERVE_EAGER: usize = 2 * 1024 * 1024;
/// Bytes accounted at once for a large frame; beyond it the permit doubles with what has arrived.
const ACCOUNT_EAGER: usize = 64 * 1024;

/// One request as it arrived.
#[derive(Debug)]
pub struct Frame {
    /// The bytes after the length.
    pub bytes: Bytes,
    /// The memory they occupy. The bytes hold it too: records may be on their way to the disk when nobody waits for them any more.
    pub permit: Arc<Permit>,
}

/// Bytes that stay accounted for until the last view of them is gone.
struct Accounted {
    bytes: Bytes,
    _permit: Arc<Permit>,
}

impl AsRef<[u8]> for Accounted {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

/// Why reading ended.
#[derive(Debug, thiserror::Error)]
pub enum FrameError {
    /// The client closed its side between two frames.
    #[error("closed by the client")]
    Closed,
    /// The client closed its side within a frame.
    #[error("closed by the client within a frame")]
    Torn,
    /// A length that no request has; HTTP and TLS clients land here.
    #[error("frame length {0} is not between {min} and {1}", min = Preamble::LEN)]
    Length(i32, usize),
    /// The socket failed.
    #[error(transparent)]
    Io(#[from] io::Error),
}

impl FrameError {
    /// Whether the socket is broken in both directions.
    pub fn is_failure(&self) -> bool {
        matches!(self, FrameError::Io(_))
    }
}

/// Reads the frames of one connection.
#[derive(Debug)]
pub struct FrameReader {
    buffer: BytesMut,
    permit: Permit,
    last_frame_len: usize,
    last_progress: Instant,
    /// Whether the next bytes wait for memory, which is not the client's fault.
    starved: bool,
    frame_bytes_max: usize,
    budget: Budget,
}

impl FrameReader {
    /// A reader that refuses frames longer than `frame_bytes_max`.
    pub fn new(frame_bytes_max: usize, budget: Budget) -> FrameReader {
        FrameReader {
            buffer: BytesMut::new(),
            permit: Permit::default(),
            last_frame_len: 0,
            last_progress: Instant::now(),
            starved: false,
            frame_bytes_max,
            budget,
        }
    }

    /// Whether a frame has begun and it is the client's turn to complete it.
    pub fn within_frame(&self) -> bool {
        !self.buffer.is_empty() && !self.starved
    }

    /// When bytes last arrived.
    pub fn last_progress(&self) -> Instant {
        self.last_progress
    }

    /// The next frame. Cancelling loses nothing.
    pub async fn next(&mut self, stream: &mut ReadHalf<'_>) -> Result<Frame, FrameError> {
        loop {
            let announced = self.announced()?;
            if let Some(len) = announced
                && self.buffer.len() >= PREFIX + len
            {
                return self.cut(len).await;
            }
            if self.buffer.is_empty() {
                // An idle connection holds no buffer.
                self.buffer = BytesMut::new();
                stream.readable().await?;
            }
            let room = self.make_room(announced).await;
            // A read that fills less than its room has emptied the socket: the runtime waits before the next one.
            match stream.read_buf(&mut (&mut self.buffer).limit(room)).await? {
                0 if self.buffer.is_empty() => return Err(FrameError::Closed),
                0 => return Err(FrameError::Torn),
                _ => self.last_progress = Instant::now(),
            }
        }
    }

    /// The length of the frame that has begun, once its prefix is there and in range.
    fn announced(&self) -> Result<Option<usize>, FrameError> {
        let Some((prefix, _)) = self.buffer.split_first_chunk::<PREFIX>() else { return Ok(None) };
        let len = i32::from_be_bytes(*prefix);
        match usize::try_from(len) {
            Ok(size) if size >= Preamble::LEN && size <= self.frame_bytes_max => Ok(Some(size)),
            _ => Err(FrameError::Length(len, self.frame_bytes_max)),
        }
    }

    /// Accounts for and reserves the next stretch of the buffer; returns how many bytes may be read into it.
    async fn make_room(&mut self, announced: Option<usize>) -> usize {
        let have = self.buffer.len();
        let Some(len) = announced else {
            let chunk = (PREFIX + self.last_frame_len).clamp(CHUNK_MIN, ACCOUNT_EAGER);
            self.buffer.reserve(chunk);
            return chunk;
        };
        let end = PREFIX + len;
        let accounted = end.min((2 * have).max(ACCOUNT_EAGER));
        self.account(accounted).await;
        let capacity = end.min((2 * have).max(RESERVE_EAGER));
        self.buffer.reserve(capacity - have);
        accounted - have
    }

    async fn account(&mut self, bytes: usize) {
        let mut raise = pin!(self.budget.raise(&mut self.permit, bytes));
        if poll_fn(|cx| Poll::Ready(raise.as_mut().poll(cx))).await.is_pending() {
            self.starved = true;
            raise.await;
        }
        if std::mem::take(&mut self.starved) {
            // The time that was spent waiting here does not count against the client.
            self.last_progress = Instant::now();
        }
    }

    async fn cut(&mut self, len: usize) -> Result<Frame, FrameError> {
        self.account(PREFIX + len).await;
        self.last_frame_len = len;
        let mut bytes = self.buffer.split_to(PREFIX + len).freeze();
        bytes.advance(PREFIX);
        let permit = Arc::new(std::mem::take(&mut self.permit));
        let bytes = Bytes::from_owner(Accounted { bytes, _permit: Arc::clone(&permit) });
        Ok(Frame { bytes, permit })
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::AsyncWriteExt;
    use tokio::net::{TcpListener, TcpStream};

    use super::*;

    #[tokio::test]
    async fn bytes_are_accounted_for_until_the_last_view_of_them_is_gone() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let mut client = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        let (mut server, _) = listener.accept().await.unwrap();
        let budget = Budget::new(Some(2048));
        let mut frames = FrameReader::new(1 << 20, budget.clone());
        client.write_all(&1024_i32.to_be_bytes()).await.unwrap();
        client.write_all(&[7; 1024]).await.unwrap();
        let frame = frames.next(&mut server.split().0).await.unwrap();
        let view = frame.bytes.slice(10..20);
        drop(frame);
        let mut other = Permit::default();
        let mut waiting = tokio_test::task::spawn(budget.raise(&mut other, 2048));
        assert!(waiting.poll().is_pending());
        drop(view);
        assert!(waiting.poll().is_ready());
    }
}
