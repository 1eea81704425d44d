//! The last good texts, within a bound.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use skill_format::Digest;

/// The approximate size of an entry in addition to its text and key.
const OVERHEAD: u64 = 160;

/// A complete and parsed text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ValidText {
    pub(crate) text: Arc<str>,
    /// The digest of the file's bytes.
    pub(crate) digest: Digest,
}

/// A cache of the most recently used texts, up to a number of bytes.
#[derive(Debug)]
pub(crate) struct TextCache {
    limit: u64,
    inner: Mutex<CacheInner>,
}

#[derive(Debug, Default)]
struct CacheInner {
    slots: HashMap<Arc<str>, CacheSlot>,
    /// Keys by when they were last used.
    order: BTreeMap<u64, Arc<str>>,
    used: u64,
    tick: u64,
}

#[derive(Debug)]
struct CacheSlot {
    good: ValidText,
    tick: u64,
}

impl TextCache {
    pub(crate) fn new(limit: u64) -> Self {
        Self { limit, inner: Mutex::default() }
    }

    /// Inserts a requested or new text; evicts the least recently used ones.
    pub(crate) fn insert(&self, key: &str, good: ValidText) {
        let cost = cost(key, &good);
        if cost > self.limit {
            self.remove(key);
            return;
        }
        let mut inner = self.lock();
        // Inserted before the eviction: the new text has the newest tick and is evicted last.
        inner.insert(key, good, cost);
        while inner.used > self.limit {
            let Some((_, oldest)) = inner.order.pop_first() else { break };
            inner.forget(&oldest);
        }
    }

    /// Inserts a text of a pass if there is room without an eviction.
    pub(crate) fn insert_if_room(&self, key: &str, good: ValidText) {
        let cost = cost(key, &good);
        let mut inner = self.lock();
        let held = inner.slots.get(key).map(|slot| self::cost(key, &slot.good));
        // A text that is held already is the older one and must not outlive the newer.
        if held.is_some() || inner.used + cost <= self.limit {
            if inner.used - held.unwrap_or(0) + cost <= self.limit {
                inner.insert(key, good, cost);
            } else {
                inner.drop_key(key);
            }
        }
    }

    /// Returns a text and marks it as used.
    pub(crate) fn get(&self, key: &str) -> Option<ValidText> {
        let mut inner = self.lock();
        // Ticks order the texts by their last use; a map by tick finds the oldest one.
        inner.tick += 1;
        let tick = inner.tick;
        let slot = inner.slots.get_mut(key)?;
        let good = slot.good.clone();
        let before = std::mem::replace(&mut slot.tick, tick);
        if let Some(key) = inner.order.remove(&before) {
            inner.order.insert(tick, key);
        }
        Some(good)
    }

    /// Returns a text without marking it as used.
    pub(crate) fn peek(&self, key: &str) -> Option<ValidText> {
        self.lock().slots.get(key).map(|slot| slot.good.clone())
    }

    /// Drops a text.
    pub(crate) fn remove(&self, key: &str) {
        self.lock().drop_key(key);
    }

    /// Returns the bytes in use.
    #[cfg(test)]
    pub(crate) fn used_bytes(&self) -> u64 {
        self.lock().used
    }

    fn lock(&self) -> MutexGuard<'_, CacheInner> {
        // The cache is consistent between operations, so a panic elsewhere does not spoil it.
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl CacheInner {
    fn insert(&mut self, key: &str, good: ValidText, cost: u64) {
        // An older text under this key must be subtracted from the used bytes first.
        self.drop_key(key);
        self.tick += 1;
        let key: Arc<str> = key.into();
        self.used += cost;
        self.order.insert(self.tick, Arc::clone(&key));
        self.slots.insert(key, CacheSlot { good, tick: self.tick });
    }

    fn drop_key(&mut self, key: &str) {
        if let Some(tick) = self.slots.get(key).map(|slot| slot.tick) {
            self.order.remove(&tick);
            self.forget(key);
        }
    }

    fn forget(&mut self, key: &str) {
        if let Some(slot) = self.slots.remove(key) {
            self.used -= cost(key, &slot.good);
        }
    }
}

fn cost(key: &str, good: &ValidText) -> u64 {
    (good.text.len() + key.len()) as u64 + OVERHEAD
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(c: char, len: usize) -> ValidText {
        let text: String = std::iter::repeat_n(c, len).collect();
        ValidText { digest: Digest::compute(text.as_bytes()), text: text.into() }
    }

    #[test]
    fn least_recent_text_is_evicted_first() {
        let each = 1_000 + 1 + OVERHEAD;
        let cache = TextCache::new(3 * each);
        for (key, c) in [("1", 'a'), ("2", 'b'), ("3", 'c')] {
            cache.insert(key, text(c, 1_000));
        }
        assert_eq!(cache.get("1"), Some(text('a', 1_000)));
        cache.insert("4", text('d', 1_000));
        assert_eq!(cache.get("2"), None);
        assert_eq!(cache.used_bytes(), 3 * each);
        cache.insert("1", text('e', 10));
        assert_eq!(cache.get("1"), Some(text('e', 10)));
        assert_eq!(cache.used_bytes(), 2 * each + 10 + 1 + OVERHEAD);
        cache.remove("1");
        assert_eq!(cache.used_bytes(), 2 * each);
    }

    #[test]
    fn cache_size_stays_bounded() {
        let cache = TextCache::new(5_000);
        for i in 0..200_usize {
            cache.insert(&format!("p{}", i % 17), text('p', i * 31 % 6_000));
            cache.insert_if_room(&format!("o{}", i % 13), text('o', i * 17 % 3_000));
            assert!(cache.used_bytes() <= 5_000, "{}", cache.used_bytes());
        }
        assert!(cache.used_bytes() > 0);
    }

    #[test]
    fn passed_text_evicts_no_other() {
        let cache = TextCache::new(2_000);
        cache.insert("a", text('a', 1_000));
        cache.insert_if_room("b", text('b', 1_000));
        assert_eq!(cache.get("b"), None);
        cache.insert_if_room("a", text('x', 1_200));
        assert_eq!(cache.get("a"), Some(text('x', 1_200)));
        cache.insert_if_room("a", text('y', 1_900));
        assert_eq!(cache.get("a"), None);
        assert_eq!(cache.used_bytes(), 0);
    }

    #[test]
    fn oversized_text_is_not_cached() {
        let cache = TextCache::new(1_000);
        cache.insert("a", text('a', 100));
        cache.insert("a", text('b', 5_000));
        assert_eq!((cache.get("a"), cache.used_bytes()), (None, 0));
    }
}
