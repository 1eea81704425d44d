//! Notices a model that does the same thing again and again.

use std::collections::BTreeMap;

use serde_json::Value;
use sha2::{Digest as _, Sha256};

/// The same round this often is worth a word to the model.
const NOTICE_THRESHOLD: u32 = 3;
/// And this often ends the run.
const ABORT_THRESHOLD: u32 = 5;

/// What the model is told.
pub(crate) const REPEAT_NOTICE: &str = "\n\n(This is the same call with the same answer again. Do something \
                               else, or answer with what you have.)";

/// Counts rounds of tool calls that are alike, one after the other.
#[derive(Default)]
pub(crate) struct LoopGuard {
    last: Option<[u8; 32]>,
    times: u32,
}

/// What to do about a round.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LoopVerdict {
    /// Nothing.
    New,
    /// Tell the model.
    Repeated,
    /// End the run.
    LoopDetected,
}

impl LoopGuard {
    /// Looks at a round: name, arguments and answer of each call.
    pub(crate) fn observe<'a>(
        &mut self,
        calls: impl IntoIterator<Item = (&'a str, &'a str, &'a str)>,
    ) -> LoopVerdict {
        let mut digest = Sha256::new();
        for (name, arguments, answer) in calls {
            for part in [name, &canonicalize(arguments), answer] {
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

/// Arguments without the freedom that JSON leaves; what is no JSON stays as it is.
fn canonicalize(arguments: &str) -> String {
    serde_json::from_str::<Value>(arguments)
        .map_or_else(|_| arguments.to_owned(), |value| sorted(value).to_string())
}

/// A value with its fields in order, whichever order maps keep.
fn sorted(value: Value) -> Value {
    match value {
        Value::Object(fields) => {
            let fields: BTreeMap<_, _> =
                fields.into_iter().map(|(name, value)| (name, sorted(value))).collect();
            Value::Object(fields.into_iter().collect())
        }
        Value::Array(items) => Value::Array(items.into_iter().map(sorted).collect()),
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_round_is_told_at_the_third_and_ends_at_the_fifth_time() {
        let mut guard = LoopGuard::default();
        let rounds: Vec<_> =
            (0..5).map(|_| guard.observe([("a", "{}", "x"), ("b", "", "")])).collect();
        use LoopVerdict::{LoopDetected, New, Repeated};
        assert_eq!(rounds, [New, New, Repeated, Repeated, LoopDetected]);
    }

    #[test]
    fn another_argument_or_another_answer_is_another_round() {
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
