//! What models thought before they called tools, as their providers want it back.
//!
//! Thoughts are signed for one provider and are no part of a thread: they are kept in memory, for
//! as long as the calls they led to are being answered.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Mutex, PoisonError};

use genai::chat::ContentPart;

/// Replies whose thoughts are kept.
const KEPT: usize = 512;

/// The thoughts of a provider's models.
#[derive(Default)]
pub(crate) struct ReasoningCache {
    kept: Mutex<ReasoningEntries>,
}

#[derive(Default)]
struct ReasoningEntries {
    by_call: BTreeMap<String, ReasoningEntry>,
    oldest_first: VecDeque<String>,
}

#[derive(Default)]
struct ReasoningEntry {
    parts: Vec<ContentPart>,
    signatures: Option<Vec<String>>,
}

impl ReasoningCache {
    /// Keeps what came before a call, and what it is signed with.
    pub(crate) fn insert(
        &self,
        call_id: &str,
        parts: Vec<ContentPart>,
        signatures: Option<Vec<String>>,
    ) {
        if parts.is_empty() && signatures.is_none() {
            return;
        }
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        kept.by_call.insert(call_id.to_owned(), ReasoningEntry { parts, signatures });
        kept.oldest_first.push_back(call_id.to_owned());
        while kept.oldest_first.len() > KEPT {
            if let Some(oldest) = kept.oldest_first.pop_front() {
                kept.by_call.remove(&oldest);
            }
        }
    }

    /// What came before a call.
    pub(crate) fn parts_before(&self, call_id: &str) -> Option<Vec<ContentPart>> {
        let kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        kept.by_call.get(call_id).map(|thought| thought.parts.clone()).filter(|it| !it.is_empty())
    }

    /// What a call is signed with.
    pub(crate) fn signatures(&self, call_id: &str) -> Option<Vec<String>> {
        let kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        kept.by_call.get(call_id).and_then(|thought| thought.signatures.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_thoughts_are_forgotten() {
        let thoughts = ReasoningCache::default();
        for number in 0..=KEPT {
            thoughts.insert(&number.to_string(), vec![], Some(vec![format!("s{number}")]));
        }
        assert_eq!(thoughts.signatures("0"), None);
        assert_eq!(thoughts.signatures("1"), Some(vec!["s1".to_owned()]));
        assert!(thoughts.parts_before("1").is_none());
    }
}
