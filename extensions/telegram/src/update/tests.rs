//! Tests of the updates that people and attackers send.

use serde_json::{Value, json};

use super::*;

fn bot() -> BotIdentity {
    BotIdentity { id: 123_456, username: "helper_bot".to_owned() }
}

fn parse_text(text: &str) -> Result<ParsedUpdate, String> {
    parse_update(&RawValue::from_string(text.to_owned()).unwrap(), &bot())
}

fn parse(update: &Value) -> ParsedUpdate {
    parse_text(&update.to_string()).unwrap()
}

/// Returns a message in a direct chat, with more fields.
fn direct(fields: &Value) -> Value {
    with_fields(
        json!({
            "message_id": 7,
            "date": 1_700_000_000,
            "chat": {"id": 1001, "type": "private"},
            "from": {"id": 1001, "is_bot": false, "first_name": "Ada", "last_name": "L",
                     "username": "ada"},
        }),
        fields,
    )
}

/// Returns a message in a topic of a group, with more fields.
fn group(fields: &Value) -> Value {
    with_fields(
        json!({
            "message_id": 8,
            "date": 1_700_000_000,
            "chat": {"id": -100_200, "type": "supergroup", "title": "Team"},
            "from": {"id": 1002, "is_bot": false, "first_name": "Grace"},
        }),
        fields,
    )
}

fn with_fields(mut base: Value, fields: &Value) -> Value {
    for (name, value) in fields.as_object().unwrap() {
        base[name] = value.clone();
    }
    base
}

fn text_of(message: &Value) -> Option<String> {
    match parse(&json!({"update_id": 1, "message": message})) {
        ParsedUpdate::Message(message) => Some(message.text),
        ParsedUpdate::Ignored(_) => None,
        other => panic!("{other:?}"),
    }
}

#[test]
fn direct_message_is_read_completely() {
    let update = json!({"update_id": 1, "message": direct(&json!({"text": "Hello"}))});
    let expected = IncomingMessage {
        external_id: "7".to_owned(),
        conversation: ChannelConversation { id: "1001".into(), topic: None, is_group: false },
        peer: ChannelPeer { id: "1001".into(), name: "Ada L (@ada)".into() },
        text: "Hello".to_owned(),
    };
    assert_eq!(parse(&update), ParsedUpdate::Message(expected));
}

#[test]
fn edit_is_message_of_its_own() {
    let edit = |fields: &Value| parse(&json!({"update_id": 1, "edited_message": direct(fields)}));
    let ParsedUpdate::Message(message) = edit(&json!({"text": "/new", "edit_date": 1_700_000_050}))
    else {
        panic!("not a message")
    };
    assert_eq!(message.external_id, "7:edit:1700000050");
    assert_eq!(message.text, "[edited message]\n/new");
    for fields in [json!({"text": "a"}), json!({"location": {}, "edit_date": 1_700_000_050})] {
        assert!(matches!(edit(&fields), ParsedUpdate::Ignored(_)), "{fields}");
    }
}

#[test]
fn attachments_are_noted() {
    for (fields, expected) in [
        (json!({"photo": [{}], "caption": "Look"}), Some("[photo, not shown]\nLook")),
        (json!({"animation": {}, "document": {}}), Some("[animation, not shown]")),
        (json!({"voice": {"duration": 3}}), Some("[voice message, not shown]")),
        (json!({"sticker": {"emoji": "x"}}), Some("[sticker, not shown]")),
        (json!({"pinned_message": {}}), None),
        (json!({}), None),
    ] {
        assert_eq!(text_of(&direct(&fields)).as_deref(), expected, "{fields}");
    }
}

#[test]
fn group_messages_require_address() {
    let command = |length: usize| json!([{"type": "bot_command", "offset": 0, "length": length}]);
    let mention = |offset: usize, length: usize| json!([{"type": "mention", "offset": offset, "length": length}]);
    for (fields, expected) in [
        (json!({"text": "Hello everyone, helper_bot"}), None),
        (json!({"text": "@helper_bot in code"}), None),
        (json!({"text": "@helper_bot, hello", "entities": mention(0, 11)}), Some("hello")),
        (json!({"text": "@Helper_Bot", "entities": mention(0, 11)}), Some("@Helper_Bot")),
        (json!({"text": "🙂 @helper_bot", "entities": mention(3, 11)}), Some("🙂 @helper_bot")),
        (json!({"text": "@helper_bot2 hello", "entities": mention(0, 12)}), None),
        (json!({"text": "/help@helper_bot me", "entities": command(16)}), Some("/help me")),
        (json!({"text": "/help@other_bot", "entities": command(15)}), None),
        (json!({"text": "/help", "entities": command(5)}), Some("/help")),
        (
            json!({"text": "Yes", "reply_to_message": {"from": {"id": 123_456, "is_bot": true}}}),
            Some("Yes"),
        ),
        (json!({"text": "Yes", "reply_to_message": {"from": {"id": 5}}}), None),
        (
            json!({"photo": [], "caption": "@helper_bot look", "caption_entities": mention(0, 11)}),
            Some("[photo, not shown]\nlook"),
        ),
        (
            json!({"text": "Helper, hi", "entities": [{"type": "text_mention", "offset": 0,
                   "length": 6, "user": {"id": 123_456}}]}),
            Some("Helper, hi"),
        ),
    ] {
        assert_eq!(text_of(&group(&fields)).as_deref(), expected, "{fields}");
    }
}

#[test]
fn topics_are_conversations() {
    let conversation = |fields: &Value| {
        let message = with_fields(
            group(&json!({"text": "/a", "entities": [{"type": "bot_command",
                                                "offset": 0, "length": 2}]})),
            fields,
        );
        match parse(&json!({"update_id": 1, "message": message})) {
            ParsedUpdate::Message(message) => message.conversation,
            other => panic!("{other:?}"),
        }
    };
    let in_topic = conversation(&json!({"is_topic_message": true, "message_thread_id": 5}));
    assert_eq!(in_topic.topic.as_deref(), Some("5"));
    assert!(in_topic.is_group);
    let reply = conversation(&json!({"message_thread_id": 5}));
    assert_eq!(reply, ChannelConversation { topic: None, ..in_topic });
}

#[test]
fn senders_without_person_are_ignored() {
    for fields in [
        json!({"text": "a", "sender_chat": {"id": -5, "type": "channel"}}),
        json!({"text": "a", "from": {"id": 5, "is_bot": true, "first_name": "Bot"}}),
        json!({"text": "a", "from": null}),
        json!({"text": "a", "chat": {"id": 5, "type": "channel"}}),
        json!({"text": "a", "chat": {"id": 5}}),
    ] {
        assert_eq!(text_of(&direct(&fields)), None, "{fields}");
    }
}

#[test]
fn pressed_button_is_read() {
    let query = |data: &Value| {
        parse(&json!({"update_id": 1, "callback_query": {
            "id": "q1", "from": {"id": 1002, "first_name": "Grace"}, "data": data,
            "message": {"message_id": 9, "date": 0, "is_topic_message": true,
                        "message_thread_id": 5, "chat": {"id": -100, "type": "supergroup"}},
        }}))
    };
    let button = PressedButton {
        token: "abc_-9".to_owned(),
        conversation: ChannelConversation {
            id: "-100".into(),
            topic: Some("5".into()),
            is_group: true,
        },
        message_id: "9".to_owned(),
        peer: ChannelPeer { id: "1002".into(), name: "Grace".into() },
    };
    let expected = ParsedUpdate::Press { query: "q1".into(), button: Some(button) };
    assert_eq!(query(&json!("abc_-9")), expected);
    let none = ParsedUpdate::Press { query: "q1".into(), button: None };
    for data in [json!(null), json!(""), json!("a b"), json!("a".repeat(65)), json!("é")] {
        assert_eq!(query(&data), none, "{data}");
    }
    let inline = json!({"update_id": 1, "callback_query": {"id": "q1", "from": {"id": 5},
                        "inline_message_id": "x", "data": "abc"}});
    assert_eq!(parse(&inline), none);
}

#[test]
fn hostile_updates_are_errors() {
    let deep = format!("{{\"update_id\":3,\"message\":{}{}}}", "[".repeat(9999), "]".repeat(9999));
    for (text, number) in [
        (r#"{"update_id": 3, "message": 5}"#, Some(3)),
        (r#"{"update_id": 3, "message": {"message_id": "7"}}"#, Some(3)),
        (r#"{"update_id": 3, "message": {"message_id": 1e99, "chat": {"id": 1}}}"#, Some(3)),
        (r#"{"update_id": 3, "message": {"text": "\ud800"}}"#, Some(3)),
        (deep.as_str(), Some(3)),
        (r#"{"update_id": "3"}"#, None),
        (r#"{"update_id": -1}"#, None),
        (r#"{"update_id": 9223372036854775807}"#, None),
        ("[]", None),
        ("null", None),
    ] {
        let update = RawValue::from_string(text.to_owned()).unwrap();
        assert_eq!(update_number(&update), number, "{text:.80}");
        // What people wrote does not appear in the log.
        if let Err(error) = parse_update(&update, &bot()) {
            assert!(error.contains(" at column ") && error.len() < 60, "{error}");
        } else {
            assert_eq!(number, None, "{text:.80}");
        }
    }
}

#[test]
fn unusual_texts_are_kept() {
    let long = "x".repeat(4 << 20);
    assert_eq!(text_of(&direct(&json!({ "text": long }))).as_deref(), Some(long.as_str()));
    let name = json!({"id": 1, "first_name": "n".repeat(5000)});
    let update = json!({"update_id": 1, "message": direct(&json!({"text": "", "from": name}))});
    let ParsedUpdate::Message(message) = parse(&update) else { panic!("not a message") };
    assert_eq!((message.text.as_str(), message.peer.name.len()), ("", NAME_LIMIT));
}

#[test]
fn entities_outside_of_text_are_harmless() {
    for (offset, length) in [(0, 99), (99, 1), (1, usize::MAX), (1, 0), (0, 1)] {
        let entities = json!([{"type": "mention", "offset": offset, "length": length},
                              {"type": "bot_command", "offset": offset, "length": length}]);
        let fields = json!({"text": "🙂@helper_bot", "entities": entities});
        assert_eq!(text_of(&direct(&fields)).as_deref(), Some("🙂@helper_bot"));
        assert_eq!(text_of(&group(&fields)), None);
    }
}
