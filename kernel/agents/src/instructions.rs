//! Agents and their resolved instructions.
//!
//! Instructions = `prompt.jinja2`, then the bound skills in order, then the manifest's inline
//! `instructions`. The kernel knows skills only through an interface of another extension.

use std::path::Path;
use std::time::Duration;

use minijinja::context;
use skillhost_control::{AgentError, InstructionLayer, InstructionLayerKind};
use skillhost_core::foreign_text::neutralize;
use skillhost_core::{
    Instance, KernelState, ResolvedInstructions, fetch_skill_generation, get_skill,
};
use skillhost_files::sha256_hex;
use skillhost_home::{ADDED, DiscoveredManifest, Home, suggest_similar};
use skillhost_manifest::{AgentCatalog, ExtensionId, Manifest};
use skillhost_payload::CatalogScope;

use crate::agent_files::read_agent_file;
use crate::templates::render_template;

/// The template of an agent's instructions, in the directory of its manifest.
const PROMPT: &str = "prompt.jinja2";

/// The size limit of a rendered prompt, in bytes.
const PROMPT_LIMIT: usize = 1024 * 1024;

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
        ResolvedInstructions {
            layers,
            instructions,
            problem,
            generation,
            lacks_tools: false,
            tools_revision: 0,
        }
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
