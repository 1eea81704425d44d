//! The active skills of a run: their current texts, and the section of the system prompt with them.

use std::borrow::Cow;
use std::collections::BTreeMap;

use skillhost_conversation::{Thread, ThreadError};
use skillhost_core::foreign_text::neutralize;
use skillhost_core::{Instance, KernelLimits, fetch_skill_generation};
use skillhost_payload::{
    ActivateSkillRequest, ActiveSkill, CallContext, CallError, CallOrigin, ErrorKind, SkillRef,
    skill_interface,
};

use super::permissions::SkillToolPolicy;

/// The text before the active skills in the system prompt.
const HEADING: &str = "[Active Skills]\n\
    These instructions are in force. Where an earlier message has another text of one of these \
    skills, this one has taken its place.";

/// The provider's answers about the active skills, for one generation.
#[derive(Default)]
pub(crate) struct ActiveSkills {
    generation: Option<(u64, u64)>,
    bound: Vec<String>,
    known: BTreeMap<String, SkillLookup>,
}

/// The provider's answer about one skill.
enum SkillLookup {
    Current(ActiveSkill),
    /// The provider no longer has it, or not for this caller.
    Gone,
    /// The request failed.
    Unreadable,
}

/// A change found by a refresh.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum SkillChange {
    /// The text of an active skill has changed.
    Changed(SkillRef),
    /// An active skill is no longer usable, for this reason.
    Lost { skill_id: String, reason: String },
}

impl ActiveSkills {
    /// Requests skills that may have changed or become active. `bound` are those of the agent's
    /// manifest; the thread has the others, and stores their new digests.
    ///
    /// # Errors
    /// [`ThreadError`], if the thread cannot be written.
    pub(crate) async fn refresh(
        &mut self,
        provider: Option<&Instance>,
        limits: &KernelLimits,
        context: &CallContext,
        bound: &[String],
        thread: &mut Thread,
    ) -> Result<Vec<SkillChange>, ThreadError> {
        self.bound = bound.to_vec();
        let Some(provider) = provider else { return Ok(Vec::new()) };
        // Without a generation the skills are requested at every turn.
        let current = fetch_skill_generation(provider, limits.context).await.ok();
        if current.is_none() || current != self.generation {
            self.known.clear();
            self.generation = current;
        }
        // An unreadable skill is requested again at every turn until it can be read.
        self.known.retain(|_, known| !matches!(known, SkillLookup::Unreadable));
        let active = thread.skills().iter().map(|active| active.skill.skill_id.clone());
        let mut changes = Vec::new();
        for skill_id in bound.iter().cloned().chain(active) {
            if self.known.contains_key(&skill_id) {
                continue;
            }
            let known = match fetch_skill(provider, limits, context, &skill_id).await {
                Ok(skill) => SkillLookup::Current(skill),
                Err(error) => {
                    let known = match error.kind {
                        ErrorKind::NotFound | ErrorKind::Denied => SkillLookup::Gone,
                        _ => SkillLookup::Unreadable,
                    };
                    let (skill_id, reason) = (skill_id.clone(), error.message);
                    changes.push(SkillChange::Lost { skill_id, reason });
                    known
                }
            };
            self.known.insert(skill_id, known);
        }
        for skill in self.find_outdated(thread) {
            // The new text is in no message, so it goes into the system prompt.
            thread.activate(skill.clone(), false).await?;
            changes.push(SkillChange::Changed(skill));
        }
        Ok(changes)
    }

    /// Returns the skills of the thread whose text has changed.
    fn find_outdated(&self, thread: &Thread) -> Vec<SkillRef> {
        let active = thread.skills().iter().map(|active| &active.skill);
        active
            .filter_map(|skill| match self.known.get(&skill.skill_id)? {
                SkillLookup::Current(now) if now.content.digest != skill.digest => {
                    Some(SkillRef { digest: now.content.digest.clone(), ..skill.clone() })
                }
                _ => None,
            })
            .collect()
    }

    /// Returns the texts that are neither in the instructions nor in the messages.
    pub(crate) fn render_section(&self, thread: &Thread) -> Option<String> {
        let mut parts = vec![Cow::Borrowed(HEADING)];
        for active in thread.skills().iter().filter(|active| !active.in_messages) {
            let skill_id = &active.skill.skill_id;
            if let Some(SkillLookup::Current(skill)) = self.known.get(skill_id)
                && !self.bound.contains(skill_id)
            {
                parts.push(neutralize(skill.content.text.trim_end()));
            }
        }
        (parts.len() > 1).then(|| parts.join("\n\n"))
    }

    /// Returns the tool policies of the active skills. A removed skill has none; an unreadable one
    /// may restrict tools, so it allows none.
    pub(crate) fn tool_policies(&self) -> Vec<SkillToolPolicy> {
        let policy = |known: &SkillLookup| match known {
            SkillLookup::Current(skill) => Some(SkillToolPolicy {
                allowed_tools: skill.allowed_tools.clone(),
                grants: skill.grants,
            }),
            SkillLookup::Gone => None,
            SkillLookup::Unreadable => {
                Some(SkillToolPolicy { allowed_tools: Some(Vec::new()), grants: false })
            }
        };
        self.known.values().filter_map(policy).collect()
    }
}

/// Requests a skill as the agent sees it. A skill for users only is requested as the operator: a
/// user must have invoked it, as it would not be active otherwise.
async fn fetch_skill(
    provider: &Instance,
    limits: &KernelLimits,
    context: &CallContext,
    skill_id: &str,
) -> Result<ActiveSkill, CallError> {
    match activate_skill(provider, limits, context.clone(), skill_id).await {
        Err(error) if error.kind == ErrorKind::NotFound => {
            let context = CallContext { origin: CallOrigin::Operator, ..context.clone() };
            activate_skill(provider, limits, context, skill_id).await
        }
        other => other,
    }
}

/// Requests a skill from a provider, for use in a run.
pub(crate) async fn activate_skill(
    provider: &Instance,
    limits: &KernelLimits,
    context: CallContext,
    skill_id: &str,
) -> Result<ActiveSkill, CallError> {
    let request = ActivateSkillRequest { context, skill_id: skill_id.to_owned() };
    let request =
        serde_json::to_vec(&request).map_err(|error| CallError::protocol_error(&error))?;
    let method = skill_interface::ACTIVATE;
    let reply = provider.call(skill_interface::NAME, method, request, limits.context).await?;
    serde_json::from_slice(&reply).map_err(|error| CallError::protocol_error(&error))
}
