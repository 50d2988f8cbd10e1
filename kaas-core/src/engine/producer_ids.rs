//! Producer ids, in blocks that are claimed on the volume: no id is ever given out twice, whatever stops when.

use std::io::{self, IoSlice};
use std::ops::Range;

use parking_lot::Mutex;
use serde::{Deserialize, Serialize};

use crate::error::{ProducerIdError, StorageError};
use crate::layout::{PRODUCER_IDS_DIR, parse_producer_ids};
use crate::state_file;
use crate::volume::Volume;

/// Ids of one block.
pub(crate) const BLOCK_IDS: i64 = 1000;

/// The content of a block's file.
#[derive(Serialize, Deserialize)]
pub(crate) struct Block {
    broker_id: i32,
    nonce: String,
    pub(crate) first: i64,
    pub(crate) last: i64,
}

/// The block in use.
#[derive(Debug, Default)]
pub(crate) struct ProducerIds(Mutex<Range<i64>>);

impl ProducerIds {
    /// The next id; may write a file.
    pub(crate) fn next(
        &self,
        volume: &dyn Volume,
        broker_id: i32,
        nonce: &str,
    ) -> Result<i64, ProducerIdError> {
        // Held across the claim on purpose: the others need the same block.
        let mut block = self.0.lock();
        if block.is_empty() {
            *block = claim_block(volume, broker_id, nonce)?;
        }
        block.next().ok_or(ProducerIdError::Exhausted)
    }
}

fn claim_block(volume: &dyn Volume, broker_id: i32, nonce: &str) -> Result<Range<i64>, ProducerIdError> {
    let names = volume.list(PRODUCER_IDS_DIR).map_err(StorageError::from)?;
    let highest = names.iter().filter_map(|entry| parse_producer_ids(&entry.name)).max();
    let mut number = highest.map_or(0, |highest| highest + 1);
    loop {
        let first = number.checked_mul(BLOCK_IDS).ok_or(ProducerIdError::Exhausted)?;
        let end = first.checked_add(BLOCK_IDS).ok_or(ProducerIdError::Exhausted)?;
        let block = Block { broker_id, nonce: nonce.to_owned(), first, last: end - 1 };
        match create_block(volume, number, &block) {
            Ok(()) => return Ok(first..end),
            // Another's, or one's own whose answer was lost: either way the next number is free of doubt.
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => number += 1,
            Err(error) => return Err(StorageError::from(error).into()),
        }
    }
}

fn create_block(volume: &dyn Volume, number: i64, block: &Block) -> io::Result<()> {
    // The name alone takes the block: a file that was torn by a crash still keeps its ids from reuse.
    let file = volume.create_new(&format!("{PRODUCER_IDS_DIR}/{number:010}.json"))?;
    file.write_all_at(&mut [IoSlice::new(&state_file::encode(block)?)], 0)?;
    file.sync_data()?;
    volume.sync_dir(PRODUCER_IDS_DIR)
}
