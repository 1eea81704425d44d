//! The skills that sessions were offered and have read.

use std::collections::HashMap;
use std::sync::Arc;

use skill_format::SessionLines;

/// The limit on the remembered sessions; the least recently used one is dropped first.
const SESSIONS: usize = 512;

/// So many of the skills that a session read last are remembered.
const READ: usize = 16;

/// A session and an agent in it.
type SessionKey = (Box<str>, Box<str>);

/// The sessions.
#[derive(Debug, Default)]
pub(super) struct SessionMemory {
    sessions: HashMap<SessionKey, (u64, SessionRecord)>,
    /// A counter of accesses, by which the oldest one is found.
    now: u64,
}

/// The memory of one session.
#[derive(Clone, Debug, Default)]
pub(super) struct SessionRecord {
    pub(super) known: Option<Arc<LastBlock>>,
    /// The skills it read, the last one at the end.
    pub(super) read: Vec<Box<str>>,
}

/// The last block of a session.
#[derive(Debug)]
pub(super) struct LastBlock {
    /// The hash of the block's inputs.
    pub(super) mark: u64,
    pub(super) text: Arc<str>,
    pub(super) shown: SessionLines,
    /// The hashed lines of the listed skills.
    pub(super) lines: Vec<u64>,
    /// The ids of the skills that it describes because they match the prompt.
    pub(super) matched: Arc<[Box<str>]>,
}

impl SessionMemory {
    /// Returns the memory of a session.
    pub(super) fn session(&mut self, session_id: &str, agent_id: &str) -> SessionRecord {
        self.entry(session_id, agent_id).clone()
    }

    /// Returns the last block of a session, which counts as a use of the session.
    pub(super) fn last_block(&mut self, session_id: &str, agent_id: &str) -> Option<&LastBlock> {
        let (last, session) = self.sessions.get_mut(&key(session_id, agent_id))?;
        self.now += 1;
        *last = self.now;
        session.known.as_deref()
    }

    /// Remembers the block of a session.
    pub(super) fn store_block(&mut self, session_id: &str, agent_id: &str, known: LastBlock) {
        self.entry(session_id, agent_id).known = Some(Arc::new(known));
    }

    /// Remembers that a session read a skill.
    pub(super) fn record_read(&mut self, session_id: &str, agent_id: &str, skill_id: &str) {
        let read = &mut self.entry(session_id, agent_id).read;
        // Moved to the end, so that the skills read last are kept.
        read.retain(|id| **id != *skill_id);
        if read.len() == READ {
            read.remove(0);
        }
        read.push(skill_id.into());
    }

    fn entry(&mut self, session_id: &str, agent_id: &str) -> &mut SessionRecord {
        self.now += 1;
        let key = key(session_id, agent_id);
        if self.sessions.len() == SESSIONS && !self.sessions.contains_key(&key) {
            // A pass over all of them, but only when a new session begins.
            let oldest = self.sessions.iter().min_by_key(|(_, (last, _))| *last);
            if let Some(oldest) = oldest.map(|(key, _)| key.clone()) {
                self.sessions.remove(&oldest);
            }
        }
        let (last, session) = self.sessions.entry(key).or_default();
        *last = self.now;
        session
    }
}

fn key(session_id: &str, agent_id: &str) -> SessionKey {
    (session_id.into(), agent_id.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn least_recent_session_is_evicted() {
        let mut memory = SessionMemory::default();
        for number in 0..SESSIONS {
            memory.record_read(&number.to_string(), "agent", "skill");
        }
        memory.record_read("0", "agent", "other");
        memory.record_read("new", "agent", "skill");
        assert_eq!(memory.sessions.len(), SESSIONS);
        assert_eq!(memory.session("0", "agent").read, ["skill".into(), "other".into()]);
        // The second session was evicted; reading it creates it again.
        assert_eq!(memory.session("1", "agent").read, Vec::<Box<str>>::new());
    }

    #[test]
    fn repeated_readings_are_remembered_once() {
        let mut memory = SessionMemory::default();
        for number in 0..20 {
            memory.record_read("s", "a", &number.to_string());
        }
        memory.record_read("s", "a", "5");
        let read = memory.session("s", "a").read;
        let expected: Vec<Box<str>> =
            (4..20).filter(|n| *n != 5).chain([5]).map(|n| n.to_string().into()).collect();
        assert_eq!(read, expected);
        assert_eq!(memory.session("s", "b").read, Vec::<Box<str>>::new());
    }
}
