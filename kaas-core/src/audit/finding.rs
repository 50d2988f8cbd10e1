//! What an audit may find.

use std::fmt;

/// How bad a finding is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Severity {
    /// Nothing is wrong: what an interruption left over, or something that another has put there.
    Note,
    /// Nothing that was acknowledged is touched, but something is not as it should be.
    Warning,
    /// What was acknowledged cannot be read as it was written, or what is read instead cannot be trusted.
    Damage,
}

impl fmt::Display for Severity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Note => "note",
            Self::Warning => "warning",
            Self::Damage => "damage",
        })
    }
}

/// Something that an audit found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// How bad it is.
    pub severity: Severity,
    /// The file or directory, relative to the volume.
    pub path: String,
    /// The byte of the file that it begins at, where that says anything.
    pub position: Option<u64>,
    /// What it is.
    pub problem: Problem,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.severity, self.path)?;
        if let Some(position) = self.position {
            write!(f, " at byte {position}")?;
        }
        write!(f, ": {}", self.problem)
    }
}

/// What is wrong with a file, a log or a name.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Problem {
    /// A name that this format does not have.
    #[error("not a name of this format")]
    UnknownName,
    /// Something that was interrupted left it; the next open removes or ignores it.
    #[error("left over: {0}")]
    Leftover(&'static str),
    /// A topic's data, and no metadata that speaks of it.
    #[error("data of a topic that has no metadata")]
    DataWithoutTopic,
    /// The storage did not give the file's bytes.
    #[error("cannot be read: {0}")]
    Unreadable(String),
    /// A file that must be there is not.
    #[error("missing")]
    Missing,
    /// A state file that is not whole, or whose checksum is wrong.
    #[error("{0}")]
    State(String),
    /// A file that is intact and contradicts its name, or another file.
    #[error("{0}")]
    Contradiction(String),
    /// A fence that is neither standing nor revoked.
    #[error("the fence is torn: it counts as revoked")]
    TornFence,
    /// A takeover that has not been completed, or never will be.
    #[error("the takeover under epoch {0} was not completed")]
    Takeover(i32),
    /// The claims and seals do not make a log of the segments.
    #[error("{0}")]
    Chain(String),
    /// There is no whole, valid batch at this place.
    #[error("{0}")]
    Batch(String),
    /// A batch whose offset does not follow.
    #[error("a batch with offset {found}, where {expected} comes next")]
    OutOfPlace {
        /// What the batches before it demand.
        expected: i64,
        /// What it says.
        found: i64,
    },
    /// A batch of another leader than the one who had the offset.
    #[error("a batch of leader epoch {found}, where {expected} wrote")]
    LeaderEpoch {
        /// The epoch that the chain of claims gives the offset to.
        expected: i32,
        /// What the batch says.
        found: i32,
    },
    /// Offsets that no file has.
    #[error("offsets {from} to {to} are missing", to = to - 1)]
    Gap {
        /// The first that is missing.
        from: i64,
        /// The first that is there again.
        to: i64,
    },
    /// Bytes behind the last whole batch of a log: they were never acknowledged if every acknowledgement was synced.
    #[error("{bytes} bytes behind the last whole batch: {why}")]
    Tail {
        /// How many.
        bytes: u64,
        /// Why they are no batch.
        why: String,
    },
    /// Bytes behind the end that a seal gives: they do not exist.
    #[error("{0} bytes behind the seal: they do not count")]
    BehindSeal(u64),
    /// What a seal says of the end of its epoch is not so.
    #[error("{0}")]
    Seal(String),
    /// An index that is missing, damaged or from elsewhere; it is made anew from the log whenever it is needed.
    #[error("{0}: it is rebuilt from the log when it is needed")]
    Cache(&'static str),
    /// An index that is intact and wrong.
    #[error("{0}")]
    Index(String),
    /// A checkpoint that does not fit the log.
    #[error("{0}")]
    Checkpoint(String),
    /// A snapshot of the producers that is not what the log gives.
    #[error("{0}")]
    Producers(String),
    /// A mark that does not fit the log.
    #[error("{0}")]
    Mark(String),
    /// The files changed each time that they were looked at.
    #[error("the partition changed while it was looked at: what was found may be out of date")]
    Changing,
    /// More was found in the same place than is reported.
    #[error("{0} further findings in this partition")]
    More(u64),
}

impl Problem {
    /// A word that stays the same, for programs.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::UnknownName => "unknown-name",
            Self::Leftover(_) => "leftover",
            Self::DataWithoutTopic => "data-without-topic",
            Self::Unreadable(_) => "unreadable",
            Self::Missing => "missing",
            Self::State(_) => "state",
            Self::Contradiction(_) => "contradiction",
            Self::TornFence => "torn-fence",
            Self::Takeover(_) => "takeover",
            Self::Chain(_) => "chain",
            Self::Batch(_) => "batch",
            Self::OutOfPlace { .. } => "out-of-place",
            Self::LeaderEpoch { .. } => "leader-epoch",
            Self::Gap { .. } => "gap",
            Self::Tail { .. } => "tail",
            Self::BehindSeal(_) => "behind-seal",
            Self::Seal(_) => "seal",
            Self::Cache(_) => "cache",
            Self::Index(_) => "index",
            Self::Checkpoint(_) => "checkpoint",
            Self::Producers(_) => "producers",
            Self::Mark(_) => "mark",
            Self::Changing => "changing",
            Self::More(_) => "more",
        }
    }
}

/// How much was looked at, and what was found.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Summary {
    /// Topics that have metadata.
    pub topics: u64,
    /// Partitions that have files.
    pub partitions: u64,
    /// Segments that are part of a log.
    pub segments: u64,
    /// Batches whose checksum was computed and is right.
    pub batches: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Findings of each severity.
    pub notes: u64,
    /// See [`notes`](Self::notes).
    pub warnings: u64,
    /// See [`notes`](Self::notes).
    pub damages: u64,
}

impl Summary {
    /// The greatest severity that was found.
    pub fn worst(&self) -> Option<Severity> {
        match (self.damages, self.warnings, self.notes) {
            (0, 0, 0) => None,
            (0, 0, _) => Some(Severity::Note),
            (0, _, _) => Some(Severity::Warning),
            _ => Some(Severity::Damage),
        }
    }

    pub(super) fn count(&mut self, severity: Severity) {
        match severity {
            Severity::Note => self.notes += 1,
            Severity::Warning => self.warnings += 1,
            Severity::Damage => self.damages += 1,
        }
    }
}

impl fmt::Display for Summary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { topics, partitions, segments, batches, bytes, notes, warnings, damages } = self;
        write!(
            f,
            "{topics} topics, {partitions} partitions, {segments} segments, {batches} batches, {bytes} bytes: "
        )?;
        write!(f, "{damages} damages, {warnings} warnings, {notes} notes")
    }
}
