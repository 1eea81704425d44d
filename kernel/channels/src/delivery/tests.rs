//! Tests of deliveries, and of questions with buttons.

use skillhost_control::{ChannelRole, UserMessage};
use skillhost_payload::{
    CallError, ChannelInfo, ErrorKind, MessageButton, OutgoingMessage, PressedButton, SendOutcome,
};
use skillhost_tasks::{
    Decider, Decision, NewQuestion, Question, QuestionKind, QuestionState, TaskFilter, TaskOutcome,
    TaskState,
};

use crate::channel_hub::tests::{Scene, direct, in_group, message};
use crate::random_token::token_hash;
use crate::store::ButtonRecord;

const HOUR_MS: u64 = 60 * 60 * 1_000;

async fn submit(scene: &Scene, text: &str, key: &str) {
    scene.hub.submit_text("post", &direct("1"), text, key.to_owned()).await.unwrap();
}

async fn paired_scene() -> Scene {
    let scene = Scene::new();
    scene.pair("1", ChannelRole::Owner, &[]).await;
    scene.take_sent().await;
    scene
}

fn unavailable() -> Result<SendOutcome, CallError> {
    Err(CallError::new(ErrorKind::Unavailable, "down"))
}

/// Returns the newest task.
async fn last_task(scene: &Scene) -> skillhost_tasks::Task {
    scene.hub.queue.list(TaskFilter::default()).await.unwrap().remove(0)
}

#[tokio::test]
async fn failed_messages_of_channels_get_replies() {
    let scene = paired_scene().await;
    scene.receive(message("hello", "1", "1", "Hello")).await;
    let written = scene.kernel.messages.lock().unwrap().values().next().cloned().unwrap();
    scene.hub.handle_dead_message(&written.message_id, 7).await.unwrap();
    let [reply] = &*scene.take_sent().await else { panic!("one reply") };
    assert!(reply.ends_with("Send the message again."), "{reply}");
    // The event may be handled twice.
    scene.hub.handle_dead_message(&written.message_id, 7).await.unwrap();
    assert_eq!(scene.take_sent().await, Vec::<String>::new());
    // What the operator wrote at a terminal has no reply here; a turn after a task has no author.
    for (id, part) in [("own", None), ("task-1", Some("Ask it for the result."))] {
        let other = UserMessage { message_id: id.to_owned(), channel: None, ..written.clone() };
        scene.kernel.messages.lock().unwrap().insert(id.to_owned(), other);
        scene.hub.handle_dead_message(id, 8).await.unwrap();
        let sent = scene.take_sent().await;
        assert_eq!(sent.len(), usize::from(part.is_some()), "{sent:?}");
        assert!(part.is_none_or(|part| sent[0].ends_with(part)), "{sent:?}");
    }
}

#[tokio::test]
async fn retry_continues_behind_the_last_part() {
    let scene = paired_scene().await;
    let text = format!("{}\n{}\n{}", "a".repeat(150), "b".repeat(150), "c".repeat(150));
    submit(&scene, &text, "k").await;
    let sent = || Ok(SendOutcome::Sent { message_id: None });
    *scene.kernel.results.lock().unwrap() = vec![sent(), unavailable()];
    assert_eq!(scene.deliver().await, Vec::new());
    assert_eq!(last_task(&scene).await.state, TaskState::Waiting);
    // A changed limit does not change the parts of a message that is half sent.
    *scene.kernel.info.lock().unwrap() = Some(ChannelInfo {
        account: "bot".into(),
        text_limit: 20,
        format: "text".into(),
        has_buttons: false,
        can_edit: false,
    });
    scene.advance(5_000);
    let ended = scene.deliver().await;
    assert_eq!(ended.len(), 1);
    let sent: Vec<OutgoingMessage> = scene.kernel.sent.lock().unwrap().clone();
    let texts: Vec<_> = sent.iter().map(|it| &it.text[..1]).collect();
    assert_eq!(texts, ["a", "b", "c"]);
    let keys: Vec<_> = sent.iter().map(|it| it.key.rsplit('/').next().unwrap()).collect();
    assert_eq!(keys, ["0", "1", "2"]);
}

#[tokio::test]
async fn message_is_tried_for_a_day() {
    let scene = paired_scene().await;
    submit(&scene, "Hello", "k").await;
    let mut attempts = 0;
    for _ in 0..30 {
        *scene.kernel.results.lock().unwrap() = vec![unavailable()];
        if !scene.deliver().await.is_empty() {
            break;
        }
        attempts += usize::from(scene.kernel.results.lock().unwrap().is_empty());
        scene.advance(HOUR_MS);
    }
    match last_task(&scene).await.outcome {
        Some(TaskOutcome::Failed { message, .. }) => {
            assert_eq!(message, "the message was not sent within a day: down");
        }
        other => panic!("{other:?}"),
    }
    assert_eq!(attempts, 24);
}

#[tokio::test]
async fn throttled_message_waits_as_requested() {
    let scene = paired_scene().await;
    submit(&scene, "Hello", "k").await;
    let throttled = Ok(SendOutcome::Throttled { retry_after_ms: 30_000 });
    *scene.kernel.results.lock().unwrap() = vec![throttled];
    scene.deliver().await;
    // A later message of the conversation does not overtake it.
    submit(&scene, "Again", "l").await;
    scene.advance(29_999);
    assert_eq!(scene.take_sent().await, Vec::<String>::new());
    scene.advance(1);
    assert_eq!(scene.take_sent().await, ["Hello", "Again"]);
}

#[tokio::test]
async fn rejected_message_fails_at_once() {
    let scene = paired_scene().await;
    submit(&scene, "Hello", "k").await;
    let rejected = Ok(SendOutcome::Rejected { reason: "chat\u{202e} not found".into() });
    *scene.kernel.results.lock().unwrap() = vec![rejected];
    let ended = scene.deliver().await;
    assert_eq!(ended[0].state, TaskState::Failed);
    let failed = scene.hub.handle_task_end(&ended[0].id).await.unwrap().unwrap();
    assert_eq!(failed.id, ended[0].id);
    match &failed.outcome {
        Some(TaskOutcome::Failed { message, .. }) => {
            assert_eq!(message, "the platform rejected the message: chat not found");
        }
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn sent_text_is_masked_and_clean() {
    let kernel = crate::channel_hub::tests::FakeKernel {
        secrets: vec!["swordfish-1".to_owned()],
        ..Default::default()
    };
    let scene = Scene::with_kernel(kernel);
    scene.pair("1", ChannelRole::Owner, &[]).await;
    scene.take_sent().await;
    submit(&scene, "The key is swordfish-1.\u{202e}\u{0}", "k").await;
    submit(&scene, "ignored, as the key is the same", "k").await;
    assert_eq!(scene.take_sent().await, ["The key is [secret]."]);
}

#[tokio::test]
async fn revoked_person_gets_no_message() {
    let scene = paired_scene().await;
    submit(&scene, "Hello", "k").await;
    scene.hub.store.revoke_peer("post", "1").await.unwrap();
    assert_eq!(scene.take_sent().await, Vec::<String>::new());
    assert_eq!(last_task(&scene).await.state, TaskState::Completed);
}

/// The subject of a build that an agent asks for.
const BUILD: &str = r#"{"tool":"build_extension","extension":"kernel"}"#;

/// Asks a question about a thread, as the runs of a kernel do.
async fn ask(scene: &Scene, thread: &str, kind: QuestionKind, subject: &str) -> Question {
    let options: &[&str] = match kind {
        QuestionKind::Choice => &[],
        _ => &["approve", "refuse", "edit", "session"],
    };
    let new = NewQuestion {
        id: ulid::Ulid::generate().to_string().to_lowercase(),
        thread: Some(thread.to_owned()),
        kind,
        asker: "helper".to_owned(),
        call: ulid::Ulid::generate().to_string(),
        title: "write_file".to_owned(),
        subject: subject.to_owned(),
        options: options.iter().map(|option| (*option).to_owned()).collect(),
    };
    let asked = scene.hub.queue.ask(new).await.unwrap();
    scene.hub.handle_question_opened(&asked.id).await.unwrap();
    asked
}

/// Returns the last message with buttons.
async fn take_buttons(scene: &Scene) -> (OutgoingMessage, Vec<MessageButton>) {
    scene.deliver().await;
    let sent = std::mem::take(&mut *scene.kernel.sent.lock().unwrap());
    let last = sent.into_iter().rev().find(|it| !it.buttons.is_empty()).expect("a question");
    let buttons = last.buttons.clone();
    (last, buttons)
}

fn press(sent: &OutgoingMessage, button: &MessageButton, peer: &str) -> PressedButton {
    PressedButton {
        token: button.token.clone(),
        conversation: sent.conversation.clone(),
        message_id: format!("m:{}", sent.key),
        peer: skillhost_payload::ChannelPeer { id: peer.to_owned(), name: String::new() },
    }
}

async fn press_text(scene: &Scene, pressed: &PressedButton) -> String {
    scene.hub.press_button("post", pressed).await.unwrap().text
}

async fn owner_scene() -> Scene {
    let scene = Scene::new();
    scene.pair("1", ChannelRole::Owner, &[]).await;
    scene.receive(message("first", "1", "1", "Write it")).await;
    scene.take_sent().await;
    scene
}

#[tokio::test]
async fn button_decides_once_for_its_owner() {
    let scene = owner_scene().await;
    scene.pair("2", ChannelRole::Owner, &[]).await;
    scene.pair("3", ChannelRole::Guest, &["guide"]).await;
    scene.take_sent().await;
    let asked = ask(&scene, "t0", QuestionKind::Consent, r#"{"tool":"write_file"}"#).await;
    // Handled twice, it is shown once.
    scene.hub.handle_question_opened(&asked.id).await.unwrap();
    let (sent, buttons) = take_buttons(&scene).await;
    assert_eq!(sent.conversation, direct("1"));
    let labels: Vec<_> = buttons.iter().map(|button| button.label.as_str()).collect();
    assert_eq!(labels, ["Approve", "Refuse"]);
    // Only the hash of a token is stored.
    for entry in std::fs::read_dir(scene.directory.path()).unwrap() {
        let bytes = std::fs::read(entry.unwrap().path()).unwrap();
        assert!(!String::from_utf8_lossy(&bytes).contains(&buttons[0].token));
    }
    for other in ["2", "3", "9"] {
        let text = press_text(&scene, &press(&sent, &buttons[0], other)).await;
        assert_eq!(text, "This question is not yours.");
    }
    let good = press(&sent, &buttons[0], "1");
    let moved = PressedButton { message_id: "m:other".into(), ..good.clone() };
    let elsewhere = PressedButton { conversation: direct("2"), ..good.clone() };
    let forged = PressedButton { token: "0".repeat(32), ..good.clone() };
    for wrong in [moved, elsewhere, forged] {
        assert_eq!(press_text(&scene, &wrong).await, "This button is no longer valid.");
    }
    assert_eq!(
        scene.hub.queue.question(&asked.id).await.unwrap().unwrap().state,
        QuestionState::Open
    );
    assert_eq!(press_text(&scene, &good).await, "Decided: approve.");
    let refuse = press(&sent, &buttons[1], "1");
    let late = press_text(&scene, &refuse).await;
    assert_eq!(late, "Decided before: approve by owner Person 1 (post).");
    let closed = scene.hub.queue.question(&asked.id).await.unwrap().unwrap();
    assert_eq!(closed.choice.as_deref(), Some("approve"));
    let decider = Decider { name: "owner Person 1".into(), surface: "post".into() };
    assert_eq!(closed.decider, Some(decider));
}

#[tokio::test]
async fn copies_lose_their_buttons() {
    let scene = owner_scene().await;
    let asked = ask(&scene, "t0", QuestionKind::Consent, r#"{"tool":"write_file"}"#).await;
    let (sent, buttons) = take_buttons(&scene).await;
    let decision = Decision {
        question: asked.id.clone(),
        digest: asked.digest.clone(),
        choice: "refuse".into(),
        reason: None,
        decider: Decider { name: "operator".into(), surface: "terminal".into() },
    };
    scene.hub.questions.decide(decision).await.unwrap();
    for _ in 0..2 {
        scene.hub.handle_question_closed(&asked.id).await.unwrap();
    }
    scene.deliver().await;
    let edits = std::mem::take(&mut *scene.kernel.sent.lock().unwrap());
    assert_eq!(edits.len(), 1);
    assert_eq!(edits[0].edits, Some(format!("m:{}", sent.key)));
    assert!(edits[0].buttons.is_empty(), "{:?}", edits[0].buttons);
    assert!(edits[0].text.contains("tool: write_file"), "{}", edits[0].text);
    assert!(edits[0].text.ends_with("Decided: refuse — operator (terminal)"), "{}", edits[0].text);
    let late = press_text(&scene, &press(&sent, &buttons[0], "1")).await;
    assert_eq!(late, "Decided before: refuse by operator (terminal).");
}

#[tokio::test]
async fn closed_question_is_not_sent() {
    let scene = owner_scene().await;
    let asked = ask(&scene, "t0", QuestionKind::Consent, "{}").await;
    scene.hub.queue.withdraw(&asked.id, "a later message").await.unwrap();
    let ended = scene.deliver().await;
    assert!(scene.kernel.sent.lock().unwrap().is_empty());
    match &ended[0].outcome {
        Some(TaskOutcome::Completed { text, .. }) => {
            assert!(text.starts_with("not sent"), "{text}");
        }
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn changed_bytes_are_not_decided() {
    let scene = owner_scene().await;
    let asked = ask(&scene, "t0", QuestionKind::Consent, r#"{"tool":"a"}"#).await;
    let (sent, buttons) = take_buttons(&scene).await;
    let new = NewQuestion {
        id: ulid::Ulid::generate().to_string().to_lowercase(),
        thread: Some("t0".into()),
        kind: QuestionKind::Consent,
        asker: "helper".into(),
        call: asked.call.clone(),
        title: "other".into(),
        subject: r#"{"tool":"b"}"#.into(),
        options: asked.options.clone(),
    };
    let changed = scene.hub.queue.ask(new).await.unwrap();
    let text = press_text(&scene, &press(&sent, &buttons[0], "1")).await;
    assert_eq!(text, "The question was withdrawn.");
    let open = scene.hub.queue.question(&changed.id).await.unwrap().unwrap();
    assert_eq!(open.state, QuestionState::Open);
}

#[tokio::test]
async fn other_digest_is_neither_shown_nor_decided() {
    let scene = owner_scene().await;
    let asked = ask(&scene, "t0", QuestionKind::Consent, r#"{"tool":"a"}"#).await;
    scene.take_sent().await;
    // A button of other bytes, such as from a backup of the file.
    let token = "other".to_owned();
    let button = ButtonRecord {
        hash: token_hash(&token),
        question: asked.id.clone(),
        digest: "0".repeat(64),
        choice: "approve".to_owned(),
        channel: "post".to_owned(),
        peer: "1".to_owned(),
        conversation: direct("1"),
        message: Some("m".to_owned()),
    };
    scene.hub.store.store_buttons(vec![button], 1_000_000).await.unwrap();
    let pressed = PressedButton {
        token,
        conversation: direct("1"),
        message_id: "m".to_owned(),
        peer: skillhost_payload::ChannelPeer { id: "1".to_owned(), name: String::new() },
    };
    let text = press_text(&scene, &pressed).await;
    assert_eq!(text, "The question has changed since it was shown; nothing was decided.");
    // A delivery of other bytes is not sent.
    let other = Question { digest: "0".repeat(64), ..asked.clone() };
    let key = "other".to_owned();
    scene.hub.submit_question(&other, "post", &direct("1"), "1", key).await.unwrap();
    assert_eq!(scene.take_sent().await, Vec::<String>::new());
    let open = scene.hub.queue.question(&asked.id).await.unwrap().unwrap();
    assert_eq!(open.state, QuestionState::Open);
}

#[tokio::test]
async fn question_of_guest_goes_to_owners() {
    let scene = owner_scene().await;
    scene.pair("3", ChannelRole::Guest, &["guide"]).await;
    scene.receive(message("hello", "3", "3", "Write it")).await;
    scene.take_sent().await;
    let thread = "t1";
    ask(&scene, thread, QuestionKind::Consent, r#"{"tool":"write_file"}"#).await;
    let (sent, buttons) = take_buttons(&scene).await;
    assert_eq!(sent.conversation, direct("1"));
    assert_eq!(
        press_text(&scene, &press(&sent, &buttons[1], "3")).await,
        "This question is not yours."
    );
    assert_eq!(press_text(&scene, &press(&sent, &buttons[1], "1")).await, "Decided: refuse.");
}

#[tokio::test]
async fn group_question_is_for_its_author() {
    let scene = owner_scene().await;
    scene.receive(in_group(message("in group", "g", "1", "Write it"))).await;
    scene.take_sent().await;
    ask(&scene, "t1", QuestionKind::Consent, r#"{"tool":"write_file"}"#).await;
    let (sent, buttons) = take_buttons(&scene).await;
    assert_eq!(sent.conversation.id, "g");
    let stranger = press(&sent, &buttons[0], "stranger");
    assert_eq!(press_text(&scene, &stranger).await, "This question is not yours.");
    assert_eq!(press_text(&scene, &press(&sent, &buttons[0], "1")).await, "Decided: approve.");
}

#[tokio::test]
async fn revoked_owner_decides_nothing() {
    let scene = owner_scene().await;
    let asked = ask(&scene, "t0", QuestionKind::Consent, "{}").await;
    let (sent, buttons) = take_buttons(&scene).await;
    scene.hub.store.revoke_peer("post", "1").await.unwrap();
    let text = press_text(&scene, &press(&sent, &buttons[0], "1")).await;
    assert_eq!(text, "This button is no longer valid.");
    let open = scene.hub.queue.question(&asked.id).await.unwrap().unwrap();
    assert_eq!(open.state, QuestionState::Open);
}

#[tokio::test]
async fn new_agent_has_no_buttons() {
    let scene = owner_scene().await;
    let subject = r#"{"tool":"create_agent","extension":"kernel"}"#;
    let asked = ask(&scene, "t0", QuestionKind::Build, subject).await;
    let sent = scene.take_sent().await;
    assert!(sent.concat().contains(&format!("skillhost inbox show {}", asked.id)), "{sent:?}");
    assert!(sent.concat().contains("Only the operator"), "{sent:?}");
    // Nor can it be answered.
    let answer = format!("/answer {} approve", asked.id);
    scene.receive(message("answer", "1", "1", &answer)).await;
    assert_eq!(scene.take_sent().await, ["This question is decided with its buttons."]);
    let open = scene.hub.queue.question(&asked.id).await.unwrap().unwrap();
    assert_eq!(open.state, QuestionState::Open);
}

#[tokio::test]
async fn build_of_group_is_decided_alone() {
    let scene = owner_scene().await;
    scene.receive(in_group(message("in group", "g", "1", "Build it"))).await;
    scene.take_sent().await;
    let asked = ask(&scene, "t1", QuestionKind::Build, BUILD).await;
    let (sent, buttons) = take_buttons(&scene).await;
    assert_eq!(sent.conversation, direct("1"));
    // A platform that takes the conversation for a group.
    let mut in_group = press(&sent, &buttons[0], "1");
    in_group.conversation.is_group = true;
    let text = press_text(&scene, &in_group).await;
    assert_eq!(text, "Only the operator decides about this.");
    assert_eq!(press_text(&scene, &press(&sent, &buttons[0], "1")).await, "Decided: approve.");
    let closed = scene.hub.queue.question(&asked.id).await.unwrap().unwrap();
    assert_eq!(closed.decider.unwrap().surface, "post");
}

#[tokio::test]
async fn build_for_guest_is_decided_by_owner() {
    let scene = owner_scene().await;
    scene.pair("3", ChannelRole::Guest, &["guide"]).await;
    scene.receive(message("hello", "3", "3", "Build it")).await;
    scene.take_sent().await;
    ask(&scene, "t1", QuestionKind::Build, BUILD).await;
    let (sent, buttons) = take_buttons(&scene).await;
    assert_eq!(sent.conversation, direct("1"));
    let guest = press(&sent, &buttons[0], "3");
    assert_eq!(press_text(&scene, &guest).await, "This question is not yours.");
    assert_eq!(press_text(&scene, &press(&sent, &buttons[1], "1")).await, "Decided: refuse.");
}

#[tokio::test]
async fn free_question_is_answered_by_text() {
    let scene = owner_scene().await;
    let asked = ask(&scene, "t0", QuestionKind::Choice, r#"{"question":"Which color?"}"#).await;
    // Not shown yet, so there are no bytes to answer.
    scene.receive(message("early", "1", "1", &format!("/answer {} red", asked.id))).await;
    let sent = scene.take_sent().await;
    assert!(sent.iter().any(|text| text.contains("No such question is open here")), "{sent:?}");
    assert!(
        sent.iter().any(|text| text.contains(&format!("/answer {} TEXT", asked.id))),
        "{sent:?}"
    );
    scene
        .receive(message("late", "1", "1", &format!("/answer {} dark red", &asked.id[..20])))
        .await;
    let sent = scene.take_sent().await;
    assert!(sent.contains(&"Your answer was stored.".to_owned()), "{sent:?}");
    let closed = scene.hub.queue.question(&asked.id).await.unwrap().unwrap();
    assert_eq!(closed.choice.as_deref(), Some("dark red"));
}

#[tokio::test]
async fn inbox_shows_a_question_again() {
    let scene = owner_scene().await;
    let asked = ask(&scene, "t0", QuestionKind::Consent, "{}").await;
    take_buttons(&scene).await;
    // A question of another thread is not this channel's.
    let foreign = ask(&scene, "elsewhere", QuestionKind::Consent, "{}").await;
    scene.receive(message("list", "1", "1", "/inbox")).await;
    let sent = scene.take_sent().await.concat();
    assert!(sent.contains(&asked.id) && !sent.contains(&foreign.id), "{sent}");
    scene.receive(message("show", "1", "1", &format!("/inbox {}", asked.id))).await;
    let (sent, buttons) = take_buttons(&scene).await;
    assert_eq!(press_text(&scene, &press(&sent, &buttons[1], "1")).await, "Decided: refuse.");
}
