//! Claims and seals: who owns an epoch of a partition, and where the epoch before it ends.
//!
//! A broker that has the volume to itself knows the end of the log when it claims, and writes it into the claim. A
//! broker that shares the volume claims first, reads the log then, and writes what it found into the *seal* of its
//! epoch, a file of its own. Its claim counts from the moment that the seal is durable; nothing is written or served
//! under it before. Whoever comes later and finds a claim without a seal creates that seal himself, as void: exclusive
//! create decides between the two, whatever either of them believes to be absent.

use std::io::{self, ErrorKind, IoSlice};

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::layout::{claim_file, resigned_file, seal_file};
use crate::mutant::{Mutant, Mutants};
use crate::state_file::{self, DamagedState};
use crate::volume::{Access, Volume, VolumeFile, read_exact_at};

/// Bytes before the end of an epoch that its seal's checksum covers.
const SEALED_TAIL_BYTES: u64 = 4096;

/// Where an epoch ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Seal {
    /// The epoch that ends.
    pub(crate) epoch: i32,
    /// Base offset of its last segment.
    pub(crate) base_offset: i64,
    /// Valid bytes of that segment.
    pub(crate) position: u64,
    /// The first offset that does not belong to it.
    pub(crate) offset: i64,
    /// CRC-32C of the last bytes before `position`, see [`tail_crc`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) crc: Option<u32>,
}

/// The content of a claim file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Claim {
    pub(crate) epoch: i32,
    pub(crate) broker_id: i32,
    /// The incarnation of a broker that shares the volume, whose fence must be revoked before anyone takes over.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) incarnation: Option<Uuid>,
    /// Who created the file: tells one's own lost answer from another's success.
    pub(crate) nonce: String,
    /// The end of the epoch before, of a broker that has the volume to itself.
    #[serde(default)]
    pub(crate) prev: Option<Seal>,
}

/// The content of a seal file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct SealRecord {
    /// The epoch that begins.
    pub(crate) epoch: i32,
    /// That of the claim; any other makes the seal, and so the claim, void.
    pub(crate) nonce: String,
    /// The end of the epoch before; none when there was none.
    pub(crate) prev: Option<Seal>,
}

/// What is known of an epoch.
#[derive(Debug)]
pub(crate) enum Standing {
    /// It is part of the chain, and begins where the seal says.
    Counts(Claim, Option<Seal>),
    /// Its takeover was not completed and never will be.
    Void,
    /// Its takeover may yet be completed: there is no seal, or one that cannot be read.
    Undecided(Claim, Option<DamagedState>),
    /// Its claim cannot be read, so nothing was ever written under it.
    Torn(DamagedState),
    Missing,
}

/// Creates the claim of a broker that has the volume to itself, and makes it durable. `attempted` says whether this
/// process tried before, in which case a file that cannot be read is its own unfinished one.
pub(crate) fn create(
    volume: &dyn Volume,
    dir: &str,
    claim: &Claim,
    attempted: bool,
    sync_dir: bool,
) -> io::Result<()> {
    let path = format!("{dir}/{}", claim_file(claim.epoch));
    match volume.create_new(&path) {
        Ok(file) => {
            file.write_all_at(&mut [IoSlice::new(&state_file::encode(claim)?)], 0)?;
            file.sync_data()?;
        }
        Err(error) if error.kind() == ErrorKind::AlreadyExists => {
            // One's own earlier try, whose sync failed and must not be believed: made anew. Anything else is
            // another's, and the epoch is lost.
            let own = match load(volume, dir, claim.epoch)? {
                Some(Ok(found)) => found.nonce == claim.nonce,
                Some(Err(_)) | None => true,
            };
            if !(attempted && own) {
                return Err(io::Error::new(ErrorKind::AlreadyExists, format!("{path} is another's")));
            }
            volume.remove_file(&path)?;
            return create(volume, dir, claim, false, sync_dir);
        }
        Err(error) => return Err(error),
    }
    if sync_dir { volume.sync_dir(dir) } else { Ok(()) }
}

/// Creates the claim of a broker that shares the volume, and makes it durable; false when the epoch is lost.
///
/// An empty file tells nobody who created it, so a create whose answer was lost has lost the epoch too: the next one
/// is free. The same goes for every failure on the way: nothing is ever done twice to one claim.
pub(crate) fn create_shared(
    volume: &dyn Volume,
    dir: &str,
    claim: &Claim,
    mutants: Mutants,
) -> io::Result<bool> {
    let path = format!("{dir}/{}", claim_file(claim.epoch));
    create_durable(volume, dir, &path, claim, mutants, false)
}

/// Writes the seal that makes the claim of `record.epoch` count; false when it has been declared void.
pub(crate) fn seal(
    volume: &dyn Volume,
    dir: &str,
    record: &SealRecord,
    mutants: Mutants,
) -> io::Result<bool> {
    let path = format!("{dir}/{}", seal_file(record.epoch));
    create_durable(volume, dir, &path, record, mutants, mutants.has(Mutant::SealNotSynced))
}

/// Makes the seal of another's claim durable, by writing it again: a sync covers what was written from here. False when
/// the file does not say any more what was read from it: nobody had synced it, and its server has restarted.
pub(crate) fn secure_seal(volume: &dyn Volume, dir: &str, seal: &SealRecord) -> io::Result<bool> {
    let path = format!("{dir}/{}", seal_file(seal.epoch));
    let file = volume.open(&path, Access::ReadWrite)?;
    let mut bytes = vec![0; usize::try_from(file.byte_len()?).unwrap_or(usize::MAX)];
    read_exact_at(&*file, &mut bytes, 0)?;
    if state_file::decode::<SealRecord>(&path, &bytes).ok().as_ref() != Some(seal) {
        return Ok(false);
    }
    file.write_all_at(&mut [IoSlice::new(&bytes)], 0)?;
    file.sync_data()?;
    Ok(true)
}

/// Declares the claim of `epoch` void; false when there is a seal already.
pub(crate) fn void(volume: &dyn Volume, dir: &str, epoch: i32, nonce: &str) -> io::Result<bool> {
    let path = format!("{dir}/{}", seal_file(epoch));
    let record = SealRecord { epoch, nonce: format!("void by {nonce}"), prev: None };
    create_durable(volume, dir, &path, &record, Mutants::default(), false)
}

/// Says durably that the owner of the claim has given its epoch up: it will acknowledge nothing more.
pub(crate) fn resign(volume: &dyn Volume, dir: &str, epoch: i32, nonce: &str) -> io::Result<()> {
    let path = format!("{dir}/{}", resigned_file(epoch));
    let record = SealRecord { epoch, nonce: nonce.to_owned(), prev: None };
    create_durable(volume, dir, &path, &record, Mutants::default(), false).map(|_| ())
}

/// Whether the owner of the claim has given its epoch up.
pub(crate) fn has_resigned(volume: &dyn Volume, dir: &str, claim: &Claim) -> io::Result<bool> {
    let path = format!("{dir}/{}", resigned_file(claim.epoch));
    let loaded: Option<Result<SealRecord, DamagedState>> = state_file::load(volume, &path)?;
    Ok(loaded.and_then(Result::ok).is_some_and(|record| record.nonce == claim.nonce))
}

fn create_durable<T: Serialize>(
    volume: &dyn Volume,
    dir: &str,
    path: &str,
    content: &T,
    mutants: Mutants,
    unsynced: bool,
) -> io::Result<bool> {
    let file = match volume.create_new(path) {
        Ok(file) => file,
        Err(error) if error.kind() == ErrorKind::AlreadyExists => return Ok(false),
        Err(error) => return Err(error),
    };
    file.write_all_at(&mut [IoSlice::new(&state_file::encode(content)?)], 0)?;
    if !unsynced {
        file.sync_data()?;
    }
    if !unsynced && !mutants.has(Mutant::NoDirectorySync) {
        volume.sync_dir(dir)?;
    }
    Ok(true)
}

/// The claim of an epoch, if there is one, and if it can be trusted.
fn load(volume: &dyn Volume, dir: &str, epoch: i32) -> io::Result<Option<Result<Claim, DamagedState>>> {
    let path = format!("{dir}/{}", claim_file(epoch));
    let loaded: Option<Result<Claim, DamagedState>> = state_file::load(volume, &path)?;
    Ok(loaded.map(|loaded| {
        loaded.and_then(|claim| {
            let why = format!("it claims epoch {}", claim.epoch);
            if claim.epoch == epoch { Ok(claim) } else { Err(DamagedState { path, why }) }
        })
    }))
}

/// What the files of an epoch say, as they are now.
pub(crate) fn standing(volume: &dyn Volume, dir: &str, epoch: i32) -> io::Result<Standing> {
    let claim = match load(volume, dir, epoch)? {
        None => return Ok(Standing::Missing),
        Some(Err(error)) => return Ok(Standing::Torn(error)),
        Some(Ok(claim)) => claim,
    };
    if claim.incarnation.is_none() {
        let prev = claim.prev;
        return Ok(Standing::Counts(claim, prev));
    }
    let path = format!("{dir}/{}", seal_file(epoch));
    Ok(match state_file::load::<SealRecord>(volume, &path)? {
        None => Standing::Undecided(claim, None),
        Some(Err(error)) => Standing::Undecided(claim, Some(error)),
        Some(Ok(record)) if record.epoch == epoch && record.nonce == claim.nonce => {
            Standing::Counts(claim, record.prev)
        }
        Some(Ok(_)) => Standing::Void,
    })
}

/// CRC-32C of the last bytes before `position`, at most [`SEALED_TAIL_BYTES`] of them.
pub(crate) fn tail_crc(file: &dyn VolumeFile, position: u64) -> io::Result<u32> {
    let len = position.min(SEALED_TAIL_BYTES);
    let mut tail = vec![0; usize::try_from(len).unwrap_or(usize::MAX)];
    read_exact_at(file, &mut tail, position - len)?;
    Ok(crc32c::crc32c(&tail))
}
