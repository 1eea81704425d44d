//! Delivery: order, retries, dead letters and clocks.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use skillhost_events::{Clock, Journal, Subscriber};

use crate::fixture::{JournalFixture, MAX_DELAY, event, subscriber};

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
    let fixture = JournalFixture::new();
    fixture.append("a", 0).await;
    let list = vec![subscriber("all", "*"), subscriber("some", "a")];
    fixture.journal.set_subscribers(list).await.unwrap();
    assert_eq!(fixture.claimed().await, [], "earlier events are not delivered");
    fixture.append("a.x", 1).await;
    fixture.append("b", 2).await;
    fixture.append("a", 3).await;
    let first = fixture.claim().await;
    let names: Vec<_> = first.iter().map(|d| (d.subscriber.as_str(), d.event.id)).collect();
    assert_eq!(names, [("all", 2), ("some", 2)]);
    assert_eq!(fixture.claimed().await, [], "both are claimed");
    assert!(fixture.journal.ack(first[1].id).await.unwrap());
    assert_eq!(fixture.claimed().await, [of("some", 4, 1)]);
    assert!(!fixture.journal.ack(first[1].id).await.unwrap(), "it was acknowledged already");
    assert!(fixture.journal.ack(first[0].id).await.unwrap());
    assert_eq!(fixture.claimed().await, [of("all", 3, 1)]);
}

#[tokio::test]
async fn external_events_are_delivered() {
    let fixture = JournalFixture::new();
    fixture.journal.set_subscribers(vec![subscriber("s", "a")]).await.unwrap();
    let other = fixture.second_process();
    assert!(fixture.journal.has_external_changes().await.unwrap(), "first call");
    assert!(!fixture.journal.has_external_changes().await.unwrap());
    other.append(crate::fixture::event("a", 1)).await.unwrap();
    assert!(fixture.journal.has_external_changes().await.unwrap());
    assert_eq!(fixture.claimed().await, [of("s", 1, 1)]);
    assert!(!fixture.journal.has_external_changes().await.unwrap(), "its own changes do not count");
}

#[tokio::test]
async fn ordering_keys_are_independent() {
    let fixture = JournalFixture::new();
    fixture.journal.set_subscribers(vec![by_parity("s", "a")]).await.unwrap();
    for n in 1..=4 {
        fixture.append("a", n).await;
    }
    let claimed = fixture.claim().await;
    let events: Vec<_> = claimed.iter().map(|d| d.event.id).collect();
    assert_eq!(events, [1, 2]);
    fixture.journal.fail(claimed[0].id, "no", Some(1_000_500)).await.unwrap();
    fixture.journal.ack(claimed[1].id).await.unwrap();
    assert_eq!(fixture.claimed().await, [of("s", 4, 1)], "1 waits for its retry and blocks 3");
    fixture.advance(500);
    assert_eq!(fixture.claimed().await, [of("s", 1, 2)]);
}

#[tokio::test]
async fn events_without_key_overtake_retry() {
    let fixture = JournalFixture::new();
    fixture.journal.set_subscribers(vec![subscriber("s", "a")]).await.unwrap();
    fixture.append("a", 1).await;
    fixture.append("a", 2).await;
    let first = fixture.claim().await.remove(0);
    fixture.journal.fail(first.id, "no", Some(1_001_000)).await.unwrap();
    let claim = fixture.journal.claim_due().await.unwrap();
    assert_eq!(claim.deliveries.iter().map(|d| d.event.id).collect::<Vec<_>>(), [2]);
    assert_eq!(claim.next_ms, Some(1000));
}

#[tokio::test]
async fn dead_letter_can_be_retried() {
    let fixture = JournalFixture::new();
    fixture.journal.set_subscribers(vec![subscriber("s", "a")]).await.unwrap();
    fixture.append("a", 1).await;
    for attempt in 1..=3 {
        let claimed = fixture.claim().await.remove(0);
        assert_eq!(claimed.attempt, attempt);
        assert!(fixture.journal.fail(claimed.id, "no", Some(1_000_000)).await.unwrap());
    }
    let last = fixture.claim().await.remove(0);
    assert_eq!(last.attempt, 4);
    assert_eq!(fixture.journal.dead_letters().await.unwrap().len(), 0);
    assert!(fixture.journal.fail(last.id, &"x".repeat(5000), None).await.unwrap());
    assert_eq!(fixture.claimed().await, []);
    let dead = fixture.journal.dead_letters().await.unwrap();
    assert_eq!((dead.len(), dead[0].id, dead[0].attempts), (1, last.id, 4));
    assert_eq!((dead[0].error.len(), dead[0].event.id), (4096, 1));
    assert_eq!(fixture.journal.retry_dead_letter(last.id).await.unwrap().id, last.id);
    assert_eq!(fixture.claimed().await, [of("s", 1, 1)]);
    assert_eq!(fixture.journal.dead_letters().await.unwrap().len(), 0);
}

#[tokio::test]
async fn released_delivery_waits_for_recovery() {
    let mut fixture = JournalFixture::new();
    let list = [subscriber("s", "a")];
    fixture.journal.set_subscribers(list.to_vec()).await.unwrap();
    fixture.append("a", 1).await;
    fixture.append("a", 2).await;
    let claimed = fixture.claim().await.remove(0);
    assert!(fixture.journal.release(claimed.id).await.unwrap());
    assert_eq!(fixture.claimed().await, [], "it blocks later events");
    fixture.crash(&list).await;
    assert_eq!(fixture.claimed().await, [of("s", 1, 1)]);
}

#[tokio::test]
async fn crashing_handler_becomes_dead_letter() {
    let mut fixture = JournalFixture::new();
    let list = [subscriber("s", "a")];
    fixture.journal.set_subscribers(list.to_vec()).await.unwrap();
    fixture.append("a", 1).await;
    for attempt in 1..=4 {
        assert_eq!(fixture.claimed().await, [of("s", 1, attempt)]);
        if attempt < 4 {
            fixture.crash(&list).await;
        }
    }
    fixture.journal = fixture.second_process();
    let lost = fixture.journal.recover(4, MAX_DELAY).await.unwrap();
    assert_eq!((lost.len(), lost[0].attempts), (1, 4));
    assert_eq!(lost[0].error, "the process ended during the last attempt");
    fixture.journal.set_subscribers(list.to_vec()).await.unwrap();
    assert_eq!(fixture.claimed().await, []);
    assert_eq!(fixture.journal.dead_letters().await.unwrap().len(), 1);
}

#[tokio::test]
async fn released_claims_never_become_dead_letters() {
    let mut fixture = JournalFixture::new();
    let list = [subscriber("s", "a"), subscriber("other", "a")];
    fixture.journal.set_subscribers(list.to_vec()).await.unwrap();
    fixture.append("a", 1).await;
    for attempt in 1..=5 {
        let claimed = fixture.claimed().await;
        assert!(claimed.contains(&of("s", 1, 1)), "{claimed:?}");
        assert_eq!(claimed.contains(&of("other", 1, attempt)), attempt <= 4, "{claimed:?}");
        fixture.journal = fixture.second_process();
        assert_eq!(fixture.journal.release_claimed("s").await.unwrap(), 1);
        // A process that ends here releases them again, which changes nothing.
        assert_eq!(fixture.journal.release_claimed("s").await.unwrap(), 0);
        let lost = fixture.journal.recover(4, MAX_DELAY).await.unwrap();
        assert_eq!(lost.len(), usize::from(attempt == 4));
        fixture.journal.set_subscribers(list.to_vec()).await.unwrap();
    }
}

#[tokio::test]
async fn subscriber_catches_up_within_day() {
    let fixture = JournalFixture::new();
    let (s, other) = (subscriber("s", "a"), subscriber("other", "b"));
    fixture.journal.set_subscribers(vec![s.clone(), other.clone()]).await.unwrap();
    fixture.journal.set_subscribers(vec![other.clone()]).await.unwrap();
    fixture.append("a", 1).await;
    assert_eq!(fixture.claimed().await, []);
    fixture.advance(DAY);
    fixture.journal.set_subscribers(vec![s.clone(), other.clone()]).await.unwrap();
    let claimed = fixture.claim().await.remove(0);
    assert_eq!((claimed.subscriber.as_str(), claimed.event.id), ("s", 1));
    fixture.journal.ack(claimed.id).await.unwrap();
    fixture.journal.set_subscribers(vec![other.clone()]).await.unwrap();
    fixture.append("a", 2).await;
    fixture.advance(DAY + 1);
    fixture.journal.set_subscribers(vec![s, other]).await.unwrap();
    assert_eq!(fixture.claimed().await, [], "it was removed for too long");
    fixture.append("a", 3).await;
    assert_eq!(fixture.claimed().await, [of("s", 3, 1)]);
}

/// Opens a journal with independent wall and steady clocks.
fn with_clocks(fixture: &JournalFixture) -> (Journal, Arc<AtomicU64>, Arc<AtomicU64>) {
    let clock = || Arc::new(AtomicU64::new(100 * HOUR));
    let (wall, steady) = (clock(), clock());
    let (wall_time, steady_time) = (Arc::clone(&wall), Arc::clone(&steady));
    let clock = Clock::with_steady(
        move || wall_time.load(Ordering::SeqCst),
        move || steady_time.load(Ordering::SeqCst),
    );
    (Journal::new(fixture.path(), clock), wall, steady)
}

#[tokio::test]
async fn retry_waits_by_steady_time() {
    let fixture = JournalFixture::new();
    let (journal, wall, steady) = with_clocks(&fixture);
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
    let fixture = JournalFixture::new();
    let (journal, wall, _) = with_clocks(&fixture);
    journal.set_subscribers(vec![subscriber("s", "a")]).await.unwrap();
    wall.store(103 * HOUR, Ordering::SeqCst);
    journal.append(event("a", 1)).await.unwrap();
    let first = journal.claim_due().await.unwrap().deliveries.remove(0);
    journal.fail(first.id, "no", None).await.unwrap();
    // Another process, by the wall clock.
    let other = Journal::new(fixture.path(), Clock::new(|| 103 * HOUR));
    other.retry_dead_letter(first.id).await.unwrap();
    assert_eq!(journal.claim_due().await.unwrap().deliveries.len(), 1);
}

#[tokio::test]
async fn recovery_limits_retry_delay() {
    let fixture = JournalFixture::new();
    let (journal, ..) = with_clocks(&fixture);
    let list = vec![subscriber("s", "a")];
    journal.set_subscribers(list.clone()).await.unwrap();
    journal.append(event("a", 1)).await.unwrap();
    let first = journal.claim_due().await.unwrap().deliveries.remove(0);
    journal.fail(first.id, "no", Some(100 * HOUR + 1000)).await.unwrap();
    journal.close().await;
    // The next process finds the clock three hours earlier.
    let next = Journal::new(fixture.path(), Clock::new(|| 97 * HOUR));
    next.recover(4, MAX_DELAY).await.unwrap();
    next.set_subscribers(list).await.unwrap();
    let max_delay = u64::try_from(MAX_DELAY.as_millis()).unwrap();
    assert_eq!(next.claim_due().await.unwrap().next_ms, Some(max_delay));
}
