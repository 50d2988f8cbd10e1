//! What flows through the request path: a request with its context, and the reply in its two stages.

use std::net::SocketAddr;
use std::sync::Arc;

use bytes::Bytes;
use kaas_proto::{KStr, RequestBody};

use crate::listener_info::ListenerInfo;

/// A future on the heap that another thread may poll.
pub type BoxFuture<T> = std::pin::Pin<Box<dyn Future<Output = T> + Send>>;

/// What is decided once for a connection.
#[derive(Debug)]
pub struct ConnCx {
    /// Counts connections since start; names them in the log.
    pub id: u64,
    /// The client's address.
    pub peer: SocketAddr,
    /// The address that the client reached.
    pub local: SocketAddr,
    /// The listener that accepted it.
    pub listener: Arc<ListenerInfo>,
}

/// The fixed first eight bytes of every request, before anything is known of its version.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Preamble {
    /// The API's number, known or not.
    pub api_key: i16,
    /// The version asked for, served or not.
    pub api_version: i16,
    /// What the client matches the reply by.
    pub correlation_id: i32,
}

impl Preamble {
    /// Bytes of a preamble.
    pub const LEN: usize = 8;

    /// Reads the preamble; `None` when the frame is shorter.
    pub fn peek(frame: &[u8]) -> Option<Preamble> {
        let (key, rest) = frame.split_first_chunk::<2>()?;
        let (version, rest) = rest.split_first_chunk::<2>()?;
        let (correlation, _) = rest.split_first_chunk::<4>()?;
        Some(Preamble {
            api_key: i16::from_be_bytes(*key),
            api_version: i16::from_be_bytes(*version),
            correlation_id: i32::from_be_bytes(*correlation),
        })
    }
}

/// A request above the codec: bytes and what the preamble says of them.
#[derive(Debug)]
pub struct RawRequest {
    /// The connection.
    pub conn: Arc<ConnCx>,
    /// The frame's first fields.
    pub preamble: Preamble,
    /// The whole frame, preamble included, without its length.
    pub frame: Bytes,
}

/// What a handler knows of the request beside its body.
#[derive(Clone, Debug)]
pub struct RequestCx {
    /// The connection.
    pub conn: Arc<ConnCx>,
    /// The version of the body, within the served range.
    pub version: i16,
    /// What the client calls itself, by the header.
    pub client_id: Option<KStr>,
}

/// A request below the codec.
#[derive(Debug)]
pub struct Request {
    /// Its context.
    pub cx: RequestCx,
    /// Its typed body.
    pub body: RequestBody,
}

/// The first stage of a reply. When it is there, the order of effects is fixed and a following request may start.
pub enum Reply<B> {
    /// The answer is complete.
    Now(Answer<B>),
    /// The answer comes when an acknowledgement or data is there.
    Later(BoxFuture<Answer<B>>),
}

/// The last stage of a reply.
#[derive(Debug, PartialEq)]
pub enum Answer<B> {
    /// Bytes for the client.
    Send(B),
    /// Nothing: the client asked for no acknowledgement.
    Silent,
    /// The connection closes, after the answers before this one.
    Close,
}

impl<B: 'static> Reply<B> {
    /// Applies `f` to the body whenever it comes.
    pub fn map<C: 'static>(self, f: impl FnOnce(B) -> Answer<C> + Send + 'static) -> Reply<C>
    where
        B: Send,
    {
        match self {
            Reply::Now(answer) => Reply::Now(answer.and_then(f)),
            Reply::Later(future) => Reply::Later(Box::pin(async move { future.await.and_then(f) })),
        }
    }
}

impl<B> Answer<B> {
    /// Applies `f` to the body, if there is one.
    pub fn and_then<C>(self, f: impl FnOnce(B) -> Answer<C>) -> Answer<C> {
        match self {
            Answer::Send(body) => f(body),
            Answer::Silent => Answer::Silent,
            Answer::Close => Answer::Close,
        }
    }
}

/// Why a connection is closed instead of answered. It names the client's mistake; the log shows it at debug level.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ConnError {
    /// An API that is not served on this listener.
    #[error("api key {0} is not served")]
    UnknownApi(i16),
    /// A version outside the served range; its body cannot be read and an answer could not be understood.
    #[error("version {version} of api key {api_key} is not served")]
    UnsupportedVersion {
        /// The API.
        api_key: i16,
        /// The version.
        version: i16,
    },
    /// Bytes that are not what the header announces.
    #[error("malformed request: {0}")]
    Malformed(String),
    /// An answer that this version cannot carry; a defect of ours, never sent half.
    #[error("unencodable response: {0}")]
    Unencodable(String),
    /// The broker is stopping.
    #[error("the broker is stopping")]
    Draining,
    /// A whole-request failure of an API that only has per-partition errors.
    #[error("no error response exists: {0}")]
    Unanswerable(String),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_preamble_needs_its_eight_bytes() {
        assert_eq!(Preamble::peek(&[0; 7]), None);
        let frame = [0, 18, 0, 3, 0, 0, 0, 9, 0xff];
        let expected = Preamble { api_key: 18, api_version: 3, correlation_id: 9 };
        assert_eq!(Preamble::peek(&frame), Some(expected));
    }
}
