//! `skillhost skill read-properties` and `to-prompt`: the output of the reference tool.
//!
//! Lines, streams and exit codes are the reference's, also for a path that does not exist. With
//! `--json` the format is that of this program.

use serde_json::{Value, json};
use skillhost_terminal::{CliContext, CliError, CommandResult, exit};

use crate::arguments::{PromptFormat, ReferenceArgs, ToPromptArgs};
use crate::skills_ref::{self, ReferenceToolOutput};

pub(super) fn cmd_skill_read_properties(
    session: &CliContext,
    args: &ReferenceArgs,
) -> CommandResult {
    let printed = skills_ref::path_error_output("read-properties", [&args.path])
        .unwrap_or_else(|| skills_ref::read_properties(&args.path));
    print_output(session, &printed, |text| {
        let properties: Value = serde_json::from_str(text)?;
        Ok(json!({ "properties": properties }))
    })
}

pub(super) fn cmd_skill_to_prompt(session: &CliContext, args: &ToPromptArgs) -> CommandResult {
    let printed = skills_ref::path_error_output("to-prompt", &args.paths).unwrap_or_else(|| {
        match args.format {
            PromptFormat::Reference => skills_ref::to_prompt_of(&args.paths),
            PromptFormat::Boxxy => skills_ref::to_prompt_boxxy_of(&args.paths),
        }
    });
    print_output(session, &printed, |text| Ok(json!({ "prompt": text.trim_end_matches('\n') })))
}

/// Prints the output unchanged; with `--json`, as an object or as an error.
fn print_output(
    session: &CliContext,
    printed: &ReferenceToolOutput,
    object: impl FnOnce(&str) -> serde_json::Result<Value>,
) -> CommandResult {
    if !session.output.json {
        return printed.print(session.output);
    }
    if printed.code != exit::OK {
        let message = printed.stderr.lines().last().unwrap_or_default();
        let message = message.trim_start_matches("Error: ");
        return Err(CliError::new(printed.code, message));
    }
    session.output.print_json(&object(&printed.stdout).map_err(std::io::Error::from)?)?;
    Ok(exit::OK)
}
