//! CreateTopics (key 19, versions 0-7): new topics, durable and served when the answer comes.
//!
//! * v1: validate only, error messages. v4: -1 partitions or replicas mean the broker's default (KIP-464). v5: flexible, the configuration
//!   is answered (KIP-525). v6: throttling error. v7: topic ids.
//! * Any replication factor of 1 and more is accepted: all brokers mount the volume, so the list of replicas is a list of who may lead.

use std::collections::HashMap;
use std::sync::Arc;

use kaas_core::{CreateTopicError, TopicName, TopicSpec};
use kaas_proto::messages::create_topics_request::{CreatableTopic, CreateTopicsRequest};
use kaas_proto::messages::create_topics_response::{
    CreatableTopicConfigs, CreatableTopicResult, CreateTopicsResponse,
};
use kaas_proto::{ErrorCode, KStr};
use uuid::Uuid;

use super::describe_configs::topic_rows;
use crate::broker::Broker;
use crate::config::resolve::{self, Overrides};
use crate::error::{ApiError, create_topic_code};
use crate::request::{Answer, Reply, RequestCx};
use crate::router::Handler;

/// Partitions that one request may create, as in Kafka.
const PARTITIONS_PER_REQUEST_MAX: i64 = 10_000;
/// "The broker's default" for partitions and replicas.
const DEFAULT: i32 = -1;

/// A topic that may be created.
#[derive(Debug)]
struct Plan {
    spec: TopicSpec,
    replication_factor: i16,
}

impl Handler<CreateTopicsRequest> for Broker {
    async fn handle(
        self: Arc<Self>,
        _: RequestCx,
        request: CreateTopicsRequest,
    ) -> Result<Reply<CreateTopicsResponse>, ApiError> {
        let mut counts: HashMap<KStr, usize> = HashMap::new();
        for topic in &request.topics {
            *counts.entry(topic.name.clone()).or_default() += 1;
        }
        let mut budget = PARTITIONS_PER_REQUEST_MAX;
        let mut topics = Vec::with_capacity(counts.len());
        let mut twice = Vec::new();
        for topic in &request.topics {
            match counts.remove(&topic.name) {
                Some(1) => {}
                Some(_) => {
                    let error = ApiError::because(ErrorCode::InvalidRequest, "Duplicate topic name.");
                    twice.push(failed(&topic.name, &error));
                    continue;
                }
                None => continue,
            }
            let result = self.create_one(topic, request.validate_only, &mut budget).await;
            topics.push(result.unwrap_or_else(|error| failed(&topic.name, &error)));
        }
        topics.append(&mut twice);
        Ok(Reply::Now(Answer::Send(CreateTopicsResponse { topics, ..Default::default() })))
    }
}

impl Broker {
    async fn create_one(
        self: &Arc<Self>,
        topic: &CreatableTopic,
        validate_only: bool,
        budget: &mut i64,
    ) -> Result<CreatableTopicResult, ApiError> {
        let Plan { spec, replication_factor } = self.plan(topic)?;
        *budget -= i64::from(spec.partitions);
        if *budget < 0 {
            let why = "Excessively large number of partitions per request.";
            return Err(ApiError::because(ErrorCode::PolicyViolation, why));
        }
        let partitions = i32::try_from(spec.partitions).unwrap_or(i32::MAX);
        let configs = self.describe(&spec.config);
        let topic_id = if validate_only {
            // An id like the one that the topic would get.
            Uuid::new_v4()
        } else {
            let created = self.blocking(move |broker| broker.engine.create_topic(spec)).await?;
            created.map_err(|error| refusal(&error))?.id
        };
        Ok(CreatableTopicResult {
            name: topic.name.clone(),
            topic_id,
            error_message: None,
            num_partitions: partitions,
            replication_factor,
            configs: Some(configs),
            ..Default::default()
        })
    }

    fn plan(&self, topic: &CreatableTopic) -> Result<Plan, ApiError> {
        check_name(&topic.name)?;
        if self.topic(&topic.name).is_some() {
            let why = format!("Topic '{}' already exists.", topic.name);
            return Err(ApiError::because(ErrorCode::TopicAlreadyExists, why));
        }
        self.check_collision(&topic.name)?;
        let (partitions, replication_factor) =
            if topic.assignments.is_empty() { self.counts(topic)? } else { self.assigned(topic)? };
        let mut config = Overrides::new();
        for entry in &topic.configs {
            let value = resolve::check(&entry.name, entry.value.as_deref())
                .map_err(|error| ApiError::because(ErrorCode::InvalidConfig, error.to_string()))?;
            config.insert(entry.name.to_string(), value);
        }
        Ok(Plan { spec: TopicSpec { name: topic.name.to_string(), partitions, config }, replication_factor })
    }

    fn counts(&self, topic: &CreatableTopic) -> Result<(u32, i16), ApiError> {
        let replication_factor = match topic.replication_factor {
            factor if i32::from(factor) == DEFAULT => self.config.default_replication_factor,
            factor if factor < 1 => {
                let why = "Replication factor must be larger than 0, or -1 to use the default value.";
                return Err(ApiError::because(ErrorCode::InvalidReplicationFactor, why));
            }
            factor => factor,
        };
        let partitions =
            if topic.num_partitions == DEFAULT { self.config.num_partitions } else { topic.num_partitions };
        match u32::try_from(partitions) {
            Ok(count) if count > 0 => Ok((count, replication_factor)),
            _ => {
                let why = "Number of partitions was set to an invalid non-positive value.";
                Err(ApiError::because(ErrorCode::InvalidPartitions, why))
            }
        }
    }

    /// Manual assignments: consecutive partitions from 0, each led by brokers that exist.
    fn assigned(&self, topic: &CreatableTopic) -> Result<(u32, i16), ApiError> {
        let invalid = |why: &str| ApiError::because(ErrorCode::InvalidRequest, why);
        if i32::from(topic.replication_factor) != DEFAULT {
            return Err(invalid(
                "A manual partition assignment was specified, but replication factor was not set to -1.",
            ));
        }
        if topic.num_partitions != DEFAULT {
            return Err(invalid(
                "A manual partition assignment was specified, but numPartitions was not set to -1.",
            ));
        }
        let wrong = |why: String| ApiError::because(ErrorCode::InvalidReplicaAssignment, why);
        let mut indexes: Vec<i32> =
            topic.assignments.iter().map(|assignment| assignment.partition_index).collect();
        indexes.sort_unstable();
        if indexes.iter().enumerate().any(|(at, index)| usize::try_from(*index) != Ok(at)) {
            return Err(wrong("partitions should be a consecutive 0-based integer sequence".to_owned()));
        }
        for assignment in &topic.assignments {
            match assignment.broker_ids.as_slice() {
                [] => {
                    return Err(wrong(
                        "The manual partition assignment includes an empty replica list.".to_owned(),
                    ));
                }
                [broker] if *broker == self.config.node_id => {}
                [broker] => {
                    let why = format!(
                        "The manual partition assignment includes broker {broker}, but no such broker is registered."
                    );
                    return Err(wrong(why));
                }
                brokers => {
                    let why = format!(
                        "The manual partition assignment includes {} brokers, but there is one.",
                        brokers.len()
                    );
                    return Err(wrong(why));
                }
            }
        }
        Ok((u32::try_from(indexes.len()).unwrap_or(u32::MAX), 1))
    }

    /// `a.b` and `a_b` would share the name of a metric, so Kafka has only one of them.
    fn check_collision(&self, name: &str) -> Result<(), ApiError> {
        if !name.contains(['.', '_']) {
            return Ok(());
        }
        let folded = name.replace('.', "_");
        let topics = self.engine.topics();
        let other = topics.iter().find(|topic| topic.name.as_str().replace('.', "_") == folded);
        match other {
            None => Ok(()),
            Some(topic) => {
                let why = format!("Topic '{name}' collides with existing topic: {}", topic.name.as_str());
                Err(ApiError::because(ErrorCode::InvalidTopicException, why))
            }
        }
    }

    fn describe(&self, overrides: &Overrides) -> Vec<CreatableTopicConfigs> {
        topic_rows(overrides, &self.config.layers)
            .map(|row| CreatableTopicConfigs {
                name: KStr::from(row.name),
                value: row.value.map(KStr::from),
                read_only: row.read_only,
                config_source: row.source as i8,
                is_sensitive: row.sensitive,
            })
            .collect()
    }
}

fn failed(name: &KStr, error: &ApiError) -> CreatableTopicResult {
    CreatableTopicResult {
        name: name.clone(),
        error_code: error.code.code(),
        error_message: Some(error.message()),
        ..Default::default()
    }
}

fn refusal(error: &CreateTopicError) -> ApiError {
    ApiError::because(create_topic_code(error), error.to_string())
}

/// Kafka's rule for topic names.
pub fn check_name(name: &str) -> Result<(), ApiError> {
    TopicName::new(name)
        .map(drop)
        .map_err(|invalid| ApiError::because(ErrorCode::InvalidTopicException, invalid.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_follow_kafkas_rule() {
        for good in ["a", "A.b_c-9", "..."] {
            assert!(check_name(good).is_ok(), "{good}");
        }
        for bad in ["", ".", "..", "a b", "a/b", "é", &"x".repeat(250)] {
            assert_eq!(check_name(bad).unwrap_err().code, ErrorCode::InvalidTopicException, "{bad}");
        }
    }
}
