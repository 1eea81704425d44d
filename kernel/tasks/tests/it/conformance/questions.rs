//! Questions.

use skillhost_tasks::{
    DecisionOutcome, LostWorkers, NewQuestion, NewWait, QuestionState, QueueErrorKind, TaskClaim,
    TaskId, TaskState, WaitOutcome,
};

use crate::fixture::{StoreFixture, decision, new_task, question, refusal};

const WEEK_MS: u64 = 7 * 24 * 60 * 60 * 1000;

fn asking(questions: Vec<NewQuestion>) -> NewWait {
    NewWait { questions, ..NewWait::default() }
}

async fn park_with_question(store: &StoreFixture) -> (TaskClaim, String) {
    let claim = store.start(new_task()).await;
    let id = store.park(&claim, asking(vec![question("call", "{}")])).await.remove(0);
    (claim, id)
}

pub(crate) async fn decision_wakes_its_task(store: &StoreFixture) {
    let claim = store.start(new_task()).await;
    let both = vec![question("one", "{}"), question("two", "[]")];
    let ids = store.park(&claim, asking(both)).await;
    store.advance(3);
    let outcome = store.queue.decide(decision(&ids[0], "{}", "approve")).await.unwrap();
    let DecisionOutcome::Decided { question } = outcome else { panic!("{outcome:?}") };
    assert_eq!(question.choice.as_deref(), Some("approve"));
    assert_eq!(question.closed_ms, Some(store.now()));
    assert_eq!(store.state(&claim.task).await, TaskState::Waiting);
    store.queue.decide(decision(&ids[1], "[]", "refuse")).await.unwrap();
    assert_eq!(store.state(&claim.task).await, TaskState::Ready);
    assert_eq!(store.outbox_keys("question.closed").await, ids);
    assert_eq!(store.queue.open_questions(9).await.unwrap(), []);
}

pub(crate) async fn changed_digest_decides_nothing(store: &StoreFixture) {
    let (claim, id) = park_with_question(store).await;
    let outcome = store.queue.decide(decision(&id, "other", "approve")).await.unwrap();
    let is_mismatch = matches!(&outcome, DecisionOutcome::DigestMismatch { question }
        if question.state == QuestionState::Open);
    assert!(is_mismatch, "{outcome:?}");
    assert_eq!(store.state(&claim.task).await, TaskState::Waiting);
}

pub(crate) async fn second_decision_names_the_first(store: &StoreFixture) {
    let (_, id) = park_with_question(store).await;
    store.queue.decide(decision(&id, "{}", "approve")).await.unwrap();
    store.advance(9);
    let mut second = decision(&id, "{}", "refuse");
    second.decider.name = "other".to_owned();
    let outcome = store.queue.decide(second).await.unwrap();
    let DecisionOutcome::Closed { question } = outcome else { panic!("{outcome:?}") };
    assert_eq!(question.choice.as_deref(), Some("approve"));
    assert_eq!(question.decider.unwrap().name, "operator");
    assert_eq!(question.closed_ms, Some(store.now() - 9));
}

pub(crate) async fn wrong_option_is_refused(store: &StoreFixture) {
    let (_, id) = park_with_question(store).await;
    let wrong = store.queue.decide(decision(&id, "{}", "perhaps")).await;
    assert_eq!(refusal(wrong), QueueErrorKind::Invalid);
    let unknown = store.queue.decide(decision("unknown", "{}", "approve")).await;
    assert_eq!(refusal(unknown), QueueErrorKind::NotFound);
    let found = store.queue.question(&id).await.unwrap().unwrap();
    assert_eq!(found.state, QuestionState::Open);
}

pub(crate) async fn question_is_not_repeated(store: &StoreFixture) {
    // A run that was lost after it asked asks again.
    let (claim, id) = park_with_question(store).await;
    store.queue.withdraw("unknown", "no").await.unwrap();
    let same = NewQuestion { thread: Some("t".to_owned()), ..question("call", "{}") };
    let first = store.queue.ask(same.clone()).await.unwrap();
    let second = NewQuestion { id: question("", "").id, ..same };
    assert_eq!(store.queue.ask(second).await.unwrap(), first);
    // A question of a thread is another one than that of a task.
    assert_ne!(first.id, id);
    assert_eq!(store.queue.open_questions(9).await.unwrap().len(), 2);
    assert_eq!(store.state(&claim.task).await, TaskState::Waiting);
}

pub(crate) async fn changed_subject_replaces_question(store: &StoreFixture) {
    let thread = Some("t".to_owned());
    let ask = |subject: &str| NewQuestion { thread: thread.clone(), ..question("call", subject) };
    let first = store.queue.ask(ask("{}")).await.unwrap();
    // Another process may have a clock that is behind, and ids that are lower.
    let second = NewQuestion { id: TaskId::derive(0, "second").to_string(), ..ask("[]") };
    let second = store.queue.ask(second).await.unwrap();
    assert_eq!(store.queue.ask(ask("[]")).await.unwrap(), second);
    let first = store.queue.question(&first.id).await.unwrap().unwrap();
    assert_eq!((first.state, second.state), (QuestionState::Withdrawn, QuestionState::Open));
    let late = store.queue.decide(decision(&first.id, "{}", "approve")).await.unwrap();
    assert!(matches!(late, DecisionOutcome::Closed { .. }), "{late:?}");
}

pub(crate) async fn old_question_expires(store: &StoreFixture) {
    let (claim, id) = park_with_question(store).await;
    store.advance(WEEK_MS - 1);
    assert_eq!(store.queue.sweep(LostWorkers::Expired).await.unwrap().expired, 0);
    store.advance(1);
    assert_eq!(store.queue.sweep(LostWorkers::Expired).await.unwrap().expired, 1);
    let question = store.queue.question(&id).await.unwrap().unwrap();
    assert_eq!(question.state, QuestionState::Expired);
    assert_eq!(store.state(&claim.task).await, TaskState::Ready);
    assert_eq!(store.queue.sweep(LostWorkers::Expired).await.unwrap().expired, 0);
}

pub(crate) async fn thread_questions_are_withdrawn(store: &StoreFixture) {
    let (claim, id) = park_with_question(store).await;
    for (thread, call) in [("t", "one"), ("t", "two"), ("other", "one")] {
        let thread = Some(thread.to_owned());
        store.queue.ask(NewQuestion { thread, ..question(call, "{}") }).await.unwrap();
    }
    assert_eq!(store.queue.withdraw_thread("t", "a new message").await.unwrap(), 2);
    assert_eq!(store.queue.withdraw_thread("t", "a new message").await.unwrap(), 0);
    assert_eq!(store.queue.open_questions(9).await.unwrap().len(), 2);
    assert_eq!(store.state(&claim.task).await, TaskState::Waiting);
    assert!(store.queue.withdraw(&id, "not needed").await.unwrap());
    assert!(!store.queue.withdraw(&id, "not needed").await.unwrap());
    assert_eq!(store.state(&claim.task).await, TaskState::Ready);
}

pub(crate) async fn end_withdraws_questions(store: &StoreFixture) {
    let (claim, id) = park_with_question(store).await;
    store.queue.cancel(claim.task, "operator").await.unwrap();
    let question = store.queue.question(&id).await.unwrap().unwrap();
    assert_eq!(question.state, QuestionState::Withdrawn);
    assert_eq!(store.outbox_keys("question.closed").await, [id]);
}

pub(crate) async fn asking_again_returns_decision(store: &StoreFixture) {
    let (claim, id) = park_with_question(store).await;
    store.queue.decide(decision(&id, "{}", "approve")).await.unwrap();
    let claim = TaskClaim { epoch: 2, ..claim };
    assert_eq!(store.claim(9).await, std::slice::from_ref(&claim));
    let again = asking(vec![question("call", "{}")]);
    let outcome = store.queue.wait(claim, again).await.unwrap();
    let WaitOutcome::Satisfied(questions) = outcome else { panic!("{outcome:?}") };
    assert_eq!((&questions[0].id, questions[0].choice.as_deref()), (&id, Some("approve")));
}
