//! The files of skills and of proposals.

pub(crate) mod created_mirror;
pub(crate) mod data_file;
pub(crate) mod proposal_file;
pub(crate) mod skill_directory;
pub(crate) mod swap;
pub(crate) mod tree;
