//! Tests of errors with every protocol.

use mock_model::{MockModel, Step, Wire};
use skillhost_conversation::{ModelError, ModelErrorKind as Kind, ReplyChunk};

use super::{hello, model, restart, send, text};

fn error(kind: Kind, message: &str, hint: &str) -> ModelError {
    ModelError {
        kind,
        model: "mock/test-model".to_owned(),
        message: message.to_owned(),
        hint: hint.to_owned(),
    }
}

#[tokio::test]
async fn busy_provider_is_retried() {
    for wire in Wire::ALL {
        for mode in ["", "stream: false"] {
            let mock =
                MockModel::with([Step::busy(Some(7)), Step::busy(None), Step::text("Hello.")]);
            let (model, waited) = model(&mock, wire, mode);
            let (answer, pieces) = send(&*model, &hello()).await;
            assert_eq!(answer.unwrap().text, "Hello.", "{wire:?} {mode}");
            let busy = restart("status 429: too many requests", false);
            let again = ReplyChunk::RequestRepeated;
            let expected = [busy.clone(), again.clone(), busy, again, text("Hello.")];
            assert_eq!(pieces, expected, "{wire:?} {mode}");
            assert_eq!(waited.taken(), [7000, 1000], "{wire:?} {mode}");
        }
    }
}

#[tokio::test]
async fn retries_are_limited() {
    for wire in Wire::ALL {
        let mock = MockModel::with((0..9).map(|_| Step::status(503, "out\nof order")));
        let (model, waited) = model(&mock, wire, "");
        let (answer, _) = send(&*model, &hello()).await;
        let message = "status 503: out of order (tried 3 times)";
        let hint = "retry later, or use another model";
        assert_eq!(answer, Err(error(Kind::Busy, message, hint)), "{wire:?}");
        assert_eq!((waited.taken(), mock.requests().len()), (vec![500, 1000], 3), "{wire:?}");
    }
}

#[tokio::test]
async fn excessive_delay_is_not_awaited() {
    let mock = MockModel::with([Step::busy(Some(3600))]);
    let (model, waited) = model(&mock, Wire::Openai, "");
    let (answer, _) = send(&*model, &hello()).await;
    assert_eq!(answer.unwrap_err().kind, Kind::Busy);
    assert_eq!((waited.taken(), mock.requests().len()), (vec![], 1));
}

#[tokio::test]
async fn interrupted_reply_is_retried() {
    for wire in Wire::ALL {
        for (cut, quiet) in
            [(Step::text("Half of it").broken(), false), (Step::text("Half of it").stops(), true)]
        {
            let mock = MockModel::with([cut, Step::text("All of it")]);
            let (model, waited) = model(&mock, wire, "");
            let (answer, mut pieces) = send(&*model, &hello()).await;
            assert_eq!(answer.unwrap().text, "All of it", "{wire:?}");
            assert_eq!(pieces.pop(), Some(text("All of it")), "{wire:?}");
            assert_eq!(pieces.pop(), Some(ReplyChunk::RequestRepeated), "{wire:?}");
            let last = pieces.pop();
            if quiet {
                assert_eq!(last, Some(restart("reply was interrupted", true)), "{wire:?}");
            }
            assert!(
                matches!(&last, Some(ReplyChunk::ReplyRestarted { reason, may_be_charged: true }) if reason.contains("interrupted")),
                "{wire:?}: {last:?}"
            );
            assert_eq!(waited.taken(), [500], "{wire:?}");
        }
    }
}

#[tokio::test]
async fn damaged_chunk_is_retried() {
    for wire in Wire::ALL {
        let mock = MockModel::with([Step::text("Half of it").damaged(), Step::text("All of it")]);
        let (model, waited) = model(&mock, wire, "");
        let (answer, pieces) = send(&*model, &hello()).await;
        assert_eq!(answer.unwrap().text, "All of it", "{wire:?}");
        assert_eq!(pieces.last(), Some(&text("All of it")), "{wire:?}");
        assert_eq!(waited.taken(), [500], "{wire:?}");
    }
}

#[tokio::test]
async fn empty_stream_is_retried() {
    for wire in Wire::ALL {
        // Three protocols start with a chunk without text; all may end before the first chunk.
        let silent = usize::from(!matches!(wire, Wire::Gemini | Wire::Ollama));
        for pieces in 0..=silent {
            let cut = Step::text("Half of it").stops_after(pieces);
            let mock = MockModel::with([cut.clone(), Step::text("All of it"), cut.clone(), cut]);
            let (model, waited) = model(&mock, wire, "retries: 1");
            let (answer, received) = send(&*model, &hello()).await;
            assert_eq!(answer.unwrap().text, "All of it", "{wire:?} {pieces}");
            assert_eq!(
                received,
                [
                    restart("reply was interrupted", true),
                    ReplyChunk::RequestRepeated,
                    text("All of it")
                ],
                "{wire:?}"
            );
            assert_eq!(waited.taken(), [500], "{wire:?}");
            let (answer, _) = send(&*model, &hello()).await;
            let message = "reply was interrupted (tried 2 times)";
            assert_eq!(answer, Err(error(Kind::Network, message, "try again")), "{wire:?}");
        }
    }
}

#[tokio::test]
async fn error_within_reply_is_classified() {
    for wire in [Wire::Openai, Wire::OpenaiResponses, Wire::Anthropic, Wire::Gemini] {
        let mock = MockModel::with([
            Step::text("Half").with_stream_error("overloaded_error", "Overloaded"),
            Step::text("Half").with_stream_error("invalid_request_error", "not like this"),
        ]);
        let (model, waited) = model(&mock, wire, "");
        let (answer, _) = send(&*model, &hello()).await;
        let message = "not like this (tried 2 times)";
        assert_eq!(answer, Err(error(Kind::Refused, message, "change the request")), "{wire:?}");
        assert_eq!(waited.taken(), [500], "{wire:?}");
    }
}

#[tokio::test]
async fn rejected_key_is_never_quoted() {
    for wire in Wire::ALL {
        for mode in ["", "stream: false"] {
            let mock = MockModel::with([Step::key_refused()]);
            let (model, waited) = model(&mock, wire, mode);
            let (answer, _) = send(&*model, &hello()).await;
            let base = mock.base_url(wire);
            let message = format!("{}/ rejected the key (status 401)", base.trim_end_matches('/'));
            let expected = error(Kind::Key, &message, "check the value of MOCK_KEY");
            assert_eq!(answer, Err(expected), "{wire:?} {mode}");
            assert!(waited.taken().is_empty());
        }
    }
    // The key is replaced in every other message that quotes it.
    let mock = MockModel::with([Step::status(400, "you sent s3cret-key, really")]);
    let (model, _) = model(&mock, Wire::Openai, "");
    let (answer, _) = send(&*model, &hello()).await;
    assert_eq!(answer.unwrap_err().message, "status 400: you sent ***, really");
}

#[tokio::test]
async fn overflow_and_unknown_model_are_distinguished() {
    for wire in Wire::ALL {
        for mode in ["", "stream: false"] {
            let mock = MockModel::with([Step::unknown_model(), Step::overflow()]);
            let (model, waited) = model(&mock, wire, mode);
            let (answer, _) = send(&*model, &hello()).await;
            let answer = answer.unwrap_err();
            assert_eq!(answer.kind, Kind::Unknown, "{wire:?} {mode}");
            assert!(answer.message.ends_with("the model does not exist"), "{answer}");
            let (answer, _) = send(&*model, &hello()).await;
            let message = "request exceeds the model's context window: this model's maximum \
                           context length is 10 tokens";
            let hint = "shorten the thread, or use a model with a larger context window";
            assert_eq!(answer, Err(error(Kind::TooLong, message, hint)), "{wire:?} {mode}");
            assert!(waited.taken().is_empty());
        }
    }
}

#[tokio::test]
async fn web_page_is_protocol_error() {
    for wire in Wire::ALL {
        for mode in ["", "stream: false"] {
            let mock = MockModel::with([Step::page("<html>\n<p>hello</p>\n\n</html>")]);
            let (model, waited) = model(&mock, wire, mode);
            let (answer, _) = send(&*model, &hello()).await;
            let answer = answer.unwrap_err();
            assert_eq!(answer.kind, Kind::Protocol, "{wire:?} {mode}: {answer}");
            assert!(answer.hint.contains("`base_url`"), "{wire:?} {mode}: {}", answer.hint);
            assert!(waited.taken().is_empty(), "{wire:?} {mode}");
        }
    }
}

#[tokio::test]
async fn unreachable_server_is_retried() {
    for wire in Wire::ALL {
        let mock = MockModel::new();
        let (model, waited) = model(&mock, wire, "retries: 1");
        let base = mock.base_url(wire);
        drop(mock);
        let (answer, _) = send(&*model, &hello()).await;
        let answer = answer.unwrap_err();
        let begin = format!("{}/ is not reachable: ", base.trim_end_matches('/'));
        assert_eq!(answer.kind, Kind::Network, "{wire:?}");
        assert!(answer.message.starts_with(&begin), "{wire:?}: {}", answer.message);
        assert!(answer.message.ends_with(" (tried 2 times)"), "{wire:?}: {}", answer.message);
        let hint = format!("start a server of `{}` there, or correct `base_url`", wire.name());
        assert_eq!((answer.hint, waited.taken()), (hint, vec![500]), "{wire:?}");
    }
}

#[tokio::test]
async fn silent_and_slow_replies_time_out() {
    for wire in Wire::ALL {
        let mock = MockModel::with([Step::text("Hello.").held()]);
        let (quiet, waited) = model(&mock, wire, "silence_ms: 20");
        let (answer, _) = send(&*quiet, &hello()).await;
        let base = mock.base_url(wire);
        let message = format!("{}/ timed out after 20 ms without data", base.trim_end_matches('/'));
        let hint = "raise `silence_ms` of the provider if its model requires more time";
        assert_eq!(answer, Err(error(Kind::Timeout, &message, hint)), "{wire:?}");

        let mock = MockModel::with([Step::text("Hello.").held_midway()]);
        let (slow, _) = model(&mock, wire, "timeout_ms: 30");
        let (answer, _) = send(&*slow, &hello()).await;
        let message = "reply timed out after 30 ms";
        let hint = "raise `timeout_ms` of the provider, or shorten the request";
        assert_eq!(answer, Err(error(Kind::Timeout, message, hint)), "{wire:?}");
        assert!(waited.taken().is_empty());
    }
}

#[tokio::test]
async fn released_reply_arrives() {
    let mock = MockModel::with([Step::text("Hello.").held(), Step::text("Again.").held_midway()]);
    mock.release();
    mock.release();
    let (model, _) = model(&mock, Wire::Anthropic, "");
    assert_eq!(send(&*model, &hello()).await.0.unwrap().text, "Hello.");
    assert_eq!(send(&*model, &hello()).await.0.unwrap().text, "Again.");
}
