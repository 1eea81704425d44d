//! Schedules on a stage whose time is tokio's, which stands still until everybody waits.

use std::collections::BTreeMap;

use tokio::sync::mpsc;
use tokio::time::Instant;

use super::*;

/// What a run on the stage does.
#[derive(Clone, Copy)]
enum Act {
    Done,
    Fail,
    Take(Duration),
    Never,
}

struct Play {
    begun: Instant,
    start_ms: u64,
    /// Added to the clock by a test that sets it.
    set_ms: Mutex<i64>,
    schedules: Mutex<Vec<&'static str>>,
    act: Mutex<Act>,
    kept: Mutex<BTreeMap<String, ScheduleRun>>,
    told: mpsc::UnboundedSender<(String, String)>,
}

/// What was told, in order.
struct Told(mpsc::UnboundedReceiver<(String, String)>);

impl Told {
    async fn next(&mut self) -> (String, String) {
        self.0.recv().await.expect("the stage lives")
    }

    /// Everything until now.
    fn so_far(&mut self) -> Vec<(String, String)> {
        std::iter::from_fn(|| self.0.try_recv().ok()).collect()
    }
}

fn at(time: &str) -> u64 {
    let time: jiff::Timestamp = time.parse().unwrap();
    u64::try_from(time.as_millisecond()).unwrap()
}

/// A stage at a time, with schedules written as `extension/name pattern`.
fn play(now: &str, schedules: &[&'static str], act: Act) -> (Arc<Play>, Arc<Scheduler>, Told) {
    let (told, heard) = mpsc::unbounded_channel();
    let stage = Play {
        begun: Instant::now(),
        start_ms: at(now),
        set_ms: Mutex::new(0),
        schedules: Mutex::new(schedules.to_vec()),
        act: Mutex::new(act),
        kept: Mutex::default(),
        told,
    };
    (Arc::new(stage), Arc::default(), Told(heard))
}

fn planned(text: &str) -> ScheduledJob {
    let (id, pattern) = text.split_once(' ').unwrap();
    let (owner, name) = id.split_once('/').unwrap();
    let schedule = ScheduleSpec {
        name: name.to_owned(),
        cron: pattern.to_owned(),
        timezone: None,
        action: ScheduleAction::Task(name.to_owned()),
        timeout_ms: None,
    };
    ScheduledJob::new(&ExtensionId::new(owner).unwrap(), &schedule).unwrap()
}

impl Play {
    fn keep(&self, id: &str, due: &str, error: Option<&str>) {
        let run = ScheduleRun {
            due_ms: at(due),
            started_ms: at(due),
            ended_ms: Some(at(due)),
            error: error.map(str::to_owned),
        };
        self.kept.lock().unwrap().insert(id.to_owned(), run);
    }

    fn kept(&self, id: &str) -> (String, bool, Option<String>) {
        let run = self.kept.lock().unwrap()[id].clone();
        (format_utc(run.due_ms), run.ended_ms.is_some(), run.error)
    }
}

#[async_trait]
impl SchedulerEnv for Play {
    fn now_ms(&self) -> u64 {
        let passed = u64::try_from(self.begun.elapsed().as_millis()).unwrap();
        (self.start_ms + passed).saturating_add_signed(*self.set_ms.lock().unwrap())
    }

    fn jobs(&self) -> Vec<ScheduledJob> {
        self.schedules.lock().unwrap().iter().map(|text| planned(text)).collect()
    }

    async fn last_run(&self, id: &str) -> Option<ScheduleRun> {
        self.kept.lock().unwrap().get(id).cloned()
    }

    async fn record_run(&self, id: &str, run: ScheduleRun) {
        self.kept.lock().unwrap().insert(id.to_owned(), run);
    }

    async fn run_job(
        &self,
        planned: &ScheduledJob,
        _run: &str,
    ) -> Result<Option<String>, CallError> {
        let act = *self.act.lock().unwrap();
        match act {
            Act::Done => Ok(Some(format!("{} at {}", planned.id, format_utc(self.now_ms())))),
            Act::Fail => Err(CallError::new(ErrorKind::Io, "no feed")),
            Act::Take(time) => {
                tokio::time::sleep(time).await;
                Ok(None)
            }
            Act::Never => std::future::pending().await,
        }
    }

    async fn publish_event(&self, topic: &str, run: &str, mut payload: Value) {
        // In whatever order this build keeps fields.
        payload.sort_all_objects();
        assert!(run.starts_with("schedule:a/") || run.starts_with("schedule:b/"), "{run}");
        let _ = self.told.send((topic.to_owned(), payload.to_string()));
    }
}

fn ran(text: &str) -> (String, String) {
    (topic::RAN.to_owned(), text.to_owned())
}

#[tokio::test(start_paused = true)]
async fn each_schedule_runs_at_its_times() {
    let schedules = ["a/often */2 * * * *", "b/once 3 12 * * *"];
    let (stage, clockwork, mut told) = play("2026-01-01T12:00:30Z", &schedules, Act::Done);
    clockwork.start(Arc::clone(&stage));
    let mut heard = Vec::new();
    for _ in 0..3 {
        heard.push(told.next().await);
    }
    let at = |id: &str, time: &str| {
        ran(&format!(r#"{{"due":"{time}","ms":0,"result":"{id} at {time}","schedule":"{id}"}}"#))
    };
    assert_eq!(
        heard,
        [
            at("a/often", "2026-01-01T12:02:00Z"),
            at("b/once", "2026-01-01T12:03:00Z"),
            at("a/often", "2026-01-01T12:04:00Z"),
        ]
    );
    clockwork.shutdown(Duration::from_secs(1)).await;
    assert_eq!(stage.kept("b/once"), ("2026-01-01T12:03:00Z".to_owned(), true, None));
    assert_eq!(told.so_far(), []);
}

#[tokio::test(start_paused = true)]
async fn what_was_missed_is_counted_told_once_and_not_made_up() {
    let (stage, clockwork, mut told) = play("2026-01-01T12:30:30Z", &["a/x 0 * * * *"], Act::Done);
    stage.keep("a/x", "2026-01-01T09:00:00Z", None);
    clockwork.start(Arc::clone(&stage));
    let missed = r#"{"last":"2026-01-01T12:00:00Z","missed":3,"schedule":"a/x"}"#.to_owned();
    assert_eq!(told.next().await, (topic::MISSED.to_owned(), missed));
    let error = Some("missed (3) while the kernel did not run".to_owned());
    assert_eq!(stage.kept("a/x"), ("2026-01-01T12:00:00Z".to_owned(), false, error));
    clockwork.shutdown(Duration::from_secs(1)).await;

    // The kernel starts again before anything was due.
    let clockwork = Arc::<Scheduler>::default();
    clockwork.start(Arc::clone(&stage));
    let (topic, payload) = told.next().await;
    assert_eq!(topic, topic::RAN);
    assert!(payload.contains("2026-01-01T13:00:00Z"), "{payload}");
    clockwork.shutdown(Duration::from_secs(1)).await;
}

#[tokio::test(start_paused = true)]
async fn a_schedule_that_never_ran_can_be_missed() {
    let (stage, clockwork, mut told) = play("2026-01-01T12:00:30Z", &["a/x 0 3 * * *"], Act::Done);
    clockwork.start(Arc::clone(&stage));
    tokio::time::sleep(Duration::from_secs(60)).await;
    clockwork.shutdown(Duration::from_secs(1)).await;
    assert_eq!(stage.kept("a/x"), ("2026-01-01T12:00:30Z".to_owned(), false, None));
    *stage.set_ms.lock().unwrap() = 24 * 3_600_000;
    let clockwork = Arc::<Scheduler>::default();
    clockwork.start(Arc::clone(&stage));
    let missed = r#"{"last":"2026-01-02T03:00:00Z","missed":1,"schedule":"a/x"}"#.to_owned();
    assert_eq!(told.next().await, (topic::MISSED.to_owned(), missed));
    clockwork.shutdown(Duration::from_secs(1)).await;
}

#[tokio::test(start_paused = true)]
async fn a_start_within_a_minute_is_late_and_not_missed() {
    let (stage, clockwork, mut told) = play("2026-01-01T12:00:20Z", &["a/x 0 * * * *"], Act::Done);
    stage.keep("a/x", "2026-01-01T09:00:00Z", None);
    clockwork.start(Arc::clone(&stage));
    let missed = r#"{"last":"2026-01-01T11:00:00Z","missed":2,"schedule":"a/x"}"#.to_owned();
    assert_eq!(told.next().await, (topic::MISSED.to_owned(), missed));
    let late = r#"{"due":"2026-01-01T12:00:00Z","ms":0,"result":"a/x at 2026-01-01T12:00:20Z","schedule":"a/x"}"#;
    assert_eq!(told.next().await, ran(late));
    clockwork.shutdown(Duration::from_secs(1)).await;
}

#[tokio::test(start_paused = true)]
async fn a_machine_that_slept_has_missed_what_came_meanwhile() {
    let (stage, clockwork, mut told) =
        play("2026-01-01T12:00:30Z", &["a/x */5 * * * *"], Act::Done);
    clockwork.start(Arc::clone(&stage));
    tokio::time::sleep(Duration::from_secs(10)).await;
    *stage.set_ms.lock().unwrap() = 3_600_000 + 120_000;
    let (topic, payload) = told.next().await;
    assert_eq!((&*topic, &*payload), {
        (topic::MISSED, r#"{"last":"2026-01-01T13:00:00Z","missed":12,"schedule":"a/x"}"#)
    });
    clockwork.shutdown(Duration::from_secs(1)).await;
}

#[tokio::test(start_paused = true)]
async fn a_clock_that_is_put_right_runs_nothing_twice() {
    let (stage, clockwork, mut told) = play("2026-01-01T12:59:50Z", &["a/x 0 * * * *"], Act::Done);
    clockwork.start(Arc::clone(&stage));
    assert!(told.next().await.1.contains("13:00:00Z"));
    *stage.set_ms.lock().unwrap() = -30_000;
    let (topic, payload) = told.next().await;
    assert_eq!(topic, topic::RAN);
    assert!(payload.contains(r#""due":"2026-01-01T14:00:00Z""#), "{payload}");
    // Set back by a day, it is believed.
    *stage.set_ms.lock().unwrap() = -24 * 3_600_000;
    let (_, payload) = told.next().await;
    assert!(payload.contains(r#""due":"2025-12-31T15:00:00Z""#), "{payload}");
    clockwork.shutdown(Duration::from_secs(1)).await;
}

#[tokio::test(start_paused = true)]
async fn a_run_that_still_goes_is_not_joined_by_another() {
    let slow = Act::Take(Duration::from_secs(59));
    let (stage, clockwork, mut told) = play("2026-01-01T12:00:30Z", &["a/x * * * * *"], slow);
    clockwork.start(Arc::clone(&stage));
    tokio::time::sleep(Duration::from_secs(40)).await;
    let by_hand = clockwork.run_now(&*stage, &planned("a/x * * * * *")).await.unwrap_err();
    assert_eq!((by_hand.kind, &*by_hand.message), {
        (ErrorKind::Conflict, "`a/x` is running already")
    });
    let first = r#"{"due":"2026-01-01T12:01:00Z","ms":59000,"schedule":"a/x"}"#;
    assert_eq!(told.next().await, ran(first));
    clockwork.shutdown(Duration::from_secs(100)).await;

    let slow = Act::Take(Duration::from_secs(90));
    let (stage, clockwork, mut told) = play("2026-01-01T12:00:30Z", &["a/x * * * * *"], slow);
    let long = ScheduledJob {
        schedule: ScheduleSpec { timeout_ms: Some(200_000), ..planned("a/x * * * * *").schedule },
        ..planned("a/x * * * * *")
    };
    let running = tokio::spawn({
        let (stage, clockwork) = (Arc::clone(&stage), Arc::clone(&clockwork));
        async move { clockwork.run_now(&*stage, &long).await }
    });
    tokio::time::sleep(Duration::from_secs(1)).await;
    clockwork.start(Arc::clone(&stage));
    let skipped = r#"{"due":"2026-01-01T12:01:00Z","reason":"the run before is still going","schedule":"a/x"}"#;
    assert_eq!(told.next().await, (topic::SKIPPED.to_owned(), skipped.to_owned()));
    let line = running.await.unwrap().unwrap();
    assert_eq!(line, ScheduleRunOutcome { schedule: "a/x".to_owned(), ms: 90_000, result: None });
    // The run by hand has settled the time that was skipped.
    assert_eq!(stage.kept("a/x").0, "2026-01-01T12:02:00Z");
    clockwork.shutdown(Duration::from_secs(100)).await;
}

#[tokio::test(start_paused = true)]
async fn failures_are_told_and_the_next_run_comes() {
    let (stage, clockwork, mut told) =
        play("2026-01-01T12:00:30Z", &["a/x */5 * * * *"], Act::Fail);
    clockwork.start(Arc::clone(&stage));
    let failed =
        r#"{"due":"2026-01-01T12:05:00Z","error":"no feed","kind":"io","ms":0,"schedule":"a/x"}"#;
    assert_eq!(told.next().await, (topic::FAILED.to_owned(), failed.to_owned()));
    assert_eq!(stage.kept("a/x").2.as_deref(), Some("no feed"));
    *stage.act.lock().unwrap() = Act::Never;
    let failed = r#"{"due":"2026-01-01T12:10:00Z","error":"did not end within 60000 ms","kind":"timeout","ms":60000,"schedule":"a/x"}"#;
    assert_eq!(told.next().await, (topic::FAILED.to_owned(), failed.to_owned()));
    clockwork.shutdown(Duration::from_secs(1)).await;
}

#[tokio::test(start_paused = true)]
async fn what_runs_at_the_end_is_given_up_and_kept_as_such() {
    let (stage, clockwork, mut told) = play("2026-01-01T12:00:30Z", &["a/x * * * * *"], Act::Never);
    clockwork.start(Arc::clone(&stage));
    tokio::time::sleep(Duration::from_secs(31)).await;
    clockwork.shutdown(Duration::from_secs(5)).await;
    let failed = r#"{"due":"2026-01-01T12:01:00Z","error":"the kernel ended while it ran","kind":"cancelled","ms":6000,"schedule":"a/x"}"#;
    assert_eq!(told.so_far(), [(topic::FAILED.to_owned(), failed.to_owned())]);
    let error = Some("the kernel ended while it ran".to_owned());
    assert_eq!(stage.kept("a/x"), ("2026-01-01T12:01:00Z".to_owned(), true, error));
}

#[tokio::test(start_paused = true)]
async fn what_a_killed_kernel_left_is_told_at_the_next_start() {
    let (stage, clockwork, mut told) = play("2026-01-01T12:30:00Z", &["a/x 0 * * * *"], Act::Done);
    let due_ms = at("2026-01-01T12:00:00Z");
    let open = ScheduleRun { due_ms, started_ms: due_ms, ended_ms: None, error: None };
    stage.kept.lock().unwrap().insert("a/x".to_owned(), open);
    clockwork.start(Arc::clone(&stage));
    let failed = r#"{"due":"2026-01-01T12:00:00Z","error":"the kernel ended while it ran","kind":"cancelled","schedule":"a/x"}"#;
    assert_eq!(told.next().await, (topic::FAILED.to_owned(), failed.to_owned()));
    assert!(told.next().await.1.contains("13:00:00Z"));
    clockwork.shutdown(Duration::from_secs(1)).await;
}

#[tokio::test(start_paused = true)]
async fn a_changed_manifest_counts_at_once() {
    let (stage, clockwork, mut told) = play("2026-01-01T12:00:30Z", &["a/x 0 3 * * *"], Act::Done);
    clockwork.start(Arc::clone(&stage));
    tokio::time::sleep(Duration::from_secs(1)).await;
    *stage.schedules.lock().unwrap() = vec!["a/y 1 12 * * *"];
    clockwork.reload_jobs();
    assert!(told.next().await.1.contains(r#""due":"2026-01-01T12:01:00Z""#));
    clockwork.shutdown(Duration::from_secs(1)).await;
}
