//! `skillhost skill new`: a new skill from a template.

use std::fs;
use std::io;
use std::path::Path;

use serde_json::json;
use skill_format::{Severity, SkillInput};
use skill_rules::{CheckOptions, CheckScope, Profile, check_skill};
use skillhost_files::temporary::{sweep_directory, temporary_name};
use skillhost_files::{sync_directory, sync_tree, write_new_file};
use skillhost_payload::is_hidden;
use skillhost_terminal::{CliContext, CliError, CommandResult, display_safe, exit};

use crate::arguments::NewArgs;

/// A template of a skill.
struct SkillTemplate {
    name: &'static str,
    summary: &'static str,
    /// Paths relative to the skill's directory and their texts, SKILL.md first.
    files: &'static [(&'static str, &'static str)],
    /// The subcommand of `skill` that runs the skill's code, and its words after the id.
    run: Option<(&'static str, &'static str)>,
}

macro_rules! file {
    ($template:literal, $path:literal) => {
        ($path, include_str!(concat!("../templates/skill/", $template, "/", $path)))
    };
}

const TEMPLATES: [SkillTemplate; 6] = [
    SkillTemplate {
        name: "minimal",
        summary: "instructions alone",
        files: &[file!("minimal", "SKILL.md")],
        run: None,
    },
    SkillTemplate {
        name: "full",
        summary: "every field of the specification, and a reference",
        files: &[file!("full", "SKILL.md"), file!("full", "references/details.md")],
        run: None,
    },
    SkillTemplate {
        name: "script",
        summary: "instructions around a script",
        files: &[file!("script", "SKILL.md"), file!("script", "scripts/run.sh")],
        run: Some(("run", "scripts/run.sh FILE")),
    },
    SkillTemplate {
        name: "reference",
        summary: "answers out of references",
        files: &[
            file!("reference", "SKILL.md"),
            file!("reference", "references/terms.md"),
            file!("reference", "references/tasks.md"),
        ],
        run: None,
    },
    SkillTemplate {
        name: "handler",
        summary: "a tool in JavaScript",
        files: &[
            file!("handler", "SKILL.md"),
            file!("handler", "tool.json"),
            file!("handler", "index.mjs"),
        ],
        run: Some(("call", "'{\"text\": \"two words\"}'")),
    },
    SkillTemplate {
        name: "handler-python",
        summary: "a tool in Python",
        files: &[
            file!("handler-python", "SKILL.md"),
            file!("handler-python", "tool.json"),
            file!("handler-python", "index.py"),
        ],
        run: Some(("call", "'{\"text\": \"two words\"}'")),
    },
];

pub(super) fn cmd_skill_new(session: &CliContext, args: &NewArgs) -> CommandResult {
    let template = template(&args.template)?;
    let files: Vec<(&str, String)> =
        template.files.iter().map(|(path, text)| (*path, fill(text, &args.id))).collect();
    check_id(&args.id, files.first().map_or("", |(_, text)| text))?;
    let parent = match &args.dir {
        Some(dir) => session.environment.current_dir.join(dir),
        // Skills do not require a home.
        None => match session.home() {
            Ok(home) => {
                home.check_links("skills")?;
                home.root().join("sandbox/skills")
            }
            Err(_) => session.environment.current_dir.clone(),
        },
    };
    let folder = parent.join(&args.id);
    create_directory(&parent, &folder, &files)?;
    let output = session.output;
    if output.json {
        let paths: Vec<_> = files.iter().map(|(path, _)| folder.join(path)).collect();
        output.print_json(&json!({
            "id": args.id,
            "template": template.name,
            "folder": folder,
            "files": paths,
        }))?;
    } else {
        let place = display_safe(&folder.display().to_string());
        output.print_line(format!("made {place}"))?;
        output.print_line("next:")?;
        output.print_line("  write in `description` what it does and when to use it")?;
        for (path, _) in &files {
            output.print_line(format!("  edit {place}/{path}"))?;
        }
        output.print_line(format!("  skillhost skill validate {place}"))?;
        output.print_line(format!("  skillhost skill lint {place}"))?;
        // Code of a skill outside of a home is found by its root alone.
        if let Some((command, words)) =
            template.run.filter(|_| args.dir.is_none() && session.home().is_ok())
        {
            output.print_line(format!("  skillhost skill {command} {} {words}", args.id))?;
        }
    }
    Ok(exit::OK)
}

fn template(name: &str) -> Result<&'static SkillTemplate, CliError> {
    TEMPLATES.iter().find(|template| template.name == name).ok_or_else(|| {
        let list: Vec<_> =
            TEMPLATES.iter().map(|it| format!("{}: {}", it.name, it.summary)).collect();
        CliError::usage(format!("template `{name}` not found"))
            .with_hint(format!("the templates are\n{}", list.join("\n")))
    })
}

/// Rejects an id that the rules of a profile reject, with the same message.
fn check_id(id: &str, text: &str) -> Result<(), CliError> {
    let hint = "write lower-case letters, digits and single hyphens, such as `pdf-forms`";
    // An id with control characters or separators would also break the template.
    if id.is_empty() || id.contains(|c: char| is_hidden(c) || "/\\:#'\"".contains(c)) {
        return Err(CliError::usage(format!("`{id}` cannot be the id of a skill")).with_hint(hint));
    }
    let input = SkillInput {
        dir_name: id,
        file_name: Some("SKILL.md"),
        bytes: text.as_bytes(),
        files: None,
    };
    for profile in Profile::ALL {
        let report = check_skill(&input, CheckOptions { profile, scope: CheckScope::Validate });
        if let Some(found) = report.with_severity(Severity::Error).next() {
            let message =
                format!("`{id}` cannot be the id of a skill: {} [{}]", found.message, found.rule);
            return Err(CliError::usage(message).with_hint(hint));
        }
    }
    Ok(())
}

fn fill(template: &str, id: &str) -> String {
    let words = id.replace('-', " ");
    let mut characters = words.chars();
    let first = characters.next().map(|c| c.to_ascii_uppercase());
    let title: String = first.into_iter().chain(characters).collect();
    template.replace("{{id}}", id).replace("{{words}}", &words).replace("{{title}}", &title)
}

/// Creates a directory atomically: it is written under a name that scans skip and renamed once it
/// is on disk.
///
/// # Errors
/// The directory exists, or the disk failed.
pub fn create_directory(
    parent: &Path,
    folder: &Path,
    files: &[(&str, String)],
) -> Result<(), CliError> {
    fs::create_dir_all(parent).map_err(|error| CliError::io(parent, &error))?;
    // A leftover directory has a name that scans skip.
    let _ = sweep_directory(parent);
    let id = folder.file_name().unwrap_or_default().to_string_lossy();
    let staged = parent.join(temporary_name(&format!("new-{id}")));
    let failed = |error: io::Error| {
        let failed = CliError::io(folder, &error);
        if failed.code() == exit::CONFLICT { failed.with_hint("choose another id") } else { failed }
    };
    let made = write_tree(&staged, files).and_then(|()| place(&staged, folder, parent));
    if made.is_err() {
        // The original error is the one worth reporting.
        let _ = fs::remove_dir_all(&staged);
    }
    made.map_err(failed)
}

fn write_tree(folder: &Path, files: &[(&str, String)]) -> io::Result<()> {
    fs::create_dir(folder)?;
    for (path, text) in files {
        let path = folder.join(path);
        fs::create_dir_all(path.parent().unwrap_or(folder))?;
        let mode = text.starts_with("#!").then_some(0o777);
        write_new_file(&path, text.as_bytes(), mode)?;
    }
    sync_tree(folder)
}

fn place(staged: &Path, folder: &Path, parent: &Path) -> io::Result<()> {
    if folder.symlink_metadata().is_ok() {
        // `create_dir` fails with the system's own error.
        return fs::create_dir(folder);
    }
    fs::rename(staged, folder).and_then(|()| sync_directory(parent))
}
