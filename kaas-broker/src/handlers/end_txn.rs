//! EndTxn (key 26, versions 0-3): commits or aborts a transaction.
//!
//! * v2: PRODUCER_FENCED (KIP-588). v3: flexible.
//! * The answer leaves when the decision is durable. Its markers follow; until they are written the next call gets CONCURRENT_TRANSACTIONS.

use std::sync::Arc;

use kaas_core::transaction::ProducerIdentity;
use kaas_proto::messages::{EndTxnRequest, EndTxnResponse};

use crate::broker::Broker;
use crate::error::ApiError;
use crate::request::{Answer, Reply, RequestCx};
use crate::router::Handler;
use crate::transactions::{FENCED_FROM, code_for, outcome};

impl Handler<EndTxnRequest> for Broker {
    async fn handle(
        self: Arc<Self>,
        cx: RequestCx,
        request: EndTxnRequest,
    ) -> Result<Reply<EndTxnResponse>, ApiError> {
        let EndTxnRequest { transactional_id, producer_id, producer_epoch, committed } = request;
        let producer = ProducerIdentity { producer_id, producer_epoch };
        let called = self.transactions.call(&transactional_id, |slot, now, out| {
            slot.end(&transactional_id, producer, committed, now, out)
        });
        Ok(Reply::Later(Box::pin(async move {
            let error_code = code_for(outcome(called).await, cx.version, FENCED_FROM);
            Answer::Send(EndTxnResponse { error_code, ..Default::default() })
        })))
    }
}
