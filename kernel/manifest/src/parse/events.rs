//! Parses the `events` of a manifest.

use minijinja::Environment;

use super::schedules::{misplaced_field, parse_timeout};
use crate::read::{ErrorReport, MappingReader, NodeReader, ReadResult};
use crate::{
    EventDeclaration, EventDeclarations, EventHandler, EventSubscription, ExtensionKind,
    ManifestErrorKind, rules,
};

/// Parses `events`.
pub(super) fn parse_events(
    at: &NodeReader<'_>,
    kind: Option<&ExtensionKind>,
    report: &mut ErrorReport,
) -> ReadResult<EventDeclarations> {
    let fields = at.fields("events", "a mapping with `publishes` and `subscribes`", report)?;
    let publishes = fields.optional("publishes", report, |at, report| at.list(report, parse_event));
    let subscribes = fields.optional("subscribes", report, |at, report| {
        at.list(report, |at, report| parse_subscription(at, kind, report))
    });
    Ok(EventDeclarations {
        publishes: publishes?.unwrap_or_default(),
        subscribes: subscribes?.unwrap_or_default(),
    })
}

fn parse_event(at: &NodeReader<'_>, report: &mut ErrorReport) -> ReadResult<EventDeclaration> {
    if at.is_text() {
        return Ok(EventDeclaration {
            topic: at.text_matching(&rules::TOPIC, report)?,
            description: None,
        });
    }
    let expected = "text or a mapping with `topic` and `description`";
    let fields = at.fields("events.publishes[]", expected, report)?;
    let topic =
        fields.required("topic", report, |at, report| at.text_matching(&rules::TOPIC, report));
    let description = fields.optional("description", report, NodeReader::text);
    Ok(EventDeclaration { topic: topic?, description: description? })
}

/// A value of `handler`.
#[derive(Debug, Clone, Copy, PartialEq)]
enum HandlerKeyword {
    NotifyUser,
    InvokeAgent,
    Custom,
}

fn parse_subscription(
    at: &NodeReader<'_>,
    kind: Option<&ExtensionKind>,
    report: &mut ErrorReport,
) -> ReadResult<EventSubscription> {
    if at.is_text() {
        let topic = at.text_matching(&rules::TOPIC, report)?;
        return Ok(EventSubscription { topic, description: None, handler: None, timeout_ms: None });
    }
    let expected = "text or a mapping with `topic` and `handler`";
    let fields = at.fields("events.subscribes[]", expected, report)?;
    // Documented topics may contain `*`; delivery matches only complete segments.
    let rule = if fields.key("handler").is_some() { &rules::HANDLED_TOPIC } else { &rules::TOPIC };
    let topic = fields.required("topic", report, |at, report| at.text_matching(rule, report));
    let description = fields.optional("description", report, NodeReader::text);
    let handler = parse_handler(at, &fields, kind, report);
    let timeout_ms = fields.optional("timeout_ms", report, parse_timeout);
    if let (Some(key), None) = (fields.key("timeout_ms"), fields.key("handler")) {
        let kind = misplaced_field(at, "timeout_ms", "a `handler`");
        return Err(report.add(kind, key.span));
    }
    Ok(EventSubscription {
        topic: topic?,
        description: description?,
        handler: handler?,
        timeout_ms: timeout_ms?,
    })
}

/// Parses `handler` and its fields.
fn parse_handler(
    at: &NodeReader<'_>,
    fields: &MappingReader<'_>,
    kind: Option<&ExtensionKind>,
    report: &mut ErrorReport,
) -> ReadResult<Option<EventHandler>> {
    let keywords = [
        ("notify_user", HandlerKeyword::NotifyUser),
        ("invoke_agent", HandlerKeyword::InvokeAgent),
        ("custom", HandlerKeyword::Custom),
    ];
    let keyword = fields.optional("handler", report, |at, report| {
        at.choice(&keywords, "`notify_user`, `invoke_agent` or `custom`", report)
    });
    let text = fields.optional("text", report, parse_template);
    let agent = fields.optional("agent", report, NodeReader::extension_id);
    let prompt = fields.optional("prompt", report, parse_template);
    let keyword = keyword?;
    let owners = [
        ("text", HandlerKeyword::NotifyUser, "`handler: notify_user`"),
        ("agent", HandlerKeyword::InvokeAgent, "`handler: invoke_agent`"),
        ("prompt", HandlerKeyword::InvokeAgent, "`handler: invoke_agent`"),
    ];
    // A field of another handler would be ignored silently, so it is an error.
    for (name, owner, description) in owners {
        if let Some(key) = fields.key(name).filter(|_| keyword != Some(owner)) {
            return Err(report.add(misplaced_field(at, name, description), key.span));
        }
    }
    match keyword {
        None => Ok(None),
        Some(HandlerKeyword::NotifyUser) => Ok(Some(EventHandler::NotifyUser { text: text? })),
        Some(HandlerKeyword::Custom) => match (kind, fields.key("handler")) {
            (Some(ExtensionKind::Process { .. } | ExtensionKind::Agent(_)), Some(key)) => {
                let owner = "libraries if it is `custom`; write `notify_user` or `invoke_agent`";
                Err(report.add(misplaced_field(at, "handler", owner), key.span))
            }
            _ => Ok(Some(EventHandler::Custom)),
        },
        Some(HandlerKeyword::InvokeAgent) => {
            let (agent, prompt) = (agent?, prompt?);
            let missing = |name: &str| format!("{}.{name}", at.path);
            let Some(prompt) = prompt else {
                let kind = ManifestErrorKind::Missing { field: missing("prompt") };
                return Err(fields.report_missing(&["prompt"], kind, report));
            };
            // In an agent's manifest a missing `agent` means that agent.
            if agent.is_none()
                && matches!(
                    kind,
                    Some(ExtensionKind::Library { .. } | ExtensionKind::Process { .. })
                )
            {
                let kind = ManifestErrorKind::Missing { field: missing("agent") };
                return Err(fields.report_missing(&["agent"], kind, report));
            }
            Ok(Some(EventHandler::InvokeAgent { agent, prompt }))
        }
    }
}

/// Parses a template; it is rendered when an event is delivered.
fn parse_template(at: &NodeReader<'_>, report: &mut ErrorReport) -> ReadResult<String> {
    let text = at.text(report)?;
    if text.trim().is_empty() {
        return Err(at.invalid(&text, "text that is not blank", report));
    }
    // Compiled only to find errors now instead of at the first event.
    match Environment::new().template_from_str(&text) {
        Ok(_) => Ok(text),
        Err(error) => {
            let reason = error.detail().map_or_else(|| error.kind().to_string(), str::to_owned);
            let message = match error.line() {
                Some(line) if line > 1 => format!("{reason} in line {line} of the template"),
                _ => reason,
            };
            let field = at.path.clone();
            Err(at.error(ManifestErrorKind::Template { field, message }, report))
        }
    }
}
