//! Tests of deliveries against a server that plays the Bot API.

use fake_bot_api::{ApiFault, FakeBotApi};

use super::*;

const TOKEN: &str = "123456:AAF-secret";

fn message(text: &str) -> OutgoingMessage {
    OutgoingMessage {
        key: "key-1".to_owned(),
        conversation: ChannelConversation { id: "1001".into(), topic: None, is_group: false },
        text: text.to_owned(),
        buttons: Vec::new(),
        edits: None,
    }
}

fn button(label: &str, token: &str) -> MessageButton {
    MessageButton { label: label.to_owned(), token: token.to_owned() }
}

async fn deliver(api: &FakeBotApi, message: &OutgoingMessage) -> Result<SendOutcome> {
    let client = BotClient::new(&api.url()).unwrap();
    deliver_message(&client, &BotToken::parse(TOKEN).unwrap(), message).await
}

fn sent(id: &str) -> SendOutcome {
    SendOutcome::Sent { message_id: Some(id.to_owned()) }
}

#[tokio::test]
async fn text_is_sent_without_markup() {
    let api = FakeBotApi::new(TOKEN);
    let text = "*not bold* <b>_x_</b> https://example.com";
    assert_eq!(deliver(&api, &message(text)).await.unwrap(), sent("1"));
    let in_topic =
        ChannelConversation { id: "-100".into(), topic: Some("5".into()), is_group: true };
    let buttons = vec![button("Approve", "token_a"), button(&"L".repeat(99), "token_b")];
    let asked = OutgoingMessage { conversation: in_topic, buttons, ..message("Really?") };
    assert_eq!(deliver(&api, &asked).await.unwrap(), sent("2"));
    let bodies: Vec<_> = api.calls("sendMessage").into_iter().map(|call| call.body).collect();
    assert_eq!(
        bodies[0],
        json!({"chat_id": 1001, "text": text, "link_preview_options": {"is_disabled": true}})
    );
    assert_eq!(
        bodies[1],
        json!({"chat_id": -100, "message_thread_id": 5, "text": "Really?",
        "link_preview_options": {"is_disabled": true},
        "reply_markup": {"inline_keyboard": [
            [{"text": "Approve", "callback_data": "token_a"}],
            [{"text": "L".repeat(LABEL_LIMIT), "callback_data": "token_b"}],
        ]}})
    );
}

#[tokio::test]
async fn edit_replaces_text_and_buttons() {
    let api = FakeBotApi::new(TOKEN);
    let asked = OutgoingMessage { buttons: vec![button("Yes", "t")], ..message("Really?") };
    assert_eq!(deliver(&api, &asked).await.unwrap(), sent("1"));
    let edit = OutgoingMessage { edits: Some("1".into()), ..message("Approved.") };
    assert_eq!(deliver(&api, &edit).await.unwrap(), sent("1"));
    // Sent again after a kill: the platform calls it not modified.
    assert_eq!(deliver(&api, &edit).await.unwrap(), sent("1"));
    let bodies: Vec<_> = api.calls("editMessageText").into_iter().map(|call| call.body).collect();
    assert_eq!(bodies.len(), 2);
    assert_eq!(
        bodies[0],
        json!({"chat_id": 1001, "message_id": 1, "text": "Approved.",
               "link_preview_options": {"is_disabled": true},
               "reply_markup": {"inline_keyboard": []}})
    );
    assert!(api.calls("editMessageReplyMarkup").is_empty());
}

#[tokio::test]
async fn rejected_edit_removes_buttons() {
    let api = FakeBotApi::new(TOKEN);
    let asked = OutgoingMessage { buttons: vec![button("Yes", "t")], ..message("Really?") };
    assert_eq!(deliver(&api, &asked).await.unwrap(), sent("1"));
    let fault = ApiFault::Status(400, "Bad Request: message can't be edited".to_owned());
    api.fail_next("editMessageText", fault);
    let edit = OutgoingMessage { edits: Some("1".into()), ..message("Approved.") };
    assert_eq!(deliver(&api, &edit).await.unwrap(), sent("1"));
    let removed = api.calls("editMessageReplyMarkup");
    let expected =
        json!({"chat_id": 1001, "message_id": 1, "reply_markup": {"inline_keyboard": []}});
    assert_eq!(removed[0].body, expected);
    let unknown = OutgoingMessage { edits: Some("77".into()), ..message("Approved.") };
    let reason = "Bad Request: message to edit not found (status 400)".to_owned();
    assert_eq!(deliver(&api, &unknown).await.unwrap(), SendOutcome::Rejected { reason });
}

#[tokio::test]
async fn refusals_of_platform_are_final() {
    let api = FakeBotApi::new(TOKEN);
    let rejection = |reason: &str| SendOutcome::Rejected { reason: reason.to_owned() };
    api.block_chat(1001);
    let blocked = rejection("Forbidden: bot was blocked by the user (status 403)");
    assert_eq!(deliver(&api, &message("a")).await.unwrap(), blocked);
    api.delete_chat(1001);
    let deleted = rejection("Bad Request: chat not found (status 400)");
    assert_eq!(deliver(&api, &message("a")).await.unwrap(), deleted);
    api.fail_next("sendMessage", ApiFault::Throttle(9));
    let throttled = SendOutcome::Throttled { retry_after_ms: 9000 };
    assert_eq!(deliver(&api, &message("a")).await.unwrap(), throttled);
}

#[tokio::test]
async fn failures_of_server_are_transient() {
    let api = FakeBotApi::new(TOKEN);
    for fault in [
        ApiFault::Status(500, "Internal Server Error".to_owned()),
        ApiFault::CutBefore,
        ApiFault::CutAfter,
        ApiFault::Body("{}".to_owned()),
        ApiFault::Status(401, "Unauthorized".to_owned()),
    ] {
        api.fail_next("sendMessage", fault.clone());
        let error = deliver(&api, &message("a")).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unavailable, "{fault:?}");
        assert!(!error.message().contains("AAF-secret"), "{error}");
    }
}

#[tokio::test]
async fn invalid_message_causes_no_request() {
    let api = FakeBotApi::new(TOKEN);
    let other = |id: &str, topic: Option<&str>| OutgoingMessage {
        conversation: ChannelConversation {
            id: id.to_owned(),
            topic: topic.map(str::to_owned),
            is_group: false,
        },
        ..message("a")
    };
    for invalid in [
        message(""),
        message(" \n"),
        message(&"🙂".repeat(TEXT_LIMIT / 2 + 1)),
        OutgoingMessage { buttons: vec![button("Yes", &"t".repeat(65))], ..message("a") },
        OutgoingMessage { buttons: vec![button("Yes", "")], ..message("a") },
        OutgoingMessage { buttons: vec![button(" ", "t")], ..message("a") },
        OutgoingMessage { edits: Some("x".into()), ..message("a") },
        other("@channel", None),
        other("", None),
        other("1001", Some("x")),
    ] {
        let outcome = deliver(&api, &invalid).await.unwrap();
        assert!(matches!(outcome, SendOutcome::Rejected { .. }), "{outcome:?}");
    }
    assert!(api.calls("sendMessage").is_empty() && api.calls("editMessageText").is_empty());
    assert_eq!(deliver(&api, &message(&"🙂".repeat(TEXT_LIMIT / 2))).await.unwrap(), sent("1"));
}
