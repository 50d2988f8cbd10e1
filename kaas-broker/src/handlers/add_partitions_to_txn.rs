//! AddPartitionsToTxn (key 24, versions 0-4): what a transaction will write to.
//!
//! * v2: PRODUCER_FENCED (KIP-588). v3: flexible. v4: several transactions, and questions whether partitions belong to them
//!   (KIP-890); brokers send it, but any client may.
//! * All partitions of a transaction are added, or none: when one does not exist the others are OPERATION_NOT_ATTEMPTED.

use std::sync::Arc;

use kaas_core::coordinator::{CoordinatorError, Pending};
use kaas_core::transaction::{ProducerIdentity, TransactionError};
use kaas_proto::messages::add_partitions_to_txn_request::AddPartitionsToTxnTopic;
use kaas_proto::messages::add_partitions_to_txn_response::{
    AddPartitionsToTxnPartitionResult, AddPartitionsToTxnResult, AddPartitionsToTxnTopicResult,
};
use kaas_proto::messages::{AddPartitionsToTxnRequest, AddPartitionsToTxnResponse};
use kaas_proto::{ErrorCode, KStr};

use crate::broker::Broker;
use crate::coordinators::answer;
use crate::error::{ApiError, transaction_code};
use crate::request::{Answer, Reply, RequestCx};
use crate::router::Handler;
use crate::transactions::{FENCED_FROM, code_for, outcome};

/// The first version with several transactions.
const SEVERAL_FROM: i16 = 4;

/// What is asked of one transaction.
struct Asked {
    transactional_id: KStr,
    producer: ProducerIdentity,
    verify_only: bool,
    topics: Vec<AddPartitionsToTxnTopic>,
}

/// What became of it.
enum Called {
    /// Some partitions do not exist.
    Refused,
    Added(Result<Pending<Result<(), TransactionError>>, CoordinatorError>),
    /// An answer for each partition, in order.
    Verified(Result<Pending<Vec<Result<(), TransactionError>>>, CoordinatorError>),
}

impl Handler<AddPartitionsToTxnRequest> for Broker {
    async fn handle(
        self: Arc<Self>,
        cx: RequestCx,
        request: AddPartitionsToTxnRequest,
    ) -> Result<Reply<AddPartitionsToTxnResponse>, ApiError> {
        let called: Vec<(Asked, Called)> = asked(request, cx.version)
            .into_iter()
            .map(|asked| {
                let called = self.call_coordinator(&asked);
                (asked, called)
            })
            .collect();
        Ok(Reply::Later(Box::pin(async move {
            let mut results = Vec::with_capacity(called.len());
            for (asked, called) in called {
                results.push(self.result(asked, called, cx.version).await);
            }
            let response = if cx.version >= SEVERAL_FROM {
                AddPartitionsToTxnResponse { results_by_transaction: results, ..Default::default() }
            } else {
                let topics = results.into_iter().flat_map(|result| result.topic_results).collect();
                AddPartitionsToTxnResponse { results_by_topic_v3_and_below: topics, ..Default::default() }
            };
            Answer::Send(response)
        })))
    }
}

fn asked(request: AddPartitionsToTxnRequest, version: i16) -> Vec<Asked> {
    if version < SEVERAL_FROM {
        return vec![Asked {
            transactional_id: request.v3_and_below_transactional_id,
            producer: ProducerIdentity {
                producer_id: request.v3_and_below_producer_id,
                producer_epoch: request.v3_and_below_producer_epoch,
            },
            verify_only: false,
            topics: request.v3_and_below_topics,
        }];
    }
    let one =
        |asked: kaas_proto::messages::add_partitions_to_txn_request::AddPartitionsToTxnTransaction| Asked {
            transactional_id: asked.transactional_id,
            producer: ProducerIdentity {
                producer_id: asked.producer_id,
                producer_epoch: asked.producer_epoch,
            },
            verify_only: asked.verify_only,
            topics: asked.topics,
        };
    request.transactions.into_iter().map(one).collect()
}

impl Asked {
    fn partitions(&self) -> impl Iterator<Item = (&KStr, i32)> {
        self.topics.iter().flat_map(|topic| topic.partitions.iter().map(|&at| (&topic.name, at)))
    }
}

impl Broker {
    fn call_coordinator(&self, asked: &Asked) -> Called {
        if asked.partitions().any(|(topic, partition)| self.partition(topic, partition).is_err()) {
            return Called::Refused;
        }
        let (id, producer) = (asked.transactional_id.as_str(), asked.producer);
        if asked.verify_only {
            return Called::Verified(self.transactions.call(id, |slot, _, _| {
                let verify = |(topic, at): (&KStr, i32)| slot.verify_partition(id, producer, topic, at);
                asked.partitions().map(verify).collect()
            }));
        }
        let partitions: Vec<_> = asked.partitions().map(|(topic, at)| (topic.to_string(), at)).collect();
        Called::Added(
            self.transactions
                .call(id, |slot, now, out| slot.add_partitions(id, producer, &partitions, now, out)),
        )
    }

    async fn result(&self, asked: Asked, called: Called, version: i16) -> AddPartitionsToTxnResult {
        let count = asked.partitions().count();
        let all = |outcome| vec![code_for(outcome, version, FENCED_FROM); count];
        let codes: Vec<i16> = match called {
            Called::Refused => asked.partitions().map(|(topic, at)| self.refusal(topic, at)).collect(),
            Called::Added(called) => all(outcome(called).await),
            Called::Verified(called) => match answer(called).await {
                Err(code) => all(Err(code)),
                Ok(verified) => verified
                    .into_iter()
                    .map(|one| code_for(one.map_err(|error| transaction_code(&error)), version, FENCED_FROM))
                    .collect(),
            },
        };
        let mut codes = codes.into_iter();
        let topic = |topic: AddPartitionsToTxnTopic| AddPartitionsToTxnTopicResult {
            name: topic.name,
            results_by_partition: topic
                .partitions
                .into_iter()
                .zip(codes.by_ref())
                .map(|(partition_index, partition_error_code)| AddPartitionsToTxnPartitionResult {
                    partition_index,
                    partition_error_code,
                })
                .collect(),
        };
        let topic_results = asked.topics.into_iter().map(topic).collect();
        AddPartitionsToTxnResult { transactional_id: asked.transactional_id, topic_results }
    }

    /// The code of one partition of a transaction that was refused as a whole.
    fn refusal(&self, topic: &str, partition: i32) -> i16 {
        let found = self.partition(topic, partition);
        found.map_or_else(|code| code, |_| ErrorCode::OperationNotAttempted).code()
    }
}
