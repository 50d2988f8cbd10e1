//! Heartbeat (key 12, versions 0-4): a member lives, and hears whether it has to join again.
//!
//! * v3: static members (KIP-345). v4: flexible.
//! * While the coordinator is loading every heartbeat is taken: nobody is sent away for that.

use std::sync::Arc;

use kaas_core::coordinator::CoordinatorError;
use kaas_core::group;
use kaas_proto::ErrorCode;
use kaas_proto::messages::{HeartbeatRequest, HeartbeatResponse};

use crate::broker::Broker;
use crate::error::{ApiError, coordinator_code};
use crate::groups::{code_of, owned};
use crate::request::{Answer, Reply, RequestCx};
use crate::router::Handler;

impl Handler<HeartbeatRequest> for Broker {
    async fn handle(
        self: Arc<Self>,
        _: RequestCx,
        request: HeartbeatRequest,
    ) -> Result<Reply<HeartbeatResponse>, ApiError> {
        let beat = group::HeartbeatRequest {
            group: request.group_id.to_string(),
            member_id: request.member_id.to_string(),
            instance_id: owned(&request.group_instance_id),
            generation: request.generation_id,
        };
        let error_code =
            match self.groups.call_now(&request.group_id, |slot, now, _| slot.heartbeat(&beat, now)) {
                Ok(result) => code_of(result),
                Err(CoordinatorError::Loading) => ErrorCode::None.code(),
                Err(error) => coordinator_code(&error).code(),
            };
        Ok(Reply::Now(Answer::Send(HeartbeatResponse { error_code, ..Default::default() })))
    }
}
