//! The capabilities of tool calls, compared with the security manifests of the active skills.

use std::sync::Arc;

use serde_json::json;
use skillhost_core::{Instance, ToolEntry};
use skillhost_events::topic;
use skillhost_manifest::CapabilityMode;
use skillhost_payload::{CallContext, CallError, ErrorKind, SkillRef};

use super::session::RunSession;
use super::skill_capabilities::SkillCapabilities;
use super::skills::fetch_skill;
use crate::agent_runtime::AgentRuntime;

impl AgentRuntime {
    /// Checks the capabilities of a call against the active skills: an undeclared one is an error or
    /// reported once, as the mode of the agent states. A manifest grants nothing: all other checks
    /// are made as well. The tools of the agent's provider of skills are not checked.
    pub(super) async fn check_capabilities(
        &self,
        session: &RunSession,
        context: &CallContext,
        entry: &ToolEntry,
    ) -> Result<(), CallError> {
        if session.capability_mode == CapabilityMode::Off {
            return Ok(());
        }
        let agent = self.find_agent(session.agent.as_str()).ok();
        let provider = agent.and_then(|agent| self.skill_provider(&agent.manifest));
        // An agent must be able to leave a skill. Other extensions may provide skills, too.
        if provider.as_ref().is_some_and(|provider| provider.manifest.id == entry.owner) {
            return Ok(());
        }
        let declared = self.current_capabilities(session, context, provider.as_deref()).await;
        let needs = entry.spec.required_capabilities();
        let undeclared = declared.list_undeclared(&needs);
        let Some((skill, need)) = undeclared.first() else { return Ok(()) };
        let tool = &entry.spec.name;
        if session.capability_mode == CapabilityMode::Enforce {
            return Err(CallError::new(
                ErrorKind::Denied,
                format!(
                    "tool `{tool}` uses `{need}`, which the active skill `{skill}` does not declare"
                ),
            )
            .with_hint("unload the skill if it is no longer needed, or find another way"));
        }
        for (skill, need) in undeclared {
            self.report_undeclared(session, skill, tool, need).await;
        }
        Ok(())
    }

    /// Returns the capabilities of the active skills, also of those that an earlier call of the same
    /// reply has loaded.
    async fn current_capabilities(
        &self,
        session: &RunSession,
        context: &CallContext,
        provider: Option<&Instance>,
    ) -> Arc<SkillCapabilities> {
        let current = session.capabilities.load_full();
        let mut loaded = session.skills.list();
        loaded.retain(|skill| !current.has_skill(&skill.skill_id));
        if loaded.is_empty() {
            return current;
        }
        let mut next = SkillCapabilities::clone(&current);
        for SkillRef { skill_id, .. } in loaded {
            let capabilities = match provider {
                Some(provider) => {
                    let limits = self.extensions().limits();
                    match fetch_skill(provider, limits, context, &skill_id).await {
                        Ok(skill) => skill.capabilities,
                        // An unreadable skill may have a manifest without declarations.
                        Err(_) => Some(Vec::new()),
                    }
                }
                None => None,
            };
            next.insert(skill_id, capabilities);
        }
        let next = Arc::new(next);
        session.capabilities.store(Arc::clone(&next));
        next
    }

    /// Reports an undeclared capability, once in a run: as an event and in the log.
    async fn report_undeclared(&self, session: &RunSession, skill: &str, tool: &str, need: &str) {
        if !session.is_first_report(skill, tool, need) {
            return;
        }
        let agent = session.agent.as_str();
        tracing::warn!(agent, skill, tool, need, "capability not declared by an active skill");
        let payload = json!({
            "agent": agent,
            "thread": session.id,
            "skill": skill,
            "tool": tool,
            "capability": need,
        });
        self.extensions()
            .events()
            .publish_kernel_event(topic::CAPABILITY_UNDECLARED, &payload)
            .await;
    }
}
