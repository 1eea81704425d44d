//! The overview: what waits, what runs, what failed, and the health of the kernel.

use maud::{Markup, html};
use skillhost_control::{ControlRequest, KernelStatus};
use skillhost_tasks::{Task, TaskFilter, TaskState};

use crate::error::PageResult;
use crate::layout::{NavEntry, draw_badge, draw_empty, draw_facts};
use crate::pages::inbox::draw_question_rows;
use crate::pages::tasks::draw_task_table;
use crate::visible_text::{draw_error_text, draw_text, format_duration};
use crate::visit::Visit;

/// The number of rows of each part.
const MAX_ROWS: usize = 5;
/// The number of hours that the chart shows.
const HOURS: usize = 24;
const HOUR_MS: u64 = 60 * 60 * 1000;
/// The number of tasks that the chart counts at most.
const MAX_COUNTED: usize = 1000;
/// The size of a bar of the chart.
const BAR: usize = 12;
const HEIGHT: usize = 80;

pub(crate) async fn show_overview(visit: Visit) -> PageResult {
    let status: KernelStatus = visit.request(ControlRequest::Status).await?;
    let now_ms = visit.now_ms().await?;
    let queue = visit.queue();
    let questions = queue.open_questions(MAX_ROWS).await.map_err(to_error)?;
    let list = |states: &[TaskState], limit| {
        queue.list(TaskFilter { states: states.to_vec(), limit, ..TaskFilter::default() })
    };
    let running = list(&[TaskState::Running], MAX_ROWS).await.map_err(to_error)?;
    let failed = list(&[TaskState::Failed], MAX_ROWS).await.map_err(to_error)?;
    // Limited: the chart of a busy home must not read every task.
    let ended = list(&[TaskState::Completed, TaskState::Failed], MAX_COUNTED);
    let ended = ended.await.map_err(to_error)?;
    let count = |state: TaskState| status.tasks.get(state.as_str()).copied().unwrap_or_default();
    let body = html! {
        h1 { "Overview" }
        div #overview data-live="" {
            ul.tiles {
                li { a href="/inbox" { strong { (status.open_questions) } " waiting for you" } }
                li { a href="/tasks?state=running" {
                    strong { (count(TaskState::Running)) } " tasks running"
                } }
                li { a href="/tasks?state=waiting" {
                    strong { (count(TaskState::Waiting)) } " tasks waiting"
                } }
                li { a href="/tasks?state=failed" {
                    strong { (count(TaskState::Failed)) } " tasks failed"
                } }
            }
            section {
                h2 { "Waiting for you" }
                @if questions.is_empty() {
                    (draw_empty("No question is open."))
                } @else {
                    (draw_question_rows(&questions, now_ms))
                    @if status.open_questions > questions.len() {
                        p { a href="/inbox" { "All " (status.open_questions) " questions" } }
                    }
                }
            }
            div.columns {
                section {
                    h2 { "Running" }
                    @if running.is_empty() { (draw_empty("No task is running.")) }
                    @else { (draw_task_table(&running, now_ms)) }
                }
                section {
                    h2 { "Failed last" }
                    @if failed.is_empty() { (draw_empty("No task has failed.")) }
                    @else { (draw_task_table(&failed, now_ms)) }
                }
            }
            section {
                h2 { "Tasks of the last 24 hours" }
                (draw_chart(&ended, now_ms))
            }
            (draw_health(&status))
        }
    };
    Ok(visit.page(NavEntry::Overview, "Overview", &body).await)
}

fn to_error(error: skillhost_tasks::QueueError) -> crate::error::ConsoleError {
    skillhost_payload::CallError::from(error).into()
}

/// Counts the tasks that completed and that failed in each hour, the oldest hour first.
fn count_hours(tasks: &[Task], now_ms: u64) -> [(usize, usize); HOURS] {
    let mut hours = [(0, 0); HOURS];
    for task in tasks {
        let Some(ended_ms) = task.ended_ms else { continue };
        // A clock that was set back makes the age negative; then it is the newest hour.
        let age = usize::try_from(now_ms.saturating_sub(ended_ms) / HOUR_MS).unwrap_or(HOURS);
        let Some(hour) = HOURS.checked_sub(age + 1).and_then(|at| hours.get_mut(at)) else {
            continue;
        };
        match task.state {
            TaskState::Failed => hour.1 += 1,
            // The filter has no other states.
            _ => hour.0 += 1,
        }
    }
    hours
}

/// Draws the ended tasks per hour. The sentence below has the same numbers for those who do not see
/// the bars.
fn draw_chart(tasks: &[Task], now_ms: u64) -> Markup {
    let hours = count_hours(tasks, now_ms);
    let highest = hours.iter().map(|(good, bad)| good + bad).max().unwrap_or_default().max(1);
    // Room for the line of a bar at the full height.
    let scale = |count: usize| count * (HEIGHT - 4) / highest;
    let (good, bad) = hours.iter().fold((0, 0), |(good, bad), hour| (good + hour.0, bad + hour.1));
    let view = format!("0 0 {} {}", HOURS * BAR, HEIGHT + 2);
    html! {
        figure.chart {
            svg viewBox=(view) preserveAspectRatio="none" role="img" aria-label={ (good) " tasks completed, " (bad) " failed" } {
                line.axis x1="0" y1=(HEIGHT) x2=(HOURS * BAR) y2=(HEIGHT) {}
                @for (at, (good, bad)) in hours.iter().enumerate() {
                    @let (high, low) = (scale(*good), scale(*bad));
                    @if *good > 0 {
                        // At least two units, so that a single task among many remains visible.
                        rect.good x=(at * BAR + 1) y=(HEIGHT - high.max(2)) width=(BAR - 2)
                            height=(high.max(2)) {}
                    }
                    @if *bad > 0 {
                        rect.bad x=(at * BAR + 1) y=(HEIGHT - (high + low).max(2)) width=(BAR - 2)
                            height=(low.max(2)) {}
                    }
                }
            }
            // Of use only with the bars.
            p.scale aria-hidden="true" { span { (HOURS) " h ago" } span { "now" } }
            figcaption {
                (good) " completed, " (bad) " failed"
                @if tasks.len() == MAX_COUNTED { "; only the newest " (MAX_COUNTED) " are counted" }
            }
        }
    }
}

fn draw_health(status: &KernelStatus) -> Markup {
    let problems = find_problems(status);
    html! {
        section {
            h2 { "Kernel" }
            @if problems.is_empty() {
                p { (draw_badge("ok", "healthy")) " All extensions and agents are loaded." }
            } @else {
                ul.problems {
                    @for (text, hint) in &problems {
                        li {
                            (draw_badge("error", "problem")) " " (draw_error_text(text))
                            @if !hint.is_empty() { p.hint { (draw_error_text(hint)) } }
                        }
                    }
                }
            }
            (draw_facts(&[
                ("Home", html! { code { (draw_text(&status.home.display().to_string())) } }),
                ("Version", html! { (status.version) }),
                ("Running for", html! { (format_duration(status.uptime_ms)) }),
                ("Supervised", html! { (if status.supervised { "yes" } else { "no" }) }),
                ("Model", html! { (draw_text(&status.model)) }),
                ("Extensions", html! { a href="/extensions" { (status.extensions.len()) } }),
                ("Agents", html! { (status.agents.len()) }),
            ]))
        }
    }
}

/// Returns what is wrong with the kernel, each with its remedy.
fn find_problems(status: &KernelStatus) -> Vec<(String, String)> {
    let rejected = status.rejected.iter();
    let mut problems: Vec<_> = rejected
        .map(|it| (format!("{} is not loaded: {}", it.id, it.reason), it.hint.clone()))
        .collect();
    let agents = status.agents.iter().filter_map(|agent| {
        let problem = agent.problem.as_ref()?;
        Some((format!("agent {}: {problem}", agent.id), String::new()))
    });
    problems.extend(agents);
    let notices = &status.notices;
    let pending = notices.invalid_settings.iter().chain(&notices.pending);
    problems.extend(pending.map(|it| (format!("{}: {}", it.subject, it.reason), it.hint.clone())));
    // The keys of providers that no agent uses are no problem; that of the default model is.
    problems.extend(status.model_problem.clone().map(|problem| (problem, String::new())));
    let tasks = status.task_problem.clone();
    problems.extend(tasks.map(|error| (format!("tasks: {}", error.message), error.hint)));
    problems
}
