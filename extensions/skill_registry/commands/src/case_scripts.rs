//! The scripts of custom assertions, in the sandbox of `skill run`.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{Seek as _, Write as _};
use std::path::Path;
use std::sync::Arc;

use skill_testing::{CaseScripts, ScriptFuture, ScriptVerdict};
use skillhost_payload::SkillTree;
use skillhost_policy::{OperatorPolicy, PolicyUse};
use skillhost_sandbox::SandboxLauncher;
use skillhost_scripts::{ScriptPlan, ScriptRequest, ScriptResult, printable_line};
use skillhost_terminal::{CliContext, CliError};
use tokio::task::spawn_blocking;

use super::operator_policy::operator_policy;
use super::run_script::read_tree;
use crate::arguments::SkillRoots;

/// The scripts of a skill, under the policy of the home for it.
#[derive(Debug)]
pub(super) struct SandboxedScripts {
    operator: Arc<OperatorPolicy>,
    tree: Arc<SkillTree>,
}

impl SandboxedScripts {
    /// Reads the skill in a directory, and the policy of the home.
    ///
    /// # Errors
    /// The skill or the settings cannot be read, or the home is not trusted.
    pub(super) fn open(session: &CliContext, directory: &Path) -> Result<Self, CliError> {
        let home = session.find_trusted_home()?;
        // The tested directory itself: the home may have another copy of the skill.
        let root = directory.parent().unwrap_or(directory).to_owned();
        let name = directory.file_name().unwrap_or_default().to_string_lossy();
        let tree = read_tree(session, &name, &SkillRoots { roots: vec![root] })?;
        let operator = Arc::new(operator_policy(home.as_ref())?);
        Ok(Self { operator, tree: Arc::new(tree) })
    }

    async fn check(&self, path: &str, input: String, workspace: &Path) -> ScriptVerdict {
        let work = workspace.canonicalize().map_err(|error| error.to_string())?;
        let (operator, tree) = (Arc::clone(&self.operator), Arc::clone(&self.tree));
        let path = path.to_owned();
        // The plan asks the interpreter for its directories, which waits for a program.
        let planned = spawn_blocking(move || {
            let request = ScriptRequest {
                tree: &tree,
                policy_use: PolicyUse::Script,
                path: &path,
                arguments: &[],
                variables: &BTreeMap::new(),
                workdir: ".",
                work: &work,
                operator_layer: None,
                deadline_seconds: None,
            };
            ScriptPlan::prepare(&operator, &SandboxLauncher::default(), &request)
        });
        let plan = planned.await.map_err(|error| error.to_string())?;
        let plan = plan.map_err(|error| error.to_string())?;
        let input = to_file(&input).map_err(|error| error.to_string())?;
        let result = plan.run_with_input(Some(input)).await.map_err(|error| error.to_string())?;
        to_verdict(&result)
    }
}

impl CaseScripts for SandboxedScripts {
    fn run_script<'a>(
        &'a self,
        path: &'a str,
        input: String,
        workspace: &'a Path,
    ) -> ScriptFuture<'a> {
        Box::pin(self.check(path, input, workspace))
    }
}

/// Writes a text into a file without a name, to be read from its start.
fn to_file(text: &str) -> std::io::Result<File> {
    let mut file = tempfile::tempfile()?;
    file.write_all(text.as_bytes())?;
    file.rewind()?;
    Ok(file)
}

/// Reads the result: exit code 0 holds, another one does not, and a limit or a signal checked nothing.
fn to_verdict(result: &ScriptResult) -> ScriptVerdict {
    let code = match (result.exit_code, result.ended_by) {
        (Some(code), None) => code,
        _ => return Err(format!("the script: {}", result.describe_end())),
    };
    // The last line: programs print their conclusion there.
    let last =
        |text: &'_ str| text.lines().rev().find(|line| !line.trim().is_empty()).map(str::to_owned);
    let line = match code {
        0 => last(&result.stdout),
        // A program that fails may state the reason on either stream.
        _ => last(&result.stderr).or_else(|| last(&result.stdout)),
    };
    let evidence = match line {
        Some(line) => format!("{}: {}", result.describe_end(), printable_line(&line)),
        None => result.describe_end(),
    };
    Ok((code == 0, evidence))
}
