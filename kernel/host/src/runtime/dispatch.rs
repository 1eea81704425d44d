//! The one way to a tool, for models, extensions, operators and clients of the MCP server: found,
//! permitted, consented to, called.

use std::sync::Arc;
use std::time::Duration;

use skillhost_contract::payload::{
    ApprovalPolicy, CallContext, CallOrigin, ErrorKind, ToolOutput, skill_interface,
};
use skillhost_manifest::ExtensionId;

use super::create_agent::AgentPlan;
use super::session::Session;
use super::{build_extension, kernel_tools};
use crate::builder::BuildPlan;
use crate::channel::{ApprovalRequest, Decision};
use crate::error::{CallError, KernelError};
use crate::instance::Pinned;
use crate::kernel::Kernel;
use crate::tools::{Entry, ToolBody};
use crate::transcript::RunEntry;

/// A tool that was found, and what does its work.
struct Found {
    entry: Entry,
    body: Body,
}

/// A call that somebody may have to agree to.
struct Call<'a> {
    entry: &'a Entry,
    arguments: &'a str,
    /// What the arguments do not say.
    details: Option<&'a str>,
    /// No standing consent covers its effect.
    is_protected: bool,
}

enum Body {
    Library(Pinned),
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
        let session = self.session_of(&context);
        if let Some(session) = &session {
            self.check_permitted(session, &found.entry)?;
        }
        // What is refused anyway is refused before anybody is asked.
        let mut effect = None;
        let plan = match (&found.body, name, &session) {
            (Body::Kernel, build_extension::NAME, _) => {
                Some(Plan::Build(Box::new(self.plan_of_call(arguments).await?)))
            }
            (Body::Kernel, kernel_tools::CREATE, session) => {
                let session = session.as_ref().ok_or_else(kernel_tools::outside_of_a_run)?;
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
            (None, Body::Library(instance)) if context.origin != CallOrigin::Operator => {
                let spec = &found.entry.spec;
                effect = self.protected_effect(instance, spec, &context, arguments).await?;
                if let Some(effect) = &effect {
                    (call.details, call.is_protected) = (Some(effect.details.as_str()), true);
                }
            }
            (None, _) => {}
        }
        self.consent(&context, session.as_ref(), &call).await?;
        context.approved_effect = effect.map(|effect| effect.digest);
        context.call_id = self.shared.next_call_id();
        match plan {
            Some(Plan::Build(plan)) => return self.build_for(&context, *plan).await,
            Some(Plan::Agent(creator, plan)) => {
                return Ok(kernel_tools::text(self.create_agent(&creator, *plan).await?));
            }
            None => {}
        }
        match found.body {
            Body::Library(instance) => call_library(self, instance, context, name, arguments).await,
            Body::Kernel => self.call_own_tool(session, &context, name, arguments).await,
            Body::Agent => self.call_alias(session, &context, name, arguments).await,
        }
    }

    /// Calls a tool of an extension because one of its schedules is due. Nobody can be asked then, and
    /// whoever wrote the manifest is not a person who agrees: a tool that wants consent is refused.
    /// But where it is enough to have agreed once, that was done for a process extension, whose
    /// manifest was approved together with its program.
    ///
    /// # Errors
    /// As for [`Kernel::invoke`]; [`ErrorKind::NotFound`] for a tool of another extension.
    pub(crate) async fn invoke_scheduled(
        &self,
        owner: &ExtensionId,
        context: &CallContext,
        name: &str,
        arguments: &str,
        limit: Duration,
    ) -> Result<ToolOutput, KernelError> {
        let found = self.find_tool(name, CallOrigin::Operator)?;
        let (Body::Library(instance), true) = (found.body, found.entry.owner == *owner) else {
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

    fn find_tool(&self, name: &str, origin: CallOrigin) -> Result<Found, KernelError> {
        self.shared.pin(|state| {
            let entry = match state.tools.find(name, origin) {
                Ok(entry) => entry.clone(),
                Err(error) => return Some(Err(state.report.explain_tool(name, error))),
            };
            let body = match entry.body {
                ToolBody::Library => Body::Library(state.instances[&entry.owner].pin()?),
                ToolBody::Kernel => Body::Kernel,
                ToolBody::Agent => Body::Agent,
            };
            Some(Ok(Found { entry, body }))
        })
    }

    /// Whether the active skills let a run call a tool.
    pub(super) fn permits(&self, session: &Session, name: &str) -> bool {
        let state = self.shared.state.load();
        state
            .tools
            .find(name, CallOrigin::Agent)
            .is_ok_and(|entry| self.check_permitted(session, entry).is_ok())
    }

    /// Skills that restrict must stay readable, so what only reads them may always be called.
    fn check_permitted(&self, session: &Session, entry: &Entry) -> Result<(), CallError> {
        let permissions = session.permissions.load();
        let name = &entry.spec.name;
        let provider = || {
            let state = self.shared.state.load();
            state.instances.get(&entry.owner).is_some_and(|i| i.provides(skill_interface::NAME))
        };
        if permissions.allows(name) || (entry.spec.read_only && provider()) {
            return Ok(());
        }
        let allowed = permissions.allowed().into_iter().flatten();
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
    async fn consent(
        &self,
        context: &CallContext,
        session: Option<&Arc<Session>>,
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
        let session = session.ok_or_else(|| nobody_to_ask(&entry.spec.name))?;
        if !always && self.has_consent(session, &entry.spec.name) {
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
        match self.ask(session, &request).await? {
            Decision::Once => Ok(()),
            Decision::Session => {
                if !always {
                    self.shared.sessions.keep_consent(session, &request.tool);
                }
                Ok(())
            }
            Decision::Refuse { reason } => {
                let why = if reason.is_empty() { String::new() } else { format!(": {reason}") };
                Err(CallError::new(
                    ErrorKind::Denied,
                    format!("the call of `{}` was refused{why}", request.tool),
                )
                .with_hint("do not make the same call again; find another way or ask the user"))
            }
        }
    }

    fn has_consent(&self, session: &Session, tool: &str) -> bool {
        session.permissions.load().grants(tool) || self.shared.sessions.has_consent(session, tool)
    }

    /// Asks whoever is at the other end, one question after the other.
    async fn ask(
        &self,
        session: &Session,
        request: &ApprovalRequest,
    ) -> Result<Decision, CallError> {
        let channel = session.reporter.channel.as_ref();
        let channel = channel.ok_or_else(|| nobody_to_ask(&request.tool))?;
        let _alone = session.asking.lock().await;
        if !request.always && self.has_consent(session, &request.tool) {
            return Ok(Decision::Once);
        }
        let limit = self.shared.limits.approval;
        let decision = match tokio::time::timeout(limit, channel.approve(request)).await {
            Ok(decision) => decision,
            Err(_) => Decision::Refuse {
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
    instance: Pinned,
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

fn nobody_to_ask(tool: &str) -> CallError {
    CallError::new(
        ErrorKind::Denied,
        format!("the tool `{tool}` needs consent, and nobody can be asked here"),
    )
    .with_hint(format!(
        "a person can consent in `skillhost chat`, or call it: skillhost tool call {tool}"
    ))
}
