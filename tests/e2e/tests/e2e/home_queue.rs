//! The queue of a home, as tests read and change it beside the kernel.

use std::sync::Arc;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use skillhost_tasks::{
    Decider, Decision, DecisionOutcome, FailureReason, NewTask, Question, SqliteQueue, Task,
    TaskFilter, TaskId, TaskOutcome, TaskQueue, TaskState,
};
use test_support::{Background, STUCK_AFTER, TestHome};

/// The queue in the file of a home.
pub(crate) struct HomeQueue {
    pub(crate) queue: TaskQueue,
    pub(crate) runtime: tokio::runtime::Runtime,
}

impl HomeQueue {
    pub(crate) fn open(home: &TestHome) -> Self {
        let directory = home.path("sandbox/data/kernel");
        std::fs::create_dir_all(&directory).unwrap();
        let queue = TaskQueue::new(Arc::new(SqliteQueue::in_directory(&directory)));
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        Self { queue, runtime }
    }

    pub(crate) fn submit(&self, new: NewTask) -> Task {
        self.runtime.block_on(self.queue.submit(new)).unwrap().task
    }

    pub(crate) fn find(&self, id: &TaskId) -> Task {
        self.runtime.block_on(self.queue.find(id)).unwrap().unwrap()
    }

    /// Waits until a task satisfies a condition.
    pub(crate) fn wait_for(&self, id: &TaskId, condition: impl Fn(&Task) -> bool) -> Task {
        let start = Instant::now();
        loop {
            let task = self.find(id);
            if condition(&task) {
                return task;
            }
            assert!(start.elapsed() < STUCK_AFTER, "{task:#?}");
            let store = self.queue.store();
            self.runtime.block_on(store.wait_for_change(Duration::from_millis(200)));
        }
    }

    pub(crate) fn wait_for_end(&self, id: &TaskId) -> Task {
        self.wait_for(id, |task| task.state.is_terminal())
    }

    /// Returns the only task.
    pub(crate) fn only_task(&self) -> Task {
        let tasks = self.list();
        let [task] = tasks.as_slice() else { panic!("{tasks:#?}") };
        task.clone()
    }

    /// Returns the only task that waits for a worker.
    pub(crate) fn only_ready_task(&self) -> Task {
        let mut tasks = self.list();
        tasks.retain(|task| task.state == TaskState::Ready);
        let [task] = tasks.as_slice() else { panic!("{tasks:#?}") };
        task.clone()
    }

    /// Returns the only open question.
    pub(crate) fn only_question(&self) -> Question {
        let questions = self.runtime.block_on(self.queue.open_questions(10)).unwrap();
        let [question] = questions.as_slice() else { panic!("{questions:#?}") };
        question.clone()
    }

    /// Decides a question as the operator.
    pub(crate) fn decide(&self, question: &Question, choice: &str) {
        let decision = Decision {
            question: question.id.clone(),
            digest: question.digest.clone(),
            choice: choice.into(),
            reason: None,
            decider: Decider { name: "operator".into(), surface: "test".into() },
        };
        let decided = self.runtime.block_on(self.queue.decide(decision)).unwrap();
        assert!(matches!(decided, DecisionOutcome::Decided { .. }), "{decided:?}");
    }

    /// Cancels a task as the operator.
    pub(crate) fn cancel(&self, id: &TaskId) {
        self.runtime.block_on(self.queue.cancel(id.clone(), "operator")).unwrap();
    }

    /// Lists all tasks, the newest first.
    pub(crate) fn list(&self) -> Vec<Task> {
        self.runtime.block_on(self.queue.list(TaskFilter::default())).unwrap()
    }
}

pub(crate) fn result_of(task: &Task) -> &str {
    match &task.outcome {
        Some(TaskOutcome::Completed { text, .. }) => text,
        other => panic!("{other:?}"),
    }
}

pub(crate) fn failure_of(task: &Task) -> FailureReason {
    match &task.outcome {
        Some(TaskOutcome::Failed { reason, .. }) => *reason,
        other => panic!("{other:?}"),
    }
}

pub(crate) fn kill(kernel: Background) {
    let pid = Pid::from_raw(i32::try_from(kernel.id()).unwrap()).unwrap();
    kill_process(pid, Signal::KILL).unwrap();
    let _ = kernel.finish();
}
