//! The programs of clients, which change their configuration themselves.

use std::ffi::OsStr;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::json;
use skillhost_terminal::{CliError, Output, exit};

use crate::client::{ConfigScope, McpClient};
use crate::server_entry::{SERVER_NAME, ServerEntry, quote_for_shell};

/// A command line of a client's program.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ClientCommand {
    /// The name of the program, and its arguments.
    pub(crate) words: Vec<String>,
}

impl McpClient {
    /// Returns the name of the program that changes the configuration, if the client has one.
    pub(crate) const fn program(self) -> Option<&'static str> {
        match self {
            Self::Claude => Some("claude"),
            Self::Codex => Some("codex"),
            Self::Gemini => Some("gemini"),
            Self::VsCode => Some("code"),
            Self::Cursor => None,
        }
    }

    /// Returns the command that adds the server; `None` if the client has none for the scope.
    pub(crate) fn add_command(
        self,
        scope: ConfigScope,
        entry: &ServerEntry,
    ) -> Option<ClientCommand> {
        let server = entry.words().map(str::to_owned);
        let words =
            |start: &[&str]| start.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>();
        let words: Vec<String> = match (self, scope) {
            (Self::Claude, _) => {
                let start =
                    ["claude", "mcp", "add", "--transport", "stdio", "--scope", scope.as_str()];
                words(&start).into_iter().chain(words(&[SERVER_NAME, "--"])).chain(server).collect()
            }
            (Self::Codex, ConfigScope::User) => words(&["codex", "mcp", "add", SERVER_NAME, "--"])
                .into_iter()
                .chain(server)
                .collect(),
            (Self::Gemini, _) => {
                // Only what follows the separator is certainly no option of the client.
                let start = [
                    "gemini",
                    "mcp",
                    "add",
                    "--scope",
                    scope.as_str(),
                    SERVER_NAME,
                    &entry.program,
                ];
                let arguments = entry.arguments.iter().cloned();
                words(&start).into_iter().chain(words(&["--"])).chain(arguments).collect()
            }
            (Self::VsCode, ConfigScope::User) => {
                let mut server = json!({
                    "name": SERVER_NAME, "type": "stdio",
                    "command": entry.program, "args": entry.arguments,
                });
                server.sort_all_objects();
                words(&["code", "--add-mcp", &server.to_string()])
            }
            (Self::Codex | Self::VsCode, ConfigScope::Project) | (Self::Cursor, _) => return None,
        };
        Some(ClientCommand { words })
    }

    /// Returns the command that must run before [`McpClient::add_command`] where another entry
    /// exists: the other clients replace it.
    pub(crate) fn remove_command(self, scope: ConfigScope) -> Option<ClientCommand> {
        let words = ["claude", "mcp", "remove", "--scope", scope.as_str(), SERVER_NAME];
        let words = words.map(str::to_owned).to_vec();
        (self == Self::Claude).then_some(ClientCommand { words })
    }
}

impl ClientCommand {
    /// Returns the line for a POSIX shell.
    pub(crate) fn to_line(&self) -> String {
        self.words.iter().map(|word| quote_for_shell(word)).collect::<Vec<_>>().join(" ")
    }

    /// Runs the command with a program in a directory, and waits for its end. Its output goes to
    /// standard error, because standard output has the result of this program.
    ///
    /// # Errors
    /// The program cannot be started, or failed.
    pub(crate) fn run(
        &self,
        program: &Path,
        directory: &Path,
        output: Output,
    ) -> Result<(), CliError> {
        let status = Command::new(program)
            .args(self.words.iter().skip(1))
            .current_dir(directory)
            .stdin(Stdio::null())
            .stdout(output.messages_of_child())
            .status()
            .map_err(|error| CliError::io(program, &error))?;
        if status.success() {
            return Ok(());
        }
        Err(CliError::new(exit::FINDINGS, format!("{} failed: {status}", self.to_line())))
    }
}

/// Finds a program in the absolute directories of a search path.
pub(crate) fn find_program(name: &str, search_path: Option<&OsStr>) -> Option<PathBuf> {
    // An entry relative to the working directory would run a file of the project.
    let directories = std::env::split_paths(search_path?).filter(|dir| dir.is_absolute());
    let files = directories.map(|dir| dir.join(name));
    files.into_iter().find(|file| {
        let metadata = file.metadata();
        metadata.is_ok_and(|it| it.is_file() && it.permissions().mode() & 0o111 != 0)
    })
}
