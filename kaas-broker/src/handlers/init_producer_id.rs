//! InitProducerId (key 22, versions 0-4): a producer id that no other producer ever had, or the next epoch of a transactional one.
//!
//! * v2: flexible. v3: a producer may name its id and epoch (KIP-360). v4: PRODUCER_FENCED may be answered (KIP-588).
//! * Without a transactional id every call gets a fresh id with epoch 0, whatever id the client names.
//! * With one, all producers before are fenced. An open transaction is aborted first: CONCURRENT_TRANSACTIONS until that is done.

use std::sync::Arc;

use kaas_core::transaction::{InitProducerId, Initialized, ProducerIdentity};
use kaas_proto::ErrorCode;
use kaas_proto::messages::{InitProducerIdRequest, InitProducerIdResponse};

use crate::broker::Broker;
use crate::error::{ApiError, producer_id_code};
use crate::request::{Answer, Reply, RequestCx};
use crate::router::Handler;
use crate::transactions::{code_for, outcome};

/// "I have no producer id" and "I have no epoch".
const NONE: i64 = -1;
/// The first version whose clients know PRODUCER_FENCED.
const FENCED_FROM: i16 = 4;

impl Handler<InitProducerIdRequest> for Broker {
    async fn handle(
        self: Arc<Self>,
        cx: RequestCx,
        request: InitProducerIdRequest,
    ) -> Result<Reply<InitProducerIdResponse>, ApiError> {
        let current = identity(&request)?;
        let response = match &request.transactional_id {
            None => response(ProducerIdentity { producer_id: self.fresh_id().await?, producer_epoch: 0 }),
            Some(transactional_id) => {
                let timeout_ms = request.transaction_timeout_ms;
                let asked = InitProducerId { transactional_id, timeout_ms, current };
                match self.init_transactional(asked).await? {
                    Ok(producer) => response(producer),
                    refused => InitProducerIdResponse {
                        error_code: code_for(refused, cx.version, FENCED_FROM),
                        producer_id: NONE,
                        producer_epoch: -1,
                        ..Default::default()
                    },
                }
            }
        };
        Ok(Reply::Now(Answer::Send(response)))
    }
}

impl Broker {
    async fn init_transactional(
        self: &Arc<Self>,
        asked: InitProducerId<'_>,
    ) -> Result<Result<ProducerIdentity, ErrorCode>, ApiError> {
        let mut fresh = None;
        loop {
            let called = self
                .transactions
                .call(asked.transactional_id, |slot, now, out| slot.init_producer_id(asked, fresh, now, out));
            match outcome(called).await {
                Ok(Initialized::Producer(producer)) => return Ok(Ok(producer)),
                Ok(Initialized::NeedsProducerId) => fresh = Some(self.fresh_id().await?),
                Err(code) => return Ok(Err(code)),
            }
        }
    }

    async fn fresh_id(self: &Arc<Self>) -> Result<i64, ApiError> {
        let id = self.blocking(|broker| broker.engine.next_producer_id()).await?;
        id.map_err(|error| ApiError::because(producer_id_code(&error), error.to_string()))
    }
}

fn response(producer: ProducerIdentity) -> InitProducerIdResponse {
    let ProducerIdentity { producer_id, producer_epoch } = producer;
    InitProducerIdResponse { producer_id, producer_epoch, ..Default::default() }
}

/// What the producer says it has. An id without an epoch, or an epoch without an id, is neither a new producer nor an old one.
fn identity(request: &InitProducerIdRequest) -> Result<Option<ProducerIdentity>, ApiError> {
    let InitProducerIdRequest { producer_id, producer_epoch, .. } = *request;
    match (producer_id == NONE, i64::from(producer_epoch) == NONE) {
        (true, true) => Ok(None),
        (false, false) => Ok(Some(ProducerIdentity { producer_id, producer_epoch })),
        _ => Err(ApiError::new(ErrorCode::InvalidRequest)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_producer_has_an_id_and_an_epoch_or_neither() {
        let of = |producer_id, producer_epoch| {
            let request = InitProducerIdRequest { producer_id, producer_epoch, ..Default::default() };
            identity(&request).map_err(|error| error.code)
        };
        assert_eq!(of(-1, -1), Ok(None));
        assert_eq!(of(5, 0), Ok(Some(ProducerIdentity { producer_id: 5, producer_epoch: 0 })));
        assert_eq!(of(-2, -2), Ok(Some(ProducerIdentity { producer_id: -2, producer_epoch: -2 })));
        assert_eq!(of(5, -1), Err(ErrorCode::InvalidRequest));
        assert_eq!(of(-1, 3), Err(ErrorCode::InvalidRequest));
    }
}
