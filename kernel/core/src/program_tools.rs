//! Tools whose set changes while the kernel runs: the programs of skills. They never take or block the
//! name of a tool of an extension, which a person installed.

use std::collections::BTreeMap;
use std::sync::Arc;

use async_trait::async_trait;
use skillhost_control::OwnedTool;
use skillhost_manifest::ExtensionId;
use skillhost_payload::{CallContext, CallError, CallOrigin, ToolSpec};

use crate::extension_host::ExtensionHost;
use crate::plugin::Plugin;
use crate::state::KernelState;
use crate::tools::{ToolEntry, ToolError, ToolTable, is_valid_name, schema_error};

/// The part of the kernel that has the programs of skills.
#[async_trait]
pub trait ProgramToolSource: Send + Sync {
    /// Updates the table of tools if the set of programs changed.
    async fn refresh(&self, host: &ExtensionHost);

    /// Lists the programs that a caller is offered.
    async fn list(&self, host: &ExtensionHost, context: &CallContext) -> Vec<OwnedTool>;

    /// Finds a tool that is called by name alone, such as that of a skill without a program.
    async fn find(
        &self,
        host: &ExtensionHost,
        context: &CallContext,
        name: &str,
    ) -> Result<Option<ToolEntry>, CallError>;
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
                entries.insert(name, ToolEntry::for_program(owner, plugin, spec));
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
        let entry = Self::new(owner, Some(Arc::clone(plugin)), spec);
        Self { is_program: true, ..entry }
    }
}

impl ToolTable {
    /// Returns the tools of programs.
    #[must_use]
    pub fn programs(&self) -> &ProgramTools {
        &self.programs
    }

    /// Returns the programs that cannot be called because another tool has their name.
    fn shadowed_programs(&self, programs: &ProgramTools) -> Vec<ToolError> {
        let taken = |(name, entry): (&String, &ToolEntry)| {
            let other = self.owner(name)?.clone();
            let (name, owner) = (name.clone(), entry.owner.clone());
            Some(ToolError::ProgramNameTaken { name, owner, other })
        };
        programs.entries.iter().filter_map(taken).collect()
    }
}

impl ExtensionHost {
    /// Sets the source of the programs of skills; called once, before extensions are loaded.
    pub fn set_program_source(&self, source: Arc<dyn ProgramToolSource>) {
        let _ = self.program_source.set(source);
    }

    /// Updates the tools of programs if the skills changed.
    pub async fn refresh_programs(&self) {
        if let Some(source) = self.program_source.get() {
            source.refresh(self).await;
        }
    }

    /// Puts the tools of programs in force; returns the programs whose names are taken.
    ///
    /// A change of the loaded extensions at the same time may undo this; the stamp then differs, and
    /// the next refresh repeats it.
    pub fn replace_programs(&self, programs: ProgramTools) -> Vec<ToolError> {
        let shadowed = self.state.load().tools.shadowed_programs(&programs);
        let programs = Arc::new(programs);
        self.state.rcu(|state| {
            let mut next = KernelState::clone(state);
            next.tools.programs = Arc::clone(&programs);
            next
        });
        shadowed
    }

    /// Finds a program of a skill that is not in the table of tools under this name.
    ///
    /// # Errors
    /// The error of a skill whose programs cannot be used.
    pub async fn find_program(
        &self,
        context: &CallContext,
        name: &str,
    ) -> Result<Option<ToolEntry>, CallError> {
        match self.program_source.get() {
            Some(source) if context.origin != CallOrigin::Mcp => {
                source.find(self, context, name).await
            }
            _ => Ok(None),
        }
    }

    /// Lists the programs that a caller is offered.
    pub(crate) async fn list_programs(&self, context: &CallContext) -> Vec<OwnedTool> {
        match self.program_source.get() {
            Some(source) if context.origin != CallOrigin::Mcp => {
                source.refresh(self).await;
                source.list(self, context).await
            }
            _ => Vec::new(),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use skillhost_payload::{ApprovalPolicy, ToolAudience, ToolOutput};

    use super::*;
    use crate::plugin::PreparedCall;

    struct NoTools;

    #[async_trait]
    impl Plugin for NoTools {
        async fn tools(&self, _: &CallContext) -> Result<Vec<ToolSpec>, CallError> {
            Ok(Vec::new())
        }

        async fn invoke(
            &self,
            _: &CallContext,
            name: &str,
            _: &str,
            _: PreparedCall,
        ) -> Result<ToolOutput, CallError> {
            Err(CallError::new(skillhost_payload::ErrorKind::NotFound, name))
        }
    }

    fn spec(name: &str) -> ToolSpec {
        ToolSpec {
            name: name.to_owned(),
            description: String::new(),
            input_schema: json!({"type": "object"}),
            output_schema: None,
            read_only: true,
            destructive: false,
            needs_approval: ApprovalPolicy::Never,
            audience: ToolAudience::Agent,
            changes_skills: false,
        }
    }

    fn programs(names: &[&str]) -> (ProgramTools, Vec<ToolError>) {
        let owner = ExtensionId::new("skill_registry").unwrap();
        let plugin: Arc<dyn Plugin> = Arc::new(NoTools);
        let specs = names.iter().map(|name| spec(name)).collect();
        ProgramTools::new((1, 2), &owner, &plugin, specs)
    }

    #[test]
    fn extension_precedes_program_of_its_name() {
        let mut table = ToolTable::default();
        table.try_add(&ExtensionId::new("weather").unwrap(), &[spec("quotes")]).unwrap();
        let (tools, problems) = programs(&["quotes", "quotes.chart"]);
        assert_eq!(problems, []);
        let shadowed: Vec<_> =
            table.shadowed_programs(&tools).iter().map(ToString::to_string).collect();
        let message = "the program `quotes` is not offered: `weather` has a tool of this name";
        assert_eq!(shadowed, [message]);
        table.programs = Arc::new(tools);
        let owner =
            |name| table.find(name, CallOrigin::Agent).map(|entry| entry.owner.to_string()).ok();
        assert_eq!(owner("quotes").as_deref(), Some("weather"));
        assert_eq!(owner("quotes.chart").as_deref(), Some("skill_registry"));
        // A program never blocks an extension that is loaded later.
        table.try_add(&ExtensionId::new("charts").unwrap(), &[spec("quotes.chart")]).unwrap();
        assert_eq!(
            table.find("quotes.chart", CallOrigin::Agent).unwrap().owner.to_string(),
            "charts"
        );
    }

    #[test]
    fn programs_are_offered_to_agents_and_operators() {
        let (tools, problems) = programs(&["quotes", "a b"]);
        assert_eq!(problems.len(), 1);
        assert_eq!(tools.stamp(), Some((1, 2)));
        let mut table = ToolTable::default();
        table.programs = Arc::new(tools);
        for (origin, is_offered) in
            [(CallOrigin::Agent, true), (CallOrigin::Operator, true), (CallOrigin::Mcp, false)]
        {
            assert_eq!(table.find("quotes", origin).is_ok(), is_offered, "{origin:?}");
        }
        assert!(table.usable_names().contains("quotes"));
    }
}
