//! The error of a missing tool, with what the report of the start knows of its extension.

use skillhost_control::LoadReport;
use skillhost_core::KernelError;
use skillhost_home::LoadRejection;
use skillhost_payload::{CallError, ErrorKind, OperatorCommand};

/// Returns the rejection of the extension that a tool belongs to.
fn rejected_owner<'a>(report: &'a LoadReport, tool: &str) -> Option<&'a LoadRejection> {
    let owner = report.rejected_tools.get(tool)?;
    report.rejected.iter().find(|rejection| rejection.id == *owner)
}

/// Adds the rejection of its extension to the error of a missing tool.
pub(crate) fn explain_missing_tool(
    report: &LoadReport,
    tool: &str,
    error: KernelError,
) -> KernelError {
    if !matches!(error, KernelError::NotFound { .. }) {
        return error;
    }
    if let Some(LoadRejection { id, phase, reason, hint, .. }) = rejected_owner(report, tool) {
        let reason = reason.lines().next().unwrap_or_default();
        let message = format!(
            "tool `{tool}` is not available: its extension `{id}` was rejected in phase \
             {phase}: {reason}"
        );
        let error = CallError::new(ErrorKind::NotFound, message).with_hint(hint.clone());
        return error.with_extra_hint(&format!("see: {}", OperatorCommand::CheckExtensions)).into();
    }
    // Tools of an extension that was rejected before it listed them are unknown; only their
    // prefix can match.
    let word = |id: &str| id.replace('-', "_");
    let likely = report.rejected.iter().find(|rejection| {
        let id = word(&rejection.id);
        word(tool).strip_prefix(&id).is_some_and(|rest| rest.is_empty() || rest.starts_with('_'))
    });
    let Some(LoadRejection { id, phase, .. }) = likely else { return error };
    let more = format!(
        "the extension `{id}`, which may have it, was rejected in phase {phase}; \
         see: {}",
        OperatorCommand::CheckExtensions
    );
    let hint = error.hint();
    let error = CallError::new(ErrorKind::NotFound, error.to_string()).with_hint(hint);
    error.with_extra_hint(&more).into()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::path::PathBuf;

    use skillhost_home::LoadPhase;

    use super::*;
    use skillhost_core::NamedObject;

    fn report() -> LoadReport {
        let rejection = |id: &str| LoadRejection {
            id: id.to_owned(),
            phase: LoadPhase::Start,
            reason: "ended with exit code 1\nlast words".to_owned(),
            hint: "install it".to_owned(),
            manifest: PathBuf::new(),
        };
        LoadReport {
            rejected: vec![rejection("weather"), rejection("rss-reader")],
            rejected_tools: BTreeMap::from([("forecast".to_owned(), "weather".to_owned())]),
            ..LoadReport::default()
        }
    }

    fn explained(tool: &str) -> (String, String) {
        let missing = KernelError::NotFound {
            what: NamedObject::Tool,
            id: tool.to_owned(),
            similar: Vec::new(),
        };
        let error = explain_missing_tool(&report(), tool, missing);
        assert_eq!(error.kind(), ErrorKind::NotFound);
        (error.to_string(), error.hint())
    }

    #[test]
    fn missing_tool_names_rejected_owner() {
        let (message, hint) = explained("forecast");
        assert_eq!(
            message,
            "tool `forecast` is not available: its extension `weather` was rejected in phase \
             start: ended with exit code 1"
        );
        assert_eq!(hint, "install it\nsee: skillhost ext doctor");
        for tool in ["weather_now", "rss_reader_poll", "rss-reader"] {
            let (message, hint) = explained(tool);
            assert_eq!(message, format!("tool `{tool}` not found"));
            assert!(hint.contains("which may have it, was rejected in phase start"), "{hint}");
        }
        let (message, hint) = explained("weatherman");
        assert_eq!(
            (&*message, &*hint),
            ("tool `weatherman` not found", "see: skillhost tool list")
        );
    }
}
