//! Checks SKILL.md against rules; pure, no I/O.
//!
//! The way of a skill: [`SkillInput`] (bytes and a list of files, from whoever reads the disk) →
//! [`Subject`] (decoded, parsed, the rest made when a rule asks for it) → every [`Rule`] that is
//! on in the [`Profile`] → [`Report`].

mod check;
pub mod fmt;
mod input;
mod profile;
mod rule;
mod rules;
mod subject;

pub use check::{Options, Report, Scope, check, needs_files};
pub use input::{EntryKind, FileEntry, SkillInput};
pub use profile::{Level, Levels, Profile};
pub use rule::{Check, Edit, Finding, Findings, Group, Reach, Rule};
pub use rules::{RULES, rule};
pub use subject::Subject;
