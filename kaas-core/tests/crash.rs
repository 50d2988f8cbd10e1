//! Power cuts at every operation of a workload, with every choice of what a crash may keep, and seeded bugs
//! that these tests must notice.
#![allow(clippy::unwrap_used)]

mod support;

use kaas_core::Mutant;
use kaas_core::volume::{CrashKeep, Fault, MemVolume, OpKind};
use support::{Cut, Run, check};

/// Up to this many unsynced changes every subset of them is tried.
const EXHAUSTIVE_CHANGES_MAX: usize = 5;
/// Beyond it, this many random subsets.
const RANDOM_SUBSETS: u64 = 12;
/// Random tears of unsynced writes.
const TEARS: u64 = 4;

const EIO: i32 = 5;
const ENOSPC: i32 = 28;

/// Rolls segments, writes checkpoints, creates and deletes topics, closes, and is killed.
fn workload(run: &mut Run) -> Result<(), Cut> {
    run.open()?;
    run.create("a")?;
    run.send("a", 1)?;
    run.send("a", 3)?;
    run.create("b")?;
    run.send("b", 2)?;
    run.delete("b")?;
    run.producer_id()?;
    run.send("a", 2)?;
    run.close()?;
    run.open()?;
    run.send("a", 1)?;
    run.send("a", 2)?;
    run.kill();
    run.open()?;
    run.send("a", 6)?;
    run.create("b")?;
    run.send("b", 3)?;
    run.producer_id()?;
    run.close()
}

/// Deletes records on request and by retention: parts of segments, whole ones, and everything, the active segment
/// included; goes on behind, closes, and is killed.
fn removals(run: &mut Run) -> Result<(), Cut> {
    run.open()?;
    run.create_with("a", &[("retention.bytes", "500")])?;
    run.send("a", 6)?;
    run.delete_records("a", 2)?;
    run.send("a", 5)?;
    run.retain()?;
    run.delete_records("a", -1)?;
    run.send("a", 2)?;
    run.close()?;
    run.open()?;
    run.send("a", 9)?;
    run.retain()?;
    run.create_with("z", &[("retention.bytes", "0")])?;
    run.send("z", 7)?;
    run.retain()?;
    run.kill();
    run.open()?;
    run.retain()?;
    run.send("z", 2)?;
    run.send("a", 5)?;
    run.retain()?;
    run.delete_records("a", run.log_start("a") + 1)?;
    run.send("z", 1)?;
    run.close()
}

/// Everything that a crash now could leave behind.
fn keeps(volume: &MemVolume) -> Vec<CrashKeep> {
    let changes = volume.unsynced_changes();
    let mut keeps = vec![CrashKeep::Nothing, CrashKeep::Everything];
    if changes <= EXHAUSTIVE_CHANGES_MAX {
        keeps.extend((1..(1u64 << changes)).map(CrashKeep::Mask));
    } else {
        // Odd multiples of a large odd number: spread over the bits, and the same in every run.
        keeps.extend((1..=RANDOM_SUBSETS).map(|n| CrashKeep::Mask(n.wrapping_mul(0x9e37_79b9_7f4a_7c15))));
    }
    keeps.extend((1..=TEARS).map(CrashKeep::Torn));
    keeps
}

/// Runs `work` with a power cut at operation `cut`; false when the workload ended before.
fn crash_once(
    work: fn(&mut Run) -> Result<(), Cut>,
    prepare: fn(&MemVolume),
    cut: u64,
    mutant: Option<Mutant>,
) -> Result<bool, String> {
    let volume = MemVolume::new();
    prepare(&volume);
    volume.crash_at(cut);
    let mut run = Run::new(volume.clone(), mutant);
    let ended = work(&mut run);
    run.kill();
    for keep in keeps(&volume) {
        check(&volume.after_crash(keep), &run.history, mutant)
            .map_err(|why| format!("cut at operation {cut}, kept {keep:?}: {why}"))?;
    }
    Ok(ended.is_err())
}

/// The first broken promise over all cuts.
fn crash_everywhere(
    work: fn(&mut Run) -> Result<(), Cut>,
    prepare: fn(&MemVolume),
    mutant: Option<Mutant>,
) -> Result<u64, String> {
    let mut cut = 0;
    while crash_once(work, prepare, cut, mutant)? {
        cut += 1;
    }
    Ok(cut)
}

fn no_faults(_: &MemVolume) {}

/// The eighth sync of a log fails, once.
fn one_sync_fails(volume: &MemVolume) {
    let mut syncs = 0;
    volume.plan(move |op| {
        let log = op.kind == OpKind::Sync && op.path.ends_with(".log");
        syncs += u32::from(log);
        (log && syncs == 4).then_some(Fault::Errno(EIO))
    });
}

/// Every fifth write of a log is torn by a full disk.
fn writes_are_torn(volume: &MemVolume) {
    let mut writes = 0;
    volume.plan(move |op| {
        let log = op.kind == OpKind::Write && op.path.ends_with(".log");
        writes += u32::from(log);
        (log && writes % 3 == 0).then_some(Fault::Torn(90, ENOSPC))
    });
}

#[test]
fn promises_hold_after_a_power_cut_at_any_operation() {
    let cuts = crash_everywhere(workload, no_faults, None).unwrap();
    assert!(cuts > 150, "the workload has only {cuts} operations");
}

#[test]
fn promises_hold_when_a_sync_fails_and_the_power_is_cut() {
    crash_everywhere(workload, one_sync_fails, None).unwrap();
}

#[test]
fn promises_hold_when_writes_are_torn_and_the_power_is_cut() {
    crash_everywhere(workload, writes_are_torn, None).unwrap();
}

#[test]
fn promises_hold_after_a_power_cut_at_any_operation_of_a_removal() {
    let cuts = crash_everywhere(removals, no_faults, None).unwrap();
    assert!(cuts > 150, "the workload has only {cuts} operations");
}

#[test]
fn removals_remove() {
    let volume = MemVolume::new();
    let mut run = Run::new(volume.clone(), None);
    removals(&mut run).unwrap();
    assert_eq!(run.log_start("z"), 9, "everything that was there at the last pass");
    assert!(run.log_start("a") > 13);
    let logs =
        |topic: &str| volume.files().iter().filter(|f| f.contains(topic) && f.ends_with(".log")).count();
    assert_eq!((logs("/a~"), logs("/z~")), (2, 1), "{:?}", volume.files());
    assert_eq!(volume.files().iter().filter(|file| file.ends_with(".start")).count(), 2);
    assert_eq!(volume.files().iter().find(|file| file.ends_with(".deleted")), None);
}

#[test]
fn removing_before_the_new_start_is_durable_is_noticed() {
    match crash_everywhere(removals, no_faults, Some(Mutant::UnlinkBeforeStart)) {
        Ok(cuts) => panic!("survived {cuts} power cuts"),
        Err(why) => println!("{why}"),
    }
}

fn expect_killed(mutant: Mutant, prepare: fn(&MemVolume)) {
    match crash_everywhere(workload, prepare, Some(mutant)) {
        Ok(cuts) => panic!("{mutant:?} survived {cuts} power cuts"),
        Err(why) => println!("{mutant:?}: {why}"),
    }
}

#[test]
fn acknowledging_before_the_sync_is_noticed() {
    expect_killed(Mutant::AckBeforeSync, no_faults);
}

#[test]
fn not_syncing_directories_is_noticed() {
    expect_killed(Mutant::NoDirectorySync, no_faults);
}

#[test]
fn a_checkpoint_ahead_of_the_sync_is_noticed() {
    expect_killed(Mutant::CheckpointAheadOfSync, no_faults);
}

#[test]
fn not_rebuilding_the_producers_is_noticed() {
    expect_killed(Mutant::ProducersNotRebuilt, no_faults);
}

#[test]
fn retrying_a_failed_sync_is_noticed() {
    expect_killed(Mutant::RetryFailedSync, one_sync_fails);
}

#[test]
fn showing_records_before_the_sync_is_noticed() {
    expect_killed(Mutant::VisibleBeforeSync, no_faults);
}
