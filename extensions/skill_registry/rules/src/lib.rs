//! Checks SKILL.md against rules; pure, no I/O.
//!
//! ```
//! use skill_rules::{Options, Scope, SkillInput, check, fix};
//!
//! let text = "---\nname: beads\ndescription: Counts beads when a jar is full.\n---\nDo it. \n";
//! let file_name = Some("SKILL.md");
//! let input = SkillInput { dir_name: "bead", file_name, bytes: text.as_bytes(), files: None };
//! let options = Options { scope: Scope::Lint, ..Options::default() };
//!
//! let report = check(&input, options);
//! let found: Vec<&str> = report.findings.iter().map(|found| found.diagnostic.rule).collect();
//! assert_eq!(found, ["name.matchesDirectory", "trailing-whitespace"]);
//! assert!(!report.is_valid());
//!
//! // What has one right answer is mended; the name is for a person to decide.
//! let fixed = fix(&input, options);
//! assert!(fixed.text.ends_with("Do it.\n"));
//! assert_eq!(fixed.report.findings.len(), 1);
//! ```
//!
//! The way of a skill: [`SkillInput`] (bytes and a list of files, from whoever reads the disk) →
//! [`EntryContent`] (decoded, parsed, the rest made when a rule asks for it) → every [`Rule`] that is
//! on in the [`Profile`] → [`ExportReport`].
//!
//! Where to look:
//! - `rules`: one file per rule, with its documentation; [`RULES`] lists them, [`explain`] reads
//!   and prints the documentation. `rules/name_reserved.rs` is a model for a new one.
//! - `check`, `subject`, `rule`, `profile`: what runs the rules, what they look at, what they are,
//!   and how serious they are for whom.
//! - `body`: what rules ask of the text after the frontmatter: its Markdown, the paths it names,
//!   phrases, invisible characters.
//! - `catalog`: what only several skills together show ([`check_catalog`]).
//! - `suppress` and `fix`: what becomes of findings afterwards.
//! - [`fmt`]: the formatter and the draft of a new skill.
//! - [`mod@reference`] and `strict`: what other validators do, quirks included.
//! - [`extended`], [`graph`], [`role`], [`predicates`], `eligibility`: what standards around skills
//!   add to the frontmatter, and what follows from it.
//!
//! What holds whatever the input is:
//! - Nothing panics.
//! - The same input has the same findings in the same order, whatever else is checked before it.
//! - Whether a skill is valid does not depend on the [`AgentScope`] or on comments in it: rules of
//!   [`RuleGroup::Lint`] find no errors, and errors cannot be suppressed.
//! - Edits leave the meaning of the frontmatter alone.

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
    CheckOptions, CheckReport, CheckScope, check_skill, check_skill_yaml, check_subject,
    needs_files, needs_skill_yaml,
};
pub use eligibility::{
    AvailableTool, Eligibility, MissingRequirement, check_eligibility, unchecked_tools,
};
pub use fix::{FixOutcome, apply_edits, apply_fixes};
pub use input::{EntryKind, FileEntry, SkillInput};
pub use profile::{Profile, ProfileLevels, RuleLevel};
pub use properties::{SkillProperties, collect_properties};
pub use rule::{Finding, FindingSink, Rule, RuleCheck, RuleExtent, RuleGroup, TextEdit};
pub use rules::{RULES, find_rule, similar_rules};
pub use subject::SkillDocument;
