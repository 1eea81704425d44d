//! Detection of a model that repeats the same tool calls.

use std::collections::BTreeMap;

use serde_json::Value;
use sha2::{Digest as _, Sha256};

/// The repetition of a round at which the model is warned.
const NOTICE_THRESHOLD: u32 = 3;
/// The repetition of a round at which the run ends.
const ABORT_THRESHOLD: u32 = 5;

/// The warning to the model, appended to a tool result.
pub(crate) const REPEAT_NOTICE: &str = "\n\n(This call was repeated with the same result. Try something \
                                         else, or reply with the results so far.)";

/// A counter of equal consecutive rounds of tool calls.
#[derive(Default)]
pub(crate) struct LoopGuard {
    last: Option<[u8; 32]>,
    times: u32,
}

/// The verdict on a round.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LoopVerdict {
    /// The round differs from the one before.
    New,
    /// The model is warned.
    Repeated,
    /// The run ends.
    LoopDetected,
}

impl LoopGuard {
    /// Records a round: name, arguments and result of each call.
    pub(crate) fn observe<'a>(
        &mut self,
        calls: impl IntoIterator<Item = (&'a str, &'a str, &'a str)>,
    ) -> LoopVerdict {
        let mut digest = Sha256::new();
        for (name, arguments, result) in calls {
            for part in [name, &canonicalize_arguments(arguments), result] {
                // The length separates the parts: moving a character between two of them changes
                // the digest.
                digest.update(u64::try_from(part.len()).unwrap_or(u64::MAX).to_le_bytes());
                digest.update(part);
            }
        }
        let round = digest.finalize().into();
        self.times = if self.last == Some(round) { self.times + 1 } else { 1 };
        self.last = Some(round);
        match self.times {
            times if times >= ABORT_THRESHOLD => LoopVerdict::LoopDetected,
            times if times >= NOTICE_THRESHOLD => LoopVerdict::Repeated,
            _ => LoopVerdict::New,
        }
    }
}

/// Returns arguments with sorted keys and standard spacing; text that is not JSON stays unchanged.
fn canonicalize_arguments(arguments: &str) -> String {
    serde_json::from_str::<Value>(arguments)
        .map_or_else(|_| arguments.to_owned(), |value| sort_fields(value).to_string())
}

/// Sorts a value's fields, independently of the map type of `serde_json`.
fn sort_fields(value: Value) -> Value {
    match value {
        Value::Object(fields) => {
            let fields: BTreeMap<_, _> =
                fields.into_iter().map(|(name, value)| (name, sort_fields(value))).collect();
            Value::Object(fields.into_iter().collect())
        }
        Value::Array(items) => Value::Array(items.into_iter().map(sort_fields).collect()),
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn repeated_round_warns_then_aborts() {
        let mut guard = LoopGuard::default();
        let rounds: Vec<_> =
            (0..5).map(|_| guard.observe([("a", "{}", "x"), ("b", "", "")])).collect();
        use LoopVerdict::{LoopDetected, New, Repeated};
        assert_eq!(rounds, [New, New, Repeated, Repeated, LoopDetected]);
    }

    #[test]
    fn changed_call_resets_count() {
        let mut guard = LoopGuard::default();
        guard.observe([("a", r#"{"n": 1, "m": 2}"#, "x")]);
        guard.observe([("a", r#"{"n":1,"m":2}"#, "x")]);
        assert_eq!(guard.observe([("a", r#"{"m":2,"n":1}"#, "x")]), LoopVerdict::Repeated);
        assert_eq!(guard.observe([("a", r#"{"m":2,"n":1}"#, "y")]), LoopVerdict::New);
        assert_eq!(guard.observe([("a", r#"{"m":2,"n":2}"#, "y")]), LoopVerdict::New);
        assert_eq!(guard.observe([("a", r#"{"m":2"#, ",\"n\":2}y")]), LoopVerdict::New);
        assert_eq!(guard.observe([("a", r#"{"m":2,"n":2}"#, "y")]), LoopVerdict::New);
    }
}
