//! The limits of a manifest.

/// The limit on the files of a skill with a published manifest.
pub(super) const MAX_FILES: usize = 512;

/// The limit on the total bytes of a skill with a published manifest.
pub(super) const MAX_BYTES: u64 = 16 << 20;
