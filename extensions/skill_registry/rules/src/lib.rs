//! Checks SKILL.md against rules; pure, no I/O.
//!
//! The way of a skill: [`SkillInput`] (bytes and a list of files, from whoever reads the disk) →
//! [`Subject`] (decoded, parsed, the rest made when a rule asks for it) → every [`Rule`] that is
//! on in the [`Profile`] → [`Report`].

mod body;
mod catalog;
mod check;
mod eligibility;
pub mod explain;
pub mod extended;
mod fix;
pub mod fmt;
pub mod graph;
mod input;
pub mod predicates;
mod profile;
mod properties;
pub mod reference;
pub mod role;
mod rule;
mod rules;
mod strict;
mod subject;
mod suppress;
#[cfg(test)]
mod testing;

pub use catalog::{CatalogSkill, check_catalog};
pub use check::{
    Options, Report, Scope, check, check_skill_yaml, check_subject, needs_files, needs_skill_yaml,
};
pub use eligibility::{Eligibility, Reason, ToolAvailable, eligibility, unchecked_tools};
pub use fix::{Fixed, apply, fix};
pub use input::{EntryKind, FileEntry, SkillInput};
pub use profile::{Level, Levels, Profile};
pub use properties::{Properties, properties};
pub use rule::{Check, Edit, Finding, Findings, Group, Reach, Rule};
pub use rules::{RULES, rule, similar_rules};
pub use subject::Subject;
