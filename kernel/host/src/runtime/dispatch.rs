//! The one way to a tool, for models, extensions, operators and clients of the MCP server: found,
//! permitted, consented to, called.

use std::sync::Arc;
use std::time::Duration;

use skillhost_contract::payload::{
    ApprovalPolicy, CallContext, CallOrigin, ErrorKind, ToolOutput, skill_interface,
};
use skillhost_manifest::ExtensionId;

use super::create_agent::AgentPlan;
use super::session::RunSession;
use super::{build_extension, kernel_tools};
use crate::builder::BuildPlan;
use crate::channel::{ApprovalDecision, ApprovalRequest};
use crate::error::{CallError, KernelError};
use crate::instance::PinnedInstance;
use crate::kernel::Kernel;
use crate::tools::{ToolEntry, ToolImplementation};
use crate::transcript::RunEntry;

/// A tool that was found, and what does its work.
struct ResolvedTool {
    entry: ToolEntry,
    body: ResolvedImplementation,
}

/// A call that somebody may have to agree to.
struct Call<'a> {
    entry: &'a ToolEntry,
    arguments: &'a str,
    /// What the arguments do not say.
    details: Option<&'a str>,
    /// No standing consent covers its effect.
    is_protected: bool,
}

enum ResolvedImplementation {
    Library(PinnedInstance),
    Kernel,
    Agent,
}

/// What a call of the kernel's will do, which a person is shown before.
enum Plan {
    Build(Box<BuildPlan>),
    /// An agent that the first one makes.
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
        // What is refused anyway is refused before anybody is asked.
        let mut effect = None;
        let plan = match (&found.body, name, &session) {
            (ResolvedImplementation::Kernel, build_extension::NAME, _) => {
                Some(Plan::Build(Box::new(self.plan_from_args(arguments).await?)))
            }
            (ResolvedImplementation::Kernel, kernel_tools::CREATE, session) => {
                let session = session.as_ref().ok_or_else(kernel_tools::no_run_error)?;
                let new = kernel_tools::read(arguments)?;
                let planned = self.plan_agent(session, &context, new).await?;
                Some(Plan::Agent(session.agent.clone(), Box::new(planned)))
            }
            _ => None,
        };
        let mut call = Call { entry: &found.entry, arguments, details: None, is_protected: false };
        // Nobody but the kernel says what was approved.
        context.approved_effect = None;
        match (&plan, &found.body) {
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
        context.call_id = self.shared.next_call_id();
        match plan {
            Some(Plan::Build(plan)) => return self.build_for_agent(&context, *plan).await,
            Some(Plan::Agent(creator, plan)) => {
                return Ok(kernel_tools::text(self.create_agent(&creator, *plan).await?));
            }
            None => {}
        }
        match found.body {
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

    /// Calls a tool of an extension because one of its schedules is due. Nobody can be asked then, and
    /// whoever wrote the manifest is not a person who agrees: a tool that wants consent is refused.
    /// But where it is enough to have agreed once, that was done for a process extension, whose
    /// manifest was approved together with its program.
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
            (found.body, found.entry.owner == *owner)
        else {
            let message = format!("`{name}` is no tool of `{owner}`");
            return Err(CallError::new(ErrorKind::NotFound, message)
                .with_hint("a schedule calls tools of its own extension only")
                .into());
        };
        let consented = match found.entry.spec.needs_approval {
            ApprovalPolicy::Never => true,
            ApprovalPolicy::UnlessGranted => instance.manifest.command().is_some(),
            ApprovalPolicy::Always => false,
        };
        if !consented {
            let message = format!("the tool `{name}` needs consent, and a schedule can ask nobody");
            return Err(CallError::new(ErrorKind::Denied, message)
                .with_hint(
                    "schedule a tool that needs none, or a `task` of the library; a person can \
                     call it: skillhost tool call",
                )
                .into());
        }
        found.entry.arguments.check(arguments)?;
        Ok(instance.invoke(context, name, arguments, limit).await?)
    }

    fn find_tool(&self, name: &str, origin: CallOrigin) -> Result<ResolvedTool, KernelError> {
        self.shared.pin_state(|state| {
            let entry = match state.tools.find(name, origin) {
                Ok(entry) => entry.clone(),
                Err(error) => return Some(Err(state.report.explain_tool(name, error))),
            };
            let body = match entry.body {
                ToolImplementation::Library => {
                    ResolvedImplementation::Library(state.instances[&entry.owner].pin()?)
                }
                ToolImplementation::Kernel => ResolvedImplementation::Kernel,
                ToolImplementation::Agent => ResolvedImplementation::Agent,
            };
            Some(Ok(ResolvedTool { entry, body }))
        })
    }

    /// Whether the active skills let a run call a tool.
    pub(super) fn is_permitted(&self, session: &RunSession, name: &str) -> bool {
        let state = self.shared.state.load();
        state
            .tools
            .find(name, CallOrigin::Agent)
            .is_ok_and(|entry| self.check_permitted(session, entry).is_ok())
    }

    /// Skills that restrict must stay readable, so what only reads them may always be called.
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
            format!("the active skills do not allow the tool `{name}`"),
        )
        .with_hint(match allowed.as_slice() {
            [] => "they allow none".to_owned(),
            names => format!("they allow {}", names.join(", ")),
        }))
    }

    /// Sees to it that somebody agrees, where the tool wants that or the effect does.
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
                    format!("the call of `{}` was refused{why}", request.tool),
                )
                .with_hint("do not make the same call again; find another way or ask the user"))
            }
        }
    }

    fn is_approved(&self, session: &RunSession, tool: &str) -> bool {
        session.permissions.load().is_granted(tool)
            || self.shared.sessions.has_approval(session, tool)
    }

    /// Asks whoever is at the other end, one question after the other.
    async fn request_approval(
        &self,
        session: &RunSession,
        request: &ApprovalRequest,
    ) -> Result<ApprovalDecision, CallError> {
        let channel = session.reporter.channel.as_ref();
        let channel = channel.ok_or_else(|| no_approver_error(&request.tool))?;
        let _alone = session.asking.lock().await;
        if !request.always && self.is_approved(session, &request.tool) {
            return Ok(ApprovalDecision::Once);
        }
        let limit = self.shared.limits.approval;
        let decision = match tokio::time::timeout(limit, channel.request_approval(request)).await {
            Ok(decision) => decision,
            Err(_) => ApprovalDecision::Refuse {
                reason: format!("nobody answered within {} ms", limit.as_millis()),
            },
        };
        let (tool, said) = (request.tool.clone(), decision.clone());
        session.reporter.record(&RunEntry::Approval { tool, decision: said });
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
    context.deadline_ms = u64::try_from(limit.as_millis()).ok();
    let mut output = instance.invoke(&context, name, arguments, limit).await?;
    if !instance.provides(skill_interface::NAME) {
        // Only who provides skills can say that a text is one.
        output.skill = None;
    }
    Ok(output)
}

fn no_approver_error(tool: &str) -> CallError {
    CallError::new(
        ErrorKind::Denied,
        format!("the tool `{tool}` needs consent, and nobody can be asked here"),
    )
    .with_hint(format!(
        "a person can consent in `skillhost chat`, or call it: skillhost tool call {tool}"
    ))
}
