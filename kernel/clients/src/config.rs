//! `skillhost mcp config`: the configuration that makes a client start this server.

use serde::Serialize;
use skillhost_home::Home;
use skillhost_terminal::{CliContext, CliError, CommandResult, display_safe, exit};

use crate::client::{ConfigScope, McpClient};
use crate::server_entry::ServerEntry;

/// The configuration for one client.
#[derive(Debug, Serialize)]
struct ClientConfigText {
    client: &'static str,
    /// The client's own command that adds the server.
    command: Option<String>,
    /// The configuration file in the working directory.
    project_file: &'static str,
    /// The user's configuration file.
    user_file: &'static str,
    /// The text for either file.
    text: String,
}

/// Prints the configuration for a client. If a home is found, the configuration names it, because a
/// client starts the server in a directory of its own choice.
///
/// # Errors
/// The home is broken, a path cannot be in a configuration, or the output fails.
pub fn cmd_mcp_config(session: &CliContext, client: McpClient) -> CommandResult {
    let home = find_home(session)?;
    let entry = ServerEntry::new(home.as_ref().map(Home::root), client.has_transport())?;
    let command = client.add_command(ConfigScope::User, &entry);
    let config = ClientConfigText {
        client: client.as_str(),
        command: command.map(|command| command.to_line()),
        project_file: client.project_file(),
        user_file: client.user_file_text(),
        text: client.format().format_entry(&entry),
    };
    let output = session.output;
    if output.json {
        output.print_json(&config)?;
        return Ok(exit::OK);
    }
    // Standard output is meant for pasting, so explanations go to stderr.
    output.print_note(format!(
        "for {} of a project, or {} of the user",
        config.project_file, config.user_file
    ));
    if let Some(command) = &config.command {
        output.print_note(format!("the same, by the client itself: {}", display_safe(command)));
    }
    print_home_notes(session, home.as_ref());
    output.print_line(display_safe(&config.text))?;
    Ok(exit::OK)
}

/// Returns the home, trusted or not; `None` if none is named or found.
pub(crate) fn find_home(session: &CliContext) -> Result<Option<Home>, CliError> {
    if session.has_home() { session.home().map(Some) } else { Ok(None) }
}

/// Prints a note if the server would serve no home, or refuse to.
pub(crate) fn print_home_notes(session: &CliContext, home: Option<&Home>) {
    match home {
        None => session.output.print_note(
            "home not found: the server will offer .agents/skills and .claude/skills of the \
             directory the client starts it in and of the user",
        ),
        Some(home) => {
            if let Err(error) = home.require_trust(&session.environment) {
                let error = CliError::from(error);
                let hints = error.hints().join("; ");
                session.output.print_note(format!("{}; {hints}", error.message()));
            }
        }
    }
}
