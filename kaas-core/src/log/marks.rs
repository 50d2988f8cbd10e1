//! What is known of a log up to an offset, as it is kept on the volume: an empty file whose name is the offset.
//!
//! Where the log begins (`.start`), and below which offset it was compacted (`.clean`). The greatest offset among
//! the names of a kind counts, so neither goes back, whoever wrote them and in whatever order they appear. A log start is
//! made durable before any record below it is taken away.

use crate::volume::Volume;

/// Makes a mark durable.
pub(crate) fn store(volume: &dyn Volume, dir: &str, name: &str) -> std::io::Result<()> {
    match volume.create_new(&format!("{dir}/{name}")) {
        Ok(file) => file.sync_data()?,
        // An earlier try whose directory sync failed, or another request for the same offset.
        Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {}
        Err(error) => return Err(error),
    }
    volume.sync_dir(dir)
}

/// Removes the marks of lower offsets, which say nothing any more. What remains is removed at the next open.
pub(crate) fn remove_below(
    volume: &dyn Volume,
    dir: &str,
    parse: fn(&str) -> Option<i64>,
    offset: i64,
) -> std::io::Result<()> {
    for entry in volume.list(dir)? {
        if parse(&entry.name).is_some_and(|mark| mark < offset) {
            volume.remove_file(&format!("{dir}/{}", entry.name))?;
        }
    }
    Ok(())
}

/// The greatest offset of a kind of mark among the names in a directory.
pub(crate) fn greatest(names: &[String], parse: fn(&str) -> Option<i64>) -> Option<i64> {
    names.iter().filter_map(|name| parse(name)).max()
}
