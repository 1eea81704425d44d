//! What goes wrong, on every wire.

use mock_model::{MockModel, Step, Wire};
use skillhost_kernel::{ModelError, ModelErrorKind as Kind};

use super::{asked, hello, model, restart, text};

fn error(kind: Kind, message: &str, hint: &str) -> ModelError {
    ModelError {
        kind,
        model: "mock/test-model".to_owned(),
        message: message.to_owned(),
        hint: hint.to_owned(),
    }
}

#[tokio::test]
async fn a_busy_provider_is_asked_again_when_it_wants_to() {
    for wire in Wire::ALL {
        for way in ["", "stream: false"] {
            let mock =
                MockModel::with([Step::busy(Some(7)), Step::busy(None), Step::text("Hello.")]);
            let (model, waited) = model(&mock, wire, way);
            let (answer, pieces) = asked(&*model, &hello()).await;
            assert_eq!(answer.unwrap().text, "Hello.", "{wire:?} {way}");
            let busy = restart("status 429: too many requests");
            assert_eq!(pieces, [busy.clone(), busy, text("Hello.")], "{wire:?} {way}");
            assert_eq!(waited.taken(), [7000, 1000], "{wire:?} {way}");
        }
    }
}

#[tokio::test]
async fn retries_end() {
    for wire in Wire::ALL {
        let mock = MockModel::with((0..9).map(|_| Step::status(503, "out\nof order")));
        let (model, waited) = model(&mock, wire, "");
        let (answer, _) = asked(&*model, &hello()).await;
        let message = "status 503: out of order (tried 3 times)";
        let hint = "wait a while, or use another model";
        assert_eq!(answer, Err(error(Kind::Busy, message, hint)), "{wire:?}");
        assert_eq!((waited.taken(), mock.requests().len()), (vec![500, 1000], 3), "{wire:?}");
    }
}

#[tokio::test]
async fn a_provider_that_wants_too_much_patience_is_not_waited_for() {
    let mock = MockModel::with([Step::busy(Some(3600))]);
    let (model, waited) = model(&mock, Wire::Openai, "");
    let (answer, _) = asked(&*model, &hello()).await;
    assert_eq!(answer.unwrap_err().kind, Kind::Busy);
    assert_eq!((waited.taken(), mock.requests().len()), (vec![], 1));
}

#[tokio::test]
async fn half_an_answer_is_void_and_asked_for_again() {
    for wire in Wire::ALL {
        for (cut, quiet) in
            [(Step::text("Half of it").broken(), false), (Step::text("Half of it").stops(), true)]
        {
            let mock = MockModel::with([cut, Step::text("All of it")]);
            let (model, waited) = model(&mock, wire, "");
            let (answer, mut pieces) = asked(&*model, &hello()).await;
            assert_eq!(answer.unwrap().text, "All of it", "{wire:?}");
            assert_eq!(pieces.pop(), Some(text("All of it")), "{wire:?}");
            let last = pieces.pop();
            if quiet {
                assert_eq!(last, Some(restart("the answer was cut off")), "{wire:?}");
            }
            assert!(
                matches!(&last, Some(skillhost_kernel::ReplyChunk::ReplyRestarted { reason }) if reason.contains("cut off")),
                "{wire:?}: {last:?}"
            );
            assert_eq!(waited.taken(), [500], "{wire:?}");
        }
    }
}

#[tokio::test]
async fn damaged_chunks_are_asked_for_again() {
    for wire in Wire::ALL {
        let mock = MockModel::with([Step::text("Half of it").damaged(), Step::text("All of it")]);
        let (model, waited) = model(&mock, wire, "");
        let (answer, pieces) = asked(&*model, &hello()).await;
        assert_eq!(answer.unwrap().text, "All of it", "{wire:?}");
        assert_eq!(pieces.last(), Some(&text("All of it")), "{wire:?}");
        assert_eq!(waited.taken(), [500], "{wire:?}");
    }
}

#[tokio::test]
async fn streams_without_text_are_asked_for_again() {
    for wire in Wire::ALL {
        // Three wires begin with a chunk that says nothing; all may end before the first.
        let silent = usize::from(!matches!(wire, Wire::Gemini | Wire::Ollama));
        for pieces in 0..=silent {
            let cut = Step::text("Half of it").stops_after(pieces);
            let mock = MockModel::with([cut.clone(), Step::text("All of it"), cut.clone(), cut]);
            let (model, waited) = model(&mock, wire, "retries: 1");
            let (answer, told) = asked(&*model, &hello()).await;
            assert_eq!(answer.unwrap().text, "All of it", "{wire:?} {pieces}");
            assert_eq!(told, [restart("the answer was cut off"), text("All of it")], "{wire:?}");
            assert_eq!(waited.taken(), [500], "{wire:?}");
            let (answer, _) = asked(&*model, &hello()).await;
            let message = "the answer was cut off (tried 2 times)";
            assert_eq!(answer, Err(error(Kind::Network, message, "try again")), "{wire:?}");
        }
    }
}

#[tokio::test]
async fn an_error_within_an_answer_is_sorted_too() {
    for wire in [Wire::Openai, Wire::OpenaiResponses, Wire::Anthropic, Wire::Gemini] {
        let mock = MockModel::with([
            Step::text("Half").told("overloaded_error", "Overloaded"),
            Step::text("Half").told("invalid_request_error", "not like this"),
        ]);
        let (model, waited) = model(&mock, wire, "");
        let (answer, _) = asked(&*model, &hello()).await;
        let message = "not like this (tried 2 times)";
        assert_eq!(answer, Err(error(Kind::Refused, message, "change the request")), "{wire:?}");
        assert_eq!(waited.taken(), [500], "{wire:?}");
    }
}

#[tokio::test]
async fn a_refused_key_is_named_and_never_shown() {
    for wire in Wire::ALL {
        for way in ["", "stream: false"] {
            let mock = MockModel::with([Step::key_refused()]);
            let (model, waited) = model(&mock, wire, way);
            let (answer, _) = asked(&*model, &hello()).await;
            let base = mock.base_url(wire);
            let message = format!("{}/ refuses the key (status 401)", base.trim_end_matches('/'));
            let expected = error(Kind::Key, &message, "check the value of MOCK_KEY");
            assert_eq!(answer, Err(expected), "{wire:?} {way}");
            assert!(waited.taken().is_empty());
        }
    }
    // Wherever else a provider repeats it, it is taken out.
    let mock = MockModel::with([Step::status(400, "you sent s3cret-key, really")]);
    let (model, _) = model(&mock, Wire::Openai, "");
    let (answer, _) = asked(&*model, &hello()).await;
    assert_eq!(answer.unwrap_err().message, "status 400: you sent ***, really");
}

#[tokio::test]
async fn an_unknown_model_and_an_overflow_have_kinds_of_their_own() {
    for wire in Wire::ALL {
        for way in ["", "stream: false"] {
            let mock = MockModel::with([Step::unknown_model(), Step::overflow()]);
            let (model, waited) = model(&mock, wire, way);
            let (answer, _) = asked(&*model, &hello()).await;
            let answer = answer.unwrap_err();
            assert_eq!(answer.kind, Kind::Unknown, "{wire:?} {way}");
            assert!(answer.message.ends_with("the model does not exist"), "{answer}");
            let (answer, _) = asked(&*model, &hello()).await;
            let message = "the request does not fit into the model's window: this model's maximum \
                           context length is 10 tokens";
            let hint = "shorten the conversation, or use a model with a larger window";
            assert_eq!(answer, Err(error(Kind::TooLong, message, hint)), "{wire:?} {way}");
            assert!(waited.taken().is_empty());
        }
    }
}

#[tokio::test]
async fn a_server_that_is_no_model_is_told_apart() {
    for wire in Wire::ALL {
        for way in ["", "stream: false"] {
            let mock = MockModel::with([Step::page("<html>\n<p>hello</p>\n\n</html>")]);
            let (model, waited) = model(&mock, wire, way);
            let (answer, _) = asked(&*model, &hello()).await;
            let answer = answer.unwrap_err();
            assert_eq!(answer.kind, Kind::Protocol, "{wire:?} {way}: {answer}");
            assert!(answer.hint.contains("`base_url`"), "{wire:?} {way}: {}", answer.hint);
            assert!(waited.taken().is_empty(), "{wire:?} {way}");
        }
    }
}

#[tokio::test]
async fn nobody_there() {
    for wire in Wire::ALL {
        let mock = MockModel::new();
        let (model, waited) = model(&mock, wire, "retries: 1");
        let base = mock.base_url(wire);
        drop(mock);
        let (answer, _) = asked(&*model, &hello()).await;
        let answer = answer.unwrap_err();
        let begin = format!("{}/ was not reached: ", base.trim_end_matches('/'));
        assert_eq!(answer.kind, Kind::Network, "{wire:?}");
        assert!(answer.message.starts_with(&begin), "{wire:?}: {}", answer.message);
        assert!(answer.message.ends_with(" (tried 2 times)"), "{wire:?}: {}", answer.message);
        let hint = format!("is a server of `{}` running there? see `base_url`", wire.name());
        assert_eq!((answer.hint, waited.taken()), (hint, vec![500]), "{wire:?}");
    }
}

#[tokio::test]
async fn silence_and_slowness_have_limits() {
    for wire in Wire::ALL {
        let mock = MockModel::with([Step::text("Hello.").held()]);
        let (quiet, waited) = model(&mock, wire, "silence_ms: 20");
        let (answer, _) = asked(&*quiet, &hello()).await;
        let base = mock.base_url(wire);
        let message = format!("{}/ was silent for 20 ms", base.trim_end_matches('/'));
        let hint = "raise `silence_ms` of the provider if its model thinks for longer";
        assert_eq!(answer, Err(error(Kind::Timeout, &message, hint)), "{wire:?}");

        let mock = MockModel::with([Step::text("Hello.").held_midway()]);
        let (slow, _) = model(&mock, wire, "timeout_ms: 30");
        let (answer, _) = asked(&*slow, &hello()).await;
        let message = "no whole answer within 30 ms";
        let hint = "raise `timeout_ms` of the provider, or ask for less";
        assert_eq!(answer, Err(error(Kind::Timeout, message, hint)), "{wire:?}");
        assert!(waited.taken().is_empty());
    }
}

#[tokio::test]
async fn what_is_held_comes_when_it_is_released() {
    let mock = MockModel::with([Step::text("Hello.").held(), Step::text("Again.").held_midway()]);
    mock.release();
    mock.release();
    let (model, _) = model(&mock, Wire::Anthropic, "");
    assert_eq!(asked(&*model, &hello()).await.0.unwrap().text, "Hello.");
    assert_eq!(asked(&*model, &hello()).await.0.unwrap().text, "Again.");
}
