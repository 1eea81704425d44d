//! Counts of the blocks that turns were offered, on their way into the ledger.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use skill_format::listed_id;

use crate::records::usage::{UsageCounts, UsageMap};

/// The number of blocks that are counted as such; beyond it, their skills are counted at once.
const MAX_BLOCKS: usize = 256;

/// The day of counts before they are written.
const NO_DAY: i64 = 0;

/// The number of turns in which each agent was offered each block.
///
/// A turn adds one to the count of its block. The skills are counted later, outside of turns.
#[derive(Debug, Default)]
pub struct OfferLog(Mutex<OfferCounts>);

#[derive(Debug, Default)]
struct OfferCounts {
    blocks: Vec<OfferedBlock>,
    /// The counts of blocks that were too many.
    counts: UsageMap,
}

/// A block and the number of turns of an agent that had it.
#[derive(Debug)]
struct OfferedBlock {
    agent_id: Arc<str>,
    /// Held, so that no other block gets its address.
    text: Arc<str>,
    matched: Option<Arc<[Box<str>]>>,
    turns: u64,
}

impl OfferLog {
    /// Counts a turn of an agent with a block. `matched` are the skills that the block describes
    /// because they match the prompt; `None` for a block that lists every skill.
    ///
    /// Allocates only for a block that the agent was not offered since the write before the last.
    // Compiled in the crate that renders blocks, which is optimized for speed.
    #[inline]
    pub fn record(&self, agent_id: &str, text: &Arc<str>, matched: Option<&Arc<[Box<str>]>>) {
        // Operators look at blocks without an agent.
        if agent_id.is_empty() {
            return;
        }
        let mut state = self.lock();
        // The newest first: the blocks of many sessions are only offered in a few turns each.
        let mut known = state.blocks.iter_mut().rev();
        if let Some(block) =
            known.find(|it| Arc::ptr_eq(&it.text, text) && *it.agent_id == *agent_id)
        {
            block.turns += 1;
            return;
        }
        let (text, matched) = (Arc::clone(text), matched.cloned());
        state.add(OfferedBlock { agent_id: agent_id.into(), text, matched, turns: 1 });
    }

    /// Moves the counts to those of a day; returns whether there were any.
    pub(crate) fn drain_into(&self, usage: &mut UsageMap, day: i64) -> bool {
        // Turns wait for the lock, so the skills are counted without it.
        let OfferCounts { blocks, counts } = self.lock().take();
        blocks.iter().for_each(|block| block.add_to(usage, day));
        let is_empty = blocks.is_empty() && counts.is_empty();
        for ((_, skill_id, agent_id), counts) in counts {
            usage.entry((day, skill_id, agent_id)).or_default().add(&counts);
        }
        !is_empty
    }

    #[inline]
    fn lock(&self) -> MutexGuard<'_, OfferCounts> {
        // A panic of another holder leaves complete counts: each is changed at once.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl OfferCounts {
    /// Takes the counts. Blocks without a turn since the last time are removed; the others stay, so
    /// that their next turn allocates nothing.
    fn take(&mut self) -> Self {
        self.blocks.retain(|block| block.turns > 0);
        let blocks = self.blocks.iter_mut().map(OfferedBlock::take).collect();
        Self { blocks, counts: std::mem::take(&mut self.counts) }
    }

    fn add(&mut self, block: OfferedBlock) {
        if self.blocks.len() == MAX_BLOCKS {
            let blocks = std::mem::take(&mut self.blocks);
            blocks.iter().for_each(|block| block.add_to(&mut self.counts, NO_DAY));
        }
        self.blocks.push(block);
    }
}

impl OfferedBlock {
    /// Takes the turns.
    fn take(&mut self) -> Self {
        let (agent_id, text) = (Arc::clone(&self.agent_id), Arc::clone(&self.text));
        Self {
            agent_id,
            text,
            matched: self.matched.clone(),
            turns: std::mem::take(&mut self.turns),
        }
    }

    fn add_to(&self, usage: &mut UsageMap, day: i64) {
        // A block that is kept for its next turn.
        if self.turns == 0 {
            return;
        }
        let mut add = |skill_id: &str, counts: UsageCounts| {
            let key = (day, skill_id.into(), Box::from(&*self.agent_id));
            usage.entry(key).or_default().add(&counts);
        };
        for skill_id in self.text.lines().filter_map(listed_id) {
            add(skill_id, UsageCounts { offered: self.turns, ..UsageCounts::default() });
        }
        for skill_id in self.matched.iter().flat_map(|ids| ids.iter()) {
            add(skill_id, UsageCounts { surfaced: self.turns, ..UsageCounts::default() });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counts(log: &OfferLog) -> Vec<(String, String, u64, u64)> {
        let mut usage = UsageMap::new();
        log.drain_into(&mut usage, 3);
        let mut rows: Vec<_> = usage
            .into_iter()
            .map(|((day, skill, agent), counts)| {
                assert_eq!(day, 3);
                (agent.to_string(), skill.to_string(), counts.offered, counts.surfaced)
            })
            .collect();
        rows.sort();
        rows
    }

    fn row(agent: &str, skill: &str, offered: u64, surfaced: u64) -> (String, String, u64, u64) {
        (agent.to_owned(), skill.to_owned(), offered, surfaced)
    }

    #[test]
    fn turns_are_counted_per_agent() {
        let log = OfferLog::default();
        let full: Arc<str> = "head\n• `a` — About `b` — c.\n• `b`\n(3 more)\n".into();
        let picked: Arc<str> = "head\n• `b` — B.\nnew:\n• `c` — C.\n".into();
        let matched: Arc<[Box<str>]> = ["c".into()].into();
        log.record("one", &full, None);
        log.record("two", &full, None);
        log.record("one", &full, None);
        log.record("two", &picked, Some(&matched));
        log.record("", &full, None);
        let expected = [
            row("one", "a", 2, 0),
            row("one", "b", 2, 0),
            row("two", "a", 1, 0),
            row("two", "b", 2, 0),
            row("two", "c", 1, 1),
        ];
        assert_eq!(counts(&log), expected);
        assert_eq!(counts(&log), []);
    }

    #[test]
    fn block_is_kept_until_next_write() {
        let log = OfferLog::default();
        let text: Arc<str> = "• `a` — A.\n".into();
        log.record("one", &text, None);
        assert_eq!(counts(&log), [row("one", "a", 1, 0)]);
        let known = |log: &OfferLog| log.lock().blocks.len();
        assert_eq!(known(&log), 1);
        log.record("one", &text, None);
        assert_eq!(counts(&log), [row("one", "a", 1, 0)]);
        assert_eq!((counts(&log), known(&log)), (Vec::new(), 0));
        // The text of a block that is no longer offered is not held.
        assert_eq!(Arc::strong_count(&text), 1);
    }

    #[test]
    fn many_blocks_are_counted_exactly() {
        let log = OfferLog::default();
        for _ in 0..3 * MAX_BLOCKS {
            log.record("one", &Arc::from("• `a` — A.\n"), None);
        }
        assert!(log.lock().blocks.len() <= MAX_BLOCKS);
        assert_eq!(counts(&log), [row("one", "a", 3 * MAX_BLOCKS as u64, 0)]);
    }
}
