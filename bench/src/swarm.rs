//! Thousands of group members on one thread, each on a connection of its own as every client has: JoinGroup holds up
//! whatever comes behind it on its connection.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use bytes::BytesMut;
use rustix::event::{Timespec, epoll};

use crate::member::{Member, Next};

/// As Apache's clients do by default (`retry.backoff.ms`).
const ASK_AGAIN_AFTER: Duration = Duration::from_millis(100);
const READ_BYTES: usize = 16 << 10;
const EVENTS_MAX: usize = 256;
/// How often a run looks whether it is over when nothing happens.
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// The members, group by group.
pub(crate) struct Swarm {
    poll: OwnedFd,
    seats: Vec<Seat>,
    due: BinaryHeap<Reverse<(Instant, usize)>>,
    census: Census,
    /// Heartbeats that were taken.
    pub(crate) beats: u64,
    /// Answers that made a member join again.
    pub(crate) rejoins: u64,
}

struct Seat {
    member: Member,
    stream: TcpStream,
    incoming: BytesMut,
}

impl Swarm {
    /// Connects `groups` times `group_members` members; none asks anything before [`run`](Self::run).
    pub(crate) fn open(address: SocketAddr, groups: usize, group_members: usize) -> Result<Self> {
        let members = (0..groups).flat_map(|group| (0..group_members).map(move |_| format!("group-{group}")));
        let mut seats = Vec::with_capacity(groups * group_members);
        for group in members {
            let (member, stream) = (Member::new(&group), connect(address)?);
            seats.push(Seat { member, stream, incoming: BytesMut::new() });
        }
        let census = Census::new(seats.len(), group_members);
        let poll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        let mut swarm = Self { poll, seats, due: BinaryHeap::new(), census, beats: 0, rejoins: 0 };
        swarm.watch()?;
        swarm.spread(Duration::ZERO);
        Ok(swarm)
    }

    /// Connects everybody again, to a broker that has come back; each sends a heartbeat at once.
    pub(crate) fn reconnect(&mut self, address: SocketAddr) -> Result<()> {
        self.poll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        for seat in &mut self.seats {
            seat.stream = connect(address)?;
            seat.incoming.clear();
        }
        self.watch()?;
        self.census = Census::new(self.seats.len(), self.census.group_members);
        self.spread(Duration::ZERO);
        Ok(())
    }

    fn watch(&self) -> Result<()> {
        for (index, seat) in self.seats.iter().enumerate() {
            epoll::add(
                &self.poll,
                &seat.stream,
                epoll::EventData::new_u64(index as u64),
                epoll::EventFlags::IN,
            )?;
        }
        Ok(())
    }

    /// Makes everybody's next request due, one after the other over a stretch of time. For members that do not wait for an
    /// answer.
    pub(crate) fn spread(&mut self, over: Duration) {
        let (now, count) = (Instant::now(), self.seats.len());
        self.due.clear();
        self.due.extend(
            (0..count).map(|index| Reverse((now + over.mul_f64(index as f64 / count as f64), index))),
        );
    }

    /// Whether the members of every group had a heartbeat taken in one and the same generation, and nothing else since.
    pub(crate) fn is_stable(&self) -> bool {
        self.census.is_stable()
    }

    /// Lets members ask and answer until `until` holds; each sends a heartbeat so long after the one before was taken.
    pub(crate) fn run(
        &mut self,
        interval: Duration,
        patience: Duration,
        until: impl Fn(&Self) -> bool,
    ) -> Result<()> {
        let deadline = Instant::now() + patience;
        let mut events = Vec::with_capacity(EVENTS_MAX);
        while !until(self) {
            let now = Instant::now();
            ensure!(now < deadline, "after {patience:?}: {} groups are stable", self.census.agreed);
            while let Some(Reverse((due, index))) = self.due.peek().copied()
                && due <= now
            {
                self.due.pop();
                self.ask(index)?;
            }
            let wait =
                self.due.peek().map_or(LOOK_EVERY, |Reverse((due, _))| due.saturating_duration_since(now));
            let wait = Timespec::try_from(wait.min(LOOK_EVERY))?;
            events.clear();
            epoll::wait(&self.poll, rustix::buffer::spare_capacity(&mut events), Some(&wait))?;
            for event in &events {
                self.read(event.data.u64() as usize, interval)?;
            }
        }
        Ok(())
    }

    /// Lets everybody who was asked something be answered: nothing is under way then.
    pub(crate) fn settle(&mut self, patience: Duration) -> Result<()> {
        let count = self.seats.len();
        self.run(patience * 2, patience, |swarm| swarm.due.len() == count)
    }

    fn ask(&mut self, index: usize) -> Result<()> {
        let seat = &mut self.seats[index];
        // One request at a time: there is always room for it.
        seat.stream.write_all(&seat.member.request()?).context("writing to the broker")
    }

    fn read(&mut self, index: usize, interval: Duration) -> Result<()> {
        let seat = &mut self.seats[index];
        let mut buffer = [0; READ_BYTES];
        match seat.stream.read(&mut buffer) {
            Ok(0) => anyhow::bail!("the broker closed a member's connection"),
            Ok(read) => seat.incoming.extend_from_slice(&buffer[..read]),
            Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
            Err(error) => return Err(error).context("reading from the broker"),
        }
        let Some(length) = seat.incoming.first_chunk::<4>().map(|bytes| u32::from_be_bytes(*bytes) as usize)
        else {
            return Ok(());
        };
        if seat.incoming.len() < 4 + length {
            return Ok(());
        }
        let frame = seat.incoming.split_to(4 + length).freeze().slice(4..);
        match seat.member.answered(frame)? {
            next @ (Next::Ask | Next::JoinAgain) => {
                self.rejoins += u64::from(next == Next::JoinAgain);
                self.census.note(index, None);
                self.ask(index)?;
            }
            Next::AskLater => {
                self.census.note(index, None);
                self.due.push(Reverse((Instant::now() + ASK_AGAIN_AFTER, index)));
            }
            Next::Alive(generation) => {
                self.beats += 1;
                self.census.note(index, Some(generation));
                self.due.push(Reverse((Instant::now() + interval, index)));
            }
        }
        Ok(())
    }
}

fn connect(address: SocketAddr) -> Result<TcpStream> {
    let stream = TcpStream::connect(address).context("connecting a member")?;
    stream.set_nodelay(true)?;
    stream.set_nonblocking(true)?;
    Ok(stream)
}

/// Which groups are stable.
struct Census {
    group_members: usize,
    /// Of each member: the generation of its last heartbeat that was taken, if nothing else came since.
    generations: Vec<Option<i32>>,
    agreed: usize,
}

impl Census {
    fn new(members: usize, group_members: usize) -> Self {
        Self { group_members, generations: vec![None; members], agreed: 0 }
    }

    fn note(&mut self, index: usize, generation: Option<i32>) {
        let before = self.agrees(index);
        self.generations[index] = generation;
        let after = self.agrees(index);
        self.agreed = self.agreed + usize::from(after) - usize::from(before);
    }

    /// Whether the members of this one's group are alive in one generation.
    fn agrees(&self, index: usize) -> bool {
        let first = index - index % self.group_members;
        let group = &self.generations[first..first + self.group_members];
        group[0].is_some() && group.iter().all(|generation| *generation == group[0])
    }

    fn is_stable(&self) -> bool {
        self.agreed * self.group_members == self.generations.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_group_is_stable_when_all_live_in_one_generation() {
        let mut census = Census::new(6, 3);
        (0..6).for_each(|index| census.note(index, Some(1)));
        assert!(census.is_stable());
        census.note(4, Some(2));
        assert_eq!((census.agreed, census.is_stable()), (1, false));
        census.note(3, Some(2));
        census.note(5, None);
        assert!(!census.is_stable());
        census.note(5, Some(2));
        assert!(census.is_stable());
        census.note(0, Some(1));
        assert!(census.is_stable(), "another heartbeat changes nothing");
    }
}
