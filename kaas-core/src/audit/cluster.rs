//! Who the cluster is, which brokers there were, and which producer ids are taken.

use super::{Audit, AuditError, Problem, Severity};
use crate::engine::fence::content;
use crate::engine::identity::{ClusterRecord, VolumeRecord};
use crate::engine::producer_ids::{BLOCK_IDS, Block};
use crate::layout::{
    BROKERS_DIR, CLUSTER_DIR, CLUSTER_FILE, FORMAT_VERSION, GROUPS_DIR, LOCK_FILE, PRODUCER_IDS_DIR,
    TMP_SUFFIX, TOPIC_METADATA_DIR, TOPICS_DIR, TRANSACTIONS_DIR, VOLUME_FILE, parse_fence,
    parse_producer_ids,
};
use crate::volume::read_file;

/// The largest fence file that is read.
const FENCE_BYTES_MAX: u64 = 64 << 10;

impl Audit<'_> {
    /// The volume's own files, and the control state but for the topics.
    pub(super) fn cluster(&mut self) -> Result<(), AuditError> {
        let names = self.volume.list("");
        let names = names
            .map_err(|error| AuditError::Storage { path: "the volume".to_owned(), error: error.into() })?;
        let known = [VOLUME_FILE, TOPICS_DIR, CLUSTER_DIR];
        if !names.iter().any(|entry| known.contains(&entry.name.as_str())) {
            return Err(AuditError::NotAVolume);
        }
        for entry in names.iter().filter(|entry| !known.contains(&entry.name.as_str())) {
            match entry.name.strip_suffix(TMP_SUFFIX) {
                Some(VOLUME_FILE) => self.found(Severity::Note, &*entry.name, UNFINISHED),
                _ if entry.name == LOCK_FILE => {}
                _ => self.found(Severity::Note, &*entry.name, Problem::UnknownName),
            }
        }
        self.identity()?;
        for entry in self.list(CLUSTER_DIR) {
            let path = format!("{CLUSTER_DIR}/{}", entry.name);
            let known = [
                CLUSTER_FILE,
                TOPIC_METADATA_DIR,
                PRODUCER_IDS_DIR,
                BROKERS_DIR,
                GROUPS_DIR,
                TRANSACTIONS_DIR,
            ];
            match path.strip_suffix(TMP_SUFFIX) {
                Some(CLUSTER_FILE) => self.found(Severity::Note, path, UNFINISHED),
                _ if known.contains(&path.as_str()) => {}
                _ => self.found(Severity::Warning, path, Problem::UnknownName),
            }
        }
        self.fences();
        self.producer_ids();
        self.journals(GROUPS_DIR);
        self.journals(TRANSACTIONS_DIR);
        Ok(())
    }

    fn identity(&mut self) -> Result<(), AuditError> {
        let volume: Option<VolumeRecord> = self.required(VOLUME_FILE);
        if let Some(VolumeRecord { format_version: found, .. }) = volume
            && found != FORMAT_VERSION
        {
            return Err(AuditError::UnknownFormat { found, known: FORMAT_VERSION });
        }
        let cluster: Option<ClusterRecord> = self.required(CLUSTER_FILE);
        if let (Some(volume), Some(cluster)) = (volume, cluster)
            && volume.cluster_id != cluster.cluster_id
        {
            let why = format!("it is of cluster {}, the volume of {}", cluster.cluster_id, volume.cluster_id);
            self.found(Severity::Damage, CLUSTER_FILE, Problem::Contradiction(why));
        }
        Ok(())
    }

    /// A state file that every volume has, once the first start is complete: before that there are no topics.
    fn required<T: serde::de::DeserializeOwned>(&mut self, path: &str) -> Option<T> {
        match super::load_state(self.volume, path) {
            Some(Ok(state)) => return Some(state),
            Some(Err(problem)) => self.found(Severity::Damage, path, problem),
            None => {
                let fresh = self.list(TOPIC_METADATA_DIR).is_empty();
                self.found(if fresh { Severity::Warning } else { Severity::Damage }, path, Problem::Missing);
            }
        }
        None
    }

    fn fences(&mut self) {
        for entry in self.list(BROKERS_DIR) {
            let path = format!("{BROKERS_DIR}/{}", entry.name);
            let Some((broker_id, incarnation)) = parse_fence(&entry.name) else {
                self.found(Severity::Warning, path, Problem::UnknownName);
                continue;
            };
            let right = |revoked| content(broker_id, incarnation, revoked).ok();
            match read_file(self.volume, &path, FENCE_BYTES_MAX) {
                Ok(bytes) if [right(false), right(true)].contains(&Some(bytes.clone())) => {}
                Ok(_) => self.found(Severity::Warning, path, Problem::TornFence),
                Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
                Err(error) => self.found(Severity::Damage, path, Problem::Unreadable(error.to_string())),
            }
        }
    }

    fn producer_ids(&mut self) {
        for entry in self.list(PRODUCER_IDS_DIR) {
            let path = format!("{PRODUCER_IDS_DIR}/{}", entry.name);
            let Some(number) = parse_producer_ids(&entry.name) else {
                self.found(Severity::Warning, path, Problem::UnknownName);
                continue;
            };
            // The name alone takes the block: a crash may have torn the rest.
            let Some(Block { first, last, .. }) = self.state(&path, Severity::Warning) else { continue };
            let expected = number
                .checked_mul(BLOCK_IDS)
                .and_then(|first| Some((first, first.checked_add(BLOCK_IDS - 1)?)));
            if expected != Some((first, last)) {
                let why = format!("it has the ids {first} to {last}");
                self.found(Severity::Warning, path, Problem::Contradiction(why));
            }
        }
    }
}

/// A file that was never put under its name.
pub(super) const UNFINISHED: Problem = Problem::Leftover("written and not put in its place");
