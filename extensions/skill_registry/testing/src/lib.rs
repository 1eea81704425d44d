//! Tests of skills without a model: their cases against the index and the catalog of the product.
//!
//! ```no_run
//! use skill_testing::{RoutingHarness, RoutingSetup, load_cases, test_routing};
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let harness = RoutingHarness::open(RoutingSetup::default())?;
//! let directory = skillhost_files::jail::open_root("skills/pdf-forms".as_ref())?;
//! let cases = load_cases(&directory, "pdf-forms", 0);
//! let report = test_routing(&harness, &cases, &Default::default());
//! assert_eq!(report.failed(), 0);
//! # Ok(())
//! # }
//! ```
//!
//! - `case_files` reads the cases of a skill, and the held-out ones of a home.
//! - `harness` opens the catalog with candidates in place of installed skills, and 200 distractors.
//! - `acceptance` runs the queries of every skill before and after a proposed change.
//! - `routing` compares the ranking and the block of each query with its expectation.
//! - `model_evidence` is what they show about a proposal.
//! - `case_scripts` is the way to run scripts of assertions, in the sandbox of the caller.
//! - `model_request`, `optimization` have the inputs of runs with a model, which the kernel makes.
//! - `usage_advice` names skills that are unused, overused or shadowed.

mod acceptance;
mod case_files;
mod case_scripts;
mod distractor_files;
mod harness;
mod model_evidence;
mod model_request;
mod optimization;
mod routing;
mod usage_advice;

pub use acceptance::AcceptanceCheck;
pub use case_files::{
    CaseFile, LoadedCase, MAX_INPUT_BYTES, SkillCases, held_out_directory, load_all_cases,
    load_cases, load_held_out, open_held_out,
};
pub use case_scripts::{CaseScripts, ScriptFuture, ScriptVerdict};
pub use harness::{
    AgentView, CandidateSkill, HarnessError, RoutedQuery, RoutingHarness, RoutingSetup,
    digest_catalog,
};
pub use model_evidence::ComparedChange;
pub use model_request::{BaselineVersion, ModelTestRequest, SpendingLimits};
pub use optimization::{OptimizationRequest, ScreenedCandidate, find_routing_failures};
pub use routing::{
    AgentViews, RoutingFailure, RoutingReport, RoutingResult, test_all_routing, test_routing,
};
pub use usage_advice::{
    MIN_OFFER_DAYS, MIN_OFFERS, MIN_READS, UsageAdvice, UsageReport, advise_usage,
    load_installed_cases,
};
