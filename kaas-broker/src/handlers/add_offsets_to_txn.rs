//! AddOffsetsToTxn (key 25, versions 0-3): a group's offsets become part of a transaction.
//!
//! * v2: PRODUCER_FENCED (KIP-588). v3: flexible.
//! * The group's slot takes part as the partition of `__consumer_offsets` that Kafka would have the group in.

use std::sync::Arc;

use kaas_core::transaction::{ProducerIdentity, offsets_partition};
use kaas_proto::messages::{AddOffsetsToTxnRequest, AddOffsetsToTxnResponse};

use crate::broker::Broker;
use crate::error::ApiError;
use crate::request::{Answer, Reply, RequestCx};
use crate::router::Handler;
use crate::transactions::{FENCED_FROM, code_for, outcome};

impl Handler<AddOffsetsToTxnRequest> for Broker {
    async fn handle(
        self: Arc<Self>,
        cx: RequestCx,
        request: AddOffsetsToTxnRequest,
    ) -> Result<Reply<AddOffsetsToTxnResponse>, ApiError> {
        let AddOffsetsToTxnRequest { transactional_id, producer_id, producer_epoch, group_id } = request;
        let producer = ProducerIdentity { producer_id, producer_epoch };
        let partitions = [offsets_partition(&group_id)];
        let called = self.transactions.call(&transactional_id, |slot, now, out| {
            slot.add_partitions(&transactional_id, producer, &partitions, now, out)
        });
        Ok(Reply::Later(Box::pin(async move {
            let error_code = code_for(outcome(called).await, cx.version, FENCED_FROM);
            Answer::Send(AddOffsetsToTxnResponse { error_code, ..Default::default() })
        })))
    }
}
