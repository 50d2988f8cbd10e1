//! The handlers: one file an API, named like the API.

mod api_versions;
pub mod create_topics;
mod delete_records;
mod delete_topics;
mod describe_cluster;
mod describe_configs;
pub mod fetch;
mod init_producer_id;
mod list_offsets;
mod metadata;
mod offset_for_leader_epoch;
mod produce;

/// "Not asked for" in every field of authorised operations (KIP-430).
const OPERATIONS_NOT_ASKED: i32 = i32::MIN;
/// CREATE (5), ALTER (7) to IDEMPOTENT_WRITE (12): what the cluster allows when nothing restricts it.
const ALL_CLUSTER_OPERATIONS: i32 = 0x1fa0;
