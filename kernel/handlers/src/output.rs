//! The result of a program as the result of a tool.

use std::borrow::Cow;

use serde::Serialize;
use serde_json::value::{RawValue, to_raw_value};
use skillhost_payload::{CallError, ToolOutput};
use skillhost_sandbox::IsolationReport;

use crate::program_supervisor::ProgramReport;

/// The structured result of a call.
#[derive(Serialize)]
struct StructuredResult<'a> {
    result: &'a RawValue,
    #[serde(skip_serializing_if = "Option::is_none")]
    evidence: Option<&'a RawValue>,
    #[serde(skip_serializing_if = "Option::is_none")]
    metadata: Option<&'a RawValue>,
    isolation: &'a IsolationReport,
}

impl ProgramReport {
    /// Converts the result: as text its parts and the isolation level, with a text as it is; as
    /// structured result all of it.
    ///
    /// # Errors
    /// [`skillhost_payload::ErrorKind::Protocol`], if it cannot be serialized.
    pub fn to_tool_output(&self) -> Result<ToolOutput, CallError> {
        let part = |part: &'_ Option<Box<RawValue>>| part.as_deref().map(RawValue::to_owned);
        let (evidence, metadata) = (part(&self.result.evidence), part(&self.result.metadata));
        let structured = StructuredResult {
            result: &self.result.result,
            evidence: evidence.as_deref(),
            metadata: metadata.as_deref(),
            isolation: &self.isolation,
        };
        let structured =
            to_raw_value(&structured).map_err(|error| CallError::protocol_error(&error))?;
        let mut text = readable(&self.result.result).into_owned();
        for (name, part) in [("evidence", &evidence), ("metadata", &metadata)] {
            if let Some(part) = part {
                text.push_str(&format!("\n{name}: {}", readable(part)));
            }
        }
        text.push_str(&format!("\n[isolation: {}]", self.isolation.level));
        Ok(ToolOutput { text, structured: Some(structured), ..ToolOutput::default() })
    }
}

/// Returns a text without its quotes, and any other value as JSON.
fn readable(value: &RawValue) -> Cow<'_, str> {
    match serde_json::from_str::<String>(value.get()) {
        Ok(text) => text.into(),
        Err(_) => value.get().into(),
    }
}

#[cfg(test)]
mod tests {
    use skillhost_policy::IsolationLevel;

    use super::*;
    use crate::running_program::ProgramResult;

    fn output(result: &str) -> ToolOutput {
        let result: ProgramResult = serde_json::from_str(result).unwrap();
        let isolation = IsolationReport {
            level: IsolationLevel::Landlock,
            landlock_abi: 7,
            cgroup: false,
            missing: Vec::new(),
            tried: Vec::new(),
        };
        ProgramReport { result, isolation }.to_tool_output().unwrap()
    }

    #[test]
    fn text_has_all_parts() {
        let full = output(r#"{"result":{"a":1},"evidence":["e"],"metadata":"m"}"#);
        let text = "{\"a\":1}\nevidence: [\"e\"]\nmetadata: m\n[isolation: landlock]";
        assert_eq!(full.text, text);
        let structured = full.structured.unwrap();
        let expected =
            r#"{"result":{"a":1},"evidence":["e"],"metadata":"m","isolation":{"level":"landlock","#;
        assert!(structured.get().starts_with(expected), "{structured}");
        let plain = output(r#"{"result":"line\nbreak"}"#);
        assert_eq!(plain.text, "line\nbreak\n[isolation: landlock]");
        assert!(!plain.is_error && !plain.structured.unwrap().get().contains("evidence"));
    }
}
