use std::path::Path;
use std::sync::Arc;

use skillhost_payload::{ReviewDecision, ReviewQuestion};
use skillhost_tasks::SqliteQueue;

use super::*;
use crate::question_id::{new_live_call, new_question_id};

/// A table whose file other tables of the directory share, as other processes do.
fn table(directory: &Path) -> Arc<QuestionTable> {
    let queue = TaskQueue::new(Arc::new(SqliteQueue::in_directory(directory)));
    Arc::new(QuestionTable::new(queue))
}

/// A ledger without proposals.
struct NoLedger;

#[async_trait::async_trait]
impl ReviewLedger for NoLedger {
    async fn list_reviews(&self, _: &[String]) -> Result<Vec<ReviewQuestion>, CallError> {
        Ok(Vec::new())
    }

    async fn decide_review(&self, decision: ReviewDecision) -> Result<(), CallError> {
        Err(CallError::new(ErrorKind::NotFound, decision.proposal))
    }
}

fn question(call: &str, subject: &str) -> NewQuestion {
    NewQuestion {
        id: new_question_id(),
        thread: Some("t1".into()),
        kind: QuestionKind::Consent,
        asker: "worker".into(),
        call: call.into(),
        title: "write_file".into(),
        subject: subject.into(),
        options: vec!["approve".into(), "refuse".into()],
    }
}

fn decision(question: &Question, choice: &str, surface: &str) -> Decision {
    Decision {
        question: question.id.clone(),
        digest: question.digest.clone(),
        choice: choice.into(),
        reason: None,
        decider: Decider { name: OPERATOR.into(), surface: surface.into() },
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn decision_of_other_process_ends_wait() {
    let directory = tempfile::tempdir().unwrap();
    let (kernel, inbox) = (table(directory.path()), table(directory.path()));
    let asked = kernel.ask(question("c1", r#"{"a":1}"#)).await.unwrap();
    let deciding = inbox.decide(decision(&asked, "approve", "inbox"));
    let (closed, decided) = tokio::join!(kernel.wait_until_closed(&asked.id), deciding);
    assert!(matches!(decided.unwrap(), DecisionOutcome::Decided { .. }));
    let closed = to_closure(&closed.unwrap());
    assert_eq!((closed.state.as_str(), closed.surface.as_deref()), ("decided", Some("inbox")));
    // Asked again about the same bytes, the question keeps its decision.
    let again = kernel.ask(question("c1", r#"{"a":1}"#)).await.unwrap();
    assert_eq!((again.id, again.choice.as_deref()), (asked.id, Some("approve")));
}

#[tokio::test(flavor = "multi_thread")]
async fn races_of_surfaces_have_one_decision() {
    let directory = tempfile::tempdir().unwrap();
    let (kernel, inbox) = (table(directory.path()), table(directory.path()));
    for race in 0..200 {
        let asked = kernel.ask(question(&format!("c{race}"), "{}")).await.unwrap();
        let surfaces = ["terminal", "socket", "inbox"];
        let deciding = surfaces.into_iter().enumerate().map(|(number, surface)| {
            // The kernel's clients share a table; the inbox writes to the file.
            let table = Arc::clone(if surface == "inbox" { &inbox } else { &kernel });
            let choice = if (race + number) % 2 == 0 { "approve" } else { "refuse" };
            let decision = decision(&asked, choice, surface);
            tokio::spawn(async move { table.decide(decision).await.unwrap() })
        });
        let deciding: Vec<_> = deciding.collect();
        let closed = kernel.wait_until_closed(&asked.id).await.unwrap();
        let (mut winners, mut others) = (Vec::new(), 0);
        for decided in deciding {
            match decided.await.unwrap() {
                DecisionOutcome::Decided { question } => winners.push(question),
                // The others get to know who decided, where and when.
                DecisionOutcome::Closed { question } => {
                    assert_eq!(question, closed);
                    others += 1;
                }
                DecisionOutcome::DigestMismatch { question } => panic!("{question:?}"),
            }
        }
        assert_eq!((winners, others), (vec![closed.clone()], 2));
        assert!(closed.decider.is_some() && closed.closed_ms.is_some());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn changed_bytes_are_never_decided() {
    let directory = tempfile::tempdir().unwrap();
    let table = table(directory.path());
    let mut executed = 0;
    for race in 0..200 {
        let call = format!("c{race}");
        let shown = table.ask(question(&call, r#"{"path":"a"}"#)).await.unwrap();
        // The executor makes the subject again, from other bytes.
        let (decided, changed) = tokio::join!(
            table.decide(decision(&shown, "approve", "terminal")),
            table.ask(question(&call, r#"{"path":"b"}"#)),
        );
        decided.unwrap();
        let changed = changed.unwrap();
        assert_ne!((&changed.id, &changed.digest), (&shown.id, &shown.digest));
        let stale = Decision { digest: shown.digest, ..decision(&changed, "approve", "terminal") };
        let outcome = table.decide(stale).await.unwrap();
        assert!(matches!(outcome, DecisionOutcome::DigestMismatch { .. }), "{outcome:?}");
        let found = table.find(&changed.id).await.unwrap().unwrap();
        executed += usize::from(found.state != QuestionState::Open);
    }
    assert_eq!(executed, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn parked_question_is_not_answered() {
    let directory = tempfile::tempdir().unwrap();
    let table = table(directory.path());
    let asked = table.ask(question("c1", "{}")).await.unwrap();
    assert!(!table.take_answered(&asked.id));
    let waited = table.wait_at_most(&asked.id, Duration::ZERO).await.unwrap();
    assert_eq!(waited, None);
    assert!(!table.take_answered(&asked.id));
    table.decide(decision(&asked, "approve", "socket")).await.unwrap();
    let waited = table.wait_at_most(&asked.id, Duration::from_secs(60)).await.unwrap().unwrap();
    assert_eq!(waited.choice.as_deref(), Some("approve"));
    // The event of the decision is handled once.
    assert!(table.take_answered(&asked.id) && !table.take_answered(&asked.id));
}

#[tokio::test(flavor = "multi_thread")]
async fn start_withdraws_only_lost_questions() {
    let directory = tempfile::tempdir().unwrap();
    let killed = table(directory.path());
    let lost = killed.ask(question(&new_live_call(), "{}")).await.unwrap();
    let kept = killed.ask(question("consent:k1:0", "{}")).await.unwrap();
    drop(killed);
    let table = table(directory.path());
    table.withdraw_leftovers().await.unwrap();
    assert_eq!(table.find(&lost.id).await.unwrap().unwrap().state, QuestionState::Withdrawn);
    assert_eq!(table.list_open("t1").await.unwrap(), [kept]);
    assert_eq!(table.list_open("t2").await.unwrap(), []);
}

#[tokio::test(flavor = "multi_thread")]
async fn operator_decision_names_first_one() {
    let directory = tempfile::tempdir().unwrap();
    let table = table(directory.path());
    let asked = table.ask(question("c1", "{}")).await.unwrap();
    let decide = |digest: &str, choice: &str| QuestionDecision {
        question: asked.id.clone(),
        digest: digest.into(),
        choice: choice.into(),
        reason: None,
    };
    let failed =
        table.decide_for_operator(decide("0", "approve"), "socket", &NoLedger).await.unwrap_err();
    assert!(failed.message.contains(&asked.digest), "{failed:?}");
    let closed =
        table.decide_for_operator(decide(&asked.digest, "refuse"), "socket", &NoLedger).await;
    assert_eq!(closed.unwrap().choice.as_deref(), Some("refuse"));
    let failed =
        table.decide_for_operator(decide(&asked.digest, "approve"), "socket", &NoLedger).await;
    let failed = failed.unwrap_err();
    assert_eq!(failed.kind, ErrorKind::Conflict);
    assert!(failed.message.ends_with("refuse, by operator, socket"), "{failed:?}");
}
