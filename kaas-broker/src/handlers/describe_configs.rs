//! DescribeConfigs (key 32, versions 0-4): every key with its value and where the value came from.
//!
//! * v1: sources and synonyms (KIP-226). v3: types and documentation (KIP-569). v4: flexible.
//! * No keys, or an empty list of keys, asks for all keys.

use std::sync::Arc;

use kaas_proto::messages::describe_configs_request::{DescribeConfigsRequest, DescribeConfigsResource};
use kaas_proto::messages::describe_configs_response::{
    DescribeConfigsResourceResult, DescribeConfigsResponse, DescribeConfigsResult, DescribeConfigsSynonym,
};
use kaas_proto::{ErrorCode, KStr};

use super::create_topics::check_name;
use crate::broker::Broker;
use crate::config::def::Def;
use crate::config::resolve::{self, Overrides};
use crate::config::topic::TOPIC;
use crate::config::{Layers, broker};
use crate::error::ApiError;
use crate::request::{Answer, Reply, RequestCx};
use crate::router::Handler;

/// The resource types of topics and brokers.
const TOPIC_RESOURCE: i8 = 2;
const BROKER_RESOURCE: i8 = 4;

/// The first version that tells where a value came from.
const SOURCES_FROM: i16 = 1;

/// Where a value came from (KIP-226).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Source {
    /// Set on the topic.
    Topic = 1,
    /// Set in the broker's file, environment or command line.
    StaticBroker = 4,
    /// Nobody set it.
    Default = 5,
}

/// One key of a resource, ready for an answer.
#[derive(Clone, Debug)]
pub(super) struct Row {
    /// The key.
    pub(super) name: &'static str,
    /// Its effective value; `None` is null.
    pub(super) value: Option<String>,
    /// Whether no API changes it.
    pub(super) read_only: bool,
    /// Where the value came from.
    pub(super) source: Source,
    /// Whether the value must not be shown.
    pub(super) sensitive: bool,
    synonyms: Vec<(&'static str, Option<String>, Source)>,
    def: &'static Def,
}

/// Every topic-level key with its effective value.
pub(super) fn topic_rows<'a>(overrides: &'a Overrides, layers: &'a Layers) -> impl Iterator<Item = Row> + 'a {
    TOPIC.iter().map(|row| {
        let mut synonyms = Vec::new();
        if let Some(value) = overrides.get(row.def.name) {
            synonyms.push((row.def.name, Some(value.clone()), Source::Topic));
        }
        if let Some(name) = row.synonym {
            broker_synonyms(name, layers, &mut synonyms);
        }
        let value = resolve::effective(row, overrides, layers);
        let source = synonyms.first().map_or(Source::Default, |synonym| synonym.2);
        let def = &row.def;
        Row { name: def.name, value: Some(value), read_only: false, source, sensitive: false, synonyms, def }
    })
}

/// Every broker-level key with its effective value. Nothing changes a running broker's keys so far, so all are read-only.
fn broker_rows(layers: &Layers) -> impl Iterator<Item = Row> + '_ {
    broker::BROKER.iter().map(|def| {
        let mut synonyms = Vec::new();
        broker_synonyms(def.name, layers, &mut synonyms);
        let source = synonyms.first().map_or(Source::Default, |synonym| synonym.2);
        let value = layers.get(def.name).map(str::to_owned);
        Row { name: def.name, value, read_only: true, source, sensitive: def.sensitive(), synonyms, def }
    })
}

fn broker_synonyms(
    name: &'static str,
    layers: &Layers,
    synonyms: &mut Vec<(&'static str, Option<String>, Source)>,
) {
    if let Some(setting) = layers.setting(name) {
        synonyms.push((name, Some(setting.value.clone()), Source::StaticBroker));
    }
    if let Some(default) = broker::find(name).and_then(|def| def.default) {
        synonyms.push((name, Some(default.to_owned()), Source::Default));
    }
}

impl Handler<DescribeConfigsRequest> for Broker {
    async fn handle(
        self: Arc<Self>,
        cx: RequestCx,
        request: DescribeConfigsRequest,
    ) -> Result<Reply<DescribeConfigsResponse>, ApiError> {
        let results = request.resources.iter().map(|resource| {
            let rows = self.rows(resource);
            let (error, rows) = match rows {
                Ok(rows) => (None, rows),
                Err(error) => (Some(error), Vec::new()),
            };
            DescribeConfigsResult {
                error_code: error.as_ref().map_or(ErrorCode::None, |error| error.code).code(),
                // Kafka answers an empty sentence where it has nothing to say.
                error_message: Some(error.and_then(|error| error.sentence()).unwrap_or_default()),
                resource_type: resource.resource_type,
                resource_name: resource.resource_name.clone(),
                configs: rows.into_iter().map(|row| shape(row, &request, cx.version)).collect(),
            }
        });
        let results = results.collect();
        Ok(Reply::Now(Answer::Send(DescribeConfigsResponse { results, ..Default::default() })))
    }
}

impl Broker {
    fn rows(&self, resource: &DescribeConfigsResource) -> Result<Vec<Row>, ApiError> {
        let name = resource.resource_name.as_str();
        let rows: Vec<Row> = match resource.resource_type {
            TOPIC_RESOURCE => {
                check_name(name)?;
                let topic = self.topic(name).ok_or(ApiError::new(ErrorCode::UnknownTopicOrPartition))?;
                topic_rows(&topic.config, &self.config.layers).collect()
            }
            // The empty name asks for what was set for all brokers at run time: nothing can be.
            BROKER_RESOURCE if name.is_empty() => Vec::new(),
            BROKER_RESOURCE if name.parse() == Ok(self.config.node_id) => {
                broker_rows(&self.config.layers).collect()
            }
            BROKER_RESOURCE => {
                let own = self.config.node_id;
                let why =
                    format!("Unexpected broker id, expected {own} or empty string, but received {name}");
                return Err(ApiError::because(ErrorCode::InvalidRequest, why));
            }
            other => {
                let why = format!("Unsupported resource type: {other}");
                return Err(ApiError::because(ErrorCode::InvalidRequest, why));
            }
        };
        let keys = resource.configuration_keys.as_deref().unwrap_or_default();
        let wanted = |row: &Row| keys.is_empty() || keys.iter().any(|key| key.as_str() == row.name);
        Ok(rows.into_iter().filter(wanted).collect())
    }
}

fn shape(row: Row, request: &DescribeConfigsRequest, version: i16) -> DescribeConfigsResourceResult {
    let hide = |value: Option<String>| if row.sensitive { None } else { value.map(KStr::from) };
    let synonyms = row.synonyms.into_iter().map(|(name, value, source)| DescribeConfigsSynonym {
        name: KStr::from(name),
        value: hide(value),
        source: source as i8,
    });
    DescribeConfigsResourceResult {
        name: KStr::from(row.name),
        value: hide(row.value),
        read_only: row.read_only,
        // Version 0 has a flag of its own, which Kafka 3.7 never sets; sources came with version 1.
        is_default: false,
        config_source: if version >= SOURCES_FROM { row.source as i8 } else { -1 },
        is_sensitive: row.sensitive,
        synonyms: if request.include_synonyms { synonyms.collect() } else { Vec::new() },
        config_type: row.def.kind.code(),
        documentation: request.include_documentation.then(|| KStr::from(row.def.doc)),
    }
}
