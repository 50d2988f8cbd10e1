//! What the simulated file system promises, and what it does not.

use std::io::{ErrorKind, IoSlice};
use std::sync::Arc;

use super::*;
use crate::volume::{Access, Volume, VolumeFile};

const CERTAIN: u32 = 10_000;

/// One server and two machines.
struct Site {
    nfs: Nfs,
    machines: [Machine; 2],
    a: NfsMount,
    b: NfsMount,
}

fn site() -> Site {
    let nfs = Nfs::new(1);
    let machines = [nfs.machine(), nfs.machine()];
    let [a, b] = machines.map(|machine| nfs.mount(machine, |_| {}));
    Site { nfs, machines, a, b }
}

fn write(file: &dyn VolumeFile, bytes: &[u8], position: u64) {
    file.write_all_at(&mut [IoSlice::new(bytes)], position).unwrap();
}

fn read(file: &dyn VolumeFile) -> Vec<u8> {
    let mut bytes = vec![0; 4096];
    let len = file.read_at(&mut bytes, 0).unwrap();
    bytes.truncate(len);
    bytes
}

fn open(mount: &NfsMount, path: &str) -> Arc<dyn VolumeFile> {
    mount.open(path, Access::ReadWrite).unwrap()
}

#[test]
fn others_see_what_was_synced_when_they_open_the_file() {
    let Site { a, b, .. } = site();
    let file = a.create_new("f").unwrap();
    write(&*file, b"one", 0);
    let early = open(&b, "f");
    assert_eq!(read(&*early), b"", "it has not left its machine");
    assert_eq!(read(&*open(&a, "f")), b"one", "which sees it");
    file.sync_data().unwrap();
    assert_eq!(read(&*early), b"", "a handle shows what its machine remembers");
    assert_eq!(read(&*open(&b, "f")), b"one");
}

#[test]
fn a_write_waits_for_a_sync_or_for_the_machine_to_send_it() {
    let Site { nfs, a, b, .. } = site();
    let file = a.create_new("f").unwrap();
    write(&*file, &[7; 1000], 0);
    // Its process is dead: the machine sends it all the same.
    a.kill();
    nfs.settle();
    assert_eq!(read(&*open(&b, "f")), [7; 1000]);
    assert!(a.open("f", Access::Read).is_err());
}

#[test]
fn a_machine_that_crashes_loses_what_it_has_not_sent() {
    let mut fates = std::collections::BTreeSet::new();
    for seed in 0..20 {
        let nfs = Nfs::new(seed);
        let machines = [nfs.machine(), nfs.machine()];
        let [a, b] = machines.map(|machine| nfs.mount(machine, |_| {}));
        write(&*a.create_new("f").unwrap(), b"x", 0);
        nfs.crash(machines[0]);
        let at_once = read(&*open(&b, "f")).len();
        nfs.settle();
        fates.insert((at_once, read(&*open(&b, "f")).len()));
        assert!(a.list("").is_err(), "what ran on it is gone");
    }
    assert_eq!(fates.into_iter().collect::<Vec<_>>(), [(0, 0), (0, 1), (1, 1)], "lost, late, arrived");
}

#[test]
fn a_sync_covers_what_its_own_machine_has_written_and_outlives_a_restart_of_the_server() {
    let lost = (0..20).filter(|seed| {
        let nfs = Nfs::new(*seed);
        let (a, b) = (nfs.mount(nfs.machine(), |_| {}), nfs.mount(nfs.machine(), |_| {}));
        let file = a.create_new("f").unwrap();
        write(&*file, b"one", 0);
        nfs.background();
        let other = open(&b, "f");
        assert_eq!(read(&*other), b"one", "sent, and not stable");
        other.sync_data().unwrap();
        nfs.restart_server();
        let lost = read(&*open(&b, "f")) != b"one";
        // Its writer notices that the server was another, and sends it again.
        file.sync_data().unwrap();
        nfs.restart_server();
        assert_eq!(read(&*open(&b, "f")), b"one");
        lost
    });
    assert!((1..20).contains(&lost.count()), "some are lost");
}

#[test]
fn a_failed_write_is_reported_by_one_sync_and_never_sent_again() {
    let Site { nfs, a, b, .. } = site();
    let file = a.create_new("f").unwrap();
    write(&*file, b"one", 0);
    nfs.set_faults(NfsFaults { error: CERTAIN, ..NfsFaults::default() });
    nfs.background();
    nfs.set_faults(NfsFaults::default());
    file.sync_data().unwrap_err();
    file.sync_data().unwrap();
    nfs.settle();
    assert_eq!(read(&*open(&b, "f")), b"");
}

#[test]
fn absence_is_remembered_until_the_machine_changes_something_there() {
    let Site { nfs, a, b, .. } = site();
    nfs.set_faults(NfsFaults { stale_name: CERTAIN, ..NfsFaults::default() });
    let absent =
        |mount: &NfsMount| mount.open("f", Access::Read).is_err_and(|e| e.kind() == ErrorKind::NotFound);
    assert!(absent(&b) && b.list("").unwrap().is_empty());
    a.create_new("f").unwrap();
    assert!(absent(&b) && b.list("").unwrap().is_empty(), "an old memory");
    assert_eq!(b.create_new("f").unwrap_err().kind(), ErrorKind::AlreadyExists);
    assert!(!absent(&b) && b.list("").unwrap().len() == 1);
}

#[test]
fn a_lost_reply_tells_of_something_that_was_done() {
    let Site { nfs, a, .. } = site();
    nfs.set_faults(NfsFaults { lost_reply: CERTAIN, ..NfsFaults::default() });
    assert!(a.create_new("f").is_err());
    nfs.set_faults(NfsFaults::default());
    assert!(a.open("f", Access::Read).is_ok());
}

#[test]
fn a_handle_is_stale_once_another_machine_has_taken_the_name() {
    let Site { nfs, machines, a, b } = site();
    let file = a.create_new("f").unwrap();
    let neighbour = nfs.mount(machines[0], |_| {});
    let (own, others) = (open(&neighbour, "f"), open(&b, "f"));
    write(&*file, b"one", 0);
    a.remove_file("f").unwrap();
    own.sync_data().unwrap();
    write(&*others, b"two", 0);
    others.sync_data().unwrap_err();
}

#[test]
fn names_that_were_not_synced_may_go_when_all_lose_power_and_only_then() {
    let lost = (0..20).filter(|seed| {
        let nfs = Nfs::new(*seed);
        let machine = nfs.machine();
        let a = nfs.mount(machine, |_| {});
        a.create_new("f").unwrap();
        a.sync_dir("").unwrap();
        a.create_new("g").unwrap();
        nfs.crash(machine);
        nfs.restart_server();
        assert!(nfs.mount(machine, |_| {}).open("g", Access::Read).is_ok());
        nfs.power_cut();
        let again = nfs.mount(machine, |_| {});
        assert!(again.open("f", Access::Read).is_ok());
        again.open("g", Access::Read).is_err()
    });
    assert!((1..20).contains(&lost.count()));
}
