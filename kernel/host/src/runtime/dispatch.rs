//! The dispatch of tool calls of models, extensions, operators and MCP clients: every call is
//! resolved, checked against permissions, approved and executed here.

use std::sync::Arc;
use std::time::Duration;

use skillhost_conversation::{ApprovalDecision, ApprovalRequest, RunEntry};
use skillhost_manifest::ExtensionId;
use skillhost_payload::{
    ApprovalPolicy, CallContext, CallError, CallOrigin, ErrorKind, ToolOutput, skill_interface,
};

use super::create_agent::AgentPlan;
use super::session::RunSession;
use super::{build_extension, kernel_tools};
use crate::builder::BuildPlan;
use crate::error::KernelError;
use crate::instance::PinnedInstance;
use crate::kernel::Kernel;
use crate::tools::{ToolEntry, ToolImplementation};

/// A resolved tool with its implementation.
struct ResolvedTool {
    entry: ToolEntry,
    implementation: ResolvedImplementation,
}

/// A call that may require approval.
struct Call<'a> {
    entry: &'a ToolEntry,
    arguments: &'a str,
    /// Text for the approval beyond the arguments.
    details: Option<&'a str>,
    /// True if the effect requires approval every time.
    is_protected: bool,
}

enum ResolvedImplementation {
    Library(PinnedInstance),
    Kernel,
    Agent,
}

/// The planned work of a kernel tool, shown with its approval.
enum Plan {
    Build(Box<BuildPlan>),
    /// An agent to be created, after the id of its creator.
    Agent(ExtensionId, Box<AgentPlan>),
}

impl Plan {
    fn details(&self) -> &str {
        match self {
            Self::Build(plan) => &plan.details,
            Self::Agent(_, plan) => &plan.details,
        }
    }
}

impl Kernel {
    /// Calls a tool with arguments as JSON text.
    pub(crate) async fn invoke_tool(
        &self,
        mut context: CallContext,
        name: &str,
        arguments: &str,
    ) -> Result<ToolOutput, KernelError> {
        let found = self.find_tool(name, context.origin)?;
        found.entry.arguments.check(arguments)?;
        let session = self.session_for(&context);
        if let Some(session) = &session {
            self.check_permitted(session, &found.entry)?;
        }
        // A call that fails anyway fails before any approval is requested.
        let mut effect = None;
        let plan = match (&found.implementation, name, &session) {
            (ResolvedImplementation::Kernel, build_extension::NAME, _) => {
                Some(Plan::Build(Box::new(self.plan_from_args(arguments).await?)))
            }
            (ResolvedImplementation::Kernel, kernel_tools::CREATE, session) => {
                let session = session.as_ref().ok_or_else(kernel_tools::no_run_error)?;
                let new = kernel_tools::parse_args(arguments)?;
                let planned = self.plan_agent(session, &context, new).await?;
                Some(Plan::Agent(session.agent.clone(), Box::new(planned)))
            }
            _ => None,
        };
        let mut call = Call { entry: &found.entry, arguments, details: None, is_protected: false };
        // Only the kernel may state an approved effect; a caller's value is dropped.
        context.approved_effect = None;
        match (&plan, &found.implementation) {
            (Some(plan), _) => call.details = Some(plan.details()),
            (None, ResolvedImplementation::Library(instance))
                if context.origin != CallOrigin::Operator =>
            {
                let spec = &found.entry.spec;
                effect = self.protected_effect(instance, spec, &context, arguments).await?;
                if let Some(effect) = &effect {
                    (call.details, call.is_protected) = (Some(effect.details.as_str()), true);
                }
            }
            (None, _) => {}
        }
        self.require_approval(&context, session.as_ref(), &call).await?;
        context.approved_effect = effect.map(|effect| effect.digest);
        // Only calls that are executed get an id, so it is set after the approval.
        context.call_id = self.shared.next_call_id();
        match plan {
            Some(Plan::Build(plan)) => return self.build_for_agent(&context, *plan).await,
            Some(Plan::Agent(creator, plan)) => {
                return Ok(kernel_tools::text_output(self.create_agent(&creator, *plan).await?));
            }
            None => {}
        }
        match found.implementation {
            ResolvedImplementation::Library(instance) => {
                call_library(self, instance, context, name, arguments).await
            }
            ResolvedImplementation::Kernel => {
                self.call_kernel_tool(session, &context, name, arguments).await
            }
            ResolvedImplementation::Agent => {
                self.call_alias(session, &context, name, arguments).await
            }
        }
    }

    /// Calls a tool of an extension for one of its scheduled jobs. A schedule has no approval
    /// channel, and its manifest's author is not an approver: a tool that always requires approval
    /// is rejected. Where one approval is enough, a process extension has it, as its manifest was
    /// approved together with its program.
    ///
    /// # Errors
    /// As for [`Kernel::invoke_tool_as`]; [`ErrorKind::NotFound`] for a tool of another extension.
    pub(crate) async fn invoke_scheduled(
        &self,
        owner: &ExtensionId,
        context: &CallContext,
        name: &str,
        arguments: &str,
        limit: Duration,
    ) -> Result<ToolOutput, KernelError> {
        let found = self.find_tool(name, CallOrigin::Operator)?;
        let (ResolvedImplementation::Library(instance), true) =
            (found.implementation, found.entry.owner == *owner)
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
            let message =
                format!("tool `{name}` requires approval, but a schedule has no approval channel");
            return Err(CallError::new(ErrorKind::Denied, message)
                .with_hint(
                    "schedule a tool that requires none, or a `task` of the library; to call it \
                     yourself: skillhost tool call",
                )
                .into());
        }
        found.entry.arguments.check(arguments)?;
        Ok(instance.invoke(context, name, arguments, limit).await?)
    }

    fn find_tool(&self, name: &str, origin: CallOrigin) -> Result<ResolvedTool, KernelError> {
        // Pinned together with its lookup, so that a reload cannot remove it in between.
        self.shared.pin_state(|state| {
            let entry = match state.tools.find(name, origin) {
                Ok(entry) => entry.clone(),
                Err(error) => return Some(Err(state.report.explain_tool(name, error))),
            };
            let implementation = match entry.body {
                ToolImplementation::Library => {
                    ResolvedImplementation::Library(state.instances[&entry.owner].pin()?)
                }
                ToolImplementation::Kernel => ResolvedImplementation::Kernel,
                ToolImplementation::Agent => ResolvedImplementation::Agent,
            };
            Some(Ok(ResolvedTool { entry, implementation }))
        })
    }

    /// Returns whether the active skills permit a run to call a tool.
    pub(super) fn is_permitted(&self, session: &RunSession, name: &str) -> bool {
        let state = self.shared.state.load();
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
            let state = self.shared.state.load();
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

    /// Requests an approval, where the tool or its effect requires one.
    async fn require_approval(
        &self,
        context: &CallContext,
        session: Option<&Arc<RunSession>>,
        call: &Call<'_>,
    ) -> Result<(), CallError> {
        let entry = call.entry;
        let always = match entry.spec.needs_approval {
            _ if call.is_protected => true,
            ApprovalPolicy::Never => return Ok(()),
            ApprovalPolicy::UnlessGranted => false,
            ApprovalPolicy::Always => true,
        };
        // An operator's own call is its approval.
        if context.origin == CallOrigin::Operator {
            return Ok(());
        }
        let session = session.ok_or_else(|| no_approver_error(&entry.spec.name))?;
        if !always && self.is_approved(session, &entry.spec.name) {
            return Ok(());
        }
        let request = ApprovalRequest {
            agent_id: session.agent.to_string(),
            tool: entry.spec.name.clone(),
            extension: entry.owner.to_string(),
            arguments: call.arguments.to_owned(),
            destructive: entry.spec.destructive,
            always,
            details: call.details.map(str::to_owned),
        };
        match self.request_approval(session, &request).await? {
            ApprovalDecision::Once => Ok(()),
            // An approval for each call is never stored, whichever decision the client sends.
            ApprovalDecision::Session => {
                if !always {
                    self.shared.sessions.record_approval(session, &request.tool);
                }
                Ok(())
            }
            ApprovalDecision::Refuse { reason } => {
                let why = if reason.is_empty() { String::new() } else { format!(": {reason}") };
                Err(CallError::new(
                    ErrorKind::Denied,
                    format!("call of `{}` was not approved{why}", request.tool),
                )
                .with_hint("do not make the same call again; find another way or ask the user"))
            }
        }
    }

    fn is_approved(&self, session: &RunSession, tool: &str) -> bool {
        session.permissions.load().is_granted(tool)
            || self.shared.sessions.has_approval(session, tool)
    }

    /// Requests a decision from the run's channel, one request at a time.
    async fn request_approval(
        &self,
        session: &RunSession,
        request: &ApprovalRequest,
    ) -> Result<ApprovalDecision, CallError> {
        let channel = session.reporter.channel.as_ref();
        let channel = channel.ok_or_else(|| no_approver_error(&request.tool))?;
        let _alone = session.approval_lock.lock().await;
        // Another call of the same tool may have been approved during the wait for the lock.
        if !request.always && self.is_approved(session, &request.tool) {
            return Ok(ApprovalDecision::Once);
        }
        let limit = self.shared.limits.approval;
        let decision = match tokio::time::timeout(limit, channel.request_approval(request)).await {
            Ok(decision) => decision,
            Err(_) => ApprovalDecision::Refuse {
                reason: format!("approval timed out after {} ms", limit.as_millis()),
            },
        };
        let (tool, recorded) = (request.tool.clone(), decision.clone());
        session.reporter.record(&RunEntry::Approval { tool, decision: recorded });
        Ok(decision)
    }
}

async fn call_library(
    kernel: &Kernel,
    instance: PinnedInstance,
    mut context: CallContext,
    name: &str,
    arguments: &str,
) -> Result<ToolOutput, KernelError> {
    let limit = match context.deadline_ms {
        Some(ms) => kernel.shared.limits.tool.min(std::time::Duration::from_millis(ms)),
        None => kernel.shared.limits.tool,
    };
    // The extension learns the deadline that the kernel enforces.
    context.deadline_ms = u64::try_from(limit.as_millis()).ok();
    let mut output = instance.invoke(&context, name, arguments, limit).await?;
    if !instance.provides(skill_interface::NAME) {
        // Only a skill provider can state that a text is a skill.
        output.skill = None;
    }
    Ok(output)
}

fn no_approver_error(tool: &str) -> CallError {
    CallError::new(
        ErrorKind::Denied,
        format!("tool `{tool}` requires approval, but no approval channel is available"),
    )
    .with_hint(format!("approve it in `skillhost chat`, or run: skillhost tool call {tool}"))
}
