//! Replies on their way to the socket: bytes by vectored sends, ranges of files by sendfile.

use std::collections::VecDeque;
use std::io::{self, IoSlice};
use std::os::fd::AsFd;
use std::sync::Arc;

use bytes::{Buf, Bytes};
use kaas_proto::{FileSlice, Piece, Rope};
use rustix::net::{SendAncillaryBuffer, SendFlags, sendmsg};
use tokio::io::Interest;
use tokio::net::TcpStream;

use super::budget::Permit;

/// How many pieces one send takes.
const IOVECS_MAX: usize = 64;
/// The most that one sendfile call takes, so that one connection does not hold its thread for long.
const SENDFILE_MAX: usize = 1024 * 1024;

/// What waits to be sent on one connection, in order.
#[derive(Debug, Default)]
pub struct Outbox {
    pieces: VecDeque<Piece>,
    /// Memory of the requests whose replies are here; given back when all is flushed.
    permits: Vec<Arc<Permit>>,
}

impl Outbox {
    /// Queues a reply behind its length.
    pub fn push(&mut self, reply: Rope, permit: Arc<Permit>) -> Result<(), io::Error> {
        let len = u32::try_from(reply.len())
            .ok()
            .filter(|len| *len <= i32::MAX as u32)
            .ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, "a reply longer than 2 GiB"))?;
        self.pieces.push_back(Piece::Bytes(Bytes::copy_from_slice(&len.to_be_bytes())));
        self.pieces.extend(reply.pieces);
        self.permits.push(permit);
        Ok(())
    }

    /// Whether nothing waits.
    pub fn is_empty(&self) -> bool {
        self.pieces.is_empty()
    }

    /// Waits until the socket takes something and sends as much as it takes. Cancelling loses nothing.
    pub async fn send(&mut self, stream: &TcpStream) -> io::Result<()> {
        stream.writable().await?;
        self.try_send(stream)
    }

    /// Sends as much as the socket takes now.
    pub fn try_send(&mut self, stream: &TcpStream) -> io::Result<()> {
        while let Some(front) = self.pieces.front() {
            let sent = match front {
                Piece::Bytes(_) => stream.try_io(Interest::WRITABLE, || self.send_bytes(stream)),
                Piece::File(slice) => stream.try_io(Interest::WRITABLE, || send_file(stream, slice)),
            };
            match sent {
                Ok(sent) => self.advance(sent),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        self.permits.clear();
        Ok(())
    }

    /// Sends the byte pieces up to the next file. MSG_MORE keeps a header and its file in one segment.
    fn send_bytes(&self, stream: &TcpStream) -> io::Result<usize> {
        let mut slices = [IoSlice::new(&[]); IOVECS_MAX];
        let mut count = 0;
        for piece in self.pieces.iter().take(IOVECS_MAX) {
            let Piece::Bytes(bytes) = piece else { break };
            slices[count] = IoSlice::new(bytes);
            count += 1;
        }
        let more = self.pieces.len() > count;
        let flags = SendFlags::NOSIGNAL | if more { SendFlags::MORE } else { SendFlags::empty() };
        let mut control = SendAncillaryBuffer::default();
        Ok(sendmsg(stream.as_fd(), &slices[..count], &mut control, flags)?)
    }

    fn advance(&mut self, mut sent: usize) {
        while let Some(front) = self.pieces.front_mut() {
            let len = front.len();
            if sent < len {
                match front {
                    Piece::Bytes(bytes) => bytes.advance(sent),
                    Piece::File(slice) => {
                        slice.offset += sent as u64;
                        slice.len -= sent as u32;
                    }
                }
                return;
            }
            sent -= len;
            self.pieces.pop_front();
        }
    }
}

fn send_file(stream: &TcpStream, slice: &FileSlice) -> io::Result<usize> {
    let mut offset = slice.offset;
    let count = (slice.len as usize).min(SENDFILE_MAX);
    let sent = rustix::fs::sendfile(stream.as_fd(), &*slice.file, Some(&mut offset), count)?;
    if sent == 0 && count > 0 {
        // The length is announced already, so the reply cannot be completed: better no reply than a false one.
        return Err(io::Error::new(io::ErrorKind::UnexpectedEof, "a segment is shorter than its index says"));
    }
    Ok(sent)
}
