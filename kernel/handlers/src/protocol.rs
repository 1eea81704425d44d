//! The messages between the kernel and a program: one JSON object per line, in both directions.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use skillhost_payload::{CallError, ErrorKind};
use skillhost_sandbox::to_printable;

/// The maximum length of a line with its line break, in bytes.
pub(crate) const MAX_LINE: usize = 4 * 1024 * 1024;

/// The maximum length of an error of a program, in characters.
const MAX_ERROR: usize = 4_000;

/// The maximum length of the id of a request of a program, in bytes.
const MAX_ID: usize = 64;

/// The deepest nesting of a result.
pub(crate) const MAX_NESTING: usize = 100;

/// A line by which a program violates the protocol. Lines are counted from the start of the child.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ProtocolViolation {
    /// A line is not JSON.
    #[error("line {line} is not JSON")]
    NotJson {
        /// The number of the line.
        line: u64,
    },
    /// A line is JSON, but no message.
    #[error("line {line} is neither a request nor an answer")]
    NotMessage {
        /// The number of the line.
        line: u64,
    },
    /// A line is too long.
    #[error("line {line} has more than {MAX_LINE} bytes")]
    TooLong {
        /// The number of the line.
        line: u64,
    },
    /// A request was answered again.
    #[error("line {line} answers request {id} a second time")]
    AnsweredTwice {
        /// The number of the line.
        line: u64,
        /// The id of the request.
        id: u64,
    },
    /// A request that was never made was answered.
    #[error("line {line} answers request {id}, which was never made")]
    UnknownRequest {
        /// The number of the line.
        line: u64,
        /// The id in the answer.
        id: u64,
    },
}

/// A request or a notification of the kernel.
#[derive(Serialize)]
pub(crate) struct KernelMessage<'a, P> {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) id: Option<u64>,
    pub(crate) method: &'a str,
    pub(crate) params: P,
}

/// The answer of the kernel to a request of a program.
#[derive(Serialize)]
pub(crate) struct KernelAnswer<'a, R> {
    pub(crate) id: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) result: Option<R>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) error: Option<WireError>,
}

/// An error on the wire.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct WireError {
    #[serde(default)]
    pub(crate) kind: String,
    #[serde(default)]
    pub(crate) message: String,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub(crate) hint: String,
}

/// A message of a program.
#[derive(Debug)]
pub(crate) enum ProgramMessage {
    Answer { id: u64, outcome: Result<Box<RawValue>, WireError> },
    Request(ProgramRequest),
}

/// A request of a program.
#[derive(Debug)]
pub(crate) struct ProgramRequest {
    pub(crate) id: String,
    pub(crate) method: String,
    pub(crate) params: Option<Box<RawValue>>,
}

#[derive(Deserialize)]
struct WireMessage<'a> {
    #[serde(borrow)]
    id: Option<&'a RawValue>,
    #[serde(borrow)]
    method: Option<Cow<'a, str>>,
    #[serde(borrow)]
    params: Option<&'a RawValue>,
    #[serde(borrow)]
    result: Option<&'a RawValue>,
    error: Option<WireError>,
}

/// Parses a line of a program.
pub(crate) fn parse_line(line: u64, text: &[u8]) -> Result<ProgramMessage, ProtocolViolation> {
    let Ok(message) = serde_json::from_slice::<WireMessage<'_>>(text) else {
        return Err(match serde_json::from_slice::<&RawValue>(text) {
            Ok(_) => ProtocolViolation::NotMessage { line },
            Err(_) => ProtocolViolation::NotJson { line },
        });
    };
    let WireMessage { id, method, params, result, error } = message;
    let id = id.map(RawValue::get).unwrap_or_default();
    let parsed = match (method, result, error) {
        (Some(method), None, None) => serde_json::from_str::<String>(id)
            .ok()
            .filter(|id| !id.is_empty() && id.len() <= MAX_ID)
            .map(|id| {
                let (method, params) = (method.into_owned(), params.map(RawValue::to_owned));
                ProgramMessage::Request(ProgramRequest { id, method, params })
            }),
        (None, Some(result), None) => {
            id.parse().ok().map(|id| ProgramMessage::Answer { id, outcome: Ok(result.to_owned()) })
        }
        (None, None, Some(error)) => {
            id.parse().ok().map(|id| ProgramMessage::Answer { id, outcome: Err(error) })
        }
        _ => None,
    };
    parsed.ok_or(ProtocolViolation::NotMessage { line })
}

/// Serializes a message as a line, or returns `None` for one that is too long.
pub(crate) fn to_line(message: &impl Serialize) -> Option<Vec<u8>> {
    // Messages consist of JSON values and structs of them, so serialization cannot fail.
    let mut line = serde_json::to_vec(message).ok()?;
    // Raw values keep the line breaks between their tokens. In strings they are always escaped.
    for byte in line.iter_mut().filter(|byte| matches!(byte, b'\n' | b'\r')) {
        *byte = b' ';
    }
    line.push(b'\n');
    (line.len() <= MAX_LINE).then_some(line)
}

/// Returns whether a JSON text is nested too deep for other parsers.
pub(crate) fn is_nested_too_deep(json: &str) -> bool {
    let (mut depth, mut in_string, mut escaped) = (0_usize, false, false);
    for byte in json.bytes() {
        match byte {
            _ if escaped => escaped = false,
            b'\\' if in_string => escaped = true,
            b'"' => in_string = !in_string,
            b'[' | b'{' if !in_string => {
                depth += 1;
                if depth > MAX_NESTING {
                    return true;
                }
            }
            b']' | b'}' if !in_string => depth -= 1,
            _ => {}
        }
    }
    false
}

impl WireError {
    pub(crate) fn from_call_error(error: &CallError) -> Self {
        let CallError { kind, message, hint } = error;
        Self { kind: kind.as_str().to_owned(), message: message.clone(), hint: hint.clone() }
    }

    /// Converts an error of a program; its texts are made printable.
    pub(crate) fn into_call_error(self) -> CallError {
        // Lines are kept, as in the text of an exception.
        let lines: Vec<_> =
            self.message.lines().map(|line| to_printable(line, MAX_ERROR)).collect();
        let mut message = lines.join("\n");
        if message.len() > MAX_ERROR {
            message.truncate(message.floor_char_boundary(MAX_ERROR));
            message.push('…');
        }
        if message.is_empty() {
            "failed without a message".clone_into(&mut message);
        }
        let kind = ErrorKind::from_wire(&self.kind);
        CallError::new(kind, message).with_hint(to_printable(&self.hint, MAX_ERROR))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn message_is_one_line() {
        let raw: Box<RawValue> = serde_json::from_str("{\r\n  \"a\": \"b\\n\"\n}").unwrap();
        let line = to_line(&raw).unwrap();
        assert_eq!(line, b"{    \"a\": \"b\\n\" }\n");
    }

    #[test]
    fn messages_are_parsed() {
        let answer = parse_line(1, br#"{"id":7,"result":{"a":[1]}}"#).unwrap();
        let ProgramMessage::Answer { id: 7, outcome: Ok(result) } = answer else {
            panic!("{answer:?}")
        };
        assert_eq!(result.get(), r#"{"a":[1]}"#);
        let failed =
            parse_line(1, br#"{"id":7,"error":{"kind":"denied","message":"no"}}"#).unwrap();
        assert!(
            matches!(failed, ProgramMessage::Answer { id: 7, outcome: Err(e) } if e.kind == "denied")
        );
        let request = parse_line(1, br#"{"id":"h1","method":"skill/read","params":{}}"#).unwrap();
        assert!(
            matches!(request, ProgramMessage::Request(r) if r.id == "h1" && r.method == "skill/read")
        );
    }

    #[test]
    fn invalid_lines_are_named() {
        for text in ["", "hello", "{", "{\"id\":1,\"result\":\"\\ud800", "\u{0}", "[1] 2"] {
            assert_eq!(
                parse_line(3, text.as_bytes()).unwrap_err().to_string(),
                "line 3 is not JSON",
                "{text}"
            );
        }
        let id = "x".repeat(65);
        for text in [
            "null",
            "[]",
            "{}",
            r#"{"id":1}"#,
            r#"{"id":"1","result":{}}"#,
            r#"{"id":-1,"result":{}}"#,
            r#"{"id":1,"result":{},"error":{}}"#,
            r#"{"id":1,"method":"skill/read"}"#,
            r#"{"method":"skill/read"}"#,
            &format!(r#"{{"id":"{id}","method":"skill/read"}}"#),
            r#"{"id":1,"id":1,"result":{}}"#,
        ] {
            assert_eq!(
                parse_line(4, text.as_bytes()).unwrap_err(),
                ProtocolViolation::NotMessage { line: 4 },
                "{text}"
            );
        }
    }

    #[test]
    fn deep_nesting_is_found() {
        let nested = |depth: usize| format!("{}{}", "[".repeat(depth), "]".repeat(depth));
        assert!(!is_nested_too_deep(&nested(MAX_NESTING)));
        assert!(is_nested_too_deep(&nested(MAX_NESTING + 1)));
        assert!(!is_nested_too_deep(&format!("\"\\\"{}\"", "[".repeat(500))));
        // A line may be nested deeper than recursive parsers allow and is still a message.
        let line = format!(r#"{{"id":1,"result":{}}}"#, nested(100_000));
        assert!(parse_line(1, line.as_bytes()).is_ok());
    }

    #[test]
    fn error_texts_are_printable() {
        let message = format!("one\u{1b}[2J\ntwo {}", "x".repeat(5_000));
        let error = WireError { kind: "odd".into(), message, hint: String::new() };
        let error = error.into_call_error();
        assert_eq!(error.kind, ErrorKind::Failed);
        assert!(error.message.starts_with("one\\u{1b}[2J\ntwo xxx"));
        assert!(error.message.len() < 4_010);
    }
}
