//! ApiVersions (key 18, versions 0-3): what is served.
//!
//! * v1: throttle time. v2: throttled answers come before the mute. v3: flexible; the client names its software (KIP-511).
//! * The response header stays at version 0 in every version, so that a client that asked too high can read it.

use std::sync::Arc;

use kaas_proto::ErrorCode;
use kaas_proto::messages::api_versions_response::ApiVersion;
use kaas_proto::messages::{ApiVersionsRequest, ApiVersionsResponse};

use crate::apis::APIS;
use crate::broker::Broker;
use crate::error::ApiError;
use crate::request::{Answer, Reply, RequestCx};
use crate::router::Handler;

/// The first version whose client must name its software.
const NAMED_FROM: i16 = 3;

impl Handler<ApiVersionsRequest> for Broker {
    async fn handle(
        self: Arc<Self>,
        cx: RequestCx,
        request: ApiVersionsRequest,
    ) -> Result<Reply<ApiVersionsResponse>, ApiError> {
        if cx.version >= NAMED_FROM
            && !(is_software_word(&request.client_software_name)
                && is_software_word(&request.client_software_version))
        {
            return Err(ApiError::new(ErrorCode::InvalidRequest));
        }
        let api_keys = APIS
            .iter()
            .map(|api| ApiVersion {
                api_key: api.key.code(),
                min_version: api.versions.min,
                max_version: api.versions.max,
            })
            .collect();
        Ok(Reply::Now(Answer::Send(ApiVersionsResponse { api_keys, ..Default::default() })))
    }
}

/// KIP-511: letters, digits, dots and dashes, with a letter or digit at both ends.
fn is_software_word(word: &str) -> bool {
    let bytes = word.as_bytes();
    let edge = |byte: Option<&u8>| byte.is_some_and(u8::is_ascii_alphanumeric);
    edge(bytes.first())
        && edge(bytes.last())
        && bytes.iter().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.'))
}

#[cfg(test)]
mod tests {
    use super::is_software_word;

    #[test]
    fn software_words_follow_kip_511() {
        for good in ["apache-kafka-java", "3.7.2", "a"] {
            assert!(is_software_word(good), "{good}");
        }
        for bad in ["", "-a", "a-", "a b", "a_b", "é"] {
            assert!(!is_software_word(bad), "{bad}");
        }
    }
}
