use std::sync::Arc;
use std::time::Duration;

use skillhost_tasks::{
    ClaimFilter, Decider, Decision, NewTask, SqliteQueue, TaskClaim, TaskKind, WaitOutcome,
};

use super::*;

/// A claimed task with its queue.
struct ClaimedRun {
    queue: TaskQueue,
    task: TaskId,
    /// Removed at the end.
    _directory: tempfile::TempDir,
}

impl ClaimedRun {
    async fn start() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let queue = TaskQueue::new(Arc::new(SqliteQueue::in_directory(directory.path())));
        let new = NewTask::new(TaskKind::Agent, "worker", "Do it");
        let task = queue.submit(new).await.unwrap().task.id;
        Self { queue, task, _directory: directory }
    }

    /// Returns the channel of the next attempt.
    fn channel(&self) -> TaskChannel {
        TaskChannel::new(self.queue.clone(), self.task.clone())
    }

    /// Requests an approval; a parked one is asked for in the store.
    async fn request(&self, channel: &TaskChannel, arguments: &str) -> ApprovalDecision {
        let request = ApprovalRequest {
            agent_id: "worker".into(),
            tool: "write_file".into(),
            extension: "core_tools".into(),
            arguments: arguments.into(),
            destructive: false,
            always: false,
            details: None,
            call_key: Some("k1".into()),
            effect_digest: None,
            extension_sha256: None,
            can_park: true,
        };
        let decision = channel.request_approval(&request).await;
        if decision == ApprovalDecision::Parked {
            let lease = Duration::from_secs(60);
            let filter = ClaimFilter::default();
            let claimed = self.queue.claim("w1", filter, 1, lease).await.unwrap().remove(0).task;
            let claim = TaskClaim { task: claimed.id, epoch: claimed.epoch };
            let waits = self.queue.wait(claim, channel.take_wait()).await.unwrap();
            assert!(matches!(waits, WaitOutcome::Parked(_)), "{waits:?}");
        }
        decision
    }

    async fn open_question(&self) -> Question {
        let mut open = self.queue.open_questions(10).await.unwrap();
        assert_eq!(open.len(), 1, "{open:?}");
        open.remove(0)
    }

    async fn decide(&self, choice: &str, reason: Option<&str>) {
        let question = self.open_question().await;
        let decision = Decision {
            question: question.id,
            digest: question.digest,
            choice: choice.into(),
            reason: reason.map(str::to_owned),
            decider: Decider { name: "operator".into(), surface: "inbox".into() },
        };
        self.queue.decide(decision).await.unwrap();
    }
}

#[tokio::test]
async fn replaced_question_is_asked_again() {
    let run = ClaimedRun::start().await;
    assert_eq!(run.request(&run.channel(), "1").await, ApprovalDecision::Parked);
    let first = run.open_question().await;
    run.queue.withdraw(&first.id, "the file has changed").await.unwrap();
    // The next attempt asks about other bytes, whose question is approved.
    assert_eq!(run.request(&run.channel(), "2").await, ApprovalDecision::Parked);
    run.decide("approve", None).await;
    assert_eq!(run.request(&run.channel(), "2").await, ApprovalDecision::Once);
    // Neither the old withdrawal nor the approval of other bytes decides about the first ones.
    assert_eq!(run.request(&run.channel(), "1").await, ApprovalDecision::Parked);
    let again = run.open_question().await;
    assert!(again.id != first.id && again.digest == first.digest, "{again:?}");
}

#[tokio::test]
async fn declined_question_is_a_refusal() {
    let run = ClaimedRun::start().await;
    assert_eq!(run.request(&run.channel(), "1").await, ApprovalDecision::Parked);
    run.queue.withdraw(&run.open_question().await.id, "mcp:x declined to answer").await.unwrap();
    let decision = run.request(&run.channel(), "1").await;
    let ApprovalDecision::Refuse { reason } = decision else { panic!("{decision:?}") };
    assert_eq!(reason, "the question was not decided: mcp:x declined to answer");
}

#[tokio::test]
async fn changed_call_has_own_question() {
    let run = ClaimedRun::start().await;
    assert_eq!(run.request(&run.channel(), "1").await, ApprovalDecision::Parked);
    run.decide("edit", Some("2")).await;
    let channel = run.channel();
    let edited = ApprovalDecision::Edited { arguments: "2".into() };
    assert_eq!(run.request(&channel, "1").await, edited);
    assert_eq!(run.request(&channel, "2").await, ApprovalDecision::Parked);
    run.decide("approve", None).await;
    // A later attempt finds both decisions.
    let channel = run.channel();
    assert_eq!(run.request(&channel, "1").await, edited);
    assert_eq!(run.request(&channel, "2").await, ApprovalDecision::Once);
}
