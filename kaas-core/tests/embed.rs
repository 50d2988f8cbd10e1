//! The example for embedders does what it says, twice on one folder.
#![allow(clippy::unwrap_used)]

#[path = "../examples/embed.rs"]
mod embed;

#[test]
fn the_example_appends_reads_and_forgets() {
    let dir = tempfile::tempdir().unwrap();
    assert_eq!(embed::run(dir.path()).unwrap(), ["started", "working", "done"]);
    // All but the newest record were deleted.
    assert_eq!(embed::run(dir.path()).unwrap(), ["done", "started", "working", "done"]);
    assert_eq!(
        kaas_core::audit::audit_dir(dir.path(), &mut |finding| panic!("{finding}")).unwrap().topics,
        1
    );
}
