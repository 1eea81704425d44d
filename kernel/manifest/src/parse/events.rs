//! Reads the `events` of a manifest.

use minijinja::Environment;

use super::schedules::{belongs, timeout};
use crate::read::{At, Fields, Read, Report};
use crate::{Event, Events, Handler, Kind, ManifestErrorKind, Subscription, rules};

pub(super) fn events(at: &At<'_>, kind: Option<&Kind>, report: &mut Report) -> Read<Events> {
    let fields = at.fields("events", "a mapping with `publishes` and `subscribes`", report)?;
    let publishes = fields.optional("publishes", report, |at, report| at.list(report, event));
    let subscribes = fields.optional("subscribes", report, |at, report| {
        at.list(report, |at, report| subscription(at, kind, report))
    });
    Ok(Events {
        publishes: publishes?.unwrap_or_default(),
        subscribes: subscribes?.unwrap_or_default(),
    })
}

fn event(at: &At<'_>, report: &mut Report) -> Read<Event> {
    if at.is_text() {
        return Ok(Event { topic: at.text_by(&rules::TOPIC, report)?, description: None });
    }
    let expected = "text or a mapping with `topic` and `description`";
    let fields = at.fields("events.publishes[]", expected, report)?;
    let topic = fields.required("topic", report, |at, report| at.text_by(&rules::TOPIC, report));
    let description = fields.optional("description", report, At::text);
    Ok(Event { topic: topic?, description: description? })
}

/// What `handler` can say.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Word {
    NotifyUser,
    InvokeAgent,
    Custom,
}

fn subscription(at: &At<'_>, kind: Option<&Kind>, report: &mut Report) -> Read<Subscription> {
    if at.is_text() {
        let topic = at.text_by(&rules::TOPIC, report)?;
        return Ok(Subscription { topic, description: None, handler: None, timeout_ms: None });
    }
    let expected = "text or a mapping with `topic` and `handler`";
    let fields = at.fields("events.subscribes[]", expected, report)?;
    let rule = if fields.key("handler").is_some() { &rules::HANDLED } else { &rules::TOPIC };
    let topic = fields.required("topic", report, |at, report| at.text_by(rule, report));
    let description = fields.optional("description", report, At::text);
    let handler = handler(at, &fields, kind, report);
    let timeout_ms = fields.optional("timeout_ms", report, timeout);
    if let (Some(key), None) = (fields.key("timeout_ms"), fields.key("handler")) {
        let kind = belongs(at, "timeout_ms", "a `handler`");
        return Err(report.add(kind, key.line, key.column));
    }
    Ok(Subscription {
        topic: topic?,
        description: description?,
        handler: handler?,
        timeout_ms: timeout_ms?,
    })
}

/// Reads `handler` and what goes with it.
fn handler(
    at: &At<'_>,
    fields: &Fields<'_>,
    kind: Option<&Kind>,
    report: &mut Report,
) -> Read<Option<Handler>> {
    let words = [
        ("notify_user", Word::NotifyUser),
        ("invoke_agent", Word::InvokeAgent),
        ("custom", Word::Custom),
    ];
    let word = fields.optional("handler", report, |at, report| {
        at.choice(&words, "`notify_user`, `invoke_agent` or `custom`", report)
    });
    let text = fields.optional("text", report, template);
    let agent = fields.optional("agent", report, super::extension_id);
    let prompt = fields.optional("prompt", report, template);
    let word = word?;
    let owners = [
        ("text", Word::NotifyUser, "`handler: notify_user`"),
        ("agent", Word::InvokeAgent, "`handler: invoke_agent`"),
        ("prompt", Word::InvokeAgent, "`handler: invoke_agent`"),
    ];
    for (name, owner, shown) in owners {
        if let Some(key) = fields.key(name).filter(|_| word != Some(owner)) {
            return Err(report.add(belongs(at, name, shown), key.line, key.column));
        }
    }
    match word {
        None => Ok(None),
        Some(Word::NotifyUser) => Ok(Some(Handler::NotifyUser { text: text? })),
        Some(Word::Custom) => match (kind, fields.key("handler")) {
            (Some(Kind::Process { .. } | Kind::Agent(_)), Some(key)) => {
                let owner =
                    "libraries when it says `custom`; write `notify_user` or `invoke_agent`";
                Err(report.add(belongs(at, "handler", owner), key.line, key.column))
            }
            _ => Ok(Some(Handler::Custom)),
        },
        Some(Word::InvokeAgent) => {
            let (agent, prompt) = (agent?, prompt?);
            let missing = |name: &str| format!("{}.{name}", at.path);
            let Some(prompt) = prompt else {
                let kind = ManifestErrorKind::Missing { field: missing("prompt") };
                return Err(fields.missing(&["prompt"], kind, report));
            };
            // An agent is meant itself where it names none.
            if agent.is_none() && matches!(kind, Some(Kind::Library { .. } | Kind::Process { .. }))
            {
                let kind = ManifestErrorKind::Missing { field: missing("agent") };
                return Err(fields.missing(&["agent"], kind, report));
            }
            Ok(Some(Handler::InvokeAgent { agent, prompt }))
        }
    }
}

/// Reads a template, which is filled in when the event is there.
fn template(at: &At<'_>, report: &mut Report) -> Read<String> {
    let text = at.text(report)?;
    if text.trim().is_empty() {
        return Err(at.invalid(&text, "text that is not blank", report));
    }
    match Environment::new().template_from_str(&text) {
        Ok(_) => Ok(text),
        Err(error) => {
            let reason = error.detail().map_or_else(|| error.kind().to_string(), str::to_owned);
            let message = match error.line() {
                Some(line) if line > 1 => format!("{reason} in its line {line}"),
                _ => reason,
            };
            let field = at.path.clone();
            Err(at.error(ManifestErrorKind::Template { field, message }, report))
        }
    }
}
