//! Tests with a fake environment whose time is tokio's, which advances only while all tasks wait.

use std::collections::BTreeMap;

use tokio::sync::mpsc;
use tokio::time::Instant;

use super::*;

/// The behavior of a job in the fake environment.
#[derive(Clone, Copy)]
enum JobBehavior {
    Done,
    Fail,
    Take(Duration),
    Never,
}

struct FakeEnv {
    started_at: Instant,
    start_ms: u64,
    /// The offset of a clock that a test sets.
    set_ms: Mutex<i64>,
    schedules: Mutex<Vec<&'static str>>,
    behavior: Mutex<JobBehavior>,
    runs: Mutex<BTreeMap<String, ScheduleRun>>,
    /// The names of executed runs, and whether they were resumed.
    executed: Mutex<Vec<(String, bool)>>,
    events: mpsc::UnboundedSender<(String, String)>,
}

/// The published events, in order.
struct PublishedEvents(mpsc::UnboundedReceiver<(String, String)>);

impl PublishedEvents {
    async fn next(&mut self) -> (String, String) {
        self.0.recv().await.expect("the stage lives")
    }

    /// Returns every event until now.
    fn drain(&mut self) -> Vec<(String, String)> {
        std::iter::from_fn(|| self.0.try_recv().ok()).collect()
    }
}

fn at(time: &str) -> u64 {
    let time: jiff::Timestamp = time.parse().unwrap();
    u64::try_from(time.as_millisecond()).unwrap()
}

/// Creates an environment at a time, with schedules written as `extension/name pattern`.
fn fake_env(
    now: &str,
    schedules: &[&'static str],
    behavior: JobBehavior,
) -> (Arc<FakeEnv>, Arc<Scheduler>, PublishedEvents) {
    let (events, received) = mpsc::unbounded_channel();
    let env = FakeEnv {
        started_at: Instant::now(),
        start_ms: at(now),
        set_ms: Mutex::new(0),
        schedules: Mutex::new(schedules.to_vec()),
        behavior: Mutex::new(behavior),
        runs: Mutex::default(),
        executed: Mutex::default(),
        events,
    };
    (Arc::new(env), Arc::default(), PublishedEvents(received))
}

fn job(text: &str) -> ScheduledJob {
    let (id, pattern) = text.split_once(' ').unwrap();
    let (owner, name) = id.split_once('/').unwrap();
    let schedule = ScheduleSpec {
        name: name.to_owned(),
        cron: pattern.to_owned(),
        timezone: None,
        action: ScheduleAction::Task(name.to_owned()),
        timeout_ms: None,
    };
    // A schedule of `b` has a prompt.
    let action = match owner {
        "b" => ScheduleAction::Prompt(name.to_owned()),
        _ => schedule.action.clone(),
    };
    let schedule = ScheduleSpec { action, ..schedule };
    ScheduledJob::new(&ExtensionId::new(owner).unwrap(), &schedule).unwrap()
}

impl FakeEnv {
    fn store_run(&self, id: &str, due: &str, error: Option<&str>) {
        let run = ScheduleRun {
            due_ms: at(due),
            started_ms: at(due),
            ended_ms: Some(at(due)),
            error: error.map(str::to_owned),
        };
        self.runs.lock().unwrap().insert(id.to_owned(), run);
    }

    fn stored_run(&self, id: &str) -> (String, bool, Option<String>) {
        let run = self.runs.lock().unwrap()[id].clone();
        (format_utc(run.due_ms), run.ended_ms.is_some(), run.error)
    }
}

#[async_trait]
impl SchedulerEnv for FakeEnv {
    fn now_ms(&self) -> u64 {
        let passed = u64::try_from(self.started_at.elapsed().as_millis()).unwrap();
        (self.start_ms + passed).saturating_add_signed(*self.set_ms.lock().unwrap())
    }

    fn jobs(&self) -> Vec<ScheduledJob> {
        self.schedules.lock().unwrap().iter().map(|text| job(text)).collect()
    }

    async fn last_run(&self, id: &str) -> Option<ScheduleRun> {
        self.runs.lock().unwrap().get(id).cloned()
    }

    async fn record_run(&self, id: &str, run: ScheduleRun) {
        self.runs.lock().unwrap().insert(id.to_owned(), run);
    }

    fn is_task(&self, job: &ScheduledJob) -> bool {
        matches!(job.schedule.action, ScheduleAction::Prompt(_))
    }

    async fn run_job(&self, job: &ScheduledJob, run: &JobRun) -> Result<Option<String>, CallError> {
        self.executed.lock().unwrap().push((run.name.clone(), run.is_resumed));
        let behavior = *self.behavior.lock().unwrap();
        match behavior {
            JobBehavior::Done => Ok(Some(format!("{} at {}", job.id, format_utc(self.now_ms())))),
            JobBehavior::Fail => Err(CallError::new(ErrorKind::Io, "no feed")),
            JobBehavior::Take(time) => {
                tokio::time::sleep(time).await;
                Ok(None)
            }
            JobBehavior::Never => std::future::pending().await,
        }
    }

    async fn publish_event(&self, topic: &str, run: &str, mut payload: Value) {
        // The order of fields depends on the build.
        payload.sort_all_objects();
        assert!(run.starts_with("schedule:a/") || run.starts_with("schedule:b/"), "{run}");
        let _ = self.events.send((topic.to_owned(), payload.to_string()));
    }
}

fn ran(text: &str) -> (String, String) {
    (topic::RAN.to_owned(), text.to_owned())
}

#[tokio::test(start_paused = true)]
async fn schedules_run_at_due_times() {
    let schedules = ["a/often */2 * * * *", "b/once 3 12 * * *"];
    let (env, scheduler, mut events) =
        fake_env("2026-01-01T12:00:30Z", &schedules, JobBehavior::Done);
    scheduler.start(Arc::clone(&env));
    let mut received = Vec::new();
    for _ in 0..3 {
        received.push(events.next().await);
    }
    let at = |id: &str, time: &str| {
        ran(&format!(r#"{{"due":"{time}","ms":0,"result":"{id} at {time}","schedule":"{id}"}}"#))
    };
    assert_eq!(
        received,
        [
            at("a/often", "2026-01-01T12:02:00Z"),
            at("b/once", "2026-01-01T12:03:00Z"),
            at("a/often", "2026-01-01T12:04:00Z"),
        ]
    );
    scheduler.shutdown(Duration::from_secs(1)).await;
    assert_eq!(env.stored_run("b/once"), ("2026-01-01T12:03:00Z".to_owned(), true, None));
    assert_eq!(events.drain(), []);
}

#[tokio::test(start_paused = true)]
async fn missed_runs_are_reported_once() {
    let (env, scheduler, mut events) =
        fake_env("2026-01-01T12:30:30Z", &["a/x 0 * * * *"], JobBehavior::Done);
    env.store_run("a/x", "2026-01-01T09:00:00Z", None);
    scheduler.start(Arc::clone(&env));
    let missed = r#"{"last":"2026-01-01T12:00:00Z","missed":3,"schedule":"a/x"}"#.to_owned();
    assert_eq!(events.next().await, (topic::MISSED.to_owned(), missed));
    let error = Some("missed (3) while the kernel did not run".to_owned());
    assert_eq!(env.stored_run("a/x"), ("2026-01-01T12:00:00Z".to_owned(), false, error));
    scheduler.shutdown(Duration::from_secs(1)).await;

    // The kernel starts again before the next due time.
    let scheduler = Arc::<Scheduler>::default();
    scheduler.start(Arc::clone(&env));
    let (topic, payload) = events.next().await;
    assert_eq!(topic, topic::RAN);
    assert!(payload.contains("2026-01-01T13:00:00Z"), "{payload}");
    scheduler.shutdown(Duration::from_secs(1)).await;
}

#[tokio::test(start_paused = true)]
async fn first_run_can_be_missed() {
    let (env, scheduler, mut events) =
        fake_env("2026-01-01T12:00:30Z", &["a/x 0 3 * * *"], JobBehavior::Done);
    scheduler.start(Arc::clone(&env));
    tokio::time::sleep(Duration::from_secs(60)).await;
    scheduler.shutdown(Duration::from_secs(1)).await;
    assert_eq!(env.stored_run("a/x"), ("2026-01-01T12:00:30Z".to_owned(), false, None));
    *env.set_ms.lock().unwrap() = 24 * 3_600_000;
    let scheduler = Arc::<Scheduler>::default();
    scheduler.start(Arc::clone(&env));
    let missed = r#"{"last":"2026-01-02T03:00:00Z","missed":1,"schedule":"a/x"}"#.to_owned();
    assert_eq!(events.next().await, (topic::MISSED.to_owned(), missed));
    scheduler.shutdown(Duration::from_secs(1)).await;
}

#[tokio::test(start_paused = true)]
async fn late_run_is_not_missed() {
    let (env, scheduler, mut events) =
        fake_env("2026-01-01T12:00:20Z", &["a/x 0 * * * *"], JobBehavior::Done);
    env.store_run("a/x", "2026-01-01T09:00:00Z", None);
    scheduler.start(Arc::clone(&env));
    let missed = r#"{"last":"2026-01-01T11:00:00Z","missed":2,"schedule":"a/x"}"#.to_owned();
    assert_eq!(events.next().await, (topic::MISSED.to_owned(), missed));
    let late = r#"{"due":"2026-01-01T12:00:00Z","ms":0,"result":"a/x at 2026-01-01T12:00:20Z","schedule":"a/x"}"#;
    assert_eq!(events.next().await, ran(late));
    scheduler.shutdown(Duration::from_secs(1)).await;
}

#[tokio::test(start_paused = true)]
async fn suspended_machine_reports_missed_runs() {
    let (env, scheduler, mut events) =
        fake_env("2026-01-01T12:00:30Z", &["a/x */5 * * * *"], JobBehavior::Done);
    scheduler.start(Arc::clone(&env));
    tokio::time::sleep(Duration::from_secs(10)).await;
    *env.set_ms.lock().unwrap() = 3_600_000 + 120_000;
    let (topic, payload) = events.next().await;
    assert_eq!((&*topic, &*payload), {
        (topic::MISSED, r#"{"last":"2026-01-01T13:00:00Z","missed":12,"schedule":"a/x"}"#)
    });
    scheduler.shutdown(Duration::from_secs(1)).await;
}

#[tokio::test(start_paused = true)]
async fn clock_correction_repeats_no_run() {
    let (env, scheduler, mut events) =
        fake_env("2026-01-01T12:59:50Z", &["a/x 0 * * * *"], JobBehavior::Done);
    scheduler.start(Arc::clone(&env));
    assert!(events.next().await.1.contains("13:00:00Z"));
    *env.set_ms.lock().unwrap() = -30_000;
    let (topic, payload) = events.next().await;
    assert_eq!(topic, topic::RAN);
    assert!(payload.contains(r#""due":"2026-01-01T14:00:00Z""#), "{payload}");
    // Set back by a day, the clock is trusted.
    *env.set_ms.lock().unwrap() = -24 * 3_600_000;
    let (_, payload) = events.next().await;
    assert!(payload.contains(r#""due":"2025-12-31T15:00:00Z""#), "{payload}");
    scheduler.shutdown(Duration::from_secs(1)).await;
}

#[tokio::test(start_paused = true)]
async fn overlapping_run_is_skipped() {
    let slow = JobBehavior::Take(Duration::from_secs(59));
    let (env, scheduler, mut events) = fake_env("2026-01-01T12:00:30Z", &["a/x * * * * *"], slow);
    scheduler.start(Arc::clone(&env));
    tokio::time::sleep(Duration::from_secs(40)).await;
    let by_hand = scheduler.run_now(&*env, &job("a/x * * * * *")).await.unwrap_err();
    assert_eq!((by_hand.kind, &*by_hand.message), {
        (ErrorKind::Conflict, "`a/x` is already running")
    });
    let first = r#"{"due":"2026-01-01T12:01:00Z","ms":59000,"schedule":"a/x"}"#;
    assert_eq!(events.next().await, ran(first));
    scheduler.shutdown(Duration::from_secs(100)).await;

    let slow = JobBehavior::Take(Duration::from_secs(90));
    let (env, scheduler, mut events) = fake_env("2026-01-01T12:00:30Z", &["a/x * * * * *"], slow);
    let long = ScheduledJob {
        schedule: ScheduleSpec { timeout_ms: Some(200_000), ..job("a/x * * * * *").schedule },
        ..job("a/x * * * * *")
    };
    let running = tokio::spawn({
        let (env, scheduler) = (Arc::clone(&env), Arc::clone(&scheduler));
        async move { scheduler.run_now(&*env, &long).await }
    });
    tokio::time::sleep(Duration::from_secs(1)).await;
    scheduler.start(Arc::clone(&env));
    let skipped = r#"{"due":"2026-01-01T12:01:00Z","reason":"the run before is still going","schedule":"a/x"}"#;
    assert_eq!(events.next().await, (topic::SKIPPED.to_owned(), skipped.to_owned()));
    let line = running.await.unwrap().unwrap();
    assert_eq!(line, ScheduleRunOutcome { schedule: "a/x".to_owned(), ms: 90_000, result: None });
    // The manual run covers the due time that was skipped.
    assert_eq!(env.stored_run("a/x").0, "2026-01-01T12:02:00Z");
    scheduler.shutdown(Duration::from_secs(100)).await;
}

#[tokio::test(start_paused = true)]
async fn failed_run_is_published() {
    let (env, scheduler, mut events) =
        fake_env("2026-01-01T12:00:30Z", &["a/x */5 * * * *"], JobBehavior::Fail);
    scheduler.start(Arc::clone(&env));
    let failed =
        r#"{"due":"2026-01-01T12:05:00Z","error":"no feed","kind":"io","ms":0,"schedule":"a/x"}"#;
    assert_eq!(events.next().await, (topic::FAILED.to_owned(), failed.to_owned()));
    assert_eq!(env.stored_run("a/x").2.as_deref(), Some("no feed"));
    *env.behavior.lock().unwrap() = JobBehavior::Never;
    let failed = r#"{"due":"2026-01-01T12:10:00Z","error":"timed out after 60000 ms","hint":"raise `timeout_ms` of the schedule","kind":"timeout","ms":60000,"schedule":"a/x"}"#;
    assert_eq!(events.next().await, (topic::FAILED.to_owned(), failed.to_owned()));
    scheduler.shutdown(Duration::from_secs(1)).await;
}

#[tokio::test(start_paused = true)]
async fn shutdown_aborts_active_run() {
    let (env, scheduler, mut events) =
        fake_env("2026-01-01T12:00:30Z", &["a/x * * * * *"], JobBehavior::Never);
    scheduler.start(Arc::clone(&env));
    tokio::time::sleep(Duration::from_secs(31)).await;
    scheduler.shutdown(Duration::from_secs(5)).await;
    let failed = r#"{"due":"2026-01-01T12:01:00Z","error":"kernel ended during the run","kind":"cancelled","ms":6000,"schedule":"a/x"}"#;
    assert_eq!(events.drain(), [(topic::FAILED.to_owned(), failed.to_owned())]);
    let error = Some("kernel ended during the run".to_owned());
    assert_eq!(env.stored_run("a/x"), ("2026-01-01T12:01:00Z".to_owned(), true, error));
}

#[tokio::test(start_paused = true)]
async fn interrupted_run_is_reported_after_restart() {
    let (env, scheduler, mut events) =
        fake_env("2026-01-01T12:30:00Z", &["a/x 0 * * * *"], JobBehavior::Done);
    let due_ms = at("2026-01-01T12:00:00Z");
    let open = ScheduleRun { due_ms, started_ms: due_ms, ended_ms: None, error: None };
    env.runs.lock().unwrap().insert("a/x".to_owned(), open);
    scheduler.start(Arc::clone(&env));
    let failed = r#"{"due":"2026-01-01T12:00:00Z","error":"kernel ended during the run","kind":"cancelled","schedule":"a/x"}"#;
    assert_eq!(events.next().await, (topic::FAILED.to_owned(), failed.to_owned()));
    assert!(events.next().await.1.contains("13:00:00Z"));
    scheduler.shutdown(Duration::from_secs(1)).await;
}

#[tokio::test(start_paused = true)]
async fn changed_schedules_apply_at_once() {
    let (env, scheduler, mut events) =
        fake_env("2026-01-01T12:00:30Z", &["a/x 0 3 * * *"], JobBehavior::Done);
    scheduler.start(Arc::clone(&env));
    tokio::time::sleep(Duration::from_secs(1)).await;
    *env.schedules.lock().unwrap() = vec!["a/y 1 12 * * *"];
    scheduler.reload_jobs();
    assert!(events.next().await.1.contains(r#""due":"2026-01-01T12:01:00Z""#));
    scheduler.shutdown(Duration::from_secs(1)).await;
}

#[tokio::test(start_paused = true)]
async fn task_of_run_has_no_time_limit() {
    let long = JobBehavior::Take(Duration::from_secs(3 * 3600));
    let (env, scheduler, mut events) = fake_env("2026-01-01T12:00:30Z", &["b/x 0 13 1 * *"], long);
    scheduler.start(Arc::clone(&env));
    let ran_late = r#"{"due":"2026-01-01T13:00:00Z","ms":10800000,"schedule":"b/x"}"#;
    assert_eq!(events.next().await, ran(ran_late));
    scheduler.shutdown(Duration::from_secs(1)).await;
}

#[tokio::test(start_paused = true)]
async fn run_of_task_outlives_kernel() {
    let (env, scheduler, mut events) =
        fake_env("2026-01-01T12:59:30Z", &["b/x 0 * * * *"], JobBehavior::Never);
    scheduler.start(Arc::clone(&env));
    tokio::time::sleep(Duration::from_secs(60)).await;
    scheduler.shutdown(Duration::from_secs(1)).await;
    // Neither ended nor failed.
    assert_eq!(env.stored_run("b/x"), ("2026-01-01T13:00:00Z".to_owned(), false, None));
    assert_eq!(events.drain(), []);

    *env.behavior.lock().unwrap() = JobBehavior::Take(Duration::from_secs(60));
    let scheduler = Arc::<Scheduler>::default();
    scheduler.start(Arc::clone(&env));
    let ended = r#"{"due":"2026-01-01T13:00:00Z","ms":90000,"schedule":"b/x"}"#;
    assert_eq!(events.next().await, ran(ended));
    assert_eq!(env.stored_run("b/x"), ("2026-01-01T13:00:00Z".to_owned(), true, None));
    let name = "schedule:b/x@2026-01-01T13:00:00Z".to_owned();
    assert_eq!(*env.executed.lock().unwrap(), [(name.clone(), false), (name, true)]);
    scheduler.shutdown(Duration::from_secs(1)).await;
}

#[tokio::test(start_paused = true)]
async fn resumed_run_is_skipped_when_due() {
    let (env, scheduler, mut events) =
        fake_env("2026-01-01T12:30:00Z", &["b/x 0 * * * *"], JobBehavior::Never);
    let due_ms = at("2026-01-01T12:00:00Z");
    let open = ScheduleRun { due_ms, started_ms: due_ms, ended_ms: None, error: None };
    env.runs.lock().unwrap().insert("b/x".to_owned(), open);
    scheduler.start(Arc::clone(&env));
    let (topic, payload) = events.next().await;
    assert_eq!(topic, topic::SKIPPED);
    assert!(payload.contains("13:00:00Z"), "{payload}");
    let by_hand = scheduler.run_now(&*env, &job("b/x 0 * * * *")).await.unwrap_err();
    assert_eq!(by_hand.kind, ErrorKind::Conflict);
    scheduler.shutdown(Duration::from_secs(1)).await;
    assert_eq!(env.executed.lock().unwrap().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn clock_jump_repeats_no_task() {
    const YEAR_MS: i64 = 365 * 24 * 3_600_000;
    for jump in [YEAR_MS, -YEAR_MS] {
        let (env, scheduler, mut events) =
            fake_env("2026-01-01T12:59:30Z", &["b/x 0 * * * *"], JobBehavior::Never);
        scheduler.start(Arc::clone(&env));
        tokio::time::sleep(Duration::from_secs(60)).await;
        *env.set_ms.lock().unwrap() = jump;
        tokio::time::sleep(Duration::from_secs(120)).await;
        // The run goes on: the next kernel resumes it under its own name.
        assert_eq!(env.stored_run("b/x"), ("2026-01-01T13:00:00Z".to_owned(), false, None));
        scheduler.shutdown(Duration::from_secs(1)).await;
        *env.behavior.lock().unwrap() = JobBehavior::Done;
        let scheduler = Arc::<Scheduler>::default();
        scheduler.start(Arc::clone(&env));
        tokio::time::sleep(Duration::from_secs(1)).await;
        scheduler.shutdown(Duration::from_secs(1)).await;
        let name = "schedule:b/x@2026-01-01T13:00:00Z".to_owned();
        assert_eq!(*env.executed.lock().unwrap(), [(name.clone(), false), (name, true)]);
        let ends = events.drain().into_iter().filter(|(topic, _)| topic == topic::RAN).count();
        assert_eq!((ends, env.stored_run("b/x").1), (1, true));
    }
}
