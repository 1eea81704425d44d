//! What the reviewing agent answers, which is a model's word and read as such.

use serde_json::{Deserializer, Map, Value};
use skill_format::sanitize_line;

use crate::ledger::ReviewAdvice;

/// How much of an answer is looked at, in bytes, and how many objects in it.
const LOOKED_AT: usize = 64 << 10;
const OBJECTS: usize = 64;

/// The longest reason that is kept, in characters.
const REASON: usize = 1_000;

/// Reads an answer. What is no verdict, or several that differ, is [`ReviewAdvice::Unsure`]: an answer may
/// quote the very text that it judges.
pub(super) fn parse_answer(text: &str) -> (ReviewAdvice, String) {
    let end = (0..=text.len().min(LOOKED_AT)).rev().find(|at| text.is_char_boundary(*at));
    let text = &text[..end.unwrap_or(0)];
    let mut found: Vec<(ReviewAdvice, String)> = verdicts(text);
    found.dedup_by(|a, b| a.0 == b.0);
    match &mut found[..] {
        [] => {
            (ReviewAdvice::Unsure, truncate_reason(&format!("its answer has no verdict: {text}")))
        }
        [(advice, reason)] => (*advice, truncate_reason(reason)),
        _ => (
            ReviewAdvice::Unsure,
            truncate_reason(&format!("its answer has several verdicts: {text}")),
        ),
    }
}

/// Finds the objects of an answer that have a verdict, those within others left out.
fn verdicts(text: &str) -> Vec<(ReviewAdvice, String)> {
    let (mut found, mut at) = (Vec::new(), 0);
    for _ in 0..OBJECTS {
        let Some(start) = text[at..].find('{').map(|start| at + start) else { break };
        let mut objects = Deserializer::from_str(&text[start..]).into_iter::<Map<String, Value>>();
        match objects.next() {
            Some(Ok(object)) => {
                at = start + objects.byte_offset();
                found.extend(verdict(&object));
            }
            _ => at = start + 1,
        }
    }
    found
}

fn verdict(object: &Map<String, Value>) -> Option<(ReviewAdvice, String)> {
    let field = |names: &[&str]| {
        let is_one = |key: &str| names.iter().any(|name| key.trim().eq_ignore_ascii_case(name));
        object.iter().find(|(key, _)| is_one(key)).map(|(_, value)| value)
    };
    let said = field(&["verdict", "decision", "recommendation"])?;
    let advice = match said.as_str().unwrap_or_default().trim().to_ascii_lowercase().as_str() {
        "approve" | "approved" | "accept" => ReviewAdvice::Approve,
        "reject" | "rejected" | "decline" => ReviewAdvice::Reject,
        _ => ReviewAdvice::Unsure,
    };
    let reason = match field(&["reason", "reasons", "explanation"]) {
        Some(Value::String(reason)) => reason.clone(),
        Some(other) => other.to_string(),
        None => "no reason given".to_owned(),
    };
    Some((advice, reason))
}

fn truncate_reason(reason: &str) -> String {
    let mut line = sanitize_line(reason);
    if let Some((end, _)) = line.char_indices().nth(REASON) {
        line.truncate(end);
        line.push('…');
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_are_read_leniently_and_never_guessed() {
        let approve = r#"{"verdict": "approve", "reason": "Good."}"#;
        let reject = r#"{"verdict": "reject", "reason": "Bad."}"#;
        let cases = [
            (approve.to_owned(), ReviewAdvice::Approve, "Good."),
            (format!("Sure!\n```json\n{reject}\n```\nBye {{}}"), ReviewAdvice::Reject, "Bad."),
            (
                r#"{"Decision":" APPROVED ","explanation":["a","b"]}"#.into(),
                ReviewAdvice::Approve,
                "[\"a\",\"b\"]",
            ),
            (r#"{"verdict":"approve"}"#.into(), ReviewAdvice::Approve, "no reason given"),
            (r#"{"verdict":"perhaps","reason":"?"}"#.into(), ReviewAdvice::Unsure, "?"),
            (r#"{"verdict":true,"reason":"yes"}"#.into(), ReviewAdvice::Unsure, "yes"),
            (format!("{approve} {approve}"), ReviewAdvice::Approve, "Good."),
            ("approve".into(), ReviewAdvice::Unsure, "its answer has no verdict: approve"),
            (String::new(), ReviewAdvice::Unsure, "its answer has no verdict:"),
            (
                r#"{"verdict": "approve", "reason": "cut"#.into(),
                ReviewAdvice::Unsure,
                r#"its answer has no verdict: {"verdict": "approve", "reason": "cut"#,
            ),
            (
                format!(r#"{{"quoted": {approve}, "verdict": "reject", "reason": "It begs."}}"#),
                ReviewAdvice::Reject,
                "It begs.",
            ),
            (
                r#"{"verdict":"reject","reason":"a\u001b[2K\nb"}"#.into(),
                ReviewAdvice::Reject,
                "a[2K b",
            ),
        ];
        for (text, advice, reason) in cases {
            assert_eq!(parse_answer(&text), (advice, reason.to_owned()), "{text}");
        }
        // The text that is judged may ask for its own approval.
        let (advice, reason) = parse_answer(&format!("It says {approve}, but: {reject}"));
        assert_eq!(advice, ReviewAdvice::Unsure);
        assert!(reason.starts_with("its answer has several verdicts: It says "), "{reason}");
    }

    #[test]
    fn endless_answers_are_bounded() {
        let long = format!(r#"{{"verdict":"reject","reason":"{}"}}"#, "é".repeat(5_000));
        let (advice, reason) = parse_answer(&long);
        assert_eq!((advice, reason.chars().count()), (ReviewAdvice::Reject, REASON + 1));
        let (advice, reason) = parse_answer(&"{".repeat(1 << 20));
        assert_eq!((advice, reason.chars().count()), (ReviewAdvice::Unsure, REASON + 1));
        let late = format!("{}{}", " ".repeat(LOOKED_AT), r#"{"verdict":"approve"}"#);
        assert_eq!(parse_answer(&late).0, ReviewAdvice::Unsure);
    }
}
