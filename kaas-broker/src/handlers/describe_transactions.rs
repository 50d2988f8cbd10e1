//! DescribeTransactions (key 65, version 0): where transactional ids are (KIP-664).

use std::sync::Arc;

use kaas_core::transaction::Description;
use kaas_proto::messages::describe_transactions_response::{TopicData, TransactionState};
use kaas_proto::messages::{DescribeTransactionsRequest, DescribeTransactionsResponse};
use kaas_proto::{ErrorCode, KStr};

use crate::broker::Broker;
use crate::error::ApiError;
use crate::request::{Answer, Reply, RequestCx};
use crate::router::Handler;
use crate::transactions::outcome;

/// "No transaction so far".
const NO_TIME: i64 = -1;

impl Handler<DescribeTransactionsRequest> for Broker {
    async fn handle(
        self: Arc<Self>,
        _: RequestCx,
        request: DescribeTransactionsRequest,
    ) -> Result<Reply<DescribeTransactionsResponse>, ApiError> {
        let mut transaction_states = Vec::with_capacity(request.transactional_ids.len());
        for id in request.transactional_ids {
            let called = self.transactions.call(&id, |slot, _, _| slot.describe(&id));
            transaction_states.push(state(id, outcome(called).await));
        }
        let response = DescribeTransactionsResponse { transaction_states, ..Default::default() };
        Ok(Reply::Now(Answer::Send(response)))
    }
}

fn state(transactional_id: KStr, described: Result<Description, ErrorCode>) -> TransactionState {
    let described = match described {
        Ok(described) => described,
        Err(code) => {
            return TransactionState { error_code: code.code(), transactional_id, ..Default::default() };
        }
    };
    let topic = |(topic, partitions): (&str, &std::collections::BTreeSet<i32>)| TopicData {
        topic: topic.into(),
        partitions: partitions.iter().copied().collect(),
    };
    TransactionState {
        error_code: ErrorCode::None.code(),
        transactional_id,
        transaction_state: described.state.name().into(),
        transaction_timeout_ms: described.timeout_ms,
        transaction_start_time_ms: described.start_timestamp_ms.unwrap_or(NO_TIME),
        producer_id: described.producer.producer_id,
        producer_epoch: described.producer.producer_epoch,
        topics: described.partitions.topics().map(topic).collect(),
    }
}
