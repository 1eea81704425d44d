//! The active skills of a run: their current texts, and the section of the system prompt with them.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt::Write as _;

use skillhost_conversation::{Thread, ThreadError};
use skillhost_core::foreign_text::{escape_elements, neutralize, sanitize_line};
use skillhost_core::{Instance, KernelLimits, fetch_skill_generation};
use skillhost_payload::{
    ActivateSkillRequest, ActiveSkill, CallContext, CallError, CallOrigin, ErrorKind, SkillRef,
    skill_interface,
};

use super::permissions::SkillToolPolicy;
use super::skill_capabilities::SkillCapabilities;
use super::skill_order::{OrderedSkill, order_skills};

/// The element of the system prompt with the active skills.
const ELEMENT: &str = "active_skills";
/// The element of one skill in it.
const SKILL_ELEMENT: &str = "skill";

/// The text before the active skills.
const HEADING: &str = "These skills are loaded, the most recent one last. Their instructions are in \
    force; if they conflict, the later one applies. Other skills in the messages are no longer \
    loaded, and other texts of these skills no longer apply.";

/// The text before active skills that declare an order.
const ORDERED_HEADING: &str = "These skills are loaded, in the order in which they apply. Their \
    instructions are in force; if they conflict, the later one applies. Other skills in the messages \
    are no longer loaded, and other texts of these skills no longer apply.";

/// The places where the text of an active skill can be besides the section.
const IN_INSTRUCTIONS: &str = "(its text is in the instructions above)";
const IN_MESSAGES: &str = "(its text is in a message)";

/// The provider's answers about the active skills, for one generation.
#[derive(Default)]
pub(crate) struct ActiveSkills {
    generation: Option<(u64, u64)>,
    bound: Vec<String>,
    known: BTreeMap<String, SkillLookup>,
}

/// The provider's answer about one skill.
enum SkillLookup {
    Current(Box<ActiveSkill>),
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
        let wanted: Vec<String> = bound.iter().cloned().chain(active).collect();
        // An unloaded skill neither restricts nor grants any longer.
        self.known.retain(|skill_id, _| wanted.contains(skill_id));
        for skill_id in wanted {
            if self.known.contains_key(&skill_id) {
                continue;
            }
            let known = match fetch_skill(provider, limits, context, &skill_id).await {
                Ok(skill) => SkillLookup::Current(Box::new(skill)),
                Err(error) => {
                    let known = match error.kind {
                        ErrorKind::NotFound | ErrorKind::Denied | ErrorKind::Ineligible => {
                            SkillLookup::Gone
                        }
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
                    // The files stay those of the load: the next receipt tells that they changed.
                    Some(SkillRef { digest: now.content.digest.clone(), ..skill.clone() })
                }
                _ => None,
            })
            .collect()
    }

    /// Returns the section of the system prompt with the active skills in their order, or `None`
    /// without any. A text that the request has elsewhere is not repeated.
    pub(crate) fn render_section(&self, thread: &Thread) -> Option<String> {
        let found = thread.skills().iter().filter_map(|active| {
            match self.known.get(&active.skill.skill_id)? {
                SkillLookup::Current(skill) => Some((active, skill)),
                SkillLookup::Gone | SkillLookup::Unreadable => None,
            }
        });
        let found: Vec<_> = found.collect();
        let ordered: Vec<_> = found
            .iter()
            .map(|(active, skill)| OrderedSkill {
                id: &active.skill.skill_id,
                precedes: &skill.precedes,
                follows: &skill.follows,
            })
            .collect();
        let order = order_skills(&ordered);
        let heading = if order.is_sorted() { HEADING } else { ORDERED_HEADING };
        let mut section = format!("<{ELEMENT}>\n{heading}");
        for (active, skill) in order.iter().map(|at| &found[*at]) {
            let skill_id = &active.skill.skill_id;
            let text = match active.in_messages {
                _ if self.bound.contains(skill_id) => Cow::Borrowed(IN_INSTRUCTIONS),
                true => Cow::Borrowed(IN_MESSAGES),
                false => escape_elements(skill.content.text.trim_end(), &[ELEMENT, SKILL_ELEMENT]),
            };
            // Ids have no quotes or brackets, but a provider is not trusted to keep to that.
            let name = sanitize_line(skill_id).replace('"', "'");
            // Writing to a string cannot fail.
            let _ = write!(
                section,
                "\n<{SKILL_ELEMENT} name=\"{name}\">\n{}\n</{SKILL_ELEMENT}>",
                neutralize(&text)
            );
        }
        (!found.is_empty()).then(|| format!("{section}\n</{ELEMENT}>"))
    }

    /// Returns the capabilities that the active skills declare. A removed skill has no manifest; an
    /// unreadable one may have one that declares nothing.
    pub(crate) fn capabilities(&self) -> SkillCapabilities {
        let mut capabilities = SkillCapabilities::default();
        for (skill_id, known) in &self.known {
            let declared = match known {
                SkillLookup::Current(skill) => skill.capabilities.clone(),
                SkillLookup::Gone => None,
                SkillLookup::Unreadable => Some(Vec::new()),
            };
            capabilities.insert(skill_id.clone(), declared);
        }
        capabilities
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
pub(super) async fn fetch_skill(
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
