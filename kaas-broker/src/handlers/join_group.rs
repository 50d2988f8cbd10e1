//! JoinGroup (key 11, versions 0-9): a member comes, and waits until all have.
//!
//! * v1: the rebalance timeout. v4: a new member is given its id first (KIP-394). v5: static members (KIP-345). v6: flexible.
//! * v7: the answer's protocol may be null. v9: a static member that leads again need not assign anew.

use std::sync::Arc;

use kaas_core::group::{GroupReply, JoinRefused, JoinRequest, Joined};
use kaas_proto::messages::join_group_response::JoinGroupResponseMember;
use kaas_proto::messages::{JoinGroupRequest, JoinGroupResponse};
use kaas_proto::{ErrorCode, KStr};
use uuid::Uuid;

use crate::broker::Broker;
use crate::error::{ApiError, group_code};
use crate::groups::owned;
use crate::request::{Answer, Reply, RequestCx};
use crate::router::Handler;

/// The first version with a rebalance timeout of its own.
const REBALANCE_TIMEOUT_FROM: i16 = 1;
/// The first version whose new members join twice.
const KNOWN_MEMBER_FROM: i16 = 4;
/// The first version whose protocol may be null.
const NULL_PROTOCOL_FROM: i16 = 7;
/// The first version that knows `skip_assignment`.
const SKIP_ASSIGNMENT_FROM: i16 = 9;
/// The generation of one who is not a member.
const NO_GENERATION: i32 = -1;

impl Handler<JoinGroupRequest> for Broker {
    async fn handle(
        self: Arc<Self>,
        cx: RequestCx,
        request: JoinGroupRequest,
    ) -> Result<Reply<JoinGroupResponse>, ApiError> {
        let version = cx.version;
        let member_id = request.member_id.clone();
        let join = join_request(request, &cx);
        let group = join.group.clone();
        let reply = self.parked(&group, |slot, token, now, out| slot.join(join, token, now, out));
        Ok(Reply::Later(Box::pin(async move {
            Answer::Send(match reply.await {
                Ok(GroupReply::Join(Ok(joined))) => response(joined, version),
                Ok(GroupReply::Join(Err(JoinRefused { error, member_id }))) => {
                    refused(group_code(error), member_id.into(), version)
                }
                Ok(GroupReply::Sync(_)) => refused(ErrorCode::UnknownServerError, member_id, version),
                Err(code) => refused(code, member_id, version),
            })
        })))
    }
}

fn join_request(request: JoinGroupRequest, cx: &RequestCx) -> JoinRequest {
    let rebalance_timeout_ms = if cx.version < REBALANCE_TIMEOUT_FROM {
        request.session_timeout_ms
    } else {
        request.rebalance_timeout_ms
    };
    JoinRequest {
        group: request.group_id.to_string(),
        member_id: request.member_id.to_string(),
        instance_id: owned(&request.group_instance_id),
        client_id: cx.client_id.as_ref().map(KStr::to_string).unwrap_or_default(),
        client_host: format!("/{}", cx.conn.peer.ip()),
        rebalance_timeout_ms,
        session_timeout_ms: request.session_timeout_ms,
        protocol_type: request.protocol_type.to_string(),
        protocols: request.protocols.iter().map(|one| (one.name.to_string(), one.metadata.clone())).collect(),
        requires_known_member_id: cx.version >= KNOWN_MEMBER_FROM,
        supports_skip_assignment: cx.version >= SKIP_ASSIGNMENT_FROM,
        uuid: Uuid::new_v4(),
    }
}

fn response(joined: Joined, version: i16) -> JoinGroupResponse {
    let member = |member: kaas_core::group::JoinedMember| JoinGroupResponseMember {
        member_id: member.member_id.into(),
        group_instance_id: member.instance_id.map(KStr::from),
        metadata: member.metadata,
    };
    JoinGroupResponse {
        generation_id: joined.generation,
        protocol_type: joined.protocol_type.map(KStr::from),
        protocol_name: named(joined.protocol.map(KStr::from), version),
        leader: joined.leader.unwrap_or_default().into(),
        skip_assignment: joined.skip_assignment,
        member_id: joined.member_id.into(),
        members: joined.members.into_iter().map(member).collect(),
        ..Default::default()
    }
}

fn refused(code: ErrorCode, member_id: KStr, version: i16) -> JoinGroupResponse {
    JoinGroupResponse {
        error_code: code.code(),
        generation_id: NO_GENERATION,
        protocol_name: named(None, version),
        member_id,
        ..Default::default()
    }
}

/// The name of a protocol, which could not always be null.
fn named(protocol: Option<KStr>, version: i16) -> Option<KStr> {
    if version < NULL_PROTOCOL_FROM { Some(protocol.unwrap_or_default()) } else { protocol }
}
