//! Many consumer groups (P20): how they come to be, what their heartbeats cost, and how they come back when their
//! coordinator is killed.

use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use kaas_proto::messages::DescribeGroupsRequest;

use crate::blocks::Figures;
use crate::broker::{Broker, Programs, System};
use crate::process;
use crate::rows::DURABLE;
use crate::swarm::Swarm;
use crate::wire;

const GROUP_MEMBERS: usize = 3;
/// The default of Apache's consumer (`heartbeat.interval.ms`).
const HEARTBEAT_INTERVAL: Duration = Duration::from_secs(3);
/// Heartbeats of each member, one after the other, before any is measured: the JVM compiles what it needs.
const WARM_BEATS: u64 = 20;
const PATIENCE: Duration = Duration::from_secs(120);
/// Room for everybody to connect at once. With Kafka's default of 50 the members would wait for the retransmissions of their first
/// packets, and these would be measured.
const BACKLOG: &str = "socket.listen.backlog.size=4096";

/// One broker's life with so many groups of three. Every change of a group is synced by both; all else is as each has it by
/// default, the same by both: `group.initial.rebalance.delay.ms` 3 s, session timeout 45 s.
pub(crate) fn session(
    system: System,
    programs: &Programs,
    groups: usize,
    measured: Duration,
) -> Result<Figures> {
    let flush = format!("log.flush.interval.messages={DURABLE}");
    let mut broker = Broker::start_with(system, programs, &[&flush, BACKLOG])?;
    wire::find_coordinator(broker.address, wire::GROUP)?;

    let (began, cpu) = (Instant::now(), process::cpu_seconds(broker.pid())?);
    let mut swarm = Swarm::open(broker.address, groups, GROUP_MEMBERS)?;
    swarm.run(HEARTBEAT_INTERVAL, PATIENCE, Swarm::is_stable)?;
    let (join_s, join_cpu_s) = (began.elapsed().as_secs_f64(), process::cpu_seconds(broker.pid())? - cpu);

    let warm = swarm.beats + WARM_BEATS * (groups * GROUP_MEMBERS) as u64;
    swarm.run(Duration::ZERO, PATIENCE, |swarm| swarm.beats >= warm)?;
    let beat_cpu_us = heartbeats(&mut swarm, &broker, measured)?;
    let rejoins = swarm.rejoins;

    let began = Instant::now();
    broker.crash(programs)?;
    let answers_s = began.elapsed().as_secs_f64();
    swarm.reconnect(broker.address)?;
    swarm.run(HEARTBEAT_INTERVAL, PATIENCE, Swarm::is_stable)?;
    let (back_s, back_cpu_s) = (began.elapsed().as_secs_f64(), process::cpu_seconds(broker.pid())?);
    let rejoins = swarm.rejoins - rejoins;
    are_stable(&broker, groups)?;
    broker.stop()?;
    Ok(vec![
        ("first join, s", join_s),
        ("first join, CPU-s", join_cpu_s),
        ("CPU-us a heartbeat", beat_cpu_us),
        ("killed to first answer, s", answers_s),
        ("killed to all stable, s", back_s),
        ("CPU-s until all stable", back_cpu_s),
        ("members that joined again", rejoins as f64),
    ])
}

/// The CPU time of a heartbeat when each member sends one in its interval, spread evenly.
fn heartbeats(swarm: &mut Swarm, broker: &Broker, measured: Duration) -> Result<f64> {
    swarm.settle(PATIENCE)?;
    swarm.spread(HEARTBEAT_INTERVAL);
    let mut run = |time: Duration| {
        let end = Instant::now() + time;
        swarm.run(HEARTBEAT_INTERVAL, PATIENCE, |_| Instant::now() >= end).map(|()| swarm.beats)
    };
    let before = run(HEARTBEAT_INTERVAL)?;
    let cpu = process::cpu_seconds(broker.pid())?;
    let beats = run(measured)? - before;
    ensure!(beats > 0, "no heartbeat was taken");
    Ok((process::cpu_seconds(broker.pid())? - cpu) * 1e6 / beats as f64)
}

/// Asks the broker itself.
fn are_stable(broker: &Broker, groups: usize) -> Result<()> {
    let groups: Vec<_> = (0..groups).map(|group| format!("group-{group}").into()).collect();
    let request = DescribeGroupsRequest { groups, ..Default::default() };
    for group in wire::ask(broker.address, &request, 5)?.groups {
        let (state, members) = (&group.group_state, group.members.len());
        ensure!(
            *state == "Stable" && members == GROUP_MEMBERS,
            "{} is {state} with {members} members",
            group.group_id
        );
    }
    Ok(())
}
