//! The dispatch of tool calls of models, extensions, operators and MCP clients: every call is
//! resolved, checked against permissions, approved and executed here.

use std::borrow::Cow;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use futures::future::BoxFuture;
use skillhost_core::mistakes::truncate;
use skillhost_core::{CallGrant, KernelError, PinnedInstance, PreparedCall, ToolEntry};
use skillhost_manifest::ExtensionId;
use skillhost_payload::{
    ActiveSkillsChange, ApprovalPolicy, CallContext, CallError, CallOrigin, ErrorKind,
    OperatorCommand, ToolOutput, skill_interface,
};
use tokio::time::Instant;

use super::call_approval::{ApprovedCall, CallApproval};
use super::call_observation::CallObservation;
use super::resolved_tool::{ResolvedTool, ToolTarget};
use super::run_call::{CallOutcome, RunCall};
use super::session::RunSession;
use super::task_call::TaskCall;
use crate::agent_runtime::AgentRuntime;
use crate::missing_tool::explain_missing_tool;
use crate::turn::TurnRequest;

/// The maker of a call, which keeps a record of its start.
#[derive(Clone, Copy)]
enum CallMaker<'a> {
    /// Any other.
    Other,
    /// The model of a run.
    Model(&'a RunCall<'a>),
    /// A task that is this call.
    Task(&'a dyn TaskCall),
}

/// The length limit of changed arguments in a result for the model, in bytes.
const MAX_CHANGED_BYTES: usize = 2_000;

impl AgentRuntime {
    /// Calls a tool with arguments as JSON text, in the name of the context's caller.
    ///
    /// # Errors
    /// [`KernelError::NotFound`] with similar names; [`KernelError::Call`] with the tool's error,
    /// or of the kind [`ErrorKind::Denied`](skillhost_payload::ErrorKind) without the required approval.
    pub fn invoke_tool<'a>(
        &'a self,
        context: CallContext,
        name: &'a str,
        arguments: &'a str,
    ) -> BoxFuture<'a, Result<ToolOutput, KernelError>> {
        Box::pin(async move {
            match self.dispatch_call(context, name, arguments, CallMaker::Other).await? {
                CallOutcome::Returned(output) => Ok(output),
                // Only a tool of the kernel parks a call, and only one of a run's model.
                CallOutcome::Uncertain | CallOutcome::Parked => {
                    Err(CallError::new(ErrorKind::Unavailable, "the call was not made").into())
                }
            }
        })
    }

    /// Calls a tool for the model of a run. Only such a call may change the run's active skills: the
    /// run stores the change with the result. Its start is recorded in the run's thread.
    pub(super) fn invoke_for_model<'a>(
        &'a self,
        context: CallContext,
        name: &'a str,
        arguments: &'a str,
        call: &'a RunCall<'a>,
    ) -> BoxFuture<'a, Result<CallOutcome, KernelError>> {
        self.dispatch_call(context, name, arguments, CallMaker::Model(call))
    }

    /// Makes the call of a task. Returns `None` if an approval of it is parked.
    ///
    /// # Errors
    /// As for [`AgentRuntime::invoke_tool`], and the error of [`TaskCall::start_call`].
    pub fn invoke_for_task<'a>(
        &'a self,
        context: CallContext,
        name: &'a str,
        arguments: &'a str,
        task: &'a dyn TaskCall,
    ) -> BoxFuture<'a, Result<Option<ToolOutput>, KernelError>> {
        Box::pin(async move {
            match self.dispatch_call(context, name, arguments, CallMaker::Task(task)).await? {
                CallOutcome::Returned(output) => Ok(Some(output)),
                CallOutcome::Parked => Ok(None),
                // Only the call of a run's model has such a record.
                CallOutcome::Uncertain => {
                    Err(CallError::new(ErrorKind::Unavailable, "the call was not made").into())
                }
            }
        })
    }

    fn dispatch_call<'a>(
        &'a self,
        context: CallContext,
        name: &'a str,
        arguments: &'a str,
        maker: CallMaker<'a>,
    ) -> BoxFuture<'a, Result<CallOutcome, KernelError>> {
        Box::pin(async move {
            let mut observation = CallObservation::new(self.run_observer());
            let ended = self.make_call(context, name, arguments, maker, &mut observation).await;
            observation.end(&ended);
            ended
        })
    }

    /// Makes a call, from the lookup of its tool to its output.
    async fn make_call(
        &self,
        mut context: CallContext,
        name: &str,
        arguments: &str,
        maker: CallMaker<'_>,
        observation: &mut CallObservation<'_>,
    ) -> Result<CallOutcome, KernelError> {
        let (call, task) = match maker {
            CallMaker::Other => (None, None),
            CallMaker::Model(call) => (Some(call), None),
            CallMaker::Task(task) => (None, Some(task)),
        };
        let found = self.find_current_tool(&context, name).await?;
        // A program has several names.
        let name = &*found.entry.spec.name.clone();
        let mut arguments = match call.and_then(RunCall::changed_arguments) {
            Some(changed) => Cow::Owned(changed.to_owned()),
            None => Cow::Borrowed(arguments),
        };
        let session = self.session_for(&context);
        observation.describe(&found.entry.spec, &arguments, &context, session.as_deref());
        found.entry.arguments.check(&arguments)?;
        // A call that makes this one has its time counted again after it.
        let _waiting = session.as_ref().map(|run| run.budget.start_wait(context.call_id));
        if let Some(session) = &session {
            self.check_permitted(session, &found.entry)?;
            self.check_capabilities(session, &context, &found.entry).await?;
        }
        if context.origin == CallOrigin::Agent
            && let Some(stubs) = self.tool_stubs()
            && let Some(output) = stubs.stub_output(&found.entry.owner, name)
        {
            return Ok(CallOutcome::Returned(output));
        }
        // Only the kernel may state an approved effect; a caller's value is dropped.
        context.approved_effect = None;
        if context.origin != CallOrigin::Operator {
            context.operator_policy = None;
        }
        context.workspaces = self.workspaces_of_call(&context, session.as_deref()).await;
        context.active_skills =
            session.as_ref().map_or_else(Vec::new, |session| session.skills.list());
        context.reads_files = match (&session, context.origin) {
            (Some(session), _) => session.reads_files.load(Ordering::Relaxed),
            // A person has a shell.
            (None, origin) => origin == CallOrigin::Operator,
        };
        if let (Some(session), Some(call)) = (&session, call) {
            let sha256 = found.extension_sha256();
            let decided =
                self.resolve_uncertain_call(session, &context, call, &found.entry, sha256);
            if let Some(outcome) = decided.await {
                return Ok(outcome);
            }
        }
        let mut prepared = loop {
            // A call that fails anyway fails before any approval is requested.
            let mut prepared = self.prepare_call(&found, &context, name, &arguments).await?;
            let shown =
                ApprovedCall { tool: &found, arguments: &arguments, prepared: &mut prepared };
            match self.require_approval(&context, session.as_ref(), task, shown).await? {
                CallApproval::Granted => break prepared,
                CallApproval::Parked => return Ok(CallOutcome::Parked),
                CallApproval::Changed(changed) => match found.entry.arguments.check(&changed) {
                    Ok(()) => arguments = Cow::Owned(changed),
                    // The user is asked again, with the arguments as they were.
                    Err(error) => {
                        if let Some(session) = &session {
                            let note = format!("changed arguments are not valid: {error}");
                            session.reporter.note_once(note);
                        }
                    }
                },
            }
        };
        context.approved_effect = prepared.effect.take();
        if let Some(control) = session.as_ref().and_then(|session| session.control.as_ref()) {
            // The wait for an approval may have outlasted the claim of the task.
            control.check_call().await?;
        }
        // Only calls that are executed get an id, so it is set after the approval.
        context.call_id = self.extensions().next_call_id();
        let may_change = found.changes_skills();
        if let Some(call) = call {
            let changed = match &arguments {
                Cow::Owned(changed) => Some(changed.as_str()),
                Cow::Borrowed(_) => None,
            };
            // On disk before the call has an effect.
            let effect = match &session {
                Some(session) => session.call_effect(&context, &found.entry),
                None => found.entry.spec.call_effect(),
            };
            call.start(effect, changed).await?;
        }
        if let Some(task) = task {
            task.start_call(found.entry.spec.call_effect()).await?;
        }
        observation.start(&arguments);
        // Time counts only from here, as an approval may take days.
        let _active = session.as_ref().map(|run| run.budget.start_call(context.call_id));
        let remaining_ms = session.as_ref().and_then(|run| run.budget.remaining_ms(Instant::now()));
        let returned = match found.target {
            ToolTarget::Extension(instance) => {
                call_extension(self, instance, context, remaining_ms, name, &arguments).await
            }
            ToolTarget::Builtin(plugin) => {
                context.deadline_ms = shorter(context.deadline_ms, remaining_ms);
                let returned = plugin.invoke(&context, name, &arguments, prepared).await;
                if session.as_ref().is_some_and(|session| session.is_parked(&context)) {
                    return Ok(CallOutcome::Parked);
                }
                returned.map_err(KernelError::from)
            }
        };
        let mut output = returned?;
        let text_of = output.skill.clone().filter(|_| !output.is_error);
        output.skills_change = match output.skills_change.take() {
            Some(change) if may_change && !output.is_error => Some(change),
            // A tool that only returns the text of a skill makes it active.
            _ => text_of.clone().map(|skill| ActiveSkillsChange::Add(vec![skill])),
        };
        match (&session, &output.skills_change) {
            (Some(session), Some(change)) if call.is_some() => session.skills.apply(change),
            // Its result would state a change that no thread has.
            (_, Some(_)) if text_of.is_none() => return Err(no_thread_error(name).into()),
            _ => output.skills_change = None,
        }
        if let Cow::Owned(changed) = &arguments {
            // The model would otherwise assume that its own arguments were used.
            let changed = truncate(changed, MAX_CHANGED_BYTES);
            let note = format!("\n(The user changed the arguments of this call to: {changed})");
            output.text.push_str(&note);
        }
        Ok(CallOutcome::Returned(output))
    }

    /// Explains a call without making it: the permissions of its program with their origins, or the
    /// effect that an approval would show.
    ///
    /// # Errors
    /// As for a call of the tool, up to its approval.
    pub fn explain_call<'a>(
        &'a self,
        context: CallContext,
        name: &'a str,
        arguments: &'a str,
    ) -> BoxFuture<'a, Result<ToolOutput, KernelError>> {
        Box::pin(async move {
            let found = self.find_current_tool(&context, name).await?;
            // The permissions of a program do not depend on them.
            if !found.entry.is_program {
                found.entry.arguments.check(arguments)?;
            }
            let name = &found.entry.spec.name;
            let prepared = self.prepare_call(&found, &context, name, arguments).await?;
            // An operator's tool of an extension has no preview of its own.
            let nothing = || format!("`{name}` runs nothing that needs a permission");
            Ok(ToolOutput {
                text: prepared.details.unwrap_or_else(nothing),
                ..ToolOutput::default()
            })
        })
    }

    /// Calls an operator's tool about an agent: with the context of the agent's calls, in a session
    /// of its own.
    ///
    /// # Errors
    /// As for [`AgentRuntime::invoke_tool`], and [`KernelError::NotFound`] for an unknown agent.
    pub fn invoke_for_agent<'a>(
        &'a self,
        agent: &'a str,
        name: &'a str,
        arguments: &'a str,
    ) -> BoxFuture<'a, Result<ToolOutput, KernelError>> {
        Box::pin(async move {
            let agent = self.refresh_agent(agent).await?;
            let request = TurnRequest { origin: CallOrigin::Operator, ..TurnRequest::default() };
            self.invoke_tool(self.call_context(&agent, &request), name, arguments).await
        })
    }

    /// Prepares a call before its approval. An operator's own call needs no preview.
    async fn prepare_call(
        &self,
        tool: &ResolvedTool,
        context: &CallContext,
        name: &str,
        arguments: &str,
    ) -> Result<PreparedCall, CallError> {
        let instance = match &tool.target {
            ToolTarget::Builtin(plugin) => return plugin.prepare(context, name, arguments).await,
            ToolTarget::Extension(_) if context.origin == CallOrigin::Operator => {
                return Ok(PreparedCall::default());
            }
            ToolTarget::Extension(instance) => instance,
        };
        let effect = self.shown_effect(instance, &tool.entry.spec, context, arguments).await?;
        let shown = effect.map(|effect| PreparedCall {
            details: Some(effect.details),
            is_protected: effect.scope.is_none(),
            scope: effect.scope,
            grant: CallGrant::ByTool,
            effect: Some(effect.digest),
            plan: None,
        });
        Ok(shown.unwrap_or_default())
    }

    /// Calls a tool of an extension for one of its scheduled jobs. A schedule has no approval
    /// channel, and its manifest's author is not an approver: a tool that always requires approval
    /// is rejected. Where one approval is enough, a process extension has it, as its manifest was
    /// approved together with its program.
    ///
    /// # Errors
    /// As for [`AgentRuntime::invoke_tool`]; [`ErrorKind::NotFound`] for a tool of another extension.
    pub fn invoke_scheduled<'a>(
        &'a self,
        owner: &'a ExtensionId,
        context: &'a CallContext,
        name: &'a str,
        arguments: &'a str,
        limit: Duration,
    ) -> BoxFuture<'a, Result<ToolOutput, KernelError>> {
        Box::pin(async move {
            let found = self.find_tool(name, CallOrigin::Operator)?;
            let (ToolTarget::Extension(instance), true) =
                (found.target, found.entry.owner == *owner)
            else {
                let message = format!("`{name}` is not a tool of `{owner}`");
                return Err(CallError::new(ErrorKind::NotFound, message)
                    .with_hint("schedule a tool of the extension itself")
                    .into());
            };
            let is_approved = match found.entry.spec.needs_approval {
                ApprovalPolicy::Never => true,
                ApprovalPolicy::UnlessGranted => instance.manifest.command().is_some(),
                ApprovalPolicy::Always => false,
            };
            if !is_approved {
                let message = format!(
                    "tool `{name}` requires approval, but a schedule has no approval channel"
                );
                return Err(CallError::new(ErrorKind::Denied, message)
                .with_hint(format!(
                    "schedule a tool that requires none, or a `task` of the library; to call it \
                     yourself: {}",
                    OperatorCommand::CallTool { name: None }
                ))
                .into());
            }
            found.entry.arguments.check(arguments)?;
            Ok(instance.invoke(context, name, arguments, limit).await?)
        })
    }

    /// Finds a tool; programs of skills are those of the current skills.
    pub(super) async fn find_current_tool(
        &self,
        context: &CallContext,
        name: &str,
    ) -> Result<ResolvedTool, KernelError> {
        match self.find_tool(name, context.origin) {
            Ok(found) if !found.entry.is_program => return Ok(found),
            // Only here, so that other tools cost no request.
            _ => self.extensions().refresh_programs().await,
        }
        match self.find_tool(name, context.origin) {
            Ok(found) => Ok(found),
            Err(error) => match self.extensions().find_program(context, name).await? {
                Some(entry) => match entry.builtin.clone() {
                    Some(plugin) => Ok(ResolvedTool { entry, target: ToolTarget::Builtin(plugin) }),
                    None => Err(error),
                },
                None => Err(error),
            },
        }
    }

    fn find_tool(&self, name: &str, origin: CallOrigin) -> Result<ResolvedTool, KernelError> {
        // Pinned together with its lookup, so that a reload cannot remove it in between.
        self.extensions().pin_state(|state| {
            let entry = match state.tools.find(name, origin) {
                Ok(entry) => entry.clone(),
                Err(error) => return Some(Err(explain_missing_tool(&state.report, name, error))),
            };
            let target = match &entry.builtin {
                Some(plugin) => ToolTarget::Builtin(Arc::clone(plugin)),
                None => ToolTarget::Extension(state.instances[&entry.owner].pin()?),
            };
            Some(Ok(ResolvedTool { entry, target }))
        })
    }

    /// Returns whether the active skills permit a run to call a tool.
    pub(super) fn is_permitted(&self, session: &RunSession, name: &str) -> bool {
        let state = self.extensions().state();
        state
            .tools
            .find(name, CallOrigin::Agent)
            .is_ok_and(|entry| self.check_permitted(session, entry).is_ok())
    }

    /// Checks a tool against the active skills. Skills that restrict must stay readable, so the
    /// read-only tools of their provider are always permitted.
    fn check_permitted(&self, session: &RunSession, entry: &ToolEntry) -> Result<(), CallError> {
        let permissions = session.permissions.load();
        let name = &entry.spec.name;
        let provider = || {
            let state = self.extensions().state();
            state.instances.get(&entry.owner).is_some_and(|i| i.provides(skill_interface::NAME))
        };
        if permissions.is_allowed(name) || (entry.spec.read_only && provider()) {
            return Ok(());
        }
        let allowed = permissions.allowed_tools().into_iter().flatten();
        let allowed: Vec<_> = allowed.map(String::as_str).collect();
        Err(CallError::new(
            ErrorKind::Denied,
            format!("tool `{name}` is not allowed by the active skills"),
        )
        .with_hint(match allowed.as_slice() {
            [] => "disable one of these skills".to_owned(),
            names => format!("use one of: {}", names.join(", ")),
        }))
    }
}

async fn call_extension(
    agents: &AgentRuntime,
    instance: PinnedInstance,
    mut context: CallContext,
    remaining_ms: Option<u64>,
    name: &str,
    arguments: &str,
) -> Result<ToolOutput, KernelError> {
    let limit = match context.deadline_ms {
        Some(ms) => agents.extensions().limits().tool.min(std::time::Duration::from_millis(ms)),
        None => agents.extensions().limits().tool,
    };
    // The extension learns the deadlines that the kernel enforces: that of the call, and the active
    // time of the run, which may pass more slowly.
    context.deadline_ms = shorter(u64::try_from(limit.as_millis()).ok(), remaining_ms);
    let mut output = instance.invoke(&context, name, arguments, limit).await?;
    if !instance.provides(skill_interface::NAME) {
        // Only a skill provider can state that a text is a skill.
        output.skill = None;
    }
    Ok(output)
}

/// Returns the shorter one of two limits.
fn shorter(one: Option<u64>, other: Option<u64>) -> Option<u64> {
    one.into_iter().chain(other).min()
}

fn no_thread_error(name: &str) -> CallError {
    CallError::new(
        ErrorKind::Denied,
        format!(
            "`{name}` changes the skills of a thread: only a model calls it, in a run of its own"
        ),
    )
}
