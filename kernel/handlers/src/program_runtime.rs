//! Programs of skills from their approval to their result.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, OnceLock, PoisonError, Weak};
use std::time::Duration;

use futures::FutureExt as _;
use skillhost_home::{GrantStatus, Home, load_operator_policy};
use skillhost_payload::{
    CallContext, CallError, CallOrigin, ErrorKind, SkillProgram, SkillTree, ToolOutput,
};
use skillhost_policy::{OperatorPolicy, PolicyLayer, PolicyUse};
use skillhost_sandbox::SandboxLauncher;
use skillhost_scripts::{
    ScriptPlan, ScriptRequest, check_grant, describe_grant, open_thread_directory,
};
use tokio::task::spawn_blocking;

use crate::call_scope::{ProgramSkill, SkillResource, ToolInvoker};
use crate::known_grants::KnownGrants;
use crate::program_child::ProgramSpec;
use crate::program_supervisor::{ProgramCall, ProgramKey, ProgramSupervisor};
use crate::runner::ProgramLanguage;
use crate::running_program::ProgramMetadata;
use crate::settings_stamp::SettingsStamp;

/// The name of the file with the instructions.
const SKILL_MD: &str = "SKILL.md";

/// The time limit of a call without one in the policy.
const MAX_CALL_TIME: Duration = Duration::from_secs(3600);

/// The programs of skills: their private copies, policies, grants and processes.
#[derive(Clone)]
pub struct ProgramRuntime {
    shared: Arc<RuntimeState>,
}

struct RuntimeState {
    home: Home,
    launcher: SandboxLauncher,
    supervisor: ProgramSupervisor,
    tools: Arc<dyn ToolInvoker>,
    /// The plans of running processes, so that their next calls need no copy.
    plans: Mutex<HashMap<(String, String), RunningPlan>>,
    grants: KnownGrants,
}

/// A plan as long as anything uses it, and what the operator stated when it was made.
struct RunningPlan {
    operator: OperatorPolicy,
    /// The settings when they were read; `None` if they have to be read again.
    settings: Option<SettingsStamp>,
    plan: Weak<SharedPlan>,
}

/// A call of a program that is ready to be approved.
pub struct ProgramPlan {
    shared: Arc<SharedPlan>,
    status: GrantStatus,
}

/// The part of a plan that calls of one process share. Its copy is removed when nothing uses it.
struct SharedPlan {
    key: ProgramKey,
    script: ScriptPlan,
    skill: Arc<ProgramSkill>,
    launch: skillhost_sandbox::LaunchSpec,
    entry: std::path::PathBuf,
    /// The text for approvals, which is the same for each call.
    description: OnceLock<String>,
}

impl ProgramRuntime {
    /// Creates a runtime without processes.
    #[must_use]
    pub fn new(
        home: Home,
        launcher: SandboxLauncher,
        supervisor: ProgramSupervisor,
        tools: Arc<dyn ToolInvoker>,
    ) -> Self {
        let (plans, grants) = (Mutex::default(), KnownGrants::default());
        Self { shared: Arc::new(RuntimeState { home, launcher, supervisor, tools, plans, grants }) }
    }

    /// Prepares a call of a program: its files, its policy, its isolation level and its grant. Runs
    /// nothing of the skill.
    ///
    /// `operator_layer` is the operator's policy for this call alone.
    ///
    /// # Errors
    /// [`ErrorKind::Denied`] for a client of the MCP server, [`ErrorKind::InvalidArgument`] for a
    /// program that cannot be run; the errors of [`ScriptPlan::prepare`].
    pub async fn prepare(
        &self,
        tree: SkillTree,
        program: SkillProgram,
        operator_layer: Option<PolicyLayer>,
        context: &CallContext,
    ) -> Result<ProgramPlan, CallError> {
        if context.origin == CallOrigin::Mcp {
            let message = "programs of skills are not run for clients of the MCP server";
            return Err(CallError::new(ErrorKind::Denied, message)
                .with_hint("read the skill and follow it, or ask the user to call it"));
        }
        let (runtime, thread) = (self.clone(), context.session_id.clone());
        let preparing = spawn_blocking(move || {
            runtime.prepare_blocking(&tree, &program, operator_layer.as_ref(), thread)
        });
        preparing.await.map_err(|error| CallError::new(ErrorKind::Io, error.to_string()))?
    }

    /// Returns whether the operator ever approved the files of a program's skill. If not, no call of
    /// the program is granted.
    ///
    /// # Errors
    /// [`ErrorKind::Unavailable`] if the approvals cannot be read.
    pub async fn was_approved(&self, program: &SkillProgram) -> Result<bool, CallError> {
        let shared = Arc::clone(&self.shared);
        let loading = spawn_blocking(move || shared.grants.load(&shared.home));
        let grants =
            loading.await.map_err(|error| CallError::new(ErrorKind::Io, error.to_string()))?;
        let grants = grants.map_err(|error| CallError { kind: ErrorKind::Unavailable, ..error })?;
        Ok(grants.were_for(&program.skill_id, &program.tree_digest))
    }

    fn prepare_blocking(
        &self,
        tree: &SkillTree,
        program: &SkillProgram,
        operator_layer: Option<&PolicyLayer>,
        thread: String,
    ) -> Result<ProgramPlan, CallError> {
        let RuntimeState { home, launcher, plans, grants, .. } = &*self.shared;
        let id = (thread.clone(), program.tool_name.clone());
        let lock = || plans.lock().unwrap_or_else(PoisonError::into_inner);
        // Before the settings are read, so that a change in between is noticed.
        let settings = SettingsStamp::observe(home);
        let unchanged = settings.as_ref().filter(|_| operator_layer.is_none()).and_then(|stamp| {
            let plans = lock();
            let running = plans.get(&id).filter(|it| it.settings.as_ref() == Some(stamp))?;
            running.plan.upgrade()
        });
        if let Some(shared) = unchanged.filter(|plan| plan.script.tree() == tree) {
            let status = check_grant(&*grants.load(home)?, &shared.script);
            return Ok(ProgramPlan { shared, status });
        }
        let operator = load_operator_policy(home).map_err(|error| {
            CallError::new(ErrorKind::Unavailable, format!("the settings: {error}"))
                .with_hint(error.hint())
        })?;
        // The policy file has no stamp.
        let settings = settings.filter(|_| operator.settings.policy_file.is_none());
        let is_current = |running: &RunningPlan| {
            let RunningPlan { operator: before, .. } = running;
            operator_layer.is_none()
                && before.settings == operator.settings
                && before.file_layer == operator.file_layer
        };
        let current =
            lock().get_mut(&id).filter(|running| is_current(running)).and_then(|running| {
                running.settings.clone_from(&settings);
                running.plan.upgrade()
            });
        let shared = match current.filter(|plan| plan.script.tree() == tree) {
            Some(plan) => plan,
            None => {
                let work = open_thread_directory(home, &thread)?;
                let entry = find_entry(program)?;
                let request = ScriptRequest {
                    tree,
                    policy_use: PolicyUse::Handler,
                    path: entry,
                    arguments: &[],
                    variables: &std::collections::BTreeMap::new(),
                    workdir: ".",
                    work: &work,
                    operator_layer,
                    deadline_seconds: None,
                };
                let script = ScriptPlan::prepare(&operator, launcher, &request)?;
                let plan = Arc::new(SharedPlan::new(script, program, entry, thread)?);
                let mut plans = lock();
                plans.retain(|_, running| running.plan.strong_count() > 0);
                if operator_layer.is_none() {
                    let plan = Arc::downgrade(&plan);
                    plans.insert(id, RunningPlan { operator, settings, plan });
                }
                plan
            }
        };
        let status = check_grant(&*grants.load(home)?, &shared.script);
        Ok(ProgramPlan { shared, status })
    }

    /// Calls the program of an approved plan with arguments as JSON text.
    ///
    /// # Errors
    /// [`ErrorKind::Timeout`], [`ErrorKind::Protocol`], [`ErrorKind::Unavailable`] and the errors
    /// that the program reports.
    pub async fn call(
        &self,
        plan: &ProgramPlan,
        arguments: &str,
        context: &CallContext,
    ) -> Result<ToolOutput, CallError> {
        let SharedPlan { key, script, .. } = &*plan.shared;
        let limit = plan.shared.limit();
        let call = ProgramCall {
            arguments: ProgramCall::parse_arguments(arguments)?,
            context: context.clone(),
            tools: Some(Arc::clone(&self.shared.tools)),
            allowed_tools: script.tree().allowed_tools.clone(),
            limit: context.deadline_ms.map_or(limit, |ms| limit.min(Duration::from_millis(ms))),
        };
        let spec = async { Ok(SharedPlan::spec(&plan.shared)) }.boxed();
        let called = self.shared.supervisor.call(key.clone(), call, spec).await;
        called.map_err(|error| error.to_call_error(&key.tool))?.to_tool_output()
    }

    /// Loads the program of a plan, and returns what it states about itself.
    ///
    /// # Errors
    /// [`ErrorKind::Denied`] without a grant; as for [`ProgramRuntime::call`].
    pub async fn load(&self, plan: &ProgramPlan) -> Result<ProgramMetadata, CallError> {
        if plan.status != GrantStatus::Granted {
            let message = "a program is loaded with a grant only, because its code runs then";
            return Err(CallError::new(ErrorKind::Denied, message));
        }
        let SharedPlan { key, .. } = &*plan.shared;
        let spec = async { Ok(SharedPlan::spec(&plan.shared)) }.boxed();
        let loaded = self.shared.supervisor.load(key.clone(), plan.shared.limit(), spec).await;
        loaded.map_err(|error| error.to_call_error(&key.tool))
    }

    /// Returns what a program stated about itself when this kernel loaded it. Runs nothing.
    #[must_use]
    pub fn known_metadata(&self, program: &SkillProgram) -> Option<ProgramMetadata> {
        self.shared.supervisor.known_metadata(&program.tool_name, &program.tree_digest)
    }
}

impl ProgramPlan {
    /// Returns whether each call requires the approval of a person, also with a grant.
    #[must_use]
    pub fn requires_approval(&self) -> bool {
        self.shared.script.requires_approval()
    }

    /// Returns the relation of the call to the grants of the operator.
    #[must_use]
    pub fn status(&self) -> &GrantStatus {
        &self.status
    }

    /// Returns the plan of the run: files, policy, isolation.
    #[must_use]
    pub fn script(&self) -> &ScriptPlan {
        &self.shared.script
    }

    /// Returns the skill as its program sees it.
    #[must_use]
    pub fn skill(&self) -> &ProgramSkill {
        &self.shared.skill
    }

    /// Describes the call for its approval: what changed since a grant, program, digest, command,
    /// files, policy and level.
    #[must_use]
    pub fn describe(&self) -> String {
        let script = &self.shared.script;
        let changed = describe_grant(&self.status, &script.tree().skill_id);
        let changed = changed.map(|changed| format!("!!! {changed}\n")).unwrap_or_default();
        changed + self.shared.description.get_or_init(|| script.describe())
    }

    /// Returns what an approval for the session covers: the programs of exactly these files, under
    /// this policy and level.
    #[must_use]
    pub fn scope(&self) -> String {
        let script = &self.shared.script;
        let SkillTree { skill_id, root, digest, .. } = script.tree();
        let (policy, level) = (&script.granted_policy().digest, script.isolation().level);
        format!("{skill_id}\0{}\0{digest}\0{policy}\0{level}", root.display())
    }
}

impl SharedPlan {
    fn new(
        script: ScriptPlan,
        program: &SkillProgram,
        entry: &str,
        thread: String,
    ) -> Result<Self, CallError> {
        let io_error = |error: std::io::Error| {
            CallError::new(ErrorKind::Io, format!("the runner of the program: {error}"))
        };
        let tree = script.tree();
        let root = script.copy().root().to_owned();
        let (Some(language), Some(parent)) = (ProgramLanguage::from_path(entry), root.parent())
        else {
            let message = format!("{entry} is not a program: .js, .mjs, .cjs or .py");
            return Err(CallError::new(ErrorKind::InvalidArgument, message));
        };
        let runner = language.write_runner(parent).map_err(io_error)?;
        let entry = root.join(entry);
        let mut launch = script.launch();
        // The interpreter runs the runner, which loads the program.
        if let Some(last) = launch.arguments.last_mut() {
            *last = runner.into();
        }
        let others = tree.files.iter().filter(|file| file.path != SKILL_MD);
        let skill = ProgramSkill {
            name: tree.name.clone(),
            description: tree.description.clone(),
            instructions: program.instructions.clone(),
            resources: others.map(|file| SkillResource::from_path(&file.path)).collect(),
            dir_path: root,
        };
        let key = ProgramKey {
            thread,
            tool: program.tool_name.clone(),
            tree: tree.digest.clone(),
            policy: script.policy().digest(),
        };
        let description = OnceLock::new();
        Ok(Self { key, script, skill: Arc::new(skill), launch, entry, description })
    }

    fn limit(&self) -> Duration {
        let seconds = self.script.policy().policy.limits.seconds;
        seconds.map_or(MAX_CALL_TIME, Duration::from_secs)
    }

    fn spec(plan: &Arc<Self>) -> ProgramSpec {
        ProgramSpec {
            launch: plan.launch.clone(),
            entry: plan.entry.clone(),
            policy: plan.script.policy().policy.clone(),
            skill: Arc::clone(&plan.skill),
            kept: Box::new(Arc::clone(plan)),
        }
    }
}

fn find_entry(program: &SkillProgram) -> Result<&str, CallError> {
    program.entry.as_deref().ok_or_else(|| {
        let message = format!("the skill `{}` has no program", program.skill_id);
        CallError::new(ErrorKind::InvalidArgument, message)
            .with_hint("a call returns its instructions")
    })
}
