//! Files: how skillhost writes, appends, reads and digests them, and private directories.
//!
//! No other crate of the workspace is used here, and nothing here knows what is in a file.

mod append_log;
mod atomic_write;
pub mod fault;
mod file_kind;
mod hash;
pub mod jail;
mod limited_read;
mod lock;
mod package_tree;
mod path_suffix;
mod private_dir;
mod replace;
mod rotated_log;
mod run_directory;
mod sqlite_uri;
mod synced;
pub mod temporary;
mod tree;

pub use append_log::{
    AppendLog, AppendReceipt, AppendSink, LineWriter, open_append, split_complete_lines,
};
pub use atomic_write::{rename_synced, write_atomically, write_owned, write_private};
pub use file_kind::irregular_kind;
pub use hash::{hash_file, sha256_hex, to_hex};
pub use limited_read::{LinkPolicy, read_beginning, read_limited, read_limited_below};
pub use lock::{DirectoryLock, LockError};
pub use package_tree::{PackageError, PackageFile, PackageTree, copy_package_file, package_digest};
pub use path_suffix::with_suffix;
pub use private_dir::create_private_dir;
pub use replace::{ReplaceError, replace_file};
pub use rotated_log::{LogLimits, RotatedLog, rotated_files};
pub use run_directory::{RunDirectory, remove_abandoned_runs};
pub use sqlite_uri::sqlite_immutable_uri;
pub use synced::{assert_may_block, sync_directory, sync_file, sync_tree, write_new_file};
pub use tree::{
    TreeError, TreeFile, files_digest, prefixed_digest, read_complete_tree, read_tree, write_tree,
};
