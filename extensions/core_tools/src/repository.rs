//! Repositories of git, read through the jail.
//!
//! Objects, packs, references and the index are read from the open directory `.git`: nothing outside
//! of the workspace is opened (no alternates, no linked worktrees), no file is mapped into memory, and
//! no configuration, hook, filter or other program of the repository is used. Libraries for git open
//! paths, map packs and follow such links, so this is our own.

mod commit;
mod database;
mod delta;
mod error;
mod file;
mod file_mode;
mod git_object;
mod history;
mod index;
mod object_id;
mod objects;
mod pack;
mod refs;
mod tree;

pub(crate) use commit::Commit;
pub(crate) use database::{GitIndex, Repository, short_ref};
pub(crate) use error::GitError;
pub(crate) use file_mode::FileMode;
pub(crate) use history::{CommitWalk, merge_base};
pub(crate) use index::{IndexEntry, modified_time};
pub(crate) use object_id::ObjectId;
pub(crate) use refs::Head;
pub(crate) use tree::{TreeFile, diff_trees, find_in_tree, flatten_tree};
