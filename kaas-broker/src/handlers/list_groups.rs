//! ListGroups (key 16, versions 0-4): the groups that this broker coordinates.
//!
//! * v3: flexible. v4: only those in some states, and each one's state (KIP-518).

use std::sync::Arc;

use kaas_core::coordinator::SLOTS;
use kaas_proto::messages::list_groups_response::ListedGroup;
use kaas_proto::messages::{ListGroupsRequest, ListGroupsResponse};
use kaas_proto::{ErrorCode, KStr};

use crate::broker::Broker;
use crate::coordinators::answer;
use crate::error::ApiError;
use crate::request::{Answer, Reply, RequestCx};
use crate::router::Handler;

impl Handler<ListGroupsRequest> for Broker {
    async fn handle(
        self: Arc<Self>,
        _: RequestCx,
        request: ListGroupsRequest,
    ) -> Result<Reply<ListGroupsResponse>, ApiError> {
        let wanted = |state: &str| {
            let named = |name: &KStr| name.as_str() == state;
            request.states_filter.is_empty() || request.states_filter.iter().any(named)
        };
        let (mut groups, mut error_code) = (Vec::new(), ErrorCode::None);
        for slot in 0..SLOTS {
            let called = self.groups.call_slot(slot, |slot, _, _| slot.list().collect::<Vec<_>>());
            match answer(called).await {
                Ok(listed) => {
                    groups.extend(listed.into_iter().filter(|one| wanted(one.state.name())).map(|one| {
                        ListedGroup {
                            group_id: one.group.into(),
                            protocol_type: one.protocol_type.into(),
                            group_state: one.state.name().into(),
                        }
                    }))
                }
                // The rest is listed all the same, and whoever asks learns that it is not all.
                Err(code) => error_code = code,
            }
        }
        let response = ListGroupsResponse { error_code: error_code.code(), groups, ..Default::default() };
        Ok(Reply::Now(Answer::Send(response)))
    }
}
