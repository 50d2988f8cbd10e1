//! InitProducerId (key 22, versions 0-4): a producer id that no other producer ever had.
//!
//! * v2: flexible. v3: a producer may name its id and epoch (KIP-360). v4: PRODUCER_FENCED may be answered.
//! * Without a transactional id every call gets a fresh id with epoch 0, whatever id the client names.

use std::sync::Arc;

use kaas_proto::ErrorCode;
use kaas_proto::messages::{InitProducerIdRequest, InitProducerIdResponse};

use crate::broker::Broker;
use crate::error::{ApiError, producer_id_code};
use crate::request::{Answer, Reply, RequestCx};
use crate::router::Handler;

/// "I have no producer id" and "I have no epoch".
const NONE: i64 = -1;

impl Handler<InitProducerIdRequest> for Broker {
    async fn handle(
        self: Arc<Self>,
        _: RequestCx,
        request: InitProducerIdRequest,
    ) -> Result<Reply<InitProducerIdResponse>, ApiError> {
        check(&request)?;
        let id = self.blocking(|broker| broker.engine.next_producer_id()).await?;
        let producer_id =
            id.map_err(|error| ApiError::because(producer_id_code(&error), error.to_string()))?;
        Ok(Reply::Now(Answer::Send(InitProducerIdResponse {
            producer_id,
            producer_epoch: 0,
            ..Default::default()
        })))
    }
}

fn check(request: &InitProducerIdRequest) -> Result<(), ApiError> {
    // An id without an epoch, or an epoch without an id, is neither a new producer nor an old one.
    if (request.producer_id == NONE) != (i64::from(request.producer_epoch) == NONE) {
        return Err(ApiError::new(ErrorCode::InvalidRequest));
    }
    match request.transactional_id.as_deref() {
        None => Ok(()),
        Some("") => Err(ApiError::new(ErrorCode::InvalidRequest)),
        Some(_) => {
            Err(ApiError::because(ErrorCode::UnsupportedVersion, "transactions are not served so far"))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_whole_identities_without_a_transactional_id_are_served() {
        let request = |id: Option<&'static str>, producer_id, producer_epoch| InitProducerIdRequest {
            transactional_id: id.map(Into::into),
            producer_id,
            producer_epoch,
            ..Default::default()
        };
        assert!(check(&request(None, -1, -1)).is_ok());
        assert!(check(&request(None, 5, 0)).is_ok());
        assert_eq!(check(&request(None, 5, -1)).unwrap_err().code, ErrorCode::InvalidRequest);
        assert_eq!(check(&request(None, -1, 3)).unwrap_err().code, ErrorCode::InvalidRequest);
        assert_eq!(check(&request(Some(""), -1, -1)).unwrap_err().code, ErrorCode::InvalidRequest);
        assert_eq!(check(&request(Some("t"), -1, -1)).unwrap_err().code, ErrorCode::UnsupportedVersion);
    }
}
