//! Agents: how their instructions are put together, and when again.
//!
//! Instructions = `prompt.jinja2`, then the bound skills in order, then the manifest's inline
//! `instructions`. The kernel knows skills only as an interface another extension answers.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use minijinja::context;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};
use skillhost_contract::payload::{
    CatalogScope, ErrorKind, SkillContent, SkillGeneration, SkillRequest, skill_interface,
};
use skillhost_manifest::{AgentCatalog, AgentManifest, ExtensionId, Manifest};

use crate::agent_files::read_agent_file;
use crate::discovery::DiscoveredManifest;
use crate::error::{CallError, KernelError, suggest_similar};
use crate::foreign_text::neutralize;
use crate::home::Home;
use crate::instance::Instance;
use crate::kernel::{ADDED, KernelState};
use crate::loader::to_hex;
use crate::templates::render_template;

/// The template of an agent's instructions, beside its manifest.
const PROMPT: &str = "prompt.jinja2";

/// Bytes of a rendered prompt at most.
const PROMPT_LIMIT: usize = 1024 * 1024;

/// Where a layer of instructions comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum InstructionLayerKind {
    /// `prompt.jinja2` beside the manifest.
    Prompt,
    /// A bound skill.
    Skill,
    /// `agent.instructions` in the manifest.
    Inline,
}

/// One layer of an agent's instructions.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct InstructionLayer {
    /// What it is.
    pub kind: InstructionLayerKind,
    /// A file, or the skill's source.
    pub source: String,
    /// The skill's id, for a skill.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub skill_id: Option<String>,
    /// sha256: of the SKILL.md for a skill, else of the text.
    pub digest: String,
    /// Estimated tokens of the text.
    pub tokens: u32,
    /// The text.
    pub text: String,
}

/// Why an agent's instructions could not be put together.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AgentError {
    /// What is wrong, naming file and line.
    pub reason: String,
    /// What to do about it.
    pub hint: String,
}

/// An agent's instructions as of one generation of the skills.
#[derive(Debug, Clone)]
pub struct ResolvedInstructions {
    /// The layers in order; empty in the error state.
    pub layers: Vec<InstructionLayer>,
    /// The layers' texts, joined.
    pub instructions: Arc<str>,
    /// Set when the agent is in the error state.
    pub problem: Option<AgentError>,
    /// The provider's `number` and the generation it gave.
    pub(crate) generation: Option<(u64, u64)>,
    /// The problem is a tool that is not there, or not now.
    pub(crate) lacks_tools: bool,
}

/// A declarative agent.
pub struct Agent {
    /// Its manifest.
    pub manifest: Arc<Manifest>,
    /// The manifest's file.
    pub path: std::path::PathBuf,
    /// Holds the private copy that the prompt is read from.
    found: DiscoveredManifest,
    pub(crate) resolved: ArcSwap<ResolvedInstructions>,
}

impl ResolvedInstructions {
    /// The error state.
    pub(crate) fn from_error(problem: AgentError) -> Self {
        Self {
            layers: Vec::new(),
            instructions: "".into(),
            problem: Some(problem),
            generation: None,
            lacks_tools: false,
        }
    }
}

impl Agent {
    pub(crate) fn new(found: &DiscoveredManifest, resolved: ResolvedInstructions) -> Self {
        Self {
            manifest: Arc::clone(&found.manifest),
            path: found.path.clone(),
            found: found.clone(),
            resolved: ArcSwap::from_pointee(resolved),
        }
    }

    /// The manifest and where its files are read.
    pub(crate) fn found(&self) -> &DiscoveredManifest {
        &self.found
    }

    /// The instructions in force.
    #[must_use]
    pub fn instructions(&self) -> Arc<ResolvedInstructions> {
        self.resolved.load_full()
    }

    /// The instructions in force, if the agent can take a turn.
    pub(crate) fn require_ready(&self) -> Result<Arc<ResolvedInstructions>, KernelError> {
        let resolved = self.instructions();
        match &resolved.problem {
            None => Ok(resolved),
            Some(AgentError { reason, hint }) => Err(KernelError::AgentFailed {
                id: self.manifest.id.clone(),
                reason: reason.clone(),
                hint: hint.clone(),
            }),
        }
    }

    /// The `agent` part of the manifest.
    #[must_use]
    pub fn agent_manifest(&self) -> &AgentManifest {
        self.manifest.agent().expect("only agents' manifests become agents")
    }
}

/// What resolving needs besides the manifest.
pub(crate) struct InstructionResolver<'a> {
    pub(crate) home: &'a Home,
    /// The extension that provides skills and is in reach of the agent's `depends_on`.
    pub(crate) provider: Option<&'a Instance>,
    /// A loaded extension that provides skills, for the hint.
    pub(crate) any_provider: Option<&'a ExtensionId>,
    pub(crate) limit: Duration,
}

impl InstructionResolver<'_> {
    /// Puts an agent's instructions together; a problem becomes the agent's error state.
    pub(crate) async fn resolve(&self, found: &DiscoveredManifest) -> ResolvedInstructions {
        // Asked before the skills are read: a change in between is then seen at the next turn.
        let generation = match self.provider {
            Some(provider) => fetch_skill_generation(provider, self.limit).await.ok(),
            None => None,
        };
        let (layers, problem) = match self.layers(found).await {
            Ok(layers) => (layers, None),
            Err(problem) => (Vec::new(), Some(problem)),
        };
        let texts: Vec<_> = layers.iter().map(|layer| neutralize(layer.text.trim_end())).collect();
        let instructions = texts.join("\n\n").into();
        ResolvedInstructions { layers, instructions, problem, generation, lacks_tools: false }
    }

    async fn layers(
        &self,
        found: &DiscoveredManifest,
    ) -> Result<Vec<InstructionLayer>, AgentError> {
        let DiscoveredManifest { manifest, path, .. } = found;
        let agent = manifest.agent().expect("only agents are resolved");
        let folder = found.directory();
        let mut layers = Vec::new();
        let shown = path.with_file_name(PROMPT);
        if let Some(text) = self.prompt(folder, &shown, manifest).await? {
            layers.push(build_layer(
                InstructionLayerKind::Prompt,
                shown.display().to_string(),
                text,
            ));
        }
        for skill in &agent.uses_skills {
            let place = format!("{}:{}:{}", path.display(), skill.line, skill.column);
            let provider = self.provider.ok_or_else(|| self.no_provider(&place, path))?;
            let content = get_skill(provider, skill, self.limit).await.map_err(|error| {
                AgentError { reason: format!("{place}: uses_skills: {error}"), hint: error.hint }
            })?;
            layers.push(InstructionLayer {
                kind: InstructionLayerKind::Skill,
                source: content.source,
                skill_id: Some(content.skill_id),
                digest: content.digest,
                tokens: content.tokens,
                text: content.text,
            });
        }
        if let Some(text) = &agent.instructions {
            layers.push(build_layer(
                InstructionLayerKind::Inline,
                path.display().to_string(),
                text.clone(),
            ));
        }
        Ok(layers)
    }

    fn no_provider(&self, place: &str, path: &Path) -> AgentError {
        let hint = match self.any_provider {
            Some(id) => format!("add `depends_on: [{id}]` to {}", path.display()),
            None => "load an extension that provides skills, such as skill_registry".to_owned(),
        };
        let reason = format!("{place}: uses_skills: no extension in depends_on provides skills");
        AgentError { reason, hint }
    }

    /// Renders `prompt.jinja2`, where there is one; templates are taken from the agent's own folder
    /// only.
    async fn prompt(
        &self,
        folder: &Path,
        shown: &Path,
        manifest: &Manifest,
    ) -> Result<Option<String>, AgentError> {
        let problem = |reason: String, hint: &str| AgentError {
            reason: format!("{}: {reason}", shown.display()),
            hint: hint.to_owned(),
        };
        match read_agent_file(folder, PROMPT) {
            Ok(Some(_)) => {}
            Ok(None) => return Ok(None),
            Err(error) => {
                let hint = "make it a regular file of at most 1 MiB in the agent's folder";
                return Err(problem(error.to_string(), hint));
            }
        }
        let variables = context! {
            home => self.home.root().display().to_string(),
            sandbox => self.home.sandbox_dir().display().to_string(),
            agent => context! { id => manifest.id.as_str(), name => manifest.name.as_str() },
        };
        let own = folder.to_owned();
        let loader = Box::new(move |name: &str| {
            read_agent_file(&own, name).map_err(|error| {
                let kind = minijinja::ErrorKind::InvalidOperation;
                minijinja::Error::new(kind, format!("`{name}`: {error}"))
            })
        });
        let rendered = render_template(loader, PROMPT, variables, PROMPT_LIMIT).await;
        let rendered = rendered.map_err(|reason| {
            let hint = "variables are home, sandbox, agent.id and agent.name; an unknown one is \
                        an error";
            problem(reason, hint)
        })?;
        if rendered.is_cut {
            let reason = format!("it makes a prompt of more than {PROMPT_LIMIT} bytes");
            return Err(problem(reason, "make it shorter"));
        }
        Ok(Some(rendered.text))
    }
}

/// Says which names in `uses_tools` are those of nothing that is loaded. An extension that the agent
/// declares as an optional dependency may be missing.
pub(crate) fn find_missing_tools(
    state: &KernelState,
    path: &Path,
    manifest: &Manifest,
) -> Option<AgentError> {
    let agent = manifest.agent().expect("only agents use tools");
    let usable = state.tools.usable_names();
    let optional =
        |name: &str| manifest.depends_on.iter().any(|needed| needed.optional && needed.id == *name);
    let missing = agent.uses_tools.iter().filter(|used| {
        used.value != ADDED
            && !usable.contains(used.as_str())
            && !state.instances.contains_key(used.as_str())
            && !optional(used)
    });
    let (mut lines, mut hints) = (Vec::new(), Vec::new());
    for used in missing {
        let place = format!("{}:{}:{}", path.display(), used.line, used.column);
        lines.push(format!("{place}: uses_tools: no extension or tool `{}` is loaded", used.value));
        let near = suggest_similar(used, usable.iter().copied());
        if !near.is_empty() {
            hints.push(format!("did you mean {}?", near.join(", ")));
        }
    }
    hints.push("correct uses_tools, or install and enable what it names".to_owned());
    (!lines.is_empty()).then(|| AgentError { reason: lines.join("\n"), hint: hints.join("\n") })
}

fn build_layer(kind: InstructionLayerKind, source: String, text: String) -> InstructionLayer {
    let digest = to_hex(&Sha256::digest(text.as_bytes()));
    InstructionLayer { kind, source, skill_id: None, digest, tokens: estimate_tokens(&text), text }
}

/// Estimates tokens as a quarter of the characters, rounded up: the product's estimate everywhere.
pub(crate) fn estimate_tokens(text: &str) -> u32 {
    u32::try_from(text.chars().count().div_ceil(4)).unwrap_or(u32::MAX)
}

/// Asks a skill provider for its generation. Each build counts its own, so the instance is a part of
/// the answer.
pub(crate) async fn fetch_skill_generation(
    provider: &Instance,
    limit: Duration,
) -> Result<(u64, u64), CallError> {
    let reply = provider
        .call(skill_interface::NAME, skill_interface::GENERATION, Vec::new(), limit)
        .await?;
    let reply: SkillGeneration = read(&reply)?;
    Ok((provider.number, reply.generation))
}

async fn get_skill(
    provider: &Instance,
    id: &str,
    limit: Duration,
) -> Result<SkillContent, CallError> {
    let request = serde_json::to_vec(&SkillRequest { skill_id: id.into() })
        .map_err(|error| CallError::protocol_error(&error))?;
    let method = skill_interface::GET_SKILL_CONTENT;
    read(&provider.call(skill_interface::NAME, method, request, limit).await?)
}

fn read<T: serde::de::DeserializeOwned>(bytes: &[u8]) -> Result<T, CallError> {
    serde_json::from_slice(bytes)
        .map_err(|error| CallError::new(ErrorKind::Protocol, error.to_string()))
}

/// The agent's catalog scope in the contract's words.
pub(crate) fn catalog_scope(catalog: &AgentCatalog) -> CatalogScope {
    match catalog {
        AgentCatalog::All => CatalogScope::All,
        AgentCatalog::Declared => CatalogScope::Declared,
        AgentCatalog::None => CatalogScope::None,
        AgentCatalog::Globs { include, exclude } => {
            CatalogScope::Globs { include: include.clone(), exclude: exclude.clone() }
        }
    }
}
