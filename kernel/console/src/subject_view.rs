//! The subject of a question, drawn as labelled fields from exactly the bytes that are decided on.

use std::borrow::Cow;

use maud::{Markup, html};
use serde_json::{Map, Value};

use crate::diff_view::draw_diff;
use crate::visible_text::draw_text;

/// The nesting from which values are drawn as JSON.
const MAX_DEPTH: usize = 6;

/// The known fields in the order in which people read them, with their labels.
const FIELDS: &[(&str, &str)] = &[
    ("obstacle", "Cannot be approved here"),
    ("question", "Question"),
    ("skill", "Skill"),
    ("path", "File"),
    ("tool", "Tool"),
    ("extension", "Extension"),
    ("destructive", "May destroy data"),
    ("attempts", "Attempts so far"),
    ("justification", "Justification"),
    ("evidence", "Evidence"),
    ("flags", "Flags"),
    ("diff", "Changes"),
    ("check", "Check of the cases"),
    ("model_check", "Runs with a model"),
    ("lint", "Findings"),
    ("tokens", "Tokens, before and after"),
    ("arguments", "Arguments"),
    ("details", "Details"),
    ("author", "Author"),
    ("agent", "Agent"),
];

/// The fields that identify what is decided on; people compare them, so they are folded.
const IDENTITIES: &[&str] = &[
    "proposal",
    "base_digest",
    "new_digest",
    "extension_sha256",
    "effect_digest",
    "call_key",
    "thread",
    "message",
    "task",
];

/// Draws a subject. Every field of it is drawn: what cannot be seen cannot be approved.
pub(crate) fn draw_subject(subject: &str) -> Markup {
    let Ok(Value::Object(mut fields)) = serde_json::from_str(subject) else {
        return html! { pre.text { (draw_text(subject)) } };
    };
    let take = |fields: &mut Map<String, Value>, names: &[&str]| -> Vec<(String, Value)> {
        let found = names.iter().filter_map(|name| fields.remove_entry(*name));
        found.collect()
    };
    // Taken out first, so that no field is drawn twice.
    let identities = take(&mut fields, IDENTITIES);
    let names: Vec<&str> = FIELDS.iter().map(|(name, _)| *name).collect();
    let known = take(&mut fields, &names);
    html! {
        dl.subject {
            @for (name, value) in known.iter().chain(&fields_of(fields)) {
                div class=[(name == "obstacle").then_some("warning")] {
                    dt { @if is_diff(name, value) { "Changes" } @else { (draw_label(name)) } }
                    dd { (draw_field(name, value)) }
                }
            }
        }
        @if !identities.is_empty() {
            details {
                summary { "Identities and digests" }
                dl.subject {
                    @for (name, value) in &identities {
                        div { dt { (draw_label(name)) } dd { (draw_field(name, value)) } }
                    }
                }
            }
        }
    }
}

fn fields_of(fields: Map<String, Value>) -> Vec<(String, Value)> {
    fields.into_iter().collect()
}

fn draw_label(name: &str) -> Markup {
    let known = FIELDS.iter().find(|(field, _)| *field == name).map(|(_, label)| *label);
    match known {
        Some(label) => html! { (label) },
        None => draw_text(&name.replace('_', " ")),
    }
}

fn draw_field(name: &str, value: &Value) -> Markup {
    match (name, value) {
        ("diff", Value::String(diff)) => draw_diff(diff),
        ("arguments", Value::String(text)) => draw_arguments(text),
        ("details", Value::String(text)) if is_diff(name, value) => draw_diff(text),
        ("details" | "question" | "justification", Value::String(text)) => {
            html! { pre.text { (draw_text(text)) } }
        }
        ("lint", Value::Object(delta)) => draw_lint(delta),
        ("tokens", Value::Array(counts)) if counts.len() == 2 => {
            html! { (counts[0]) " → " (counts[1]) }
        }
        (_, value) => draw_value(value, 0),
    }
}

/// Returns whether the details of a call are a diff, as those of tools that write files are.
fn is_diff(name: &str, value: &Value) -> bool {
    let has_hunks = |text: &str| text.starts_with("@@ -") || text.contains("\n@@ -");
    name == "details" && value.as_str().is_some_and(has_hunks)
}

/// Returns the arguments of a call as a short text for people; JSON where they are no fields.
pub(crate) fn summarize_arguments(text: &str) -> Cow<'_, str> {
    let Ok(Value::Object(fields)) = serde_json::from_str(text) else {
        return Cow::Borrowed(text);
    };
    let pairs = fields.iter().map(|(name, value)| match value {
        Value::String(text) => format!("{name}: {text}"),
        other => format!("{name}: {other}"),
    });
    Cow::Owned(pairs.collect::<Vec<_>>().join(", "))
}

/// Draws the arguments of a call: as fields, and as JSON for those who want the text itself.
pub(crate) fn draw_arguments(text: &str) -> Markup {
    let parsed: Option<Value> = serde_json::from_str(text).ok();
    let pretty = parsed.as_ref().and_then(|value| serde_json::to_string_pretty(value).ok());
    html! {
        @match &parsed {
            Some(value) => (draw_value(value, 0)),
            None => pre.text { (draw_text(text)) },
        }
        @if let Some(pretty) = pretty {
            details.json {
                summary { "As JSON" }
                pre.code { (draw_text(&pretty)) }
                // A parser drops repeated keys; the text that is executed shows them.
                @if !is_same_json(text, &pretty) {
                    p.hint { "As written:" }
                    pre.code { (draw_text(text)) }
                }
            }
        }
    }
}

/// Returns whether two JSON texts differ in white space outside of strings only.
fn is_same_json(one: &str, other: &str) -> bool {
    fn significant(text: &str) -> impl Iterator<Item = char> + '_ {
        let (mut in_string, mut is_escaped) = (false, false);
        text.chars().filter(move |c| {
            let keep = in_string || !c.is_ascii_whitespace();
            match (*c, in_string, is_escaped) {
                ('\\', true, false) => is_escaped = true,
                ('"', _, false) => in_string = !in_string,
                _ => is_escaped = false,
            }
            keep
        })
    }
    significant(one).eq(significant(other))
}

/// Draws any JSON value as nested fields.
pub(crate) fn draw_value(value: &Value, depth: usize) -> Markup {
    if depth > MAX_DEPTH {
        return html! { code { (draw_text(&value.to_string())) } };
    }
    match value {
        Value::Null => html! { span.none { "none" } },
        Value::Bool(true) => html! { "yes" },
        Value::Bool(false) => html! { "no" },
        Value::Number(number) => html! { (number) },
        Value::String(text) if text.is_empty() => html! { span.none { "empty" } },
        Value::String(text) if text.contains('\n') => html! { pre.text { (draw_text(text)) } },
        Value::String(text) => html! { span.value { (draw_text(text)) } },
        Value::Array(items) if items.is_empty() => html! { span.none { "none" } },
        Value::Array(items) => html! {
            ul.values { @for item in items { li { (draw_value(item, depth + 1)) } } }
        },
        Value::Object(fields) if fields.is_empty() => html! { span.none { "none" } },
        Value::Object(fields) => html! {
            dl.subject {
                @for (name, value) in fields {
                    div { dt { (draw_text(name)) } dd { (draw_value(value, depth + 1)) } }
                }
            }
        },
    }
}

/// Draws the findings that a change adds and resolves.
fn draw_lint(delta: &Map<String, Value>) -> Markup {
    let list = |name: &str| delta.get(name).and_then(Value::as_array).cloned().unwrap_or_default();
    let (new, gone) = (list("new"), list("gone"));
    let others = delta.iter().filter(|(name, _)| !matches!(&***name, "new" | "gone"));
    let others: Map<String, Value> =
        others.map(|(name, value)| (name.clone(), value.clone())).collect();
    html! {
        @if new.is_empty() && gone.is_empty() { "no difference" }
        @for (label, findings) in [("adds", &new), ("resolves", &gone)] {
            @for finding in findings {
                p {
                    (label) " " code { (draw_text(finding["rule"].as_str().unwrap_or_default())) } ": "
                    (draw_text(finding["message"].as_str().unwrap_or_default()))
                }
            }
        }
        @if !others.is_empty() { (draw_value(&Value::Object(others), 1)) }
    }
}

#[cfg(test)]
mod tests;
