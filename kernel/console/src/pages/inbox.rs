//! The inbox: questions to the operator, each decided once and for exactly the bytes shown.

use axum::extract::Path;
use axum::http::StatusCode;
use maud::{Markup, html};
use skillhost_control::QuestionDecision;
use skillhost_payload::{CallError, ErrorKind};
use skillhost_tasks::{Question, QuestionKind, QuestionState};

use crate::error::{ConsoleError, PageResult};
use crate::form_fields::path_with;
use crate::layout::{NavEntry, draw_badge, draw_empty, draw_facts};
use crate::subject_view::draw_subject;
use crate::visible_text::{draw_age, draw_text, draw_time, shorten};
use crate::visit::{Visit, redirect_to};

/// The name of this surface, as decisions store it.
const SURFACE: &str = "console";
/// The number of questions on the page.
const MAX_QUESTIONS: usize = 100;
/// The number of characters of a title in a list.
const MAX_TITLE_CHARS: usize = 160;

const APPROVE: &str = "approve";
const REFUSE: &str = "refuse";
const EDIT: &str = "edit";

/// Returns the name of who asks; the operator has none.
fn asker_of(question: &Question) -> &str {
    if question.asker.is_empty() { "operator" } else { &question.asker }
}

pub(crate) async fn list_questions(visit: Visit) -> PageResult {
    let problem = visit.kernel().refresh_proposals().await.err();
    let now_ms = visit.now_ms().await?;
    let questions = visit.queue().open_questions(MAX_QUESTIONS).await.map_err(CallError::from)?;
    let body = html! {
        h1 { "Inbox" }
        // A library of an earlier version does not list its proposals.
        @if let Some(error) = problem.filter(|error| error.kind != ErrorKind::Unavailable) {
            p.warning { "Proposals may be out of date: " (draw_text(&error.message)) }
        }
        div #inbox data-live="" {
            @if questions.is_empty() {
                (draw_empty("No question is open. Agents, extensions and proposals that need your \
                             decision appear here."))
            } @else {
                (draw_question_rows(&questions, now_ms))
                @if questions.len() == MAX_QUESTIONS {
                    p.hint { "Only the " (MAX_QUESTIONS) " oldest questions are listed." }
                }
            }
        }
    };
    Ok(visit.page(NavEntry::Inbox, "Inbox", &body).await)
}

/// Draws the mark of a kind, by the word for people.
pub(crate) fn draw_kind(kind: QuestionKind) -> Markup {
    let label = match kind {
        QuestionKind::Consent => "approval",
        QuestionKind::Choice => "question",
        kind => kind.as_str(),
    };
    draw_badge(kind.as_str(), label)
}

/// Draws questions as a list of links.
pub(crate) fn draw_question_rows(questions: &[Question], now_ms: u64) -> Markup {
    html! {
        ul.cards {
            @for question in questions {
                li {
                    a href=(path_with("/inbox/", &question.id)) {
                        span.title { (draw_text(&shorten(&question.title, MAX_TITLE_CHARS))) }
                    }
                    p.meta {
                        (draw_kind(question.kind))
                        span { "from " (draw_text(asker_of(question))) }
                        @match question.state {
                            QuestionState::Open => {
                                span { "asked " (draw_age(question.opened_ms, now_ms)) " ago" }
                            }
                            _ => span { (describe_closure(question)) },
                        }
                    }
                }
            }
        }
    }
}

pub(crate) async fn show_question(visit: Visit, Path(id): Path<String>) -> PageResult {
    let question = find_question(&visit, &id).await?;
    let body = draw_question_page(&visit, &question, None).await?;
    Ok(visit.page(entry_of(&question), "Question", &body).await)
}

fn entry_of(question: &Question) -> NavEntry {
    match question.kind {
        QuestionKind::Proposal => NavEntry::Proposals,
        _ => NavEntry::Inbox,
    }
}

async fn find_question(visit: &Visit, id: &str) -> Result<Question, ConsoleError> {
    let found = visit.queue().question(id).await.map_err(CallError::from)?;
    found.ok_or_else(|| ConsoleError::not_found("this question"))
}

/// Decides a question for the bytes that the form names.
pub(crate) async fn decide_question(visit: Visit, Path(id): Path<String>) -> PageResult {
    let question = find_question(&visit, &id).await?;
    let choice = visit.form.get("choice").to_owned();
    let reason = match &*choice {
        // The new arguments, which the kernel checks and asks about again.
        EDIT => Some(visit.form.text("arguments")),
        _ => visit.form.filled("reason").map(|reason| reason.replace("\r\n", "\n")),
    };
    let choice = match question.kind {
        // Without options, the text itself is the answer.
        QuestionKind::Choice if question.options.is_empty() => visit.form.text("text"),
        _ => choice,
    };
    if choice.is_empty() {
        let message = "an answer is required";
        return Err(ConsoleError::new(StatusCode::BAD_REQUEST, message, "go back and choose one"));
    }
    // The digest of the page that was shown, not that of the row as it is now.
    let digest = visit.form.get("digest").to_owned();
    let decision = QuestionDecision { question: id.clone(), digest, choice, reason };
    match visit.kernel().decide_question(decision, SURFACE).await {
        Ok(_) => Ok(redirect_to(&path_with("/inbox/", &id))),
        Err(error) if error.kind == ErrorKind::Conflict => {
            // Drawn from the row as it is now: who decided, or the bytes that it asks about.
            let question = find_question(&visit, &id).await?;
            let body = draw_question_page(&visit, &question, Some(&error)).await?;
            let entry = entry_of(&question);
            Ok(visit.page_with(StatusCode::CONFLICT, entry, "Question", &body).await)
        }
        Err(error) => Err(error.into()),
    }
}

async fn draw_question_page(
    visit: &Visit,
    question: &Question,
    conflict: Option<&CallError>,
) -> Result<Markup, ConsoleError> {
    let now_ms = visit.now_ms().await?;
    let is_open = question.state == QuestionState::Open;
    let task = question.task.as_ref().map(|task| task.to_string());
    let mut facts = vec![
        ("Asked by", draw_text(asker_of(question))),
        (
            "Asked",
            html! { (draw_time(question.opened_ms)) ", " span.unbroken { (draw_age(question.opened_ms, now_ms)) " ago" } },
        ),
    ];
    if let Some(task) = &task {
        facts.push(("Task", html! { a href=(path_with("/tasks/", task)) { (task) } }));
    }
    if let Some(thread) = &question.thread {
        facts.push((
            "Thread",
            html! { a href=(path_with("/threads/", thread)) { (draw_text(thread)) } },
        ));
    }
    facts.push(("Digest", html! { code.digest { (question.digest) } }));
    Ok(html! {
        p.crumbs {
            @match question.kind {
                QuestionKind::Proposal => a href="/proposals" { "Proposals" },
                _ => a href="/inbox" { "Inbox" },
            }
        }
        h1 { (draw_text(&question.title)) }
        @if let Some(error) = conflict {
            div.warning role="alert" {
                strong { "Your decision does not count. " }
                (draw_text(&error.message))
                @if is_open { p { "Look at the question as it is now, and decide again." } }
            }
        }
        // Read again when it changes: a decision on another surface removes the buttons.
        div #question data-live="" {
            p { (draw_kind(question.kind)) " "
                @if !is_open { (describe_closure(question)) } }
            (draw_facts(&facts))
            section {
                h2 { "Subject" }
                (draw_subject(&question.subject))
            }
            @if is_open { (draw_decision_form(visit, question)) }
        }
    })
}

/// Describes how a question ceased to be open: who decided, where and when.
fn describe_closure(question: &Question) -> Markup {
    let when = html! { @if let Some(ms) = question.closed_ms { ", " (draw_time(ms)) } };
    let reason = question.reason.as_deref().filter(|reason| !reason.is_empty());
    html! {
        @match question.state {
            QuestionState::Open => "open",
            QuestionState::Withdrawn => { "withdrawn" (when) }
            QuestionState::Expired => { "expired" (when) }
            QuestionState::Decided => {
                @let choice = question.choice.as_deref().unwrap_or_default();
                @let decider = question.decider.clone().unwrap_or_default();
                "decided as " strong { (draw_text(choice)) } " by " (draw_text(&decider.name))
                " on " (draw_text(&decider.surface)) (when)
            }
        }
        @if let Some(reason) = reason { ": " (draw_text(reason)) }
    }
}

/// Draws the buttons of a question. The reason is a field of several lines, so that no key in it
/// presses a button.
pub(crate) fn draw_decision_form(visit: &Visit, question: &Question) -> Markup {
    let path = path_with("/inbox/", &question.id);
    let hidden = html! {
        (visit.csrf_field())
        input type="hidden" name="digest" value=(question.digest);
    };
    let id = &question.id;
    let is_answer = matches!(question.kind, QuestionKind::Choice);
    let can_approve = question.options.iter().any(|option| option == APPROVE);
    let is_approval = !is_answer && question.kind != QuestionKind::Uncertain;
    html! {
        section.decision aria-label="Decision" {
            h2 { "Decide" }
            @if is_approval && !can_approve {
                p.warning { "This can only be refused here; the subject names the reason and the next \
                             step." }
            }
            @if is_answer && question.options.is_empty() {
                form method="post" action=(path) {
                    (hidden)
                    label for={ "text-" (id) } { "Answer" }
                    textarea #{ "text-" (id) } name="text" rows="4" required {}
                    button.primary type="submit" { "Send the answer" }
                }
            } @else {
                form method="post" action=(path) {
                    (hidden)
                    @if is_approval {
                        label for={ "reason-" (id) } { "Reason " span.hint { "(optional)" } }
                        textarea #{ "reason-" (id) } name="reason" rows="2" {}
                    }
                    div.buttons {
                        @for option in question.options.iter().filter(|option| *option != EDIT) {
                            button type="submit" name="choice" value=(option)
                                class=(button_class(question.kind, option)) {
                                (draw_text(option_label(question.kind, option)))
                            }
                        }
                    }
                }
            }
            @if is_approval && question.options.iter().any(|option| option == EDIT) {
                details {
                    summary { "Change the arguments instead" }
                    form method="post" action=(path) {
                        (hidden)
                        label for={ "arguments-" (id) } { "Arguments, as JSON" }
                        textarea.code #{ "arguments-" (id) } name="arguments" rows="8" spellcheck="false" {
                            "\n" (arguments_of(question))
                        }
                        button type="submit" name="choice" value=(EDIT) { "Ask again with these" }
                    }
                }
            }
        }
    }
}

/// Returns the arguments of a call, pretty-printed if that keeps them.
fn arguments_of(question: &Question) -> String {
    let subject: serde_json::Value = serde_json::from_str(&question.subject).unwrap_or_default();
    let arguments = subject["arguments"].as_str().unwrap_or_default();
    let parsed: Result<serde_json::Value, _> = serde_json::from_str(arguments);
    let pretty = parsed.ok().and_then(|value| serde_json::to_string_pretty(&value).ok());
    pretty.unwrap_or_else(|| arguments.to_owned())
}

/// Returns the text of a button. Options of agents are shown as they are.
fn option_label(kind: QuestionKind, option: &str) -> &str {
    match (kind, option) {
        (QuestionKind::Choice, option) => option,
        (_, APPROVE) => "Approve",
        (_, REFUSE) => "Refuse",
        (_, "session") => "Approve for the whole run",
        (_, "happened") => "It happened",
        (_, "again") => "Do it again",
        (_, "stop") => "Give up",
        (_, option) => option,
    }
}

fn button_class(kind: QuestionKind, option: &str) -> &'static str {
    match (kind, option) {
        (QuestionKind::Choice, _) => "plain",
        (_, APPROVE) => "primary",
        (_, REFUSE | "stop") => "danger",
        _ => "plain",
    }
}
