//! Bytes become a typed request on the way in, and a typed response becomes bytes on the way out.

use std::task::{Context, Poll};

use kaas_proto::header::{RequestHeader, ResponseHeader};
use kaas_proto::{ApiKey, Message, Reader, Rope, Writer};
use kaas_proto::{RequestBody, ResponseBody};
use tower::Service;

use crate::request::{Answer, BoxFuture, ConnError, RawRequest, Reply, Request, RequestCx};

/// The codec.
#[derive(Clone, Debug)]
pub(super) struct Codec<S> {
    inner: S,
}

impl<S> Codec<S> {
    pub(super) fn new(inner: S) -> Self {
        Codec { inner }
    }
}

/// What the response must repeat of its request.
#[derive(Clone, Copy)]
struct Envelope {
    key: ApiKey,
    version: i16,
    correlation_id: i32,
}

fn decode(raw: RawRequest) -> Result<(Envelope, Request), ConnError> {
    let malformed = |error: kaas_proto::DecodeError| ConnError::Malformed(error.to_string());
    let key =
        ApiKey::try_from(raw.preamble.api_key).map_err(|_| ConnError::UnknownApi(raw.preamble.api_key))?;
    let version = raw.preamble.api_version;
    let mut reader = Reader::new(raw.frame);
    let header = RequestHeader::decode(&mut reader, key.info().request_header_version(version));
    let RequestHeader { client_id, .. } = header.map_err(malformed)?;
    let body = RequestBody::decode(key, version, &mut reader).map_err(malformed)?;
    let cx = RequestCx { conn: raw.conn, version, client_id };
    let envelope = Envelope { key, version, correlation_id: raw.preamble.correlation_id };
    Ok((envelope, Request { cx, body }))
}

fn encode(envelope: Envelope, body: &ResponseBody) -> Result<Rope, ConnError> {
    let Envelope { key, version, correlation_id } = envelope;
    let mut writer = Writer::new();
    ResponseHeader { correlation_id }
        .encode(&mut writer, key.info().response_header_version(version))
        .and_then(|()| body.encode(version, &mut writer))
        .map_err(|error| ConnError::Unencodable(error.to_string()))?;
    Ok(writer.into_pieces())
}

/// Encodes at the very end of a reply. A response that cannot be encoded closes the connection: half an answer is worse than none.
fn send(envelope: Envelope, body: ResponseBody) -> Answer<Rope> {
    match encode(envelope, &body) {
        Ok(rope) => Answer::Send(rope),
        Err(error) => {
            tracing::error!(api = envelope.key.info().name, version = envelope.version, %error, "response dropped");
            Answer::Close
        }
    }
}

impl<S> Service<RawRequest> for Codec<S>
where
    S: Service<Request, Response = Reply<ResponseBody>, Error = ConnError>,
    S::Future: Send + 'static,
{
    type Response = Reply<Rope>;
    type Error = ConnError;
    type Future = BoxFuture<Result<Reply<Rope>, ConnError>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), ConnError>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, raw: RawRequest) -> Self::Future {
        let (envelope, request) = match decode(raw) {
            Ok(decoded) => decoded,
            Err(error) => return Box::pin(std::future::ready(Err(error))),
        };
        let future = self.inner.call(request);
        Box::pin(async move { Ok(future.await?.map(move |body| send(envelope, body))) })
    }
}
