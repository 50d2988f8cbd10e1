//! Names on the volume: pure functions between identities and paths.

use uuid::Uuid;

/// The volume's own description: cluster id, volume name and format version.
pub const VOLUME_FILE: &str = "kaas-volume.json";
/// Locked by the process that has the volume to itself; says which that is.
pub const LOCK_FILE: &str = "kaas.lock";
/// The directory of all topic data.
pub const TOPICS_DIR: &str = "topics";
/// The directory of control state.
pub const CLUSTER_DIR: &str = "cluster";
/// Who this cluster is.
pub const CLUSTER_FILE: &str = "cluster/cluster.json";
/// One JSON file a topic; its rename into place is the moment the topic exists.
pub const TOPIC_METADATA_DIR: &str = "cluster/topics";
/// One JSON file a claimed block of producer ids.
pub const PRODUCER_IDS_DIR: &str = "cluster/producer-ids";
/// The journals of consumer groups, one directory a slot.
pub const GROUPS_DIR: &str = "cluster/groups";
/// The journals of transactional ids, one directory a slot.
pub const TRANSACTIONS_DIR: &str = "cluster/transactions";
/// The format that this code reads and writes.
pub const FORMAT_VERSION: u32 = 1;
/// Suffix of a topic or a segment's file whose deletion has been decided and not yet finished.
pub const DELETED_SUFFIX: &str = ".deleted";
/// Suffix of a compacted segment that is still being written.
pub const CLEANING_SUFFIX: &str = ".cleaning";
/// Suffix of a file that is being written and is not yet under its name.
pub const TMP_SUFFIX: &str = ".tmp";
/// One JSON file an incarnation of a broker: whether it may still acknowledge.
pub const BROKERS_DIR: &str = "cluster/brokers";

/// Most characters of a topic's name that its path carries: 249 and a uuid would not fit in a file name.
const TOPIC_NAME_IN_PATH_MAX: usize = 200;

/// `<topic>~<uuid>`, where the uuid is the identity and the name (cut when long) is for people.
pub fn topic_stem(name: &str, id: &Uuid) -> String {
    // Legal topic names are ASCII, so every cut is on a character.
    let shown = name.get(..TOPIC_NAME_IN_PATH_MAX).unwrap_or(name);
    format!("{shown}~{id}")
}

/// The uuid in a `<topic>~<uuid>` name.
pub fn parse_topic_stem(stem: &str) -> Option<Uuid> {
    stem.rsplit_once('~')?.1.parse().ok()
}

/// Where a topic's data is.
pub fn topic_dir(name: &str, id: &Uuid) -> String {
    format!("{TOPICS_DIR}/{}", topic_stem(name, id))
}

/// Where a topic's metadata is.
pub fn topic_metadata(name: &str, id: &Uuid) -> String {
    format!("{TOPIC_METADATA_DIR}/{}.json", topic_stem(name, id))
}

/// The claim of `epoch` in a partition's directory.
pub fn claim_file(epoch: i32) -> String {
    format!("{epoch:08x}.claim")
}

/// The epoch in a claim's file name.
pub fn parse_claim(name: &str) -> Option<i32> {
    parse_epoch(name.strip_suffix(".claim")?)
}

/// Where the epochs before `epoch` end: it makes the claim of `epoch` count, or says that it never will.
pub fn seal_file(epoch: i32) -> String {
    format!("{epoch:08x}.seal")
}

/// The epoch in a seal's file name.
pub fn parse_seal(name: &str) -> Option<i32> {
    parse_epoch(name.strip_suffix(".seal")?)
}

/// Says that the owner of `epoch` has given it up.
pub fn resigned_file(epoch: i32) -> String {
    format!("{epoch:08x}.resigned")
}

/// The epoch in the file name of a resignation.
pub fn parse_resigned(name: &str) -> Option<i32> {
    parse_epoch(name.strip_suffix(".resigned")?)
}

/// The number of a block of producer ids, by its file name.
pub fn parse_producer_ids(name: &str) -> Option<i64> {
    let number = name.strip_suffix(".json")?;
    number.bytes().all(|b| b.is_ascii_digit()).then(|| number.parse().ok()).flatten()
}

/// The directory of a coordinator's slot, in [`GROUPS_DIR`] or [`TRANSACTIONS_DIR`].
pub fn slot_dir(coordinator: &str, slot: u32) -> String {
    format!("{coordinator}/{slot:02}")
}

/// The slot in the name of its directory.
pub fn parse_slot(name: &str) -> Option<u32> {
    let strict = name.len() == 2 && name.bytes().all(|b| b.is_ascii_digit());
    strict.then(|| name.parse().ok()).flatten()
}

/// The file of a slot's journal that the owner of `epoch` began as its `sequence`th.
pub fn journal_file(epoch: u32, sequence: u32) -> String {
    format!("{epoch:08x}-{sequence:08x}.jsonl")
}

/// The epoch and the sequence in a journal's file name.
pub fn parse_journal(name: &str) -> Option<(u32, u32)> {
    let (epoch, sequence) = name.strip_suffix(".jsonl")?.split_once('-')?;
    Some((parse_hex(epoch)?, parse_hex(sequence)?))
}

/// The fsynced-prefix hint that the owner of `epoch` wrote.
pub fn checkpoint_file(epoch: i32) -> String {
    format!("{epoch:08x}.checkpoint")
}

/// The epoch in a checkpoint's file name.
pub fn parse_checkpoint(name: &str) -> Option<i32> {
    parse_epoch(name.strip_suffix(".checkpoint")?)
}

/// The fence of one incarnation of a broker.
pub fn fence_file(broker_id: i32, incarnation: &Uuid) -> String {
    format!("{BROKERS_DIR}/{broker_id}-{incarnation}.fence")
}

/// The broker id and incarnation in a fence's file name.
pub fn parse_fence(name: &str) -> Option<(i32, Uuid)> {
    let (broker_id, incarnation) = name.strip_suffix(".fence")?.split_once('-')?;
    Some((broker_id.parse().ok()?, incarnation.parse().ok()?))
}

/// What is in a file that belongs to a segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SegmentFile {
    /// Record batches.
    Log,
    /// Offset to position.
    Index,
    /// Timestamp to offset.
    TimeIndex,
    /// Aborted and open transactions.
    TxnIndex,
}

impl SegmentFile {
    /// Every kind, the records first: without them the others mean nothing.
    pub const ALL: [Self; 4] = [Self::Log, Self::Index, Self::TimeIndex, Self::TxnIndex];

    fn extension(self) -> &'static str {
        match self {
            Self::Log => "log",
            Self::Index => "index",
            Self::TimeIndex => "timeindex",
            Self::TxnIndex => "txnindex",
        }
    }
}

/// A segment's identity: the epoch that wrote it and its first offset.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SegmentName {
    /// First offset.
    pub base_offset: i64,
    /// The epoch that wrote it.
    pub epoch: i32,
    /// What it stands for, when it was made by compaction; `None` for one that was appended to.
    pub cleaned: Option<Cleaned>,
}

/// What a compacted segment stands for: everything from its base offset to `end_offset`, whatever segments of a lower
/// epoch, or of the same epoch and a lower generation, there are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Cleaned {
    /// The offset after the last that it stands for.
    pub end_offset: i64,
    /// One more than the greatest generation that it was made from; 1 for what was never compacted.
    pub generation: u32,
}

impl SegmentName {
    /// The segment that `epoch` appends to from `base_offset` on.
    pub fn new(epoch: i32, base_offset: i64) -> Self {
        Self { base_offset, epoch, cleaned: None }
    }

    /// The file name of one of the segment's files.
    pub fn file(self, kind: SegmentFile) -> String {
        let Self { base_offset, epoch, cleaned } = self;
        let extension = kind.extension();
        match cleaned {
            None => format!("{epoch:08x}-{base_offset:020}.{extension}"),
            Some(Cleaned { end_offset, generation }) => {
                format!("{epoch:08x}-{base_offset:020}-{end_offset:020}-{generation:08x}.{extension}")
            }
        }
    }

    /// The segment that a `.log` file name stands for.
    pub fn parse_log(name: &str) -> Option<Self> {
        match Self::parse(name)? {
            (segment, SegmentFile::Log) => Some(segment),
            _ => None,
        }
    }

    /// The segment that a file belongs to, and what is in the file.
    pub fn parse(name: &str) -> Option<(Self, SegmentFile)> {
        let (stem, extension) = name.split_once('.')?;
        let kind = SegmentFile::ALL.into_iter().find(|kind| kind.extension() == extension)?;
        let (epoch, rest) = stem.split_once('-')?;
        let (base, cleaned) = match rest.split_once('-') {
            None => (rest, None),
            Some((base, cleaned)) => {
                let (end, generation) = cleaned.split_once('-')?;
                let generation = parse_hex(generation)?;
                (base, Some(Cleaned { end_offset: parse_offset(end)?, generation }))
            }
        };
        Some((Self { base_offset: parse_offset(base)?, epoch: parse_epoch(epoch)?, cleaned }, kind))
    }
}

/// The mark that the log is compacted below `offset`; see [`start_file`].
pub fn clean_file(epoch: i32, offset: i64) -> String {
    format!("{epoch:08x}-{offset:020}.clean")
}

/// The offset in the name of a mark of compaction.
pub fn parse_clean(name: &str) -> Option<i64> {
    parse_mark(name.strip_suffix(".clean")?)
}

/// The mark that the log begins at `offset`, made under `epoch`. The greatest offset counts; the file is empty.
pub fn start_file(epoch: i32, offset: i64) -> String {
    format!("{epoch:08x}-{offset:020}.start")
}

/// The offset in the name of a log start's mark.
pub fn parse_start(name: &str) -> Option<i64> {
    parse_mark(name.strip_suffix(".start")?)
}

fn parse_mark(stem: &str) -> Option<i64> {
    let (epoch, offset) = stem.split_once('-')?;
    parse_epoch(epoch)?;
    parse_offset(offset)
}

/// The producer-state snapshot as of `offset` (exclusive) that the owner of `epoch` wrote.
pub fn producers_file(epoch: i32, offset: i64) -> String {
    format!("{epoch:08x}-{offset:020}.producers")
}

/// The epoch and the offset in a producer-state snapshot's file name.
pub fn parse_producers(name: &str) -> Option<(i32, i64)> {
    let (epoch, offset) = name.strip_suffix(".producers")?.split_once('-')?;
    Some((parse_epoch(epoch)?, parse_offset(offset)?))
}

/// What a file in a partition's directory is, by its name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PartitionFile {
    /// Who owns the epoch.
    Claim(i32),
    /// Where the epoch before it ends.
    Seal(i32),
    /// The epoch was given up.
    Resigned(i32),
    /// How much is known to be synced, by the owner of the epoch.
    Checkpoint(i32),
    /// The producers as of an offset, by the owner of the epoch.
    Producers(i32, i64),
    /// The log begins here.
    Start(i64),
    /// The log is compacted below this.
    Clean(i64),
    /// A segment's.
    Segment(SegmentName, SegmentFile),
    /// Left over by something that was interrupted: set aside, or not finished.
    Leftover,
}

impl PartitionFile {
    /// `None` for a name that this format does not know.
    pub fn parse(name: &str) -> Option<Self> {
        for suffix in [DELETED_SUFFIX, CLEANING_SUFFIX] {
            if let Some(original) = name.strip_suffix(suffix) {
                return SegmentName::parse(original).map(|_| Self::Leftover);
            }
        }
        if let Some(original) = name.strip_suffix(TMP_SUFFIX) {
            return Self::parse(original).map(|_| Self::Leftover);
        }
        SegmentName::parse(name)
            .map(|(segment, kind)| Self::Segment(segment, kind))
            .or_else(|| parse_claim(name).map(Self::Claim))
            .or_else(|| parse_seal(name).map(Self::Seal))
            .or_else(|| parse_resigned(name).map(Self::Resigned))
            .or_else(|| parse_checkpoint(name).map(Self::Checkpoint))
            .or_else(|| parse_producers(name).map(|(epoch, offset)| Self::Producers(epoch, offset)))
            .or_else(|| parse_start(name).map(Self::Start))
            .or_else(|| parse_clean(name).map(Self::Clean))
    }
}

fn parse_epoch(text: &str) -> Option<i32> {
    i32::try_from(parse_hex(text)?).ok()
}

fn parse_hex(text: &str) -> Option<u32> {
    let strict = text.len() == 8 && text.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'));
    strict.then(|| u32::from_str_radix(text, 16).ok()).flatten()
}

fn parse_offset(text: &str) -> Option<i64> {
    let strict = text.len() == 20 && text.bytes().all(|b| b.is_ascii_digit());
    strict.then(|| text.parse().ok()).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_round_trip_and_foreign_names_are_not_ours() {
        let segment = SegmentName::new(0x1f, 42);
        let name = segment.file(SegmentFile::Log);
        assert_eq!(name, "0000001f-00000000000000000042.log");
        assert_eq!(SegmentName::parse_log(&name), Some(segment));
        assert_eq!(
            SegmentName::parse(&segment.file(SegmentFile::TimeIndex)),
            Some((segment, SegmentFile::TimeIndex))
        );
        let cleaned = SegmentName { cleaned: Some(Cleaned { end_offset: 77, generation: 0xab }), ..segment };
        let name = cleaned.file(SegmentFile::Log);
        assert_eq!(name, "0000001f-00000000000000000042-00000000000000000077-000000ab.log");
        assert_eq!(SegmentName::parse_log(&name), Some(cleaned));
        assert_eq!(parse_start(&start_file(7, 42)), Some(42));
        assert_eq!(parse_clean(&clean_file(7, 42)), Some(42));
        assert_eq!(parse_claim(&claim_file(7)), Some(7));
        assert_eq!(parse_producers(&producers_file(3, 9)), Some((3, 9)));
        assert_eq!(parse_checkpoint(&checkpoint_file(7)), Some(7));
        let incarnation = Uuid::from_u128(5);
        let fence = fence_file(2, &incarnation);
        assert_eq!(parse_fence(&fence[BROKERS_DIR.len() + 1..]), Some((2, incarnation)));
        assert_eq!(parse_slot(slot_dir(GROUPS_DIR, 7).rsplit_once('/').unwrap().1), Some(7));
        assert_eq!(parse_journal(&journal_file(0x2a, 3)), Some((0x2a, 3)));
        assert_eq!(journal_file(0x2a, 3), "0000002a-00000003.jsonl");
        let known = |name: String| PartitionFile::parse(&name);
        assert_eq!(known(seal_file(7)), Some(PartitionFile::Seal(7)));
        assert_eq!(known(resigned_file(7)), Some(PartitionFile::Resigned(7)));
        assert_eq!(known(start_file(7, 42)), Some(PartitionFile::Start(42)));
        assert_eq!(known(format!("{}.tmp", checkpoint_file(7))), Some(PartitionFile::Leftover));
        assert_eq!(
            known(format!("{}.deleted", segment.file(SegmentFile::Index))),
            Some(PartitionFile::Leftover)
        );
        assert_eq!(known("notes.deleted".to_owned()), None);
        for foreign in [
            "00000000000000000042.log",
            "1f-42.log",
            "0000001F-00000000000000000042.log",
            "+000001f-00000000000000000042.log",
            "ffffffff-00000000000000000042.log",
            "0000001f-99999999999999999999.log",
            "0000001f-00000000000000000042.log.tmp",
            "0000001f-00000000000000000042-00000000000000000077.log",
            "0000001f-00000000000000000042-00000000000000000077-0000000g.log",
            "0000001f-00000000000000000042-00000000000000000077-00000001-.log",
        ] {
            assert_eq!(SegmentName::parse_log(foreign), None, "{foreign}");
        }
    }

    #[test]
    fn the_longest_topic_name_fits_in_a_file_name() {
        let id = Uuid::new_v4();
        let stem = topic_stem(&"x".repeat(249), &id);
        assert!(stem.len() + ".json".len() + DELETED_SUFFIX.len() <= 255);
        assert_eq!(parse_topic_stem(&stem), Some(id));
    }
}
