//! LeaveGroup (key 13, versions 0-5): members go, or an administrator removes them.
//!
//! * v3: several members, each with its own error (KIP-345). v4: flexible. v5: a reason, which only logs would show (KIP-800).

use std::sync::Arc;

use kaas_core::group::{LeaveRequest, LeavingMember};
use kaas_proto::messages::leave_group_request::MemberIdentity;
use kaas_proto::messages::leave_group_response::MemberResponse;
use kaas_proto::messages::{LeaveGroupRequest, LeaveGroupResponse};

use crate::broker::Broker;
use crate::coordinators::answer;
use crate::error::{ApiError, group_code};
use crate::groups::{code_of, owned};
use crate::request::{Answer, Reply, RequestCx};
use crate::router::Handler;

/// The first version with several members.
const SEVERAL_FROM: i16 = 3;

impl Handler<LeaveGroupRequest> for Broker {
    async fn handle(
        self: Arc<Self>,
        cx: RequestCx,
        request: LeaveGroupRequest,
    ) -> Result<Reply<LeaveGroupResponse>, ApiError> {
        let version = cx.version;
        let members = if version < SEVERAL_FROM {
            vec![MemberIdentity { member_id: request.member_id, ..Default::default() }]
        } else {
            request.members
        };
        let leaving = |member: &MemberIdentity| LeavingMember {
            member_id: member.member_id.to_string(),
            instance_id: owned(&member.group_instance_id),
        };
        let group = request.group_id.to_string();
        let leave = LeaveRequest { group, members: members.iter().map(leaving).collect() };
        let called = self.groups.call(&request.group_id, |slot, now, out| slot.leave(&leave, now, out));
        Ok(Reply::Later(Box::pin(async move {
            let results = match answer(called).await {
                Ok(left) => left.map_err(group_code),
                Err(code) => Err(code),
            };
            Answer::Send(match results {
                Err(code) => LeaveGroupResponse { error_code: code.code(), ..Default::default() },
                Ok(results) if version < SEVERAL_FROM => {
                    let error_code = results.into_iter().map(code_of).next().unwrap_or_default();
                    LeaveGroupResponse { error_code, ..Default::default() }
                }
                Ok(results) => {
                    let member = |(member, result): (MemberIdentity, _)| MemberResponse {
                        member_id: member.member_id,
                        group_instance_id: member.group_instance_id,
                        error_code: code_of(result),
                    };
                    let members = members.into_iter().zip(results).map(member).collect();
                    LeaveGroupResponse { members, ..Default::default() }
                }
            })
        })))
    }
}
