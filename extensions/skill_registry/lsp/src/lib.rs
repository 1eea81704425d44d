//! A language server (LSP 3.17) for SKILL.md over a pair of streams.
//!
//! It reports the findings of `lint` while a file is edited, with the policy of its repository, and
//! offers their fixes, documentation of fields and rules, and the formatter of the frontmatter. The
//! text of the editor is checked; the other files of the skill are listed from the disk.
//!
//! Data flow: frames ([`transport`]) → [`server`], one thread that owns the open documents → a check
//! of a document after a pause ([`analysis`]) → diagnostics. Requests are answered in their order.
//!
//! The protocol is written out here: the crates for it bring the types of all of LSP, and their
//! readers end with the first malformed message.

mod analysis;
mod hover;
mod position;
mod protocol;
mod server;
mod transport;

pub use server::{ServerEnd, serve};
