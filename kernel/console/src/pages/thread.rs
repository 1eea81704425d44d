//! A thread: its messages, the open questions, and the reply as it is written.

use std::collections::VecDeque;

use axum::extract::Path;
use axum::http::StatusCode;
use maud::{Markup, html};
use skillhost_control::UserMessage;
use skillhost_conversation::{Message, ModelToolCall, ThreadContents, ThreadError, ThreadStore};
use skillhost_payload::{CallError, ErrorKind};
use skillhost_tasks::{Question, QuestionState, TaskQuery};

use crate::error::{ConsoleError, PageResult};
use crate::form_fields::path_with;
use crate::layout::{NavEntry, draw_badge, draw_empty};
use crate::markdown_view::draw_markdown;
use crate::pages::inbox::{draw_decision_form, draw_kind};
use crate::subject_view::{draw_arguments, draw_subject, summarize_arguments};
use crate::visible_text::{draw_age, draw_text, shorten, to_line};
use crate::visit::{Visit, redirect_to, run_blocking};

/// The number of messages that are drawn without `all`.
const MAX_MESSAGES: usize = 200;
/// The number of open questions of a thread that are drawn.
const MAX_QUESTIONS: usize = 20;
/// The number of characters of a heading.
const MAX_TITLE_CHARS: usize = 80;
/// The number of characters of a call's arguments on its closed line.
const MAX_SUMMARY_CHARS: usize = 80;

/// Returns an id for a message of a form.
pub(crate) fn new_message_id() -> String {
    ulid::Ulid::generate().to_string().to_lowercase()
}

impl From<ThreadError> for ConsoleError {
    fn from(error: ThreadError) -> Self {
        let kind = match &error {
            ThreadError::BadId { .. } | ThreadError::NotFound { .. } => ErrorKind::NotFound,
            ThreadError::Busy { .. } => ErrorKind::Conflict,
            _ => ErrorKind::Io,
        };
        CallError::new(kind, error.to_string()).into()
    }
}

/// Reads a thread, also while a run has it open.
pub(crate) async fn read_thread(visit: &Visit, id: &str) -> Result<ThreadContents, ConsoleError> {
    let (store, id) = (ThreadStore::new(visit.home()), id.to_owned());
    run_blocking(move || store.read(&id)).await?.map_err(ConsoleError::from)
}

/// Stores a message for a thread; its agent replies in the background.
pub(crate) async fn accept_message(
    visit: &Visit,
    thread: &str,
    message_id: &str,
    text: &str,
) -> Result<(), ConsoleError> {
    if text.trim().is_empty() {
        let status = StatusCode::BAD_REQUEST;
        return Err(ConsoleError::new(status, "a message is required", "write one"));
    }
    // The agent is that of the thread; a request names none.
    let agent = read_thread(visit, thread).await?.summary.agent;
    let message = UserMessage {
        message_id: message_id.to_owned(),
        thread: thread.to_owned(),
        agent,
        text: text.to_owned(),
        model: None,
        channel: None,
        workspaces: Vec::new(),
    };
    Ok(visit.kernel().send_message(message).await?)
}

/// Sends a message of the form.
pub(crate) async fn send_form(visit: Visit, Path(id): Path<String>) -> PageResult {
    let (message_id, text) = (visit.form.get("message_id"), visit.form.text("text"));
    accept_message(&visit, &id, message_id, &text).await?;
    Ok(redirect_to(&path_with("/threads/", &id)))
}

/// Cancels the reply that is being written.
pub(crate) async fn cancel_reply(visit: Visit, Path(id): Path<String>) -> PageResult {
    visit.kernel().cancel_reply(&id).await;
    Ok(redirect_to(&path_with("/threads/", &id)))
}

pub(crate) async fn show_thread(visit: Visit, Path(id): Path<String>) -> PageResult {
    let thread = read_thread(&visit, &id).await?;
    let query = TaskQuery::Questions {
        state: Some(QuestionState::Open),
        kind: None,
        task: None,
        thread: Some(id.clone()),
        limit: MAX_QUESTIONS,
    };
    let questions = visit.queue().questions(query).await?;
    // Attaching is the only way to know; the lines are dropped at once.
    let is_pending = visit.kernel().follow_thread(&id).is_some();
    let now_ms = visit.now_ms().await?;
    let summary = &thread.summary;
    let title = match summary.title.trim() {
        "" => "New thread".to_owned(),
        title => shorten(title, MAX_TITLE_CHARS).into_owned(),
    };
    let path = path_with("/threads/", &id);
    let body = html! {
        p.crumbs { a href="/threads" { "Threads" } }
        h1 { (draw_text(&title)) }
        p.meta {
            span { "with " (draw_text(&summary.agent)) }
            span { "begun " (draw_age(summary.began, now_ms)) " ago" }
            @for skill in &thread.skills {
                span { "skill " a href=(path_with("/skills/", &skill.skill.skill_id)) {
                    (draw_text(&skill.skill.skill_id))
                } }
            }
        }
        div #conversation data-live="" {
            (draw_messages(&thread.messages, visit.query.get("all") == "1", &path))
            @for question in &questions { (draw_question(&visit, question, now_ms)) }
            @if is_pending {
                form.working method="post" action={ (path) "/cancel" } {
                    (visit.csrf_field())
                    p { span.pulse aria-hidden="true" {} "The agent is working." }
                    button type="submit" { "Stop" }
                }
            }
        }
        // Filled by the script with the reply as it is written.
        div #live.messages data-thread=(id) role="log" aria-label="Reply" {}
        p #connection role="status" {}
        form.compose #composer method="post" action=(path) data-thread=(id) {
            (visit.csrf_field())
            input type="hidden" name="message_id" value=(new_message_id());
            label for="text" { "Message" }
            textarea #text name="text" rows="3" required aria-describedby="keys" {}
            p.hint #keys { "Ctrl+Enter sends." }
            button.primary type="submit" { "Send" }
        }
    };
    Ok(visit.page(NavEntry::Threads, &title, &body).await)
}

fn draw_question(visit: &Visit, question: &Question, now_ms: u64) -> Markup {
    html! {
        article.question {
            p.meta {
                (draw_kind(question.kind))
                span { "asked " (draw_age(question.opened_ms, now_ms)) " ago" }
                a href=(path_with("/inbox/", &question.id)) { "Open in the inbox" }
            }
            h2 { (draw_text(&question.title)) }
            (draw_subject(&question.subject))
            (draw_decision_form(visit, question))
        }
    }
}

/// A tool call with its result.
struct CallWithResult<'a> {
    call: &'a ModelToolCall,
    /// The text of the result, and whether it is an error.
    result: Option<(&'a str, bool)>,
}

fn draw_messages(messages: &[Message], all: bool, path: &str) -> Markup {
    let start = match all {
        true => 0,
        false => find_start(messages),
    };
    html! {
        @if messages.is_empty() { (draw_empty("No messages yet.")) }
        @if start > 0 {
            p { a href={ (path) "?all=1" } { "Show " (start) " earlier messages" } }
        }
        div.messages {
            @for (at, message) in messages.iter().enumerate().skip(start) {
                @match message {
                    Message::User { text } => {
                        article.message.user {
                            h2.who { "You" }
                            pre.text { (draw_text(text.trim_end())) }
                        }
                    }
                    Message::Assistant { text, calls } => {
                        article.message.assistant {
                            h2.who { "Agent" }
                            @if !text.trim().is_empty() { (draw_markdown(text)) }
                            @for call in pair_calls(calls, &messages[at + 1..]) { (draw_call(&call)) }
                        }
                    }
                    // Drawn with their calls.
                    Message::Tool { .. } => {}
                }
            }
        }
    }
}

/// Returns the first message to draw; results stay with their calls.
fn find_start(messages: &[Message]) -> usize {
    let mut start = messages.len().saturating_sub(MAX_MESSAGES);
    while matches!(messages.get(start), Some(Message::Tool { .. })) {
        start += 1;
    }
    start
}

/// Pairs calls with the results that follow them: an id is unique within a reply only.
fn pair_calls<'a>(calls: &'a [ModelToolCall], after: &'a [Message]) -> Vec<CallWithResult<'a>> {
    let mut results: VecDeque<(&str, &str, bool)> = after
        .iter()
        .map_while(|message| match message {
            Message::Tool { call_id, text, is_error, .. } => {
                Some((call_id.as_str(), text.as_str(), *is_error))
            }
            _ => None,
        })
        .collect();
    let mut take = |call: &ModelToolCall| {
        let at = results.iter().position(|(id, ..)| *id == call.id)?;
        results.remove(at).map(|(_, text, is_error)| (text, is_error))
    };
    calls.iter().map(|call| CallWithResult { call, result: take(call) }).collect()
}

fn draw_call(call: &CallWithResult<'_>) -> Markup {
    let CallWithResult { call, result } = call;
    let arguments = summarize_arguments(&call.arguments);
    let arguments = to_line(&arguments);
    html! {
        details.call {
            summary {
                span.tool { (draw_text(&call.name)) } " "
                span.args { (shorten(&arguments, MAX_SUMMARY_CHARS)) } " "
                @match result {
                    None => (draw_badge("waiting", "no result yet")),
                    Some((_, true)) => (draw_badge("error", "failed")),
                    Some((_, false)) => (draw_badge("ok", "done")),
                }
            }
            h3 { "Arguments" }
            (draw_arguments(&call.arguments))
            @if let Some((text, _)) = result {
                h3 { "Result" }
                pre.code tabindex="0" { (draw_text(text.trim_end())) }
            }
        }
    }
}
