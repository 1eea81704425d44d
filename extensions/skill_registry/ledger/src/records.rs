//! The records of the ledger, and its errors.

pub(crate) mod acceptance;
pub(crate) mod activation;
pub(crate) mod catalog_row;
pub(crate) mod error;
pub(crate) mod event;
pub(crate) mod limits;
pub(crate) mod model_evidence;
pub(crate) mod note;
pub(crate) mod proposal;
pub(crate) mod retention;
pub(crate) mod usage;
pub(crate) mod version;
