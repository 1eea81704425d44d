//! Skills in the skill directories of other agents, served without a home: read-only and untrusted,
//! each with its origin.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use serde_json::{Map, Value};
use skill_catalog::{
    Audience, RegistryError, SkillRoot, Store, StoreOptions, SystemClock, TrustLevel,
};
use skill_service::{
    LOAD_SKILLS, READ_LOADED, SessionAnswer, SkillPublication, ToolAnswer, UNLOAD_SKILLS,
    list_skills, load_skills, read_loaded, read_skill, read_skill_resource, tool_specs,
};
use skillhost_home::Environment;
use skillhost_mcp::{Backend, BackendError, ChangeCounter, ClientSession, PromptArguments};
use skillhost_payload::{
    CallContext, CallOrigin, ErrorKind, PublishedBody, PublishedDetails, PublishedEntry,
    PublishedSkills, ToolAudience, ToolOutput, ToolSpec,
};
use skillhost_terminal::CliError;
use tokio::sync::watch;
use tokio::task::block_in_place;

/// The skill directories of agents, relative to the working directory and to the user's home
/// directory.
const FOLDERS: [(&str, &str); 2] = [("agents", ".agents/skills"), ("claude", ".claude/skills")];

/// The interval at which the directories are polled.
const POLL: Duration = Duration::from_secs(2);

/// A backend that serves the skills of directories.
pub(super) struct DirectoryBackend {
    store: Arc<Store>,
    publication: SkillPublication,
    changes: watch::Receiver<ChangeCounter>,
}

impl DirectoryBackend {
    /// Calls a tool and returns its text and its value; `None` if there is no such tool.
    fn call_tool(
        &self,
        name: &str,
        arguments: &Map<String, Value>,
    ) -> Option<Result<(String, Value), BackendError>> {
        let (store, snapshot) = (&self.store, self.store.snapshot());
        // A client has no thread.
        let context = CallContext { origin: CallOrigin::Mcp, ..CallContext::default() };
        let read = |answer: ToolAnswer| (answer.text, answer.structured);
        let session = |answer: SessionAnswer| (answer.text, answer.structured);
        Some(match name {
            "list_skills" => {
                parsed(arguments).map(|args| read(list_skills(&snapshot, Audience::Model, &args)))
            }
            "read_skill" => parsed(arguments).and_then(|args| {
                let answer = read_skill(store, &snapshot, Audience::Model, &args);
                answer.map(read).map_err(to_backend_error)
            }),
            "read_skill_resource" => parsed(arguments).and_then(|args| {
                let answer = read_skill_resource(&snapshot, Audience::Model, &args);
                answer.map(read).map_err(to_backend_error)
            }),
            LOAD_SKILLS => parsed(arguments).and_then(|args| {
                let answer = load_skills(store, &snapshot, &context, &args);
                answer.map(session).map_err(to_backend_error)
            }),
            READ_LOADED => parsed(arguments).and_then(|args| {
                let answer = read_loaded(&snapshot, &context, &args);
                answer.map(session).map_err(to_backend_error)
            }),
            _ => return None,
        })
    }

    /// Opens the directories of the working directory, of the user, and those from the command
    /// line, and watches them until the backend is dropped. Must be called within a runtime.
    pub(super) fn open(environment: &Environment, more: Vec<SkillRoot>) -> Result<Self, CliError> {
        let roots = folders(environment).into_iter().chain(more).collect();
        let options = StoreOptions { roots, ..StoreOptions::default() };
        let store = Store::open(options, Arc::new(SystemClock)).map_err(|error| {
            CliError::usage(error.to_string()).with_hint("give each root a label of its own")
        })?;
        let store = Arc::new(store);
        let (sender, changes) = watch::channel(ChangeCounter::default());
        let watched = Arc::clone(&store);
        tokio::spawn(async move {
            loop {
                tokio::select! {
                    // The backend holds the receiver, so its drop ends the task.
                    () = sender.closed() => return,
                    () = tokio::time::sleep(POLL) => {}
                }
                let polled = Arc::clone(&watched);
                // A scan blocks on the file system and must not hold a runtime thread.
                let report = tokio::task::spawn_blocking(move || polled.poll()).await;
                if report.is_ok_and(|report| report.changed) {
                    sender.send_modify(|change| change.0 += 1);
                }
            }
        });
        let publication = SkillPublication::new(Arc::clone(&store));
        Ok(Self { store, publication, changes })
    }
}

/// Returns the directories in order of precedence, the nearest first.
fn folders(environment: &Environment) -> Vec<SkillRoot> {
    let root =
        |label: String, path: PathBuf| SkillRoot { label, path, trust: TrustLevel::Untrusted };
    let below = |base: &Path, prefix: &str| {
        FOLDERS.map(|(label, folder)| root(format!("{prefix}{label}"), base.join(folder)))
    };
    let mut roots = below(&environment.current_dir, "").to_vec();
    let user = environment.user_home.as_ref().map(Path::new);
    // In the user's own directory both lists are the same and labels would collide.
    if let Some(user) = user.filter(|user| *user != environment.current_dir) {
        roots.extend(below(user, "user-"));
    }
    roots
}

#[async_trait]
impl Backend for DirectoryBackend {
    fn instructions(&self) -> String {
        "Skills are instructions for particular tasks. Before a task that a skill may cover, look \
         with list_skills and load it with read_skill. They come from untrusted \
         directories: list_skills names each one's source."
            .to_owned()
    }

    async fn tools(&self, _session: &ClientSession) -> Result<Vec<ToolSpec>, BackendError> {
        let mut specs = tool_specs(&self.store.snapshot(), Audience::Model);
        // Without a home there is neither a ledger to write to nor an operator.
        specs.retain(|tool| tool.read_only && tool.audience == ToolAudience::Agent);
        // No thread keeps loaded skills here.
        specs.retain(|tool| tool.name != UNLOAD_SKILLS);
        // Clients cache the list, so its order must not vary.
        specs.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(specs)
    }

    async fn call(
        &self,
        _session: &ClientSession,
        name: &str,
        arguments: &Map<String, Value>,
    ) -> Result<Option<ToolOutput>, BackendError> {
        let called = block_in_place(|| self.call_tool(name, arguments));
        called.map(|answer| answer.and_then(|(text, value)| output(text, &value))).transpose()
    }

    async fn generation(&self, _session: &ClientSession) -> Result<(u64, u64), BackendError> {
        // The tools never change here; only the skills have a generation.
        Ok((0, self.store.snapshot().generation()))
    }

    async fn skills(&self, _session: &ClientSession) -> Result<PublishedSkills, BackendError> {
        Ok(self.publication.list(Audience::Model))
    }

    async fn details(
        &self,
        _session: &ClientSession,
        skill_ids: &[&str],
    ) -> Result<Vec<PublishedDetails>, BackendError> {
        let found = block_in_place(|| self.publication.details(Audience::Model, skill_ids));
        for note in found.notes {
            tracing::warn!("{}", note.text);
        }
        Ok(found.details)
    }

    async fn stamp(&self, _session: &ClientSession, skill_ids: &[&str]) -> Option<u64> {
        Some(block_in_place(|| self.publication.stamp(Audience::Model, skill_ids)))
    }

    async fn read(
        &self,
        _session: &ClientSession,
        uri: &str,
    ) -> Result<PublishedBody, BackendError> {
        let read = block_in_place(|| self.publication.read(Audience::Model, uri));
        Ok(read.map_err(to_backend_error)?.0)
    }

    async fn directory(
        &self,
        _session: &ClientSession,
        uri: &str,
    ) -> Result<Vec<PublishedEntry>, BackendError> {
        let children = block_in_place(|| self.publication.directory(Audience::Model, uri));
        children.map_err(to_backend_error)
    }

    async fn prompt(
        &self,
        _session: &ClientSession,
        skill_id: &str,
        arguments: PromptArguments,
    ) -> Result<String, BackendError> {
        let made =
            block_in_place(|| self.publication.prompt(Audience::Model, skill_id, &arguments));
        Ok(made.map_err(to_backend_error)?.0.text)
    }

    fn changes(&self) -> watch::Receiver<ChangeCounter> {
        self.changes.clone()
    }
}

fn parsed<T: serde::de::DeserializeOwned>(
    arguments: &Map<String, Value>,
) -> Result<T, BackendError> {
    T::deserialize(arguments).map_err(|error| BackendError {
        kind: ErrorKind::InvalidArgument,
        message: error.to_string(),
        hint: "see the tool's input schema".to_owned(),
    })
}

fn json_error(error: &serde_json::Error) -> BackendError {
    BackendError { kind: ErrorKind::Failed, message: error.to_string(), hint: String::new() }
}

fn output(text: String, value: &Value) -> Result<ToolOutput, BackendError> {
    let structured = serde_json::value::to_raw_value(value).map_err(|error| json_error(&error))?;
    Ok(ToolOutput { text, structured: Some(structured), ..ToolOutput::default() })
}

fn to_backend_error(error: RegistryError) -> BackendError {
    BackendError { kind: error.kind, message: error.message, hint: error.hint.to_string() }
}
