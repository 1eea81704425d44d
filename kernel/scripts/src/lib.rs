//! Scripts of skills: run in isolation, from a private copy, with the operator's grant.
//!
//! - `tree_copy` makes the copy that runs and compares each byte with the listed digests.
//! - `interpreter_finder` maps a script to its `interpreter`, which `interpreter_query` asks for its
//!   directories; `environment` and `work_directory` are the rest of what a script sees.
//! - `plan` fixes everything that is approved; `details` shows it; `grant` compares it with the
//!   operator's grants, whose policies `grant_terms` composes.
//! - `script_run` runs a plan and makes the `script_result`, with the remarks of `run_hints`.
//! - `tool` is `skills.run_script`.

mod details;
mod environment;
mod grant;
mod grant_terms;
mod interpreter;
mod interpreter_finder;
mod interpreter_query;
mod plan;
mod run_hints;
mod script_result;
mod script_run;
mod tool;
mod tree_copy;
mod work_directory;

pub use grant::{check_grant, describe_changes, describe_grant, load_grants};
pub use grant_terms::{GrantTerms, UseTerms};
pub use interpreter::{Interpreter, InterpreterError};
pub use interpreter_finder::InterpreterFinder;
pub use plan::{ScriptPlan, ScriptRequest, has_code};
pub use script_result::{ScriptResult, printable_line};
pub use tool::add_script_tool;
pub use tree_copy::{TreeCopy, TreeCopyError, copy_tree};
pub use work_directory::{ChangedFile, open_thread_directory};
