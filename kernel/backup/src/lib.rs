//! Backups of a home: one archive that is consistent while a kernel runs, and its restoration.
//!
//! [`create_backup`] reads the home and writes a tar archive, compressed with gzip: the files below
//! `home/`, then an index with the sha256 of each. [`stage_backup`] extracts an archive next to
//! the files of a home and compares everything with the index; [`StagedBackup::install`] moves it into
//! place.
//! An archive is input from others: its paths pass a jail, and only regular files and directories
//! are accepted.

mod archive;
mod collect;
mod create;
mod error;
mod index;
mod restore;
mod snapshot;

pub use collect::SkippedEntry;
pub use create::{BackupOptions, BackupReport, create_backup};
pub use error::{BackupError, PathProblem, RestoreError};
pub use index::BackupSummary;
pub use restore::{RestoreReport, StagedBackup, check_backup, stage_backup};
