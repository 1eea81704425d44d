//! What a thread's journal says, one change after the other.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use skillhost_contract::payload::SkillRef;

use super::{ELIDED_RESULT, MessageStatus, ThreadSkill};
use crate::model::Message;

/// One entry of the journal.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "entry", rename_all = "snake_case")]
pub(super) enum ThreadEntry {
    Message {
        message: Message,
        /// Of what a person said. What the kernel says has none.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        message_id: Option<String>,
    },
    Skill {
        skill: SkillRef,
        in_messages: bool,
    },
    Compacted {
        summary: String,
        keep_from: usize,
    },
    #[serde(rename = "left_out")]
    ResultsElided {
        before: usize,
    },
    Reset,
}

/// A conversation and the skills that are active in it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct ThreadState {
    pub(super) messages: Vec<Message>,
    pub(super) skills: Vec<ThreadSkill>,
    /// For each skill, the message that has its text.
    carriers: Vec<Option<usize>>,
    /// What people said, by the ids of their messages, with the answer where there is one. Outlasts
    /// a reset: what was heard once is not heard again.
    heard: BTreeMap<String, Option<String>>,
    /// The one that was said last, until it is answered.
    open: Option<String>,
}

impl ThreadState {
    /// Whether [`ThreadState::apply`] can take a change: a cut must lie within, and not before an answer.
    pub(super) fn can_apply(&self, change: &ThreadEntry) -> bool {
        match change {
            ThreadEntry::Compacted { keep_from, .. } => {
                *keep_from <= self.messages.len()
                    && !matches!(self.messages.get(*keep_from), Some(Message::Tool { .. }))
            }
            ThreadEntry::ResultsElided { before } => *before <= self.messages.len(),
            ThreadEntry::Message { .. } | ThreadEntry::Skill { .. } | ThreadEntry::Reset => true,
        }
    }

    pub(super) fn apply(&mut self, change: ThreadEntry) {
        match change {
            ThreadEntry::Message { message, message_id } => self.push(message, message_id),
            ThreadEntry::Skill { skill, in_messages } => self.activate(skill, in_messages),
            ThreadEntry::Compacted { summary, keep_from } => {
                self.messages.splice(..keep_from, [Message::User { text: summary }]);
                // The summary stands where the first `keep_from` messages were.
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
            ThreadEntry::Reset => {
                let heard = std::mem::take(&mut self.heard);
                *self = Self { heard, ..Self::default() };
            }
        }
    }

    fn push(&mut self, message: Message, message_id: Option<String>) {
        if let Some(id) = message_id {
            self.heard.insert(id.clone(), None);
            self.open = Some(id);
        }
        if let Message::Assistant { text, calls } = &message
            && calls.is_empty()
            && let Some(id) = self.open.take()
        {
            self.heard.insert(id, Some(text.clone()));
        }
        self.messages.push(message);
    }

    pub(super) fn message_status(&self, message_id: &str) -> Option<MessageStatus> {
        Some(match self.heard.get(message_id)? {
            Some(text) => MessageStatus::Answered(text.clone()),
            None if self.open.as_deref() == Some(message_id) => MessageStatus::Open,
            None => MessageStatus::Superseded,
        })
    }

    fn activate(&mut self, skill: SkillRef, in_messages: bool) {
        let carrier = if in_messages { self.messages.len().checked_sub(1) } else { None };
        let known = self.skills.iter().position(|known| known.skill.skill_id == skill.skill_id);
        let Some(known) = known else {
            self.skills.push(ThreadSkill { skill, in_messages: carrier.is_some() });
            self.carriers.push(carrier);
            return;
        };
        let same_text = self.skills[known].skill.digest == skill.digest;
        let carrier = carrier.or(self.carriers[known].filter(|_| same_text));
        self.skills[known] = ThreadSkill { skill, in_messages: carrier.is_some() };
        self.carriers[known] = carrier;
    }

    fn remap_skill_messages(&mut self, moved: impl Fn(usize) -> Option<usize>) {
        for (skill, carrier) in self.skills.iter_mut().zip(&mut self.carriers) {
            *carrier = carrier.and_then(&moved);
            skill.in_messages = carrier.is_some();
        }
    }

    /// The calls of the last reply that have no answer, as `(id, name)`.
    pub(super) fn open_calls(&self) -> Vec<(String, String)> {
        let last = self.messages.iter().rposition(|m| matches!(m, Message::Assistant { .. }));
        let Some(last) = last else { return Vec::new() };
        let Message::Assistant { calls, .. } = &self.messages[last] else { return Vec::new() };
        let answers = &self.messages[last + 1..];
        let answered = |id: &str| {
            answers.iter().any(|m| matches!(m, Message::Tool { call_id, .. } if call_id == id))
        };
        calls
            .iter()
            .filter(|call| !answered(&call.id))
            .map(|call| (call.id.clone(), call.name.clone()))
            .collect()
    }
}
