//! `skillhost skill call`: the programs of a skill, called by the operator.

use std::path::Path;

use skill_catalog::Audience;
use skill_service::skill_tree;
use skillhost_control::ControlRequest;
use skillhost_files::{LinkPolicy, read_limited};
use skillhost_payload::{CallContext, CallOrigin};
use skillhost_terminal::{CliContext, CliError, CommandResult, text_or_stdin};

use crate::arguments::{CallArgs, SkillRoots};
use crate::doctor::ToolRequests;
use crate::home_skills::{open_store, resolve_skill};
use crate::run_script::OPERATOR_THREAD;
use crate::wording::registry_error;

/// The limit on the size of a policy file, in bytes.
const MAX_POLICY: u64 = 256 << 10;

pub(super) fn cmd_skill_call(
    session: &CliContext,
    args: &CallArgs,
    kernel: ToolRequests<'_>,
) -> CommandResult {
    let (program, arguments) = split_words(&args.words);
    let arguments = text_or_stdin(arguments)?;
    let id = resolve_id(session, &args.id)?;
    let tool = match program {
        Some(program) => format!("{id}/{program}"),
        None => id,
    };
    // Before a kernel starts: this error does not depend on the skill.
    if let Err(error) = serde_json::from_str::<serde::de::IgnoredAny>(&arguments) {
        return Err(CliError::usage(format!("the arguments are not JSON: {error}")).with_hint(
            format!("write one JSON object: skillhost skill call {tool} '{{\"key\": \"value\"}}'"),
        ));
    }
    let operator_policy = args.policy.as_deref().map(read_policy).transpose()?;
    let context = Box::new(CallContext {
        session_id: OPERATOR_THREAD.to_owned(),
        turn_id: "skill-call".to_owned(),
        origin: CallOrigin::Operator,
        operator_policy,
        ..CallContext::default()
    });
    // A path is resolved to a program by the kernel, and never is the tool of an extension.
    let path = format!("/{tool}");
    let reply = kernel(match args.explain {
        true => ControlRequest::ExplainCall { context, tool: path, arguments },
        false => ControlRequest::Invoke { context, tool: path, arguments },
    })?;
    session.output.print_tool_output(&tool, &reply)
}

/// Returns the id of a skill, of which a unique prefix is enough. Other names of programs,
/// `skill.key` and `namespace/skill/key`, stay as they are.
fn resolve_id(session: &CliContext, given: &str) -> Result<String, CliError> {
    let store = open_store(session, &SkillRoots { roots: Vec::new() })?;
    let snapshot = store.snapshot();
    let id = resolve_skill(&snapshot, given)?;
    if snapshot.get(&id).is_some() || given.contains(['/', '.']) {
        return Ok(id);
    }
    // The error names a broken skill's problem, or similar ids.
    match skill_tree(&store, &snapshot, Audience::Operator, Some(&id)) {
        Ok(_) => Ok(id),
        Err(error) => Err(registry_error(error)),
    }
}

/// Returns the program, if it is named, and the arguments.
fn split_words(words: &[String]) -> (Option<&str>, &str) {
    match words {
        [] => (None, "{}"),
        // Keys of programs start with neither of them.
        [one] if one.trim_start().starts_with(['{', '[', '"']) || one == "-" => (None, one),
        [program] => (Some(program), "{}"),
        [program, arguments, ..] => (Some(program), arguments),
    }
}

fn read_policy(path: &Path) -> Result<String, CliError> {
    let bytes = read_limited(path, MAX_POLICY, LinkPolicy::Follow)
        .map_err(|error| CliError::io(path, &error))?;
    String::from_utf8(bytes)
        .map_err(|_| CliError::usage(format!("{} is not UTF-8", path.display())))
}

#[cfg(test)]
mod tests {
    use super::split_words;

    #[test]
    fn program_is_optional() {
        let split = |words: &[&str]| {
            let words: Vec<_> = words.iter().map(|word| (*word).to_owned()).collect();
            let (program, arguments) = split_words(&words);
            (program.map(str::to_owned), arguments.to_owned())
        };
        assert_eq!(split(&[]), (None, "{}".into()));
        assert_eq!(split(&["{\"a\": 1}"]), (None, "{\"a\": 1}".into()));
        assert_eq!(split(&["-"]), (None, "-".into()));
        assert_eq!(split(&["chart"]), (Some("chart".into()), "{}".into()));
        assert_eq!(split(&["chart", "-"]), (Some("chart".into()), "-".into()));
    }
}
