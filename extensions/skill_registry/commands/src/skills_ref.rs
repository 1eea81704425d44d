//! The reference tool, skills-ref 0.1.1: the behavior of `skillhost` behind a link with its name.
//!
//! Scripts written for that tool work unchanged: the same arguments, lines, streams and exit codes
//! (0, 1 for an invalid skill, 2 for an invalid command line).

mod click;
mod path;

use std::ffi::{OsStr, OsString};
use std::fs;
use std::path::{Path, PathBuf};

use skill_compat::reference;
use skill_compat::reference::{
    FILE_NAMES, PromptSkill, ReferenceError, ReferenceProperties, format_output,
    load_reference_skill, to_prompt, validate_reference,
};
use skill_compat::role::{BoxxySkill, to_prompt_boxxy};
use skill_format::SkillInput;
use skillhost_terminal::{CommandResult, Output, exit};

use self::path::{as_python_writes_it, name, skill_directory};

/// The names of the tool.
const NAMES: [&str; 2] = ["skills-ref", "agentskills"];

/// The output of the tool and its exit code.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct ReferenceToolOutput {
    pub(super) code: u8,
    pub(super) stdout: String,
    pub(super) stderr: String,
}

impl ReferenceToolOutput {
    fn result(text: &str) -> Self {
        Self { stdout: format!("{text}\n"), ..Self::default() }
    }

    fn error(message: &str) -> Self {
        let stderr = format!("Error: {message}\n");
        Self { code: exit::FINDINGS, stderr, ..Self::default() }
    }

    /// Prints the output.
    pub(super) fn print(&self, output: Output) -> CommandResult {
        output.print_raw(&self.stdout)?;
        output.eprint_raw(&self.stderr);
        Ok(self.code)
    }
}

/// Returns the name if the program is invoked as the reference tool.
#[must_use]
pub fn reference_tool_name(program: &OsStr) -> Option<&str> {
    let name = Path::new(program).file_name()?.to_str()?;
    NAMES.contains(&name).then_some(name)
}

/// Runs the reference tool.
///
/// # Errors
/// The output cannot be written.
pub fn run_reference_tool(program: &str, arguments: &[OsString]) -> CommandResult {
    let printed = match click::parse(program, arguments) {
        Ok(click::ReferenceCommand::Validate(path)) => validate_skill(&path),
        Ok(click::ReferenceCommand::ReadProperties(path)) => read_properties(&path),
        Ok(click::ReferenceCommand::ToPrompt(paths)) => to_prompt_of(&paths),
        Err(output) => output,
    };
    printed.print(Output { json: false })
}

/// Returns the output if one of the paths of `skillhost skill <command>` cannot be read.
pub(super) fn path_error_output<'a>(
    command: &str,
    paths: impl IntoIterator<Item = &'a PathBuf>,
) -> Option<ReferenceToolOutput> {
    click::bad_path("skillhost skill", command, paths.into_iter().map(|path| path.as_os_str()))
}

fn validate_skill(path: &Path) -> ReferenceToolOutput {
    let dir = skill_directory(path);
    let display_path = as_python_writes_it(&dir);
    let report = if fs::metadata(&dir).is_ok_and(|metadata| metadata.is_dir()) {
        match read(&dir) {
            Ok(Some((file, bytes))) => {
                let dir_name = name(&dir);
                let file_name = file.file_name().and_then(OsStr::to_str);
                let input =
                    SkillInput { dir_name: &dir_name, file_name, bytes: &bytes, files: None };
                format_output(&display_path, &validate_reference(&input))
            }
            Ok(None) => {
                let input = SkillInput { dir_name: "", file_name: None, bytes: &[], files: None };
                format_output(&display_path, &validate_reference(&input))
            }
            Err(problem) => failure_output(&display_path, &problem),
        }
    } else {
        failure_output(&display_path, &format!("Not a directory: {display_path}"))
    };
    let code = if report.stderr.is_empty() { exit::OK } else { exit::FINDINGS };
    ReferenceToolOutput { code, stdout: report.stdout, stderr: report.stderr }
}

fn failure_output(display_path: &str, problem: &str) -> reference::ValidationOutput {
    let stderr = format!("Validation failed for {display_path}:\n  - {problem}\n");
    reference::ValidationOutput { stderr, ..reference::ValidationOutput::default() }
}

/// Returns the output of `read-properties`.
pub(super) fn read_properties(path: &Path) -> ReferenceToolOutput {
    let dir = skill_directory(path);
    let json =
        |properties: ReferenceProperties| properties.to_json().map_err(|error| error.to_string());
    match properties(&dir).and_then(|(_, properties)| json(properties)) {
        Ok(json) => ReferenceToolOutput::result(&json),
        Err(problem) => ReferenceToolOutput::error(&problem),
    }
}

/// Returns the output of `to-prompt`.
pub(super) fn to_prompt_of(paths: &[PathBuf]) -> ReferenceToolOutput {
    let skill = |path: &PathBuf| {
        let (file, properties) = properties(&resolve_path(path)?)?;
        Ok(PromptSkill { properties, location: as_python_writes_it(&file) })
    };
    let skills = paths.iter().map(skill).collect::<Result<Vec<_>, String>>();
    let block = |skills: Vec<_>| to_prompt(&skills).map_err(|error| error.to_string());
    match skills.and_then(block) {
        Ok(block) => ReferenceToolOutput::result(&block),
        Err(problem) => ReferenceToolOutput::error(&problem),
    }
}

/// Returns the block of the formal specification; skills are parsed as the loader parses them.
pub(super) fn to_prompt_boxxy_of(paths: &[PathBuf]) -> ReferenceToolOutput {
    let skill = |path: &PathBuf| {
        let dir = resolve_path(path)?;
        let (file, bytes) = read(&dir)?.ok_or_else(|| not_found(&dir))?;
        let dir_name = name(&dir);
        let location = as_python_writes_it(&file);
        let head = skill_format::parse_skill(&dir_name, &bytes)
            .map_err(|rejected| *rejected)
            .map_or_else(|rejected| rejected, |skill| skill.parsed);
        match head.frontmatter {
            Some(it) => Ok((it.name.unwrap_or(dir_name), it.description, location)),
            None => {
                let problem = head.diagnostics.into_iter().map(|found| found.message).next();
                Err(format!("{location}: {}", problem.unwrap_or_default()))
            }
        }
    };
    match paths.iter().map(skill).collect::<Result<Vec<_>, String>>() {
        Ok(skills) => {
            let skills = skills.iter().map(|(name, description, location)| BoxxySkill {
                name,
                description,
                location,
            });
            ReferenceToolOutput::result(&to_prompt_boxxy(&skills.collect::<Vec<_>>()))
        }
        Err(problem) => ReferenceToolOutput::error(&problem),
    }
}

/// Returns the absolute path of a skill's directory, with links resolved.
fn resolve_path(path: &Path) -> Result<PathBuf, String> {
    let dir = skill_directory(path);
    fs::canonicalize(&dir).map_err(|error| format!("{}: {error}", dir.display()))
}

fn not_found(dir: &Path) -> String {
    format!("SKILL.md not found in {}", as_python_writes_it(dir))
}

fn properties(dir: &Path) -> Result<(PathBuf, ReferenceProperties), String> {
    let (file, bytes) = read(dir)?.ok_or_else(|| not_found(dir))?;
    let properties = load_reference_skill(&bytes).and_then(|skill| skill.properties());
    properties
        .map(|properties| (file, properties))
        .map_err(|error: ReferenceError| error.to_string())
}

/// Reads a skill's file, or returns `None` if it is missing. Links are followed, as in the
/// reference.
fn read(dir: &Path) -> Result<Option<(PathBuf, Vec<u8>)>, String> {
    for file_name in FILE_NAMES {
        let file = dir.join(file_name);
        let describe = |problem: &str| format!("{}: {problem}", as_python_writes_it(&file));
        match fs::metadata(&file) {
            // Reading a FIFO would block.
            Ok(metadata) if !metadata.is_file() => {
                return Err(describe("it is not a regular file"));
            }
            Ok(_) => {
                let bytes = fs::read(&file).map_err(|error| describe(&error.to_string()))?;
                return Ok(Some((file, bytes)));
            }
            Err(_) => {}
        }
    }
    Ok(None)
}
