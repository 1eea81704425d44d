//! The consent of an operator to a command that installs code: a question that is shown at the
//! terminal, and that the inbox decides as well.

use skillhost_payload::ErrorKind;
use skillhost_questions::{
    APPROVE, OPERATOR, QuestionTable, REFUSE, describe_closure, make_build, to_closure,
};
use skillhost_tasks::{Decider, Decision, DecisionOutcome, Question};
use skillhost_terminal::{CliContext, CliError, Output, exit};
use tokio::sync::oneshot;

use crate::task_store::open_queue;

/// The name of this surface.
const SURFACE: &str = "terminal";

/// The installation of an extension's code, as a person is asked about it.
#[derive(Debug, Clone, Copy)]
pub struct BuildConsent<'a> {
    /// The command that asks, such as `ext build`.
    pub command: &'a str,
    /// The extension.
    pub extension: &'a str,
    /// sha256 of its files.
    pub sha256: &'a str,
    /// The files, as they are shown.
    pub details: &'a str,
    /// The question at the terminal.
    pub prompt: &'a str,
}

/// Asks the operator for the consent to a command, at the terminal and in the inbox: the first
/// decision counts. Returns whether it approves.
///
/// # Errors
/// No terminal is there, the question cannot be stored, or the command was interrupted.
pub fn ask_build_consent(
    session: &CliContext,
    consent: BuildConsent<'_>,
) -> Result<bool, CliError> {
    let questions = QuestionTable::new(open_queue(session, &session.trusted_home()?)?);
    let output = session.output;
    session.block_on(Box::pin(async {
        let BuildConsent { command, extension, sha256, details, prompt } = consent;
        let asked = questions.ask(make_build(command, extension, sha256, details)).await;
        let question = match asked {
            Ok(question) => question,
            // What no inbox can show is decided at the terminal alone, which has shown it.
            Err(error) if error.kind == ErrorKind::TooLarge => {
                return Ok(output.ask_yes_no(prompt)? == Some(true));
            }
            Err(error) => return Err(error.into()),
        };
        let answer = read_answer(output, prompt.to_owned());
        tokio::select! {
            // In order: an answer that is there counts before the decision that it causes.
            biased;
            answer = answer => match answer {
                Ok(Ok(Some(approve))) => decide(&questions, output, question, approve).await,
                unread => {
                    questions.withdraw(&question.id, "no answer could be read").await;
                    unread.map_or(Ok(false), |answer| answer.map(|_| false))
                }
            },
            closed = questions.wait_until_closed(&question.id) => {
                let closed = closed?;
                note_closure(output, &closed);
                Ok(is_approval(&closed))
            }
            _ = tokio::signal::ctrl_c() => {
                questions.withdraw(&question.id, "the command was interrupted").await;
                Err(CliError::new(exit::INTERRUPTED, "interrupted; nothing was decided"))
            }
        }
    }))?
}

/// Reads the answer in a thread of its own: a decision elsewhere does not wait for its end.
fn read_answer(
    output: Output,
    prompt: String,
) -> oneshot::Receiver<Result<Option<bool>, CliError>> {
    let (sender, answer) = oneshot::channel();
    std::thread::spawn(move || {
        // The question may have been decided elsewhere.
        let _ = sender.send(output.ask_yes_no(&prompt));
    });
    answer
}

/// Decides for the person at the terminal; returns whether the decision that counts approves.
async fn decide(
    questions: &QuestionTable,
    output: Output,
    question: Question,
    approve: bool,
) -> Result<bool, CliError> {
    let choice = if approve { APPROVE } else { REFUSE };
    let decision = Decision {
        question: question.id,
        digest: question.digest,
        choice: choice.to_owned(),
        reason: None,
        decider: Decider { name: OPERATOR.to_owned(), surface: SURFACE.to_owned() },
    };
    match questions.decide(decision).await? {
        DecisionOutcome::Decided { .. } => Ok(approve),
        // The row never changes its subject, so the digest is that of the question that was asked.
        DecisionOutcome::Closed { question } | DecisionOutcome::DigestMismatch { question } => {
            note_closure(output, &question);
            Ok(is_approval(&question))
        }
    }
}

fn is_approval(question: &Question) -> bool {
    question.choice.as_deref() == Some(APPROVE)
}

fn note_closure(output: Output, question: &Question) {
    output.print_note(describe_closure(&to_closure(question)));
}
