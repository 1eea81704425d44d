//! Cases that test skills: their files, the split into train and held-out, statistics, verdicts and
//! reports; pure, no I/O.
//!
//! ```
//! use skill_evals::{CaseSplit, parse_triggers, split_of};
//!
//! let parsed = parse_triggers(r#"[{"query": "fill in the W-9", "should_trigger": true}]"#);
//! assert!(parsed.findings.is_empty());
//! let case = &parsed.cases[0];
//! assert_eq!((case.name.as_str(), case.should_trigger), ("q1", true));
//! // The same text is always on the same side.
//! let split = split_of(7, &case.query, case.should_trigger);
//! assert!(matches!(split, CaseSplit::Train | CaseSplit::HeldOut));
//! ```
//!
//! - `trigger_file`, `eval_file`, `suite_file` read the files of a skill: queries, prompts with
//!   assertions, and settings.
//! - `text_change` compares the texts of a proposal: unchanged, cosmetic, repeated, or with text of a
//!   case.
//!
//! Every file is untrusted and read within limits; a finding names its line and column.

mod case;
mod distractors;
mod eval_file;
mod finding;
mod json_tree;
mod split;
mod suite_file;
mod text_change;
mod trigger_file;

pub use case::{CaseAssertion, CaseSplit, OutputCase, TriggerCase};
pub use distractors::{DistractorSkill, distractor_skills};
pub use eval_file::{ParsedOutputCases, cases_of_scenarios, parse_evals};
pub use finding::{CaseFinding, MAX_CASE_FILE};
pub use split::split_of;
pub use suite_file::{ParsedSuite, SuiteSettings, ToolStub, parse_suite};
pub use text_change::{
    LeakedText, TextChange, compare_skill_texts, find_leaks, is_repeated_edit, shingles_of_diff,
};
pub use trigger_file::{ParsedTriggers, parse_triggers};
