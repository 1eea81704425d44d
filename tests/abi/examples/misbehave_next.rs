//! The next build of `misbehave`: the same code, under another name.

#[path = "misbehave.rs"]
mod misbehave;
