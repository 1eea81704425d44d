//! The changes of skills and of the ledger as events of the kernel.

use serde::Serialize;
use serde_json::value::to_raw_value;
use skill_catalog::SkillEvent;
use skill_ledger::LedgerOutcome;
use skillhost_payload::Event;

/// Returns the events of a poll.
///
/// # Errors
/// An event that cannot be serialized is an error of its own; the others are complete.
pub fn to_skill_events(events: &[SkillEvent]) -> Vec<serde_json::Result<Event>> {
    events.iter().map(|event| new_event(event.topic(), event)).collect()
}

/// Returns the events of a ledger operation. `correlation_id` is that of the call that caused the
/// operation.
///
/// # Errors
/// An event that cannot be serialized is an error of its own; the others are complete.
pub fn to_ledger_events(
    outcome: &LedgerOutcome,
    correlation_id: Option<&str>,
) -> Vec<serde_json::Result<Event>> {
    let correlation_id = correlation_id.map(str::to_owned);
    let events = outcome.events.iter().map(|event| {
        let correlation_id = correlation_id.clone();
        let made = new_event(event.topic(), event)?;
        // The key drops a repetition of what another process has published before.
        Ok(Event { key: event.key(), correlation_id, ..made })
    });
    events.collect()
}

fn new_event(topic: &str, payload: &impl Serialize) -> serde_json::Result<Event> {
    Ok(Event::new(topic, "", to_raw_value(payload)?))
}
