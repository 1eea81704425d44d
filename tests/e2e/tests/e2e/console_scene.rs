//! Homes of the console tests: rows of every kind, written before the kernel starts or beside it.

use std::time::Duration;

use mock_model::MockModel;
use serde_json::{Value, json};
use skillhost_events::{Clock, Journal, NewEvent, ScheduleRun, Subscriber};
use skillhost_tasks::{
    ClaimFilter, NewQuestion, NewTask, QuestionKind, TaskAmounts, TaskId, TaskOutcome,
};

use crate::channel_scene::pairing_code;
use crate::fixtures::shipped_manifest;
use crate::home_queue::HomeQueue;
use crate::mailbox::Mailbox;

/// The schedule whose runs a scene records.
const SCHEDULE: &str = "echo/hello";
const DAY_MS: u64 = 86_400_000;

/// A home with a channel, and its stores.
pub(crate) struct ConsoleScene {
    pub(crate) mailbox: Mailbox,
    pub(crate) queue: HomeQueue,
    journal: Journal,
    runtime: tokio::runtime::Runtime,
}

impl ConsoleScene {
    pub(crate) fn new(mock: &MockModel) -> Self {
        let mailbox = Mailbox::new(mock, "tasks: {live_ms: 300}\n");
        let home = &mailbox.home;
        // Once a year, so that no run starts during a test.
        let schedule = "schedules: [{name: hello, cron: '0 4 29 2 *', tool: echo, \
                        arguments: {text: Hi}}]\n";
        home.write("manifests/echo/manifest.yaml", shipped_manifest("echo") + schedule);
        let journal = Journal::new(home.path("sandbox/data/kernel/events.db"), Clock::system());
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let queue = HomeQueue::open(home);
        // Creates the file of people.
        pairing_code(home, "mailbox", skillhost_control::ChannelRole::Owner);
        Self { mailbox, queue, journal, runtime }
    }

    /// Runs a task to its end; without a kernel, nothing else claims it.
    pub(crate) fn end_task(&self, new: NewTask, lines: &[Value], outcome: TaskOutcome) -> TaskId {
        let id = self.queue.submit(new).id;
        let spent =
            TaskAmounts { tokens: 8120, turns: 4, time_ms: 21_400, ..TaskAmounts::default() };
        let lines = lines.iter().map(Value::to_string).collect();
        self.queue.runtime.block_on(async {
            let queue = &self.queue.queue;
            let (filter, lease) = (ClaimFilter::default(), Duration::from_secs(60));
            let claimed = queue.claim("scene", filter, 1, lease).await.unwrap().remove(0);
            assert_eq!(claimed.task.id, id);
            let claim = claimed.task.current_claim().unwrap();
            queue.record(claim.clone(), lines, spent, None).await.unwrap();
            queue.finish(claim, outcome, TaskAmounts::default()).await.unwrap();
        });
        id
    }

    /// Asks a question that no task waits for; returns its id.
    pub(crate) fn ask(
        &self,
        kind: QuestionKind,
        title: &str,
        subject: &Value,
        options: &[String],
    ) -> String {
        let new = NewQuestion {
            id: TaskId::generate().to_string(),
            thread: None,
            kind,
            asker: "worker".into(),
            call: TaskId::generate().to_string(),
            title: title.into(),
            subject: subject.to_string(),
            options: options.to_vec(),
        };
        self.queue.runtime.block_on(self.queue.queue.ask(new)).unwrap().id
    }

    pub(crate) fn publish(&self, topic: &str, payload: &Value) {
        let payload = serde_json::value::to_raw_value(payload).unwrap();
        let event = NewEvent {
            topic: topic.into(),
            source: "echo".into(),
            payload,
            correlation_id: None,
            key: None,
        };
        self.runtime.block_on(self.journal.append(event)).unwrap();
    }

    /// Publishes an event whose delivery has failed for good.
    pub(crate) fn fail_delivery(&self, payload: &Value, error: &str) {
        self.runtime.block_on(async {
            let subscriber = Subscriber::new("bad:work:custom", "work");
            self.journal.set_subscribers(vec![subscriber]).await.unwrap();
        });
        self.publish("work", payload);
        self.runtime.block_on(async {
            let claimed = self.journal.claim_due().await.unwrap();
            for delivery in claimed.deliveries {
                self.journal.fail(delivery.id, error, None).await.unwrap();
            }
        });
    }

    pub(crate) fn record_run(&self, error: Option<&str>) {
        let now = u64::try_from(std::time::UNIX_EPOCH.elapsed().unwrap().as_millis()).unwrap();
        let started_ms = now - DAY_MS;
        let run = ScheduleRun {
            due_ms: started_ms,
            started_ms,
            ended_ms: Some(started_ms + 1_234),
            error: error.map(str::to_owned),
        };
        self.runtime.block_on(self.journal.record_run(SCHEDULE, run)).unwrap();
    }

    /// Pairs a person without a message of theirs.
    pub(crate) fn add_person(&self, id: &str, name: &str, role: &str) {
        let path = self.mailbox.home.path("sandbox/data/kernel/channels.db");
        let file = rusqlite::Connection::open(path).unwrap();
        let now = u64::try_from(std::time::UNIX_EPOCH.elapsed().unwrap().as_millis()).unwrap();
        let agents = if role == "guest" { json!(["worker"]) } else { json!([]) };
        file.execute(
            "INSERT INTO peers (channel, id, role, agents, name, chat, paired_ms)
             VALUES ('mailbox', ?1, ?2, ?3, ?4, ?1, ?5)",
            rusqlite::params![id, role, agents.to_string(), name, i64::try_from(now).unwrap()],
        )
        .unwrap();
    }
}
