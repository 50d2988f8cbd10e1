//! Decoding takes memory in proportion to the frame, whatever the frame says.

#[path = "suite/vectors.rs"]
#[allow(dead_code)] // The suite uses more of it.
mod vectors;

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

use bytes::Bytes;
use kaas_proto::json::CATALOGUE;
use kaas_proto::wire::reader::{HEAP_FLOOR, HEAP_PER_BYTE};
use proptest::prelude::*;
use vectors::VECTORS;

thread_local! {
    /// What this thread has allocated and not freed, in bytes, and the most that it was.
    static HELD: Cell<(isize, isize)> = const { Cell::new((0, 0)) };
}

struct Counting;

fn count(change: isize) {
    // While a thread is torn down its counter is gone and nothing is measured.
    let _ = HELD.try_with(|held| {
        let (now, most) = held.get();
        held.set((now + change, most.max(now + change)));
    });
}

#[allow(unsafe_code)]
// SAFETY: every call goes to the system's allocator unchanged; counting allocates nothing.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(layout.size() as isize);
        // SAFETY: the caller keeps the contract of `alloc`.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        count(-(layout.size() as isize));
        // SAFETY: the caller keeps the contract of `dealloc`.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// The most bytes that `work` held at a time, beyond what was held before.
fn most_held(work: impl FnOnce()) -> usize {
    let before = HELD.get().0;
    HELD.set((before, before));
    work();
    (HELD.get().1 - before) as usize
}

/// Decodes `frame` as every message at every version that `which` picks and checks the memory of each.
///
/// Frames above 256 KiB test the proportion, smaller ones the floor.
fn check(frame: &Bytes, which: impl Fn(&str, i16) -> bool) {
    let allowed = (frame.len() * HEAP_PER_BYTE).max(HEAP_FLOOR);
    for entry in &CATALOGUE {
        for version in (entry.valid.min..=entry.valid.max).filter(|&version| which(entry.name, version)) {
            let frame = frame.clone();
            let held = most_held(|| {
                let _ = (entry.check)(frame, version);
            });
            assert!(held <= allowed, "{} v{version}: {held} bytes", entry.name);
        }
    }
}

#[test]
fn the_counter_counts() {
    assert_eq!(most_held(|| drop(std::hint::black_box(vec![0u8; 1000]))), 1000);
    let frame = Bytes::from_static(b"\0\0\0\x02\0\x01a\0\x01b");
    let entry = CATALOGUE.iter().find(|entry| entry.name == "DeleteGroupsRequest").expect("it exists");
    let held = most_held(|| (entry.check)(frame, 0).expect("two names are a request"));
    assert_eq!(held, 2 * size_of::<kaas_proto::KStr>());
}

#[test]
fn a_hundred_bytes_that_claim_millions_of_elements_cost_nothing() {
    // Every int32 in this frame is 2^31 - 1 or claims it as a count, wherever an array begins.
    let classic: Bytes = b"\x7f\xff\xff\xff".iter().copied().cycle().take(100).collect();
    // Every uvarint is 2^28 - 1, or 127 at least where it begins late: more than the frame has bytes.
    let compact: Bytes = b"\xff\xff\xff\x7f".iter().copied().cycle().take(100).collect();
    for frame in [classic, compact] {
        // The first clone of a frame makes its reference count, which is not the decoder's.
        let _shared = frame.clone();
        for entry in &CATALOGUE {
            for version in entry.valid.min..=entry.valid.max {
                let held = most_held(|| {
                    let _ = (entry.check)(frame.clone(), version);
                });
                assert_eq!(held, 0, "{} v{version}", entry.name);
            }
        }
    }
}

#[test]
fn frames_of_one_byte_repeated_stay_in_proportion() {
    for byte in (0..16).chain([0x20, 0x41, 0x7f, 0x80, 0x81, 0xfe, 0xff]) {
        check(&Bytes::from(vec![byte; 300_000]), |_, _| true);
    }
}

#[test]
fn frames_full_of_the_smallest_elements_stay_in_proportion() {
    // A count that takes up the whole frame with elements of n bytes, in both forms, after every short prefix.
    const LENGTH: u32 = 300_000;
    for prefix in [0, 1, 2, 4, 8, 12] {
        for element_size in [1, 2, 3, 4, 6, 8, 16] {
            let count = LENGTH / element_size - 64;
            let mut classic = vec![0; prefix];
            classic.extend(count.to_be_bytes());
            let mut compact = vec![0; prefix];
            compact.extend([count as u8 | 0x80, (count >> 7) as u8 | 0x80, (count >> 14) as u8]);
            for mut frame in [classic, compact] {
                frame.resize(LENGTH as usize, 0);
                check(&Bytes::from(frame), |_, _| true);
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn vectors_with_bytes_overwritten_stay_in_proportion(
        which in any::<prop::sample::Index>(),
        edits in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..8),
        repeat in 1usize..200,
    ) {
        let vector = which.get(&VECTORS);
        let mut bytes = vector.bytes.repeat(repeat);
        if !bytes.is_empty() {
            for (at, byte) in edits {
                let at = at.index(bytes.len().min(400));
                bytes[at] = byte;
            }
        }
        check(&Bytes::from(bytes), |name, version| (name, version) == (vector.entry.name, vector.version));
    }
}
