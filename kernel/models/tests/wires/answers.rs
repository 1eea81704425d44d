//! Tests of replies with every protocol, streamed and not.

use mock_model::{MockModel, Step, Wire};
use skillhost_conversation::{ModelReply, StopReason, TokenUsage};

use super::{call, hello, model, send, text};

const USAGE: TokenUsage = TokenUsage { input: 10, output: 5, cached: 0, estimated: false };

/// The settings for streamed and for complete replies.
const MODES: [&str; 2] = ["", "stream: false"];

fn reply(text: &str) -> ModelReply {
    ModelReply { text: text.to_owned(), usage: USAGE, ..ModelReply::default() }
}

#[tokio::test]
async fn reply_has_text_and_usage() {
    for wire in Wire::ALL {
        for mode in MODES {
            let mock = MockModel::with([Step::text("Größe: two words").usage(100, 20, 40)]);
            let (model, waited) = model(&mock, wire, mode);
            let (answer, chunks) = send(&*model, &hello()).await;
            let usage = TokenUsage { input: 100, output: 20, cached: 40, estimated: false };
            let expected = ModelReply { usage, ..reply("Größe: two words") };
            assert_eq!(answer, Ok(expected), "{wire:?} {mode}");
            assert_eq!(chunks, [text("Größe: two words")], "{wire:?} {mode}");
            assert_eq!(mock.requests()[0].stream, mode.is_empty(), "{wire:?} {mode}");
            assert!(waited.taken().is_empty());
        }
    }
}

#[tokio::test]
async fn zero_usage_is_estimated() {
    for wire in Wire::ALL {
        for mode in MODES {
            let mock = MockModel::with([Step::text("Four words are here").usage(0, 0, 0)]);
            let (model, _) = model(&mock, wire, mode);
            let usage = send(&*model, &hello()).await.0.unwrap().usage;
            assert!(usage.estimated && usage.input > 0, "{wire:?} {mode}: {usage:?}");
            assert_eq!(usage.output, 5, "{wire:?} {mode}");
        }
    }
}

#[tokio::test]
async fn calls_have_kernel_names() {
    for wire in Wire::ALL {
        for mode in MODES {
            let step = Step::text("I look.")
                .call("files_read", "{\"a\":1}")
                .id("c1")
                .call("look", "{}")
                .id("c1")
                .call("no_such_tool", "{\"b\":[2]}")
                .id("c3");
            let mock = MockModel::with([step]);
            let (model, _) = model(&mock, wire, mode);
            let (answer, _) = send(&*model, &hello()).await;
            let answer = answer.unwrap();
            let written: Vec<_> =
                answer.calls.iter().map(|call| (&*call.name, &*call.arguments)).collect();
            let expected =
                [("files.read", "{\"a\":1}"), ("look", "{}"), ("no_such_tool", "{\"b\":[2]}")];
            assert_eq!(written, expected, "{wire:?} {mode}");
            let ids: Vec<_> = answer.calls.iter().map(|call| &*call.id).collect();
            match wire {
                Wire::Gemini => assert_eq!(ids, ["made_0_0", "made_0_1", "made_0_2"]),
                // Ollama assigns no ids, and genai generates random ones.
                Wire::Ollama => {
                    assert!(ids[0] != ids[1] && ids[1] != ids[2] && ids[0] != ids[2], "{ids:?}");
                }
                _ => assert_eq!(ids, ["c1", "made_0_0", "c3"], "{wire:?} {mode}"),
            }
            assert_eq!((&*answer.text, answer.stop), ("I look.", StopReason::End));
        }
    }
}

#[tokio::test]
async fn invalid_arguments_stay_verbatim() {
    for wire in Wire::ALL {
        let mock = MockModel::with([Step::calls("look", "{\"a\": 1,")]);
        let (model, _) = model(&mock, wire, "");
        let (answer, _) = send(&*model, &hello()).await;
        assert_eq!(answer.unwrap().calls[0].arguments, "{\"a\": 1,", "{wire:?}");
    }
}

#[tokio::test]
async fn missing_arguments_become_empty_object() {
    for wire in [Wire::Openai, Wire::OpenaiResponses, Wire::Anthropic] {
        let mock = MockModel::with([Step::calls("look", "")]);
        let (model, _) = model(&mock, wire, "");
        let (answer, _) = send(&*model, &hello()).await;
        assert_eq!(answer.unwrap().calls, [call("call_1", "look", "{}")], "{wire:?}");
    }
}

#[tokio::test]
async fn empty_reply_is_not_an_error() {
    for wire in Wire::ALL {
        let mock = MockModel::with([Step::empty()]);
        let (model, _) = model(&mock, wire, "");
        let (answer, chunks) = send(&*model, &hello()).await;
        assert_eq!(answer, Ok(reply("")), "{wire:?}");
        assert_eq!(chunks, [], "{wire:?}");
    }
}

#[tokio::test]
async fn reasoning_is_not_reply_text() {
    for wire in Wire::ALL {
        let mock = MockModel::with([
            Step::only_reasoning("Let me think."),
            Step::text("Done.").reasoning("Let me think."),
        ]);
        let (model, _) = model(&mock, wire, "");
        let (answer, chunks) = send(&*model, &hello()).await;
        assert_eq!(answer, Ok(ModelReply { only_reasoning: true, ..reply("") }), "{wire:?}");
        assert_eq!(chunks, [], "{wire:?}");
        let (answer, _) = send(&*model, &hello()).await;
        assert_eq!(answer, Ok(reply("Done.")), "{wire:?}");
    }
}

#[tokio::test]
async fn truncated_reply_reports_length() {
    for wire in Wire::ALL {
        let mock = MockModel::with([Step::text("And then").cut_short()]);
        let (model, _) = model(&mock, wire, "");
        let (answer, _) = send(&*model, &hello()).await;
        let expected = ModelReply { stop: StopReason::Length, ..reply("And then") };
        assert_eq!(answer, Ok(expected), "{wire:?}");
    }
}

#[tokio::test]
async fn missing_usage_is_estimated() {
    for wire in Wire::ALL {
        let mock = MockModel::with([Step::text("12345678").no_usage()]);
        let (model, _) = model(&mock, wire, "");
        let (answer, _) = send(&*model, &hello()).await;
        let usage = answer.unwrap().usage;
        // Instructions, message, names, descriptions and schemas: 8 + 5 + 14 + 26 + 2 × 54.
        let expected = TokenUsage { input: 41, output: 2, cached: 0, estimated: true };
        assert_eq!(usage, expected, "{wire:?}");
    }
}
