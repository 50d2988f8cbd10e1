//! The campaign: one partition goes from node to node, while the one that leads is paused, killed, suspected or asked to
//! leave, and the one that takes over is paused in the middle.

use std::collections::HashMap;

use anyhow::Context;
use kaas_test_client::Random;
use uuid::Uuid;

use crate::host::Hosts;
use crate::ledger::{Ledger, Violation};
use crate::link::{Link, Said};

/// Nodes of a campaign.
const NODES: usize = 3;
/// The most records that a leader writes before something happens to it, and those that its successor writes at least
/// before it is let go on.
const LIFE_RECORDS_MAX: u64 = 60;
const SUCCESSOR_RECORDS: u64 = 20;
/// Rounds between two looks at the whole log.
const ROUNDS_PER_CHECK: usize = 10;

/// What happens to the leader of a round.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Disturbance {
    /// It is stopped until its successor has written.
    Pause,
    Kill,
    /// It is replaced while it is well.
    Suspect,
    Resign,
    /// It is killed, and its successor is stopped while it takes over; a third takes over from both.
    PausedTakeover,
}

const DISTURBANCES: [Disturbance; 6] = [
    Disturbance::Pause,
    Disturbance::Kill,
    Disturbance::Pause,
    Disturbance::Suspect,
    Disturbance::PausedTakeover,
    Disturbance::Resign,
];

struct Node {
    number: usize,
    link: Link,
    incarnation: Uuid,
    records: u64,
}

/// What a campaign did.
#[derive(Debug, Default)]
pub(crate) struct Outcome {
    pub(crate) done: HashMap<Disturbance, usize>,
    pub(crate) acknowledged: usize,
    pub(crate) violation: Option<Violation>,
}

struct Campaign<'a> {
    hosts: &'a mut dyn Hosts,
    nodes: Vec<Node>,
    leader: usize,
    ledger: Ledger,
    random: Random,
}

/// Something went wrong: with a promise, or with the campaign.
enum Failed {
    Promise(Violation),
    Campaign(anyhow::Error),
}

impl From<Violation> for Failed {
    fn from(violation: Violation) -> Self {
        Failed::Promise(violation)
    }
}

impl From<anyhow::Error> for Failed {
    fn from(error: anyhow::Error) -> Self {
        Failed::Campaign(error)
    }
}

/// Runs `rounds` rounds.
pub(crate) fn run(hosts: &mut dyn Hosts, rounds: usize, seed: u64) -> anyhow::Result<Outcome> {
    let nodes = (0..NODES).map(|at| start(hosts, at + 1)).collect::<anyhow::Result<_>>()?;
    let (ledger, random) = (Ledger::default(), Random::new(seed));
    let mut campaign = Campaign { hosts, nodes, leader: 0, ledger, random };
    let mut outcome = Outcome::default();
    let result = campaign.all(rounds, &mut outcome);
    outcome.acknowledged = campaign.ledger.count();
    match result {
        Ok(()) => Ok(outcome),
        Err(Failed::Promise(violation)) => Ok(Outcome { violation: Some(violation), ..outcome }),
        Err(Failed::Campaign(error)) => Err(error),
    }
}

fn start(hosts: &mut dyn Hosts, number: usize) -> anyhow::Result<Node> {
    let link = Link::connect(hosts.start(number)?)?;
    match link.next()? {
        Said::Ready { incarnation, .. } => Ok(Node { number, link, incarnation, records: 0 }),
        other => anyhow::bail!("node {number} said {other:?} first"),
    }
}

impl Campaign<'_> {
    fn all(&mut self, rounds: usize, outcome: &mut Outcome) -> Result<(), Failed> {
        self.take_over(0)?;
        for round in 0..rounds {
            let disturbance = DISTURBANCES[round % DISTURBANCES.len()];
            self.round(disturbance).map_err(|failed| match failed {
                Failed::Campaign(error) => error.context(format!("round {round}, {disturbance:?}")).into(),
                promise @ Failed::Promise(_) => promise,
            })?;
            *outcome.done.entry(disturbance).or_default() += 1;
            if (round + 1) % ROUNDS_PER_CHECK == 0 || round + 1 == rounds {
                self.check()?;
            }
        }
        Ok(())
    }

    fn round(&mut self, disturbance: Disturbance) -> Result<(), Failed> {
        let old = self.leader;
        let life = 1 + self.random.below(LIFE_RECORDS_MAX);
        self.written(old, life)?;
        let successor = (old + 1 + self.random.below(NODES as u64 - 1) as usize) % NODES;
        let third = NODES - old - successor;
        let number = self.nodes[old].number;
        match disturbance {
            Disturbance::Pause => {
                self.hosts.pause(number)?;
                self.replace(old, successor)?;
                self.written(successor, SUCCESSOR_RECORDS)?;
                self.hosts.resume(number)?;
                self.await_end(old)?;
            }
            Disturbance::Kill => {
                self.kill(old)?;
                self.replace(old, successor)?;
            }
            Disturbance::Suspect => {
                self.replace(old, successor)?;
                self.await_end(old)?;
            }
            Disturbance::Resign => {
                self.nodes[old].link.tell("resign");
                match self.answer(old)? {
                    Said::Resigned => self.take_over(successor)?,
                    other => return Err(anyhow::anyhow!("resigning: {other:?}").into()),
                }
                return Ok(());
            }
            Disturbance::PausedTakeover => {
                self.kill(old)?;
                self.revoke(successor, old)?;
                self.nodes[successor].link.tell("lead");
                self.hosts.pause(self.nodes[successor].number)?;
                self.revoke(third, old)?;
                self.replace(successor, third)?;
                self.written(third, SUCCESSOR_RECORDS)?;
                self.hosts.resume(self.nodes[successor].number)?;
                self.restart(old)?;
                self.kill(successor)?;
                return self.restart(successor);
            }
        }
        self.restart(old)
    }

    fn restart(&mut self, at: usize) -> Result<(), Failed> {
        self.nodes[at] = start(self.hosts, self.nodes[at].number)?;
        Ok(())
    }

    fn revoke(&mut self, by: usize, whom: usize) -> Result<(), Failed> {
        let Node { number, incarnation, .. } = self.nodes[whom];
        self.nodes[by].link.tell(&format!("revoke {number} {incarnation}"));
        match self.answer(by)? {
            Said::Revoked => Ok(()),
            other => Err(anyhow::anyhow!("revoking: {other:?}").into()),
        }
    }

    fn replace(&mut self, old: usize, successor: usize) -> Result<(), Failed> {
        self.revoke(successor, old)?;
        self.take_over(successor)
    }

    fn take_over(&mut self, at: usize) -> Result<(), Failed> {
        loop {
            self.nodes[at].link.tell("lead");
            match self.answer(at)? {
                Said::Led => break,
                // Left over from a takeover that was cut off.
                Said::Refused { broker_id, incarnation } => {
                    self.nodes[at].link.tell(&format!("revoke {broker_id} {incarnation}"));
                    match self.answer(at)? {
                        Said::Revoked => {}
                        other => return Err(anyhow::anyhow!("revoking: {other:?}").into()),
                    }
                }
                other => return Err(anyhow::anyhow!("taking over: {other:?}").into()),
            }
        }
        self.nodes[at].records = 0;
        self.leader = at;
        Ok(())
    }

    /// Waits until a node has had `count` records acknowledged since it leads.
    fn written(&mut self, at: usize, count: u64) -> Result<(), Failed> {
        while self.nodes[at].records < count {
            match self.hear(at)? {
                None => {}
                Some(other) => return Err(anyhow::anyhow!("while it leads: {other:?}").into()),
            }
        }
        Ok(())
    }

    /// Ends a node. What it said until then counts.
    fn kill(&mut self, at: usize) -> Result<(), Failed> {
        self.hosts.kill(self.nodes[at].number)?;
        loop {
            match self.nodes[at].link.next_of_dead()? {
                Said::Ack { offset, value } => self.ledger.acknowledge(offset, &value)?,
                Said::Gone => return Ok(()),
                _ => {}
            }
        }
    }

    /// Waits until a node that was replaced has gone. What it says until then counts.
    fn await_end(&mut self, at: usize) -> Result<(), Failed> {
        while self.hear(at)? != Some(Said::Gone) {}
        Ok(())
    }

    fn answer(&mut self, at: usize) -> Result<Said, Failed> {
        loop {
            match self.hear(at)? {
                None | Some(Said::Stopped(_)) => {}
                Some(said) => return Ok(said),
            }
        }
    }

    /// The next line of a node, unless it was an acknowledgement.
    fn hear(&mut self, at: usize) -> Result<Option<Said>, Failed> {
        let node = &mut self.nodes[at];
        match node.link.next().with_context(|| format!("node {}", node.number))? {
            Said::Ack { offset, value } => {
                node.records += 1;
                self.ledger.acknowledge(offset, &value)?;
                Ok(None)
            }
            said => Ok(Some(said)),
        }
    }

    /// Reads the whole log from the leader. What was acknowledged before is in the ledger by then.
    fn check(&mut self) -> Result<(), Failed> {
        let leader = self.leader;
        self.nodes[leader].link.tell("read");
        let mut log = Vec::new();
        // Acknowledgements that come in between may be of records behind the end of what is read.
        let mut late = Vec::new();
        loop {
            match self.nodes[leader].link.next()? {
                Said::Ack { offset, value } => late.push((offset, value)),
                Said::Record { offset, value } if offset == log.len() as i64 => log.push(value),
                Said::End => break,
                other => return Err(Violation(format!("reading: {other:?}")).into()),
            }
        }
        self.nodes[leader].records += late.len() as u64;
        self.ledger.check(log)?;
        for (offset, value) in late {
            self.ledger.acknowledge(offset, &value)?;
        }
        Ok(())
    }
}
