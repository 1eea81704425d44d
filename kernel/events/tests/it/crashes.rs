//! At-least-once delivery, whenever the process ends.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;
use skillhost_events::{Delivery, Subscriber};

use crate::fixture::{JournalFixture, event_with_key, subscriber};

/// A step of the process; each may be its last.
#[derive(Debug, Clone)]
enum Step {
    /// Appends an event, perhaps one that exists already.
    Append {
        key: u8,
    },
    Claim,
    /// Handles an event; the process may end before the acknowledgement.
    Handle {
        which: usize,
        acked: bool,
    },
    Fail {
        which: usize,
    },
    Release {
        which: usize,
    },
    Wait,
    Crash,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        3 => (0u8..20).prop_map(|key| Step::Append { key }),
        4 => Just(Step::Claim),
        3 => (any::<usize>(), any::<bool>()).prop_map(|(which, acked)| Step::Handle { which, acked }),
        2 => any::<usize>().prop_map(|which| Step::Fail { which }),
        1 => any::<usize>().prop_map(|which| Step::Release { which }),
        1 => Just(Step::Wait),
        2 => Just(Step::Crash),
    ];
    proptest::collection::vec(step, 1..40)
}

fn subscribers() -> Vec<Subscriber> {
    let threads =
        Subscriber::new("threads", "m").with_ordering_key(|event| Some((event.id % 3).to_string()));
    vec![subscriber("all", "*"), threads]
}

/// The pairs of subscriber and handled event.
type HandledEvents = BTreeSet<(String, i64)>;

fn take_delivery(claimed: &mut Vec<Delivery>, which: usize) -> Option<Delivery> {
    (!claimed.is_empty()).then(|| claimed.remove(which % claimed.len()))
}

async fn run_steps(steps: Vec<Step>) {
    let mut fixture = JournalFixture::new();
    fixture.journal.set_subscribers(subscribers()).await.unwrap();
    let (mut claimed, mut seen) = (Vec::new(), HandledEvents::new());
    let mut keys = BTreeMap::new();
    for step in steps {
        match step {
            Step::Append { key } => {
                let (event, new) =
                    fixture.journal.append(event_with_key("m", 0, &key.to_string())).await.unwrap();
                let first = *keys.entry(key).or_insert(event.id);
                assert_eq!((event.id, new), (first, event.id == keys.len() as i64 && new));
            }
            Step::Claim => claimed.extend(fixture.claim().await),
            Step::Handle { which, acked } => {
                let Some(delivery) = take_delivery(&mut claimed, which) else { continue };
                seen.insert((delivery.subscriber.clone(), delivery.event.id));
                match acked {
                    true => assert!(fixture.journal.ack(delivery.id).await.unwrap()),
                    false => {
                        claimed.clear();
                        fixture.crash(&subscribers()).await;
                    }
                }
            }
            Step::Fail { which } => {
                let Some(delivery) = take_delivery(&mut claimed, which) else { continue };
                let again = (delivery.attempt < 4).then_some(fixture.journal.now_ms() + 1000);
                assert!(fixture.journal.fail(delivery.id, "no", again).await.unwrap());
            }
            Step::Release { which } => {
                let Some(delivery) = take_delivery(&mut claimed, which) else { continue };
                assert!(fixture.journal.release(delivery.id).await.unwrap());
            }
            Step::Wait => fixture.advance(1000),
            Step::Crash => {
                claimed.clear();
                fixture.crash(&subscribers()).await;
            }
        }
    }
    // Afterwards no step fails, so every remaining delivery must arrive.
    fixture.crash(&subscribers()).await;
    fixture.advance(1000);
    loop {
        let due = fixture.claim().await;
        if due.is_empty() {
            break;
        }
        for delivery in due {
            seen.insert((delivery.subscriber.clone(), delivery.event.id));
            fixture.journal.ack(delivery.id).await.unwrap();
        }
    }
    let dead = fixture.journal.dead_letters().await.unwrap();
    let dead = dead.into_iter().map(|letter| (letter.subscriber, letter.event.id));
    let reached: HandledEvents = seen.into_iter().chain(dead).collect();
    let wanted = (1..=keys.len() as i64)
        .flat_map(|event| [("all".to_owned(), event), ("threads".to_owned(), event)]);
    assert_eq!(reached, wanted.collect());
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    #[test]
    fn every_event_is_delivered_or_dead(steps in steps()) {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(run_steps(steps));
    }
}
