//! DeleteTopics (key 20, versions 0-6): topics that are gone when the answer comes.
//!
//! * v1: throttle time. v4: flexible. v5: error messages. v6: topics by id (KIP-516).

use std::collections::HashMap;
use std::sync::Arc;

use kaas_core::Topic;
use kaas_proto::messages::delete_topics_request::{DeleteTopicState, DeleteTopicsRequest};
use kaas_proto::messages::delete_topics_response::{DeletableTopicResult, DeleteTopicsResponse};
use kaas_proto::{ErrorCode, KStr};
use uuid::Uuid;

use crate::broker::Broker;
use crate::error::{ApiError, delete_topic_code};
use crate::request::{Answer, Reply, RequestCx};
use crate::router::Handler;

/// The first version that has a code for "deletion is disabled".
const DISABLED_CODE_FROM: i16 = 3;
/// The first version that lists topics by name or id.
const BY_ID_FROM: i16 = 6;

impl Handler<DeleteTopicsRequest> for Broker {
    async fn handle(
        self: Arc<Self>,
        cx: RequestCx,
        request: DeleteTopicsRequest,
    ) -> Result<Reply<DeleteTopicsResponse>, ApiError> {
        if !self.config.delete_topic_enable {
            let old = cx.version < DISABLED_CODE_FROM;
            return Err(ApiError::new(if old {
                ErrorCode::InvalidRequest
            } else {
                ErrorCode::TopicDeletionDisabled
            }));
        }
        let asked = asked(&request, cx.version);
        let mut counts: HashMap<(Option<KStr>, Uuid), usize> = HashMap::new();
        for topic in &asked {
            *counts.entry((topic.name.clone(), topic.topic_id)).or_default() += 1;
        }
        let mut responses = Vec::with_capacity(asked.len());
        for topic in asked {
            let Some(count) = counts.remove(&(topic.name.clone(), topic.topic_id)) else { continue };
            responses.push(self.delete_one(topic, count > 1).await?);
        }
        Ok(Reply::Now(Answer::Send(DeleteTopicsResponse { responses, ..Default::default() })))
    }
}

/// The topics in the shape of v6.
fn asked(request: &DeleteTopicsRequest, version: i16) -> Vec<DeleteTopicState> {
    if version >= BY_ID_FROM {
        return request.topics.clone();
    }
    let named = request.topic_names.iter().cloned();
    named.map(|name| DeleteTopicState { name: Some(name), ..Default::default() }).collect()
}

impl Broker {
    async fn delete_one(
        self: &Arc<Self>,
        topic: DeleteTopicState,
        twice: bool,
    ) -> Result<DeletableTopicResult, ApiError> {
        let (name, id, result) = match self.find(&topic, twice) {
            Err(error) => (topic.name, topic.topic_id, Err(error)),
            Ok(found) => {
                let gone = Arc::clone(&found);
                let deleted = self.blocking(move |broker| broker.engine.delete_topic(&gone)).await?;
                if deleted.is_ok() {
                    self.forget_offsets(&|topic, id| topic == found.name.as_str() && id == found.id).await;
                }
                let result = deleted.map_err(|error| {
                    // Another client may have been first.
                    ApiError::because(delete_topic_code(&error), error.to_string())
                });
                (Some(KStr::from(found.name.as_str())), found.id, result)
            }
        };
        let error = result.err();
        Ok(DeletableTopicResult {
            name,
            topic_id: id,
            error_code: error.as_ref().map_or(ErrorCode::None, |error| error.code).code(),
            error_message: error.map(|error| error.message()),
        })
    }

    fn find(&self, topic: &DeleteTopicState, twice: bool) -> Result<Arc<Topic>, ApiError> {
        let invalid = |why: &str| ApiError::because(ErrorCode::InvalidRequest, why);
        let topics = self.engine.topics();
        let found = match &topic.name {
            None if topic.topic_id.is_nil() => {
                return Err(invalid("Neither topic name nor id were specified."));
            }
            Some(_) if !topic.topic_id.is_nil() => {
                return Err(invalid("You may not specify both topic name and topic id."));
            }
            Some(_) if twice => return Err(invalid("Duplicate topic name.")),
            None if twice => return Err(invalid("Duplicate topic id.")),
            Some(name) => topics.by_name(name).ok_or(ErrorCode::UnknownTopicOrPartition),
            None => topics.by_id(&topic.topic_id).ok_or(ErrorCode::UnknownTopicId),
        };
        found.map_err(|code| match code {
            ErrorCode::UnknownTopicId => ApiError::because(code, "This server does not host this topic ID."),
            _ => ApiError::because(code, "This server does not host this topic-partition."),
        })
    }
}
