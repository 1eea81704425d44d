//! `skillhost skill`: skills of a home, without a kernel.

use std::collections::HashMap;
use std::io::Write as _;
use std::path::Path;
use std::sync::Arc;

use serde_json::{Value, json};
use skill_catalog::{
    Audience, ScanProblem, Skill, SkillRoot, SkillState, Snapshot, Store, StoreOptions,
    SystemClock, TrustLevel,
};
use skill_format::{Digest, SkillId};
use skill_ledger::{ApprovalStatus, Ledger, ToolGrant};
use skill_service::{
    ListSkillsArgs, ReadResourceArgs, ReadSkillArgs, RegistryConfig, ToolAnswer, list_skills,
    matching_skills, read_skill, read_skill_resource,
};
use skill_testing::AcceptanceCheck;
use skillhost_home::{Home, discover_manifests};
use skillhost_terminal::{
    BOLD, CliContext, CliError, CommandResult, DIM, Output, RED, YELLOW, display_safe, exit,
    ignore_broken_pipe, resolve_id, sanitize, wrap_line,
};

use super::script_approval::ScriptApproval;
use super::wording::registry_error;
use super::{declared, programs};
use crate::arguments::SkillRoots;

/// The extension whose configuration names the skill roots.
pub const REGISTRY: &str = "skill_registry";

pub(super) fn cmd_skill_list(
    session: &CliContext,
    query: Option<&str>,
    tag: &[String],
    roots: &SkillRoots,
) -> CommandResult {
    let store = open_readable_store(session, roots)?;
    let tags = (!tag.is_empty()).then(|| tag.to_vec());
    let args = ListSkillsArgs { query: query.map(str::to_owned), limit: Some(usize::MAX), tags };
    let snapshot = store.snapshot();
    print_list(session.output, &snapshot, &args, &approval_statuses(session, roots, &snapshot))?;
    Ok(exit::OK)
}

pub(super) fn cmd_skill_show(session: &CliContext, id: &str, roots: &SkillRoots) -> CommandResult {
    let store = open_readable_store(session, roots)?;
    let snapshot = store.snapshot();
    let id = &resolve_skill(&snapshot, id)?;
    let standing = approval_statuses(session, roots, &snapshot);
    let mut grants = Vec::new();
    if roots.roots.is_empty() {
        grants = tool_grants(session, &store, &snapshot);
    }
    let scripts = ScriptApproval::read(session, (&store, &snapshot), id);
    show_skill(session.output, (&store, &snapshot), id, &standing, &grants, scripts.as_ref())?;
    Ok(exit::OK)
}

pub(super) fn cmd_skill_read(session: &CliContext, id: &str, roots: &SkillRoots) -> CommandResult {
    let store = open_readable_store(session, roots)?;
    let snapshot = store.snapshot();
    let args = ReadSkillArgs { skill_id: resolve_skill(&snapshot, id)? };
    let answer =
        read_skill(&store, &snapshot, Audience::Operator, &args).map_err(registry_error)?;
    print(session.output, &answer)?;
    Ok(exit::OK)
}

pub(super) fn cmd_skill_resource(
    session: &CliContext,
    id: &str,
    path: &str,
    roots: &SkillRoots,
) -> CommandResult {
    let store = open_readable_store(session, roots)?;
    let id = resolve_skill(&store.snapshot(), id)?;
    print_resource(session.output, &store, &id, path)?;
    Ok(exit::OK)
}

/// Opens the roots from the command line, else those of the home.
pub(crate) fn open_store(session: &CliContext, roots: &SkillRoots) -> Result<Store, CliError> {
    let options =
        if roots.roots.is_empty() { home_options(session)? } else { root_options(session, roots)? };
    Store::open(options, Arc::new(SystemClock))
        .map_err(|error| CliError::usage(error.to_string()).with_hint("see: skillhost config"))
}

/// Opens the roots as [`open_store`] does; outside of a home, the working directory is the root.
pub(crate) fn open_readable_store(
    session: &CliContext,
    roots: &SkillRoots,
) -> Result<Store, CliError> {
    if !roots.roots.is_empty() || session.has_home() {
        return open_store(session, roots);
    }
    let here = &session.environment.current_dir;
    // A skill is found by its directory, which lies in the one above.
    let root = match (here.join("SKILL.md").exists(), here.parent()) {
        (true, Some(above)) => above,
        _ => here,
    };
    session.output.print_note(format!("no home here: these are the skills in {}", root.display()));
    let roots = SkillRoots { roots: vec![root.to_owned()] };
    open_store(session, &roots)
}

/// Returns the name of a skill, which may be given as a unique prefix of its id.
///
/// # Errors
/// Several skills have such an id.
pub(crate) fn resolve_skill(snapshot: &Snapshot, given: &str) -> Result<String, CliError> {
    // A skill that cannot be used is named exactly, and the command reports why.
    let is_problem = |problem: &Arc<ScanProblem>| {
        let place = problem.path.ancestors().take(2).filter_map(Path::file_name);
        place.into_iter().any(|name| name == given)
    };
    if snapshot.get(given).is_some() || snapshot.problems().iter().any(is_problem) {
        return Ok(given.to_owned());
    }
    resolve_id("skills", given, snapshot.skills().iter().map(|skill| skill.id().as_str()))
}

/// Opens the ledger of a home for decisions: each is preceded by the check of the change.
pub(crate) fn open_checked_ledger(session: &CliContext) -> Result<Ledger, CliError> {
    let home = session.home()?;
    let checks = registry_config(session, &home)?.review.checks;
    let data = home.data_dir(REGISTRY);
    let check =
        AcceptanceCheck::new(home_options(session)?, data, checks.is_required(), checks.model);
    Ok(open_ledger(&home).set_check(Arc::new(check)))
}

/// Opens the ledger of a home; that of an untrusted home is read-only.
pub(crate) fn open_ledger(home: &Home) -> Ledger {
    let ledger = Ledger::new(home.data_dir(REGISTRY), Arc::new(SystemClock));
    if home.is_untrusted() { ledger.read_only() } else { ledger }
}

/// Returns the approval status of the home's agent-created skills; empty for skills in other roots.
fn approval_statuses(
    session: &CliContext,
    roots: &SkillRoots,
    snapshot: &Snapshot,
) -> HashMap<SkillId, ApprovalStatus> {
    let Some(home) = session.home().ok().filter(|_| roots.roots.is_empty()) else {
        return HashMap::new();
    };
    let ledger = open_ledger(&home);
    let standing = ledger.approval_statuses(snapshot);
    for note in ledger.take_notes() {
        session.output.print_note(note);
    }
    // The skills remain readable if the ledger is not.
    standing.unwrap_or_else(|error| {
        session.output.print_note(format!("the authors of the skills are not known: {error}"));
        HashMap::new()
    })
}

/// Returns the tools in `allowed-tools` of the home's skills, and whether they are approved.
pub(super) fn tool_grants(
    session: &CliContext,
    store: &Store,
    snapshot: &Snapshot,
) -> Vec<ToolGrant> {
    let Ok(home) = session.home() else { return Vec::new() };
    let ledger = open_ledger(&home);
    let grants = ledger.tool_grants(store, snapshot);
    for note in ledger.take_notes() {
        session.output.print_note(note);
    }
    grants.unwrap_or_else(|error| {
        session
            .output
            .print_note(format!("the approvals of `allowed-tools` are not known: {error}"));
        Vec::new()
    })
}

fn root_options(session: &CliContext, roots: &SkillRoots) -> Result<StoreOptions, CliError> {
    let mut named = Vec::new();
    for (number, path) in roots.roots.iter().enumerate() {
        let path = session.environment.current_dir.join(path);
        if !path.is_dir() {
            let message = format!("{}: no such directory", path.display());
            return Err(CliError::new(exit::NOT_FOUND, message)
                .with_hint("--root names a directory with skills"));
        }
        // The first root is the most common one, so it has the plainest label.
        let label = if number == 0 { "root".to_owned() } else { format!("root{}", number + 1) };
        named.push(SkillRoot { label, path, trust: TrustLevel::Operator });
    }
    Ok(StoreOptions { roots: named, ..StoreOptions::default() })
}

pub(super) fn home_options(session: &CliContext) -> Result<StoreOptions, CliError> {
    let home = session.home()?;
    home.check_links("data")?;
    let mut config = registry_config(session, &home)?;
    if home.is_untrusted() {
        distrust(session, &home, &mut config.roots);
    }
    let share_dir = session.installation().and_then(|files| files.share_dir.as_deref());
    Ok(config.options(home.root(), share_dir))
}

/// Restricts the roots of an untrusted home: they count as untrusted, even if the settings declare
/// otherwise, and must lie in the home.
fn distrust(session: &CliContext, home: &Home, roots: &mut Vec<SkillRoot>) {
    for root in &mut *roots {
        root.trust = TrustLevel::Untrusted;
    }
    roots.retain(|root| {
        let path = home.root().join(&root.path);
        // A path that does not exist cannot lead out of the home.
        let inside = path.canonicalize().map_or(true, |path| path.starts_with(home.root()));
        if !inside {
            session.output.print_note(format!(
                "the root `{}` is left out: {} is not in the home, which is not trusted",
                root.label,
                path.display()
            ));
        }
        inside
    });
}

/// Reads the registry's configuration from the manifest and the settings of a home.
///
/// # Errors
/// The settings are not valid.
pub fn registry_config(session: &CliContext, home: &Home) -> Result<RegistryConfig, CliError> {
    let settings = session.settings(home)?.settings;
    let found = discover_manifests(home, session.installation(), &settings.allow_shadowing);
    let config = match found.manifests.get(REGISTRY) {
        Some(found) => settings.extension_config(&found.manifest),
        // Skills can be listed in a home without manifests.
        None => Value::Object(settings.extensions.get(REGISTRY).cloned().unwrap_or_default()),
    };
    serde_json::from_value(config).map_err(|error| {
        CliError::usage(format!("the configuration of {REGISTRY}: {error}"))
            .with_hint("see: skillhost config")
    })
}

fn print_list(
    output: Output,
    snapshot: &Snapshot,
    args: &ListSkillsArgs,
    standing: &HashMap<SkillId, ApprovalStatus>,
) -> Result<(), CliError> {
    let unapproved = |id: &SkillId| standing.get(id).is_some_and(|standing| !standing.approved);
    if output.json {
        let mut object = list_skills(snapshot, Audience::Operator, args).structured;
        for skill in object["skills"].as_array_mut().into_iter().flatten() {
            let id = skill["skill_id"].as_str().and_then(|id| SkillId::new(id).ok());
            if id.is_some_and(|id| unapproved(&id)) {
                skill["unapproved"] = true.into();
            }
        }
        object["problems"] = json!(snapshot.problems());
        return output.print_json(&object);
    }
    let width = snapshot.skills().iter().map(|skill| skill.id().as_str().chars().count());
    let width = width.max().unwrap_or_default().min(32);
    let (bold, dim) = if output.uses_color() { (BOLD, DIM) } else { Default::default() };
    let [bold, plain, dim, end] = [
        bold.render().to_string(),
        bold.render_reset().to_string(),
        dim.render().to_string(),
        dim.render_reset().to_string(),
    ];
    let mut stdout = output.buffered();
    let columns = output.width();
    let mut matched = 0;
    let mut line = String::new();
    for (skill, _) in matching_skills(snapshot, Audience::Operator, args) {
        matched += 1;
        let id = skill.id().as_str();
        line.clear();
        let (id_shown, description) =
            (sanitize(id), skill_format::shorten_description(skill.description()));
        // Separate writes instead of a format string save a tenth of the time at ten thousand
        // lines.
        for piece in [&*bold, &*id_shown, &*plain] {
            line.push_str(piece);
        }
        line.extend(std::iter::repeat_n(' ', 2 + width.saturating_sub(id.chars().count())));
        line.push_str(&sanitize(&description));
        let untrusted = if skill.trust() == TrustLevel::Untrusted { ", untrusted" } else { "" };
        let unapproved = if unapproved(skill.id()) { ", unapproved" } else { "" };
        let (comma, state) = match snapshot.state(skill) {
            SkillState::On => ("", ""),
            state => (", ", state.as_str()),
        };
        let tokens = skill.tokens().to_string();
        let source = sanitize(skill.source());
        for piece in [" ", &*dim, "[~", &*tokens, " tokens, ", &*source] {
            line.push_str(piece);
        }
        for piece in [untrusted, unapproved, comma, state, "]", &*end] {
            line.push_str(piece);
        }
        if let Some(columns) = columns {
            line = wrap_line(&line, columns, width + 2);
        }
        line.push('\n');
        ignore_broken_pipe(stdout.write_all(line.as_bytes()))?;
    }
    ignore_broken_pipe(stdout.flush())?;
    let total = snapshot.skills().len();
    if matched == 0 && total > 0 {
        output.print_note(format!("none of {total} skills matches"));
    }
    print_problems(output, snapshot);
    Ok(())
}

/// Prints the skills missing from the list with their reasons; warnings about listed skills are
/// only counted.
pub(super) fn print_problems(output: Output, snapshot: &Snapshot) {
    if snapshot.skills().is_empty() {
        let roots: Vec<_> =
            snapshot.roots().iter().map(|root| root.path.display().to_string()).collect();
        output.print_note(format!("no skills in {}", roots.join(", ")));
    }
    for problem in snapshot.problems().iter().filter(|problem| problem.skipped) {
        output.print_note(format!("skipped {problem}"));
    }
    let warned = snapshot.problems().iter().filter(|problem| !problem.skipped).count();
    if warned > 0 {
        let warnings = if warned == 1 { "warning" } else { "warnings" };
        output.print_note(format!(
            "{warned} {warnings}; `skillhost skill show ID` prints those of a skill"
        ));
    }
    for reason in snapshot.partial().into_iter().flat_map(|partial| &partial.reasons) {
        output.print_note(format!("the list is not complete: {reason}"));
    }
}

fn show_skill(
    output: Output,
    (store, snapshot): (&Store, &Snapshot),
    id: &str,
    standing: &HashMap<SkillId, ApprovalStatus>,
    grants: &[ToolGrant],
    scripts: Option<&ScriptApproval>,
) -> Result<(), CliError> {
    let args = ReadSkillArgs { skill_id: id.to_owned() };
    let read =
        read_skill(store, snapshot, Audience::Operator, &args).map_err(registry_error)?.structured;
    let skill = snapshot
        .get(id)
        .ok_or_else(|| CliError::new(exit::NOT_FOUND, format!("skill `{id}` not found")))?;
    let problems: Vec<&ScanProblem> = snapshot
        .problems()
        .iter()
        .map(|problem| &**problem)
        .filter(|problem| problem.path.starts_with(skill.dir()))
        .collect();
    let declared = declared::read_declarations(store, skill)?;
    let programs = programs::find_programs(skill);
    let standing = standing.get(skill.id());
    let winner =
        snapshot.get(skill.id().as_str()).is_some_and(|winner| winner.dir() == skill.dir());
    let grant = grants.iter().find(|grant| winner && grant.skill_id == *skill.id());
    if output.json {
        let mut object = describe(skill);
        object["skill_state"] = json!(snapshot.state(skill));
        // Most skills have no declarations.
        if !declared.is_empty() {
            object["extended"] = json!(declared);
        }
        if let Some(programs) = programs::to_json(skill, &programs) {
            object["tools"] = programs;
        }
        if let Some(standing) = standing {
            object["standing"] = json!(standing);
        }
        if let Some(grant) = grant {
            object["tool_grant"] = json!(grant);
        }
        if let Some(scripts) = scripts {
            object["scripts"] = scripts.to_json();
        }
        if let Some(reasons) = read.get("ineligible") {
            object["ineligible"] = reasons.clone();
        }
        for key in ["digest", "tokens", "requires", "resources", "more_resources", "notes", "state"]
        {
            object[key] = read[key].clone();
        }
        object["diagnostics"] = json!(problems);
        return output.print_json(&object);
    }
    let text = |key: &str| read[key].as_str().unwrap_or_default().to_owned();
    output.print_line(format!("{BOLD}{}{BOLD:#}", display_safe(skill.id().as_str())))?;
    print_field(output, "description", skill.description().trim_end())?;
    print_field(output, "location", &skill.location().display().to_string())?;
    print_field(output, "source", &format!("{} ({})", skill.source(), trust_name(skill)))?;
    let (state, setting) = (snapshot.state(skill), snapshot.matching_setting(skill));
    if state != SkillState::On {
        let by = match setting {
            Some(setting) if skill.is_model_invocable() => {
                format!("extensions.{REGISTRY}.skills.{setting} in skillhost.yaml")
            }
            _ => "disable-model-invocation in its SKILL.md".to_owned(),
        };
        print_field(output, "state", &format!("{} ({by})", state.as_str()))?;
    }
    for line in
        standing.map(|it| format_approval_status(skill.id().as_str(), it)).into_iter().flatten()
    {
        print_field(output, "standing", &line)?;
    }
    if let Some(ToolGrant { allowed_tools, approved, digest, .. }) = grant {
        let counts = if *approved { "calls need no question" } else { "not in force" };
        print_field(output, "allowed", &format!("{} ({counts})", allowed_tools.join(", ")))?;
        if !approved && standing.is_none() {
            print_field(output, "", &approval_command(skill.id().as_str(), digest))?;
        }
    }
    for (label, text) in scripts.map(ScriptApproval::lines).into_iter().flatten() {
        print_field(output, label, &text)?;
    }
    output.print_line(format!("SKILL.md digest sha256:{}", text("digest")))?;
    output.print_line(format!("tokens       approx. {}", read["tokens"]))?;
    for (label, values) in [("tags", skill.tags()), ("requires", skill.requires())] {
        if !values.is_empty() {
            print_field(output, label, &values.join(", "))?;
        }
    }
    for (label, text) in
        declared::lines(&declared).into_iter().chain(programs::lines(skill, &programs))
    {
        print_field(output, label, &text)?;
    }
    for resource in read["resources"].as_array().into_iter().flatten() {
        let path = resource["path"].as_str().unwrap_or_default();
        let kind = resource["kind"].as_str().unwrap_or_default();
        output.print_line(format!(
            "resource     {} {DIM}{kind}, {} bytes{DIM:#}",
            display_safe(path),
            resource["size"]
        ))?;
    }
    for note in read["notes"].as_array().into_iter().flatten().filter_map(Value::as_str) {
        print_field(output, "note", note)?;
    }
    for problem in problems {
        let colour = if problem.skipped { RED } else { YELLOW };
        let problem = display_safe(&problem.to_string());
        output.print_wrapped(&format!("{colour}diagnostic{colour:#}   {problem}"), 13)?;
    }
    Ok(())
}

/// Prints a labeled line; where it is wrapped, its other lines start below the text.
fn print_field(output: Output, label: &str, text: &str) -> Result<(), CliError> {
    output.print_wrapped(&format!("{label:<12} {}", display_safe(text)), 13)
}

fn trust_name(skill: &Skill) -> &'static str {
    match skill.trust() {
        TrustLevel::Operator => "trusted",
        TrustLevel::Untrusted => "untrusted: listed, cannot be bound, grants nothing",
    }
}

/// Returns the command that approves all files of a skill as they are.
fn approval_command(skill_id: &str, digest: &Digest) -> String {
    format!(
        "approve it as it is: skillhost skill approve {skill_id} --yes --digest sha256:{digest}"
    )
}

/// Describes the approval status of an agent-created skill.
fn format_approval_status(skill_id: &str, standing: &ApprovalStatus) -> Vec<String> {
    let author = standing.author.name();
    if standing.approved {
        return vec![format!("created by {author}, approved as it is")];
    }
    vec![
        format!("unapproved: created by {author}, cannot be bound and grants nothing"),
        approval_command(skill_id, &standing.digest),
    ]
}

fn describe(skill: &Skill) -> Value {
    json!({
        "skill_id": skill.id(),
        "name": skill.name(),
        "description": skill.description(),
        "when_to_use": skill.when_to_use(),
        "tags": skill.tags(),
        "location": skill.location(),
        "source": skill.source(),
        "trust": skill.trust(),
        "model_invocable": skill.is_model_invocable(),
        "user_invocable": skill.is_user_invocable(),
    })
}

fn print(output: Output, answer: &ToolAnswer) -> Result<(), CliError> {
    if !output.json {
        return output.print_text(&answer.text);
    }
    let mut object = answer.structured.clone();
    object["text"] = answer.text.clone().into();
    output.print_json(&object)
}

/// Prints a file: all pages of a text, or the bytes of a binary file.
fn print_resource(output: Output, store: &Store, id: &str, path: &str) -> Result<(), CliError> {
    let snapshot = store.snapshot();
    let mut args = ReadResourceArgs {
        skill_id: id.to_owned(),
        path: path.to_owned(),
        offset: None,
        limit: None,
    };
    loop {
        let answer =
            read_skill_resource(&snapshot, Audience::Operator, &args).map_err(registry_error)?;
        if output.json {
            return print(output, &answer);
        }
        match answer.structured["encoding"].as_str() {
            Some("base64") => {
                return Err(CliError::usage(format!("{} is not text", Path::new(path).display()))
                    .with_hint("--json prints it in base64"));
            }
            _ => output.print_raw(answer.structured["content"].as_str().unwrap_or(&answer.text))?,
        }
        match answer.structured["next_offset"].as_u64() {
            Some(next) => args.offset = Some(next),
            None => return Ok(()),
        }
    }
}
