//! DeleteGroups (key 42, versions 0-2): removes groups without members, with their offsets.
//!
//! * v2: flexible.

use std::sync::Arc;

use kaas_proto::ErrorCode;
use kaas_proto::messages::delete_groups_response::DeletableGroupResult;
use kaas_proto::messages::{DeleteGroupsRequest, DeleteGroupsResponse};

use crate::broker::Broker;
use crate::coordinators::answer;
use crate::error::{ApiError, group_code};
use crate::request::{Answer, Reply, RequestCx};
use crate::router::Handler;

impl Handler<DeleteGroupsRequest> for Broker {
    async fn handle(
        self: Arc<Self>,
        _: RequestCx,
        request: DeleteGroupsRequest,
    ) -> Result<Reply<DeleteGroupsResponse>, ApiError> {
        let mut results = Vec::with_capacity(request.groups_names.len());
        for group_id in request.groups_names {
            let called = self.groups.call(&group_id, |slot, _, out| slot.delete_group(&group_id, out));
            let code = match answer(called).await {
                Ok(deleted) => deleted.map_or_else(group_code, |()| ErrorCode::None),
                Err(code) => code,
            };
            results.push(DeletableGroupResult { group_id, error_code: code.code() });
        }
        Ok(Reply::Now(Answer::Send(DeleteGroupsResponse { results, ..Default::default() })))
    }
}
