//! Proposals in the table of questions.
//!
//! The ledger of proposals is the truth: it decides by compare-and-swap, and may be used without this
//! table. A row mirrors a proposal from its creation until its end, and names who decided and where.

use std::collections::BTreeSet;

use async_trait::async_trait;
use serde::Deserialize;
use skillhost_payload::{
    CallContext, CallError, CallOrigin, ErrorKind, ReviewDecision, ReviewOffer, ReviewOutcome,
    ReviewQuestion,
};
use skillhost_tasks::{
    Decider, Decision, DecisionOutcome, NewQuestion, Question, QuestionKind, QuestionState,
    TaskQuery, TaskQueue, generate_question_id,
};

use crate::call_question::{APPROVE, OPERATOR, REFUSE};

/// The prefix of the call of a question about a proposal.
const PROPOSAL_CALL: &str = "proposal:";

/// The limit of rows that are mirrored at once.
const MAX_ROWS: usize = 10_000;

/// The number of passes after which a mirror is complete: the second pass closes the rows of
/// proposals that were decided during the first one.
const MAX_PASSES: usize = 3;

/// The reason of a rejection that has none; ledgers require one.
const NO_REASON: &str = "no reason given";

/// A ledger of proposals, in this process or behind an extension.
#[async_trait]
pub trait ReviewLedger: Send + Sync {
    /// Lists the proposals that wait for a decision, and the `known` ones in any state.
    ///
    /// # Errors
    /// The ledger cannot be read.
    async fn list_reviews(&self, known: &[String]) -> Result<Vec<ReviewQuestion>, CallError>;

    /// Decides about a proposal, once and for the content with the digest of the decision.
    ///
    /// # Errors
    /// The proposal does not wait, or has another content; the errors of the ledger.
    async fn decide_review(&self, decision: ReviewDecision) -> Result<(), CallError>;
}

/// The part of a subject that a decision is made about.
#[derive(Deserialize)]
struct DecidedContent {
    proposal: String,
    new_digest: String,
}

/// Makes the rows of the table those of a ledger's proposals.
///
/// # Errors
/// The errors of the ledger and the store.
pub async fn mirror_reviews(queue: &TaskQueue, ledger: &dyn ReviewLedger) -> Result<(), CallError> {
    for _ in 0..MAX_PASSES {
        let open = list_open(queue).await?;
        let proposals = open.iter().filter_map(proposal_of).map(str::to_owned);
        let known: Vec<String> = proposals.collect::<BTreeSet<_>>().into_iter().collect();
        let mut has_asked = false;
        for review in ledger.list_reviews(&known).await? {
            match &review.outcome {
                Some(outcome) => {
                    let rows = open.iter().filter(|row| is_about(row, &review.proposal));
                    for row in rows {
                        close_row(queue, row, &review, outcome).await?;
                    }
                }
                None => has_asked |= ask_about(queue, &review).await?,
            }
        }
        if !has_asked {
            return Ok(());
        }
    }
    Ok(())
}

/// Decides a question about a proposal in its ledger, and mirrors the decision.
///
/// # Errors
/// [`ErrorKind::NotFound`]; [`ErrorKind::InvalidArgument`] for a choice that is not an option; the
/// errors of the ledger, if the question remains open.
pub async fn decide_review(
    queue: &TaskQueue,
    ledger: &dyn ReviewLedger,
    decision: Decision,
) -> Result<DecisionOutcome, CallError> {
    let context = CallContext { origin: CallOrigin::Operator, ..CallContext::default() };
    decide_in_context(queue, ledger, context, decision).await
}

/// Decides about the proposal of an offer, in the name of the caller of a context; the decision is an
/// approval and its reason. Returns `None` if the ledger lists no such proposal.
///
/// # Errors
/// As for [`decide_review`].
pub(crate) async fn decide_offer(
    queue: &TaskQueue,
    ledger: &dyn ReviewLedger,
    context: CallContext,
    offer: &ReviewOffer,
    (approve, reason): (bool, &str),
) -> Result<Option<DecisionOutcome>, CallError> {
    match mirror_reviews(queue, ledger).await {
        Ok(()) => {}
        // A library of an earlier version does not list its proposals.
        Err(error) if error.kind == ErrorKind::Protocol => return Ok(None),
        Err(error) => return Err(error),
    }
    let query = TaskQuery::Questions {
        state: None,
        kind: Some(QuestionKind::Proposal),
        task: None,
        thread: None,
        limit: MAX_ROWS,
    };
    let is_offered = |row: &&Question| {
        let content = serde_json::from_str::<DecidedContent>(&row.subject);
        is_about(row, &offer.proposal)
            && content.is_ok_and(|content| content.new_digest == offer.digest)
    };
    let rows = queue.questions(query).await?;
    let Some(row) = rows.iter().rev().find(is_offered) else { return Ok(None) };
    let decision = Decision {
        question: row.id.clone(),
        digest: row.digest.clone(),
        choice: if approve { APPROVE } else { REFUSE }.to_owned(),
        reason: Some(reason.to_owned()),
        // The ledger names the caller of the context.
        decider: Decider::default(),
    };
    decide_in_context(queue, ledger, context, decision).await.map(Some)
}

async fn decide_in_context(
    queue: &TaskQueue,
    ledger: &dyn ReviewLedger,
    context: CallContext,
    decision: Decision,
) -> Result<DecisionOutcome, CallError> {
    // The row that was shown may be older than its proposal.
    mirror_reviews(queue, ledger).await?;
    let question = find_row(queue, &decision.question).await?;
    if question.state != QuestionState::Open {
        return Ok(DecisionOutcome::Closed { question });
    }
    if question.digest != decision.digest {
        return Ok(DecisionOutcome::DigestMismatch { question });
    }
    let Decision { question: id, choice, reason, decider, .. } = decision;
    if !question.options.contains(&choice) {
        let message = format!("`{}` is not a choice of this question", choice.escape_debug());
        let hint = format!("choose one of: {}", question.options.join(", "));
        return Err(CallError::new(ErrorKind::InvalidArgument, message).with_hint(hint));
    }
    let content: DecidedContent = serde_json::from_str(&question.subject)
        .map_err(|error| CallError::new(ErrorKind::Failed, format!("question `{id}`: {error}")))?;
    let approve = choice == APPROVE;
    let reason = reason.filter(|reason| !reason.trim().is_empty());
    let made = ledger
        .decide_review(ReviewDecision {
            context,
            proposal: content.proposal,
            digest: content.new_digest,
            approve,
            reason: reason.unwrap_or_else(|| if approve { "" } else { NO_REASON }.to_owned()),
            surface: Some(decider.surface).filter(|surface| !surface.is_empty()),
            by: Some(decider.name).filter(|name| !name.is_empty() && name != OPERATOR),
        })
        .await;
    let mirrored = mirror_reviews(queue, ledger).await;
    let question = find_row(queue, &id).await?;
    match made {
        Ok(()) => {
            mirrored?;
            Ok(DecisionOutcome::Decided { question })
        }
        // Another surface was faster, or the proposal has changed.
        Err(_) if question.state != QuestionState::Open => Ok(DecisionOutcome::Closed { question }),
        Err(error) => Err(error),
    }
}

async fn find_row(queue: &TaskQueue, id: &str) -> Result<Question, CallError> {
    queue.question(id).await?.ok_or_else(|| {
        CallError::new(ErrorKind::NotFound, format!("question `{}` not found", id.escape_debug()))
    })
}

async fn list_open(queue: &TaskQueue) -> Result<Vec<Question>, CallError> {
    let query = TaskQuery::Questions {
        state: Some(QuestionState::Open),
        kind: Some(QuestionKind::Proposal),
        task: None,
        thread: None,
        limit: MAX_ROWS,
    };
    Ok(queue.questions(query).await?)
}

/// Asks about a proposal; returns whether a row was added. One about other bytes is withdrawn.
async fn ask_about(queue: &TaskQueue, review: &ReviewQuestion) -> Result<bool, CallError> {
    let options: &[&str] = if review.can_approve { &[APPROVE, REFUSE] } else { &[REFUSE] };
    let question = NewQuestion {
        id: generate_question_id(),
        thread: None,
        kind: QuestionKind::Proposal,
        asker: review.asker.clone(),
        call: format!("{PROPOSAL_CALL}{}", review.proposal),
        title: review.title.clone(),
        subject: review.subject.clone(),
        options: options.iter().map(|&option| option.to_owned()).collect(),
    };
    let id = question.id.clone();
    Ok(queue.ask(question).await?.id == id)
}

/// Closes a row as its proposal ended.
async fn close_row(
    queue: &TaskQueue,
    row: &Question,
    review: &ReviewQuestion,
    outcome: &ReviewOutcome,
) -> Result<(), CallError> {
    let ReviewOutcome { approved, by, via, reason } = outcome;
    let choice = match approved {
        // An approval of other bytes is no decision about this row.
        Some(true) if row.subject == review.subject => APPROVE,
        Some(false) => REFUSE,
        Some(true) => {
            let reason = format!("approved with other bytes by {by}, {via}");
            return Ok(queue.withdraw(&row.id, &reason).await.map(drop)?);
        }
        None => {
            let reason = reason.as_deref().unwrap_or("the proposal has ended");
            return Ok(queue.withdraw(&row.id, reason).await.map(drop)?);
        }
    };
    let decision = Decision {
        question: row.id.clone(),
        digest: row.digest.clone(),
        choice: choice.to_owned(),
        reason: reason.clone(),
        decider: Decider { name: by.clone(), surface: via.clone() },
    };
    // Another process may have closed it in the same way.
    Ok(queue.decide(decision).await.map(drop)?)
}

fn proposal_of(row: &Question) -> Option<&str> {
    row.call.strip_prefix(PROPOSAL_CALL)
}

fn is_about(row: &Question, proposal: &str) -> bool {
    proposal_of(row) == Some(proposal)
}

#[cfg(test)]
mod tests;
