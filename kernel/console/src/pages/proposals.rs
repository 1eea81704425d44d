//! Proposals for skills: those that wait, and those that were decided.

use maud::html;
use skillhost_payload::CallError;
use skillhost_tasks::{QuestionKind, QuestionState, TaskQuery};

use crate::error::PageResult;
use crate::layout::{NavEntry, draw_empty};
use crate::pages::inbox::draw_question_rows;
use crate::visible_text::draw_text;
use crate::visit::Visit;

/// The number of rows of each list.
const MAX_ROWS: usize = 100;
/// The number of decided proposals among which the newest are found.
const MAX_READ: usize = 1000;

pub(crate) async fn list_proposals(visit: Visit) -> PageResult {
    let problem = visit.kernel().refresh_proposals().await.err();
    let now_ms = visit.now_ms().await?;
    let query = |state, limit| TaskQuery::Questions {
        state,
        kind: Some(QuestionKind::Proposal),
        task: None,
        thread: None,
        limit,
    };
    let open = visit.queue().questions(query(Some(QuestionState::Open), MAX_ROWS)).await;
    let open = open.map_err(CallError::from)?;
    let decided = visit.queue().questions(query(Some(QuestionState::Decided), MAX_READ)).await;
    let mut decided = decided.map_err(CallError::from)?;
    // The store lists the oldest first.
    decided.reverse();
    decided.truncate(MAX_ROWS);
    let body = html! {
        h1 { "Proposals" }
        p.lead { "Agents propose changes of skills. A change is made only if you approve it." }
        @if let Some(error) = problem {
            p.warning { "Proposals may be out of date: " (draw_text(&error.message)) }
        }
        div #proposals data-live="" {
            section {
                h2 { "Waiting" }
                @if open.is_empty() { (draw_empty("No proposal waits for a decision.")) }
                @else { (draw_question_rows(&open, now_ms)) }
            }
            section {
                h2 { "Decided" }
                @if decided.is_empty() { (draw_empty("No proposal was decided yet.")) }
                @else { (draw_question_rows(&decided, now_ms)) }
            }
        }
    };
    Ok(visit.page(NavEntry::Proposals, "Proposals", &body).await)
}
