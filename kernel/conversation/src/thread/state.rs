//! The state of a thread, built from its journal one entry at a time.

use std::collections::{BTreeMap, BTreeSet};

use skillhost_payload::SkillRef;

use super::entry::{ELIDED_RESULT, MessageStatus, ThreadEntry, ThreadSkill};
use crate::model::Message;

/// The messages of a thread, with its active skills.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct ThreadState {
    pub(super) messages: Vec<Message>,
    pub(super) skills: Vec<ThreadSkill>,
    /// For each skill whose text is in a message, the digest and the index of the message. It stays
    /// when the skill is no longer active, so that a skill loaded again is not sent twice.
    carriers: BTreeMap<String, (String, usize)>,
    /// User messages by id, with the reply where there is one. Survives a reset, so that no message
    /// is processed twice.
    user_messages: BTreeMap<String, Option<String>>,
    /// The id of the last user message, until it is answered.
    open: Option<String>,
    /// The keys of all notices. Survives a reset, so that none is added twice.
    notices: BTreeSet<String>,
}

impl ThreadState {
    /// Returns whether [`ThreadState::apply`] can take a change: a cut must lie within the
    /// messages, and not before a tool result.
    pub(super) fn can_apply(&self, change: &ThreadEntry) -> bool {
        match change {
            ThreadEntry::Compacted { keep_from, .. } => {
                *keep_from <= self.messages.len()
                    && !matches!(self.messages.get(*keep_from), Some(Message::Tool { .. }))
            }
            ThreadEntry::ResultsElided { before } => *before <= self.messages.len(),
            ThreadEntry::Message { .. }
            | ThreadEntry::Notice { .. }
            | ThreadEntry::Skill { .. }
            | ThreadEntry::ActiveSkills { .. }
            | ThreadEntry::Reset => true,
        }
    }

    pub(super) fn apply(&mut self, change: ThreadEntry) {
        match change {
            ThreadEntry::Message { message, message_id } => self.push(message, message_id),
            ThreadEntry::Notice { key, text } => {
                if self.notices.insert(key) {
                    self.messages.push(Message::User { text });
                }
            }
            ThreadEntry::Skill { skill, in_messages } => self.activate(skill, in_messages),
            ThreadEntry::ActiveSkills { skills, result, carried } => {
                self.push(result, None);
                self.replace_skills(skills, carried.as_ref());
            }
            ThreadEntry::Compacted { summary, keep_from } => {
                self.messages.splice(..keep_from, [Message::User { text: summary }]);
                // The summary is message 0, so every kept message moves to one place after it.
                self.remap_skill_messages(|at| at.checked_sub(keep_from).map(|behind| behind + 1));
            }
            ThreadEntry::ResultsElided { before } => {
                for message in &mut self.messages[..before] {
                    if let Message::Tool { text, .. } = message {
                        ELIDED_RESULT.clone_into(text);
                    }
                }
                self.remap_skill_messages(|at| (at >= before).then_some(at));
            }
            // Message ids survive: a client may resend a message after the reset.
            ThreadEntry::Reset => {
                let user_messages = std::mem::take(&mut self.user_messages);
                let notices = std::mem::take(&mut self.notices);
                *self = Self { user_messages, notices, ..Self::default() };
            }
        }
    }

    fn push(&mut self, message: Message, message_id: Option<String>) {
        if let Some(id) = message_id {
            self.user_messages.insert(id.clone(), None);
            self.open = Some(id);
        }
        // A reply with calls is not final: the user message is answered by the reply without any.
        if let Message::Assistant { text, calls } = &message
            && calls.is_empty()
            && let Some(id) = self.open.take()
        {
            self.user_messages.insert(id, Some(text.clone()));
        }
        self.messages.push(message);
    }

    pub(super) fn message_status(&self, message_id: &str) -> Option<MessageStatus> {
        Some(match self.user_messages.get(message_id)? {
            Some(text) => MessageStatus::Answered(text.clone()),
            None if self.open.as_deref() == Some(message_id) => MessageStatus::Open,
            None => MessageStatus::Superseded,
        })
    }

    pub(super) fn has_notice(&self, key: &str) -> bool {
        self.notices.contains(key)
    }

    fn activate(&mut self, skill: SkillRef, in_messages: bool) {
        if in_messages {
            self.record_carrier(&skill);
        }
        match self.skills.iter_mut().find(|known| known.skill.skill_id == skill.skill_id) {
            Some(known) => known.skill = skill,
            None => self.skills.push(ThreadSkill { skill, in_messages: false }),
        }
        self.mark_carried_skills();
    }

    fn replace_skills(&mut self, skills: Vec<SkillRef>, carried: Option<&SkillRef>) {
        if let Some(skill) = carried {
            self.record_carrier(skill);
        }
        let inactive = |skill| ThreadSkill { skill, in_messages: false };
        self.skills = skills.into_iter().map(inactive).collect();
        self.mark_carried_skills();
    }

    /// Records that the last message has the text of a skill.
    fn record_carrier(&mut self, skill: &SkillRef) {
        if let Some(last) = self.messages.len().checked_sub(1) {
            self.carriers.insert(skill.skill_id.clone(), (skill.digest.clone(), last));
        }
    }

    fn mark_carried_skills(&mut self) {
        for ThreadSkill { skill, in_messages } in &mut self.skills {
            let carrier = self.carriers.get(&skill.skill_id);
            *in_messages = carrier.is_some_and(|(digest, _)| *digest == skill.digest);
        }
    }

    pub(super) fn skill_in_message(&self, index: usize) -> Option<&SkillRef> {
        let active = self.skills.iter().filter(|active| active.in_messages);
        let carrier = |skill: &SkillRef| self.carriers.get(&skill.skill_id);
        active
            .map(|active| &active.skill)
            .find(|skill| carrier(skill).is_some_and(|(_, at)| *at == index))
    }

    fn remap_skill_messages(&mut self, moved: impl Fn(usize) -> Option<usize>) {
        self.carriers.retain(|_, (_, at)| match moved(*at) {
            Some(to) => {
                *at = to;
                true
            }
            None => false,
        });
        self.mark_carried_skills();
    }

    /// Returns the calls of the last reply that have no result, as `(id, name)`.
    pub(super) fn open_calls(&self) -> Vec<(String, String)> {
        let last = self.messages.iter().rposition(|m| matches!(m, Message::Assistant { .. }));
        let Some(last) = last else { return Vec::new() };
        let Message::Assistant { calls, .. } = &self.messages[last] else { return Vec::new() };
        let results = &self.messages[last + 1..];
        let has_result = |id: &str| {
            results.iter().any(|m| matches!(m, Message::Tool { call_id, .. } if call_id == id))
        };
        calls
            .iter()
            .filter(|call| !has_result(&call.id))
            .map(|call| (call.id.clone(), call.name.clone()))
            .collect()
    }
}
