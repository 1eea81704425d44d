//! `skillhost mcp install`: the server in the configuration of a client.
//!
//! The client's own program makes the change, after the user has seen its command line. Without the
//! program, or with `--write`, it is the configuration file that is edited.

use std::path::{Path, PathBuf};

use serde::Serialize;
use skillhost_home::Home;
use skillhost_terminal::{CliContext, CliError, CommandResult, display_safe, exit};

use crate::arguments::ClientInstallArgs;
use crate::client::{ClientEnvironment, ConfigScope, McpClient};
use crate::client_program::{ClientCommand, find_program};
use crate::config::{cmd_mcp_config, find_home, print_home_notes};
use crate::config_file::ConfigFile;
use crate::config_text::ConfigEdit;
use crate::server_entry::ServerEntry;

/// The result of an installation.
#[derive(Debug, Serialize)]
struct InstallReport {
    client: &'static str,
    scope: &'static str,
    outcome: InstallOutcome,
    /// The configuration file, if its place is known.
    file: Option<PathBuf>,
    /// The commands that were run.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    commands: Vec<Vec<String>>,
    /// The copy of the file as it was.
    #[serde(skip_serializing_if = "Option::is_none")]
    backup: Option<PathBuf>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
enum InstallOutcome {
    Added,
    Updated,
    Unchanged,
}

/// The parts of an installation that are known before anything is changed.
struct InstallPlan<'s> {
    session: &'s CliContext,
    client: McpClient,
    scope: ConfigScope,
    entry: ServerEntry,
    environment: ClientEnvironment,
    file: Option<ConfigFile>,
    edit: ConfigEdit,
}

/// Adds this server to the configuration of a client.
///
/// # Errors
/// The home is not trusted, the client's configuration is not valid, its program is not found or
/// failed, or the user refused.
pub fn cmd_mcp_install(session: &CliContext, args: &ClientInstallArgs) -> CommandResult {
    if args.print {
        return cmd_mcp_config(session, args.client);
    }
    let home = find_home(session)?;
    if let Some(home) = &home {
        // The client starts the server without a terminal and only reports that it failed.
        home.require_trust(&session.environment).map_err(|error| {
            CliError::from(error)
                .with_hint("a client starts the server without --trust-home; nothing was changed")
        })?;
    } else {
        print_home_notes(session, None);
    }
    let plan = InstallPlan::new(session, args, home.as_ref())?;
    if plan.edit == ConfigEdit::Unchanged {
        return plan.report(InstallOutcome::Unchanged, Vec::new(), None);
    }
    if args.write {
        return plan.write_file();
    }
    let Some(commands) = plan.commands() else {
        let message = format!(
            "{} has no command for the scope {}; nothing was changed",
            plan.client.title(),
            plan.scope.as_str()
        );
        return plan.print_text(&message);
    };
    let name = plan.client.program().unwrap_or_default();
    let Some(program) = find_program(name, plan.environment.program_path.as_deref()) else {
        return plan.print_text(&format!("`{name}` was not found; nothing was changed"));
    };
    plan.run(&commands, &program, args.yes)
}

impl<'s> InstallPlan<'s> {
    /// Reads the client's configuration. Nothing is changed.
    fn new(
        session: &'s CliContext,
        args: &ClientInstallArgs,
        home: Option<&Home>,
    ) -> Result<Self, CliError> {
        let (client, scope) = (args.client, args.scope);
        let environment = ClientEnvironment::new(&session.environment);
        let entry = ServerEntry::new(home.map(Home::root), client.has_transport())?;
        let file = match client.config_file(scope, &environment) {
            Some(path) => Some(ConfigFile::read(&path, scope)?),
            None => None,
        };
        let edit = match &file {
            Some(file) => file.edit(client.format(), &entry)?,
            None => ConfigEdit::Added(client.format().format_entry(&entry)),
        };
        Ok(Self { session, client, scope, entry, environment, file, edit })
    }

    /// Returns the commands that make the change; `None` if the client has none.
    fn commands(&self) -> Option<Vec<ClientCommand>> {
        let add = self.client.add_command(self.scope, &self.entry)?;
        let remove = match &self.edit {
            ConfigEdit::Updated(_) => self.client.remove_command(self.scope),
            _ => None,
        };
        Some(remove.into_iter().chain([add]).collect())
    }

    fn outcome(&self) -> InstallOutcome {
        match &self.edit {
            ConfigEdit::Unchanged => InstallOutcome::Unchanged,
            ConfigEdit::Added(_) => InstallOutcome::Added,
            ConfigEdit::Updated(_) => InstallOutcome::Updated,
        }
    }

    /// Runs the commands, after the user has seen them.
    fn run(&self, commands: &[ClientCommand], program: &Path, yes: bool) -> CommandResult {
        let output = self.session.output;
        for command in commands {
            output.print_progress(display_safe(&command.to_line()));
        }
        if !yes {
            match output.ask_yes_no("run it?")? {
                Some(true) => {}
                Some(false) => return Err(CliError::new(exit::FINDINGS, "nothing was changed")),
                None => {
                    let message = "an installation requires a terminal, or --yes";
                    return Err(CliError::usage(message)
                        .with_hint(format!("see: {}", self.spell("--print")))
                        .with_hint(format!("then: {}", self.spell("--yes"))));
                }
            }
        }
        for command in commands {
            command.run(program, &self.environment.project, output).map_err(|error| {
                error.with_hint(format!("edit the file instead: {}", self.spell("--write")))
            })?;
        }
        let commands = commands.iter().map(|command| command.words.clone()).collect();
        self.report(self.outcome(), commands, None)
    }

    /// Edits the configuration file.
    fn write_file(&self) -> CommandResult {
        let (ConfigEdit::Added(new) | ConfigEdit::Updated(new)) = &self.edit else {
            return self.report(InstallOutcome::Unchanged, Vec::new(), None);
        };
        let Some(file) = &self.file else {
            return Err(CliError::new(exit::NOT_FOUND, "the user's directory is not known")
                .with_hint("set HOME"));
        };
        let backup = file.write(new)?;
        self.report(self.outcome(), Vec::new(), backup)
    }

    /// Prints the text for the configuration file, which the client's program cannot change.
    fn print_text(&self, message: &str) -> CommandResult {
        let output = self.session.output;
        if !output.json {
            output.print_note(format!("for {}", self.place()));
            output.print_line(display_safe(&self.client.format().format_entry(&self.entry)))?;
        }
        Err(CliError::new(exit::NOT_FOUND, message)
            .with_hint(format!("edit the file: {}", self.spell("--write"))))
    }

    fn report(
        &self,
        outcome: InstallOutcome,
        commands: Vec<Vec<String>>,
        backup: Option<PathBuf>,
    ) -> CommandResult {
        let output = self.session.output;
        if output.json {
            let file = self.file.as_ref().map(|file| file.path.clone());
            let (client, scope) = (self.client.as_str(), self.scope.as_str());
            output.print_json(&InstallReport { client, scope, outcome, file, commands, backup })?;
            return Ok(exit::OK);
        }
        let (title, place) = (self.client.title(), self.place());
        output.print_line(match outcome {
            InstallOutcome::Added => format!("added to {title}: {place}"),
            InstallOutcome::Updated => format!("updated in {title}: {place}"),
            InstallOutcome::Unchanged => format!("{title} has it already: {place}"),
        })?;
        if let Some(backup) = backup {
            let backup = display_safe(&backup.display().to_string());
            output.print_line(format!("the file as it was: {backup}"))?;
        }
        if outcome != InstallOutcome::Unchanged {
            output.print_line(format!("restart the client; see: {}", self.client.check_text()))?;
        }
        Ok(exit::OK)
    }

    /// Returns the configuration file as messages name it.
    fn place(&self) -> String {
        match &self.file {
            Some(file) => display_safe(&file.path.display().to_string()),
            None => self.client.user_file_text().to_owned(),
        }
    }

    /// Spells this command with another option.
    fn spell(&self, option: &str) -> String {
        let (client, scope) = (self.client.as_str(), self.scope.as_str());
        let scope = match self.scope {
            ConfigScope::User => String::new(),
            ConfigScope::Project => format!(" --scope {scope}"),
        };
        self.session.spell_arguments(&format!("mcp install {client}{scope} {option}"))
    }
}
