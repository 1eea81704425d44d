//! The command line of the reference tool, parsed as click 8 does.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::ErrorKind;
use std::path::PathBuf;

use skill_compat::reference::python_repr;
use skillhost_terminal::exit;

use super::ReferenceToolOutput;

/// A parsed command.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum ReferenceCommand {
    Validate(PathBuf),
    ReadProperties(PathBuf),
    ToPrompt(Vec<PathBuf>),
}

/// A subcommand and its help text.
struct ClickCommand {
    name: &'static str,
    argument: &'static str,
    help: &'static str,
}

const VALIDATE: &str = "validate";
const READ_PROPERTIES: &str = "read-properties";
const TO_PROMPT: &str = "to-prompt";

const COMMANDS: [ClickCommand; 3] = [
    ClickCommand {
        name: VALIDATE,
        argument: "SKILL_PATH",
        help: "  Validate a skill directory.

  Checks that the skill has a valid SKILL.md with proper frontmatter, correct
  naming conventions, and required fields.

  Exit codes:     0: Valid skill     1: Validation errors found
",
    },
    ClickCommand {
        name: READ_PROPERTIES,
        argument: "SKILL_PATH",
        help: "  Read and print skill properties as JSON.

  Parses the YAML frontmatter from SKILL.md and outputs the properties as
  JSON.

  Exit codes:     0: Success     1: Parse error
",
    },
    ClickCommand {
        name: TO_PROMPT,
        argument: "SKILL_PATHS...",
        help: "  Generate <available_skills> XML for agent prompts.

  Accepts one or more skill directories.

  Exit codes:     0: Success     1: Error
",
    },
];

const GROUP: &str = "[OPTIONS] COMMAND [ARGS]...";

const GROUP_HELP: &str = "
  Reference library for Agent Skills.

Options:
  --version  Show the version and exit.
  --help     Show this message and exit.

Commands:
  read-properties  Read and print skill properties as JSON.
  to-prompt        Generate <available_skills> XML for agent prompts.
  validate         Validate a skill directory.
";

/// Parses the arguments; a usage error or a help text is returned as `Err`.
pub(super) fn parse(
    program: &str,
    arguments: &[OsString],
) -> Result<ReferenceCommand, ReferenceToolOutput> {
    let group =
        ClickLevel { path: program.to_owned(), usage: GROUP, options: &["--version", "--help"] };
    if arguments.is_empty() {
        let stderr = group.help(GROUP_HELP);
        return Err(ReferenceToolOutput {
            code: exit::USAGE,
            stderr,
            ..ReferenceToolOutput::default()
        });
    }
    let given = group.split(&arguments.iter().collect::<Vec<_>>(), false)?;
    if let Some(option) = given.options.first() {
        return Err(group.answer(program, option));
    }
    let Some((name, rest)) = given.values.split_first() else {
        return Err(group.error("Missing command."));
    };
    let name = text(name);
    let Some(command) = COMMANDS.iter().find(|command| command.name == name) else {
        // After `--`, an argument with a leading dash may still be an option: click's group parses
        // it again.
        if let Some(option) = group.option(&name)? {
            return Err(group.answer(program, option));
        }
        return Err(group.error(&format!("No such command {}.", python_repr(&name))));
    };
    let level = command.level(program);
    let given = level.split(rest, true)?;
    if !given.options.is_empty() {
        return Err(print_to_stdout(level.help(&format!(
            "\n{}\nOptions:\n  --help  Show this message and exit.\n",
            command.help
        ))));
    }
    let paths: Vec<PathBuf> = given.values.iter().map(PathBuf::from).collect();
    let Some(first) = paths.first().cloned() else {
        return Err(level.error(&format!("Missing argument '{}'.", command.argument)));
    };
    let several = command.name == TO_PROMPT;
    let looked_at = if several { &given.values[..] } else { &given.values[..1] };
    if let Some(bad) =
        bad_path(program, command.name, looked_at.iter().map(|path| path.as_os_str()))
    {
        return Err(bad);
    }
    if let Some(extra) = given.values.get(1..).filter(|extra| !several && !extra.is_empty()) {
        let plural = if extra.len() == 1 { "" } else { "s" };
        let extra: Vec<String> = extra.iter().map(|path| text(path)).collect();
        let extra = extra.join(" ");
        return Err(level.error(&format!("Got unexpected extra argument{plural} ({extra})")));
    }
    Ok(match command.name {
        VALIDATE => ReferenceCommand::Validate(first),
        READ_PROPERTIES => ReferenceCommand::ReadProperties(first),
        _ => ReferenceCommand::ToPrompt(paths),
    })
}

/// Returns the usage error for the first path that does not exist or is not readable.
pub(super) fn bad_path<'a>(
    program: &str,
    command: &str,
    mut paths: impl Iterator<Item = &'a OsStr>,
) -> Option<ReferenceToolOutput> {
    let command = COMMANDS.iter().find(|known| known.name == command)?;
    paths.find_map(|path| {
        let problem = match std::fs::metadata(path) {
            Err(_) => "does not exist",
            // Opening a FIFO to test it would block.
            Ok(it) if (it.is_file() || it.is_dir()) && is_forbidden(path) => "is not readable",
            Ok(_) => return None,
        };
        let path = python_repr(&path.to_string_lossy());
        let message = format!("Invalid value for '{}': Path {path} {problem}.", command.argument);
        Some(command.level(program).error(&message))
    })
}

fn is_forbidden(path: &OsStr) -> bool {
    File::open(path).is_err_and(|error| error.kind() == ErrorKind::PermissionDenied)
}

fn text(argument: &OsString) -> String {
    argument.to_string_lossy().into_owned()
}

fn print_to_stdout(stdout: String) -> ReferenceToolOutput {
    ReferenceToolOutput { stdout, ..ReferenceToolOutput::default() }
}

impl ClickCommand {
    fn level(&self, program: &str) -> ClickLevel {
        let usage = if self.argument == "SKILL_PATH" {
            "[OPTIONS] SKILL_PATH"
        } else {
            "[OPTIONS] SKILL_PATHS..."
        };
        ClickLevel { path: format!("{program} {}", self.name), usage, options: &["--help"] }
    }
}

/// The tool, or one of its subcommands.
struct ClickLevel {
    path: String,
    usage: &'static str,
    options: &'static [&'static str],
}

/// The parsed arguments of one level.
#[derive(Default)]
struct ParsedArguments<'a> {
    /// The options in their order.
    options: Vec<&'static str>,
    values: Vec<&'a OsString>,
}

impl ClickLevel {
    /// Separates options from values. If they may not be mixed, the first value ends the options.
    fn split<'a>(
        &self,
        arguments: &[&'a OsString],
        mixed: bool,
    ) -> Result<ParsedArguments<'a>, ReferenceToolOutput> {
        let mut given = ParsedArguments::default();
        let mut rest = arguments.iter();
        for argument in rest.by_ref() {
            if *argument == "--" {
                break;
            }
            if let Some(option) = self.option(&text(argument))? {
                given.options.push(option);
                continue;
            }
            given.values.push(argument);
            if !mixed {
                break;
            }
        }
        given.values.extend(rest);
        Ok(given)
    }

    /// Returns the option that an argument names, or `None` for a value.
    fn option(&self, argument: &str) -> Result<Option<&'static str>, ReferenceToolOutput> {
        let mut chars = argument.chars();
        let (Some('-'), Some(second)) = (chars.next(), chars.next()) else { return Ok(None) };
        if second != '-' {
            let name = python_repr(&format!("-{second}"));
            return Err(self.error(&format!("No such option {name}.")));
        }
        let (name, value) = match argument.split_once('=') {
            Some((name, value)) => (name, Some(value)),
            None => (argument, None),
        };
        match self.options.iter().find(|known| **known == name) {
            None => Err(self.error(&format!("No such option {}.", python_repr(name)))),
            Some(_) if value.is_some() => {
                let stderr = format!("Error: Option '{name}' does not take a value.\n");
                Err(ReferenceToolOutput {
                    code: exit::USAGE,
                    stderr,
                    ..ReferenceToolOutput::default()
                })
            }
            Some(known) => Ok(Some(known)),
        }
    }

    /// Returns the output for an option of the tool itself.
    fn answer(&self, program: &str, option: &str) -> ReferenceToolOutput {
        match option {
            "--version" => ReferenceToolOutput::result(&format!("{program}, version 0.1.1")),
            _ => print_to_stdout(self.help(GROUP_HELP)),
        }
    }

    fn usage(&self) -> String {
        format!("Usage: {} {}\n", self.path, self.usage)
    }

    fn help(&self, text: &str) -> String {
        format!("{}{text}", self.usage())
    }

    fn error(&self, message: &str) -> ReferenceToolOutput {
        let (usage, path) = (self.usage(), &self.path);
        let stderr = format!("{usage}Try '{path} --help' for help.\n\nError: {message}\n");
        ReferenceToolOutput { code: exit::USAGE, stderr, ..ReferenceToolOutput::default() }
    }
}
