//! What can be learned from a message that is too long to keep: which request it answers.

use serde_json::Value;

/// Bytes of a name or a value that are kept; ids and the names of the protocol are shorter.
const MAX_TOKEN: usize = 128;

/// Follows the structure of one JSON object, byte by byte, and keeps its `id`.
#[derive(Debug, Default)]
pub(crate) struct MessageSkim {
    depth: usize,
    in_string: bool,
    escaped: bool,
    /// The outermost object has ended.
    complete: bool,
    /// Something stands where a JSON object has nothing.
    broken: bool,
    /// Whether the next token of the outermost object is a value, and of which name.
    name: Option<Vec<u8>>,
    /// The name or scalar that is read in the outermost object.
    token: Vec<u8>,
    id: Option<Vec<u8>>,
    has_method: bool,
}

/// What a skimmed line was.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Skimmed {
    /// The answer to the request with this id.
    Answer(Value),
    /// A request or a notification.
    Other,
    /// No message of the protocol.
    Garbage,
}

impl MessageSkim {
    /// Reads more of the line.
    pub(crate) fn push(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            if self.broken {
                return;
            }
            match self.in_string {
                true => self.in_string(byte),
                false => self.between(byte),
            }
        }
    }

    /// Says what the line was, now that it is over.
    pub(crate) fn finish(self) -> Skimmed {
        if self.broken || !self.complete {
            return Skimmed::Garbage;
        }
        if self.has_method {
            return Skimmed::Other;
        }
        let id = self.id.and_then(|id| serde_json::from_slice::<Value>(&id).ok());
        match id {
            Some(id) if id.is_string() || id.is_number() => Skimmed::Answer(id),
            _ => Skimmed::Garbage,
        }
    }

    fn in_string(&mut self, byte: u8) {
        self.keep(byte);
        if self.escaped {
            self.escaped = false;
        } else if byte == b'\\' {
            self.escaped = true;
        } else if byte == b'"' {
            self.in_string = false;
        }
    }

    fn between(&mut self, byte: u8) {
        let is_space = byte.is_ascii_whitespace();
        if self.complete || (self.depth == 0 && byte != b'{') {
            self.broken |= !is_space;
            return;
        }
        match byte {
            b'"' => {
                self.in_string = true;
                self.keep(byte);
            }
            b'{' | b'[' => self.depth += 1,
            b'}' | b']' => {
                if self.depth == 1 {
                    self.end_of_field();
                    self.complete = true;
                }
                self.depth -= 1;
            }
            b':' if self.depth == 1 => self.name = Some(std::mem::take(&mut self.token)),
            b',' if self.depth == 1 => self.end_of_field(),
            _ if is_space => {}
            _ => self.keep(byte),
        }
    }

    fn keep(&mut self, byte: u8) {
        if self.depth == 1 && self.token.len() < MAX_TOKEN {
            self.token.push(byte);
        }
    }

    fn end_of_field(&mut self) {
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

    /// The whole at once and byte by byte.
    fn skim(text: &str) -> Skimmed {
        let mut skim = MessageSkim::default();
        skim.push(text.as_bytes());
        let mut slowly = MessageSkim::default();
        text.bytes().for_each(|byte| slowly.push(&[byte]));
        let whole = skim.finish();
        assert_eq!(slowly.finish(), whole, "{text}");
        whole
    }

    #[test]
    fn answer_is_known_by_its_id() {
        let long = "x\\\"}{[,:".repeat(1000);
        for (text, id) in [
            (format!(r#"{{"jsonrpc":"2.0","id":7,"result":{{"t":"{long}"}}}}"#), json!(7)),
            (format!(r#" {{"result":{{"id":1,"a":["{long}"]}},"id": 12 }} "#), json!(12)),
            (format!(r#"{{"x":"{long}","id":"a-\"1","error":{{}}}}"#), json!("a-\"1")),
        ] {
            assert_eq!(skim(&text), Skimmed::Answer(id), "{text}");
        }
    }

    #[test]
    fn other_lines_are_told_apart() {
        for text in [r#"{"method":"m","params":{}}"#, r#"{"id":1,"method":"m"}"#] {
            assert_eq!(skim(text), Skimmed::Other, "{text}");
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
            assert_eq!(skim(text), Skimmed::Garbage, "{text}");
        }
        let id = "9".repeat(1000);
        assert_eq!(skim(&format!("{{\"id\":\"{id}\"}}")), Skimmed::Garbage);
    }
}
