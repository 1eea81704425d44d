//! The reasoning of models before tool calls, which their providers require in the next request.
//!
//! Reasoning is signed for one provider and does not belong to a thread. It is cached in memory
//! while the results of its calls are sent.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Mutex, PoisonError};

use genai::chat::ContentPart;

/// The limit of calls with cached reasoning.
const MAX_ENTRIES: usize = 512;

/// A cache of the reasoning of a provider's models.
#[derive(Default)]
pub(crate) struct ReasoningCache {
    entries: Mutex<ReasoningEntries>,
}

/// The cached reasoning by call id.
#[derive(Default)]
struct ReasoningEntries {
    by_call: BTreeMap<String, ReasoningEntry>,
    oldest_first: VecDeque<String>,
}

/// The reasoning before one call.
#[derive(Default)]
struct ReasoningEntry {
    parts: Vec<ContentPart>,
    signatures: Option<Vec<String>>,
}

impl ReasoningCache {
    /// Stores the reasoning before a call and the signatures of the call.
    pub(crate) fn insert(
        &self,
        call_id: &str,
        parts: Vec<ContentPart>,
        signatures: Option<Vec<String>>,
    ) {
        if parts.is_empty() && signatures.is_none() {
            return;
        }
        let mut entries = self.entries.lock().unwrap_or_else(PoisonError::into_inner);
        entries.by_call.insert(call_id.to_owned(), ReasoningEntry { parts, signatures });
        entries.oldest_first.push_back(call_id.to_owned());
        // Calls of discarded replies are never looked up, so only a limit removes them.
        while entries.oldest_first.len() > MAX_ENTRIES {
            if let Some(oldest) = entries.oldest_first.pop_front() {
                entries.by_call.remove(&oldest);
            }
        }
    }

    /// Returns the reasoning before a call.
    pub(crate) fn parts_before(&self, call_id: &str) -> Option<Vec<ContentPart>> {
        let entries = self.entries.lock().unwrap_or_else(PoisonError::into_inner);
        entries.by_call.get(call_id).map(|entry| entry.parts.clone()).filter(|it| !it.is_empty())
    }

    /// Returns the signatures of a call.
    pub(crate) fn signatures(&self, call_id: &str) -> Option<Vec<String>> {
        let entries = self.entries.lock().unwrap_or_else(PoisonError::into_inner);
        entries.by_call.get(call_id).and_then(|entry| entry.signatures.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn oldest_reasoning_is_evicted() {
        let cache = ReasoningCache::default();
        for number in 0..=MAX_ENTRIES {
            cache.insert(&number.to_string(), vec![], Some(vec![format!("s{number}")]));
        }
        assert_eq!(cache.signatures("0"), None);
        assert_eq!(cache.signatures("1"), Some(vec!["s1".to_owned()]));
        assert!(cache.parts_before("1").is_none());
    }
}
