//! Agents and their resolved instructions.
//!
//! Instructions = `prompt.jinja2`, then the bound skills in order, then the manifest's inline
//! `instructions`. The kernel knows skills only through an interface of another extension.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use minijinja::context;
use serde::{Deserialize, Serialize};
use skillhost_files::sha256_hex;
use skillhost_home::{ADDED, DiscoveredManifest, Home, suggest_similar};
use skillhost_manifest::{AgentCatalog, AgentManifest, ExtensionId, Manifest};
use skillhost_payload::{
    CallError, CatalogScope, ErrorKind, SkillContent, SkillGeneration, SkillRequest,
    skill_interface,
};

use crate::agent_files::read_agent_file;
use crate::error::KernelError;
use crate::foreign_text::neutralize;
use crate::instance::Instance;
use crate::kernel::KernelState;
use crate::templates::render_template;

/// The template of an agent's instructions, in the directory of its manifest.
const PROMPT: &str = "prompt.jinja2";

/// The size limit of a rendered prompt, in bytes.
const PROMPT_LIMIT: usize = 1024 * 1024;

/// The source of an instruction layer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum InstructionLayerKind {
    /// The `prompt.jinja2` in the directory of the manifest.
    Prompt,
    /// A bound skill.
    Skill,
    /// The manifest's `agent.instructions`.
    Inline,
}

/// One layer of an agent's instructions.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct InstructionLayer {
    /// The kind of the layer.
    pub kind: InstructionLayerKind,
    /// The path of a file, or the skill's source.
    pub source: String,
    /// The skill's id; `None` for other kinds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub skill_id: Option<String>,
    /// The sha256 of the SKILL.md for a skill, else of the text.
    pub digest: String,
    /// The estimated tokens of the text.
    pub tokens: u32,
    /// The text of the layer.
    pub text: String,
}

/// An error that prevents the resolution of an agent's instructions.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AgentError {
    /// The reason, with path and line.
    pub reason: String,
    /// The hint for the operator.
    pub hint: String,
}

/// An agent's instructions for one generation of the skills.
#[derive(Debug, Clone)]
pub struct ResolvedInstructions {
    /// The layers in order; empty in the error state.
    pub layers: Vec<InstructionLayer>,
    /// The texts of the layers, joined.
    pub instructions: Arc<str>,
    /// The error, if the agent is in the error state.
    pub problem: Option<AgentError>,
    /// The provider's `number` and its generation.
    pub(crate) generation: Option<(u64, u64)>,
    /// True if the error is a missing tool.
    pub(crate) lacks_tools: bool,
}

/// A declarative agent.
pub struct Agent {
    /// The agent's manifest.
    pub manifest: Arc<Manifest>,
    /// The path of the manifest.
    pub path: std::path::PathBuf,
    /// The discovered manifest, with the private copy that the prompt is read from.
    found: DiscoveredManifest,
    pub(crate) resolved: ArcSwap<ResolvedInstructions>,
}

impl ResolvedInstructions {
    /// Creates the error state.
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

    /// Returns the discovered manifest, with the directory of its files.
    pub(crate) fn found(&self) -> &DiscoveredManifest {
        &self.found
    }

    /// Returns the current instructions.
    #[must_use]
    pub fn instructions(&self) -> Arc<ResolvedInstructions> {
        self.resolved.load_full()
    }

    /// Returns the current instructions, or an error if the agent is in the error state.
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

    /// Returns the `agent` section of the manifest.
    #[must_use]
    pub fn agent_manifest(&self) -> &AgentManifest {
        self.manifest.agent().expect("only agents' manifests become agents")
    }
}

/// The inputs of the resolution besides the manifest.
pub(crate) struct InstructionResolver<'a> {
    pub(crate) home: &'a Home,
    /// The skill provider in reach of the agent's `depends_on`.
    pub(crate) provider: Option<&'a Instance>,
    /// Any loaded skill provider, for the hint.
    pub(crate) any_provider: Option<&'a ExtensionId>,
    pub(crate) limit: Duration,
}

impl InstructionResolver<'_> {
    /// Resolves an agent's instructions; an error becomes the agent's error state.
    pub(crate) async fn resolve(&self, found: &DiscoveredManifest) -> ResolvedInstructions {
        // Requested before the skills are read: a change in between is then seen at the next turn.
        let generation = match self.provider {
            Some(provider) => fetch_skill_generation(provider, self.limit).await.ok(),
            None => None,
        };
        let (layers, problem) = match self.layers(found).await {
            Ok(layers) => (layers, None),
            Err(problem) => (Vec::new(), Some(problem)),
        };
        // Skills and prompts may quote the kernel's tags; neutralized, they cannot pass for them.
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
        let directory = found.directory();
        let mut layers = Vec::new();
        // The path of the manifest is shown; the file is read from the approved copy.
        let display_path = path.with_file_name(PROMPT);
        if let Some(text) = self.prompt(directory, &display_path, manifest).await? {
            layers.push(build_layer(
                InstructionLayerKind::Prompt,
                display_path.display().to_string(),
                text,
            ));
        }
        for skill in &agent.uses_skills {
            let location = format!("{}:{}:{}", path.display(), skill.line, skill.column);
            let provider = self.provider.ok_or_else(|| self.no_provider_error(&location, path))?;
            let content = get_skill(provider, skill, self.limit).await.map_err(|error| {
                AgentError { reason: format!("{location}: uses_skills: {error}"), hint: error.hint }
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

    fn no_provider_error(&self, location: &str, path: &Path) -> AgentError {
        let hint = match self.any_provider {
            Some(id) => format!("add `depends_on: [{id}]` to {}", path.display()),
            None => "load an extension that provides skills, such as skill_registry".to_owned(),
        };
        let reason = format!("{location}: uses_skills: no extension in depends_on provides skills");
        AgentError { reason, hint }
    }

    /// Renders `prompt.jinja2`, if it exists; templates are read from the agent's own directory
    /// only.
    async fn prompt(
        &self,
        directory: &Path,
        display_path: &Path,
        manifest: &Manifest,
    ) -> Result<Option<String>, AgentError> {
        let problem = |reason: String, hint: &str| AgentError {
            reason: format!("{}: {reason}", display_path.display()),
            hint: hint.to_owned(),
        };
        match read_agent_file(directory, PROMPT) {
            Ok(Some(_)) => {}
            Ok(None) => return Ok(None),
            Err(error) => {
                let hint = "make it a regular file of at most 1 MiB in the agent's directory";
                return Err(problem(error.to_string(), hint));
            }
        }
        let variables = context! {
            home => self.home.root().display().to_string(),
            sandbox => self.home.sandbox_dir().display().to_string(),
            agent => context! { id => manifest.id.as_str(), name => manifest.name.as_str() },
        };
        let agent_directory = directory.to_owned();
        let loader = Box::new(move |name: &str| {
            read_agent_file(&agent_directory, name).map_err(|error| {
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
            let reason = format!("prompt exceeds the limit of {PROMPT_LIMIT} bytes");
            return Err(problem(reason, "make it shorter"));
        }
        Ok(Some(rendered.text))
    }
}

/// Returns the error for names in `uses_tools` that no loaded extension has. An extension that the
/// agent declares as an optional dependency may be missing.
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
        // `ADDED` names everything in the sandbox, which may be empty at first.
        used.value != ADDED
            && !usable.contains(used.as_str())
            && !state.instances.contains_key(used.as_str())
            && !optional(used)
    });
    let (mut lines, mut hints) = (Vec::new(), Vec::new());
    for used in missing {
        let location = format!("{}:{}:{}", path.display(), used.line, used.column);
        lines.push(format!(
            "{location}: uses_tools: no extension or tool `{}` is loaded",
            used.value
        ));
        let similar = suggest_similar(used, usable.iter().copied());
        if !similar.is_empty() {
            hints.push(format!("did you mean {}?", similar.join(", ")));
        }
    }
    hints.push("correct uses_tools, or install and enable the missing extension".to_owned());
    (!lines.is_empty()).then(|| AgentError { reason: lines.join("\n"), hint: hints.join("\n") })
}

fn build_layer(kind: InstructionLayerKind, source: String, text: String) -> InstructionLayer {
    let digest = sha256_hex(text.as_bytes());
    InstructionLayer { kind, source, skill_id: None, digest, tokens: estimate_tokens(&text), text }
}

/// Estimates tokens as a quarter of the characters, rounded up: the product's estimate everywhere.
pub(crate) fn estimate_tokens(text: &str) -> u32 {
    u32::try_from(text.chars().count().div_ceil(4)).unwrap_or(u32::MAX)
}

/// Requests the generation of a skill provider. Each build counts its own, so the instance number
/// is part of the result.
pub(crate) async fn fetch_skill_generation(
    provider: &Instance,
    limit: Duration,
) -> Result<(u64, u64), CallError> {
    let reply = provider
        .call(skill_interface::NAME, skill_interface::GENERATION, Vec::new(), limit)
        .await?;
    let reply: SkillGeneration = parse_reply(&reply)?;
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
    parse_reply(&provider.call(skill_interface::NAME, method, request, limit).await?)
}

fn parse_reply<T: serde::de::DeserializeOwned>(bytes: &[u8]) -> Result<T, CallError> {
    serde_json::from_slice(bytes)
        .map_err(|error| CallError::new(ErrorKind::Protocol, error.to_string()))
}

/// Converts the agent's catalog scope to the contract's type.
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
