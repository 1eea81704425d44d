//! Delivery: order, retries, dead letters and clocks.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use skillhost_events::{Clock, Journal, Subscriber};

use crate::rig::{MAX_DELAY, Rig, event, subscriber};

const DAY: u64 = 24 * 60 * 60 * 1000;
const HOUR: u64 = 60 * 60 * 1000;

fn by_parity(id: &str, topic: &str) -> Subscriber {
    Subscriber::new(id, topic).with_ordering_key(|event| {
        let odd = event.payload.get().trim_end_matches('}').ends_with(['1', '3', '5', '7', '9']);
        Some(if odd { "odd" } else { "even" }.to_owned())
    })
}

fn of(subscriber: &str, event: i64, attempt: u32) -> (String, i64, u32) {
    (subscriber.to_owned(), event, attempt)
}

#[tokio::test]
async fn subscribers_receive_one_delivery_at_once() {
    let rig = Rig::new();
    rig.append("a", 0).await;
    let list = vec![subscriber("all", "*"), subscriber("some", "a")];
    rig.journal.set_subscribers(list).await.unwrap();
    assert_eq!(rig.claimed().await, [], "earlier events are not delivered");
    rig.append("a.x", 1).await;
    rig.append("b", 2).await;
    rig.append("a", 3).await;
    let first = rig.claim().await;
    let names: Vec<_> = first.iter().map(|d| (d.subscriber.as_str(), d.event.id)).collect();
    assert_eq!(names, [("all", 2), ("some", 2)]);
    assert_eq!(rig.claimed().await, [], "both are claimed");
    assert!(rig.journal.ack(first[1].id).await.unwrap());
    assert_eq!(rig.claimed().await, [of("some", 4, 1)]);
    assert!(!rig.journal.ack(first[1].id).await.unwrap(), "it was acknowledged already");
    assert!(rig.journal.ack(first[0].id).await.unwrap());
    assert_eq!(rig.claimed().await, [of("all", 3, 1)]);
}

#[tokio::test]
async fn external_events_are_delivered() {
    let rig = Rig::new();
    rig.journal.set_subscribers(vec![subscriber("s", "a")]).await.unwrap();
    let other = rig.second_process();
    assert!(rig.journal.has_external_changes().await.unwrap(), "first call");
    assert!(!rig.journal.has_external_changes().await.unwrap());
    other.append(crate::rig::event("a", 1)).await.unwrap();
    assert!(rig.journal.has_external_changes().await.unwrap());
    assert_eq!(rig.claimed().await, [of("s", 1, 1)]);
    assert!(!rig.journal.has_external_changes().await.unwrap(), "its own changes do not count");
}

#[tokio::test]
async fn ordering_keys_are_independent() {
    let rig = Rig::new();
    rig.journal.set_subscribers(vec![by_parity("s", "a")]).await.unwrap();
    for n in 1..=4 {
        rig.append("a", n).await;
    }
    let claimed = rig.claim().await;
    let events: Vec<_> = claimed.iter().map(|d| d.event.id).collect();
    assert_eq!(events, [1, 2]);
    rig.journal.fail(claimed[0].id, "no", Some(1_000_500)).await.unwrap();
    rig.journal.ack(claimed[1].id).await.unwrap();
    assert_eq!(rig.claimed().await, [of("s", 4, 1)], "1 waits for its retry and blocks 3");
    rig.advance(500);
    assert_eq!(rig.claimed().await, [of("s", 1, 2)]);
}

#[tokio::test]
async fn events_without_key_overtake_retry() {
    let rig = Rig::new();
    rig.journal.set_subscribers(vec![subscriber("s", "a")]).await.unwrap();
    rig.append("a", 1).await;
    rig.append("a", 2).await;
    let first = rig.claim().await.remove(0);
    rig.journal.fail(first.id, "no", Some(1_001_000)).await.unwrap();
    let claim = rig.journal.claim_due().await.unwrap();
    assert_eq!(claim.deliveries.iter().map(|d| d.event.id).collect::<Vec<_>>(), [2]);
    assert_eq!(claim.next_ms, Some(1000));
}

#[tokio::test]
async fn dead_letter_can_be_retried() {
    let rig = Rig::new();
    rig.journal.set_subscribers(vec![subscriber("s", "a")]).await.unwrap();
    rig.append("a", 1).await;
    for attempt in 1..=3 {
        let claimed = rig.claim().await.remove(0);
        assert_eq!(claimed.attempt, attempt);
        assert!(rig.journal.fail(claimed.id, "no", Some(1_000_000)).await.unwrap());
    }
    let last = rig.claim().await.remove(0);
    assert_eq!(last.attempt, 4);
    assert_eq!(rig.journal.dead_letters().await.unwrap().len(), 0);
    assert!(rig.journal.fail(last.id, &"x".repeat(5000), None).await.unwrap());
    assert_eq!(rig.claimed().await, []);
    let dead = rig.journal.dead_letters().await.unwrap();
    assert_eq!((dead.len(), dead[0].id, dead[0].attempts), (1, last.id, 4));
    assert_eq!((dead[0].error.len(), dead[0].event.id), (4096, 1));
    assert_eq!(rig.journal.retry_dead_letter(last.id).await.unwrap().id, last.id);
    assert_eq!(rig.claimed().await, [of("s", 1, 1)]);
    assert_eq!(rig.journal.dead_letters().await.unwrap().len(), 0);
}

#[tokio::test]
async fn released_delivery_waits_for_recovery() {
    let mut rig = Rig::new();
    let list = [subscriber("s", "a")];
    rig.journal.set_subscribers(list.to_vec()).await.unwrap();
    rig.append("a", 1).await;
    rig.append("a", 2).await;
    let claimed = rig.claim().await.remove(0);
    assert!(rig.journal.release(claimed.id).await.unwrap());
    assert_eq!(rig.claimed().await, [], "it blocks later events");
    rig.crash(&list).await;
    assert_eq!(rig.claimed().await, [of("s", 1, 1)]);
}

#[tokio::test]
async fn crashing_handler_becomes_dead_letter() {
    let mut rig = Rig::new();
    let list = [subscriber("s", "a")];
    rig.journal.set_subscribers(list.to_vec()).await.unwrap();
    rig.append("a", 1).await;
    for attempt in 1..=4 {
        assert_eq!(rig.claimed().await, [of("s", 1, attempt)]);
        if attempt < 4 {
            rig.crash(&list).await;
        }
    }
    rig.journal = rig.second_process();
    let lost = rig.journal.recover(4, MAX_DELAY).await.unwrap();
    assert_eq!((lost.len(), lost[0].attempts), (1, 4));
    assert_eq!(lost[0].error, "the process ended during the last attempt");
    rig.journal.set_subscribers(list.to_vec()).await.unwrap();
    assert_eq!(rig.claimed().await, []);
    assert_eq!(rig.journal.dead_letters().await.unwrap().len(), 1);
}

#[tokio::test]
async fn subscriber_catches_up_within_day() {
    let rig = Rig::new();
    let (s, other) = (subscriber("s", "a"), subscriber("other", "b"));
    rig.journal.set_subscribers(vec![s.clone(), other.clone()]).await.unwrap();
    rig.journal.set_subscribers(vec![other.clone()]).await.unwrap();
    rig.append("a", 1).await;
    assert_eq!(rig.claimed().await, []);
    rig.advance(DAY);
    rig.journal.set_subscribers(vec![s.clone(), other.clone()]).await.unwrap();
    let claimed = rig.claim().await.remove(0);
    assert_eq!((claimed.subscriber.as_str(), claimed.event.id), ("s", 1));
    rig.journal.ack(claimed.id).await.unwrap();
    rig.journal.set_subscribers(vec![other.clone()]).await.unwrap();
    rig.append("a", 2).await;
    rig.advance(DAY + 1);
    rig.journal.set_subscribers(vec![s, other]).await.unwrap();
    assert_eq!(rig.claimed().await, [], "it was removed for too long");
    rig.append("a", 3).await;
    assert_eq!(rig.claimed().await, [of("s", 3, 1)]);
}

/// Opens a journal with independent wall and steady clocks.
fn with_clocks(rig: &Rig) -> (Journal, Arc<AtomicU64>, Arc<AtomicU64>) {
    let clock = || Arc::new(AtomicU64::new(100 * HOUR));
    let (wall, steady) = (clock(), clock());
    let (wall_time, steady_time) = (Arc::clone(&wall), Arc::clone(&steady));
    let clock = Clock::with_steady(
        move || wall_time.load(Ordering::SeqCst),
        move || steady_time.load(Ordering::SeqCst),
    );
    (Journal::new(rig.path(), clock), wall, steady)
}

#[tokio::test]
async fn retry_waits_by_steady_time() {
    let rig = Rig::new();
    let (journal, wall, steady) = with_clocks(&rig);
    journal.set_subscribers(vec![subscriber("s", "a")]).await.unwrap();
    journal.append(event("a", 1)).await.unwrap();
    let first = journal.claim_due().await.unwrap().deliveries.remove(0);
    let retry_at = journal.steady_ms() + 1000;
    journal.fail(first.id, "no", Some(retry_at)).await.unwrap();
    // Set forward: no attempt comes early.
    wall.store(103 * HOUR, Ordering::SeqCst);
    let claim = journal.claim_due().await.unwrap();
    assert_eq!((claim.deliveries.len(), claim.next_ms), (0, Some(1000)));
    // Set back: none comes late.
    wall.store(97 * HOUR, Ordering::SeqCst);
    steady.fetch_add(1000, Ordering::SeqCst);
    assert_eq!(journal.claim_due().await.unwrap().deliveries.len(), 1);
}

#[tokio::test]
async fn event_is_due_after_clock_change() {
    let rig = Rig::new();
    let (journal, wall, _) = with_clocks(&rig);
    journal.set_subscribers(vec![subscriber("s", "a")]).await.unwrap();
    wall.store(103 * HOUR, Ordering::SeqCst);
    journal.append(event("a", 1)).await.unwrap();
    let first = journal.claim_due().await.unwrap().deliveries.remove(0);
    journal.fail(first.id, "no", None).await.unwrap();
    // Another process, by the wall clock.
    let other = Journal::new(rig.path(), Clock::new(|| 103 * HOUR));
    other.retry_dead_letter(first.id).await.unwrap();
    assert_eq!(journal.claim_due().await.unwrap().deliveries.len(), 1);
}

#[tokio::test]
async fn recovery_limits_retry_delay() {
    let rig = Rig::new();
    let (journal, ..) = with_clocks(&rig);
    let list = vec![subscriber("s", "a")];
    journal.set_subscribers(list.clone()).await.unwrap();
    journal.append(event("a", 1)).await.unwrap();
    let first = journal.claim_due().await.unwrap().deliveries.remove(0);
    journal.fail(first.id, "no", Some(100 * HOUR + 1000)).await.unwrap();
    journal.close().await;
    // The next process finds the clock three hours earlier.
    let next = Journal::new(rig.path(), Clock::new(|| 97 * HOUR));
    next.recover(4, MAX_DELAY).await.unwrap();
    next.set_subscribers(list).await.unwrap();
    let max_delay = u64::try_from(MAX_DELAY.as_millis()).unwrap();
    assert_eq!(next.claim_due().await.unwrap().next_ms, Some(max_delay));
}
