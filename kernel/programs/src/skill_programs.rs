//! The programs of skills in the table of tools, and their lists for callers.

use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, Mutex, PoisonError, Weak};

use async_trait::async_trait;
use skillhost_agents::AgentRuntime;
use skillhost_control::{OwnedTool, RestartLimits};
use skillhost_core::{
    ExtensionHost, PinnedInstance, Plugin, ProgramToolSource, ProgramTools, ToolEntry,
    fetch_skill_generation, get_skill_tree, list_skill_programs,
};
use skillhost_handlers::{ProgramMetadata, ProgramRuntime, ProgramSupervisor, SupervisionLimits};
use skillhost_home::GrantStatus;
use skillhost_payload::{
    ApprovalPolicy, CallContext, CallError, CallOrigin, ErrorKind, OperatorCommand, SkillProgram,
    SkillTree, TaskSupport, ToolAudience, ToolSpec,
};
use skillhost_sandbox::SandboxLauncher;

/// The thread in which programs are loaded for lists.
const LIST_THREAD: &str = "program-list";

/// The programs of the skills of a host.
pub(crate) struct SkillPrograms {
    /// Weak, because the host has the tools.
    host: Weak<ExtensionHost>,
    pub(crate) runtime: ProgramRuntime,
    /// The problems that were logged, so that each is logged once.
    logged: Mutex<BTreeSet<String>>,
    /// The files of the skills whose programs were called.
    trees: Mutex<KnownTrees>,
}

/// The files of skills by id, as long as no skill changes.
#[derive(Default)]
struct KnownTrees {
    /// The stamp of the provider's skills.
    stamp: Option<(u64, u64)>,
    by_skill: HashMap<String, SkillTree>,
}

/// The source of the tools for the host.
struct SkillProgramSource(Arc<SkillPrograms>);

/// Lets a kernel offer the programs of skills; called once, before extensions are loaded.
pub fn add_program_tools(agents: &AgentRuntime) {
    let host = agents.extensions();
    let launcher = SandboxLauncher::default();
    let supervisor = ProgramSupervisor::new(
        launcher.clone(),
        SupervisionLimits::default(),
        RestartLimits::default(),
    );
    // Weak, because the agents have the host.
    let tools = Arc::new(agents.downgrade());
    let programs = SkillPrograms {
        host: Arc::downgrade(host),
        runtime: ProgramRuntime::new(host.home().clone(), launcher, supervisor, tools),
        logged: Mutex::default(),
        trees: Mutex::default(),
    };
    host.set_program_source(Arc::new(SkillProgramSource(Arc::new(programs))));
}

#[async_trait]
impl ProgramToolSource for SkillProgramSource {
    async fn refresh(&self) {
        let Some(host) = self.0.host.upgrade() else { return };
        // The stamp is in the table, so that a table that was replaced is filled again.
        let known = host.state().tools.programs().stamp();
        let Some(provider) = host.skill_provider() else {
            if known.is_some() {
                host.replace_programs(ProgramTools::default());
            }
            return;
        };
        let limit = host.limits().context;
        // Without a generation the last set stays.
        let Ok(stamp) = fetch_skill_generation(&provider, limit).await else { return };
        if known == Some(stamp) {
            return;
        }
        let operator = CallContext { origin: CallOrigin::Operator, ..CallContext::default() };
        let programs = match list_skill_programs(&provider, &operator, None, limit).await {
            Ok(programs) => programs,
            Err(error) => return self.0.log_listing_error(&error),
        };
        let owner = &provider.manifest.id;
        let specs = programs.into_iter().map(to_tool_spec).collect();
        let plugin: Arc<dyn Plugin> = Arc::clone(&self.0) as _;
        let (tools, mut problems) = ProgramTools::new(stamp, owner, &plugin, specs);
        problems.extend(host.replace_programs(tools));
        for problem in problems {
            self.0.log(&format!("{problem}; {}", problem.hint()));
        }
    }

    async fn list(&self, context: &CallContext) -> Vec<OwnedTool> {
        let Some(host) = self.0.host.upgrade() else { return Vec::new() };
        // Most homes have no program.
        if host.state().tools.programs().is_empty() {
            return Vec::new();
        }
        let Some(provider) = host.skill_provider() else { return Vec::new() };
        let limit = host.limits().context;
        let programs = match list_skill_programs(&provider, context, None, limit).await {
            Ok(programs) => programs,
            Err(error) => {
                self.0.log_listing_error(&error);
                return Vec::new();
            }
        };
        let skills: BTreeSet<_> = programs.iter().map(|it| it.skill_id.clone()).collect();
        let mut listed = Vec::new();
        for program in programs {
            // The name is that of another skill, whose program has it.
            if program.tool_name != program.skill_id && skills.contains(&program.tool_name) {
                continue;
            }
            // Only a program with a file runs code to describe itself.
            let described = match program.entry {
                Some(_) => self.0.describe_granted(&provider, context, &program).await,
                None => Ok(Some(ProgramMetadata::default())),
            };
            match described {
                Ok(Some(metadata)) => {
                    let extension = provider.manifest.id.clone();
                    let skill = program.entry.as_ref().map(|_| program.skill_id.clone());
                    let spec = override_spec(program, metadata);
                    listed.push(OwnedTool { extension, skill, spec });
                }
                Ok(None) => {}
                Err(error) => {
                    let tool = &program.tool_name;
                    self.0.log(&format!("the program `{tool}` is not offered: {error}"));
                }
            }
        }
        listed
    }

    async fn find(
        &self,
        context: &CallContext,
        name: &str,
    ) -> Result<Option<ToolEntry>, CallError> {
        // Without skills the name is simply unknown.
        let Ok((host, provider)) = self.0.provider() else { return Ok(None) };
        let Some(program) = self.0.find_program(context, name).await? else { return Ok(None) };
        let skill = program.skill_id.clone();
        let mut spec = to_tool_spec(program);
        // Where the tool's name is that of another tool, only the path stands for this program.
        let is_taken = host.state().tools.owner(&spec.name).is_some()
            // The search by this very name has just found the program.
            || (spec.name != name
                && self
                    .0
                    .find_program(context, &spec.name)
                    .await?
                    .is_none_or(|it| it.skill_id != skill));
        if is_taken {
            name.clone_into(&mut spec.name);
        }
        let plugin: Arc<dyn Plugin> = Arc::clone(&self.0) as _;
        Ok(Some(ToolEntry::for_program(&provider.manifest.id, &plugin, spec)))
    }
}

impl SkillPrograms {
    /// Returns the host and the extension that provides skills.
    pub(crate) fn provider(&self) -> Result<(Arc<ExtensionHost>, PinnedInstance), CallError> {
        let host = self
            .host
            .upgrade()
            .ok_or_else(|| CallError::new(ErrorKind::Unavailable, "the kernel is shutting down"))?;
        let provider = host.skill_provider().ok_or_else(|| {
            CallError::new(ErrorKind::Unavailable, "no extension provides skills")
                .with_hint(format!("see: {}", OperatorCommand::CheckExtensions))
        })?;
        Ok((host, provider))
    }

    /// Finds a program by a name: `skill`, `skill.key`, `namespace/skill/key`, or `/skill`, which is
    /// never another tool. Returns `None` if no skill that the caller sees has such a name.
    ///
    /// # Errors
    /// [`ErrorKind::NotFound`] for a skill without this program; that of a skill whose programs
    /// cannot be used.
    pub(crate) async fn find_program(
        &self,
        context: &CallContext,
        name: &str,
    ) -> Result<Option<SkillProgram>, CallError> {
        let (host, provider) = self.provider()?;
        for (skill, key) in parse_program_name(name) {
            let limit = host.limits().tool;
            let programs = match list_skill_programs(&provider, context, Some(skill), limit).await {
                Ok(programs) => programs,
                // The next reading of the name may fit.
                Err(error) if error.kind == ErrorKind::NotFound => continue,
                Err(error) => return Err(error),
            };
            // A provider that knows nothing of programs answers so for any name.
            if programs.is_empty() {
                continue;
            }
            let keys: Vec<_> = programs.iter().map(|program| program.key.clone()).collect();
            let found = programs.into_iter().find(|program| match key {
                None => program.tool_name == skill,
                Some(key) => program.key == key && program.entry.is_some(),
            });
            if let Some(found) = found {
                return Ok(Some(found));
            }
            let message = match key {
                None => format!("skill `{skill}` has no default program"),
                Some(key) => format!("skill `{skill}` has no program `{key}`"),
            };
            let hint = match keys.iter().filter(|key| !key.is_empty()).cloned().collect::<Vec<_>>()
            {
                keys if keys.is_empty() => "it has instructions only".to_owned(),
                keys => format!("its programs are: {}", keys.join(", ")),
            };
            return Err(CallError::new(ErrorKind::NotFound, message).with_hint(hint));
        }
        Ok(None)
    }

    /// Returns the files of the skill of a program, which the caller was found to see. They are
    /// listed again if a skill changed or the digest is another one.
    pub(crate) async fn get_tree(
        &self,
        host: &ExtensionHost,
        provider: &PinnedInstance,
        context: &CallContext,
        program: &SkillProgram,
    ) -> Result<SkillTree, CallError> {
        // Before the files are listed, so that a change in between is noticed.
        let stamp = host.state().tools.programs().stamp();
        let skill = &program.skill_id;
        {
            let known = self.trees.lock().unwrap_or_else(PoisonError::into_inner);
            if stamp.is_some()
                && known.stamp == stamp
                && let Some(tree) = known.by_skill.get(skill)
                && tree.digest == program.tree_digest
            {
                return Ok(tree.clone());
            }
        }
        let tree = get_skill_tree(provider, context, Some(skill), host.limits().tool).await?;
        let mut known = self.trees.lock().unwrap_or_else(PoisonError::into_inner);
        if known.stamp != stamp {
            *known = KnownTrees { stamp, by_skill: HashMap::new() };
        }
        known.by_skill.insert(skill.clone(), tree.clone());
        Ok(tree)
    }

    /// Returns what a program states about itself, or `None` without a grant of the operator.
    async fn describe_granted(
        &self,
        provider: &PinnedInstance,
        context: &CallContext,
        program: &SkillProgram,
    ) -> Result<Option<ProgramMetadata>, CallError> {
        // Without it, each list would copy the trees of unapproved skills.
        if !self.runtime.was_approved(program).await? {
            return Ok(None);
        }
        let (host, skill) = (self.provider()?.0, Some(&*program.skill_id));
        let tree = get_skill_tree(provider, context, skill, host.limits().context).await?;
        // Lists of all threads share one process.
        let context = CallContext { session_id: LIST_THREAD.to_owned(), ..context.clone() };
        let plan = self.runtime.prepare(tree, program.clone(), None, &context).await?;
        if *plan.status() != GrantStatus::Granted {
            return Ok(None);
        }
        match self.runtime.known_metadata(program) {
            Some(known) => Ok(Some(known)),
            None => self.runtime.load(&plan).await.map(Some),
        }
    }

    fn log_listing_error(&self, error: &CallError) {
        self.log(&format!("the programs of skills are unknown: {error}"));
    }

    fn log(&self, problem: &str) {
        let mut logged = self.logged.lock().unwrap_or_else(PoisonError::into_inner);
        if logged.insert(problem.to_owned()) {
            tracing::warn!("{problem}");
        }
    }
}

/// Returns the skills and programs that a name may mean, the most likely first. Ids of skills may
/// contain dots.
fn parse_program_name(name: &str) -> Vec<(&str, Option<&str>)> {
    let mut readings = Vec::new();
    match name.rsplit_once('/') {
        Some((before, key)) => {
            let skill = before.rsplit('/').next().unwrap_or(before);
            readings.extend([(skill, Some(key)), (key, None)]);
        }
        None => readings.push((name, None)),
    }
    let last = name.rsplit('/').next().unwrap_or(name);
    readings.extend(last.rsplit_once('.').map(|(skill, key)| (skill, Some(key))));
    readings.retain(|(skill, key)| !skill.is_empty() && *key != Some(""));
    readings
}

/// Returns the tool of a program with what the program states about itself.
fn override_spec(program: SkillProgram, metadata: ProgramMetadata) -> ToolSpec {
    let spec = to_tool_spec(program);
    ToolSpec {
        description: metadata.description.unwrap_or(spec.description),
        input_schema: metadata.schema.unwrap_or(spec.input_schema),
        ..spec
    }
}

/// Returns the tool of a program as `tool.json` and SKILL.md describe it.
fn to_tool_spec(program: SkillProgram) -> ToolSpec {
    let runs_code = program.entry.is_some();
    ToolSpec {
        name: program.tool_name,
        description: program.description,
        input_schema: program.input_schema,
        output_schema: program.output_schema,
        read_only: !runs_code,
        destructive: runs_code,
        needs_approval: match runs_code {
            true => ApprovalPolicy::UnlessGranted,
            false => ApprovalPolicy::Never,
        },
        audience: ToolAudience::Agent,
        changes_skills: false,
        effect: None,
        task: TaskSupport::Never,
        needs: Vec::new(),
        skill_use: None,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn program(entry: Option<&str>) -> SkillProgram {
        SkillProgram {
            tool_name: "quotes".into(),
            skill_id: "quotes".into(),
            key: "index".into(),
            entry: entry.map(Into::into),
            kind: skillhost_payload::SkillProgramKind::Skill,
            description: "Quotes.".into(),
            input_schema: json!({"type": "object"}),
            output_schema: None,
            tree_digest: "sha256:0".into(),
            instructions: String::new(),
        }
    }

    #[test]
    fn names_have_several_readings() {
        assert_eq!(parse_program_name("quotes"), [("quotes", None)]);
        assert_eq!(
            parse_program_name("quotes.chart"),
            [("quotes.chart", None), ("quotes", Some("chart"))]
        );
        let expected = [("quotes", Some("chart")), ("chart", None)];
        assert_eq!(parse_program_name("quotes/chart"), expected);
        assert_eq!(parse_program_name("tools/quotes/chart"), expected);
        assert_eq!(parse_program_name("/quotes"), [("quotes", None)]);
        assert_eq!(parse_program_name("/quotes/chart"), expected);
        assert_eq!(parse_program_name("/"), []);
        assert_eq!(parse_program_name("."), [(".", None)]);
    }

    #[test]
    fn instructions_are_read_only_and_programs_are_not() {
        let spec = to_tool_spec(program(None));
        assert!(spec.read_only && spec.needs_approval == ApprovalPolicy::Never);
        let spec = to_tool_spec(program(Some("index.js")));
        assert!(!spec.read_only && spec.destructive);
        assert_eq!(spec.needs_approval, ApprovalPolicy::UnlessGranted);
    }

    #[test]
    fn statement_of_program_precedes_skill() {
        let metadata = ProgramMetadata {
            description: Some("Own.".into()),
            schema: Some(json!({"type": "object", "required": ["symbol"]})),
            ..ProgramMetadata::default()
        };
        let spec = override_spec(program(Some("index.js")), metadata);
        assert_eq!(
            (&*spec.description, &spec.input_schema["required"][0]),
            ("Own.", &json!("symbol"))
        );
        let spec = override_spec(program(Some("index.js")), ProgramMetadata::default());
        assert_eq!((&*spec.description, spec.name.as_str()), ("Quotes.", "quotes"));
    }
}
