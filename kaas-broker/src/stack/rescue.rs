//! The failure of a whole request becomes the error response of its API. Handlers below build none.

use std::task::{Context, Poll};

use kaas_proto::messages::{
    ApiVersionsResponse, CreateTopicsResponse, DeleteGroupsResponse, DeleteRecordsResponse,
    DeleteTopicsResponse, DescribeClusterResponse, DescribeConfigsResponse, DescribeGroupsResponse,
    DescribeProducersResponse, DescribeTransactionsResponse, FetchResponse, FindCoordinatorResponse,
    InitProducerIdResponse, ListGroupsResponse, ListTransactionsResponse, MetadataResponse,
    OffsetDeleteResponse,
    create_topics_response::CreatableTopicResult,
    delete_groups_response::DeletableGroupResult,
    delete_records_response::{DeleteRecordsPartitionResult, DeleteRecordsTopicResult},
    delete_topics_response::DeletableTopicResult,
    describe_configs_response::DescribeConfigsResult,
    describe_groups_response::DescribedGroup,
    describe_producers_response::{PartitionResponse, TopicResponse},
    describe_transactions_response::TransactionState,
    fetch_response::{FetchableTopicResponse, PartitionData},
    metadata_response::MetadataResponseTopic,
};
use kaas_proto::{RequestBody, ResponseBody};
use tower::Service;

use super::Typed;
use crate::error::ApiError;
use crate::request::{Answer, BoxFuture, ConnError, Reply, Request};

/// The rescue layer.
#[derive(Clone, Debug)]
pub(super) struct Rescue<S> {
    inner: S,
}

impl<S> Rescue<S> {
    pub(super) fn new(inner: S) -> Self {
        Rescue { inner }
    }
}

/// Builds the error response of one request.
type ErrorShape = Box<dyn FnOnce(&ApiError) -> ResponseBody + Send>;

/// What an error response must repeat of its request. `None`: the API reports every failure per partition, in its handler.
fn shape(request: &RequestBody) -> Option<ErrorShape> {
    Some(match request {
        RequestBody::ApiVersions(_) => Box::new(|error| {
            ApiVersionsResponse { error_code: error.code.code(), ..Default::default() }.into()
        }),
        RequestBody::DescribeCluster(_) => Box::new(|error| {
            let error_message = Some(error.message());
            DescribeClusterResponse { error_code: error.code.code(), error_message, ..Default::default() }
                .into()
        }),
        RequestBody::InitProducerId(_) => Box::new(|error| {
            InitProducerIdResponse {
                error_code: error.code.code(),
                producer_id: -1,
                producer_epoch: -1,
                ..Default::default()
            }
            .into()
        }),
        RequestBody::ListGroups(_) => Box::new(|error| {
            ListGroupsResponse { error_code: error.code.code(), ..Default::default() }.into()
        }),
        RequestBody::OffsetDelete(_) => Box::new(|error| {
            OffsetDeleteResponse { error_code: error.code.code(), ..Default::default() }.into()
        }),
        RequestBody::FindCoordinator(_) => Box::new(|error| {
            let (error_code, error_message) = (error.code.code(), Some(error.message()));
            FindCoordinatorResponse { error_code, error_message, node_id: -1, port: -1, ..Default::default() }
                .into()
        }),
        RequestBody::DescribeGroups(request) => {
            let groups = request.groups.clone();
            Box::new(move |error| {
                let failed = groups.into_iter().map(|group_id| DescribedGroup {
                    error_code: error.code.code(),
                    group_id,
                    authorized_operations: i32::MIN,
                    ..Default::default()
                });
                DescribeGroupsResponse { groups: failed.collect(), ..Default::default() }.into()
            })
        }
        RequestBody::DeleteGroups(request) => {
            let groups = request.groups_names.clone();
            Box::new(move |error| {
                let error_code = error.code.code();
                let failed = groups.into_iter().map(|group_id| DeletableGroupResult { group_id, error_code });
                DeleteGroupsResponse { results: failed.collect(), ..Default::default() }.into()
            })
        }
        RequestBody::Metadata(request) => {
            let topics = request.topics.clone().unwrap_or_default();
            Box::new(move |error| {
                let failed = topics.into_iter().map(|topic| MetadataResponseTopic {
                    error_code: error.code.code(),
                    name: Some(topic.name.unwrap_or_default()),
                    topic_id: topic.topic_id,
                    ..Default::default()
                });
                MetadataResponse { topics: failed.collect(), ..Default::default() }.into()
            })
        }
        RequestBody::CreateTopics(request) => {
            let names: Vec<_> = request.topics.iter().map(|topic| topic.name.clone()).collect();
            Box::new(move |error| {
                let failed = names.into_iter().map(|name| CreatableTopicResult {
                    name,
                    error_code: error.code.code(),
                    error_message: Some(error.message()),
                    ..Default::default()
                });
                CreateTopicsResponse { topics: failed.collect(), ..Default::default() }.into()
            })
        }
        RequestBody::DeleteTopics(request) => {
            let named = request.topic_names.iter().map(|name| (Some(name.clone()), Default::default()));
            let listed = request.topics.iter().map(|topic| (topic.name.clone(), topic.topic_id));
            let topics: Vec<_> = named.chain(listed).collect();
            Box::new(move |error| {
                let failed = topics.into_iter().map(|(name, topic_id)| DeletableTopicResult {
                    name,
                    topic_id,
                    error_code: error.code.code(),
                    error_message: Some(error.message()),
                });
                DeleteTopicsResponse { responses: failed.collect(), ..Default::default() }.into()
            })
        }
        RequestBody::DeleteRecords(request) => {
            let topics = request.topics.clone();
            Box::new(move |error| {
                let failed = topics.into_iter().map(|topic| DeleteRecordsTopicResult {
                    name: topic.name,
                    partitions: topic
                        .partitions
                        .iter()
                        .map(|asked| DeleteRecordsPartitionResult {
                            partition_index: asked.partition_index,
                            low_watermark: -1,
                            error_code: error.code.code(),
                        })
                        .collect(),
                });
                DeleteRecordsResponse { topics: failed.collect(), ..Default::default() }.into()
            })
        }
        RequestBody::DescribeConfigs(request) => {
            let resources: Vec<_> = request
                .resources
                .iter()
                .map(|resource| (resource.resource_type, resource.resource_name.clone()))
                .collect();
            Box::new(move |error| {
                let failed =
                    resources.into_iter().map(|(resource_type, resource_name)| DescribeConfigsResult {
                        error_code: error.code.code(),
                        error_message: Some(error.message()),
                        resource_type,
                        resource_name,
                        ..Default::default()
                    });
                DescribeConfigsResponse { results: failed.collect(), ..Default::default() }.into()
            })
        }
        RequestBody::DescribeProducers(request) => {
            let topics = request.topics.clone();
            Box::new(move |error| {
                let failed = topics.into_iter().map(|topic| TopicResponse {
                    name: topic.name,
                    partitions: topic
                        .partition_indexes
                        .iter()
                        .map(|&partition_index| PartitionResponse {
                            partition_index,
                            error_code: error.code.code(),
                            error_message: Some(error.message()),
                            ..Default::default()
                        })
                        .collect(),
                });
                DescribeProducersResponse { topics: failed.collect(), ..Default::default() }.into()
            })
        }
        RequestBody::DescribeTransactions(request) => {
            let ids = request.transactional_ids.clone();
            Box::new(move |error| {
                let failed = ids.into_iter().map(|transactional_id| TransactionState {
                    error_code: error.code.code(),
                    transactional_id,
                    ..Default::default()
                });
                let transaction_states = failed.collect();
                DescribeTransactionsResponse { transaction_states, ..Default::default() }.into()
            })
        }
        RequestBody::ListTransactions(_) => Box::new(|error| {
            ListTransactionsResponse { error_code: error.code.code(), ..Default::default() }.into()
        }),
        RequestBody::Fetch(request) if !matches!(request.isolation_level, 0 | 1) => {
            let topics = request.topics.clone();
            Box::new(move |error| {
                let failed = topics.into_iter().map(|topic| FetchableTopicResponse {
                    topic: topic.topic,
                    topic_id: topic.topic_id,
                    partitions: topic.partitions.iter().map(|at| failed_fetch(at.partition, error)).collect(),
                });
                let responses = failed.collect();
                FetchResponse { error_code: error.code.code(), responses, ..Default::default() }.into()
            })
        }
        _ => return None,
    })
}

fn failed_fetch(partition_index: i32, error: &ApiError) -> PartitionData {
    PartitionData {
        partition_index,
        error_code: error.code.code(),
        high_watermark: -1,
        preferred_read_replica: -1,
        records: None,
        ..Default::default()
    }
}

impl<S> Service<Request> for Rescue<S>
where
    S: Typed,
    S::Future: Send + 'static,
{
    type Response = Reply<ResponseBody>;
    type Error = ConnError;
    type Future = BoxFuture<Result<Reply<ResponseBody>, ConnError>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), ConnError>> {
        self.inner.poll_ready(cx).map_err(|error| ConnError::Unanswerable(error.to_string()))
    }

    fn call(&mut self, request: Request) -> Self::Future {
        let shape = shape(&request.body);
        let future = self.inner.call(request);
        Box::pin(async move {
            let error = match future.await {
                Ok(reply) => return Ok(reply),
                Err(error) => error,
            };
            tracing::debug!(%error, "request failed");
            match shape {
                Some(shape) => Ok(Reply::Now(Answer::Send(shape(&error)))),
                None => Err(ConnError::Unanswerable(error.to_string())),
            }
        })
    }
}
