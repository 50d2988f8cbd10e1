//! Seeded bugs, so that the crash tests can show that they would notice them.

macro_rules! mutants {
    ($($(#[$doc:meta])* $name:ident,)*) => {
        /// A durability bug that can be switched on. Only builds with the `test-util` feature contain them.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        #[non_exhaustive]
        #[cfg_attr(not(feature = "test-util"), allow(unreachable_pub))]
        pub enum Mutant {
            $($(#[$doc])* $name,)*
        }

        impl Mutant {
            /// All of them.
            #[cfg(feature = "test-util")]
            pub const ALL: &[Self] = &[$(Self::$name,)*];
        }
    };
}

mutants! {
    /// Appends are acknowledged before they are synced.
    AckBeforeSync,
    /// Directories are not synced after a file was created in them.
    NoDirectorySync,
    /// A checkpoint covers bytes that are written and not synced.
    CheckpointAheadOfSync,
    /// Recovery does not rebuild the producers from the log.
    ProducersNotRebuilt,
    /// A failed sync is tried again, and its success is believed.
    RetryFailedSync,
    /// The high watermark moves before the sync.
    VisibleBeforeSync,
    /// Segments are removed, and the request is answered, before the log's new start is durable.
    UnlinkBeforeStart,
    /// Index files are used without a look at their checksums.
    IndexTrusted,
    /// Compacted segments take the place of others before their names are durable.
    SwapNotDurable,
    /// The high watermark moves after the sync and before the fence is read.
    VisibleBeforeFence,
    /// The fence is read before the sync.
    FenceBeforeSync,
    /// Seals end nothing: bytes behind them are taken for records.
    NoSeal,
    /// Seals are neither synced nor is their directory.
    SealNotSynced,
    /// A takeover goes on under the epoch that it found.
    EpochReused,
    /// A takeover syncs the tail of the log that it found, and does not write it again.
    TailNotRewritten,
    /// A takeover rests on a seal that nobody may have synced.
    SealNotSecured,
}

/// The seeded bugs of one engine: none, unless a test asked for one.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Mutants {
    #[cfg(feature = "test-util")]
    pub(crate) on: Option<Mutant>,
}

impl Mutants {
    #[cfg(feature = "test-util")]
    pub(crate) fn has(self, mutant: Mutant) -> bool {
        self.on == Some(mutant)
    }

    #[cfg(not(feature = "test-util"))]
    #[allow(clippy::unused_self)]
    pub(crate) fn has(self, _: Mutant) -> bool {
        false
    }
}
