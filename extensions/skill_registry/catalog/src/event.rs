//! The differences between two snapshots.

use std::cmp::Ordering;
use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::Arc;

use serde::Serialize;
use skill_format::{Digest, SkillId};

use crate::skill::Skill;

/// A change of the skill behind an id.
///
/// A digest is missing only if the text was never read, which a full pass corrects.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(untagged)]
pub enum SkillEvent {
    /// An id appeared.
    Added {
        /// The skill.
        id: SkillId,
        /// The digest of its SKILL.md.
        digest: Option<Digest>,
    },
    /// An id's SKILL.md has another content.
    Changed {
        /// The skill.
        id: SkillId,
        /// The digest before.
        old: Option<Digest>,
        /// The digest now.
        new: Option<Digest>,
    },
    /// An id is gone.
    Removed {
        /// The skill.
        id: SkillId,
        /// The digest it had.
        digest: Option<Digest>,
    },
    /// The same content has another id.
    Renamed {
        /// The id before.
        from: SkillId,
        /// The id now.
        to: SkillId,
        /// The digest, which did not change.
        digest: Digest,
    },
}

impl SkillEvent {
    /// Returns the event's topic.
    #[must_use]
    pub fn topic(&self) -> &'static str {
        match self {
            Self::Added { .. } => "skill.added",
            Self::Changed { .. } => "skill.changed",
            Self::Removed { .. } => "skill.removed",
            Self::Renamed { .. } => "skill.renamed",
        }
    }

    /// Returns the id the event is about; for a rename, the new one.
    #[must_use]
    pub fn id(&self) -> &SkillId {
        match self {
            Self::Added { id, .. } | Self::Changed { id, .. } | Self::Removed { id, .. } => id,
            Self::Renamed { to, .. } => to,
        }
    }
}

/// Compares two lists of skills that are sorted by id.
///
/// The events are in the order of the ids; a rename has the position of the new id.
pub(crate) fn diff_skills(old: &[Arc<Skill>], new: &[Arc<Skill>]) -> Vec<SkillEvent> {
    let mut events = Vec::new();
    let (mut old, mut new) = (old.iter().peekable(), new.iter().peekable());
    loop {
        let order = match (old.peek(), new.peek()) {
            (None, None) => break,
            (Some(_), None) => Ordering::Less,
            (None, Some(_)) => Ordering::Greater,
            (Some(a), Some(b)) => a.id().cmp(b.id()),
        };
        match order {
            Ordering::Less => events.extend(old.next().map(|skill| SkillEvent::Removed {
                id: skill.id().clone(),
                digest: skill.digest(),
            })),
            Ordering::Greater => {
                events.extend(new.next().map(|skill| SkillEvent::Added {
                    id: skill.id().clone(),
                    digest: skill.digest(),
                }));
            }
            Ordering::Equal => {
                let pair = old.next().zip(new.next());
                events.extend(pair.and_then(|(before, after)| changed(before, after)));
            }
        }
    }
    pair_renames(&mut events);
    events
}

fn changed(before: &Arc<Skill>, after: &Arc<Skill>) -> Option<SkillEvent> {
    let (old, new) = (before.digest(), after.digest());
    let same = Arc::ptr_eq(before, after) || (old.is_some() && old == new);
    (!same).then(|| SkillEvent::Changed { id: after.id().clone(), old, new })
}

/// Joins a removal and an addition of the same content into one event.
fn pair_renames(events: &mut Vec<SkillEvent>) {
    let mut removed: HashMap<Digest, VecDeque<SkillId>> = HashMap::new();
    for event in events.iter() {
        if let SkillEvent::Removed { id, digest: Some(digest) } = event {
            removed.entry(*digest).or_default().push_back(id.clone());
        }
    }
    let mut gone = HashSet::new();
    for event in events.iter_mut() {
        if let SkillEvent::Added { id, digest: Some(digest) } = event
            && let Some(from) = removed.get_mut(digest).and_then(VecDeque::pop_front)
        {
            gone.insert(from.clone());
            *event = SkillEvent::Renamed { from, to: id.clone(), digest: *digest };
        }
    }
    events.retain(|event| match event {
        SkillEvent::Removed { id, .. } => !gone.contains(id),
        _ => true,
    });
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::skill::tests::skill;

    fn id(text: &str) -> SkillId {
        SkillId::new(text).unwrap()
    }

    #[test]
    fn lists_differ_by_id_and_digest() {
        let (one, two, three) =
            (Digest::compute(b"1"), Digest::compute(b"2"), Digest::compute(b"3"));
        let kept = skill("kept", Some(one));
        let old = [
            skill("edited", Some(one)),
            kept.clone(),
            skill("moved", Some(three)),
            skill("same", Some(two)),
            skill("twin-a", Some(two)),
            skill("unknown", None),
            skill("unread", None),
        ];
        let new = [
            skill("edited", Some(two)),
            kept,
            skill("new", None),
            skill("renamed", Some(three)),
            skill("same", Some(two)),
            skill("unknown", None),
            skill("unread", Some(one)),
        ];
        assert_eq!(
            diff_skills(&old, &new),
            [
                SkillEvent::Changed { id: id("edited"), old: Some(one), new: Some(two) },
                SkillEvent::Added { id: id("new"), digest: None },
                SkillEvent::Renamed { from: id("moved"), to: id("renamed"), digest: three },
                SkillEvent::Removed { id: id("twin-a"), digest: Some(two) },
                SkillEvent::Changed { id: id("unknown"), old: None, new: None },
                SkillEvent::Changed { id: id("unread"), old: None, new: Some(one) },
            ]
        );
    }

    #[test]
    fn event_digests_are_hexadecimal() {
        let digest = Digest::compute(b"abc");
        let event = SkillEvent::Changed { id: id("x"), old: None, new: Some(digest) };
        assert_eq!(
            serde_json::to_value(&event).unwrap(),
            serde_json::json!({"id": "x", "old": null, "new": digest.to_string()})
        );
        assert_eq!((event.topic(), event.id().as_str()), ("skill.changed", "x"));
    }
}
