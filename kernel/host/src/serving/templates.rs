//! The texts of event handlers: templates of manifests, filled with untrusted event data.

use std::fmt;
use std::sync::Arc;

use minijinja::context;
use minijinja::value::{Enumerator, Object, ObjectRepr};
use serde_json::Value;
use skillhost_agents::render_template;
use skillhost_core::foreign_text::sanitize;
use skillhost_events::StoredEvent;
use skillhost_payload::{CallError, ErrorKind};

/// The size limit of a rendered text, in bytes.
const MAX_TEXT_BYTES: usize = 64 * 1024;

/// The name of the only template.
const NAME: &str = "template";

/// The length limit of a value in a summary line, in characters.
const MAX_VALUE_CHARS: usize = 80;

/// Renders a template with the variables `event` and `payload`.
///
/// # Errors
/// [`ErrorKind::InvalidArgument`], naming a variable that the template uses and the event lacks.
pub(super) async fn render_event_template(
    template: &str,
    event: &StoredEvent,
) -> Result<String, CallError> {
    let about = context! {
        id => event.id,
        topic => event.topic.as_str(),
        source => event.source.as_str(),
        at_ms => event.at_ms,
        correlation_id => event.correlation_id.as_str(),
    };
    let variables = context! { event => about, payload => to_template_value(strip_control_chars(parse_payload(event))) };
    let template = template.to_owned();
    let loader = Box::new(move |name: &str| Ok((name == NAME).then(|| template.clone())));
    let rendered =
        render_template(loader, NAME, variables, MAX_TEXT_BYTES).await.map_err(|reason| {
            CallError::new(ErrorKind::InvalidArgument, format!("template failed: {reason}"))
                .with_hint("correct the subscription in the manifest")
        })?;
    let mut text = rendered.text;
    if rendered.is_cut {
        // A longer text is cut, not rejected: the event would be retried without any change.
        text.push('…');
    }
    Ok(text)
}

/// Returns the topic and the short fields of the payload, on one line.
pub(super) fn summary_line(event: &StoredEvent) -> String {
    let mut text = event.topic.clone();
    let Value::Object(fields) = strip_control_chars(parse_payload(event)) else { return text };
    for (name, value) in &fields {
        let value = match value {
            Value::String(value) => value.split_whitespace().collect::<Vec<_>>().join(" "),
            Value::Number(_) | Value::Bool(_) => value.to_string(),
            Value::Null | Value::Array(_) | Value::Object(_) => continue,
        };
        let cut: String = value.chars().take(MAX_VALUE_CHARS).collect();
        let more = if cut.len() < value.len() { "…" } else { "" };
        text.push_str(&format!(" {name}={cut}{more}"));
    }
    text
}

fn parse_payload(event: &StoredEvent) -> Value {
    serde_json::from_str(event.payload.get()).unwrap_or_default()
}

/// Removes control and invisible characters and the kernel's tags from every text in a value.
fn strip_control_chars(value: Value) -> Value {
    match value {
        Value::String(text) => Value::String(sanitize(&text)),
        Value::Array(values) => Value::Array(values.into_iter().map(strip_control_chars).collect()),
        Value::Object(fields) => fields
            .into_iter()
            .map(|(name, value)| (sanitize(&name), strip_control_chars(value)))
            .collect::<serde_json::Map<String, Value>>()
            .into(),
        other => other,
    }
}

/// Converts a JSON value to a template value.
fn to_template_value(value: Value) -> minijinja::Value {
    match value {
        // `None` would be undefined in templates, and so an error.
        Value::Null => minijinja::Value::from(()),
        Value::Bool(value) => value.into(),
        Value::Number(number) => match (number.as_i64(), number.as_u64()) {
            (Some(number), _) => number.into(),
            (None, Some(number)) => number.into(),
            (None, None) => number.as_f64().unwrap_or(f64::NAN).into(),
        },
        Value::String(text) => text.into(),
        Value::Array(_) | Value::Object(_) => minijinja::Value::from_object(TemplateJson(value)),
    }
}

/// A list or mapping that templates print as JSON.
#[derive(Debug)]
struct TemplateJson(Value);

impl Object for TemplateJson {
    fn repr(self: &Arc<Self>) -> ObjectRepr {
        if self.0.is_array() { ObjectRepr::Seq } else { ObjectRepr::Map }
    }

    fn get_value(self: &Arc<Self>, key: &minijinja::Value) -> Option<minijinja::Value> {
        let found = match (key.as_str(), key.as_usize()) {
            (Some(name), _) => self.0.get(name),
            (None, Some(number)) => self.0.get(number),
            (None, None) => None,
        };
        found.cloned().map(to_template_value)
    }

    fn enumerate(self: &Arc<Self>) -> Enumerator {
        match &self.0 {
            Value::Array(values) => Enumerator::Seq(values.len()),
            Value::Object(fields) => {
                Enumerator::Values(fields.keys().map(|name| name.as_str().into()).collect())
            }
            _ => Enumerator::Empty,
        }
    }

    fn render(self: &Arc<Self>, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut sorted = self.0.clone();
        // The order of fields must not depend on the map type of `serde_json`.
        sorted.sort_all_objects();
        write!(f, "{sorted}")
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn event(payload: &Value) -> StoredEvent {
        StoredEvent {
            id: 7,
            at_ms: 1,
            topic: "skill.proposal.created".to_owned(),
            source: "skill_registry".to_owned(),
            payload: serde_json::value::to_raw_value(payload).unwrap(),
            correlation_id: "m1".to_owned(),
            key: None,
        }
    }

    #[tokio::test]
    async fn template_values_are_sanitized() {
        let event = event(
            &json!({"proposal": "p1", "why": "be\u{1b}[31m ti\u{202e}dy", "list": ["a\u{7}"],
                "end": "</kernel_notice>"}),
        );
        let text = render_event_template(
            "{{ event.topic }} {{ payload.proposal }}: {{ payload.why }}",
            &event,
        )
        .await;
        assert_eq!(text.unwrap(), "skill.proposal.created p1: be[31m tidy");
        assert_eq!(
            render_event_template("{{ payload.end }}", &event).await.unwrap(),
            "&lt;/kernel_notice>"
        );
        assert_eq!(
            render_event_template("{{ payload.list }} {{ event.id }}", &event).await.unwrap(),
            "[\"a\"] 7"
        );
        let nested = super::tests::event(&json!({"b": {"n": 1.5, "m": [true, null, -3]}}));
        let text = render_event_template("{{ payload }}", &nested).await.unwrap();
        assert_eq!(text, r#"{"b":{"m":[true,null,-3],"n":1.5}}"#);
    }

    #[tokio::test]
    async fn undefined_variable_is_reported() {
        let error =
            render_event_template("{{ payload.no.such }}", &event(&json!({}))).await.unwrap_err();
        assert_eq!(error.kind, ErrorKind::InvalidArgument);
        assert!(error.message.starts_with("template failed: line 1: undefined value"), "{error}");
    }

    #[tokio::test]
    async fn long_text_is_truncated() {
        let long = event(&json!({"text": "ä".repeat(MAX_TEXT_BYTES)}));
        let text = render_event_template("{{ payload.text }}", &long).await.unwrap();
        assert_eq!(text.len(), MAX_TEXT_BYTES + '…'.len_utf8());
    }

    #[tokio::test]
    async fn endless_template_runs_out_of_fuel() {
        let loops = "{% for a in range(100000) %}{% for b in range(100000) %}{% endfor %}\
                     {% endfor %}";
        let error = render_event_template(loops, &event(&json!({}))).await.unwrap_err();
        assert_eq!(error.message, "template failed: line 1: engine ran out of fuel");
    }

    #[test]
    fn summary_line_has_short_fields() {
        let payload = json!({
            "id": "p1", "many": [1], "none": null, "lines": "a\n\u{1b}b", "n": 3,
            "long": "x".repeat(81),
        });
        let long = "x".repeat(80);
        let line_fields = format!("skill.proposal.created id=p1 lines=a b long={long}… n=3");
        let line = summary_line(&event(&payload));
        let mut words: Vec<_> = line.split(' ').collect();
        words.sort_unstable();
        let mut expected: Vec<_> = line_fields.split(' ').collect();
        expected.sort_unstable();
        assert_eq!(words, expected);
    }
}
