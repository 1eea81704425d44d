//! A background service that reacts to events and ends on cancellation.
//!
//! The pattern to keep: every wait also waits for the cancellation token, and one failing round
//! does not end the service.

use skillhost_sdk::prelude::*;
use skillhost_sdk::serde::{self, Deserialize};
use skillhost_sdk::{Event, serde_json};

/// The manifest's `config`.
#[derive(Deserialize)]
#[serde(crate = "serde", deny_unknown_fields)]
struct Config {
    topic: String,
}

/// Describes one event for the operator; an unknown payload is not an error.
fn describe(event: &Event) -> String {
    let payload: Value = serde_json::from_str(event.payload.get()).unwrap_or_default();
    let text = |key: &str| payload.get(key).and_then(Value::as_str);
    let topic = &event.topic;
    match (text("from"), text("to"), text("id")) {
        (Some(from), Some(to), _) => format!("{topic}: {from} is now {to}"),
        (_, _, Some(id)) => format!("{topic}: {id}"),
        _ => topic.clone(),
    }
}

/// The extension.
struct SkillWatch {
    cx: ExtensionContext,
    config: Config,
}

#[async_trait]
impl Extension for SkillWatch {
    fn new(cx: ExtensionContext) -> Result<Self> {
        let config = cx.config()?;
        Ok(Self { cx, config })
    }
}

#[async_trait]
impl ServiceProvider for SkillWatch {
    async fn run_background(&self, cancel: CancellationToken) -> Result<()> {
        let mut events = self.cx.subscribe(&self.config.topic).await?;
        // `None` means cancellation: the service ends, and ending is not an error.
        while let Some(event) = cancel.run_until_cancelled(events.next()).await {
            // No events follow an error here, so this error ends the service.
            let line = describe(&event?);
            if let Err(error) = self.cx.notify(&line).await {
                tracing::warn!(%error, line, "notifying the operator failed");
            }
        }
        Ok(())
    }
}

export_extension!(SkillWatch: service);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn description_names_payload_fields() {
        let line = |topic: &str, payload: Value| {
            let payload = serde_json::value::to_raw_value(&payload).expect("a value is JSON");
            describe(&Event::new(topic, "skill_registry", payload))
        };
        assert_eq!(line("skill.added", json!({"id": "x"})), "skill.added: x");
        assert_eq!(
            line("skill.renamed", json!({"from": "x", "to": "y"})),
            "skill.renamed: x is now y"
        );
        assert_eq!(line("skill.changed", json!(null)), "skill.changed");
    }
}
