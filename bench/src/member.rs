//! A member of a consumer group as a client is one: what it asks next, by what it was answered. No I/O.

use anyhow::{Result, bail};
use bytes::Bytes;
use kaas_proto::messages::join_group_request::JoinGroupRequestProtocol;
use kaas_proto::messages::sync_group_request::SyncGroupRequestAssignment;
use kaas_proto::messages::{
    HeartbeatRequest, HeartbeatResponse, JoinGroupRequest, JoinGroupResponse, SyncGroupRequest,
    SyncGroupResponse,
};
use kaas_proto::{ErrorCode, KStr};

use crate::wire;

/// The defaults of Apache's consumer.
const SESSION_TIMEOUT_MS: i32 = 45_000;
const REBALANCE_TIMEOUT_MS: i32 = 300_000;
/// Of a type of its own: no broker looks into subscriptions that it does not know.
const PROTOCOL_TYPE: KStr = KStr::from_static("bench");
const PROTOCOL: KStr = KStr::from_static("range");
/// About what a consumer says of one topic, and is assigned of it.
const SUBSCRIPTION: &[u8] = &[7; 40];
const ASSIGNMENT: &[u8] = &[9; 40];

const JOIN_VERSION: i16 = 9;
const SYNC_VERSION: i16 = 5;
const HEARTBEAT_VERSION: i16 = 4;

/// The member.
#[derive(Debug)]
pub(crate) struct Member {
    group: KStr,
    id: KStr,
    generation: i32,
    phase: Phase,
}

#[derive(Debug)]
enum Phase {
    Joining,
    /// With what the leader has assigned; the others assign nothing.
    Syncing(Vec<SyncGroupRequestAssignment>),
    Beating,
}

/// What an answer means.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Next {
    /// There is a next request, at once.
    Ask,
    /// The coordinator is not ready: the same request, later.
    AskLater,
    /// The member has lost its place, or the group is being balanced: it joins, at once.
    JoinAgain,
    /// A heartbeat was taken, in this generation; the next one is due in its time.
    Alive(i32),
}

impl Member {
    /// Who wants to join a group.
    pub(crate) fn new(group: &str) -> Self {
        Self { group: group.into(), id: KStr::from_static(""), generation: -1, phase: Phase::Joining }
    }

    /// The next request, as a frame.
    pub(crate) fn request(&self) -> Result<Vec<u8>> {
        let (group_id, member_id, generation_id) = (self.group.clone(), self.id.clone(), self.generation);
        match &self.phase {
            Phase::Joining => {
                let protocol =
                    JoinGroupRequestProtocol { name: PROTOCOL, metadata: Bytes::from_static(SUBSCRIPTION) };
                let join = JoinGroupRequest {
                    group_id,
                    member_id,
                    session_timeout_ms: SESSION_TIMEOUT_MS,
                    rebalance_timeout_ms: REBALANCE_TIMEOUT_MS,
                    protocol_type: PROTOCOL_TYPE,
                    protocols: vec![protocol],
                    ..Default::default()
                };
                wire::frame(&join, JOIN_VERSION)
            }
            Phase::Syncing(assignments) => {
                let sync = SyncGroupRequest {
                    group_id,
                    generation_id,
                    member_id,
                    protocol_type: Some(PROTOCOL_TYPE),
                    protocol_name: Some(PROTOCOL),
                    assignments: assignments.clone(),
                    ..Default::default()
                };
                wire::frame(&sync, SYNC_VERSION)
            }
            Phase::Beating => {
                let beat = HeartbeatRequest { group_id, generation_id, member_id, group_instance_id: None };
                wire::frame(&beat, HEARTBEAT_VERSION)
            }
        }
    }

    /// Takes the answer to the last request, without its length.
    pub(crate) fn answered(&mut self, frame: Bytes) -> Result<Next> {
        match self.phase {
            Phase::Joining => self.joined(wire::response::<JoinGroupRequest>(frame, JOIN_VERSION)?),
            Phase::Syncing(_) => self.synced(&wire::response::<SyncGroupRequest>(frame, SYNC_VERSION)?),
            Phase::Beating => self.beaten(&wire::response::<HeartbeatRequest>(frame, HEARTBEAT_VERSION)?),
        }
    }

    fn joined(&mut self, answer: JoinGroupResponse) -> Result<Next> {
        if answer.error_code == ErrorCode::MemberIdRequired.code() {
            self.id = answer.member_id;
            return Ok(Next::Ask);
        }
        if answer.error_code != 0 {
            return self.refused(answer.error_code);
        }
        self.id = answer.member_id;
        self.generation = answer.generation_id;
        let assigned =
            |member_id| SyncGroupRequestAssignment { member_id, assignment: Bytes::from_static(ASSIGNMENT) };
        let members = answer.members.into_iter().map(|member| assigned(member.member_id));
        self.phase = Phase::Syncing(members.collect());
        Ok(Next::Ask)
    }

    fn synced(&mut self, answer: &SyncGroupResponse) -> Result<Next> {
        if answer.error_code != 0 {
            return self.refused(answer.error_code);
        }
        self.phase = Phase::Beating;
        Ok(Next::Ask)
    }

    fn beaten(&mut self, answer: &HeartbeatResponse) -> Result<Next> {
        match answer.error_code {
            0 => Ok(Next::Alive(self.generation)),
            code => self.refused(code),
        }
    }

    /// As Apache's consumer does: who is not known any more joins as somebody new.
    fn refused(&mut self, code: i16) -> Result<Next> {
        match ErrorCode::from_code(code) {
            ErrorCode::CoordinatorLoadInProgress
            | ErrorCode::CoordinatorNotAvailable
            | ErrorCode::NotCoordinator => return Ok(Next::AskLater),
            ErrorCode::UnknownMemberId | ErrorCode::IllegalGeneration => {
                self.id = KStr::from_static("");
                self.generation = -1;
            }
            ErrorCode::RebalanceInProgress => {}
            other => bail!("a member of {} was refused: {other}", self.group),
        }
        self.phase = Phase::Joining;
        Ok(Next::JoinAgain)
    }
}

#[cfg(test)]
mod tests {
    use kaas_proto::messages::join_group_response::JoinGroupResponseMember;

    use super::*;

    fn joined(code: ErrorCode, members: &[&'static str]) -> JoinGroupResponse {
        let member =
            |id: &&'static str| JoinGroupResponseMember { member_id: (*id).into(), ..Default::default() };
        JoinGroupResponse {
            error_code: code.code(),
            generation_id: 4,
            member_id: "me".into(),
            members: members.iter().map(member).collect(),
            ..Default::default()
        }
    }

    fn beaten(code: ErrorCode) -> HeartbeatResponse {
        HeartbeatResponse { error_code: code.code(), ..Default::default() }
    }

    fn stable() -> Member {
        let mut member = Member::new("group");
        assert_eq!(member.joined(joined(ErrorCode::MemberIdRequired, &[])).unwrap(), Next::Ask);
        assert_eq!((&*member.id, member.generation), ("me", -1));
        assert_eq!(member.joined(joined(ErrorCode::None, &["me", "you"])).unwrap(), Next::Ask);
        let Phase::Syncing(assignments) = &member.phase else { panic!("{member:?}") };
        assert_eq!(assignments.iter().map(|one| &*one.member_id).collect::<Vec<_>>(), ["me", "you"]);
        assert_eq!(member.synced(&SyncGroupResponse::default()).unwrap(), Next::Ask);
        member
    }

    #[test]
    fn it_joins_assigns_and_lives() {
        assert_eq!(stable().beaten(&beaten(ErrorCode::None)).unwrap(), Next::Alive(4));
    }

    #[test]
    fn it_waits_for_its_coordinator_and_joins_again_when_it_must() {
        let mut member = stable();
        assert_eq!(member.beaten(&beaten(ErrorCode::CoordinatorLoadInProgress)).unwrap(), Next::AskLater);
        assert!(matches!(member.phase, Phase::Beating));
        assert_eq!(member.beaten(&beaten(ErrorCode::RebalanceInProgress)).unwrap(), Next::JoinAgain);
        assert!(matches!(member.phase, Phase::Joining) && member.id == "me", "{member:?}");
        let mut member = stable();
        assert_eq!(member.beaten(&beaten(ErrorCode::UnknownMemberId)).unwrap(), Next::JoinAgain);
        assert!(matches!(member.phase, Phase::Joining) && member.id.is_empty(), "{member:?}");
        assert!(stable().beaten(&beaten(ErrorCode::GroupAuthorizationFailed)).is_err());
    }
}
