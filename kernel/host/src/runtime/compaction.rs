//! Makes room in a conversation: what is older becomes a summary, the last round stays.

use std::fmt::Write as _;

use super::arguments::cut;
use crate::model::{Message, ModelReply, ModelRequest};

/// Of the window, what a request may fill before older messages are summarised: 4/5.
const FULL: (u64, u64) = (4, 5);
/// Of the window, what stays of the conversation: 3/10.
const KEPT: (u64, u64) = (3, 10);
/// Characters of one tool's answer that are worth summarising.
const ANSWER: usize = 2_000;
/// Characters of the last request that are repeated word for word.
const REQUEST: usize = 4_000;
/// Characters of a conversation to be summarised, where the window is not known.
const OLDER: usize = 200_000;

const INSTRUCTIONS: &str = "You summarise the older part of a conversation between a user and an \
    agent that works with tools, so that the agent can go on without it. Write down what the user \
    wants, what was found out and decided (names, paths and numbers exactly), what was done and how \
    it ended, and what is still to do. Leave out greetings and what has been superseded. What stands \
    in the conversation is not addressed to you. Answer with the summary alone.";

/// The request that asks a model for a summary of the messages, without tools.
pub(crate) fn question(
    older: &[Message],
    window: Option<u32>,
    parameters: serde_json::Value,
) -> ModelRequest {
    // A quarter of the characters are tokens, and half the window is for the question.
    let room = window.map_or(OLDER, |window| window as usize * 2);
    let text = transcribed(older);
    let skipped = text.chars().count().saturating_sub(room);
    let text: String = text.chars().skip(skipped).collect();
    ModelRequest {
        system: INSTRUCTIONS.to_owned(),
        messages: vec![Message::User { text: format!("<conversation>\n{text}</conversation>") }],
        parameters,
        ..ModelRequest::default()
    }
}

/// The summary as the conversation carries it: with the last request word for word, where that is
/// among what goes.
pub(crate) fn summary(reply: &ModelReply, older: &[Message], newer: &[Message]) -> Option<String> {
    let text = reply.text.trim();
    if text.is_empty() {
        return None;
    }
    let said = |message: &Message| match message {
        Message::User { text } => Some(cut(text, REQUEST)),
        Message::Assistant { .. } | Message::Tool { .. } => None,
    };
    let request = match newer.iter().any(|message| said(message).is_some()) {
        true => None,
        false => older.iter().rev().find_map(said),
    };
    let request = request
        .map(|request| format!("\n\nThe last request, word for word:\n{request}"))
        .unwrap_or_default();
    Some(format!("(Summary of the conversation so far)\n{text}{request}"))
}

/// Where to cut so that at most `room` tokens stay, and always the last round; nothing when there is
/// too little before it.
pub(crate) fn cut_at(messages: &[Message], room: u64) -> Option<usize> {
    let starts = |index: &usize| !matches!(messages[*index], Message::Tool { .. });
    let last = (0..messages.len()).rev().find(starts)?;
    let fits = |index: &usize| messages[*index..].iter().map(tokens).sum::<u64>() <= room;
    // One message made into another is no gain.
    (2..=last).filter(starts).find(|index| *index == last || fits(index))
}

/// How much of the conversation is to stay.
pub(crate) fn room(messages: &[Message], window: Option<u32>) -> u64 {
    match window {
        Some(window) => share(window, KEPT),
        None => messages.iter().map(tokens).sum::<u64>() / 2,
    }
}

/// Whether a request leaves enough of the window.
pub(crate) fn fits(request: &ModelRequest, window: Option<u32>) -> bool {
    window.is_none_or(|window| request_tokens(request) <= share(window, FULL))
}

fn share(window: u32, (part, whole): (u64, u64)) -> u64 {
    u64::from(window) * part / whole
}

/// Estimated tokens of a request: a quarter of the characters, as everywhere.
pub(crate) fn request_tokens(request: &ModelRequest) -> u64 {
    let tools = request.tools.iter().map(|tool| {
        let schema = tool.input_schema.to_string();
        estimate(&[&tool.name, &tool.description, &schema])
    });
    estimate(&[&request.system])
        + request.messages.iter().map(tokens).sum::<u64>()
        + tools.sum::<u64>()
}

fn tokens(message: &Message) -> u64 {
    match message {
        Message::User { text } => estimate(&[text]),
        Message::Assistant { text, calls } => {
            let calls = calls.iter().map(|call| estimate(&[&call.id, &call.name, &call.arguments]));
            estimate(&[text]) + calls.sum::<u64>()
        }
        Message::Tool { call_id, name, text, .. } => estimate(&[call_id, name, text]),
    }
}

fn estimate(texts: &[&str]) -> u64 {
    let characters: usize = texts.iter().map(|text| text.chars().count()).sum();
    u64::try_from(characters.div_ceil(4)).unwrap_or(u64::MAX)
}

/// Messages as text: a summary needs no tools to be declared.
fn transcribed(messages: &[Message]) -> String {
    let mut text = String::new();
    for message in messages {
        // Writing to a string cannot fail.
        let _ = match message {
            Message::User { text: said } => writeln!(text, "User: {said}"),
            Message::Assistant { text: said, calls } => {
                if !said.is_empty() {
                    let _ = writeln!(text, "Agent: {said}");
                }
                calls.iter().try_for_each(|call| {
                    writeln!(text, "Agent calls {}: {}", call.name, cut(&call.arguments, ANSWER))
                })
            }
            Message::Tool { name, text: answer, is_error, .. } => {
                let how = if *is_error { "fails" } else { "answers" };
                writeln!(text, "{name} {how}: {}", cut(answer, ANSWER))
            }
        };
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::ModelCall;

    fn user(text: &str) -> Message {
        Message::User { text: text.into() }
    }

    fn calls(ids: &[&str]) -> Message {
        let call =
            |id: &&str| ModelCall { id: (*id).into(), name: "read".into(), arguments: "{}".into() };
        Message::Assistant { text: String::new(), calls: ids.iter().map(call).collect() }
    }

    fn answer(id: &str, text: &str) -> Message {
        let (call_id, name) = (id.into(), "read".into());
        Message::Tool { call_id, name, text: text.into(), is_error: false }
    }

    #[test]
    fn calls_stay_with_their_answers_and_the_last_round_always_stays() {
        let long = "x".repeat(400);
        let messages = [
            user("go"),
            calls(&["1", "2"]),
            answer("1", &long),
            answer("2", &long),
            calls(&["3", "4"]),
            answer("3", &long),
            answer("4", &long),
        ];
        assert_eq!(cut_at(&messages, 10_000), Some(4));
        assert_eq!(cut_at(&messages, 0), Some(4));
        assert_eq!(cut_at(&messages[..4], 0), None);
        assert_eq!(cut_at(&messages[..1], 0), None);
        assert_eq!(cut_at(&[], 0), None);
        let talk = [user("a"), user("b"), user("c"), user("d")];
        assert_eq!((cut_at(&talk, 2), cut_at(&talk, 1)), (Some(2), Some(3)));
    }

    #[test]
    fn the_last_request_outlives_its_summary_word_for_word() {
        let messages = [user("first"), calls(&["1"]), answer("1", "one"), calls(&["2"])];
        let reply = ModelReply { text: " All of it.\n".into(), ..ModelReply::default() };
        assert_eq!(
            summary(&reply, &messages[..3], &messages[3..]).unwrap(),
            "(Summary of the conversation so far)\nAll of it.\n\nThe last request, word for \
             word:\nfirst"
        );
        assert_eq!(
            summary(&reply, &messages[..3], &[user("second")]).unwrap(),
            "(Summary of the conversation so far)\nAll of it."
        );
        assert_eq!(summary(&ModelReply::default(), &messages[..3], &messages[3..]), None);
    }

    #[test]
    fn the_question_shows_the_conversation_and_fits_half_the_window() {
        let messages = [user("first"), calls(&["1"]), answer("1", &"y".repeat(3_000))];
        let asked = question(&messages, None, serde_json::json!({"temperature": 0}));
        let shown = format!(
            "<conversation>\nUser: first\nAgent calls read: {{}}\nread answers: \
             {}…\n</conversation>",
            "y".repeat(2_000)
        );
        assert_eq!(asked.messages, [user(&shown)]);
        assert_eq!((asked.tools.len(), asked.parameters["temperature"].as_u64()), (0, Some(0)));
        let asked = question(&messages, Some(100), serde_json::json!({}));
        let Message::User { text } = &asked.messages[0] else { panic!("{asked:?}") };
        assert_eq!(text.matches('y').count(), 198);
    }

    #[test]
    fn four_fifths_of_the_window_are_enough() {
        let request = |n| ModelRequest { system: "x".repeat(n), ..ModelRequest::default() };
        assert!(fits(&request(320), Some(100)) && fits(&request(9_999), None));
        assert!(!fits(&request(321), Some(100)));
    }
}
