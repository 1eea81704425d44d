use std::path::Path;
use std::sync::Arc;

use skillhost_payload::{ReviewDecision, ReviewQuestion};
use skillhost_tasks::{SqliteQueue, generate_question_id};

use super::*;
use crate::live_call::new_live_call;

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
        id: generate_question_id(),
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

/// The kinds whose rows decide, with two of their choices.
const KINDS: [(QuestionKind, [&str; 2]); 4] = [
    (QuestionKind::Consent, ["approve", "refuse"]),
    (QuestionKind::Uncertain, ["again", "stop"]),
    (QuestionKind::Choice, ["north", "south"]),
    (QuestionKind::Build, ["approve", "refuse"]),
];

/// The number of races per kind: small in the suite, 200 and more by the variable.
fn races() -> usize {
    std::env::var("SKILLHOST_RACES").ok().and_then(|count| count.parse().ok()).unwrap_or(10)
}

fn question_of_kind(call: &str, kind: QuestionKind, choices: [&str; 2]) -> NewQuestion {
    let options = choices.into_iter().map(str::to_owned).collect();
    NewQuestion { kind, options, ..question(call, "{}") }
}

/// Decides in the way of a surface; returns the end that counts, and whether this decision made it.
async fn decide_on(
    surface: &str,
    table: &QuestionTable,
    asked: Question,
    choice: &str,
) -> (QuestionClosure, bool) {
    if surface != "socket" {
        return match table.decide(decision(&asked, choice, surface)).await.unwrap() {
            DecisionOutcome::Decided { question } => (to_closure(&question), true),
            DecisionOutcome::Closed { question } => (to_closure(&question), false),
            DecisionOutcome::DigestMismatch { question } => panic!("{question:?}"),
        };
    }
    let (question, digest) = (asked.id.clone(), asked.digest.clone());
    let decision = QuestionDecision { question, digest, choice: choice.into(), reason: None };
    match table.decide_for_operator(decision, surface, &NoLedger).await {
        Ok(closure) => (closure, true),
        Err(error) => {
            let closed = to_closure(&table.find(&asked.id).await.unwrap().unwrap());
            // The sentence names the decision, who made it and where.
            assert_eq!(error.message, describe_closure(&closed));
            (closed, false)
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn races_of_surfaces_have_one_decision() {
    let directory = tempfile::tempdir().unwrap();
    let tables: [_; 3] = std::array::from_fn(|_| table(directory.path()));
    let mut winners = std::collections::BTreeMap::new();
    for (race, (kind, choices)) in
        KINDS.into_iter().flat_map(|kind| std::iter::repeat_n(kind, races())).enumerate()
    {
        let new = question_of_kind(&format!("c{race}"), kind, choices);
        let asked = tables[0].ask(new).await.unwrap();
        // The kernel's clients share a table; other processes write to the file.
        let surfaces = [("terminal", 0), ("socket", 0), ("inbox", 1), ("mcp", 2)];
        let mut deciding = Vec::new();
        for (number, (surface, process)) in surfaces.into_iter().enumerate() {
            let (table, asked) = (Arc::clone(&tables[process]), asked.clone());
            let choice = choices[(race + number) % 2];
            deciding.push(tokio::spawn(async move {
                (surface, decide_on(surface, &table, asked, choice).await)
            }));
        }
        let closed = to_closure(&tables[0].wait_until_closed(&asked.id).await.unwrap());
        let mut decided = Vec::new();
        for surface in deciding {
            let (surface, (closure, is_winner)) = surface.await.unwrap();
            // All get to know the same decision: who made it, where and when.
            assert_eq!(closure, closed);
            decided.extend(is_winner.then_some(surface));
        }
        assert_eq!(decided.len(), 1, "{decided:?}");
        assert_eq!(closed.surface.as_deref(), Some(decided[0]));
        assert!(closed.by.is_some() && closed.at_ms.is_some());
        *winners.entry(decided[0]).or_insert(0_usize) += 1;
    }
    assert_eq!(winners.values().sum::<usize>(), KINDS.len() * races());
}

#[tokio::test(flavor = "multi_thread")]
async fn changed_bytes_are_never_decided() {
    let directory = tempfile::tempdir().unwrap();
    let (table, other) = (table(directory.path()), table(directory.path()));
    let mut executed = 0;
    for (race, (kind, choices)) in
        KINDS.into_iter().flat_map(|kind| std::iter::repeat_n(kind, races())).enumerate()
    {
        let new = question_of_kind(&format!("c{race}"), kind, choices);
        let shown = table.ask(new.clone()).await.unwrap();
        // The executor makes the subject again, from other bytes.
        let changed = NewQuestion { id: generate_question_id(), subject: "[]".into(), ..new };
        let (decided, changed) =
            tokio::join!(other.decide(decision(&shown, choices[0], "inbox")), table.ask(changed),);
        decided.unwrap();
        let changed = changed.unwrap();
        assert_ne!((&changed.id, &changed.digest), (&shown.id, &shown.digest));
        let stale = Decision { digest: shown.digest, ..decision(&changed, choices[0], "inbox") };
        let outcome = other.decide(stale).await.unwrap();
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
