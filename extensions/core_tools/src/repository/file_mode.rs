//! The kinds of files.

/// The kind of a file of a commit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FileMode {
    Regular,
    Executable,
    Link,
    /// A commit of another repository.
    Submodule,
}

impl FileMode {
    /// Returns the kind for the number in trees and indexes; `None` for a directory.
    pub(super) fn from_bits(bits: u32) -> Option<Self> {
        match bits & 0o170_000 {
            0o100_000 if bits & 0o100 != 0 => Some(Self::Executable),
            0o100_000 => Some(Self::Regular),
            0o120_000 => Some(Self::Link),
            0o160_000 => Some(Self::Submodule),
            _ => None,
        }
    }
}
