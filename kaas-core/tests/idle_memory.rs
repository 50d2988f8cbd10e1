//! What a partition costs that nobody uses.
#![allow(clippy::unwrap_used)]

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicIsize, Ordering};

use kaas_core::{AppendOptions, Engine, EngineOptions, LogConfig, RecordBatchBuilder, TopicSpec};

/// The most heap that an idle partition may take.
const IDLE_BYTES_MAX: usize = 5 << 10;

const PARTITIONS: u32 = 2000;

struct Counting;

static LIVE: AtomicIsize = AtomicIsize::new(0);

// SAFETY: every call is the system allocator's, with the same arguments; the counter touches no memory of it.
#[allow(unsafe_code)]
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        LIVE.fetch_add(layout.size() as isize, Ordering::Relaxed);
        // SAFETY: the caller keeps this function's contract, which is the same.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        LIVE.fetch_sub(layout.size() as isize, Ordering::Relaxed);
        // SAFETY: the caller keeps this function's contract, which is the same.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

fn descriptors() -> usize {
    std::fs::read_dir("/proc/self/fd").unwrap().count()
}

#[test]
fn an_idle_partition_costs_little_memory_and_no_descriptor() {
    let dir = tempfile::tempdir().unwrap();
    let engine = Engine::open(EngineOptions::at(dir.path()).unwrap()).unwrap();
    // What is made once, such as the source of random numbers, is made now.
    engine.create_topic(TopicSpec::new("first", 1)).unwrap();
    let (memory, files) = (LIVE.load(Ordering::SeqCst), descriptors());
    engine.create_topic(TopicSpec::new("idle", PARTITIONS)).unwrap();
    let used = (LIVE.load(Ordering::SeqCst) - memory).unsigned_abs() / PARTITIONS as usize;
    println!("{used} bytes a partition");
    assert!(used <= IDLE_BYTES_MAX, "{used} bytes a partition");
    assert_eq!(descriptors(), files);
    drop(engine);
    let engine = Engine::open(EngineOptions::at(dir.path()).unwrap()).unwrap();
    assert_eq!(engine.topics().by_name("idle").unwrap().partitions.len(), PARTITIONS as usize);
    assert_eq!(descriptors(), files);
    drop(engine);
    rolled_segments_are_closed();
}

/// Part of the one test, because descriptors are counted for the whole process.
fn rolled_segments_are_closed() {
    let dir = tempfile::tempdir().unwrap();
    let config = LogConfig { segment_bytes: 200, ..LogConfig::default() };
    let engine =
        Engine::open(EngineOptions::at(dir.path()).unwrap().resolve(move |_| config.clone())).unwrap();
    let topic = engine.create_topic(TopicSpec::new("busy", 1)).unwrap();
    let before = descriptors();
    for _ in 0..50 {
        let batch = RecordBatchBuilder::new().push(None, Some(&[0; 90]), 0).build();
        topic.partitions[0].append(batch, AppendOptions::default()).unwrap().wait().unwrap();
    }
    // The active segment, and few of the fifty others.
    assert!(descriptors() - before <= 6, "{} descriptors", descriptors() - before);
}
