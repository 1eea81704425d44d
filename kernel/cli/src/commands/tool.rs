//! `skillhost tool`: the tools of extensions, called by the operator.

#[cfg(test)]
mod tests;

use serde_json::Value;
use skillhost_control::{ControlRequest, OwnedTool, ToolListing};
use skillhost_home::{KERNEL_OWNER, suggest_similar};
use skillhost_payload::{
    ApprovalPolicy, CallContext, CallOrigin, OperatorCommand, ToolOutput, ToolSpec,
};
use skillhost_terminal::{
    BOLD, CliContext, CliError, CommandResult, DIM, TableColumn, display_safe, exit, resolve_id,
    text_or_stdin,
};

use crate::cli::ToolCommand;
use crate::kernel_session::request_from_kernel;

/// The tool that runs scripts of skills.
const RUN_SCRIPT: &str = "skills.run_script";

pub(super) fn cmd_tool(session: &CliContext, command: &ToolCommand) -> CommandResult {
    match command {
        ToolCommand::List { agent } => list(session, agent.as_deref()),
        ToolCommand::Show { name } => show_tool(session, name),
        ToolCommand::Call { name, arguments } => call(session, name, arguments),
    }
}

fn list(session: &CliContext, agent: Option<&str>) -> CommandResult {
    let listing: ToolListing =
        request_from_kernel(session, ControlRequest::Tools { agent: agent.map(str::to_owned) })?;
    let output = session.output;
    if output.json {
        output.print_json(&listing)?;
    } else {
        let rows: Vec<_> = listing
            .tools
            .iter()
            .map(|tool| {
                let summary = tool.spec.description.lines().next().unwrap_or_default();
                vec![tool.spec.name.clone(), tool.extension.to_string(), display_safe(summary)]
            })
            .collect();
        let columns = [
            TableColumn::fixed("TOOL"),
            TableColumn::fixed("EXTENSION").with_rank(1),
            TableColumn::text("DESCRIPTION"),
        ];
        output.print_table(&columns, &rows)?;
        for failed in &listing.failed {
            let (id, error) = (&failed.extension, &failed.error);
            output.print_note(format!("`{id}` did not list its tools: {error}"));
        }
    }
    Ok(if listing.failed.is_empty() { exit::OK } else { exit::FINDINGS })
}

fn show_tool(session: &CliContext, given: &str) -> CommandResult {
    let listing: ToolListing = request_from_kernel(session, ControlRequest::Tools { agent: None })?;
    let names = || listing.tools.iter().map(|tool| tool.spec.name.as_str());
    let name = resolve_id("tools", given, names())?;
    let Some(tool) = listing.tools.iter().find(|tool| tool.spec.name == name) else {
        let error =
            CliError::new(exit::NOT_FOUND, format!("tool `{}` not found", display_safe(given)));
        return Err(match suggest_similar(given, names()).as_slice() {
            [] => error.with_hint(format!("see: {}", OperatorCommand::ListTools)),
            similar => error.with_hint(format!("did you mean `{}`?", similar.join("` or `"))),
        });
    };
    let output = session.output;
    if output.json {
        output.print_json(tool)?;
        return Ok(exit::OK);
    }
    let ToolSpec { description, input_schema, read_only, destructive, .. } = &tool.spec;
    output.print_line(format!(
        "{BOLD}{}{BOLD:#}  {DIM}{}{DIM:#}",
        display_safe(&name),
        tool.extension
    ))?;
    output.print_wrapped(&display_safe(description.trim_end()), 0)?;
    output.print_line("")?;
    let effect = match (read_only, destructive) {
        (true, _) => "changes nothing",
        (false, true) => "may delete or overwrite data",
        (false, false) => "may change data",
    };
    output.print_line(format!("effect    {effect}"))?;
    output.print_line(format!("approval  {}", describe_approval(tool)))?;
    output.print_line("")?;
    let rows = parameter_rows(input_schema);
    if rows.is_empty() {
        output.print_line("It takes no parameters.")?;
    } else {
        let columns = [
            TableColumn::fixed("PARAMETER"),
            TableColumn::text("TYPE"),
            TableColumn::fixed("REQUIRED"),
            TableColumn::text("DESCRIPTION"),
        ];
        output.print_table(&columns, &rows)?;
    }
    Ok(exit::OK)
}

/// Describes what a call of an agent requires.
fn describe_approval(tool: &OwnedTool) -> String {
    let is_kernel = tool.extension.as_str() == KERNEL_OWNER;
    match tool.spec.needs_approval {
        ApprovalPolicy::Never => "not required".to_owned(),
        ApprovalPolicy::Always => "required for each call".to_owned(),
        // `allowed-tools` of a skill does not approve code of skills.
        ApprovalPolicy::UnlessGranted if tool.skill.is_some() => {
            "approved for these files".to_owned()
        }
        ApprovalPolicy::UnlessGranted if is_kernel && tool.spec.name == RUN_SCRIPT => {
            format!("required: `{}`", OperatorCommand::ApproveScripts { id: "ID" })
        }
        ApprovalPolicy::UnlessGranted => {
            "required unless an active skill allows the tool".to_owned()
        }
    }
}

/// Returns a row for each parameter, in the order of the schema.
fn parameter_rows(schema: &Value) -> Vec<Vec<String>> {
    let required = schema["required"].as_array();
    let is_required = |name: &str| required.is_some_and(|names| names.iter().any(|it| it == name));
    let properties = schema["properties"].as_object().into_iter().flatten();
    let rows = properties.map(|(name, parameter)| {
        let required = if is_required(name) { "yes" } else { "" };
        let mut about = parameter["description"].as_str().unwrap_or_default().to_owned();
        if let Some(default) = parameter.get("default") {
            about = format!("{about} [default: {default}]").trim_start().to_owned();
        }
        vec![name.clone(), type_of(parameter), required.to_owned(), about]
    });
    rows.collect()
}

/// Returns the type of a parameter in words: its alternatives, or the values that it may have.
fn type_of(parameter: &Value) -> String {
    let join = |values: &[Value], of: fn(&Value) -> String| {
        values.iter().map(of).collect::<Vec<_>>().join(" or ")
    };
    let text = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    if let Some(values) = parameter["enum"].as_array() {
        return join(values, |value| {
            value.as_str().map_or_else(|| value.to_string(), str::to_owned)
        });
    }
    match &parameter["type"] {
        Value::Array(types) => join(types, |it| it.as_str().unwrap_or("any").to_owned()),
        Value::String(name) if name == "array" && parameter["items"].is_object() => {
            format!("array of {}", type_of(&parameter["items"]))
        }
        Value::Null => match parameter["anyOf"].as_array().or(parameter["oneOf"].as_array()) {
            Some(types) => join(types, type_of),
            None => "any".to_owned(),
        },
        other => text(other),
    }
}

fn call(session: &CliContext, name: &str, arguments: &str) -> CommandResult {
    let arguments = text_or_stdin(arguments)?;
    let context = CallContext {
        session_id: format!("operator-{}", std::process::id()),
        turn_id: "tool-call".to_owned(),
        origin: CallOrigin::Operator,
        ..CallContext::default()
    };
    let reply: ToolOutput = request_from_kernel(
        session,
        ControlRequest::Invoke { context: Box::new(context), tool: name.to_owned(), arguments },
    )?;
    session.output.print_tool_output(name, &reply)
}
