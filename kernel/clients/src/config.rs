//! `skillhost mcp config`: the configuration that makes a client start this server.

#[cfg(test)]
mod tests;

use std::path::Path;

use serde::Serialize;
use serde_json::json;
use skillhost_terminal::{CliContext, CliError, CommandResult, display_safe, exit};

use crate::client::McpClient;

/// The name under which clients know the server.
const NAME: &str = "skillhost";

/// The configuration for one client.
#[derive(Debug, PartialEq, Eq, Serialize)]
struct ClientConfigText {
    client: &'static str,
    /// The client's own command that adds the server.
    command: Option<String>,
    /// The configuration file in the working directory, if the client has one.
    project_file: Option<&'static str>,
    /// The user's configuration file.
    user_file: &'static str,
    /// The text for either file.
    text: String,
}

/// Prints the configuration for a client. If a home is found, the configuration names it, because a
/// client starts the server in a directory of its own choice.
///
/// # Errors
/// A path is not UTF-8, or the output fails.
pub fn cmd_mcp_config(session: &CliContext, client: McpClient) -> CommandResult {
    let program = std::env::current_exe()?;
    let home = session.home().ok();
    let home = home.as_ref().map(|home| home.root());
    let arguments = arguments(home)?;
    let program = utf8(&program)?;
    let lines = lines(client, program, &arguments);
    let output = session.output;
    if output.json {
        output.print_json(&lines)?;
        return Ok(exit::OK);
    }
    // Standard output is meant for pasting, so explanations go to stderr.
    output.print_note(match lines.project_file {
        Some(file) => format!("for {file} of a project, or {} of the user", lines.user_file),
        None => format!("for {}", lines.user_file),
    });
    if let Some(command) = &lines.command {
        output.print_note(format!("the same, by the client itself: {command}"));
    }
    if home.is_none() {
        output.print_note(
            "home not found: the server will offer .agents/skills and .claude/skills of the \
             directory the client starts it in and of the user",
        );
    }
    output.print_line(display_safe(&lines.text))?;
    Ok(exit::OK)
}

fn arguments(home: Option<&Path>) -> Result<Vec<&str>, CliError> {
    let Some(home) = home else { return Ok(vec!["mcp"]) };
    Ok(vec!["--home", utf8(home)?, "mcp"])
}

fn utf8(path: &Path) -> Result<&str, CliError> {
    path.to_str().ok_or_else(|| {
        CliError::new(exit::FINDINGS, format!("{} is not UTF-8", path.display()))
            .with_hint("clients can only start what their settings can name")
    })
}

fn lines(client: McpClient, program: &str, arguments: &[&str]) -> ClientConfigText {
    let quoted = std::iter::once(&program).chain(arguments).map(|word| shell(word));
    let line = quoted.collect::<Vec<_>>().join(" ");
    let json_text = |kind: Option<&str>| {
        let mut server = json!({ "args": arguments, "command": program });
        if let Some(kind) = kind {
            server["type"] = kind.into();
        }
        server.sort_all_objects();
        format!("{:#}", json!({ "mcpServers": { NAME: server } }))
    };
    match client {
        McpClient::Claude => ClientConfigText {
            client: "claude",
            command: Some(format!("claude mcp add --transport stdio {NAME} -- {line}")),
            project_file: Some(".mcp.json"),
            user_file: "~/.claude.json",
            text: json_text(Some("stdio")),
        },
        McpClient::Codex => ClientConfigText {
            client: "codex",
            command: Some(format!("codex mcp add {NAME} -- {line}")),
            project_file: Some(".codex/config.toml"),
            user_file: "~/.codex/config.toml",
            text: format!(
                "[mcp_servers.{NAME}]\ncommand = {}\nargs = [{}]",
                toml(program),
                arguments.iter().map(|word| toml(word)).collect::<Vec<_>>().join(", ")
            ),
        },
        McpClient::Gemini => ClientConfigText {
            client: "gemini",
            command: Some(format!("gemini mcp add {NAME} {line}")),
            project_file: Some(".gemini/settings.json"),
            user_file: "~/.gemini/settings.json",
            text: json_text(None),
        },
        McpClient::Cursor => ClientConfigText {
            client: "cursor",
            command: None,
            project_file: Some(".cursor/mcp.json"),
            user_file: "~/.cursor/mcp.json",
            text: json_text(Some("stdio")),
        },
    }
}

/// Quotes a word for a POSIX shell, if it needs quotes.
fn shell(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./:=@%+,".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', r"'\''"))
}

/// Formats a text as a TOML basic string.
fn toml(text: &str) -> String {
    let mut quoted = String::from("\"");
    for c in text.chars() {
        match c {
            '"' | '\\' => quoted.extend(['\\', c]),
            c if c.is_control() => quoted.push_str(&format!("\\u{:04X}", u32::from(c))),
            c => quoted.push(c),
        }
    }
    quoted.push('"');
    quoted
}
