//! The graph of commits.

use std::collections::{BinaryHeap, HashMap};

use super::commit::Commit;
use super::database::Repository;
use super::error::GitError;
use super::object_id::ObjectId;
use crate::walk::WalkControl;

const ONE: u8 = 1;
const OTHER: u8 = 2;
/// A common ancestor, or an ancestor of one.
const STALE: u8 = 4;
const RESULT: u8 = 8;

/// The largest number of commits that a call looks at.
const MAX_COMMITS: usize = 1_000_000;

/// Finds the newest commit that two commits have in common.
pub(crate) fn merge_base(
    repository: &Repository,
    one: ObjectId,
    other: ObjectId,
    control: &WalkControl,
) -> Result<Option<ObjectId>, GitError> {
    if one == other {
        return Ok(Some(one));
    }
    let mut flags: HashMap<ObjectId, u8> = HashMap::new();
    let mut queue = BinaryHeap::new();
    for (id, flag) in [(one, ONE), (other, OTHER)] {
        flags.insert(id, flag);
        queue.push((repository.commit(id)?.committed, id));
    }
    let mut found: Vec<(i64, ObjectId)> = Vec::new();
    // Newest first: as soon as only ancestors of results are left, no better result comes.
    while queue.iter().any(|(_, id)| flags.get(id).is_some_and(|flag| flag & STALE == 0)) {
        let Some((time, id)) = queue.pop() else { break };
        check_limits(flags.len(), control)?;
        let mut own = flags[&id] & (ONE | OTHER | STALE);
        if own == ONE | OTHER {
            let flag = flags.entry(id).or_default();
            if *flag & RESULT == 0 {
                *flag |= RESULT;
                found.push((time, id));
            }
            own |= STALE;
        }
        for parent in repository.commit(id)?.parents {
            let flag = flags.entry(parent).or_default();
            if *flag & own == own {
                continue;
            }
            *flag |= own;
            queue.push((repository.commit(parent)?.committed, parent));
        }
    }
    found.retain(|(_, id)| flags[id] & STALE == 0);
    Ok(found.into_iter().max().map(|(_, id)| id))
}

fn check_limits(seen: usize, control: &WalkControl) -> Result<(), GitError> {
    match seen > MAX_COMMITS || control.is_over() {
        true => Err(GitError::TimedOut),
        false => Ok(()),
    }
}

/// A walk over commits, newest first.
pub(crate) struct CommitWalk<'r> {
    repository: &'r Repository,
    control: &'r WalkControl,
    queue: BinaryHeap<(i64, ObjectId)>,
    /// Whether a commit that was seen is wanted; those that the base has are not.
    seen: HashMap<ObjectId, bool>,
    wanted: usize,
}

impl<'r> CommitWalk<'r> {
    /// Starts at a commit, without the commits that the base has.
    pub(crate) fn new(
        repository: &'r Repository,
        start: ObjectId,
        base: Option<ObjectId>,
        control: &'r WalkControl,
    ) -> Result<Self, GitError> {
        let mut walk =
            Self { repository, control, queue: BinaryHeap::new(), seen: HashMap::new(), wanted: 0 };
        // The base first: if both are the same commit, nothing is wanted.
        for (id, is_wanted) in base.map(|base| (base, false)).into_iter().chain([(start, true)]) {
            walk.push(id, is_wanted)?;
        }
        Ok(walk)
    }

    fn push(&mut self, id: ObjectId, is_wanted: bool) -> Result<(), GitError> {
        match self.seen.get(&id).copied() {
            None => {
                self.queue.push((self.repository.commit(id)?.committed, id));
                self.wanted += usize::from(is_wanted);
                self.seen.insert(id, is_wanted);
            }
            // It is in the queue or was returned; its parents follow when it is taken.
            Some(true) if !is_wanted => {
                self.seen.insert(id, false);
                if self.queue.iter().any(|(_, queued)| *queued == id) {
                    self.wanted -= 1;
                }
            }
            Some(_) => {}
        }
        Ok(())
    }

    /// Returns the next commit.
    pub(crate) fn next(&mut self) -> Result<Option<(ObjectId, Commit)>, GitError> {
        // Once no wanted commit is queued, none can follow.
        while self.wanted > 0 {
            let Some((_, id)) = self.queue.pop() else { break };
            check_limits(self.seen.len(), self.control)?;
            let is_wanted = self.seen[&id];
            self.wanted -= usize::from(is_wanted);
            let commit = self.repository.commit(id)?;
            for parent in &commit.parents {
                self.push(*parent, is_wanted)?;
            }
            if is_wanted {
                return Ok(Some((id, commit)));
            }
        }
        Ok(None)
    }
}
