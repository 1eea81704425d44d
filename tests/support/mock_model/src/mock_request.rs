//! A request, as it came and as it is meant.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::wire::Wire;

/// A request to the server.
#[derive(Debug, Clone)]
pub struct MockRequest {
    /// Its wire.
    pub wire: Wire,
    /// The path with its query.
    pub path: String,
    /// The model it is for.
    pub model: String,
    /// The answer is to come in pieces.
    pub stream: bool,
    /// The headers, names in lower case.
    pub headers: BTreeMap<String, String>,
    /// The body.
    pub body: Value,
}

/// A message of a thread, independent of the wire.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Said {
    /// `user`, `assistant` or `tool`.
    pub role: String,
    /// The text.
    pub text: String,
    /// The tools that are called: name, space, arguments.
    pub calls: Vec<String>,
}

impl Said {
    /// Creates a message without tool calls.
    #[must_use]
    pub fn new(role: &str, text: &str) -> Self {
        Self { role: role.to_owned(), text: text.to_owned(), calls: Vec::new() }
    }
}

impl MockRequest {
    /// Returns the key of the request.
    #[must_use]
    pub fn key(&self) -> Option<&str> {
        let of = |name| self.headers.get(name).map(String::as_str);
        let bearer = of("authorization").and_then(|value| value.strip_prefix("Bearer "));
        bearer.or(of("x-api-key")).or(of("x-goog-api-key"))
    }

    /// Returns the instructions.
    #[must_use]
    pub fn system(&self) -> String {
        match self.wire {
            Wire::Openai | Wire::Ollama => {
                let messages = list(&self.body["messages"]);
                let system = messages.iter().filter(|message| message["role"] == "system");
                system.map(|message| text_of(&message["content"])).collect()
            }
            Wire::OpenaiResponses => text_of(&self.body["instructions"]),
            Wire::Anthropic => text_of(&self.body["system"]),
            Wire::Gemini => text_of(&self.body["systemInstruction"]["parts"]),
        }
    }

    /// Returns the names of the offered tools, in order.
    #[must_use]
    pub fn tools(&self) -> Vec<String> {
        let tools = match self.wire {
            Wire::Gemini => list(&self.body["tools"][0]["functionDeclarations"]),
            _ => list(&self.body["tools"]),
        };
        let name = |tool: &Value| match self.wire {
            Wire::Openai | Wire::Ollama => text_of(&tool["function"]["name"]),
            _ => text_of(&tool["name"]),
        };
        tools.iter().map(name).collect()
    }

    /// Returns the messages, oldest first, without the instructions.
    #[must_use]
    pub fn messages(&self) -> Vec<Said> {
        match self.wire {
            Wire::Openai | Wire::Ollama => self.of_openai(),
            Wire::OpenaiResponses => self.of_responses(),
            Wire::Anthropic => self.of_anthropic(),
            Wire::Gemini => self.of_gemini(),
        }
    }

    /// Returns the text of the last message.
    #[must_use]
    pub fn last_text(&self) -> String {
        self.messages().pop().unwrap_or_default().text
    }

    fn of_openai(&self) -> Vec<Said> {
        let messages = list(&self.body["messages"]).iter();
        let said = messages.filter(|message| message["role"] != "system").map(|message| {
            let calls = list(&message["tool_calls"]).iter().map(|call| {
                let function = &call["function"];
                call_of(&function["name"], &function["arguments"])
            });
            Said {
                role: text_of(&message["role"]),
                text: text_of(&message["content"]),
                calls: calls.collect(),
            }
        });
        said.collect()
    }

    fn of_responses(&self) -> Vec<Said> {
        let mut said: Vec<Said> = Vec::new();
        for item in list(&self.body["input"]) {
            match item["type"].as_str() {
                Some("function_call") => {
                    let call = call_of(&item["name"], &item["arguments"]);
                    match said.last_mut() {
                        Some(last) if last.role == "assistant" => last.calls.push(call),
                        _ => said.push(Said { calls: vec![call], ..Said::new("assistant", "") }),
                    }
                }
                Some("function_call_output") => {
                    said.push(Said::new("tool", &text_of(&item["output"])));
                }
                Some("reasoning") => {}
                _ => said.push(Said::new(&text_of(&item["role"]), &text_of(&item["content"]))),
            }
        }
        said
    }

    fn of_anthropic(&self) -> Vec<Said> {
        let mut said = Vec::new();
        for message in list(&self.body["messages"]) {
            let blocks = list(&message["content"]);
            let of_type = |kind: &'static str| blocks.iter().filter(move |b| b["type"] == kind);
            let results = of_type("tool_result");
            said.extend(results.map(|block| Said::new("tool", &text_of(&block["content"]))));
            if of_type("tool_result").next().is_none() {
                let text: String = match message["content"].as_str() {
                    Some(text) => text.to_owned(),
                    None => of_type("text").map(|block| text_of(&block["text"])).collect(),
                };
                let calls = of_type("tool_use").map(|it| call_of(&it["name"], &it["input"]));
                let role = text_of(&message["role"]);
                said.push(Said { role, text, calls: calls.collect() });
            }
        }
        said
    }

    fn of_gemini(&self) -> Vec<Said> {
        let mut said = Vec::new();
        for content in list(&self.body["contents"]) {
            let parts = list(&content["parts"]);
            let mut message =
                Said::new(if content["role"] == "model" { "assistant" } else { "user" }, "");
            let mut answers = Vec::new();
            for part in parts {
                if let Some(call) = part.get("functionCall") {
                    message.calls.push(call_of(&call["name"], &call["args"]));
                } else if let Some(answer) = part.get("functionResponse") {
                    answers.push(Said::new("tool", &text_of(&answer["response"]["content"])));
                } else {
                    message.text.push_str(&text_of(&part["text"]));
                }
            }
            if answers.is_empty() {
                said.push(message);
            }
            said.extend(answers);
        }
        said
    }
}

fn list(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

/// Returns a text, or the joined texts of parts.
fn text_of(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Array(parts) => parts.iter().map(|part| text_of(&part["text"])).collect(),
        _ => String::new(),
    }
}

fn call_of(name: &Value, arguments: &Value) -> String {
    let arguments = arguments.as_str().map_or_else(|| arguments.to_string(), str::to_owned);
    format!("{} {arguments}", text_of(name))
}
