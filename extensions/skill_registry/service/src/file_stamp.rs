//! The stamp of a file, from what the system reports about it.

use cap_std::fs::Metadata;
use skill_catalog::FileSignature;

/// Reduces a `stat` result to the fields that change with the content.
#[cfg(unix)]
pub(crate) fn file_signature(metadata: &Metadata) -> FileSignature {
    use cap_std::fs::MetadataExt;
    let nanos = |s: i64, ns: i64| s.wrapping_mul(1_000_000_000).wrapping_add(ns);
    FileSignature {
        dev: metadata.dev(),
        ino: metadata.ino(),
        size: metadata.len(),
        mtime_ns: nanos(metadata.mtime(), metadata.mtime_nsec()),
        ctime_ns: nanos(metadata.ctime(), metadata.ctime_nsec()),
        mode: metadata.mode(),
    }
}

/// Reduces a `stat` result to the fields that change with the content.
#[cfg(not(unix))]
pub(crate) fn file_signature(metadata: &Metadata) -> FileSignature {
    let since = |time: cap_std::time::SystemTime| {
        time.into_std().duration_since(std::time::UNIX_EPOCH).unwrap_or_default().as_nanos()
    };
    FileSignature {
        dev: cap_fs_ext::MetadataExt::dev(metadata),
        ino: cap_fs_ext::MetadataExt::ino(metadata),
        size: metadata.len(),
        mtime_ns: metadata
            .modified()
            .map_or(0, |time| i64::try_from(since(time)).unwrap_or(i64::MAX)),
        ctime_ns: 0,
        mode: u32::from(metadata.permissions().readonly()),
    }
}
