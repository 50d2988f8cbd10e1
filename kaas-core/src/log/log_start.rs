//! Where a log begins, as it is kept on the volume: an empty file whose name is the offset.
//!
//! The greatest offset among the names counts, so the start never goes back, whoever wrote them and in whatever
//! order they appear. A name is made durable before any record below it is taken away.

use crate::layout::{parse_start, start_file};
use crate::volume::Volume;

/// Makes the start durable under the name of `epoch`.
pub(crate) fn store(volume: &dyn Volume, dir: &str, epoch: i32, offset: i64) -> std::io::Result<()> {
    match volume.create_new(&format!("{dir}/{}", start_file(epoch, offset))) {
        Ok(file) => file.sync_data()?,
        // An earlier try whose directory sync failed, or another request for the same offset.
        Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {}
        Err(error) => return Err(error),
    }
    volume.sync_dir(dir)
}

/// Removes the marks of lower offsets, which say nothing any more. What remains is removed at the next open.
pub(crate) fn remove_below(volume: &dyn Volume, dir: &str, offset: i64) -> std::io::Result<()> {
    for entry in volume.list(dir)? {
        if parse_start(&entry.name).is_some_and(|start| start < offset) {
            volume.remove_file(&format!("{dir}/{}", entry.name))?;
        }
    }
    Ok(())
}

/// The start that the names in a directory speak of, if any.
pub(crate) fn greatest(names: &[String]) -> Option<i64> {
    names.iter().filter_map(|name| parse_start(name)).max()
}
