//! The state of a thread, built from its journal one entry at a time.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;
use skillhost_files::sha256_hex;
use skillhost_payload::{CallEffect, SkillRef};

use super::entry::{
    CallAttempts, ELIDED_RESULT, MessageStatus, OpenCall, ThreadEntry, ThreadSkill,
};
use crate::model::{Message, ModelToolCall};

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
    /// The number of replies so far, which identifies the last one also after a compaction or a
    /// reset.
    replies: u64,
    /// The calls of the last reply have their starts recorded.
    records_starts: bool,
    /// The recorded starts of the last reply's calls, by call id.
    started: BTreeMap<String, StartedCall>,
    /// The calls that may have happened and have no result of their tool. Survives a reset, so that
    /// none is repeated silently.
    uncertain: Vec<UncertainEntry>,
}

/// The recorded starts of one call.
#[derive(Debug, Clone, PartialEq, Eq)]
struct StartedCall {
    count: u32,
    effect: CallEffect,
    arguments: Option<String>,
}

/// A call that may have happened.
#[derive(Debug, Clone, PartialEq, Eq)]
struct UncertainEntry {
    tool: String,
    arguments: String,
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
            | ThreadEntry::CallStarted { .. }
            | ThreadEntry::Skill { .. }
            | ThreadEntry::ActiveSkills { .. }
            | ThreadEntry::Reset => true,
        }
    }

    pub(super) fn apply(&mut self, change: ThreadEntry) {
        match change {
            ThreadEntry::Notice { key, text } => {
                if self.notices.insert(key) {
                    self.messages.push(Message::User { text });
                }
            }
            ThreadEntry::Message { message, message_id, records_starts, is_uncertain } => {
                if let (true, Message::Tool { call_id, .. }) = (is_uncertain, &message) {
                    self.record_uncertain_call(call_id);
                }
                self.push(message, message_id);
                self.records_starts |= records_starts;
            }
            ThreadEntry::CallStarted { call_id, effect, arguments } => {
                self.record_start(call_id, effect, arguments);
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
                let uncertain = std::mem::take(&mut self.uncertain);
                let replies = self.replies;
                *self = Self { user_messages, notices, replies, uncertain, ..Self::default() };
            }
        }
    }

    fn push(&mut self, message: Message, message_id: Option<String>) {
        if let Some(id) = message_id {
            self.user_messages.insert(id.clone(), None);
            self.open = Some(id);
        }
        if matches!(message, Message::Assistant { .. }) {
            self.replies += 1;
            self.records_starts = false;
            self.started.clear();
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

    /// Returns the calls of the last reply that have no result.
    pub(super) fn open_calls(&self, thread: &str) -> Vec<OpenCall> {
        let Some((calls, results)) = self.last_reply() else { return Vec::new() };
        let has_result = |id: &str| {
            results.iter().any(|m| matches!(m, Message::Tool { call_id, .. } if call_id == id))
        };
        let open = calls.iter().filter(|call| !has_result(&call.id)).cloned();
        open.map(|call| OpenCall {
            key: self.call_key(thread, &call.id),
            attempts: self.attempts(&call.id),
            call,
        })
        .collect()
    }

    /// Returns the calls of the last reply, and the messages after it.
    fn last_reply(&self) -> Option<(&[ModelToolCall], &[Message])> {
        let last = self.messages.iter().rposition(|m| matches!(m, Message::Assistant { .. }))?;
        let Message::Assistant { calls, .. } = &self.messages[last] else { return None };
        Some((calls, &self.messages[last + 1..]))
    }

    /// Returns the key of a call of the last reply. The parts that a model or a file wrote come last
    /// or have no line break, so no two calls have the same text.
    fn call_key(&self, thread: &str, call_id: &str) -> String {
        sha256_hex(format!("skillhost call\n{thread}\n{}\n{call_id}", self.replies).as_bytes())
    }

    fn attempts(&self, call_id: &str) -> CallAttempts {
        match self.started.get(call_id).cloned() {
            Some(StartedCall { count, effect, arguments }) => {
                CallAttempts::Started { count, effect, arguments }
            }
            None if self.records_starts => CallAttempts::None,
            None => CallAttempts::Unknown,
        }
    }

    fn record_start(&mut self, call_id: String, effect: CallEffect, arguments: Option<String>) {
        let start = StartedCall { count: 0, effect, arguments: None };
        let call = self.started.entry(call_id).or_insert(start);
        call.count += 1;
        if effect == CallEffect::Once {
            call.effect = effect;
        }
        call.arguments = arguments;
    }

    /// Records that a call of the last reply may have happened.
    fn record_uncertain_call(&mut self, call_id: &str) {
        let Some((calls, _)) = self.last_reply() else { return };
        let Some(call) = calls.iter().find(|call| call.id == call_id) else { return };
        if !self.is_uncertain(&call.name, &call.arguments) {
            let (tool, arguments) = (call.name.clone(), call.arguments.clone());
            self.uncertain.push(UncertainEntry { tool, arguments });
        }
    }

    /// Returns whether an identical call may have happened.
    pub(super) fn is_uncertain(&self, tool: &str, arguments: &str) -> bool {
        let same_tool = self.uncertain.iter().filter(|entry| entry.tool == tool);
        let mut known = same_tool.map(|entry| entry.arguments.as_str());
        known.any(|known| known == arguments || is_same_json(known, arguments))
    }
}

/// Returns whether two texts are the same JSON value, in any order of its fields.
fn is_same_json(one: &str, other: &str) -> bool {
    let parse = |text| serde_json::from_str::<Value>(text);
    matches!((parse(one), parse(other)), (Ok(one), Ok(other)) if one == other)
}
