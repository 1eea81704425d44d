//! `skillhost skill run`: a script of a skill in isolation, started by the operator.

use std::collections::BTreeMap;
use std::fs::{File, Permissions};
use std::io::IsTerminal as _;
use std::os::fd::AsFd as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use serde_json::json;
use skill_catalog::Audience;
use skill_service::skill_tree;
use skillhost_files::{LinkPolicy, read_limited};
use skillhost_home::Home;
use skillhost_payload::SkillTree;
use skillhost_policy::{PolicyLayer, PolicyUse, parse_policy_json};
use skillhost_sandbox::SandboxLauncher;
use skillhost_scripts::{
    ScriptPlan, ScriptRequest, ScriptResult, open_thread_directory, printable_line,
};
use skillhost_terminal::{CliContext, CliError, CommandResult, display_safe, exit};

use super::home_skills::{open_readable_store, resolve_skill};
use super::operator_policy::{operator_policy, refusal};
use super::wording::registry_error;
use crate::arguments::{RunScriptArgs, SkillRoots};

/// The largest policy file that is read, in bytes.
const MAX_POLICY: u64 = 256 << 10;

/// The thread of the operator's own runs and calls, which names their work directory.
pub(super) const OPERATOR_THREAD: &str = "operator";

/// The exit code of a script that a limit ended, as that of the program `timeout`.
const LIMIT_REACHED: u8 = 124;

/// The prefix of a work directory in the copy of the skill.
const SKILL_PREFIX: &str = "@skill";

pub(super) fn cmd_skill_run(session: &CliContext, args: &RunScriptArgs) -> CommandResult {
    let home = find_settings_home(session, &args.roots)?;
    let tree = read_tree(session, &args.id, &args.roots)?;
    let operator = operator_policy(home.as_ref())?;
    for note in &operator.notes {
        session.output.print_note(display_safe(note));
    }
    let layer = args.policy.as_deref().map(|path| read_policy(session, path)).transpose()?;
    let work = WorkDirectory::open(session, home.as_ref(), args.workdir.as_deref())?;
    let variables: BTreeMap<_, _> = args.env.iter().cloned().collect();
    let request = ScriptRequest {
        tree: &tree,
        policy_use: PolicyUse::Script,
        path: &args.path,
        arguments: &args.args,
        variables: &variables,
        workdir: &work.start,
        work: &work.root,
        operator_layer: layer.as_ref(),
        deadline_seconds: None,
    };
    let plan = ScriptPlan::prepare(&operator, &SandboxLauncher::default(), &request);
    let plan = plan.map_err(refusal)?;
    if args.explain {
        explain(session, &plan)?;
        return Ok(exit::OK);
    }
    let result = session.block_on(Box::pin(plan.run_with_input(open_input())))?.map_err(refusal)?;
    print_result(session, &result, &work.root)?;
    Ok(exit_code(&result))
}

/// Returns the files of a skill for an operator's command.
pub(super) fn read_tree(
    session: &CliContext,
    id: &str,
    roots: &SkillRoots,
) -> Result<SkillTree, CliError> {
    let store = open_readable_store(session, roots)?;
    let snapshot = store.snapshot();
    let id = resolve_skill(&snapshot, id)?;
    skill_tree(&store, &snapshot, Audience::Operator, Some(&id)).map_err(registry_error)
}

/// Returns the home whose settings apply to a run. A home that is not trusted must not widen a policy:
/// there only skills of roots that the command line names are run, as outside of a home.
fn find_settings_home(session: &CliContext, roots: &SkillRoots) -> Result<Option<Home>, CliError> {
    match session.home() {
        Ok(home) if home.is_untrusted() && !roots.roots.is_empty() => {
            let path = home.root().display();
            session.output.print_note(display_safe(&format!(
                "{path} is not trusted: its settings are not used, and its work directory neither"
            )));
            Ok(None)
        }
        _ => session.find_trusted_home(),
    }
}

/// Returns the standard input for the script, unless it is a terminal: output is shown only after the
/// end of the script, too late to answer a prompt.
fn open_input() -> Option<File> {
    let input = std::io::stdin();
    if input.is_terminal() {
        return None;
    }
    // It may be closed.
    input.as_fd().try_clone_to_owned().ok().map(File::from)
}

fn read_policy(session: &CliContext, path: &Path) -> Result<PolicyLayer, CliError> {
    let path = session.environment.current_dir.join(path);
    let shown = path.display();
    let bytes = read_limited(&path, MAX_POLICY, LinkPolicy::Follow)
        .map_err(|error| CliError::new(exit::IO, format!("{shown}: {error}")))?;
    let text = String::from_utf8(bytes)
        .map_err(|_| CliError::usage(format!("{shown}: it is not UTF-8 text")))?;
    let parsed =
        parse_policy_json(&text).map_err(|error| CliError::usage(format!("{shown}: {error}")))?;
    for key in parsed.ignored {
        let note = format!("{shown}: `{key}` of sandbox-runtime has no effect here");
        session.output.print_note(display_safe(&note));
    }
    Ok(parsed.layer)
}

/// The directory that a script may change.
struct WorkDirectory {
    /// Its path, without links.
    root: PathBuf,
    /// The directory in which the script starts, as the request names it.
    start: String,
    /// Whether it was created for this run, outside of a home.
    is_temporary: bool,
}

impl WorkDirectory {
    fn open(
        session: &CliContext,
        home: Option<&Home>,
        given: Option<&str>,
    ) -> Result<Self, CliError> {
        let in_skill = given.is_some_and(|dir| dir == SKILL_PREFIX || dir.starts_with("@skill/"));
        if let Some(dir) = given.filter(|_| !in_skill) {
            let path = session.environment.current_dir.join(dir);
            let found = path.canonicalize().ok().filter(|path| path.is_dir());
            let root = found.ok_or_else(|| {
                let message = format!("{}: no such directory", path.display());
                CliError::new(exit::NOT_FOUND, message).with_hint("--workdir names a directory")
            })?;
            return Ok(Self { root, start: ".".to_owned(), is_temporary: false });
        }
        let start = given.unwrap_or(".").to_owned();
        if let Some(home) = home {
            let root = open_thread_directory(home, OPERATOR_THREAD).map_err(CliError::from)?;
            return Ok(Self { root, start, is_temporary: false });
        }
        let io_error = |error: std::io::Error| CliError::new(exit::IO, error.to_string());
        let parent = std::env::temp_dir().canonicalize().map_err(io_error)?;
        let directory = tempfile::Builder::new()
            .prefix("skillhost-work-")
            .permissions(Permissions::from_mode(0o700))
            .tempdir_in(parent)
            .map_err(io_error)?;
        Ok(Self { root: directory.keep(), start, is_temporary: true })
    }
}

impl Drop for WorkDirectory {
    fn drop(&mut self) {
        if self.is_temporary {
            // Fails for a directory with results of the script, which stay.
            let _ = std::fs::remove_dir(&self.root);
        }
    }
}

fn print_result(session: &CliContext, result: &ScriptResult, work: &Path) -> Result<(), CliError> {
    let output = session.output;
    if output.json {
        return output.print_json(result);
    }
    output.print_bytes(&result.raw_stdout, &result.stdout)?;
    if !result.stderr.is_empty() {
        output.print_progress(result.stderr.trim_end_matches('\n'));
    }
    if result.ended_by.is_some() || result.signal.is_some() {
        output.print_note(result.describe_end());
    }
    for file in &result.files {
        let path = work.join(&file.path);
        output.print_note(format!(
            "wrote {} ({} bytes)",
            printable_line(&path.display().to_string()),
            file.bytes
        ));
    }
    if result.more_files > 0 {
        output.print_note(format!("and {} more files", result.more_files));
    }
    for file in &result.reverted {
        output.print_note(format!("protected file: {}", printable_line(&file.to_string())));
    }
    if result.more_reverted > 0 {
        output.print_note(format!("and {} more protected files", result.more_reverted));
    }
    for hint in &result.hints {
        output.print_note(display_safe(hint));
    }
    Ok(())
}

fn exit_code(result: &ScriptResult) -> u8 {
    match (result.ended_by, result.exit_code, result.signal) {
        (Some(_), ..) => LIMIT_REACHED,
        (None, Some(code), _) => u8::try_from(code).unwrap_or(u8::MAX),
        // As a shell reports it.
        (None, None, Some(signal)) => u8::try_from(128 + signal).unwrap_or(u8::MAX),
        (None, None, None) => u8::MAX,
    }
}

/// Prints what a run may do, each permission with its origin. Starts nothing.
fn explain(session: &CliContext, plan: &ScriptPlan) -> Result<(), CliError> {
    let output = session.output;
    if !output.json {
        return output.print_text(&plan.describe());
    }
    let policy = plan.policy();
    let excess: Vec<_> =
        policy.excess.iter().map(|e| json!({ "key": e.key, "value": e.value })).collect();
    output.print_json(&json!({
        "skill": plan.tree().skill_id,
        "path": plan.path(),
        "digest": plan.tree().digest,
        "command": plan.command(),
        "workdir": plan.start_directory(),
        "policy": policy.digest(),
        "approval_policy": plan.granted_policy().digest,
        "permissions": policy.explain(),
        "not_granted": excess,
        "isolation": plan.isolation(),
    }))
}
