use skillhost_events::Clock;
use skillhost_tasks::{MemoryQueue, TaskQueue};

use super::*;

fn text(text: &str) -> RunEvent {
    RunEvent::Text { agent_id: "worker".into(), text: text.into() }
}

fn request(tool: &str) -> ApprovalRequest {
    ApprovalRequest {
        agent_id: "worker".into(),
        tool: tool.into(),
        extension: "core_tools".into(),
        arguments: "{}".into(),
        destructive: false,
        always: true,
        details: Some("one file".into()),
        call_key: None,
        effect_digest: None,
        extension_sha256: None,
        can_park: false,
    }
}

fn channels() -> MessageChannels {
    let queue = TaskQueue::new(Arc::new(MemoryQueue::new(Clock::system())));
    MessageChannels::new(Arc::new(QuestionTable::new(queue)), Duration::from_secs(60))
}

fn received(client: &mut AttachedClient) -> Vec<ServerMessage> {
    std::iter::from_fn(|| client.lines.try_recv().ok()).collect()
}

fn user_message() -> UserMessage {
    UserMessage {
        message_id: "m1".into(),
        thread: "t1".into(),
        agent: "worker".into(),
        text: "Do it".into(),
        model: None,
        workspaces: Vec::new(),
        channel: None,
    }
}

fn accepted() -> ServerMessage {
    ServerMessage::Accepted(user_message())
}

fn ended() -> ServerMessage {
    ServerMessage::ShuttingDown { again: true }
}

#[test]
fn late_client_receives_full_reply() {
    let channels = channels();
    let channel = channels.get_or_create(&user_message());
    channel.on_event(&text("one "));
    channel.on_event(&text("two "));
    let mut client = channel.attach();
    channel.on_event(&text("three"));
    let line = |t| ServerMessage::RunEvent(text(t));
    assert_eq!(received(&mut client), [accepted(), line("one two "), line("three")]);
    let again = RunEvent::ReplyRestarted { agent_id: "worker".into(), reason: "broken".into() };
    channel.on_event(&again);
    let mut later = channel.attach();
    assert_eq!(received(&mut later), [accepted()]);
    channels.close("m1", ended());
    assert_eq!(received(&mut later), [ended()]);
    assert_eq!(received(&mut channel.attach()), [accepted(), ended()]);
    assert!(channels.find_by_thread("t1").is_none());
}

/// Waits for the next line about a request.
async fn next_line(client: &mut AttachedClient) -> ServerMessage {
    let line = client.lines.recv().await.unwrap();
    if line == accepted() { Box::pin(next_line(client)).await } else { line }
}

/// Returns the id and the stored question of a request.
fn reference(line: &ServerMessage) -> (u64, QuestionReference) {
    match line {
        ServerMessage::ApprovalRequested { id, question: Some(question), .. } => {
            (*id, question.clone())
        }
        other => panic!("{other:?}"),
    }
}

fn answer(id: u64, decision: ApprovalDecision) -> ClientMessage {
    ClientMessage::Answer { id, decision, digest: None, surface: None }
}

#[tokio::test]
async fn first_answer_wins() {
    let channel = channels().get_or_create(&user_message());
    let approval = request("delete_file");
    let asking = channel.request_approval(&approval);
    let answering = async {
        let mut first = channel.attach();
        let mut second = channel.attach();
        let line = next_line(&mut first).await;
        assert_eq!(next_line(&mut second).await, line);
        let (id, question) = reference(&line);
        let stored = channel.questions.find(&question.question).await.unwrap().unwrap();
        assert_eq!((stored.digest, stored.thread.as_deref()), (question.digest, Some("t1")));
        let unknown = answer(7, ApprovalDecision::Once);
        channel.handle_client_message(first.id, unknown).await;
        channel.handle_client_message(first.id, answer(id, ApprovalDecision::Once)).await;
        channel.handle_client_message(second.id, answer(id, refuse("no"))).await;
        // The second client gets to know whose answer counted.
        let told = next_line(&mut second).await;
        let ServerMessage::QuestionWithdrawn { closure: Some(closure), is_rejected: true, .. } =
            told
        else {
            panic!("{told:?}")
        };
        assert_eq!(closure.choice.as_deref(), Some("approve"));
        assert_eq!(
            (closure.by.as_deref(), closure.surface.as_deref()),
            (Some("operator"), Some("socket"))
        );
        for client in [&mut first, &mut second] {
            let line = next_line(client).await;
            let ServerMessage::QuestionWithdrawn { closure: Some(_), is_rejected: false, .. } =
                line
            else {
                panic!("{line:?}")
            };
        }
        // Also after the end of the request.
        channel.handle_client_message(second.id, answer(id, refuse("no"))).await;
        assert!(matches!(
            next_line(&mut second).await,
            ServerMessage::QuestionWithdrawn { is_rejected: true, .. }
        ));
    };
    let (decision, ()) = tokio::join!(asking, answering);
    assert_eq!(decision, ApprovalDecision::Once);
}

#[tokio::test]
async fn answer_to_other_bytes_is_rejected() {
    let channel = channels().get_or_create(&user_message());
    let approval = request("delete_file");
    let asking = channel.request_approval(&approval);
    let answering = async {
        let mut client = channel.attach();
        let (id, _) = reference(&next_line(&mut client).await);
        let wrong = ClientMessage::Answer {
            id,
            decision: ApprovalDecision::Once,
            digest: Some("0".repeat(64)),
            surface: Some(DecisionSurface::Terminal),
        };
        channel.handle_client_message(client.id, wrong).await;
        let line = next_line(&mut client).await;
        let ServerMessage::QuestionWithdrawn { closure: Some(closure), is_rejected: true, .. } =
            line
        else {
            panic!("{line:?}")
        };
        assert_eq!(closure.state, "open");
        channel.handle_client_message(client.id, answer(id, refuse("no"))).await;
    };
    let (decision, ()) = tokio::join!(asking, answering);
    assert_eq!(decision, refuse("no"));
}

#[tokio::test]
async fn decision_elsewhere_reaches_run_and_clients() {
    let channel = channels().get_or_create(&user_message());
    let approval = request("delete_file");
    let asking = channel.request_approval(&approval);
    let deciding = async {
        let mut client = channel.attach();
        let (id, question) = reference(&next_line(&mut client).await);
        let decision = Decision {
            question: question.question,
            digest: question.digest,
            choice: "edit".into(),
            reason: Some(r#"{"path":"b"}"#.into()),
            decider: Decider { name: "operator".into(), surface: "inbox".into() },
        };
        channel.questions.decide(decision).await.unwrap();
        let line = next_line(&mut client).await;
        let ServerMessage::QuestionWithdrawn {
            id: withdrawn,
            closure: Some(closure),
            is_rejected: false,
        } = line
        else {
            panic!("{line:?}")
        };
        assert_eq!((withdrawn, closure.surface.as_deref()), (id, Some("inbox")));
    };
    let (decision, ()) = tokio::join!(asking, deciding);
    assert_eq!(decision, ApprovalDecision::Edited { arguments: r#"{"path":"b"}"#.into() });
}

#[tokio::test]
async fn oversized_answer_refuses() {
    let channel = channels().get_or_create(&user_message());
    let approval = request("delete_file");
    let asking = channel.request_approval(&approval);
    let answering = async {
        let mut client = channel.attach();
        let (id, _) = reference(&next_line(&mut client).await);
        let arguments = "x".repeat(1 << 20);
        let edited = answer(id, ApprovalDecision::Edited { arguments });
        channel.handle_client_message(client.id, edited).await;
    };
    let (decision, ()) = tokio::join!(asking, answering);
    let ApprovalDecision::Refuse { reason } = decision else { panic!("{decision:?}") };
    assert!(reason.contains("more than"), "{reason}");
}

#[tokio::test]
async fn dropped_request_is_withdrawn() {
    let channel = channels().get_or_create(&user_message());
    let mut client = channel.attach();
    let approval = request("delete_file");
    let question = {
        let asking = channel.request_approval(&approval);
        tokio::pin!(asking);
        let line = tokio::select! {
            biased;
            decision = &mut asking => panic!("{decision:?}"),
            line = next_line(&mut client) => line,
        };
        reference(&line).1.question
    };
    assert_eq!(next_line(&mut client).await, withdrawn_line(1, None));
    assert_eq!(received(&mut channel.attach()), [accepted()]);
    let closed = channel.questions.wait_until_closed(&question).await.unwrap();
    assert_eq!(closed.state, QuestionState::Withdrawn);
}

#[tokio::test]
async fn declined_secret_returns_reason() {
    let channel = channels().get_or_create(&user_message());
    let ask = SecretPrompt {
        agent_id: "worker".into(),
        name: "KEY".into(),
        extensions: Vec::new(),
        reason: "to log in".into(),
    };
    let answering = async {
        // An answer of another kind is no reply.
        channel.handle_client_message(1, answer(1, ApprovalDecision::Once)).await;
        let declined = ClientMessage::SecretDeclined { id: 1, reason: "the user refused".into() };
        channel.handle_client_message(1, declined).await;
    };
    let (reply, ()) = tokio::join!(channel.request_secret(&ask), answering);
    let SecretReply::Refused { reason } = reply else { panic!("it was given") };
    assert_eq!(reason, "the user refused");
}
