//! A filesystem of its own in a file, whose power can be cut.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::Context;

use crate::power::cut_power;

/// Size of the filesystem.
const SIZE_BYTES: u64 = 2 << 30;

/// Which filesystem loses its power.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Filesystem {
    Ext4,
    Xfs,
}

impl Filesystem {
    /// What makes it, without a question.
    fn mkfs(self) -> (&'static str, [&'static str; 2]) {
        match self {
            Filesystem::Ext4 => ("mkfs.ext4", ["-q", "-F"]),
            Filesystem::Xfs => ("mkfs.xfs", ["-q", "-f"]),
        }
    }
}

/// A mounted filesystem on a loop device; unmounted when dropped.
pub(crate) struct Disk {
    image: PathBuf,
    mount: PathBuf,
    mounted: bool,
}

impl Disk {
    /// Makes and mounts the filesystem below `folder`. Needs root.
    pub(crate) fn create(folder: &Path, filesystem: Filesystem) -> anyhow::Result<Disk> {
        let (image, mount) = (folder.join("disk.img"), folder.join("disk"));
        std::fs::File::create(&image)?.set_len(SIZE_BYTES)?;
        std::fs::create_dir(&mount)?;
        let (mkfs, [quiet, force]) = filesystem.mkfs();
        run(mkfs, &[quiet, force, &image.to_string_lossy()])?;
        let mut disk = Disk { image, mount, mounted: false };
        disk.mount()?;
        Ok(disk)
    }

    /// Where the broker's folder is.
    pub(crate) fn folder(&self) -> PathBuf {
        self.mount.join("kaas")
    }

    /// Drops everything that was not synced, as a power cut does: nothing is written from here on.
    pub(crate) fn cut(&self) -> anyhow::Result<()> {
        cut_power(&self.mount).context("FS_IOC_SHUTDOWN")
    }

    /// Mounts again what was on the disk when the power went.
    pub(crate) fn restore(&mut self) -> anyhow::Result<()> {
        run("umount", &[&self.mount.to_string_lossy()])?;
        self.mounted = false;
        self.mount()
    }

    fn mount(&mut self) -> anyhow::Result<()> {
        run("mount", &["-o", "loop", &self.image.to_string_lossy(), &self.mount.to_string_lossy()])?;
        self.mounted = true;
        Ok(())
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        if self.mounted {
            let _ = run("umount", &[&self.mount.to_string_lossy()]);
        }
    }
}

fn run(program: &str, arguments: &[&str]) -> anyhow::Result<()> {
    let output =
        Command::new(program).args(arguments).output().with_context(|| format!("cannot run {program}"))?;
    anyhow::ensure!(output.status.success(), "{program}: {}", String::from_utf8_lossy(&output.stderr));
    Ok(())
}
