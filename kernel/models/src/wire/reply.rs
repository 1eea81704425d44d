//! Conversion of genai's responses to the kernel's replies.

use genai::chat::{ChatResponse, ContentPart, StopReason as Stop, StreamEnd, Usage as Tokens};
use serde_json::Value;
use skillhost_conversation::{ModelReply, ModelRequest, ModelToolCall, StopReason, TokenUsage};

use super::names::{CallIdAllocator, ToolNameMap};
use super::reasoning_cache::ReasoningCache;

/// A provider's reply, streamed or not.
#[derive(Default)]
pub(crate) struct ProviderReply {
    pub(crate) text: String,
    /// `true` if the model has sent reasoning.
    pub(crate) has_reasoning: bool,
    pub(crate) parts: Vec<ContentPart>,
    pub(crate) reasoning: Option<String>,
    pub(crate) tokens: Option<Tokens>,
    pub(crate) stop: Option<Stop>,
}

impl ProviderReply {
    /// Adds the end of a stream.
    pub(crate) fn with_stream_end(self, end: StreamEnd) -> Self {
        Self {
            parts: end.captured_content.map(|it| it.into_parts()).unwrap_or_default(),
            reasoning: end.captured_reasoning_content,
            tokens: end.captured_usage,
            stop: end.captured_stop_reason,
            ..self
        }
    }

    /// Creates a reply from a response without streaming.
    pub(crate) fn from_response(response: ChatResponse) -> Self {
        let text = response.content.joined_texts().unwrap_or_default();
        Self {
            text,
            has_reasoning: response.reasoning_content.is_some(),
            parts: response.content.into_parts(),
            reasoning: response.reasoning_content,
            tokens: Some(response.usage),
            stop: response.stop_reason,
        }
    }

    /// Converts to the kernel's reply and stores the reasoning before calls for the next request.
    pub(crate) fn into_reply(
        self,
        request: &ModelRequest,
        names: &ToolNameMap,
        reasoning: &ReasoningCache,
    ) -> ModelReply {
        let mut ids = CallIdAllocator::from_messages(&request.messages);
        let (mut before, mut calls) = (Vec::new(), Vec::new());
        let mut signatures = Vec::new();
        for part in self.parts {
            match part {
                ContentPart::ToolCall(call) => {
                    let id = ids.allocate(&call.call_id);
                    signatures.push(call.thought_signatures);
                    calls.push(ModelToolCall {
                        id,
                        name: names.to_kernel(&call.fn_name),
                        arguments: raw_arguments(call.fn_arguments),
                    });
                }
                ContentPart::ThoughtSignature(_)
                | ContentPart::ReasoningContent(_)
                | ContentPart::Custom(_) => before.push(part),
                _ => {}
            }
        }
        // Protocols without signed parts return the reasoning as text.
        if before.is_empty() {
            before.extend(self.reasoning.map(ContentPart::ReasoningContent));
        }
        for (call, signatures) in calls.iter().zip(signatures) {
            // The reasoning precedes the first call; the others have only their signatures.
            reasoning.insert(&call.id, std::mem::take(&mut before), signatures);
        }
        let details = self.tokens.as_ref().and_then(|it| it.completion_tokens_details.as_ref());
        // Some providers count reasoning without sending it.
        let counted = details.and_then(|it| it.reasoning_tokens).is_some_and(|it| it > 0);
        let has_output = !self.text.trim().is_empty() || !calls.is_empty();
        let usage = token_usage(self.tokens.as_ref(), request, &self.text, &calls);
        ModelReply {
            text: self.text,
            calls,
            usage,
            stop: match self.stop {
                Some(Stop::MaxTokens(_)) => StopReason::Length,
                Some(Stop::ContentFilter(_)) => StopReason::Filtered,
                _ => StopReason::End,
            },
            only_reasoning: !has_output && (self.has_reasoning || counted),
        }
    }
}

/// Returns the arguments of a call as the model wrote them.
fn raw_arguments(arguments: Value) -> String {
    match arguments {
        Value::String(text) if text.trim().is_empty() => "{}".to_owned(),
        Value::String(text) => text,
        Value::Null => "{}".to_owned(),
        other => other.to_string(),
    }
}

fn token_usage(
    tokens: Option<&Tokens>,
    request: &ModelRequest,
    text: &str,
    calls: &[ModelToolCall],
) -> TokenUsage {
    let count = |number: Option<i32>| number.and_then(|number| u64::try_from(number).ok());
    // Some servers send zeros. A request is never empty and output is never free, so a zero there
    // means that it was not counted.
    let is_silent = text.is_empty() && calls.is_empty();
    let input = count(tokens.and_then(|it| it.prompt_tokens)).filter(|number| *number > 0);
    let output = count(tokens.and_then(|it| it.completion_tokens))
        .filter(|number| *number > 0 || (is_silent && input.is_some()));
    let cached = tokens.and_then(|it| it.prompt_tokens_details.as_ref()?.cached_tokens);
    let estimate = estimate_usage(request, text, calls);
    TokenUsage {
        input: input.unwrap_or(estimate.input),
        output: output.unwrap_or(estimate.output),
        cached: count(cached).unwrap_or_default(),
        estimated: input.is_none() || output.is_none(),
    }
}

/// Estimates the usage as a quarter of the characters, sent and received.
pub(crate) fn estimate_usage(
    request: &ModelRequest,
    text: &str,
    calls: &[ModelToolCall],
) -> TokenUsage {
    use skillhost_conversation::Message;
    let of_calls = |calls: &[ModelToolCall]| -> usize {
        calls.iter().map(|call| count_chars(&call.name) + count_chars(&call.arguments)).sum()
    };
    let messages: usize = request
        .messages
        .iter()
        .map(|message| match message {
            Message::User { text } | Message::Tool { text, .. } => count_chars(text),
            Message::Assistant { text, calls } => count_chars(text) + of_calls(calls),
        })
        .sum();
    let tools: usize = request
        .tools
        .iter()
        .map(|tool| {
            count_chars(&tool.name)
                + count_chars(&tool.description)
                + count_chars(&tool.input_schema.to_string())
        })
        .sum();
    let quarter = |chars: usize| (chars as u64).div_ceil(4);
    TokenUsage {
        input: quarter(count_chars(&request.system) + messages + tools),
        output: quarter(count_chars(text) + of_calls(calls)),
        cached: 0,
        estimated: true,
    }
}

fn count_chars(text: &str) -> usize {
    text.chars().count()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn arguments_stay_verbatim() {
        assert_eq!(raw_arguments(json!({"a": 1})), "{\"a\":1}");
        assert_eq!(raw_arguments(json!("{\"a\": ")), "{\"a\": ");
        assert_eq!(raw_arguments(json!("")), "{}");
        assert_eq!(raw_arguments(Value::Null), "{}");
    }

    #[test]
    fn uncounted_usage_is_estimated() {
        let request = ModelRequest { system: "x".repeat(8), ..ModelRequest::default() };
        let expected = TokenUsage { input: 2, output: 1, cached: 0, estimated: true };
        assert_eq!(token_usage(None, &request, "abc", &[]), expected);
        let zeros =
            Tokens { prompt_tokens: Some(0), completion_tokens: Some(0), ..Tokens::default() };
        assert_eq!(token_usage(Some(&zeros), &request, "abc", &[]), expected);
        assert_eq!(
            token_usage(Some(&zeros), &request, "", &[]),
            TokenUsage { output: 0, ..expected }
        );
        let silent = Tokens { prompt_tokens: Some(3), ..zeros };
        let counted = TokenUsage { input: 3, output: 0, cached: 0, estimated: false };
        assert_eq!(token_usage(Some(&silent), &request, "", &[]), counted);
        let tokens = Tokens { completion_tokens: Some(7), ..Tokens::default() };
        let expected = TokenUsage { output: 7, ..expected };
        assert_eq!(token_usage(Some(&tokens), &request, "abc", &[]), expected);
    }
}
