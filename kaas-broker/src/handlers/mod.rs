//! The handlers: one file an API, named like the API.

mod add_offsets_to_txn;
mod add_partitions_to_txn;
mod api_versions;
pub mod create_topics;
mod delete_groups;
mod delete_records;
mod delete_topics;
mod describe_cluster;
mod describe_configs;
mod describe_groups;
mod describe_producers;
mod describe_transactions;
mod end_txn;
pub mod fetch;
mod find_coordinator;
mod heartbeat;
mod init_producer_id;
mod join_group;
mod leave_group;
mod list_groups;
mod list_offsets;
mod list_transactions;
mod metadata;
mod offset_commit;
mod offset_delete;
mod offset_fetch;
mod offset_for_leader_epoch;
mod produce;
mod sync_group;
mod txn_offset_commit;
mod write_txn_markers;

/// "Not asked for" in every field of authorised operations (KIP-430).
const OPERATIONS_NOT_ASKED: i32 = i32::MIN;
/// CREATE (5), ALTER (7) to IDEMPOTENT_WRITE (12): what the cluster allows when nothing restricts it.
const ALL_CLUSTER_OPERATIONS: i32 = 0x1fa0;
/// READ (3), DELETE (6) and DESCRIBE (8): what a group allows when nothing restricts it.
const ALL_GROUP_OPERATIONS: i32 = 0x148;
