//! The skills that are active in a run: what they say now, and where the model sees it.

use std::borrow::Cow;
use std::collections::BTreeMap;

use skillhost_contract::payload::{
    ActivateSkillRequest, ActiveSkill, CallContext, CallOrigin, ErrorKind, SkillRef,
    skill_interface,
};

use super::permissions::SkillToolPolicy;
use crate::agents::fetch_skill_generation;
use crate::error::CallError;
use crate::foreign_text::neutralize;
use crate::instance::Instance;
use crate::kernel::KernelLimits;
use crate::thread::{Thread, ThreadError};

/// What stands before the texts of active skills in the system prompt.
const HEADING: &str = "[Active Skills]\n\
    These instructions are in force. Where an earlier message has another text of one of these \
    skills, this one has taken its place.";

/// What the provider says of the skills that are active, as of one generation.
#[derive(Default)]
pub(crate) struct ActiveSkills {
    generation: Option<(u64, u64)>,
    bound: Vec<String>,
    known: BTreeMap<String, SkillLookup>,
}

/// What is known of one skill.
enum SkillLookup {
    Current(ActiveSkill),
    /// The provider has it no longer, or not for this caller.
    Gone,
    /// The provider did not say.
    Unreadable,
}

/// What a refresh has found.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum SkillChange {
    /// An active skill has a new text.
    Changed(SkillRef),
    /// An active skill cannot be used any more, and why.
    Lost { skill_id: String, reason: String },
}

impl ActiveSkills {
    /// Asks the provider anew where skills may have changed or become active. `bound` are those of
    /// the agent's manifest; the thread has the others, and keeps what they say now.
    ///
    /// # Errors
    /// The thread's.
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
        // One that does not say when its skills change is asked for them every time.
        let current = fetch_skill_generation(provider, limits.context).await.ok();
        if current.is_none() || current != self.generation {
            self.known.clear();
            self.generation = current;
        }
        self.known.retain(|_, known| !matches!(known, SkillLookup::Unreadable));
        let active = thread.skills().iter().map(|active| active.skill.skill_id.clone());
        let mut news = Vec::new();
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
                    news.push(SkillChange::Lost { skill_id, reason });
                    known
                }
            };
            self.known.insert(skill_id, known);
        }
        for skill in self.find_outdated(thread) {
            thread.activate(skill.clone(), false)?;
            news.push(SkillChange::Changed(skill));
        }
        Ok(news)
    }

    /// Skills of the thread whose text is another by now.
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

    /// The texts that the model does not see in its instructions or in the conversation.
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

    /// What the active skills say about tools. A skill that is gone says nothing; one that cannot be
    /// read just now may be the one that restricts, so it allows nothing.
    pub(crate) fn tool_policies(&self) -> Vec<SkillToolPolicy> {
        let statement = |known: &SkillLookup| match known {
            SkillLookup::Current(skill) => Some(SkillToolPolicy {
                allowed_tools: skill.allowed_tools.clone(),
                grants: skill.grants,
            }),
            SkillLookup::Gone => None,
            SkillLookup::Unreadable => {
                Some(SkillToolPolicy { allowed_tools: Some(Vec::new()), grants: false })
            }
        };
        self.known.values().filter_map(statement).collect()
    }
}

/// Asks for a skill as the agent sees it; one that only a person may invoke was invoked by one, or
/// it would not be active.
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

/// Asks a provider for a skill that somebody is to work by.
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
