//! The limits of resources.

use serde::{Deserialize, Serialize};

/// The limits of one run. The keys are those of settings.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ResourceLimits {
    /// The time until the end, in seconds; `None` for a child that runs until it is stopped.
    pub seconds: Option<u64>,
    /// The memory of all processes together, in MiB.
    pub memory_mib: u64,
    /// The number of processes and threads.
    pub tasks: u64,
    /// The size of a file, in MiB.
    pub file_mib: u64,
    /// The growth of the writable directories, in MiB.
    pub disk_mib: u64,
    /// The number of files by which the writable directories may grow.
    pub files: u64,
    /// The size of the private temporary directory, in MiB.
    pub temporary_mib: u64,
    /// The output on standard output and standard error, each in KiB; `None` for no limit.
    pub output_kib: Option<u64>,
}

impl Default for ResourceLimits {
    fn default() -> Self {
        Self {
            seconds: Some(30),
            memory_mib: 1024,
            tasks: 256,
            file_mib: 64,
            disk_mib: 512,
            files: 20_000,
            temporary_mib: 256,
            output_kib: Some(1024),
        }
    }
}
