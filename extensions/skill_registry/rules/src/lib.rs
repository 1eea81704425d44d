//! Rules for SKILL.md: checks, fixes and formatting as pure functions without I/O.
//!
//! ```
//! use skill_format::SkillInput;
//! use skill_rules::{CheckOptions, CheckScope, RuleSet, apply_fixes, check_skill};
//!
//! let text = "---\nname: beads\ndescription: Counts beads when a jar is full.\n---\nDo it. \n";
//! let file_name = Some("SKILL.md");
//! let input = SkillInput { dir_name: "bead", file_name, bytes: text.as_bytes(), files: None };
//! let options = CheckOptions { scope: CheckScope::Lint, ..CheckOptions::default() };
//!
//! let report = check_skill(&input, options);
//! let rules: Vec<&str> = report.findings.iter().map(|finding| finding.diagnostic.rule).collect();
//! assert_eq!(rules, ["name.matchesDirectory", "trailing-whitespace"]);
//! assert!(!report.is_valid());
//!
//! // Only unambiguous findings are fixed; the user has to choose the name.
//! let fixed = apply_fixes(&input, &RuleSet::new(options));
//! assert!(fixed.text.ends_with("Do it.\n"));
//! assert_eq!(fixed.report.findings.len(), 1);
//! ```
//!
//! Data flow: [`SkillInput`](skill_format::SkillInput) (bytes and a list of files, read by the
//! caller) → [`SkillDocument`] (decoded and parsed, all other views built on first use) → every
//! [`Rule`] that is enabled in the [`Profile`] → [`CheckReport`].
//!
//! Modules:
//! - `rules`: one file per rule with code, with its documentation, and two tables of rules whose
//!   findings come from elsewhere, documented in `docs/`; [`RULES`] lists them, [`explain`] reads
//!   and prints the documentation. `rules/name_reserved.rs` is a model for a new one.
//! - `check`, `check_report`, `rule_set`, `skill_document`, `rule`, `profile`: the rule runner, the rules that it runs
//!   and their levels, the document under check, the rule type, and the levels per profile.
//! - `body`: views of the text after the frontmatter: Markdown, local paths, phrases, invisible
//!   characters.
//! - `catalog`: findings that need several skills ([`check_catalog`]).
//! - `suppress` and `fix`: suppression and repair of findings.
//! - [`fmt`]: the formatter of the frontmatter.
//! - `strict_fences`: the frontmatter fences of stricter validators.
//!
//! The behavior of the reference validator and the additions of related standards are in
//! [`skill_compat`].
//!
//! Invariants for every input:
//! - No function panics.
//! - The same input has the same findings in the same order, regardless of earlier checks.
//! - The validity of a skill depends neither on the [`CheckScope`] nor on comments in the skill:
//!   rules of [`RuleGroup::Lint`] find no errors, and errors cannot be suppressed.
//! - Edits preserve the meaning of the frontmatter.

mod body;
mod catalog;
mod check;
mod check_report;
pub mod explain;
mod fix;
pub mod fmt;
mod profile;
mod properties;
mod rule;
mod rule_set;
mod rules;
mod skill_document;
mod strict_fences;
mod suppress;
#[cfg(test)]
mod testing;

pub use catalog::{CatalogSkill, check_catalog};
pub use check::{check_skill, needs_files};
pub use check_report::{CheckOptions, CheckReport, CheckScope};
pub use fix::{FixOutcome, apply_fixes};
pub use profile::{Profile, ProfileLevels, RuleLevel};
pub use properties::{SkillProperties, collect_properties};
pub use rule::{Finding, FindingSink, Rule, RuleCheck, RuleExtent, RuleGroup, TextEdit};
pub use rule_set::RuleSet;
pub use rules::{RULES, find_rule, similar_rules};
pub use skill_document::SkillDocument;
