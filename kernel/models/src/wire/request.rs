//! Conversion of the kernel's requests to genai's.

use genai::chat::{
    CacheControl, ChatMessage, ChatOptions, ChatRequest, ContentPart, CustomPart, MessageContent,
    ReasoningEffort, Tool, ToolCall, ToolName, ToolResponse, Verbosity,
};
use serde_json::{Map, Value, json};
use skillhost_conversation::{Message, ModelRequest, ModelToolCall};
use skillhost_home::ProviderProtocol;

use super::names::{ToolNameMap, id_for_gemini, id_on_wire};
use super::reasoning_cache::ReasoningCache;

/// A request for genai with the tool names that its reply requires.
pub(crate) struct ProviderRequest {
    pub(crate) chat: ChatRequest,
    pub(crate) options: ChatOptions,
    pub(crate) names: ToolNameMap,
}

/// A translator of requests to genai.
pub(crate) struct RequestTranslator<'a> {
    pub(crate) wire: ProviderProtocol,
    /// The provider's name of the model.
    pub(crate) model: &'a str,
    pub(crate) reasoning: &'a ReasoningCache,
    pub(crate) max_output_tokens: Option<u32>,
}

impl RequestTranslator<'_> {
    pub(crate) fn translate(&self, request: &ModelRequest) -> ProviderRequest {
        let names = ToolNameMap::from_request(request);
        let mut chat = ChatRequest::new(Vec::new());
        if !request.system.is_empty() {
            chat = chat.with_system(request.system.clone());
        }
        if request.tools.is_empty() {
            chat.messages = flatten_tool_calls(&request.messages);
        } else {
            chat.messages = self.messages(&request.messages, &names);
            chat = chat.with_tools(request.tools.iter().map(|tool| {
                Tool::new(ToolName::Custom(names.to_wire(&tool.name)))
                    .with_description(tool.description.clone())
                    .with_schema(tool.input_schema.clone())
            }));
        }
        let options = self.options(request);
        ProviderRequest { chat, options, names }
    }

    fn messages(&self, messages: &[Message], names: &ToolNameMap) -> Vec<ChatMessage> {
        let mut chat = Vec::new();
        let mut results = MessageContent::default();
        for message in messages {
            // The results of one reply's calls belong in one message; Ollama requires one each.
            let more =
                matches!(message, Message::Tool { .. }) && self.wire != ProviderProtocol::Ollama;
            if !more && !results.is_empty() {
                chat.push(ChatMessage::tool(std::mem::take(&mut results)));
            }
            match message {
                Message::User { text } => chat.push(ChatMessage::user(text.clone())),
                Message::Assistant { text, calls } => {
                    let content = self.assistant_content(text, calls, names);
                    // Providers reject a message without content.
                    if !content.is_empty() {
                        chat.push(ChatMessage::assistant(content));
                    }
                }
                Message::Tool { call_id, name, text, is_error } => {
                    results.push(self.tool_result(call_id, &names.to_wire(name), text, *is_error));
                }
            }
        }
        if !results.is_empty() {
            chat.push(ChatMessage::tool(results));
        }
        chat
    }

    fn assistant_content(
        &self,
        text: &str,
        calls: &[ModelToolCall],
        names: &ToolNameMap,
    ) -> MessageContent {
        // Providers verify the order: reasoning first, then text, then calls.
        let reasoning = calls.first().and_then(|call| self.reasoning.parts_before(&call.id));
        let mut content = MessageContent::from_parts(reasoning.unwrap_or_default());
        if !text.is_empty() {
            content.push(text);
        }
        for call in calls {
            let fn_name = names.to_wire(&call.name);
            content.push(ToolCall {
                call_id: self.id(&call.id, &fn_name),
                fn_name,
                fn_arguments: parse_arguments(&call.arguments),
                thought_signatures: self.reasoning.signatures(&call.id),
            });
        }
        content
    }

    fn tool_result(&self, call_id: &str, tool: &str, text: &str, is_error: bool) -> ContentPart {
        let id = self.id(call_id, tool);
        if self.wire == ProviderProtocol::Anthropic && is_error {
            // genai has no field for a failed call, while this protocol has.
            let data = json!({
                "type": "tool_result", "tool_use_id": id, "content": text, "is_error": true,
            });
            return ContentPart::Custom(CustomPart { model_iden: None, data });
        }
        ToolResponse::new(id, text).with_fn_name(tool).into()
    }

    fn id(&self, id: &str, tool: &str) -> String {
        match self.wire {
            ProviderProtocol::Gemini => id_for_gemini(id, tool),
            _ => id_on_wire(id),
        }
    }

    fn options(&self, request: &ModelRequest) -> ChatOptions {
        let mut options = ChatOptions::default()
            .with_capture_content(true)
            .with_capture_tool_calls(true)
            .with_capture_usage(true);
        let mut extra = self.parameters(&request.parameters, &mut options);
        if options.reasoning_effort.is_some() && self.is_reasoning_lost(&request.messages) {
            options.reasoning_effort = None;
        }
        // With these two, a request for reasoning is an error if the model has none.
        let is_optional =
            matches!(self.wire, ProviderProtocol::OpenaiResponses | ProviderProtocol::Gemini);
        options.capture_reasoning_content =
            Some(!is_optional || options.reasoning_effort.is_some());
        if options.max_tokens.is_none() {
            options.max_tokens = self.max_output_tokens;
        }
        if self.wire == ProviderProtocol::Anthropic {
            // Instructions and tools are the same in every turn, so caching them reduces the price.
            options.cache_control = Some(CacheControl::Ephemeral);
        }
        if let (Some(parallel), false) = (request.parallel_tool_calls, request.tools.is_empty()) {
            match self.wire {
                ProviderProtocol::Openai | ProviderProtocol::OpenaiResponses => {
                    extra.entry("parallel_tool_calls").or_insert(parallel.into());
                }
                ProviderProtocol::Anthropic if !parallel => {
                    let choice = json!({"type": "auto", "disable_parallel_tool_use": true});
                    extra.entry("tool_choice").or_insert(choice);
                }
                // The other protocols have no such option.
                _ => {}
            }
        }
        let openai =
            matches!(self.wire, ProviderProtocol::Openai | ProviderProtocol::OpenaiResponses);
        let (ends_in_effort, _) = ReasoningEffort::from_model_name(self.model);
        if openai && ends_in_effort.is_some() && options.reasoning_effort.is_none() {
            // genai would interpret the end of such a name (`mistral-medium`) as an effort. These
            // protocols have no token budget, so genai sends no effort for one.
            options.reasoning_effort = Some(ReasoningEffort::Budget(0));
        }
        if !extra.is_empty() {
            options.extra_body = Some(Value::Object(extra));
        }
        options
    }

    /// Sets the options that protocols name differently and returns the other parameters, which are
    /// sent unchanged.
    fn parameters(&self, parameters: &Value, options: &mut ChatOptions) -> Map<String, Value> {
        let mut extra = Map::new();
        for (key, value) in parameters.as_object().into_iter().flatten() {
            let tokens = || value.as_u64().and_then(|number| u32::try_from(number).ok());
            let handled = match key.as_str() {
                "temperature" => value.as_f64().map(|it| options.temperature = Some(it)),
                "top_p" => value.as_f64().map(|it| options.top_p = Some(it)),
                "seed" => value.as_u64().map(|it| options.seed = Some(it)),
                "max_tokens" | "max_output_tokens" | "max_completion_tokens" => {
                    tokens().map(|it| options.max_tokens = Some(it))
                }
                "stop" | "stop_sequences" => {
                    parse_sequences(value).map(|it| options.stop_sequences = it)
                }
                "reasoning_effort" => value
                    .as_str()
                    .and_then(ReasoningEffort::from_keyword)
                    .map(|it| options.reasoning_effort = Some(it)),
                "verbosity" => value
                    .as_str()
                    .and_then(Verbosity::from_keyword)
                    .map(|it| options.verbosity = Some(it)),
                _ => None,
            };
            // A value of the wrong type is sent, too: the provider's error names the parameter.
            if handled.is_none() {
                extra.insert(key.clone(), value.clone());
            }
        }
        extra
    }

    /// Returns `true` if the reasoning of the pending calls was lost with an earlier process.
    ///
    /// This protocol requires the signed reasoning of all calls, or a request without reasoning.
    fn is_reasoning_lost(&self, messages: &[Message]) -> bool {
        if self.wire != ProviderProtocol::Anthropic {
            return false;
        }
        let since_user = messages.iter().rev().take_while(|m| !matches!(m, Message::User { .. }));
        since_user
            .filter_map(|message| match message {
                Message::Assistant { calls, .. } => calls.first(),
                _ => None,
            })
            .any(|call| self.reasoning.parts_before(&call.id).is_none())
    }
}

fn parse_sequences(value: &Value) -> Option<Vec<String>> {
    match value {
        Value::String(text) => Some(vec![text.clone()]),
        Value::Array(items) => items.iter().map(|item| item.as_str().map(str::to_owned)).collect(),
        _ => None,
    }
}

/// Returns the arguments of an earlier call.
///
/// Protocols require an object, so other text is wrapped in one.
fn parse_arguments(written: &str) -> Value {
    match serde_json::from_str(written) {
        Ok(Value::Object(arguments)) => Value::Object(arguments),
        _ if written.trim().is_empty() => json!({}),
        _ => json!({ "not_json": written }),
    }
}

/// Converts the calls and results of a thread to text.
///
/// Some providers reject calls in a request without tools.
fn flatten_tool_calls(messages: &[Message]) -> Vec<ChatMessage> {
    let mut chat = Vec::new();
    for message in messages {
        match message {
            Message::User { text } => chat.push(ChatMessage::user(text.clone())),
            Message::Assistant { text, calls } => {
                let called =
                    calls.iter().map(|call| format!("[calls {} {}]", call.name, call.arguments));
                let lines: Vec<_> = Some(text.clone())
                    .filter(|text| !text.is_empty())
                    .into_iter()
                    .chain(called)
                    .collect();
                if !lines.is_empty() {
                    chat.push(ChatMessage::assistant(lines.join("\n")));
                }
            }
            Message::Tool { name, text, .. } => {
                chat.push(ChatMessage::user(format!("[{name} answers]\n{text}")));
            }
        }
    }
    chat
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options_of(wire: ProviderProtocol, model: &str, parameters: Value) -> ChatOptions {
        let reasoning = ReasoningCache::default();
        let translation =
            RequestTranslator { wire, model, reasoning: &reasoning, max_output_tokens: Some(9) };
        let tool = skillhost_conversation::ModelTool {
            name: "t".to_owned(),
            description: String::new(),
            input_schema: json!({}),
        };
        let request = ModelRequest {
            parameters,
            tools: vec![tool],
            parallel_tool_calls: Some(false),
            ..ModelRequest::default()
        };
        translation.translate(&request).options
    }

    #[test]
    fn parameters_follow_the_protocol() {
        let parameters = json!({
            "temperature": 0.5, "max_tokens": 7, "stop": "END", "reasoning_effort": "low",
            "min_p": 0.1, "top_p": "much",
        });
        let options = options_of(ProviderProtocol::Openai, "m", parameters);
        assert_eq!((options.temperature, options.max_tokens), (Some(0.5), Some(7)));
        assert_eq!(options.stop_sequences, ["END"]);
        assert_eq!(options.reasoning_effort.map(|it| it.to_string()).as_deref(), Some("low"));
        let extra = json!({"min_p": 0.1, "top_p": "much", "parallel_tool_calls": false});
        assert_eq!(options.extra_body, Some(extra));
        let options = options_of(ProviderProtocol::Anthropic, "m", json!({}));
        assert_eq!(options.max_tokens, Some(9));
        let choice = json!({"tool_choice": {"type": "auto", "disable_parallel_tool_use": true}});
        assert_eq!(options.extra_body, Some(choice));
    }

    #[test]
    fn model_name_sets_no_effort() {
        let effort = |wire, model| {
            options_of(wire, model, json!({})).reasoning_effort.map(|it| it.to_string())
        };
        assert_eq!(effort(ProviderProtocol::Openai, "mistral-medium").as_deref(), Some("0"));
        assert_eq!(effort(ProviderProtocol::Openai, "mistral-large"), None);
    }

    #[test]
    fn invalid_arguments_are_wrapped() {
        assert_eq!(parse_arguments("{\"a\":1}"), json!({"a": 1}));
        assert_eq!(parse_arguments(" "), json!({}));
        assert_eq!(parse_arguments("{\"a\":"), json!({"not_json": "{\"a\":"}));
        assert_eq!(parse_arguments("[1]"), json!({"not_json": "[1]"}));
    }
}
