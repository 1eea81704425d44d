//! `skillhost skill render`.

mod theme;

use std::io::{self, IsTerminal as _, Write as _};
use std::ops::ControlFlow;
use std::path::{Component, Path};

use serde_json::json;
use skill_catalog::{FoundItem, FoundProblem, ProblemKind, find_skills};
use skill_compat::role::SkillRole;
use skill_format::{SkillText, TokenCount};
use skillhost_terminal::{
    CliContext, CliError, CommandResult, display_safe, exit, ignore_broken_pipe,
};

use self::theme::{ColorTheme, SkillPage};
use super::home_skills;
use super::wording::registry_error;
use crate::arguments::{RenderArgs, SkillRoots};

/// The width without a terminal, in columns.
const WIDTH: u16 = 80;

/// The minimum width at which tables and lists are readable.
const MIN_WIDTH: u16 = 30;

pub(super) fn cmd_skill_render(session: &CliContext, args: &RenderArgs) -> CommandResult {
    let skill = find(session, &args.skill)?;
    let width = args.width.unwrap_or_else(terminal_width).max(MIN_WIDTH);
    let role = SkillRole::from_name(&skill.name);
    let tokens = TokenCount::estimate(&skill.body);
    let page = SkillPage {
        name: &skill.name,
        role,
        tokens,
        description: &skill.description,
        body: &skill.body,
    };
    if session.output.json {
        session.output.print_json(&json!({
            "skill_id": skill.id,
            "name": skill.name,
            "description": skill.description,
            "trit": role.trit(),
            "role": role,
            "color": role.hex_color(),
            "tokens": tokens,
            "width": width,
            "text": page.render(ColorTheme::Plain, usize::from(width)),
        }))?;
        return Ok(exit::OK);
    }
    let theme = if session.output.uses_color() { ColorTheme::Role } else { ColorTheme::Plain };
    let text = page.render(theme, usize::from(width));
    let mut stdout = session.output.buffered();
    ignore_broken_pipe(stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()))?;
    Ok(exit::OK)
}

fn terminal_width() -> u16 {
    // Queried only if stdout is a terminal: crossterm would otherwise report another terminal.
    let terminal = io::stdout().is_terminal();
    let size = terminal.then(termimad::crossterm::terminal::size);
    size.and_then(Result::ok).map_or(WIDTH, |(columns, _)| columns)
}

/// A skill for display, with sanitized texts.
struct SanitizedSkill {
    id: String,
    name: String,
    description: String,
    body: String,
}

impl SanitizedSkill {
    fn new(id: &str, name: Option<&str>, description: &str, body: &str) -> Self {
        let clean = |text: &str| display_safe(&text.replace("\r\n", "\n"));
        Self {
            id: display_safe(id),
            name: clean(name.unwrap_or(id)),
            description: clean(description),
            body: clean(body),
        }
    }
}

/// Finds a skill by path, else by its id in the home.
fn find(session: &CliContext, named: &Path) -> Result<SanitizedSkill, CliError> {
    let mut parts = named.components();
    let one = match (parts.next(), parts.next()) {
        (Some(Component::Normal(name)), None) => name.to_str(),
        _ => None,
    };
    if let (Some(id), Err(_)) = (one, std::fs::symlink_metadata(named)) {
        let nowhere = |_| {
            let message = format!("`{id}` not found here, and no home found");
            CliError::new(exit::NOT_FOUND, message)
                .with_hint("name a skill's directory or its SKILL.md, or a home with --home")
        };
        session.home().map_err(nowhere)?;
        let store = home_skills::open_store(session, &SkillRoots { roots: Vec::new() })?;
        let snapshot = store.snapshot();
        let id = &*home_skills::resolve_skill(&snapshot, id)?;
        let Some(skill) = snapshot.get(id) else {
            let message = format!("skill `{id}` not found, neither here nor in the home");
            return Err(CliError::new(exit::NOT_FOUND, message).with_hint(
                "name a skill's directory, its SKILL.md, or one of: skillhost skill list",
            ));
        };
        let source = store.read(skill).map_err(registry_error)?;
        let frontmatter = &source.frontmatter;
        let name = frontmatter.name.as_deref();
        return Ok(SanitizedSkill::new(id, name, &frontmatter.description, source.body()));
    }
    on_disk(named)
}

fn on_disk(path: &Path) -> Result<SanitizedSkill, CliError> {
    let mut skills = Vec::new();
    let mut problem: Option<FoundProblem> = None;
    let _ = find_skills(path, &mut |found| {
        match found {
            FoundItem::Skill(skill) => skills.push(skill),
            FoundItem::Problem(found) if found.kind != ProblemKind::Link => {
                problem.get_or_insert(found);
            }
            FoundItem::Problem(_) => {}
        }
        if skills.len() > 1 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    });
    let (Some(mut skill), None) = (skills.pop(), skills.pop()) else {
        return Err(match problem {
            Some(problem) => to_cli_error(&problem),
            None => CliError::usage(format!("{} holds several skills", path.display()))
                .with_hint("name one of them"),
        });
    };
    let files = skill.read(false).map_err(|problem| to_cli_error(&problem))?;
    let unreadable = |message: &str| {
        let message = format!("{}: {message}", skill.path().display());
        CliError::new(exit::FINDINGS, message).with_hint("see: skillhost skill validate")
    };
    let parsed: SkillText<'_> = skill_format::parse_skill(&skill.dir_name, &files.bytes)
        .map_err(|rejected| unreadable(&first_message(&rejected)))?;
    let Some(frontmatter) = &parsed.parsed.frontmatter else {
        return Err(unreadable(&first_message(&parsed.parsed)));
    };
    let name = frontmatter.name.as_deref();
    Ok(SanitizedSkill::new(&skill.dir_name, name, &frontmatter.description, parsed.body()))
}

fn first_message(parsed: &skill_format::ParsedSkill) -> String {
    let error = parsed.diagnostics.iter().find(|it| it.severity == skill_format::Severity::Error);
    error.map(ToString::to_string).unwrap_or_default()
}

fn to_cli_error(problem: &FoundProblem) -> CliError {
    let code = match problem.kind {
        ProblemKind::NotFound => exit::NOT_FOUND,
        ProblemKind::NoSkill | ProblemKind::Unusable => exit::FINDINGS,
        _ => exit::IO,
    };
    CliError::new(code, format!("{}: {}", problem.path.display(), problem.message))
        .with_hint(problem.help)
}
