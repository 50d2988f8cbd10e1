//! Metadata (key 3, versions 0-12): brokers, topics and who leads what.
//!
//! * v0: an empty list asks for all topics; v1 and later: null does, and an empty list asks for none. v4: auto-creation may be declined.
//!   v5: offline replicas. v7: leader epochs. v8-v10: authorised operations. v9: flexible. v10: topic ids. v12: topics by id.
//! * A topic that is created by asking is ready in the same answer.

use std::collections::HashSet;
use std::sync::Arc;

use kaas_core::{Partition, Topic, TopicSpec};
use kaas_proto::messages::metadata_request::{MetadataRequest, MetadataRequestTopic};
use kaas_proto::messages::metadata_response::{
    MetadataResponse, MetadataResponseBroker, MetadataResponsePartition, MetadataResponseTopic,
};
use kaas_proto::{ErrorCode, KStr};
use uuid::Uuid;

use super::create_topics::check_name;
use super::{ALL_CLUSTER_OPERATIONS, OPERATIONS_NOT_ASKED};
use crate::broker::Broker;
use crate::error::{ApiError, create_topic_code};
use crate::request::{Answer, Reply, RequestCx};
use crate::router::Handler;

/// The first version with topics by id; in v10 and v11 the id is there but must be zero.
const BY_ID_FROM: i16 = 12;
/// READ to DESCRIBE (3-8), DESCRIBE_CONFIGS (10), ALTER_CONFIGS (11): what a topic allows when nothing restricts it.
const ALL_TOPIC_OPERATIONS: i32 = 0xdf8;

impl Handler<MetadataRequest> for Broker {
    async fn handle(
        self: Arc<Self>,
        cx: RequestCx,
        request: MetadataRequest,
    ) -> Result<Reply<MetadataResponse>, ApiError> {
        let named = request.topics.as_deref().unwrap_or_default();
        if cx.version < BY_ID_FROM
            && named.iter().any(|topic| topic.name.is_none() || !topic.topic_id.is_nil())
        {
            return Err(ApiError::new(ErrorCode::InvalidRequest));
        }
        let all = request.topics.is_none() || (cx.version == 0 && named.is_empty());
        let mut topics = if all { self.all_topics() } else { self.asked_topics(&request).await? };
        if request.include_topic_authorized_operations {
            for topic in topics.iter_mut().filter(|topic| topic.error_code == ErrorCode::None.code()) {
                topic.topic_authorized_operations = ALL_TOPIC_OPERATIONS;
            }
        }
        let (host, port) = cx.conn.listener.told(cx.conn.local);
        let this = MetadataResponseBroker {
            node_id: self.config.node_id,
            host: KStr::from(host),
            port,
            rack: self.config.rack.clone().map(KStr::from),
        };
        Ok(Reply::Now(Answer::Send(MetadataResponse {
            brokers: vec![this],
            cluster_id: Some(KStr::from(self.engine.cluster_id())),
            controller_id: self.config.node_id,
            topics,
            cluster_authorized_operations: if request.include_cluster_authorized_operations {
                ALL_CLUSTER_OPERATIONS
            } else {
                OPERATIONS_NOT_ASKED
            },
            ..Default::default()
        })))
    }
}

impl Broker {
    fn all_topics(&self) -> Vec<MetadataResponseTopic> {
        self.engine.topics().iter().map(|topic| self.describe_topic(topic)).collect()
    }

    async fn asked_topics(
        self: &Arc<Self>,
        request: &MetadataRequest,
    ) -> Result<Vec<MetadataResponseTopic>, ApiError> {
        let named = request.topics.as_deref().unwrap_or_default();
        let create = request.allow_auto_topic_creation && self.config.auto_create_topics;
        let mut answers = Vec::with_capacity(named.len());
        let mut seen = HashSet::new();
        // Once one topic is asked for by id, Kafka looks at ids only.
        let by_id = named.iter().any(|topic| !topic.topic_id.is_nil());
        let asked = named.iter().filter(|topic| !by_id || !topic.topic_id.is_nil());
        for topic in asked.filter(|topic| seen.insert((topic.name.clone(), topic.topic_id))) {
            answers.push(match &topic.name {
                _ if !topic.topic_id.is_nil() => self.topic_by_id(topic),
                Some(name) => self.topic_by_name(name, create).await?,
                None => failed(None, Uuid::nil(), ErrorCode::UnknownTopicId),
            });
        }
        Ok(answers)
    }

    fn topic_by_id(&self, asked: &MetadataRequestTopic) -> MetadataResponseTopic {
        match self.engine.topics().by_id(&asked.topic_id) {
            Some(topic) => self.describe_topic(&topic),
            None => failed(None, asked.topic_id, ErrorCode::UnknownTopicId),
        }
    }

    async fn topic_by_name(
        self: &Arc<Self>,
        name: &KStr,
        create: bool,
    ) -> Result<MetadataResponseTopic, ApiError> {
        if let Some(topic) = self.topic(name) {
            return Ok(self.describe_topic(&topic));
        }
        let refused = |code| failed(Some(name.clone()), Uuid::nil(), code);
        if check_name(name).is_err() {
            return Ok(refused(ErrorCode::InvalidTopicException));
        }
        if !create {
            return Ok(refused(ErrorCode::UnknownTopicOrPartition));
        }
        let spec = TopicSpec {
            name: name.to_string(),
            partitions: u32::try_from(self.config.num_partitions).unwrap_or(1),
            config: Default::default(),
        };
        let created = self.blocking(move |broker| broker.engine.create_topic(spec)).await?;
        // Another client may have been first; then its topic is the answer.
        Ok(match (created, self.topic(name)) {
            (Ok(topic), _) | (Err(_), Some(topic)) => self.describe_topic(&topic),
            (Err(error), None) => refused(create_topic_code(&error)),
        })
    }

    fn describe_topic(&self, topic: &Topic) -> MetadataResponseTopic {
        MetadataResponseTopic {
            name: Some(KStr::from(topic.name.as_str())),
            topic_id: topic.id,
            partitions: topic.partitions.iter().map(|partition| self.describe_partition(partition)).collect(),
            topic_authorized_operations: OPERATIONS_NOT_ASKED,
            ..Default::default()
        }
    }

    fn describe_partition(&self, partition: &Partition) -> MetadataResponsePartition {
        let this = self.config.node_id;
        MetadataResponsePartition {
            partition_index: partition.index(),
            leader_id: this,
            leader_epoch: partition.leader_epoch(),
            replica_nodes: vec![this],
            isr_nodes: vec![this],
            ..Default::default()
        }
    }
}

fn failed(name: Option<KStr>, topic_id: Uuid, code: ErrorCode) -> MetadataResponseTopic {
    MetadataResponseTopic {
        error_code: code.code(),
        name,
        topic_id,
        topic_authorized_operations: OPERATIONS_NOT_ASKED,
        ..Default::default()
    }
}
