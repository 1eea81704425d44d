//! Questions: asked, decided, withdrawn and expired.

use serde_json::json;

use super::step::{TaskInput, step};
use crate::error::{QueueError, QueueErrorKind};
use crate::ids::TaskId;
use crate::question::{
    Decision, DecisionOutcome, MAX_SUBJECT_BYTES, NewQuestion, Question, QuestionKind,
    QuestionState, subject_digest,
};
use crate::store::{EventSubject, OutboxEvent, StoreResult, StoreTransaction};
use crate::task::TaskState;

/// The topic of the event about a new question; its key is the id of the question.
const OPENED: &str = "question.opened";
/// The topic of the event about a question that is no longer open; its key is its id.
const CLOSED: &str = "question.closed";
/// The age at which an open question expires.
const MAX_AGE_MS: u64 = 7 * 24 * 60 * 60 * 1000;
/// The length limit of a choice and of a reason, in bytes.
const MAX_CHOICE_BYTES: usize = 64 * 1024;
/// The number of questions that expire at once.
const EXPIRED_ROWS: usize = 500;

/// Checks a question before the first write.
pub(super) fn check(question: &NewQuestion) -> StoreResult<()> {
    if question.subject.len() > MAX_SUBJECT_BYTES {
        let message =
            format!("subject has {} bytes, at most {MAX_SUBJECT_BYTES}", question.subject.len());
        return Err(QueueError::new(QueueErrorKind::TooLarge, message, "ask about a smaller part"));
    }
    Ok(())
}

/// Asks a question, or returns the one that was asked before about the same bytes. One about other
/// bytes of the same call is withdrawn.
pub(super) fn ask(
    rows: &mut dyn StoreTransaction,
    task: Option<&TaskId>,
    new: &NewQuestion,
    now_ms: u64,
) -> StoreResult<Question> {
    check(new)?;
    let digest = subject_digest(&new.subject);
    let thread = new.thread.as_deref().filter(|_| task.is_none());
    if let Some(known) = rows.question_by_call(task, thread, &new.call)? {
        // A proposal waits in its ledger for longer than its row.
        let is_renewed =
            known.kind == QuestionKind::Proposal && known.state == QuestionState::Expired;
        if known.digest == digest && known.kind == new.kind && !is_renewed {
            return Ok(known);
        }
        close(rows, known, QuestionState::Withdrawn, "the subject has changed", now_ms)?;
    }
    let question = Question {
        id: new.id.clone(),
        task: task.cloned(),
        thread: new.thread.clone(),
        kind: new.kind,
        asker: new.asker.clone(),
        call: new.call.clone(),
        title: new.title.clone(),
        subject: new.subject.clone(),
        digest,
        options: new.options.clone(),
        state: QuestionState::Open,
        choice: None,
        reason: None,
        decider: None,
        opened_ms: now_ms,
        closed_ms: None,
    };
    rows.insert_question(&question)?;
    append_event(rows, OPENED, &question)?;
    Ok(question)
}

/// Decides a question, once and only for the bytes that were shown.
pub(super) fn decide(
    rows: &mut dyn StoreTransaction,
    decision: Decision,
    now_ms: u64,
) -> StoreResult<DecisionOutcome> {
    let Decision { question: id, digest, choice, reason, decider } = decision;
    let mut question = rows.question(&id)?.ok_or_else(|| QueueError::question_not_found(&id))?;
    if question.state != QuestionState::Open {
        return Ok(DecisionOutcome::Closed { question });
    }
    // The bytes that were shown are not those that would be executed.
    if question.digest != digest {
        return Ok(DecisionOutcome::DigestMismatch { question });
    }
    if !question.options.is_empty() && !question.options.contains(&choice) {
        let message = format!("`{}` is not a choice of this question", choice.escape_debug());
        let hint = format!("choose one of: {}", question.options.join(", "));
        return Err(QueueError::invalid(message, hint));
    }
    if choice.len().max(reason.as_ref().map_or(0, String::len)) > MAX_CHOICE_BYTES {
        let message = format!("choice or reason has more than {MAX_CHOICE_BYTES} bytes");
        return Err(QueueError::new(QueueErrorKind::TooLarge, message, "shorten it"));
    }
    question.state = QuestionState::Decided;
    (question.choice, question.reason) = (Some(choice), reason);
    (question.decider, question.closed_ms) = (Some(decider), Some(now_ms));
    store_closed(rows, &question, now_ms)?;
    Ok(DecisionOutcome::Decided { question })
}

/// Withdraws a question or those of a thread; returns the number that was open.
pub(super) fn withdraw(
    rows: &mut dyn StoreTransaction,
    thread: Option<&str>,
    question: Option<&str>,
    reason: &str,
    now_ms: u64,
) -> StoreResult<usize> {
    let mut open = match thread {
        Some(thread) => rows.open_questions_of_thread(thread)?,
        None => Vec::new(),
    };
    // It may be a question of the thread.
    if let Some(id) = question.filter(|id| open.iter().all(|found| found.id != **id)) {
        open.extend(rows.question(id)?.filter(|found| found.state == QuestionState::Open));
    }
    let count = open.len();
    for question in open {
        close(rows, question, QuestionState::Withdrawn, reason, now_ms)?;
    }
    Ok(count)
}

/// Withdraws the questions of a task that has ended.
pub(super) fn withdraw_of_task(
    rows: &mut dyn StoreTransaction,
    task: &TaskId,
    now_ms: u64,
) -> StoreResult<()> {
    for question in rows.open_questions_of_task(task)? {
        close(rows, question, QuestionState::Withdrawn, "the task has ended", now_ms)?;
    }
    Ok(())
}

/// Closes the questions that were open for too long; returns their number.
pub(super) fn expire(rows: &mut dyn StoreTransaction, now_ms: u64) -> StoreResult<usize> {
    // Before 1970 plus seven days no question can be that old.
    let Some(opened_ms) = now_ms.checked_sub(MAX_AGE_MS) else { return Ok(0) };
    let mut count = 0;
    loop {
        let old = rows.open_questions_until(opened_ms, EXPIRED_ROWS)?;
        let found = old.len();
        for question in old {
            close(rows, question, QuestionState::Expired, "it was open for 7 days", now_ms)?;
        }
        count += found;
        if found < EXPIRED_ROWS {
            return Ok(count);
        }
    }
}

fn close(
    rows: &mut dyn StoreTransaction,
    mut question: Question,
    state: QuestionState,
    reason: &str,
    now_ms: u64,
) -> StoreResult<()> {
    if question.state != QuestionState::Open {
        return Ok(());
    }
    question.state = state;
    (question.reason, question.closed_ms) = (Some(reason.to_owned()), Some(now_ms));
    store_closed(rows, &question, now_ms)
}

/// Stores a question that is no longer open, and wakes its task.
fn store_closed(
    rows: &mut dyn StoreTransaction,
    question: &Question,
    now_ms: u64,
) -> StoreResult<()> {
    rows.update_question(question)?;
    append_event(rows, CLOSED, question)?;
    let Some(id) = &question.task else { return Ok(()) };
    match rows.task(id)? {
        Some(mut task) if task.state == TaskState::Waiting => {
            // A waiting task accepts it, and it does not end the task.
            let _ = step(&mut task, TaskInput::CloseQuestion { question: &question.id }, now_ms);
            rows.update_task(&task)
        }
        _ => Ok(()),
    }
}

/// Appends an event about a question, without its subject.
fn append_event(
    rows: &mut dyn StoreTransaction,
    topic: &'static str,
    question: &Question,
) -> StoreResult<()> {
    let payload = json!({
        "question": question.id,
        "task": question.task,
        "thread": question.thread,
        "kind": question.kind,
        "asker": question.asker,
        "call": question.call,
        "digest": question.digest,
        "state": question.state,
        "choice": question.choice,
        "decider": question.decider,
    });
    let (key, payload) = (question.id.clone(), payload.to_string());
    // A person who submitted a task hears of its questions where the task was submitted.
    let subject = match &question.task {
        Some(task) => EventSubject::Task(task.clone()),
        None => EventSubject::Question(question.id.clone()),
    };
    rows.append_outbox(&OutboxEvent { topic, key, correlation_id: None, payload, subject })
}
