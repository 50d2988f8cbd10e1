//! Becoming the leader of a partition on a volume that several brokers share: claim, scan, seal.
//!
//! The order is the proof. Whoever led before is known to be unable to acknowledge (its fence is revoked, or it has
//! resigned) before its log is looked at, the names of its files included; so whatever it has acknowledged is in the
//! log that is scanned, and whatever it writes from then on lies behind the seal. The claim comes between the two: a
//! directory in which one has just created a file is listed afresh. Every step may be the last one of a broker that
//! dies or is overtaken: a claim counts only with its seal, and an unfinished one is declared void by whoever comes next.

use std::io;
use std::sync::Arc;

use uuid::Uuid;

use super::chain::{Chain, claimed_epochs, names_in};
use super::checkpoint;
use super::claim::{self, Claim, Seal, SealRecord, Standing};
use super::recover::{RecoverContext, RecoverError, Recovered, Tail, recover, recover_chain};
use super::segment::Segment;
use super::sweep::{Found, sweep};
use crate::error::LeadError;
use crate::layout::{CLEANING_SUFFIX, SegmentFile, SegmentName};
use crate::mutant::Mutant;
use crate::volume::{Access, Volume, ensure_dir, parent, remove_if_there};

/// Who takes over, and what it may ask.
pub(crate) struct Taker<'a> {
    pub(crate) context: RecoverContext<'a>,
    pub(crate) broker_id: i32,
    pub(crate) incarnation: Uuid,
    /// Whether the fence of that broker's incarnation is down, durably and for good.
    pub(crate) is_fenced: &'a dyn Fn(i32, Uuid) -> io::Result<bool>,
}

/// Takes the partition in `dir` over under `epoch`, or under the first free one. What comes back may be served once
/// this broker's own fence has been read after it.
pub(crate) fn take_over(
    taker: &Taker<'_>,
    dir: &Arc<str>,
    epoch: Option<i32>,
    flush_messages: u64,
) -> Result<Recovered, LeadError> {
    let RecoverContext { volume, mutants, .. } = taker.context;
    let names = names_in(volume, dir)?;
    let highest = claimed_epochs(&names).last().copied().unwrap_or(0);
    if mutants.has(Mutant::EpochReused) && highest > 0 {
        return Ok(recover(&taker.context, dir, flush_messages)?);
    }
    if highest == 0 {
        ensure_dir(volume, parent(dir))?;
        ensure_dir(volume, dir)?;
    }
    let epoch = match epoch {
        Some(epoch) if epoch <= highest => return Err(LeadError::Lost { epoch }),
        Some(epoch) => epoch,
        None => highest.checked_add(1).ok_or(LeadError::Lost { epoch: highest })?,
    };
    let silent = silence_newest(taker, dir, claimed_epochs(&names).into_iter().rev())?;
    let nonce = taker.incarnation.to_string();
    let claim = Claim {
        epoch,
        broker_id: taker.broker_id,
        incarnation: Some(taker.incarnation),
        nonce: nonce.clone(),
        prev: None,
    };
    if !claim::create_shared(volume, dir, &claim, mutants)? {
        return Err(LeadError::Lost { epoch });
    }
    // Of two who claim at once, the later to list sees both.
    let mut names = names_unless_overtaken(volume, dir, epoch)?;
    let claims = claimed_epochs(&names).into_iter();
    let before = predecessor(taker, dir, claims.filter(|known| *known < epoch))?;
    // Somebody else has led meanwhile, and went on after the names were listed, maybe.
    if before.as_ref().map(|(claim, _)| claim.epoch) != silent {
        return Err(LeadError::Lost { epoch });
    }
    if remove_unfinished(volume, dir, &names)? {
        names = names_unless_overtaken(volume, dir, epoch)?;
    }
    if let Some((claim, prev)) = &before
        && !mutants.has(Mutant::SealNotSecured)
        && !secure(volume, dir, &names, claim, *prev)?
    {
        return Err(LeadError::Lost { epoch });
    }
    let (mut log, seal) = end_of(taker, dir, &names, before, flush_messages)?;
    if !claim::seal(volume, dir, &SealRecord { epoch, nonce, prev: seal }, mutants)? {
        return Err(LeadError::Lost { epoch });
    }
    if log.producers_at_risk {
        checkpoint::store_producers(volume, dir, (epoch, log.log_end), log.producers.clone(), true)?;
        log.producers_kept_at = log.log_end;
    }
    let live: Vec<SegmentName> = log.segments.iter().map(|segment| segment.name()).collect();
    let superseded = std::mem::take(&mut log.superseded);
    sweep(
        volume,
        dir,
        &Found { names: &names, live: &live, superseded: &superseded, log_start: log.log_start },
    )?;
    log.epochs.push((epoch, log.log_end));
    (log.epoch, log.claimed, log.epoch_seen, log.active) = (epoch, true, epoch, None);
    Ok(log)
}

/// What is in the partition's directory, unless an epoch above `epoch` has begun: then this takeover is lost, and what that
/// epoch has written is no damage.
fn names_unless_overtaken(volume: &dyn Volume, dir: &str, epoch: i32) -> Result<Vec<String>, LeadError> {
    let names = names_in(volume, dir)?;
    let segments = names.iter().filter_map(|name| Some(SegmentName::parse(name)?.0.epoch));
    match segments.chain(claimed_epochs(&names)).any(|seen| seen > epoch) {
        true => Err(LeadError::Lost { epoch }),
        false => Ok(names),
    }
}

/// Removes compacted segments that are not part of the log yet, and says whether there were any. Whoever led may be about
/// to rename one into it: what is gone cannot be renamed, and one that was renamed before is in a list made afterwards.
fn remove_unfinished(volume: &dyn Volume, dir: &str, names: &[String]) -> io::Result<bool> {
    let is_unfinished = |name: &&String| {
        name.strip_suffix(CLEANING_SUFFIX).is_some_and(|segment| SegmentName::parse(segment).is_some())
    };
    let unfinished: Vec<&String> = names.iter().filter(is_unfinished).collect();
    for name in &unfinished {
        remove_if_there(volume, &format!("{dir}/{name}"))?;
    }
    Ok(!unfinished.is_empty())
}

/// The newest epoch that counts as far as can be seen, once it is certain that nobody acknowledges anything under it.
/// Nothing is decided yet.
fn silence_newest(
    taker: &Taker<'_>,
    dir: &str,
    newest_first: impl Iterator<Item = i32>,
) -> Result<Option<i32>, LeadError> {
    for epoch in newest_first {
        if let Standing::Counts(claim, _) = claim::standing(taker.context.volume, dir, epoch)? {
            silence(taker, dir, &claim)?;
            return Ok(Some(epoch));
        }
    }
    Ok(None)
}

/// The newest epoch that counts, once it is certain that nobody acknowledges anything under it any more, and that none
/// above it will ever count.
fn predecessor(
    taker: &Taker<'_>,
    dir: &str,
    claims: impl DoubleEndedIterator<Item = i32>,
) -> Result<Option<(Claim, Option<Seal>)>, LeadError> {
    for epoch in claims.rev() {
        if let Some(found) = settle(taker, dir, epoch)? {
            return Ok(Some(found));
        }
    }
    Ok(None)
}

/// Decides whether the claim of `epoch` counts, now and for ever.
fn settle(taker: &Taker<'_>, dir: &str, epoch: i32) -> Result<Option<(Claim, Option<Seal>)>, LeadError> {
    let volume = taker.context.volume;
    let nonce = taker.incarnation.to_string();
    let mut found = claim::standing(volume, dir, epoch)?;
    // No seal is in sight. If there is none, there never will be.
    if matches!(found, Standing::Undecided(_, None) | Standing::Torn(_)) {
        if claim::void(volume, dir, epoch, &nonce)? {
            return Ok(None);
        }
        found = claim::standing(volume, dir, epoch)?;
    }
    match found {
        Standing::Void => Ok(None),
        // A claim is whole before its seal is created: one that is not has no seal that counts.
        Standing::Torn(error) => {
            tracing::warn!(%error, "claim skipped");
            Ok(None)
        }
        Standing::Counts(claim, seal) => {
            silence(taker, dir, &claim)?;
            Ok(Some((claim, seal)))
        }
        // Its owner is writing the seal, or died doing so. Whole or not, it serves only if its fence stands behind it.
        Standing::Undecided(claim, Some(_)) => {
            silence(taker, dir, &claim)?;
            match claim::standing(volume, dir, epoch)? {
                Standing::Counts(claim, seal) => Ok(Some((claim, seal))),
                _ => Ok(None),
            }
        }
        Standing::Undecided(_, None) | Standing::Missing => {
            let why = format!("epoch {epoch} of {dir} is listed and cannot be opened");
            Err(io::Error::new(io::ErrorKind::NotFound, why).into())
        }
    }
}

/// Makes certain that the owner of a claim acknowledges nothing more under it.
fn silence(taker: &Taker<'_>, dir: &str, claim: &Claim) -> Result<(), LeadError> {
    let Some(incarnation) = claim.incarnation else {
        // A broker that had the volume to itself: it was stopped before the volume was shared.
        return Ok(());
    };
    if incarnation == taker.incarnation || claim::has_resigned(taker.context.volume, dir, claim)? {
        return Ok(());
    }
    match (taker.is_fenced)(claim.broker_id, incarnation)? {
        true => Ok(()),
        false => Err(LeadError::NotRevoked { broker_id: claim.broker_id, incarnation }),
    }
}

/// Makes the seal durable that this epoch's is going to rest on: its owner may have written it and not synced it. Its
/// name is durable: it was there before the claim of this epoch was, and the directory has been synced with that. False
/// when the seal is gone.
fn secure(
    volume: &dyn Volume,
    dir: &str,
    names: &[String],
    before: &Claim,
    prev: Option<Seal>,
) -> io::Result<bool> {
    let has_begun =
        |name: &String| SegmentName::parse(name).is_some_and(|(name, _)| name.epoch == before.epoch);
    // Whoever writes under an epoch has made its seal durable.
    if before.incarnation.is_none() || names.iter().any(has_begun) {
        return Ok(true);
    }
    claim::secure_seal(volume, dir, &SealRecord { epoch: before.epoch, nonce: before.nonce.clone(), prev })
}

/// The log as the predecessor leaves it, and its seal.
fn end_of(
    taker: &Taker<'_>,
    dir: &Arc<str>,
    names: &[String],
    before: Option<(Claim, Option<Seal>)>,
    flush_messages: u64,
) -> Result<(Recovered, Option<Seal>), LeadError> {
    let volume = taker.context.volume;
    let Some((claim, prev)) = before else {
        let chain = Chain::empty(0);
        let mut log = recover_chain(&taker.context, dir, names, chain, Tail::Seal, flush_messages)?;
        log.epochs.clear();
        return Ok((log, None));
    };
    let chain = Chain::follow(volume, dir, claim.epoch, &claim, prev)?;
    let mut log = recover_chain(&taker.context, dir, names, chain, Tail::Seal, flush_messages)?;
    let is_its_own = |last: &&Arc<Segment>| last.name().epoch == claim.epoch && last.name().cleaned.is_none();
    let last = log.segments.last().filter(is_its_own).cloned();
    let position = last.as_ref().and_then(|last| last.visible()).unwrap_or(0);
    let base_offset = last.as_ref().map_or(log.log_end, |last| last.base_offset());
    let mut crc = None;
    if let Some(last) = last {
        if position == 0 {
            // Nothing in it is whole, and nothing ever will be: the next epoch starts at the same offset.
            log.segments.pop();
        } else {
            crc =
                Some(claim::tail_crc(&*volume.open(&last.path(SegmentFile::Log), Access::Read)?, position)?);
        }
    }
    let seal = Seal { epoch: claim.epoch, base_offset, position, offset: log.log_end, crc };
    Ok((log, Some(seal)))
}

impl From<RecoverError> for LeadError {
    fn from(error: RecoverError) -> Self {
        match error {
            RecoverError::Storage(error) => error.into(),
            RecoverError::Damaged(offline) => offline.into(),
        }
    }
}
