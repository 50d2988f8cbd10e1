//! The APIs that kaas serves: the table behind ApiVersions, the gate, the classes and the book's matrix.
//!
//! An API is here when it works; a version is in the range when it works. Nothing else is advertised.

use kaas_proto::{ApiKey, VersionRange};

/// Which limits a request runs under.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    /// Records and transactions: bounded by memory, never queued behind administration.
    Data,
    /// Answers from memory, which every client needs before it can do anything: never queued behind changes.
    Lookup,
    /// Everything that changes metadata.
    Control,
}

/// One served API.
#[derive(Clone, Copy, Debug)]
pub struct Api {
    /// Its key.
    pub key: ApiKey,
    /// The versions that are served, within Kafka 3.7's.
    pub versions: VersionRange,
    /// Its class.
    pub class: Class,
    /// What differs from Kafka 3.7's range, if anything.
    pub note: &'static str,
}

const fn api(key: ApiKey, min: i16, max: i16, class: Class, note: &'static str) -> Api {
    Api { key, versions: VersionRange { min, max }, class, note }
}

use Class::{Control, Data, Lookup};

/// Every served API, sorted by key.
#[rustfmt::skip]
pub const APIS: &[Api] = &[
    api(ApiKey::Produce, 0, 10, Data, ""),
    api(ApiKey::Fetch, 0, 16, Data, ""),
    api(ApiKey::ListOffsets, 0, 8, Data, ""),
    api(ApiKey::Metadata, 0, 12, Lookup, ""),
    api(ApiKey::OffsetCommit, 0, 9, Data, ""),
    api(ApiKey::OffsetFetch, 0, 9, Data, ""),
    api(ApiKey::FindCoordinator, 0, 4, Lookup, ""),
    api(ApiKey::JoinGroup, 0, 9, Data, ""),
    api(ApiKey::Heartbeat, 0, 4, Data, ""),
    api(ApiKey::LeaveGroup, 0, 5, Data, ""),
    api(ApiKey::SyncGroup, 0, 5, Data, ""),
    api(ApiKey::DescribeGroups, 0, 5, Lookup, ""),
    api(ApiKey::ListGroups, 0, 4, Lookup, ""),
    api(ApiKey::ApiVersions, 0, 3, Lookup, ""),
    api(ApiKey::CreateTopics, 0, 7, Control, ""),
    api(ApiKey::DeleteTopics, 0, 6, Control, ""),
    api(ApiKey::DeleteRecords, 0, 2, Control, ""),
    api(ApiKey::InitProducerId, 0, 4, Control, ""),
    api(ApiKey::OffsetForLeaderEpoch, 0, 4, Data, ""),
    api(ApiKey::AddPartitionsToTxn, 0, 4, Data, ""),
    api(ApiKey::AddOffsetsToTxn, 0, 3, Data, ""),
    api(ApiKey::EndTxn, 0, 3, Data, ""),
    api(ApiKey::WriteTxnMarkers, 0, 1, Data, ""),
    api(ApiKey::TxnOffsetCommit, 0, 3, Data, ""),
    api(ApiKey::DescribeConfigs, 0, 4, Lookup, ""),
    api(ApiKey::DeleteGroups, 0, 2, Control, ""),
    api(ApiKey::OffsetDelete, 0, 0, Control, ""),
    api(ApiKey::DescribeCluster, 0, 1, Lookup, ""),
    api(ApiKey::DescribeProducers, 0, 0, Lookup, ""),
    api(ApiKey::DescribeTransactions, 0, 0, Lookup, ""),
    api(ApiKey::ListTransactions, 0, 0, Lookup, ""),
];

/// The row of an API, or `None` when it is not served.
pub fn find(key: i16) -> Option<&'static Api> {
    APIS.iter().find(|api| api.key.code() == key)
}

/// A served range lies within Kafka's, and no key is there twice: checked when this file is compiled.
const _: () = {
    let mut at = 0;
    while at < APIS.len() {
        let (api, valid) = (&APIS[at], APIS[at].key.info().valid);
        assert!(
            api.versions.min >= valid.min
                && api.versions.max <= valid.max
                && api.versions.min <= api.versions.max
        );
        assert!(at == 0 || (APIS[at - 1].key as i16) < (api.key as i16));
        at += 1;
    }
};
