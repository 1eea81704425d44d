//! Scripts that check the result of a run, in place of a sentence.

use std::fmt;
use std::path::Path;
use std::pin::Pin;

/// The result of a script: whether the assertion holds, and why. `Err` has the reason for which it
/// could not be checked.
pub type ScriptVerdict = Result<(bool, String), String>;

/// The result of a script, when it has ended.
pub type ScriptFuture<'a> = Pin<Box<dyn Future<Output = ScriptVerdict> + 'a>>;

/// The way to run the scripts of custom assertions (SkillsCraft, assertion type `custom`).
pub trait CaseScripts: Send + Sync + fmt::Debug {
    /// Runs a script of the skill in a sandbox. It starts in the workspace of the run, reads the case
    /// and the observations as JSON from its standard input, and ends with 0 if the assertion holds.
    fn run_script<'a>(
        &'a self,
        path: &'a str,
        input: String,
        workspace: &'a Path,
    ) -> ScriptFuture<'a>;
}
