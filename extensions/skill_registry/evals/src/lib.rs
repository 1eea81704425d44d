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
//! - `assertion_check`, `judgment`, `grading`, `benchmark` grade the run of a model; `statistics` and
//!   `paired_test` decide whether a version is better than another.
//! - `optimization`, `reflection`, `skill_edit` have the rounds of an optimization, its requests to a
//!   model, and the edits in the replies.
//! - `text_change` compares the texts of a proposal: unchanged, cosmetic, repeated, or with text of a
//!   case.
//!
//! Every file is untrusted and read within limits; a finding names its line and column.

mod assertion_check;
mod benchmark;
mod case;
mod command_words;
mod distractors;
mod eval_file;
mod finding;
mod grading;
mod json_tree;
mod judgment;
mod model_reply;
mod model_report;
mod optimization;
mod paired_test;
mod reflection;
mod run_order;
mod skill_edit;
mod split;
mod statistics;
mod suite_file;
mod text_change;
mod trigger_file;

pub use assertion_check::{AssertionCheck, RunObservations, check_assertion, commands_of_call};
pub use benchmark::{
    ArmDelta, ArmSummary, BenchmarkFile, BenchmarkMetadata, BenchmarkResult, BenchmarkRun,
    BenchmarkSummary, ComparisonArm,
};
pub use case::{CaseAssertion, CaseSplit, OutputCase, TriggerCase};
pub use distractors::{DistractorSkill, distractor_skills};
pub use eval_file::{ParsedOutputCases, cases_of_scenarios, parse_evals};
pub use finding::{CaseFinding, MAX_CASE_FILE};
pub use grading::{
    AssertionResult, ExecutionMetrics, GradingFile, GradingSummary, RunProvenance, RunTiming,
    RunValidity,
};
pub use judgment::{JUDGE_INSTRUCTIONS, JudgedWork, read_judgment, render_judge_message};
pub use model_report::{
    ArmFigures, EarlierIteration, ModelCaseFailure, ModelCaseKind, ModelCaseReport, ModelDigests,
    ModelReport, ModelRunReport, SpentAmounts,
};
pub use optimization::{
    OPTIMIZATION_FILE, OptimizationEnd, OptimizationReport, OptimizationRound, OptimizationStep,
    RoundOutcome, SkillOptimization, StopReason, is_confirmed,
};
pub use paired_test::{
    ChangeVerdict, PAIRED_LOOKS, PairedCase, PairedFigures, PairedReport, assess_pairs,
};
pub use reflection::{
    HeldOutTexts, RejectedEdit, TrainFailure, reflection_instructions, render_reflection,
};
pub use run_order::{case_slug, shuffle_runs};
pub use skill_edit::{
    OptimizedPart, SkillEditError, SuggestedEdit, read_skill_edit, split_skill_text,
};
pub use split::split_of;
pub use statistics::{RateInterval, SampleSummary};
pub use suite_file::{ParsedSuite, SuiteSettings, ToolStub, parse_suite};
pub use text_change::{
    LeakSearch, TextChange, compare_skill_texts, is_repeated_edit, shingles_of_diff,
};
pub use trigger_file::{ParsedTriggers, parse_triggers};
