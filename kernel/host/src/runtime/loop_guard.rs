//! Notices a model that does the same thing again and again.

use std::collections::BTreeMap;

use serde_json::Value;
use sha2::{Digest as _, Sha256};

/// The same round this often is worth a word to the model.
const TOLD_AT: u32 = 3;
/// And this often ends the run.
const ENDS_AT: u32 = 5;

/// What the model is told.
pub(crate) const WORD: &str = "\n\n(This is the same call with the same answer again. Do something \
                               else, or answer with what you have.)";

/// Counts rounds of tool calls that are alike, one after the other.
#[derive(Default)]
pub(crate) struct LoopGuard {
    last: Option<[u8; 32]>,
    times: u32,
}

/// What to do about a round.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Round {
    /// Nothing.
    New,
    /// Tell the model.
    Repeated,
    /// End the run.
    Endless,
}

impl LoopGuard {
    /// Looks at a round: name, arguments and answer of each call.
    pub(crate) fn see<'a>(
        &mut self,
        calls: impl IntoIterator<Item = (&'a str, &'a str, &'a str)>,
    ) -> Round {
        let mut digest = Sha256::new();
        for (name, arguments, answer) in calls {
            for part in [name, &canonical(arguments), answer] {
                digest.update(u64::try_from(part.len()).unwrap_or(u64::MAX).to_le_bytes());
                digest.update(part);
            }
        }
        let round = digest.finalize().into();
        self.times = if self.last == Some(round) { self.times + 1 } else { 1 };
        self.last = Some(round);
        match self.times {
            times if times >= ENDS_AT => Round::Endless,
            times if times >= TOLD_AT => Round::Repeated,
            _ => Round::New,
        }
    }
}

/// Arguments without the freedom that JSON leaves; what is no JSON stays as it is.
fn canonical(arguments: &str) -> String {
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
        let rounds: Vec<_> = (0..5).map(|_| guard.see([("a", "{}", "x"), ("b", "", "")])).collect();
        use Round::{Endless, New, Repeated};
        assert_eq!(rounds, [New, New, Repeated, Repeated, Endless]);
    }

    #[test]
    fn another_argument_or_another_answer_is_another_round() {
        let mut guard = LoopGuard::default();
        guard.see([("a", r#"{"n": 1, "m": 2}"#, "x")]);
        guard.see([("a", r#"{"n":1,"m":2}"#, "x")]);
        assert_eq!(guard.see([("a", r#"{"m":2,"n":1}"#, "x")]), Round::Repeated);
        assert_eq!(guard.see([("a", r#"{"m":2,"n":1}"#, "y")]), Round::New);
        assert_eq!(guard.see([("a", r#"{"m":2,"n":2}"#, "y")]), Round::New);
        assert_eq!(guard.see([("a", r#"{"m":2"#, ",\"n\":2}y")]), Round::New);
        assert_eq!(guard.see([("a", r#"{"m":2,"n":2}"#, "y")]), Round::New);
    }
}
