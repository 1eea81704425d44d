//! The ids that a home has, for prefixes on the command line and for completion. Nothing is loaded.

use skillhost_conversation::ThreadStore;
use skillhost_home::{Approvals, discover_manifests};
use skillhost_manifest::Manifest;
use skillhost_operations::TaskCommand;
use skillhost_terminal::{CliContext, CliError, resolve_id};

use crate::cli::{AgentCommand, ExtensionCommand, ScheduleCommand, ToolCommand, TopLevelCommand};
use crate::kernel_session::open_models;

/// An id, and a text about it; the text is not trusted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct KnownId {
    pub(crate) id: String,
    pub(crate) about: String,
}

/// Replaces prefixes of ids in a command by the ids. Ids of skills are left to their commands, and a
/// name of a model or of a tool to be called is never completed: a longer one may also be valid.
///
/// # Errors
/// Several ids start with a prefix.
pub(crate) fn expand_ids(
    session: &CliContext,
    command: &mut TopLevelCommand,
) -> Result<(), CliError> {
    let (kind, given) = match command {
        TopLevelCommand::Agent(AgentCommand::Show { id }) => (IdKind::Agent, id),
        TopLevelCommand::Tool(ToolCommand::List { agent: Some(id) }) => (IdKind::Agent, id),
        TopLevelCommand::Ask(args) => match &mut args.talk.agent {
            Some(id) => (IdKind::Agent, id),
            None => return Ok(()),
        },
        TopLevelCommand::Chat(args) => match &mut args.talk.agent {
            Some(id) => (IdKind::Agent, id),
            None => return Ok(()),
        },
        TopLevelCommand::Skill(command) => match command.agent_mut() {
            Some(id) => (IdKind::Agent, id),
            None => return Ok(()),
        },
        TopLevelCommand::Extension(
            ExtensionCommand::Reload { id }
            | ExtensionCommand::Rollback { id }
            | ExtensionCommand::Revoke { id },
        ) => (IdKind::Extension, id),
        TopLevelCommand::Extension(ExtensionCommand::Build(args)) => {
            (IdKind::Extension, &mut args.id)
        }
        TopLevelCommand::Extension(ExtensionCommand::Approve(args)) => {
            (IdKind::Extension, &mut args.id)
        }
        TopLevelCommand::Task(TaskCommand::Submit(args)) => match args.agent_mut() {
            Some(id) => (IdKind::Agent, id),
            None => return Ok(()),
        },
        TopLevelCommand::Schedule(ScheduleCommand::Run { id }) => (IdKind::Schedule, id),
        _ => return Ok(()),
    };
    let (name, known) = match kind {
        IdKind::Agent => ("agents", agents(session)),
        IdKind::Extension => ("extensions", extensions(session)),
        IdKind::Schedule => ("schedules", schedules(session)),
    };
    *given = resolve_id(name, given, known.iter().map(|known| known.id.as_str()))?;
    Ok(())
}

/// A kind of id that may be shortened.
enum IdKind {
    Agent,
    Extension,
    Schedule,
}

/// Returns the agents of the home.
pub(crate) fn agents(session: &CliContext) -> Vec<KnownId> {
    let manifests = manifests(session).into_iter().filter(|manifest| manifest.agent().is_some());
    manifests.map(|manifest| described(&manifest)).collect()
}

/// Returns the extensions and agents of the home, approved or not.
pub(crate) fn extensions(session: &CliContext) -> Vec<KnownId> {
    let mut known: Vec<KnownId> = manifests(session).iter().map(described).collect();
    let Ok(home) = session.home() else { return known };
    // A manifest with an error has no id, and an approved extension may be gone.
    let directories = std::fs::read_dir(home.extensions_dir()).into_iter().flatten().flatten();
    let mut others: Vec<String> =
        directories.filter_map(|entry| entry.file_name().into_string().ok()).collect();
    if let Ok(approvals) = Approvals::load(&home) {
        others.extend(approvals.by_id().into_keys().map(str::to_owned));
    }
    others.retain(|id| !id.starts_with('.') && known.iter().all(|known| known.id != *id));
    known.extend(others.into_iter().map(|id| KnownId { id, about: String::new() }));
    known
}

/// Returns the scheduled jobs of the home.
pub(crate) fn schedules(session: &CliContext) -> Vec<KnownId> {
    let jobs = manifests(session).into_iter().flat_map(|manifest| {
        let id = manifest.id.to_string();
        let jobs = manifest.schedules.into_iter();
        jobs.map(move |job| KnownId { id: format!("{id}/{}", job.name), about: job.cron })
    });
    jobs.collect()
}

/// The number of threads whose titles are read: a journal takes longer to read than its name.
const MAX_TITLES: usize = 50;

/// Returns the stored threads that start with a text, the newest first, those with their titles.
pub(crate) fn threads(session: &CliContext, start: &str) -> Vec<KnownId> {
    let Ok(home) = session.trusted_home() else { return Vec::new() };
    let store = ThreadStore::new(&home);
    let mut ids = store.ids().unwrap_or_default();
    ids.retain(|id| id.starts_with(start));
    // Ids start with the time of their creation.
    ids.sort_unstable_by(|a, b| b.cmp(a));
    let known = ids.into_iter().enumerate().map(|(index, id)| {
        let contents = (index < MAX_TITLES).then(|| store.read(&id).ok()).flatten();
        KnownId { id, about: contents.map(|it| it.summary.title).unwrap_or_default() }
    });
    known.collect()
}

/// Returns the models that the settings and the agents name.
pub(crate) fn models(session: &CliContext) -> Vec<KnownId> {
    let Ok(home) = session.home() else { return Vec::new() };
    let Ok(loaded) = session.settings(&home) else { return Vec::new() };
    let mut names = open_models(session, &home, &loaded.settings).known_models();
    let manifests = manifests(session);
    names.extend(manifests.iter().filter_map(|manifest| manifest.agent()?.model.clone()));
    names.sort();
    names.dedup();
    names.into_iter().map(|id| KnownId { id, about: String::new() }).collect()
}

/// Returns the manifests of the home, of approved extensions or not; none without a home.
fn manifests(session: &CliContext) -> Vec<Manifest> {
    let Ok(home) = session.home() else { return Vec::new() };
    // Faulty settings are reported by the command itself.
    let shadowing = session.settings(&home).map(|loaded| loaded.settings.allow_shadowing);
    let found = discover_manifests(&home, session.installation(), &shadowing.unwrap_or_default());
    let all = found.manifests.into_values().chain(found.unapproved.into_values());
    all.map(|found| Manifest::clone(&found.manifest)).collect()
}

fn described(manifest: &Manifest) -> KnownId {
    KnownId { id: manifest.id.to_string(), about: manifest.name.clone() }
}
