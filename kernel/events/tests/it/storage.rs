//! Storage of events: append, find, list and prune.

use skillhost_events::{PruneReport, RetentionLimits, ScheduleRun, TailQuery};

use crate::fixture::{JournalFixture, event, event_with_key, subscriber};

const DAY: u64 = 24 * 60 * 60 * 1000;

#[tokio::test]
async fn appended_event_is_visible_to_processes() {
    let fixture = JournalFixture::new();
    let stored = fixture.append("a.b", 1).await;
    assert_eq!((stored.id, stored.at_ms, stored.source.as_str()), (1, 1_000_000, "fixture"));
    assert_eq!((stored.payload.get(), stored.correlation_id.as_str()), (r#"{"n":1}"#, "event-1"));
    let theirs = fixture
        .second_process()
        .tail(TailQuery { limit: 10, ..TailQuery::default() })
        .await
        .unwrap();
    let seen: Vec<_> = theirs.iter().map(|event| (event.id, event.payload.get())).collect();
    assert_eq!(seen, [(1, r#"{"n":1}"#)]);
}

#[tokio::test]
async fn duplicate_key_keeps_first_event() {
    let fixture = JournalFixture::new();
    let (first, new) = fixture.journal.append(event_with_key("m", 1, "k")).await.unwrap();
    assert!(new);
    let (again, new) = fixture.second_process().append(event_with_key("m", 2, "k")).await.unwrap();
    assert_eq!((again.id, again.payload.get(), new), (first.id, r#"{"n":1}"#, false));
    let (other, new) = fixture.journal.append(event_with_key("n", 3, "k")).await.unwrap();
    assert_eq!((other.id, new), (2, true), "keys are separate for each topic");
    assert_eq!(fixture.journal.find("m", "k").await.unwrap().unwrap().id, 1);
    assert!(fixture.journal.find("m", "l").await.unwrap().is_none());
}

#[tokio::test]
async fn tail_filters_by_topic_and_id() {
    let fixture = JournalFixture::new();
    for (n, topic) in ["a.x", "b", "a", "a.y", "ab"].into_iter().enumerate() {
        fixture.append(topic, n as u64).await;
    }
    let last = |topic: &str, limit| TailQuery { after: None, topic: topic.to_owned(), limit };
    let behind = |after, topic: &str| TailQuery { after: Some(after), ..last(topic, 2) };
    assert_eq!(fixture.topics(last("", 2)).await, ["a.y", "ab"]);
    assert_eq!(fixture.topics(last("*", 9)).await, ["a.x", "b", "a", "a.y", "ab"]);
    assert_eq!(fixture.topics(last("a", 9)).await, ["a.x", "a", "a.y"]);
    assert_eq!(fixture.topics(behind(0, "")).await, ["a.x", "b"]);
    assert_eq!(fixture.topics(behind(1, "a")).await, ["a", "a.y"]);
    assert_eq!(fixture.topics(behind(5, "")).await, [""; 0]);
}

#[tokio::test]
async fn queries_create_no_file() {
    let fixture = JournalFixture::new();
    assert_eq!(fixture.topics(TailQuery { limit: 9, ..TailQuery::default() }).await, [""; 0]);
    assert_eq!(fixture.journal.dead_letters().await.unwrap().len(), 0);
    assert_eq!(fixture.journal.last_run("s").await.unwrap(), None);
    let missing = fixture.journal.retry_dead_letter(1).await.unwrap_err();
    assert_eq!(missing.to_string(), "dead letter 1 not found");
    assert_eq!(
        fixture.journal.prune(RetentionLimits::default()).await.unwrap(),
        PruneReport::default()
    );
    assert!(!fixture.path().exists());
}

#[tokio::test]
async fn last_run_replaces_previous_one() {
    let fixture = JournalFixture::new();
    let started = ScheduleRun { due_ms: 1, started_ms: 2, ended_ms: None, error: None };
    fixture.journal.record_run("feed/poll", started.clone()).await.unwrap();
    assert_eq!(
        fixture.second_process().last_run("feed/poll").await.unwrap(),
        Some(started.clone())
    );
    let ended = ScheduleRun { ended_ms: Some(3), error: Some("no feed".into()), ..started };
    fixture.journal.record_run("feed/poll", ended.clone()).await.unwrap();
    assert_eq!(fixture.journal.last_run("feed/poll").await.unwrap(), Some(ended));
    assert_eq!(fixture.journal.last_run("feed/other").await.unwrap(), None);
}

#[tokio::test]
async fn prune_keeps_events_with_deliveries() {
    let fixture = JournalFixture::new();
    fixture.journal.set_subscribers(vec![subscriber("s", "wanted")]).await.unwrap();
    fixture.append("wanted", 1).await;
    fixture.append("unwanted", 2).await;
    fixture.advance(30 * DAY + 1);
    fixture.append("unwanted.but.new", 3).await;
    let unplanned = fixture.journal.prune(RetentionLimits::default()).await.unwrap();
    assert_eq!(unplanned, PruneReport::default(), "the subscriber has planned no event");
    let claimed = fixture.claim().await;
    let pruned = fixture.journal.prune(RetentionLimits::default()).await.unwrap();
    assert_eq!(pruned, PruneReport { events: 1, ..PruneReport::default() });
    let all = TailQuery { limit: 9, ..TailQuery::default() };
    assert_eq!(fixture.topics(all.clone()).await, ["wanted", "unwanted.but.new"]);
    assert!(fixture.journal.ack(claimed[0].id).await.unwrap());
    assert_eq!(fixture.journal.prune(RetentionLimits::default()).await.unwrap().events, 1);
    assert_eq!(fixture.topics(all).await, ["unwanted.but.new"]);
}

#[tokio::test]
async fn prune_counts_lost_deliveries() {
    let fixture = JournalFixture::new();
    fixture.journal.set_subscribers(vec![subscriber("s", "a")]).await.unwrap();
    for n in 0..20 {
        fixture.append("a", n).await;
    }
    fixture.claim().await;
    let limits = RetentionLimits { events: 10, ..RetentionLimits::default() };
    let pruned = fixture.journal.prune(limits.clone()).await.unwrap();
    assert_eq!(pruned, PruneReport { events: 11, undelivered: 11, buried: 0 });
    assert_eq!(fixture.journal.prune(limits).await.unwrap(), PruneReport::default());
    let bytes = RetentionLimits { bytes: 1, ..RetentionLimits::default() };
    assert_eq!(fixture.journal.prune(bytes).await.unwrap().events, 9);
    assert_eq!(fixture.append("a", 20).await.id, 21, "an id is never used again");
}

#[tokio::test]
async fn removed_subscriber_leaves_dead_letters() {
    let fixture = JournalFixture::new();
    fixture.journal.set_subscribers(vec![subscriber("s", "a")]).await.unwrap();
    fixture.append("a", 1).await;
    let claimed = fixture.claim().await;
    fixture.journal.fail(claimed[0].id, "not now", Some(0)).await.unwrap();
    fixture.journal.set_subscribers(vec![]).await.unwrap();
    fixture.advance(DAY);
    assert_eq!(
        fixture.journal.prune(RetentionLimits::default()).await.unwrap(),
        PruneReport::default()
    );
    fixture.advance(1);
    let pruned = fixture.journal.prune(RetentionLimits::default()).await.unwrap();
    assert_eq!(pruned, PruneReport { buried: 1, ..PruneReport::default() });
    let dead = fixture.journal.dead_letters().await.unwrap();
    assert_eq!(
        (dead[0].subscriber.as_str(), dead[0].error.as_str()),
        ("s", "the subscriber is gone")
    );
    let error = fixture.journal.retry_dead_letter(dead[0].id).await.unwrap_err();
    assert_eq!(error.to_string(), "dead letter 1 has no handler: subscriber `s` does not exist");
}

#[tokio::test]
async fn invalid_event_creates_no_file() {
    let fixture = JournalFixture::new();
    let error = fixture.journal.append(event("no topic", 1)).await.unwrap_err();
    assert_eq!(
        error.to_string(),
        "topic is not valid: use letters, digits, `_`, `-` and single dots"
    );
    assert!(!fixture.path().exists());
}
