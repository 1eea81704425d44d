//! The approval of a tool call, by the channel of its run or by its task.

use std::sync::Arc;

use skillhost_conversation::{ApprovalDecision, ApprovalRequest, RunEntry};
use skillhost_core::{CallGrant, PreparedCall};
use skillhost_payload::{
    ApprovalPolicy, CallContext, CallError, CallOrigin, ErrorKind, OperatorCommand,
};

use super::lineage::describe_chain;
use super::resolved_tool::{ResolvedTool, ToolTarget};
use super::session::RunSession;
use super::task_call::TaskCall;
use crate::agent_runtime::AgentRuntime;

/// A call that may require approval.
pub(super) struct ApprovedCall<'a> {
    pub(super) tool: &'a ResolvedTool,
    pub(super) arguments: &'a str,
    pub(super) prepared: &'a mut PreparedCall,
}

/// The outcome of a requested approval.
pub(super) enum CallApproval {
    Granted,
    /// The user changed the arguments, so the changed call requires its own approval.
    Changed(String),
    Parked,
}

impl AgentRuntime {
    /// Requests an approval, where the tool or its effect requires one.
    pub(super) async fn require_approval(
        &self,
        context: &CallContext,
        session: Option<&Arc<RunSession>>,
        task: Option<&dyn TaskCall>,
        call: ApprovedCall<'_>,
    ) -> Result<CallApproval, CallError> {
        let entry = &call.tool.entry;
        let always = match entry.spec.needs_approval {
            _ if call.prepared.is_protected => true,
            ApprovalPolicy::UnlessGranted if call.prepared.grant == CallGrant::Given => {
                return Ok(CallApproval::Granted);
            }
            ApprovalPolicy::Never => return Ok(CallApproval::Granted),
            ApprovalPolicy::UnlessGranted => false,
            ApprovalPolicy::Always => true,
        };
        // An operator's own call is its approval.
        if context.origin == CallOrigin::Operator {
            return Ok(CallApproval::Granted);
        }
        let name = entry.spec.name.clone();
        let (scope, grant) = (call.prepared.scope.clone(), call.prepared.grant);
        let scope = scope.as_deref();
        let decision = match (session, task) {
            (Some(session), _) if !always && self.is_approved(session, &name, scope, grant) => {
                return Ok(CallApproval::Granted);
            }
            (Some(session), _) => {
                let asker = (session.agent.to_string(), session.can_park(context));
                let request = self.approval_request(context, call, always, asker).await?;
                self.request_approval(session, &request, scope, grant).await?
            }
            // An approval holds for this call alone.
            (None, Some(task)) => {
                let asker = (context.agent_id.clone(), true);
                let request = self.approval_request(context, call, true, asker).await?;
                task.request_approval(&request).await
            }
            (None, None) => return Err(no_approver_error(&name)),
        };
        match decision {
            ApprovalDecision::Once => Ok(CallApproval::Granted),
            // An approval for each call is never stored, whichever decision the client sends.
            ApprovalDecision::Session => {
                if let Some(session) = session.filter(|_| !always) {
                    self.run_sessions().record_approval(session, &name, scope);
                }
                Ok(CallApproval::Granted)
            }
            ApprovalDecision::Edited { arguments } => Ok(CallApproval::Changed(arguments)),
            ApprovalDecision::Parked => Ok(CallApproval::Parked),
            ApprovalDecision::Refuse { reason } => {
                let why = if reason.is_empty() { String::new() } else { format!(": {reason}") };
                Err(CallError::new(
                    ErrorKind::Denied,
                    format!("call of `{name}` was not approved{why}"),
                )
                .with_hint("do not make the same call again; find another way or ask the user"))
            }
        }
    }

    /// Makes the request for the approval of a call, with all that the call will do. The asker is an
    /// agent, and whether it can wait parked.
    async fn approval_request(
        &self,
        context: &CallContext,
        call: ApprovedCall<'_>,
        always: bool,
        (agent_id, can_park): (String, bool),
    ) -> Result<ApprovalRequest, CallError> {
        let entry = &call.tool.entry;
        if let (None, ToolTarget::Extension(instance)) = (&call.prepared.details, &call.tool.target)
            && let Some(effect) =
                self.visible_effect(instance, &entry.spec, context, call.arguments).await?
        {
            // An approval of one call covers the changes that were shown with it.
            call.prepared.details = Some(effect.details);
            call.prepared.effect = Some(effect.digest);
        }
        Ok(ApprovalRequest {
            agent_id,
            tool: entry.spec.name.clone(),
            extension: entry.owner.to_string(),
            arguments: call.arguments.to_owned(),
            destructive: entry.spec.destructive,
            always,
            details: match (describe_chain(context), call.prepared.details.clone()) {
                (Some(chain), Some(details)) => Some(format!("{chain}\n{details}")),
                (chain, details) => chain.or(details),
            },
            call_key: context.idempotency_key.clone(),
            effect_digest: call.prepared.effect.clone(),
            extension_sha256: call.tool.extension_sha256(),
            can_park,
        })
    }

    fn is_approved(
        &self,
        session: &RunSession,
        tool: &str,
        scope: Option<&str>,
        grant: CallGrant,
    ) -> bool {
        (grant == CallGrant::ByTool && session.permissions.load().is_granted(tool))
            || self.run_sessions().has_approval(session, tool, scope)
    }

    /// Requests a decision from the run's channel, one request at a time.
    async fn request_approval(
        &self,
        session: &RunSession,
        request: &ApprovalRequest,
        scope: Option<&str>,
        grant: CallGrant,
    ) -> Result<ApprovalDecision, CallError> {
        let channel = session.reporter.channel.as_ref();
        let channel = channel.ok_or_else(|| no_approver_error(&request.tool))?;
        let _alone = session.approval_lock.lock().await;
        // Another call of the same tool may have been approved during the wait for the lock.
        if !request.always && self.is_approved(session, &request.tool, scope, grant) {
            return Ok(ApprovalDecision::Once);
        }
        let asked = channel.request_approval(request);
        let decision = match self.within_approval_limit(request.can_park, asked).await {
            Some(ApprovalDecision::Parked) if !request.can_park => {
                ApprovalDecision::Refuse { reason: "this call cannot wait for it".to_owned() }
            }
            Some(decision) => decision,
            None => {
                let limit = self.extensions().limits().approval.as_millis();
                ApprovalDecision::Refuse { reason: format!("approval timed out after {limit} ms") }
            }
        };
        let (tool, recorded) = (request.tool.clone(), decision.clone());
        session.reporter.record(&RunEntry::Approval { tool, decision: recorded });
        Ok(decision)
    }
}

fn no_approver_error(tool: &str) -> CallError {
    CallError::new(
        ErrorKind::Denied,
        format!("tool `{tool}` requires approval, but no approval channel is available"),
    )
    .with_hint(format!(
        "approve it in `{}`, or run: {}",
        OperatorCommand::StartChat,
        OperatorCommand::CallTool { name: Some(tool) }
    ))
}
