//! One segment: every batch, its place, and the indexes beside it.

use super::indexes::IndexCheck;
use super::log::Walk;
use super::partition::PartitionAudit;
use super::{Problem, Severity};
use crate::layout::{SegmentFile, SegmentName};
use crate::log::claim::tail_crc;
use crate::log::index::{Index, is_intact};
use crate::log::recover::next_batch_behind;
use crate::log::segment::INDEX_FILE_BYTES_MAX;
use crate::log::txn_index::TxnIndex;
use crate::log::writer::GROUP_BYTES_MAX;
use crate::log::{ScanError, Scanner};
use crate::record::{BatchHeader, EndTxnMarker, MalformedRecord};
use crate::volume::{Access, VolumeFile, read_file};

/// The segment that is being walked over.
struct Here<'a> {
    name: SegmentName,
    path: String,
    file: &'a dyn VolumeFile,
    end: u64,
    /// From here on the bytes were never acknowledged, if they are no batches.
    unprotected: Option<u64>,
}

impl PartitionAudit<'_> {
    /// Walks over a segment that ends at `sealed`, if a seal says so; one that `grows` may end in anything.
    pub(super) fn segment(
        &mut self,
        walk: &mut Walk<'_>,
        name: SegmentName,
        sealed: Option<u64>,
        grows: bool,
    ) {
        let path = self.path(&name.file(SegmentFile::Log));
        let opened = self.volume.open(&path, Access::Read).and_then(|file| Ok((file.byte_len()?, file)));
        let (len, file) = match opened {
            Ok(opened) => opened,
            Err(error) => {
                self.found(Severity::Damage, path, Problem::Unreadable(error.to_string()));
                walk.lose();
                walk.next = None;
                return;
            }
        };
        self.summary.segments += 1;
        let end = sealed.map_or(len, |end| end.min(len));
        if len > end {
            self.found_at(Severity::Note, &path, end, Problem::BehindSeal(len - end));
        }
        let unprotected = grows.then(|| walk.stored.checkpointed(name));
        let here = Here { name, path, file: &*file, end, unprotected };
        if let Some(cleaned) = name.cleaned {
            walk.stored.compacted(self, (name.base_offset, cleaned.end_offset));
        }
        self.batches(walk, &here, !grows);
        walk.stored.end_of(self, name);
        if let Some(cleaned) = name.cleaned {
            // It stands for all offsets up to there, and every transaction in it is decided.
            walk.next = walk.next.map(|_| cleaned.end_offset);
            walk.open.clear();
        }
        if let Some(sealed) = sealed {
            self.seal(walk, &here, sealed);
        }
    }

    fn batches(&mut self, walk: &mut Walk<'_>, here: &Here<'_>, closed: bool) {
        let mut index = self.stored_index(here, closed);
        let stored_txns = self.stored_txns(here);
        let mut txns = TxnIndex::new(here.name.base_offset, std::mem::take(&mut walk.open));
        let mut txns_met = false;
        let mut scanner = Scanner::new(here.file, 0, here.end, true);
        let ended = loop {
            let at = scanner.position();
            if let Some(stored) = stored_txns.as_ref().filter(|stored| stored.covered() == at && !txns_met) {
                txns_met = true;
                self.compare_txns(walk, here, stored, &txns);
            }
            let bad = match scanner.next_batch() {
                Ok(None) => break at,
                Ok(Some((position, header, bytes))) => match EndTxnMarker::read(&header, bytes) {
                    Ok(marker) if self.in_place(walk, here, position, &header) => {
                        self.summary.batches += 1;
                        self.summary.bytes += header.size as u64;
                        walk.stored.batch(self, (here.name, position), &header, marker.as_ref());
                        txns.push(&header, marker.as_ref());
                        if let Some(index) = &mut index {
                            index.batch(position, &header);
                        }
                        continue;
                    }
                    Ok(_) => (position, "its offset does not follow".to_owned()),
                    Err(MalformedRecord(why)) => (position, why),
                },
                Err(ScanError::Bad { position, why }) => (position, why),
                Err(ScanError::Storage(error)) => {
                    self.found_at(Severity::Damage, &here.path, at, Problem::Unreadable(error.to_string()));
                    walk.lose();
                    walk.next = None;
                    return;
                }
                Err(ScanError::WouldBlock) => return,
            };
            match self.bad(walk, here, bad) {
                Some(behind) => scanner = Scanner::new(here.file, behind, here.end, true),
                None => break at,
            }
        };
        if let Some(next) = walk.next {
            walk.stored.boundary(self, (here.name, ended), next);
        }
        if walk.lost {
            return;
        }
        let index_path = self.path(&here.name.file(SegmentFile::Index));
        if let Some(why) = index.and_then(|index| index.finish(ended)) {
            self.found(Severity::Damage, index_path, Problem::Index(why));
        }
        if stored_txns.is_some() && !txns_met {
            let path = self.path(&here.name.file(SegmentFile::TxnIndex));
            self.found(Severity::Damage, path, Problem::Index("it ends inside of a batch".to_owned()));
        }
        walk.open = txns.open().collect();
    }

    /// Whether a batch is where it belongs. One that is not is reported and passed over all the same, unless it may be
    /// the end of what was acknowledged: then the answer is no.
    fn in_place(
        &mut self,
        walk: &mut Walk<'_>,
        here: &Here<'_>,
        position: u64,
        header: &BatchHeader,
    ) -> bool {
        let found = header.base_offset;
        let Some(expected) = walk.next else {
            walk.next = Some(header.next_offset());
            return true;
        };
        if std::mem::take(&mut walk.skipped) {
            if found > expected {
                let problem = Problem::Gap { from: expected, to: found };
                self.found_at(Severity::Damage, &here.path, position, problem);
            }
            walk.next = Some(header.next_offset());
            return true;
        }
        let follows = match here.name.cleaned {
            None => found == expected || Some(found) == walk.other,
            Some(cleaned) => found >= expected && header.next_offset() <= cleaned.end_offset,
        };
        if follows && header.last_offset_delta >= 0 {
            (walk.next, walk.other) = (Some(header.next_offset()), None);
        } else {
            if here.unprotected.is_some_and(|from| position >= from) {
                return false;
            }
            self.found_at(Severity::Damage, &here.path, position, Problem::OutOfPlace { expected, found });
            walk.lose();
            walk.next = match here.name.cleaned {
                None => Some(expected + i64::from(header.last_offset_delta.max(0)) + 1),
                Some(_) => Some(header.next_offset()),
            };
            walk.other = Some(header.next_offset());
        }
        let leader = match here.name.cleaned {
            None => Some(here.name.epoch),
            Some(_) => walk.chain.and_then(|chain| chain.epoch_at(found)),
        };
        if let Some(expected) = leader.filter(|leader| *leader != header.leader_epoch) {
            let problem = Problem::LeaderEpoch { expected, found: header.leader_epoch };
            self.found_at(Severity::Damage, &here.path, position, problem);
        }
        true
    }

    /// What is at a position is no batch, or not the next one: reports it, and says where the next one is.
    fn bad(&mut self, walk: &mut Walk<'_>, here: &Here<'_>, (position, why): (u64, String)) -> Option<u64> {
        let behind = next_batch_behind(here.file, position, here.end, walk.next.unwrap_or(0));
        let behind = match behind {
            Ok(behind) => behind,
            Err(error) => {
                self.found_at(Severity::Damage, &here.path, position, Problem::Unreadable(error.to_string()));
                None
            }
        };
        let bytes = here.end - position;
        // As recovery has it: what was not acknowledged is at most the last group.
        let is_tail = here.unprotected.is_some_and(|from| position >= from)
            && (bytes <= GROUP_BYTES_MAX || behind.is_none());
        if is_tail {
            // A broker may be writing it at this moment.
            let grows = here.file.byte_len().is_ok_and(|len| len != here.end);
            let severity = if grows { Severity::Note } else { Severity::Warning };
            self.found_at(severity, &here.path, position, Problem::Tail { bytes, why });
            return None;
        }
        self.found_at(Severity::Damage, &here.path, position, Problem::Batch(why));
        walk.lose();
        walk.skipped = behind.is_some();
        behind
    }

    /// Holds the end of an epoch against its seal.
    fn seal(&mut self, walk: &Walk<'_>, here: &Here<'_>, sealed: u64) {
        let seal = walk.chain.and_then(|chain| chain.seals.get(&here.name.epoch));
        let Some(seal) = seal.filter(|seal| seal.base_offset == here.name.base_offset) else { return };
        if here.end < sealed {
            let why = format!("it has {} bytes, its seal says {sealed}", here.end);
            return self.found(Severity::Damage, &*here.path, Problem::Seal(why));
        }
        if walk.next.is_some_and(|next| next != seal.offset) && !walk.lost {
            let why = "its last offset is not the one that its seal says".to_owned();
            self.found(Severity::Damage, &*here.path, Problem::Seal(why));
        }
        match (seal.crc, tail_crc(here.file, sealed)) {
            (Some(crc), Ok(found)) if crc != found => {
                let why = "its last bytes are not those that its seal speaks of".to_owned();
                self.found(Severity::Damage, &*here.path, Problem::Seal(why));
            }
            (_, Err(error)) => {
                self.found(Severity::Damage, &*here.path, Problem::Unreadable(error.to_string()));
            }
            _ => {}
        }
    }

    fn stored_index(&mut self, here: &Here<'_>, closed: bool) -> Option<IndexCheck> {
        let (index_path, index) = self.cache(here, SegmentFile::Index);
        let (times_path, times) = self.cache(here, SegmentFile::TimeIndex);
        let (index, times) = match (index, times) {
            (Some(index), Some(times)) => (index, times),
            (None, None) => {
                // The one of a segment that grows is in memory.
                if closed {
                    self.found(Severity::Note, index_path, Problem::Cache("there is no index"));
                }
                return None;
            }
            // Storing them is two renames, and a broker may be between them.
            (None, Some(_)) | (Some(_), None) => {
                self.found(Severity::Note, index_path, Problem::Cache("one of its two files is missing"));
                return None;
            }
        };
        let base_offset = here.name.base_offset;
        if let Some(decoded) = Index::decode(base_offset, here.end, &index, &times, false) {
            return Some(IndexCheck::new(decoded, base_offset));
        }
        let whole = is_intact(&index) && is_intact(&times);
        for (path, bytes) in [(index_path, index), (times_path, times)] {
            if !is_intact(&bytes) {
                self.found(Severity::Warning, path, Problem::Cache("it is damaged"));
            } else if whole {
                self.found(Severity::Warning, path, Problem::Cache("it is not of this segment"));
            }
        }
        None
    }

    fn stored_txns(&mut self, here: &Here<'_>) -> Option<TxnIndex> {
        let (path, bytes) = self.cache(here, SegmentFile::TxnIndex);
        let bytes = bytes?;
        let decoded = TxnIndex::decode(here.end, &bytes, false);
        if decoded.is_none() {
            let why = if is_intact(&bytes) { "it is not of this segment" } else { "it is damaged" };
            self.found(Severity::Warning, path, Problem::Cache(why));
        }
        decoded
    }

    /// The path and the bytes of one of a segment's files that can be made anew.
    fn cache(&mut self, here: &Here<'_>, kind: SegmentFile) -> (String, Option<Vec<u8>>) {
        let path = self.path(&here.name.file(kind));
        let bytes = match read_file(self.volume, &path, INDEX_FILE_BYTES_MAX) {
            Ok(bytes) => Some(bytes),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => None,
            Err(error) => {
                self.found(Severity::Warning, &*path, Problem::Unreadable(error.to_string()));
                None
            }
        };
        (path, bytes)
    }

    fn compare_txns(&mut self, walk: &Walk<'_>, here: &Here<'_>, stored: &TxnIndex, rebuilt: &TxnIndex) {
        if !walk.lost && !stored.agrees_with(rebuilt, walk.first) {
            let path = self.path(&here.name.file(SegmentFile::TxnIndex));
            let why = "its transactions are not those of the log".to_owned();
            self.found(Severity::Damage, path, Problem::Index(why));
        }
    }
}
