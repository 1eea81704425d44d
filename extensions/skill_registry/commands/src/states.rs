//! `skillhost skill enable` and `skill disable`: the states of skills in the settings.

mod edit;

use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::path::Path;

use serde::Serialize;
use serde_json::json;
use skill_catalog::{Audience, SkillState, Snapshot};
use skill_service::RegistryConfig;
use skillhost_control::{ControlRequest, ReloadOutcome};
use skillhost_files::{ReplaceError, replace_file, write_atomically};
use skillhost_home::{Home, Settings};
use skillhost_terminal::{CliContext, CliError, CommandResult, display_safe, exit};

use super::home_skills::{self, REGISTRY};
use crate::arguments::{DisableArgs, EnableArgs, SkillRoots};

/// The change of one skill's state.
#[derive(Debug, Serialize)]
struct StateChange {
    skill_id: String,
    from: SkillState,
    to: SkillState,
}

pub(super) fn cmd_skill_enable(session: &CliContext, args: &EnableArgs) -> CommandResult {
    change(session, &args.ids, SkillState::On)
}

pub(super) fn cmd_skill_disable(session: &CliContext, args: &DisableArgs) -> CommandResult {
    let state = match (args.name_only, args.user_only) {
        (true, _) => SkillState::NameOnly,
        (_, true) => SkillState::UserOnly,
        _ => SkillState::Off,
    };
    change(session, &args.ids, state)
}

fn change(session: &CliContext, ids: &[String], to: SkillState) -> CommandResult {
    let home = session.home()?;
    let snapshot = home_skills::open_store(session, &SkillRoots { roots: Vec::new() })?.snapshot();
    for id in ids {
        check_exists(&snapshot, id)?;
    }
    let path = home.settings_file();
    let before = read(&path)?;
    let text = before.as_deref().unwrap_or_default();
    let settings = Settings::parse(&path, text)?;
    let (old, mut new) = (read_states(&settings)?, read_states(&settings)?);
    let mut changes: Vec<StateChange> = Vec::new();
    for id in ids {
        let from = state(&old, id);
        set(&mut new, id, to);
        if from != to && !changes.iter().any(|change| change.skill_id == *id) {
            changes.push(StateChange { skill_id: id.clone(), from, to });
        }
    }
    let mut taken_over = false;
    if new != old {
        let edited = edit::edit_settings(text, &old, &new);
        write(&path, before.as_deref(), &verify_edit(&path, &settings, &new, edited)?)?;
        taken_over = reload_running_kernel(session, &home)?;
    }
    let output = session.output;
    for id in ids {
        let stays = snapshot.get(id).is_some_and(|skill| !skill.is_model_invocable());
        if stays && to < SkillState::UserOnly {
            output.print_note(format!(
                "`{id}` stays user-only: its SKILL.md sets disable-model-invocation"
            ));
        }
    }
    let in_force = read_states(&session.settings(&home)?.settings)?;
    if ids.iter().any(|id| state(&in_force, id) != to) {
        output.print_note("a variable overrides skillhost.yaml; see: skillhost config");
    }
    if output.json {
        output.print_json(&json!({
            "settings": path,
            "state": to,
            "skills": ids,
            "changed": changes,
            "taken_over": taken_over,
        }))?;
        return Ok(exit::OK);
    }
    for id in ids {
        let state_text = match changes.iter().find(|change| change.skill_id == *id) {
            Some(StateChange { from, to, .. }) => format!("{} → {}", from.as_str(), to.as_str()),
            None => format!("{} already", to.as_str()),
        };
        output.print_line(format!("{}: {state_text}", display_safe(id)))?;
    }
    if taken_over {
        output.print_line("the running kernel uses it")?;
    }
    Ok(exit::OK)
}

/// States refer to bare ids: a state applies to every skill with its id.
fn check_exists(snapshot: &Snapshot, id: &str) -> Result<(), CliError> {
    if snapshot.get(id).is_some_and(|skill| skill.id().as_str() == id) {
        return Ok(());
    }
    let similar = snapshot.similar(id, Audience::Operator);
    let similar: Vec<String> = similar.iter().map(|id| format!("`{}`", display_safe(id))).collect();
    let error = CliError::new(exit::NOT_FOUND, format!("skill `{}` not found", display_safe(id)));
    Err(match similar.is_empty() {
        true => error.with_hint("`skillhost skill list` shows what there is"),
        false => error.with_hint(format!("did you mean {}?", similar.join(" or "))),
    })
}

fn read(path: &Path) -> Result<Option<String>, CliError> {
    match std::fs::read(path) {
        Ok(bytes) => String::from_utf8(bytes)
            .map(Some)
            .map_err(|_| CliError::usage(format!("{}: not UTF-8 text", path.display()))),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(CliError::io(path, &error)),
    }
}

/// Reads the states of single skills from the settings.
fn read_states(settings: &Settings) -> Result<BTreeMap<String, SkillState>, CliError> {
    let skills = settings.extensions.get(REGISTRY).and_then(|keys| keys.get("skills"));
    let Some(skills) = skills else { return Ok(BTreeMap::new()) };
    serde_json::from_value(skills.clone()).map_err(|error| {
        CliError::usage(format!("skillhost.yaml: extensions.{REGISTRY}.skills: {error}"))
            .with_hint("a state is one of on, name-only, user-only and off")
    })
}

fn state(states: &BTreeMap<String, SkillState>, id: &str) -> SkillState {
    RegistryConfig { skills: states.clone(), ..RegistryConfig::default() }.state_of(id)
}

/// Changes the state of an id; a skill that is on needs no entry unless a glob disables it.
fn set(states: &mut BTreeMap<String, SkillState>, id: &str, to: SkillState) {
    if to == SkillState::On {
        states.remove(id);
    }
    if state(states, id) != to {
        states.insert(id.to_owned(), to);
    }
}

/// Checks that an edited text has the requested states and otherwise the same settings.
fn verify_edit(
    path: &Path,
    before: &Settings,
    states: &BTreeMap<String, SkillState>,
    edited: Option<String>,
) -> Result<String, CliError> {
    let mut expected = before.clone();
    let keys = expected.extensions.entry(REGISTRY.to_owned()).or_default();
    keys.insert("skills".to_owned(), json!(states));
    edited
        .filter(|text| Settings::parse(path, text).is_ok_and(|after| after == expected))
        .ok_or_else(|| {
            let lines: Vec<_> =
                states.iter().map(|(id, state)| format!("{id}: {}", state.as_str())).collect();
            let message = format!("{} cannot be edited safely", path.display());
            CliError::usage(message).with_hint(format!(
                "write it yourself: extensions: {{{REGISTRY}: {{skills: {{{}}}}}}}",
                lines.join(", ")
            ))
        })
}

fn write(path: &Path, before: Option<&str>, text: &str) -> Result<(), CliError> {
    let Some(before) = before else {
        return write_atomically(path, text.as_bytes()).map_err(|error| CliError::io(path, &error));
    };
    replace_file(path, before.as_bytes(), text.as_bytes()).map_err(|error| {
        let code = match error {
            ReplaceError::Changed { .. } => exit::CONFLICT,
            _ => exit::IO,
        };
        CliError::new(code, error.to_string()).with_hint("nothing was changed")
    })
}

/// Requests a settings reload from the home's running kernel; returns whether one runs.
fn reload_running_kernel(session: &CliContext, home: &Home) -> Result<bool, CliError> {
    let request = ControlRequest::Reload { id: REGISTRY.to_owned() };
    match session.try_running_kernel::<ReloadOutcome>(home, &request) {
        Ok(reloaded) => Ok(reloaded.is_some()),
        Err(error) => Err(error.with_hint(
            "skillhost.yaml is changed; the running kernel still uses the earlier settings",
        )),
    }
}
