//! Texts about tasks that several commands print.

use skillhost_payload::format_second;
use skillhost_tasks::{
    FailureReason, SubmitterOrigin, Task, TaskAmounts, TaskBudget, TaskOutcome, TaskState,
};
use skillhost_terminal::{BOLD, DIM, GREEN, RED, YELLOW, display_safe};

use crate::duration::format_duration;

/// Returns the style of a state.
pub(crate) fn state_style(state: TaskState) -> anstyle::Style {
    match state {
        TaskState::Completed => GREEN,
        TaskState::Failed => RED,
        TaskState::Waiting => YELLOW,
        TaskState::Running => BOLD,
        TaskState::Ready | TaskState::Cancelled => DIM,
    }
}

/// Formats the state of a task, with the reason why it is not running.
pub(crate) fn describe_state(task: &Task, now_ms: u64) -> String {
    let state = task.state.as_str();
    match task.state {
        TaskState::Ready if task.due_ms > now_ms => {
            let verb = if task.is_backoff { "retried" } else { "due" };
            format!("{state}, {verb} at {} UTC", format_time(task.due_ms))
        }
        TaskState::Running if task.cancel.is_some() => format!("{state}, to be cancelled"),
        _ => state.to_owned(),
    }
}

/// Formats the end of a task on one line; `None` for a task that has not ended, or has completed.
pub(crate) fn describe_failure(task: &Task) -> Option<String> {
    match task.outcome.as_ref()? {
        TaskOutcome::Completed { .. } => None,
        TaskOutcome::Failed { reason, message, .. } => {
            let message = one_line(message);
            Some(format!("{}: {message}", reason_name(*reason)))
        }
        TaskOutcome::Cancelled { by } => Some(format!("by {}", one_line(by))),
    }
}

/// Formats the submitter of a task on one line.
pub(crate) fn describe_submitter(task: &Task) -> String {
    let submitter = &task.submitter;
    let origin = match submitter.origin {
        SubmitterOrigin::Operator => "operator",
        SubmitterOrigin::Agent => "agent",
        SubmitterOrigin::Extension => "extension",
        SubmitterOrigin::Mcp => "MCP client",
        SubmitterOrigin::Schedule => "schedule",
        SubmitterOrigin::Event => "event",
    };
    match submitter.agent.as_ref().or(submitter.principal.as_ref()) {
        Some(name) => format!("{origin} {}", one_line(name)),
        None => origin.to_owned(),
    }
}

/// Returns the name of a reason, as in JSON.
fn reason_name(reason: FailureReason) -> String {
    // By its serialization: a new reason has a name at once.
    serde_json::to_value(reason)
        .ok()
        .and_then(|name| name.as_str().map(str::to_owned))
        .unwrap_or_default()
}

/// Formats the spent amounts with their limits; amounts of 0 without a limit are left out.
pub(crate) fn describe_amounts(spent: &TaskAmounts, budget: &TaskBudget) -> String {
    let count = |unit: &str| {
        let unit = unit.to_owned();
        move |amount: u64| format!("{amount} {unit}")
    };
    let parts = [
        describe_amount(spent.turns, budget.turns, count("turns")),
        describe_amount(spent.tokens, budget.tokens, count("tokens")),
        describe_amount(spent.time_ms, budget.time_ms, format_duration),
        describe_amount(spent.cost, budget.cost, format_dollars),
    ];
    let parts: Vec<String> = parts.into_iter().flatten().collect();
    if parts.is_empty() { "nothing".to_owned() } else { parts.join(", ") }
}

fn describe_amount(
    spent: u64,
    limit: Option<u64>,
    format: impl Fn(u64) -> String,
) -> Option<String> {
    match limit {
        Some(limit) => Some(format!("{} of {}", format(spent), format(limit))),
        None => (spent > 0).then(|| format(spent)),
    }
}

/// Formats millionths of a dollar, with at least two decimals.
fn format_dollars(millionths: u64) -> String {
    let decimals = format!("{:06}", millionths % 1_000_000);
    let shown = decimals.trim_end_matches('0');
    format!("${}.{shown:0<2}", millionths / 1_000_000)
}

/// Formats a time in milliseconds since 1970, to the second.
pub(crate) fn format_time(ms: u64) -> String {
    format_second(i64::try_from(ms).unwrap_or(i64::MAX))
}

/// Formats the time since a moment.
pub(crate) fn format_age(since_ms: u64, now_ms: u64) -> String {
    format_duration(now_ms.saturating_sub(since_ms))
}

/// Makes an untrusted text printable on one line.
pub(crate) fn one_line(text: &str) -> String {
    display_safe(text).replace(['\n', '\t'], " ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts_have_limits() {
        let spent = TaskAmounts { turns: 3, tokens: 0, time_ms: 61_000, cost: 1_204_000 };
        let budget =
            TaskBudget { turns: Some(30), tokens: Some(200), time_ms: None, cost: Some(5_000_000) };
        assert_eq!(
            describe_amounts(&spent, &budget),
            "3 turns of 30 turns, 0 tokens of 200 tokens, 1 min 1 s, $1.204 of $5.00"
        );
        assert_eq!(describe_amounts(&TaskAmounts::default(), &TaskBudget::default()), "nothing");
    }
}
