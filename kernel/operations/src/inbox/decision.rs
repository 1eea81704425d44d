//! `skillhost inbox approve`, `refuse` and `answer`.

use serde_json::json;
use skillhost_questions::decide_review;
use skillhost_tasks::{
    Decider, Decision, DecisionOutcome, Question, QuestionKind, QuestionState, TaskQueue,
};
use skillhost_terminal::{CliContext, CliError, CommandResult, exit, text_or_stdin};

use super::InboxContext;
use super::page::{describe_closed, format_question};
use crate::arguments::{InboxAnswerArgs, InboxApproveArgs};
use crate::task_store::{OPERATOR, find_question, to_cli_error};
use crate::task_text::one_line;

/// The name of this surface.
const SURFACE: &str = "terminal";
/// The number of digits that a shortened digest must have.
const MIN_DIGEST: usize = 8;
/// The length of a digest.
const DIGEST_LENGTH: usize = 64;
const APPROVE: &str = "approve";
const REFUSE: &str = "refuse";

/// Approves a question: with the digest of what was inspected, or after a look at a terminal.
pub(super) async fn approve_question(
    inbox: &InboxContext<'_>,
    args: &InboxApproveArgs,
) -> CommandResult {
    let InboxContext { session, queue, .. } = inbox;
    let question = find_question(queue, &args.id).await?;
    check_open(&question)?;
    check_approvable(&question)?;
    check_offered(session, &question, APPROVE)?;
    match &args.digest {
        Some(digest) => check_digest(session, &question, digest)?,
        None => confirm_approval(session, queue, &question).await?,
    }
    decide_question(inbox, &question, APPROVE, None).await
}

/// Refuses a question; that needs no look at the subject.
pub(super) async fn refuse_question(
    inbox: &InboxContext<'_>,
    given: &str,
    reason: Option<&str>,
) -> CommandResult {
    let question = find_question(&inbox.queue, given).await?;
    check_open(&question)?;
    check_approvable(&question)?;
    decide_question(inbox, &question, REFUSE, reason).await
}

/// Answers a question with a text or one of its options.
pub(super) async fn answer_question(
    inbox: &InboxContext<'_>,
    args: &InboxAnswerArgs,
) -> CommandResult {
    let InboxContext { session, queue, .. } = inbox;
    let question = find_question(queue, &args.id).await?;
    // Before standard input is read, which may take long.
    check_open(&question)?;
    let text = text_or_stdin(&args.text)?;
    if let Some(digest) = &args.digest {
        check_digest(session, &question, digest)?;
    }
    // An approval requires a look at the subject, however it is spelled.
    if is_approvable(question.kind) && text == APPROVE && args.digest.is_none() {
        confirm_approval(session, queue, &question).await?;
    }
    decide_question(inbox, &question, &text, None).await
}

fn is_approvable(kind: QuestionKind) -> bool {
    matches!(kind, QuestionKind::Consent | QuestionKind::Proposal | QuestionKind::Build)
}

fn check_approvable(question: &Question) -> Result<(), CliError> {
    if is_approvable(question.kind) {
        return Ok(());
    }
    let (id, kind) = (&question.id, question.kind.as_str());
    let message =
        format!("question `{id}` of the kind `{kind}` is answered, not approved or refused");
    Err(CliError::usage(message).with_hint(format!("see its answers: skillhost inbox show {id}")))
}

/// Checks that a decision is offered: what cannot be inspected here cannot be approved here.
fn check_offered(session: &CliContext, question: &Question, choice: &str) -> Result<(), CliError> {
    if question.options.is_empty() || question.options.iter().any(|option| option == choice) {
        return Ok(());
    }
    let Question { id, options, .. } = question;
    let message = format!("question `{id}` cannot be decided as `{choice}` here");
    let show = session.spell_arguments(&format!("inbox show {id}"));
    Err(CliError::new(exit::CONFLICT, message)
        .with_hint(format!("the choices are: {}", one_line(&options.join(", "))))
        .with_hint(format!("see the reason: {show}")))
}

fn check_open(question: &Question) -> Result<(), CliError> {
    match question.state {
        QuestionState::Open => Ok(()),
        _ => Err(closed_error(question)),
    }
}

/// Returns the error for a question that is no longer open.
fn closed_error(question: &Question) -> CliError {
    let message =
        format!("question `{}` is no longer open: {}", question.id, describe_closed(question));
    CliError::new(exit::CONFLICT, message).with_hint("see: skillhost inbox list")
}

/// Checks that a digest, possibly shortened, is that of the question.
fn check_digest(session: &CliContext, question: &Question, given: &str) -> Result<(), CliError> {
    // Digests are copied from other programs, too.
    let given = given.to_lowercase();
    let is_digest = (MIN_DIGEST..=DIGEST_LENGTH).contains(&given.len())
        && given.bytes().all(|byte| byte.is_ascii_hexdigit());
    let show = session.spell_arguments(&format!("inbox show {}", question.id));
    if !is_digest {
        let message = format!("a digest has {MIN_DIGEST} to {DIGEST_LENGTH} hexadecimal digits");
        return Err(CliError::usage(message).with_hint(format!("see it: {show}")));
    }
    match question.digest.starts_with(&given) {
        true => Ok(()),
        false => Err(mismatch_error(question, &show)),
    }
}

fn mismatch_error(question: &Question, show: &str) -> CliError {
    let Question { id, digest, .. } = question;
    let message = format!("question `{id}` asks about other bytes: their digest is {digest}");
    CliError::new(exit::CONFLICT, message).with_hint(format!("look at it again: {show}"))
}

/// Shows the subject at a terminal and asks; elsewhere the digest is required.
async fn confirm_approval(
    session: &CliContext,
    queue: &TaskQueue,
    question: &Question,
) -> Result<(), CliError> {
    let output = session.output;
    let spell = |arguments: &str| session.spell_arguments(arguments);
    let id = &question.id;
    let required = || {
        CliError::usage("an approval requires a terminal, or the digest of what was inspected")
            .with_hint(format!("look at it: {}", spell(&format!("inbox show {id}"))))
            .with_hint(format!("then: {}", spell(&format!("inbox approve {id} --digest DIGEST"))))
    };
    if !output.can_ask() {
        return Err(required());
    }
    let now_ms = queue.store().now_ms().await.map_err(to_cli_error)?;
    let columns = output.width().unwrap_or(usize::MAX);
    // On standard error: the result is the decision alone.
    for line in format_question(question, now_ms, columns, &spell) {
        output.print_progress(line);
    }
    match output.ask_yes_no("approve?")? {
        Some(true) => Ok(()),
        // No is not a refusal: the person may want to look again.
        Some(false) => Err(CliError::new(exit::FINDINGS, "not approved; the question stays open")
            .with_hint(format!("refuse it: {}", spell(&format!("inbox refuse {id}"))))),
        None => Err(required()),
    }
}

async fn decide_question(
    inbox: &InboxContext<'_>,
    question: &Question,
    choice: &str,
    reason: Option<&str>,
) -> CommandResult {
    let InboxContext { session, queue, reviews } = inbox;
    let decision = Decision {
        question: question.id.clone(),
        // Not the given prefix: the store compares whole digests.
        digest: question.digest.clone(),
        choice: choice.to_owned(),
        reason: reason.map(str::to_owned),
        decider: Decider { name: OPERATOR.to_owned(), surface: SURFACE.to_owned() },
    };
    let show = session.spell_arguments(&format!("inbox show {}", question.id));
    let outcome = match question.kind {
        // Its ledger decides, and the row follows.
        QuestionKind::Proposal => decide_review(queue, *reviews, decision).await?,
        _ => queue.decide(decision).await.map_err(to_cli_error)?,
    };
    let question = match outcome {
        DecisionOutcome::Decided { question } => question,
        // Another surface was faster.
        DecisionOutcome::Closed { question } => return Err(closed_error(&question)),
        DecisionOutcome::DigestMismatch { question } => {
            return Err(mismatch_error(&question, &show));
        }
    };
    if session.output.json {
        session.output.print_json(&json!({ "question": question }))?;
        return Ok(exit::OK);
    }
    let choice = one_line(choice);
    session.output.print_line(format!("decided {} as `{choice}`", question.id))?;
    Ok(exit::OK)
}
