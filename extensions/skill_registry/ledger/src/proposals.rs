//! Operations on proposals.

pub(crate) mod approve;
pub(crate) mod check;
pub(crate) mod propose;
pub(crate) mod rebase;
pub(crate) mod recommend;
pub(crate) mod revise;
pub(crate) mod stored;
