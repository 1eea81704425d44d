//! Detection of reads that were followed by the read of another skill instead of a use.

use std::collections::VecDeque;

use crate::records::activation::{ActivationKind, SkillActivation};
use crate::records::usage::{UsageMap, utc_day};

/// The number of tool calls within which the read of another skill counts.
const MAX_CALLS: u64 = 3;

/// The maximum number of observed reads; beyond it, the oldest one is no longer observed.
const MAX_OBSERVED: usize = 256;

/// An observer of the reads of running agents.
///
/// A read of a skill's instructions bounced if the agent reads the instructions of another skill in
/// one of the next three tool calls of its run, in a later turn, and has not used a file of the
/// first one before.
#[derive(Debug, Default)]
pub(crate) struct BounceTracker {
    observed: VecDeque<ObservedRead>,
    /// The bounced reads that are not written yet.
    bounced: UsageMap,
}

/// A read whose next calls are observed.
#[derive(Debug)]
struct ObservedRead {
    at_ms: i64,
    skill_id: String,
    agent_id: String,
    session_id: String,
    turn_id: String,
    call_number: u64,
}

impl BounceTracker {
    /// Observes a read. Reads outside of runs have no number and are ignored.
    pub(crate) fn observe(&mut self, reading: &SkillActivation) {
        let Some(number) = reading.call_number else { return };
        let is_instructions = reading.kind == ActivationKind::Skill;
        let bounced = &mut self.bounced;
        self.observed.retain(|earlier| {
            if !earlier.is_by(&reading.session_id, &reading.agent_id) {
                return true;
            }
            if earlier.skill_id == reading.skill_id {
                // Its file is a use; another read of the instructions starts again.
                return false;
            }
            // The numbers of another run are far away.
            if !(earlier.call_number..=earlier.call_number + MAX_CALLS).contains(&number) {
                return false;
            }
            // Skills that a model reads in one turn are meant to be used together.
            if !is_instructions || earlier.turn_id == reading.turn_id {
                return true;
            }
            let (skill, agent) = (&*earlier.skill_id, &*earlier.agent_id);
            let key = (utc_day(earlier.at_ms), skill.into(), agent.into());
            bounced.entry(key).or_default().bounced += 1;
            false
        });
        if is_instructions {
            if self.observed.len() == MAX_OBSERVED {
                self.observed.pop_front();
            }
            self.observed.push_back(ObservedRead {
                at_ms: reading.at_ms,
                skill_id: reading.skill_id.clone(),
                agent_id: reading.agent_id.clone(),
                session_id: reading.session_id.clone(),
                turn_id: reading.turn_id.clone(),
                call_number: number,
            });
        }
    }

    /// Notes that an agent uses a skill in another way, such as by running its script.
    pub(crate) fn note_use(&mut self, session_id: &str, agent_id: &str, skill_id: &str) {
        self.observed
            .retain(|earlier| earlier.skill_id != skill_id || !earlier.is_by(session_id, agent_id));
    }

    /// Moves the counts.
    pub(crate) fn drain_into(&mut self, usage: &mut UsageMap) {
        for (key, counts) in self.bounced.drain() {
            usage.entry(key).or_default().add(&counts);
        }
    }
}

impl ObservedRead {
    fn is_by(&self, session_id: &str, agent_id: &str) -> bool {
        self.session_id == session_id && self.agent_id == agent_id
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(skill: &str, path: Option<&str>, number: u64, turn: &str) -> SkillActivation {
        let is_skill = path.is_none();
        SkillActivation {
            at_ms: 86_400_000 * 5,
            skill_id: skill.to_owned(),
            kind: if is_skill { ActivationKind::Skill } else { ActivationKind::Resource },
            path: path.map(str::to_owned),
            digest: None,
            agent_id: "agent".to_owned(),
            session_id: "thread".to_owned(),
            turn_id: turn.to_owned(),
            origin: "agent".to_owned(),
            tokens: 1,
            call_number: Some(number),
        }
    }

    fn bounced(reads: &[SkillActivation]) -> Vec<(String, u64)> {
        let (mut tracker, mut usage) = (BounceTracker::default(), UsageMap::new());
        reads.iter().for_each(|reading| tracker.observe(reading));
        tracker.drain_into(&mut usage);
        let mut rows: Vec<_> = usage
            .into_iter()
            .map(|((day, skill, agent), counts)| {
                assert_eq!((day, &*agent), (5, "agent"));
                (skill.to_string(), counts.bounced)
            })
            .collect();
        rows.sort();
        rows
    }

    #[test]
    fn other_skill_within_three_calls_bounces() {
        let first = read("a", None, 10, "t1");
        for (number, expected) in [(11, 1), (13, 1), (14, 0), (9, 0)] {
            let found = bounced(&[first.clone(), read("b", None, number, "t2")]);
            assert_eq!(found.len(), expected, "{number}");
        }
    }

    #[test]
    fn used_skill_does_not_bounce() {
        let first = read("a", None, 10, "t1");
        let next = read("b", None, 12, "t3");
        let file = read("a", Some("notes.md"), 11, "t2");
        assert_eq!(bounced(&[first.clone(), file, next.clone()]), []);
        // A file of another skill is no use of this one.
        let other = read("c", Some("notes.md"), 11, "t2");
        assert_eq!(bounced(&[first.clone(), other, next.clone()]), [("a".to_owned(), 1)]);
        let mut tracker = BounceTracker::default();
        tracker.observe(&first);
        tracker.note_use("thread", "other", "a");
        assert_eq!(tracker.observed.len(), 1);
        tracker.note_use("thread", "agent", "a");
        tracker.observe(&next);
        assert!(tracker.bounced.is_empty());
    }

    #[test]
    fn reads_of_one_turn_do_not_bounce() {
        let together = [read("a", None, 10, "t1"), read("b", None, 11, "t1")];
        assert_eq!(bounced(&together), []);
        // Both are observed further: the next turn leaves them.
        let third = [&together[..], &[read("c", None, 12, "t2")]].concat();
        assert_eq!(bounced(&third), [("a".to_owned(), 1), ("b".to_owned(), 1)]);
    }

    #[test]
    fn reads_outside_of_runs_are_ignored() {
        let outside = SkillActivation { call_number: None, ..read("b", None, 11, "t2") };
        assert_eq!(bounced(&[read("a", None, 10, "t1"), outside]), []);
        let elsewhere =
            SkillActivation { session_id: "other".to_owned(), ..read("b", None, 11, "t2") };
        assert_eq!(bounced(&[read("a", None, 10, "t1"), elsewhere]), []);
    }

    #[test]
    fn observed_reads_are_bounded() {
        let mut tracker = BounceTracker::default();
        for number in 0..2 * MAX_OBSERVED {
            let session_id = number.to_string();
            tracker.observe(&SkillActivation { session_id, ..read("a", None, 1, "t") });
        }
        assert_eq!(tracker.observed.len(), MAX_OBSERVED);
    }
}
