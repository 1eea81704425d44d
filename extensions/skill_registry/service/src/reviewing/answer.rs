//! Parser for the answer of the reviewing agent, which is untrusted text of a model.

use serde_json::{Deserializer, Map, Value};
use skill_format::sanitize_line;
use skill_ledger::ReviewAdvice;

/// The maximum length of the parsed part of an answer, in bytes, and of the objects in it.
const MAX_ANSWER: usize = 64 << 10;
const MAX_OBJECTS: usize = 64;

/// The longest reason that is kept, in characters.
const MAX_REASON: usize = 1_000;

/// Parses an answer. An answer without a verdict, or with several that differ, is
/// [`ReviewAdvice::Unsure`]: it may quote the very text that it judges.
pub(super) fn parse_answer(text: &str) -> (ReviewAdvice, String) {
    let end = (0..=text.len().min(MAX_ANSWER)).rev().find(|at| text.is_char_boundary(*at));
    let text = &text[..end.unwrap_or(0)];
    let mut found: Vec<(ReviewAdvice, String)> = find_verdicts(text);
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

/// Returns the verdicts of an answer's JSON objects, nested objects excluded.
fn find_verdicts(text: &str) -> Vec<(ReviewAdvice, String)> {
    let (mut found, mut at) = (Vec::new(), 0);
    // Each brace may start a parse of the rest: without the limit the time would be quadratic.
    for _ in 0..MAX_OBJECTS {
        let Some(start) = text[at..].find('{').map(|start| at + start) else { break };
        let mut objects = Deserializer::from_str(&text[start..]).into_iter::<Map<String, Value>>();
        match objects.next() {
            Some(Ok(object)) => {
                at = start + objects.byte_offset();
                found.extend(parse_verdict(&object));
            }
            _ => at = start + 1,
        }
    }
    found
}

fn parse_verdict(object: &Map<String, Value>) -> Option<(ReviewAdvice, String)> {
    let field = |names: &[&str]| {
        let is_one = |key: &str| names.iter().any(|name| key.trim().eq_ignore_ascii_case(name));
        object.iter().find(|(key, _)| is_one(key)).map(|(_, value)| value)
    };
    let verdict = field(&["verdict", "decision", "recommendation"])?;
    let advice = match verdict.as_str().unwrap_or_default().trim().to_ascii_lowercase().as_str() {
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
    if let Some((end, _)) = line.char_indices().nth(MAX_REASON) {
        line.truncate(end);
        line.push('…');
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answer_variants_are_parsed() {
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
    fn long_answers_are_truncated() {
        let long = format!(r#"{{"verdict":"reject","reason":"{}"}}"#, "é".repeat(5_000));
        let (advice, reason) = parse_answer(&long);
        assert_eq!((advice, reason.chars().count()), (ReviewAdvice::Reject, MAX_REASON + 1));
        let (advice, reason) = parse_answer(&"{".repeat(1 << 20));
        assert_eq!((advice, reason.chars().count()), (ReviewAdvice::Unsure, MAX_REASON + 1));
        let late = format!("{}{}", " ".repeat(MAX_ANSWER), r#"{"verdict":"approve"}"#);
        assert_eq!(parse_answer(&late).0, ReviewAdvice::Unsure);
    }
}
