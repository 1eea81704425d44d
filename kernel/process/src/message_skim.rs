//! The request id of a response that is too long to store.

use serde_json::Value;

/// The stored bytes of a name or a value; ids and the names of the protocol are shorter.
const MAX_TOKEN: usize = 128;

/// A scanner that follows the structure of one JSON object and stores its `id`.
#[derive(Debug, Default)]
pub(crate) struct MessageSkim {
    depth: usize,
    in_string: bool,
    escaped: bool,
    /// `true` after the end of the outermost object.
    complete: bool,
    /// `true` after text outside of the outermost object.
    broken: bool,
    /// The name of the field whose value is read; `None` while a name is read.
    name: Option<Vec<u8>>,
    /// The name or scalar that is read in the outermost object.
    token: Vec<u8>,
    id: Option<Vec<u8>>,
    has_method: bool,
}

/// The kind of a skimmed line.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum SkimmedLine {
    /// A response to the request with this id.
    Response(Value),
    /// A request or a notification.
    Other,
    /// An invalid message.
    Invalid,
}

impl MessageSkim {
    /// Scans more bytes of the line.
    pub(crate) fn push(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            // The result is fixed from here on, so the rest of the line is skipped.
            if self.broken {
                return;
            }
            match self.in_string {
                true => self.scan_string(byte),
                false => self.scan_structure(byte),
            }
        }
    }

    /// Returns the kind of the complete line.
    pub(crate) fn finish(self) -> SkimmedLine {
        if self.broken || !self.complete {
            return SkimmedLine::Invalid;
        }
        if self.has_method {
            return SkimmedLine::Other;
        }
        // JSON-RPC allows only strings and numbers as ids of requests.
        let id = self.id.and_then(|id| serde_json::from_slice::<Value>(&id).ok());
        match id {
            Some(id) if id.is_string() || id.is_number() => SkimmedLine::Response(id),
            _ => SkimmedLine::Invalid,
        }
    }

    fn scan_string(&mut self, byte: u8) {
        self.push_token(byte);
        if self.escaped {
            self.escaped = false;
        } else if byte == b'\\' {
            self.escaped = true;
        } else if byte == b'"' {
            self.in_string = false;
        }
    }

    fn scan_structure(&mut self, byte: u8) {
        let is_space = byte.is_ascii_whitespace();
        if self.complete || (self.depth == 0 && byte != b'{') {
            self.broken |= !is_space;
            return;
        }
        match byte {
            b'"' => {
                self.in_string = true;
                self.push_token(byte);
            }
            b'{' | b'[' => self.depth += 1,
            b'}' | b']' => {
                if self.depth == 1 {
                    // The last field has no comma after it.
                    self.finish_field();
                    self.complete = true;
                }
                self.depth -= 1;
            }
            b':' if self.depth == 1 => self.name = Some(std::mem::take(&mut self.token)),
            b',' if self.depth == 1 => self.finish_field(),
            _ if is_space => {}
            _ => self.push_token(byte),
        }
    }

    fn push_token(&mut self, byte: u8) {
        // A truncated token is not valid JSON, so a longer id makes the line invalid.
        if self.depth == 1 && self.token.len() < MAX_TOKEN {
            self.token.push(byte);
        }
    }

    fn finish_field(&mut self) {
        let value = std::mem::take(&mut self.token);
        match self.name.take().as_deref() {
            Some(b"\"id\"") => self.id = Some(value),
            Some(b"\"method\"") => self.has_method = true,
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// Skims a text at once and byte by byte, with the same result.
    fn skim(text: &str) -> SkimmedLine {
        let mut skim = MessageSkim::default();
        skim.push(text.as_bytes());
        let mut slowly = MessageSkim::default();
        text.bytes().for_each(|byte| slowly.push(&[byte]));
        let result = skim.finish();
        assert_eq!(slowly.finish(), result, "{text}");
        result
    }

    #[test]
    fn response_id_is_found() {
        let long = "x\\\"}{[,:".repeat(1000);
        for (text, id) in [
            (format!(r#"{{"jsonrpc":"2.0","id":7,"result":{{"t":"{long}"}}}}"#), json!(7)),
            (format!(r#" {{"result":{{"id":1,"a":["{long}"]}},"id": 12 }} "#), json!(12)),
            (format!(r#"{{"x":"{long}","id":"a-\"1","error":{{}}}}"#), json!("a-\"1")),
        ] {
            assert_eq!(skim(&text), SkimmedLine::Response(id), "{text}");
        }
    }

    #[test]
    fn other_lines_are_distinguished() {
        for text in [r#"{"method":"m","params":{}}"#, r#"{"id":1,"method":"m"}"#] {
            assert_eq!(skim(text), SkimmedLine::Other, "{text}");
        }
        for text in [
            "",
            "x",
            "[{\"id\":1}]",
            "{\"id\":1",
            "{\"id\":1}x",
            "{\"id\":1}{}",
            "{\"id\":null}",
            "{\"id\":{\"a\":1}}",
            "{\"result\":{\"id\":1}}",
        ] {
            assert_eq!(skim(text), SkimmedLine::Invalid, "{text}");
        }
        let id = "9".repeat(1000);
        assert_eq!(skim(&format!("{{\"id\":\"{id}\"}}")), SkimmedLine::Invalid);
    }
}
