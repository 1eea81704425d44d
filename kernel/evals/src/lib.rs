//! Runs of the cases of skills with a model: real turns of an agent in a home of their own.
//!
//! [`run_model_tests`] is the entry point. `overlay` makes the homes, which have the tested version of
//! the skill, another version, or none; `controls` checks that a trigger is seen in the first one and
//! not in the last; `case_run` makes a run and grades it; `results` stores it, so that a killed process
//! resumes; `spending` counts requests before they are sent.
//!
//! [`optimize_skill`] makes candidates of a skill's text with the model, and runs them against the present
//! one; `optimization_directory` has what an interrupted one paid for.
//!
//! A run whose model does not reply is invalid, never a failure.

mod case_run;
mod controls;
mod error;
mod grader;
mod optimization_directory;
mod optimizer;
mod overlay;
mod planned_run;
mod results;
mod run_channel;
mod runner;
mod spending;
mod watched_model;
mod workspace_files;

pub use error::EvalError;
pub use optimizer::{OptimizationError, optimize_skill};
pub use overlay::EvalEnvironment;
pub use runner::run_model_tests;
