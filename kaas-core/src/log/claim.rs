//! Claims: who owns an epoch of a partition, and where the epoch before it ends (the seal).
//!
//! The log is the chain of claims. Bytes past a seal do not exist, whatever the file shows.

use std::io::{self, IoSlice};

use serde::{Deserialize, Serialize};

use crate::layout::claim_file;
use crate::state_file::{self, DamagedState};
use crate::volume::Volume;

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
}

/// The content of a claim file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Claim {
    pub(crate) epoch: i32,
    pub(crate) broker_id: i32,
    /// Who created the file: tells one's own lost answer from another's success.
    pub(crate) nonce: String,
    pub(crate) prev: Option<Seal>,
}

/// Creates the claim and makes it durable. `attempted` says whether this process tried before, in which
/// case a file that cannot be read is its own unfinished one.
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
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            // One's own earlier try, whose sync failed and must not be believed: made anew. Anything else is
            // another's, and the epoch is lost.
            let own = match load(volume, dir, claim.epoch)? {
                Some(Ok(found)) => found.nonce == claim.nonce,
                Some(Err(_)) | None => true,
            };
            if !(attempted && own) {
                return Err(io::Error::new(io::ErrorKind::AlreadyExists, format!("{path} is another's")));
            }
            volume.remove_file(&path)?;
            return create(volume, dir, claim, false, sync_dir);
        }
        Err(error) => return Err(error),
    }
    if sync_dir { volume.sync_dir(dir) } else { Ok(()) }
}

/// The claim of an epoch, if there is one, and if it can be trusted.
pub(crate) fn load(
    volume: &dyn Volume,
    dir: &str,
    epoch: i32,
) -> io::Result<Option<Result<Claim, DamagedState>>> {
    let path = format!("{dir}/{}", claim_file(epoch));
    let loaded: Option<Result<Claim, DamagedState>> = state_file::load(volume, &path)?;
    Ok(loaded.map(|loaded| {
        loaded.and_then(|claim| {
            let why = format!("it claims epoch {}", claim.epoch);
            if claim.epoch == epoch { Ok(claim) } else { Err(DamagedState { path, why }) }
        })
    }))
}
