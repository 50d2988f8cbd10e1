//! Keys and versions: what is not served closes the connection, before any decoder sees the body.
//!
//! A client cannot read an answer whose version it did not ask for, so Kafka closes. The exception is ApiVersions: a client that is
//! newer than the broker gets a version 0 answer with UNSUPPORTED_VERSION and the versions of ApiVersions itself (KIP-511).

use std::task::{Context, Poll};

use kaas_proto::messages::ApiVersionsResponse;
use kaas_proto::messages::api_versions_response::ApiVersion;
use kaas_proto::{ApiKey, ErrorCode, Message, Rope, Writer};
use tower::Service;

use crate::apis::{self, Api};
use crate::request::{Answer, BoxFuture, ConnError, Preamble, RawRequest, Reply};

/// The gate.
#[derive(Clone, Debug)]
pub(super) struct Gate<S> {
    inner: S,
}

impl<S> Gate<S> {
    pub(super) fn new(inner: S) -> Self {
        Gate { inner }
    }
}

/// What the gate does with a preamble.
#[derive(Debug, PartialEq)]
enum Decision {
    Pass,
    AnswerOldApiVersions,
    Refuse(ConnError),
}

fn decide(preamble: &Preamble, api: Option<&Api>) -> Decision {
    let Some(api) = api else { return Decision::Refuse(ConnError::UnknownApi(preamble.api_key)) };
    let version = preamble.api_version;
    if api.versions.contains(version) {
        return Decision::Pass;
    }
    if api.key == ApiKey::ApiVersions {
        return Decision::AnswerOldApiVersions;
    }
    Decision::Refuse(ConnError::UnsupportedVersion { api_key: preamble.api_key, version })
}

fn old_api_versions(correlation_id: i32) -> Result<Rope, ConnError> {
    let own = apis::APIS.iter().filter(|api| api.key == ApiKey::ApiVersions).map(|api| ApiVersion {
        api_key: api.key.code(),
        min_version: api.versions.min,
        max_version: api.versions.max,
    });
    let response = ApiVersionsResponse {
        error_code: ErrorCode::UnsupportedVersion.code(),
        api_keys: own.collect(),
        ..ApiVersionsResponse::default()
    };
    let mut writer = Writer::new();
    writer.i32(correlation_id);
    response.encode(&mut writer, 0).map_err(|error| ConnError::Unencodable(error.to_string()))?;
    Ok(writer.into_pieces())
}

impl<S> Service<RawRequest> for Gate<S>
where
    S: Service<RawRequest, Response = Reply<Rope>, Error = ConnError>,
    S::Future: Send + 'static,
{
    type Response = Reply<Rope>;
    type Error = ConnError;
    type Future = BoxFuture<Result<Reply<Rope>, ConnError>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), ConnError>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, request: RawRequest) -> Self::Future {
        let correlation_id = request.preamble.correlation_id;
        let result = match decide(&request.preamble, apis::find(request.preamble.api_key)) {
            Decision::Pass => return Box::pin(self.inner.call(request)),
            Decision::AnswerOldApiVersions => {
                old_api_versions(correlation_id).map(|rope| Reply::Now(Answer::Send(rope)))
            }
            Decision::Refuse(error) => Err(error),
        };
        Box::pin(std::future::ready(result))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decide_on(api_key: i16, api_version: i16) -> Decision {
        decide(&Preamble { api_key, api_version, correlation_id: 1 }, apis::find(api_key))
    }

    #[test]
    fn only_served_keys_and_versions_pass() {
        assert_eq!(decide_on(3, 12), Decision::Pass);
        assert_eq!(
            decide_on(3, 13),
            Decision::Refuse(ConnError::UnsupportedVersion { api_key: 3, version: 13 })
        );
        assert_eq!(
            decide_on(3, -1),
            Decision::Refuse(ConnError::UnsupportedVersion { api_key: 3, version: -1 })
        );
        assert_eq!(decide_on(200, 0), Decision::Refuse(ConnError::UnknownApi(200)));
        assert_eq!(decide_on(-1, 0), Decision::Refuse(ConnError::UnknownApi(-1)));
    }

    #[test]
    fn an_api_versions_request_from_the_future_gets_a_version_0_answer() {
        assert_eq!(decide_on(18, 4), Decision::AnswerOldApiVersions);
        let bytes = old_api_versions(7).unwrap().to_bytes().unwrap();
        assert_eq!(&bytes[..], &[0, 0, 0, 7, 0, 35, 0, 0, 0, 1, 0, 18, 0, 0, 0, 3]);
    }
}
