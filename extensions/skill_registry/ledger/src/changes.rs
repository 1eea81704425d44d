//! Changes of a skill's files: applied, recovered after a crash, rebuilt from the files.

pub(crate) mod apply;
pub(crate) mod rebuild;
pub(crate) mod record;
pub(crate) mod recover;
