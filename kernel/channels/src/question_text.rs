//! Questions as texts: all that is decided on, drawn from the bytes that the digest covers.

use std::collections::BTreeSet;
use std::fmt;

use serde::de::{self, Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::Value;
use skillhost_payload::OperatorCommand;
use skillhost_questions::{can_owner_decide, name_kernel_operation};
use skillhost_tasks::{Question, QuestionKind};

use crate::shown_text::{clean_line, escape_hidden};

/// The messages into which a question may be split. One that needs more cannot be approved here.
const MAX_PARTS: usize = 4;
/// The limits of options that are shown as buttons.
const MAX_BUTTONS: usize = 8;
const MAX_LABEL_CHARS: usize = 40;
/// The characters of a digest that are shown.
const DIGEST_CHARS: usize = 12;

/// A choice of a question, with the label of its button.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct QuestionChoice {
    pub(crate) label: String,
    pub(crate) choice: String,
}

/// A question as it is sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct QuestionPage {
    pub(crate) parts: Vec<String>,
    /// The buttons of the last part.
    pub(crate) choices: Vec<QuestionChoice>,
}

/// The ability of a channel to show questions.
#[derive(Clone, Copy)]
pub(crate) struct PageLimits {
    /// The length limit of a part, in UTF-16 units.
    pub(crate) text: usize,
    pub(crate) has_buttons: bool,
    /// Whether others than the person who is asked read the conversation.
    pub(crate) is_group: bool,
}

/// Formats a question. `mask` replaces secrets, and `split` splits a text at the limit.
pub(crate) fn format_question(
    question: &Question,
    limits: PageLimits,
    mask: &dyn Fn(&str) -> String,
    split: &dyn Fn(&str, usize) -> Vec<String>,
) -> QuestionPage {
    let head = format_head(question);
    let subject = escape_hidden(&format_subject(&question.subject));
    let body = format!("{head}\n\n{}", subject.trim_end());
    let masked = mask(&body);
    let choices = list_choices(question, limits);
    let footer = format_footer(question, &choices);
    let parts = split(&format!("{masked}\n\n{footer}"), limits.text);
    // A masked text is not all of what is decided on either.
    if parts.len() <= MAX_PARTS && masked == body {
        return QuestionPage { parts, choices };
    }
    let show = OperatorCommand::ShowQuestion { id: &question.id };
    let text = format!(
        "{}\n\nThe question cannot be shown completely here, so it cannot be approved here. Look at \
         it at the terminal or the console:\n{show}",
        mask(&head)
    );
    let mut parts = split(&text, limits.text);
    // A very small limit: the end names the command.
    let excess = parts.len().saturating_sub(MAX_PARTS);
    parts.drain(..excess);
    QuestionPage { parts, choices: choices.into_iter().filter(is_harmless).collect() }
}

/// Returns whether a choice lets nothing happen that the person has not seen.
fn is_harmless(choice: &QuestionChoice) -> bool {
    matches!(choice.choice.as_str(), "refuse" | "stop")
}

fn format_head(question: &Question) -> String {
    let kind = match question.kind {
        QuestionKind::Consent => "Approval of a tool call",
        QuestionKind::Uncertain => "Interrupted tool call: did it happen?",
        QuestionKind::Choice => "Question of an agent",
        QuestionKind::Proposal => "Proposed change of a skill",
        QuestionKind::Build => {
            name_kernel_operation(question).unwrap_or("Approval by the operator")
        }
    };
    let asker = escape_hidden(&clean_line(&question.asker));
    let digest: String = question.digest.chars().take(DIGEST_CHARS).collect();
    format!("{kind}\nquestion {} · asked by {asker} · sha256 {digest}", question.id)
}

fn format_footer(question: &Question, choices: &[QuestionChoice]) -> String {
    let id = &question.id;
    let show = OperatorCommand::ShowQuestion { id };
    match (question.kind, choices.is_empty()) {
        (QuestionKind::Build, _) if !can_owner_decide(question) => {
            format!("Only the operator decides about this, at the terminal:\n{show}")
        }
        (_, false) => "Choose below.".to_owned(),
        (QuestionKind::Choice, true) if question.options.is_empty() => {
            format!("Answer with: /answer {id} TEXT")
        }
        (QuestionKind::Choice | QuestionKind::Uncertain, true) => {
            let options: Vec<String> =
                question.options.iter().map(|option| escape_hidden(option)).collect();
            format!("Answer with: /answer {id} TEXT\nThe answers are: {}", options.join(" | "))
        }
        (QuestionKind::Consent | QuestionKind::Proposal | QuestionKind::Build, true) => {
            format!("Decide at the terminal or the console:\n{show}")
        }
    }
}

/// Lists the choices that are shown as buttons.
fn list_choices(question: &Question, limits: PageLimits) -> Vec<QuestionChoice> {
    if !limits.has_buttons {
        return Vec::new();
    }
    let is_offered = |choice: &str| question.options.iter().any(|option| option == choice);
    let named = |choices: &[(&str, &str)]| {
        let offered = choices.iter().filter(|(_, choice)| is_offered(choice));
        let to_choice = |(label, choice): &(&str, &str)| QuestionChoice {
            label: (*label).to_owned(),
            choice: (*choice).to_owned(),
        };
        offered.map(to_choice).collect()
    };
    match question.kind {
        QuestionKind::Build if limits.is_group || !can_owner_decide(question) => Vec::new(),
        QuestionKind::Consent | QuestionKind::Proposal | QuestionKind::Build => {
            named(&[("Approve", "approve"), ("Refuse", "refuse")])
        }
        QuestionKind::Uncertain => {
            named(&[("It happened", "happened"), ("Do it again", "again"), ("Stop", "stop")])
        }
        QuestionKind::Choice => {
            let to_choice = |option: &String| QuestionChoice {
                label: escape_hidden(option),
                choice: option.clone(),
            };
            let choices: Vec<QuestionChoice> = question.options.iter().map(to_choice).collect();
            // A label that is cut off would hide a part of the choice.
            let fits = |choice: &QuestionChoice| {
                !choice.label.trim().is_empty() && choice.label.chars().count() <= MAX_LABEL_CHARS
            };
            let fits = choices.len() <= MAX_BUTTONS && choices.iter().all(fits);
            if fits { choices } else { Vec::new() }
        }
    }
}

/// Formats the fields of a subject, one per line; texts of several lines are quoted. A subject that
/// is not an object is shown as it is.
fn format_subject(subject: &str) -> String {
    let Ok(Value::Object(fields)) = serde_json::from_str(subject) else {
        return subject.to_owned();
    };
    let mut lines = Vec::new();
    for (name, value) in &fields {
        // The arguments are JSON text; two equal keys would show only one of them.
        match value {
            Value::String(text) if name == "arguments" => {
                match serde_json::from_str::<Value>(text) {
                    Ok(Value::Object(arguments)) if has_unique_keys(text) => {
                        for (argument, value) in &arguments {
                            push_field(&mut lines, &format!("arguments.{argument}"), value);
                        }
                        if arguments.is_empty() {
                            lines.push("arguments: {}".to_owned());
                        }
                    }
                    _ => push_field(&mut lines, name, value),
                }
            }
            value => push_field(&mut lines, name, value),
        }
    }
    lines.join("\n")
}

/// A JSON value whose objects have no key twice: of two equal keys, a list of fields would show one.
struct UniqueKeys;

impl<'de> Deserialize<'de> for UniqueKeys {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(UniqueKeysVisitor)
    }
}

struct UniqueKeysVisitor;

impl<'de> Visitor<'de> for UniqueKeysVisitor {
    type Value = UniqueKeys;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON without repeated keys")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<UniqueKeys, A::Error> {
        let mut seen = BTreeSet::new();
        while let Some((key, UniqueKeys)) = map.next_entry::<String, UniqueKeys>()? {
            if !seen.insert(key) {
                return Err(de::Error::custom("repeated key"));
            }
        }
        Ok(UniqueKeys)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<UniqueKeys, A::Error> {
        while seq.next_element::<UniqueKeys>()?.is_some() {}
        Ok(UniqueKeys)
    }

    fn visit_bool<E>(self, _: bool) -> Result<UniqueKeys, E> {
        Ok(UniqueKeys)
    }

    fn visit_i64<E>(self, _: i64) -> Result<UniqueKeys, E> {
        Ok(UniqueKeys)
    }

    fn visit_u64<E>(self, _: u64) -> Result<UniqueKeys, E> {
        Ok(UniqueKeys)
    }

    fn visit_f64<E>(self, _: f64) -> Result<UniqueKeys, E> {
        Ok(UniqueKeys)
    }

    fn visit_str<E>(self, _: &str) -> Result<UniqueKeys, E> {
        Ok(UniqueKeys)
    }

    fn visit_unit<E>(self) -> Result<UniqueKeys, E> {
        Ok(UniqueKeys)
    }
}

/// Returns whether a JSON text has no key twice.
fn has_unique_keys(text: &str) -> bool {
    serde_json::from_str::<UniqueKeys>(text).is_ok()
}

fn push_field(lines: &mut Vec<String>, name: &str, value: &Value) {
    match value {
        Value::String(text) if text.contains('\n') => {
            lines.push(format!("{name}:"));
            // Quoted, so that a line cannot pass for another field.
            lines.extend(text.split('\n').map(|line| format!("| {line}")));
        }
        Value::String(text) => lines.push(format!("{name}: {text}")),
        other => lines.push(format!("{name}: {other}")),
    }
}

#[cfg(test)]
mod tests {
    use skillhost_tasks::QuestionState;

    use super::*;
    use crate::text_split::split_text;

    pub(crate) fn question(kind: QuestionKind, subject: &str, options: &[&str]) -> Question {
        Question {
            id: "01k0000000000000000000000q".to_owned(),
            task: None,
            thread: None,
            kind,
            asker: "worker".to_owned(),
            call: "1".to_owned(),
            title: "write_file".to_owned(),
            subject: subject.to_owned(),
            digest: "0123456789abcdef".to_owned(),
            options: options.iter().map(|option| (*option).to_owned()).collect(),
            state: QuestionState::Open,
            choice: None,
            reason: None,
            decider: None,
            opened_ms: 0,
            closed_ms: None,
        }
    }

    fn page(question: &Question, text: usize, has_buttons: bool) -> QuestionPage {
        let mask = |text: &str| text.replace("hunter22", "[secret]");
        let limits = PageLimits { text, has_buttons, is_group: false };
        format_question(question, limits, &mask, &split_text)
    }

    fn choices(page: &QuestionPage) -> Vec<&str> {
        page.choices.iter().map(|choice| choice.choice.as_str()).collect()
    }

    #[test]
    fn subject_is_shown_with_code_points() {
        let subject = r#"{"tool":"write_file","arguments":"{\"path\":\"a\",\"content\":\"b\\u202ec\\ntool: other\"}"}"#;
        let asked = question(QuestionKind::Consent, subject, &["approve", "refuse", "edit"]);
        let page = page(&asked, 4_096, true);
        let text = page.parts.concat();
        for line in ["tool: write_file", "arguments.path: a", "| b\\u{202e}c", "| tool: other"] {
            assert!(text.lines().any(|shown| shown == line), "{line}: {text}");
        }
        assert_eq!(choices(&page), ["approve", "refuse"]);
    }

    #[test]
    fn partly_shown_question_cannot_be_approved() {
        let subject = format!(r#"{{"tool":"{}"}}"#, "x".repeat(20_000));
        let options = ["approve", "refuse"];
        let long = question(QuestionKind::Consent, &subject, &options);
        let shown = page(&long, 4_096, true);
        assert_eq!((choices(&shown), shown.parts.len()), (vec!["refuse"], 1));
        assert!(shown.parts[0].contains("skillhost inbox show 01k"), "{:?}", shown.parts);
        // It fits into four messages.
        let whole = question(QuestionKind::Consent, &subject[..15_002].replace("{}", ""), &options);
        assert_eq!(choices(&page(&whole, 4_096, true)), options);
        let masked = question(QuestionKind::Proposal, r#"{"text":"hunter22"}"#, &options);
        assert_eq!(choices(&page(&masked, 4_096, true)), ["refuse"]);
        let uncertain = question(QuestionKind::Uncertain, &subject, &["happened", "again", "stop"]);
        assert_eq!(choices(&page(&uncertain, 4_096, true)), ["stop"]);
    }

    #[test]
    fn other_install_is_reserved_for_operator() {
        for subject in [
            "{}",
            r#"{"tool":"create_agent","extension":"kernel"}"#,
            r#"{"tool":"build","extension":"kernel"}"#,
            r#"{"tool":"build_extension","extension":"other"}"#,
        ] {
            let build = question(QuestionKind::Build, subject, &["approve", "refuse"]);
            let shown = page(&build, 4_096, true);
            assert_eq!(shown.choices, []);
            assert!(shown.parts[0].contains("Only the operator"), "{:?}", shown.parts);
        }
    }

    #[test]
    fn owner_approves_build_and_restart_alone() {
        for (tool, head) in [
            ("build_extension", "Build of an extension\n"),
            ("request_restart", "Restart of the kernel\n"),
        ] {
            let subject = format!(r#"{{"tool":"{tool}","extension":"kernel"}}"#);
            let build =
                question(QuestionKind::Build, &subject, &["approve", "refuse", "edit", "session"]);
            let shown = page(&build, 4_096, true);
            assert_eq!(choices(&shown), ["approve", "refuse"]);
            assert!(shown.parts[0].starts_with(head), "{:?}", shown.parts);
            let limits = PageLimits { text: 4_096, has_buttons: true, is_group: true };
            let shown = format_question(&build, limits, &str::to_owned, &split_text);
            assert_eq!(shown.choices, []);
            assert!(shown.parts[0].contains("at the terminal or the console"), "{:?}", shown.parts);
        }
    }

    #[test]
    fn choices_without_buttons_are_answered() {
        let free = question(QuestionKind::Choice, r#"{"question":"Which?"}"#, &[]);
        assert!(page(&free, 4_096, true).parts[0].contains("/answer 01k"));
        let options = ["yes", "no"];
        let listed = question(QuestionKind::Choice, r#"{"question":"Which?"}"#, &options);
        assert_eq!(choices(&page(&listed, 4_096, true)), options);
        assert!(page(&listed, 4_096, false).parts[0].contains("yes | no"));
        let long = "x".repeat(41);
        let hidden = question(QuestionKind::Choice, "{}", &["yes", &long]);
        assert_eq!(page(&hidden, 4_096, true).choices, []);
    }

    #[test]
    fn repeated_argument_is_shown_as_written() {
        let subject = r#"{"arguments":"{\"path\":\"a\",\"path\":\"b\"}"}"#;
        let asked = question(QuestionKind::Consent, subject, &["approve"]);
        let text = page(&asked, 4_096, true).parts.concat();
        assert!(text.contains(r#"{"path":"a","path":"b"}"#), "{text}");
    }
}
