//! The tool table: one name, one owner.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde_json::Value;
use skillhost_control::OwnedTool;
use skillhost_home::suggest_similar;
use skillhost_manifest::ExtensionId;
use skillhost_payload::{CallError, CallOrigin, ToolAudience, ToolSpec};

use crate::argument_check::{ArgumentCheck, schema_mistake};
use crate::error::{KernelError, NamedObject};
use crate::instance::Instance;
use crate::plugin::Plugin;

/// A table of tool names and their owners.
#[derive(Clone, Default)]
pub struct ToolTable {
    entries: BTreeMap<String, ToolEntry>,
    programs: Arc<ProgramTools>,
}

/// A tool as listed when its owner was wired.
#[derive(Clone)]
pub struct ToolEntry {
    /// The extension or agent that it belongs to.
    pub owner: ExtensionId,
    /// The part of the kernel that implements it; `None` for the extension that owns it. Offered
    /// only to agents, because it acts for a run.
    pub builtin: Option<Arc<dyn Plugin>>,
    /// Its description.
    pub spec: Arc<ToolSpec>,
    /// The check of its arguments.
    pub arguments: Arc<ArgumentCheck>,
    /// It is a program of a skill, which is offered to operators, too.
    pub is_program: bool,
}

/// The tools of one caller, and the extensions that failed to list theirs.
pub type ListedTools = (Vec<OwnedTool>, Vec<(ExtensionId, CallError)>);

/// The reason why a tool cannot be added to the table.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ToolError {
    /// Models' interfaces do not accept its name.
    #[error("the tool name {name:?} is not 1 to 64 letters, digits, `_`, `-` or `.`")]
    Name {
        /// The name.
        name: String,
        /// The extension that lists it.
        owner: ExtensionId,
    },
    /// A schema is not an object.
    #[error("the {which} schema of the tool `{name}` is not a JSON object")]
    Schema {
        /// The tool.
        name: String,
        /// `input` or `output`.
        which: &'static str,
    },
    /// A schema cannot be used.
    #[error("the {which} schema of the tool `{name}` is not a valid JSON Schema: {mistake}")]
    InvalidSchema {
        /// The tool.
        name: String,
        /// `input` or `output`.
        which: &'static str,
        /// The reason.
        mistake: String,
    },
    /// The extension lists two tools with one name.
    #[error("the tool `{name}` is declared twice")]
    DuplicateName {
        /// The name.
        name: String,
    },
    /// Another extension has a tool of this name.
    #[error("the tool `{name}` of `{owner}` is already provided by `{other}`")]
    NameTaken {
        /// The name.
        name: String,
        /// The extension that lists it.
        owner: ExtensionId,
        /// The owner of the other tool.
        other: ExtensionId,
        /// The name is that of an agent.
        is_agent: bool,
    },
    /// Another tool has the name of a skill's program.
    #[error("the program `{name}` is not offered: `{other}` has a tool of this name")]
    ProgramNameTaken {
        /// The name.
        name: String,
        /// The extension that provides the skill.
        owner: ExtensionId,
        /// The owner of the other tool.
        other: ExtensionId,
    },
    /// Two programs of skills have the same name: ids of skills may contain dots.
    #[error("two programs are called `{name}`; only that of the skill `{name}` is offered")]
    ProgramsAlike {
        /// The name.
        name: String,
    },
    /// Another extension has a tool with the name of this extension.
    #[error("the id `{id}` is the name of a tool of `{other}`")]
    Id {
        /// The extension.
        id: ExtensionId,
        /// The owner of the tool.
        other: ExtensionId,
    },
}

impl ToolError {
    /// Returns the hints of all errors, one per line.
    pub fn hints(problems: &[Self]) -> String {
        let hints = problems.iter().map(Self::hint).collect::<Vec<_>>().join("\n");
        let mut seen = BTreeSet::new();
        // A hint of several errors appears once, after all others.
        let mut lines: Vec<_> = hints.lines().filter(|line| seen.insert(*line)).collect();
        lines.sort_by_key(|line| line.starts_with("or "));
        lines.join("\n")
    }

    /// Returns a hint.
    pub fn hint(&self) -> String {
        let manifest = |owner: &ExtensionId, lines: String| {
            format!("write into the manifest of `{owner}`: tools: {lines}")
        };
        match self {
            Self::NameTaken { is_agent: true, .. } => {
                "choose another id, or disable one of the two".to_owned()
            }
            Self::Id { .. } => "choose another id".to_owned(),
            Self::ProgramNameTaken { .. } | Self::ProgramsAlike { .. } => {
                "rename the skill, or give the program another key in tool.json".to_owned()
            }
            Self::NameTaken { name, owner, .. } => {
                let prefix = default_prefix(owner);
                // A second prefix would not help, and a name has at most 64 characters.
                let lines = match name.starts_with(&prefix) || name.len() + prefix.len() > 64 {
                    true => format!("{{rename: {{ITS_OWN_NAME: {}}}}}", alternative_name(name)),
                    false => format!("{{prefix: {prefix}}}"),
                };
                format!("{}\nor disable one of the two", manifest(owner, lines))
            }
            Self::Name { name, owner } => {
                let valid = |c: char| c.is_ascii_alphanumeric() || "_-.".contains(c);
                let name: String = name.chars().take(200).collect();
                let new: String =
                    name.chars().take(64).map(|c| if valid(c) { c } else { '_' }).collect();
                // A text that is escaped as JSON is valid YAML, too.
                let own = Value::from(name);
                manifest(owner, format!("{{rename: {{{own}: {new}}}}}"))
            }
            Self::Schema { .. } | Self::InvalidSchema { .. } | Self::DuplicateName { .. } => {
                "correct what the extension's `tools` returns".to_owned()
            }
        }
    }
}

impl ToolTable {
    /// Adds the tools of a part of the kernel.
    ///
    /// # Errors
    /// As for [`ToolTable::add`].
    pub fn add_builtin(
        &mut self,
        owner: &ExtensionId,
        plugin: &Arc<dyn Plugin>,
        specs: &[ToolSpec],
    ) -> Result<(), Vec<ToolError>> {
        self.add_all(owner, Some(plugin), specs)
    }

    /// Adds an extension's tools, all or none.
    ///
    /// # Errors
    /// Every invalid tool: names and schemas that models' interfaces do not accept, and names in
    /// use.
    pub fn add(&mut self, instance: &Instance) -> Result<(), Vec<ToolError>> {
        self.add_all(&instance.manifest.id, None, &instance.specs)
    }

    /// Adds the tools of an extension that is not loaded.
    ///
    /// # Errors
    /// As for [`ToolTable::add`].
    pub fn try_add(
        &mut self,
        owner: &ExtensionId,
        specs: &[ToolSpec],
    ) -> Result<(), Vec<ToolError>> {
        self.add_all(owner, None, specs)
    }

    fn add_all(
        &mut self,
        owner: &ExtensionId,
        builtin: Option<&Arc<dyn Plugin>>,
        specs: &[ToolSpec],
    ) -> Result<(), Vec<ToolError>> {
        let mut problems = Vec::new();
        let mut added = BTreeMap::new();
        for spec in specs {
            let entry = ToolEntry::new(owner, builtin.cloned(), spec.clone());
            let name = spec.name.clone();
            if !is_valid_name(&name) {
                problems.push(ToolError::Name { name, owner: owner.clone() });
            } else if let Some(problem) = schema_error(spec) {
                problems.push(problem);
            } else if let Some(taken) = self.entries.get(&name) {
                let (owner, other) = (owner.clone(), taken.owner.clone());
                let is_agent = builtin.is_some();
                problems.push(ToolError::NameTaken { name, owner, other, is_agent });
            } else if added.insert(name.clone(), entry).is_some() {
                problems.push(ToolError::DuplicateName { name });
            }
        }
        // All or none: an extension must not run with a part of its tools.
        if !problems.is_empty() {
            return Err(problems);
        }
        self.entries.append(&mut added);
        Ok(())
    }

    /// Removes an extension's tools.
    pub fn remove(&mut self, owner: &ExtensionId) {
        self.entries.retain(|_, entry| entry.owner != *owner);
    }

    /// Returns the owner of a tool.
    pub fn owner(&self, name: &str) -> Option<&ExtensionId> {
        self.entries.get(name).map(|entry| &entry.owner)
    }

    /// Finds a tool that a caller may see.
    pub fn find(&self, name: &str, origin: CallOrigin) -> Result<&ToolEntry, KernelError> {
        match self.entries.get(name).or_else(|| self.programs.find(name)) {
            Some(entry) if entry.is_offered_to(origin) => Ok(entry),
            _ => {
                let offered = self.entries.iter().filter(|(_, entry)| entry.is_offered_to(origin));
                let offered = offered.chain(self.programs.known_to(origin));
                let similar = suggest_similar(name, offered.map(|(name, _)| name.as_str()));
                Err(KernelError::NotFound { what: NamedObject::Tool, id: name.to_owned(), similar })
            }
        }
    }

    /// Returns the tools that a caller may see, with those of programs. A tool of an extension
    /// precedes a program of its name.
    pub fn offered_entries(&self, origin: CallOrigin) -> impl Iterator<Item = &ToolEntry> {
        let programs = self.programs.known_to(origin);
        let programs = programs.filter(|(name, _)| !self.entries.contains_key(*name));
        let own = self.entries.iter().filter(move |(_, entry)| entry.is_offered_to(origin));
        own.chain(programs).map(|(_, entry)| entry)
    }

    /// Returns the tools of the kernel and of agents.
    pub fn builtin_entries(&self) -> impl Iterator<Item = &ToolEntry> {
        self.entries.values().filter(|entry| entry.builtin.is_some())
    }

    /// Returns the valid entries of an agent's `uses_tools`: every owner of tools and every tool
    /// for agents.
    pub fn usable_names(&self) -> BTreeSet<&str> {
        let agents =
            self.entries.iter().filter(|(_, entry)| entry.is_offered_to(CallOrigin::Agent));
        let agents = agents.chain(self.programs.known_to(CallOrigin::Agent));
        agents.flat_map(|(name, entry)| [name.as_str(), entry.owner.as_str()]).collect()
    }
}

impl ToolEntry {
    fn new(owner: &ExtensionId, builtin: Option<Arc<dyn Plugin>>, spec: ToolSpec) -> Self {
        let spec = Arc::new(spec);
        let arguments = Arc::new(ArgumentCheck::new(Arc::clone(&spec)));
        Self { owner: owner.clone(), builtin, spec, arguments, is_program: false }
    }

    /// Returns whether a caller may see the tool: operators' tools are only for operators, tools
    /// that act for a run only for agents.
    pub(crate) fn is_offered_to(&self, origin: CallOrigin) -> bool {
        match &self.builtin {
            None => self.spec.audience == ToolAudience::Agent || origin == CallOrigin::Operator,
            Some(_) if self.is_program => origin != CallOrigin::Mcp,
            Some(_) => origin == CallOrigin::Agent,
        }
    }
}

/// The tools of programs, for one state of the skills.
#[derive(Default)]
pub struct ProgramTools {
    /// The number of the provider's instance and its generation.
    stamp: Option<(u64, u64)>,
    entries: BTreeMap<String, ToolEntry>,
}

impl ProgramTools {
    /// Creates the tools of a generation. Returns the errors of those that are left out, too.
    pub fn new(
        stamp: (u64, u64),
        owner: &ExtensionId,
        plugin: &Arc<dyn Plugin>,
        specs: Vec<ToolSpec>,
    ) -> (Self, Vec<ToolError>) {
        let (mut entries, mut problems) = (BTreeMap::new(), Vec::new());
        for spec in specs {
            let name = spec.name.clone();
            if !is_valid_name(&name) {
                problems.push(ToolError::Name { name, owner: owner.clone() });
            } else if let Some(problem) = schema_error(&spec) {
                problems.push(problem);
            } else {
                // Skills are listed by id, and `a` precedes `a.b`, whose name it is.
                let entry = ToolEntry::for_program(owner, plugin, spec);
                if entries.insert(name.clone(), entry).is_some() {
                    problems.push(ToolError::ProgramsAlike { name });
                }
            }
        }
        (Self { stamp: Some(stamp), entries }, problems)
    }

    /// Returns the number of the provider's instance and its generation.
    #[must_use]
    pub fn stamp(&self) -> Option<(u64, u64)> {
        self.stamp
    }

    /// Returns whether there is no program.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Finds a program by the name of its tool.
    pub(crate) fn find(&self, name: &str) -> Option<&ToolEntry> {
        self.entries.get(name)
    }

    /// Returns the programs that a caller may know.
    pub(crate) fn known_to(
        &self,
        origin: CallOrigin,
    ) -> impl Iterator<Item = (&String, &ToolEntry)> {
        self.entries.iter().filter(move |(_, entry)| entry.is_offered_to(origin))
    }
}

impl ToolEntry {
    /// Creates the tool of a program.
    pub fn for_program(owner: &ExtensionId, plugin: &Arc<dyn Plugin>, spec: ToolSpec) -> Self {
        Self { is_program: true, ..Self::new(owner, Some(Arc::clone(plugin)), spec) }
    }
}

impl ToolTable {
    /// Returns the tools of programs.
    #[must_use]
    pub fn programs(&self) -> &ProgramTools {
        &self.programs
    }

    /// Replaces the tools of programs. They never take or block the name of a tool of an extension,
    /// which a person installed; those whose name is taken are returned.
    pub(crate) fn replace_programs(&mut self, programs: &Arc<ProgramTools>) -> Vec<ToolError> {
        self.programs = Arc::clone(programs);
        let taken = |(name, entry): (&String, &ToolEntry)| {
            let other = self.owner(name)?.clone();
            let (name, owner) = (name.clone(), entry.owner.clone());
            Some(ToolError::ProgramNameTaken { name, owner, other })
        };
        programs.entries.iter().filter_map(taken).collect()
    }
}

/// Returns the first error in a tool's schemas.
pub fn schema_error(spec: &ToolSpec) -> Option<ToolError> {
    let schemas = [("input", Some(&spec.input_schema)), ("output", spec.output_schema.as_ref())];
    let name = || spec.name.clone();
    schemas.into_iter().find_map(|(which, schema)| {
        let schema = schema?;
        if !schema.is_object() {
            return Some(ToolError::Schema { name: name(), which });
        }
        let mistake = schema_mistake(schema)?;
        Some(ToolError::InvalidSchema { name: name(), which, mistake })
    })
}

/// Returns the prefix that separates an extension's tools from those of others.
fn default_prefix(owner: &ExtensionId) -> String {
    // Leaves half of a name's 64 characters to the tool.
    let id: String = owner.as_str().chars().take(31).collect();
    format!("{id}_")
}

/// Returns a name that differs from `name`.
fn alternative_name(name: &str) -> String {
    // Leaves room for the suffix within 64 characters.
    let stem: String = name.chars().take(62).collect();
    format!("{stem}_2")
}

fn is_valid_name(name: &str) -> bool {
    (1..=64).contains(&name.len())
        && name.bytes().all(|b| b.is_ascii_alphanumeric() || b"_-.".contains(&b))
}

#[cfg(test)]
mod program_tests;
#[cfg(test)]
mod tests {
    use serde_json::json;
    use skillhost_payload::TaskSupport;

    use super::*;

    #[test]
    fn tool_names_fit_model_interfaces() {
        let longest = "a".repeat(64);
        for name in ["echo", "skills.load", "a-b_c", longest.as_str()] {
            assert!(is_valid_name(name), "{name}");
        }
        for name in ["", "a b", "é", "a/b", &"a".repeat(65)] {
            assert!(!is_valid_name(name), "{name}");
        }
    }

    fn spec(name: &str, input_schema: Value) -> ToolSpec {
        ToolSpec {
            name: name.to_owned(),
            description: String::new(),
            input_schema,
            output_schema: None,
            read_only: true,
            destructive: false,
            needs_approval: skillhost_payload::ApprovalPolicy::Never,
            audience: ToolAudience::Agent,
            changes_skills: false,
            effect: None,
            task: TaskSupport::Never,
            needs: Vec::new(),
            skill_use: None,
        }
    }

    fn add_errors(table: &mut ToolTable, owner: &str, specs: &[ToolSpec]) -> Vec<(String, String)> {
        let problems = table.try_add(&ExtensionId::new(owner).unwrap(), specs).unwrap_err();
        problems.iter().map(|problem| (problem.to_string(), problem.hint())).collect()
    }

    #[test]
    fn tool_clash_offers_a_prefix() {
        let mut table = ToolTable::default();
        let tools = [spec("read", json!({})), spec("weather_now", json!({}))];
        table.try_add(&ExtensionId::new("core").unwrap(), &tools).unwrap();
        let message =
            |name| format!("the tool `{name}` of `weather` is already provided by `core`");
        let manifest = "write into the manifest of `weather`: tools: ";
        assert_eq!(
            add_errors(&mut table, "weather", &tools),
            [
                (
                    message("read"),
                    format!("{manifest}{{prefix: weather_}}\nor disable one of the two")
                ),
                (
                    message("weather_now"),
                    format!(
                        "{manifest}{{rename: {{ITS_OWN_NAME: weather_now_2}}}}\nor disable one of the two"
                    )
                ),
            ]
        );
        assert_eq!(
            add_errors(&mut table, "weather", &[spec("a/\"b", json!({}))])[0].1,
            format!("{manifest}{{rename: {{\"a/\\\"b\": a__b}}}}")
        );
    }

    #[test]
    fn invalid_tool_schema_is_rejected() {
        let mut table = ToolTable::default();
        let output = ToolSpec { output_schema: Some(json!([])), ..spec("c", json!({})) };
        let tools = [spec("a", json!(7)), spec("b", json!({"type": "objekt"})), output];
        let messages: Vec<_> = add_errors(&mut table, "weather", &tools)
            .into_iter()
            .map(|(message, _)| message)
            .collect();
        assert_eq!(messages[0], "the input schema of the tool `a` is not a JSON object");
        let start =
            "the input schema of the tool `b` is not a valid JSON Schema: `/type`: \"objekt\"";
        assert!(messages[1].starts_with(start), "{}", messages[1]);
        assert_eq!(messages[2], "the output schema of the tool `c` is not a JSON object");
    }
}
