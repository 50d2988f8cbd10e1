//! SyncGroup (key 14, versions 0-5): the leader assigns, the others wait for it.
//!
//! * v3: static members (KIP-345). v4: flexible. v5: the caller says what it takes the group's protocol for (KIP-559).

use std::sync::Arc;

use kaas_core::group::{GroupReply, SyncRequest, Synced};
use kaas_proto::messages::{SyncGroupRequest, SyncGroupResponse};
use kaas_proto::{ErrorCode, KStr};

use crate::broker::Broker;
use crate::error::{ApiError, group_code};
use crate::groups::owned;
use crate::request::{Answer, Reply, RequestCx};
use crate::router::Handler;

/// The first version whose callers must name the protocol.
const PROTOCOL_FROM: i16 = 5;

impl Handler<SyncGroupRequest> for Broker {
    async fn handle(
        self: Arc<Self>,
        cx: RequestCx,
        request: SyncGroupRequest,
    ) -> Result<Reply<SyncGroupResponse>, ApiError> {
        if cx.version >= PROTOCOL_FROM && (request.protocol_type.is_none() || request.protocol_name.is_none())
        {
            return Ok(Reply::Now(Answer::Send(refused(ErrorCode::InconsistentGroupProtocol))));
        }
        let assignments = request
            .assignments
            .iter()
            .map(|one| (one.member_id.to_string(), one.assignment.clone()))
            .collect();
        let sync = SyncRequest {
            group: request.group_id.to_string(),
            member_id: request.member_id.to_string(),
            instance_id: owned(&request.group_instance_id),
            generation: request.generation_id,
            protocol_type: owned(&request.protocol_type),
            protocol: owned(&request.protocol_name),
            assignments,
        };
        let reply = self.parked(&request.group_id, |slot, token, now, out| slot.sync(sync, token, now, out));
        Ok(Reply::Later(Box::pin(async move {
            Answer::Send(match reply.await {
                Ok(GroupReply::Sync(Ok(Synced { protocol_type, protocol, assignment }))) => {
                    SyncGroupResponse {
                        protocol_type: protocol_type.map(KStr::from),
                        protocol_name: protocol.map(KStr::from),
                        assignment,
                        ..Default::default()
                    }
                }
                Ok(GroupReply::Sync(Err(error))) => refused(group_code(error)),
                Ok(GroupReply::Join(_)) => refused(ErrorCode::UnknownServerError),
                // What was being loaded has forgotten the generation: join again.
                Err(ErrorCode::CoordinatorLoadInProgress) => refused(ErrorCode::RebalanceInProgress),
                Err(code) => refused(code),
            })
        })))
    }
}

fn refused(code: ErrorCode) -> SyncGroupResponse {
    SyncGroupResponse { error_code: code.code(), ..Default::default() }
}
