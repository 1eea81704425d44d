//! The outcomes of tasks that fail, with their remedies.

use skillhost_agents::ExhaustedLimit;
use skillhost_payload::OperatorCommand;
use skillhost_tasks::{FailureReason, SubmitterOrigin, Task, TaskOutcome};

/// Returns the outcome of a task with an error.
pub(crate) fn error_outcome(message: &str, hint: &str) -> TaskOutcome {
    let (reason, message) = (FailureReason::Error, message.to_owned());
    TaskOutcome::Failed { reason, message, hint: hint.to_owned() }
}

/// Returns the outcome of a task whose target cannot be used.
pub(crate) fn target_outcome(task: &Task, message: &str, hint: &str) -> TaskOutcome {
    let (reason, message) = (FailureReason::Target, message.to_owned());
    let see = match hint {
        "" => format!("see: {}", OperatorCommand::CheckExtensions),
        hint => hint.to_owned(),
    };
    let retry = OperatorCommand::RetryTask { id: task.id.as_str() };
    TaskOutcome::Failed { reason, message, hint: format!("{see}; then run: {retry}") }
}

/// Returns the outcome of a task whose run has reached a limit: one of the task, or of its agent.
pub(crate) fn budget_outcome(task: &Task, limit: ExhaustedLimit) -> TaskOutcome {
    let budget = &task.budget;
    let (option, of_task) = match limit {
        ExhaustedLimit::Turns(limit) => ("turns", budget.turns == Some(limit.into())),
        ExhaustedLimit::Tokens(limit) => ("tokens", budget.tokens == Some(limit)),
        ExhaustedLimit::Time(limit) => ("time", budget.time_ms == Some(limit)),
        ExhaustedLimit::Cost(limit) => ("cost", budget.cost == Some(limit)),
    };
    let retry = OperatorCommand::RetryTask { id: task.id.as_str() };
    let starter = match task.submitter.origin {
        SubmitterOrigin::Schedule => Some("schedule"),
        SubmitterOrigin::Event => Some("subscription"),
        _ => None,
    };
    let hint = match (of_task, &task.parent, starter) {
        (true, None, Some(starter)) => format!(
            "raise `timeout_ms` of the {starter} in the manifest; this task continues with: {retry}"
        ),
        (true, None, None) => format!(
            "continue it with the same budget again: {retry}; or submit it with a larger \
             `--budget {option}=…`"
        ),
        (true, Some(_), _) => format!(
            "give the task above it a larger `--budget {option}=…`; or continue this one alone: \
             {retry}"
        ),
        (false, ..) => {
            let field = limit.field();
            format!("raise agent.limits.{field} in the manifest of the agent, then run: {retry}")
        }
    };
    let message = format!("budget of {limit} is exhausted");
    TaskOutcome::Failed { reason: FailureReason::Budget, message, hint }
}

#[cfg(test)]
mod tests {
    use skillhost_tasks::{MemoryQueue, NewTask, TaskBudget, TaskKind, TaskQueue};

    use super::*;

    async fn hint_of(limit: ExhaustedLimit) -> String {
        let queue = TaskQueue::new(std::sync::Arc::new(MemoryQueue::new(
            skillhost_events::Clock::new(|| 0),
        )));
        let budget = TaskBudget { turns: Some(3), ..TaskBudget::default() };
        let new = NewTask { budget, ..NewTask::new(TaskKind::Agent, "worker", "Work.") };
        let task = queue.submit(new).await.unwrap().task;
        match budget_outcome(&task, limit) {
            TaskOutcome::Failed { reason: FailureReason::Budget, hint, .. } => {
                hint.replace(task.id.as_str(), "ID")
            }
            other => panic!("{other:?}"),
        }
    }

    #[tokio::test]
    async fn hint_names_the_limit() {
        assert_eq!(
            hint_of(ExhaustedLimit::Turns(3)).await,
            "continue it with the same budget again: skillhost task retry ID; or submit it with a \
             larger `--budget turns=…`"
        );
        assert_eq!(
            hint_of(ExhaustedLimit::Turns(2)).await,
            "raise agent.limits.max_turns in the manifest of the agent, then run: skillhost task \
             retry ID"
        );
    }
}
