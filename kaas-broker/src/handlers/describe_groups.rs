//! DescribeGroups (key 15, versions 0-5): the members of groups and what they have.
//!
//! * v3: authorised operations (KIP-430). v4: group instance ids. v5: flexible.
//! * A group that does not exist is no error: it is `Dead`, without members.

use std::sync::Arc;

use kaas_core::group;
use kaas_proto::messages::describe_groups_response::{DescribedGroup, DescribedGroupMember};
use kaas_proto::messages::{DescribeGroupsRequest, DescribeGroupsResponse};
use kaas_proto::{ErrorCode, KStr};

use super::{ALL_GROUP_OPERATIONS, OPERATIONS_NOT_ASKED};
use crate::broker::Broker;
use crate::coordinators::answer;
use crate::error::ApiError;
use crate::request::{Answer, Reply, RequestCx};
use crate::router::Handler;

/// The state of a group that does not exist.
const DEAD: &str = "Dead";

impl Handler<DescribeGroupsRequest> for Broker {
    async fn handle(
        self: Arc<Self>,
        _: RequestCx,
        request: DescribeGroupsRequest,
    ) -> Result<Reply<DescribeGroupsResponse>, ApiError> {
        let authorized_operations =
            if request.include_authorized_operations { ALL_GROUP_OPERATIONS } else { OPERATIONS_NOT_ASKED };
        let mut groups = Vec::with_capacity(request.groups.len());
        for group_id in request.groups {
            let called = self.groups.call(&group_id, |slot, _, _| slot.describe(&group_id));
            let described = described(group_id, answer(called).await);
            groups.push(match described.error_code {
                0 => DescribedGroup { authorized_operations, ..described },
                _ => described,
            });
        }
        Ok(Reply::Now(Answer::Send(DescribeGroupsResponse { groups, ..Default::default() })))
    }
}

fn described(group_id: KStr, found: Result<Option<group::DescribedGroup>, ErrorCode>) -> DescribedGroup {
    let empty =
        DescribedGroup { group_id, authorized_operations: OPERATIONS_NOT_ASKED, ..Default::default() };
    match found {
        Err(code) => DescribedGroup { error_code: code.code(), ..empty },
        Ok(None) => DescribedGroup { group_state: DEAD.into(), ..empty },
        Ok(Some(group)) => DescribedGroup {
            group_state: group.state.name().into(),
            protocol_type: group.protocol_type.into(),
            protocol_data: group.protocol.into(),
            members: group.members.into_iter().map(member).collect(),
            ..empty
        },
    }
}

fn member(member: group::DescribedMember) -> DescribedGroupMember {
    DescribedGroupMember {
        member_id: member.member_id.into(),
        group_instance_id: member.instance_id.map(KStr::from),
        client_id: member.client_id.into(),
        client_host: member.client_host.into(),
        member_metadata: member.metadata,
        member_assignment: member.assignment,
    }
}
