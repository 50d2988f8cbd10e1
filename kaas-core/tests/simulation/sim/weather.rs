//! What goes wrong by itself, and how often: another mixture for every seed.

use kaas_core::volume::{Nfs, NfsFaults};

use super::Story;
use super::random::Random;
use super::tasks::TAKER;
use super::world::State;

/// Longest pause that waits for a takeover.
const TAKEOVER_STEPS_MAX: u64 = 800;

/// How often a bit is lost, where bits are lost.
const ROT_EVERY: u64 = 25;

/// How often things happen: once in so many steps on average, never when 0.
#[derive(Debug, Clone)]
pub(crate) struct Weather {
    pub(crate) faults: NfsFaults,
    /// How often another task gets the turn.
    pub(crate) switch_every: u64,
    /// How often a takeover is tried, by each broker.
    pub(crate) takeover_every: u64,
    /// Whether records are removed, by retention and on request.
    pub(crate) removes: bool,
    /// Whether records have keys, and logs are compacted.
    pub(crate) compacts: bool,
    /// Whether some producers write in transactions, and half of all reads are of what is committed.
    pub(crate) transacts: bool,
    /// Whether bits of index files are lost on the server's disk: nothing that anyone is told rests on them.
    rots: bool,
    background_every: u64,
    pause_every: u64,
    pause_max: u64,
    kill_every: u64,
    crash_every: u64,
    restart_every: u64,
    power_cut_every: u64,
}

impl Weather {
    pub(crate) fn new(random: &mut Random, story: &Story) -> Self {
        // Half of all faults are absent from half of all runs: some bugs need one thing to go wrong, and no other.
        let calm = random.once_in(8);
        let mut maybe = |times: u64| if calm || random.once_in(2) { 0 } else { times };
        let faults = NfsFaults {
            error: maybe(40) as u32,
            stale_handle: maybe(20) as u32,
            lost_reply: maybe(60) as u32,
            stale_name: maybe(5000) as u32,
            forget: maybe(500) as u32,
            coarse_times: maybe(1) == 1,
        };
        let [kill_every, crash_every, restart_every] = [maybe(1000), maybe(1200), maybe(500)];
        let power_cut_every = maybe(2500);
        let removes = random.once_in(3);
        Self {
            faults,
            removes,
            compacts: story.compacts(),
            transacts: story.transacts(),
            rots: story.rots(),
            kill_every,
            crash_every,
            restart_every,
            power_cut_every,
            switch_every: [3, 8, 20][random.below(3) as usize],
            takeover_every: [60, 150, 400][random.below(3) as usize],
            background_every: [3, 30, 400][random.below(3) as usize],
            pause_every: [30, 80, 250][random.below(3) as usize],
            pause_max: [30, 200, 600][random.below(3) as usize],
        }
    }
}

impl Weather {
    /// A server, a taker and a reader; where logs are compacted, one who does that.
    pub(crate) fn tasks_per_broker(&self) -> usize {
        3 + usize::from(self.compacts)
    }
}

impl State {
    /// One step's weather.
    pub(crate) fn weather(&mut self, nfs: &Nfs, task: usize, is_critical: bool) {
        let Weather { background_every, pause_every, pause_max, .. } = self.weather;
        if self.random.once_in(background_every) {
            nfs.background();
        }
        if self.random.once_in(if is_critical { pause_every.div_ceil(4) } else { pause_every }) {
            let steps = self.random.between(1, pause_max);
            self.pause_one_or_all(task, steps);
        }
        self.disaster(nfs);
    }

    /// Pauses a task, or its whole broker; then somebody who looks after brokers may notice.
    fn pause_one_or_all(&mut self, task: usize, steps: u64) {
        if self.random.once_in(2) {
            return self.pause(task..task + 1, steps, false);
        }
        let tasks = self.weather.tasks_per_broker();
        let first = task - task % tasks;
        let waits_for_takeover = self.random.once_in(2);
        let steps = if waits_for_takeover { TAKEOVER_STEPS_MAX } else { steps };
        self.pause(first..first + tasks, steps, waits_for_takeover);
        let broker = self.random.below((self.tasks() / tasks) as u64) as usize;
        let other = broker * tasks;
        if other != first {
            self.wake(other + TAKER);
        }
    }

    fn disaster(&mut self, nfs: &Nfs) {
        let Weather { kill_every, crash_every, restart_every, power_cut_every, .. } = self.weather;
        if self.random.once_in(restart_every) {
            self.tally.server_restarts += 1;
            self.record("the server restarts");
            nfs.restart_server();
        }
        if self.weather.rots && self.random.once_in(ROT_EVERY) {
            self.tally.rotten_bits += 1;
            nfs.rot(|path| path.ends_with("index"));
        }
        if self.random.once_in(power_cut_every) {
            self.tally.power_cuts += 1;
            self.record("the power is cut");
            nfs.power_cut();
            self.kill_on(None);
        }
        let alive: Vec<u64> =
            (0..self.processes.len() as u64).filter(|number| self.is_alive(*number)).collect();
        if self.random.once_in(kill_every)
            && let Some(number) = self.random.pick(&alive)
        {
            self.tally.kills += 1;
            self.record(("killed", number));
            self.kill(*number);
        }
        if self.random.once_in(crash_every)
            && let Some(number) = self.random.pick(&alive)
        {
            let machine = self.processes[*number as usize].machine;
            self.tally.machine_crashes += 1;
            self.record(("crashed", number));
            nfs.crash(machine);
            self.kill_on(Some(machine));
        }
    }
}
