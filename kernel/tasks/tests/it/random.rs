//! Random operations with random claims and times: each store and the model are the same.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use skillhost_events::Clock;
use skillhost_tasks::{MemoryQueue, OperationResult, QueryResult, Queue, SqliteQueue, TaskQuery};

use crate::all_rows::{all_outbox, all_questions, all_tasks, list_tasks, read_details};
use crate::fixture::START_MS;

#[path = "random/generator.rs"]
mod generator;
#[path = "random/invariants.rs"]
mod invariants;

use generator::{OperationGenerator, RECENT};
use invariants::{RowHistory, check_fencing, claim_of};

/// The operations of a round; each begins with empty stores.
const ROUND: u64 = 500;
/// The operations of a test, unless `SKILLHOST_OPERATIONS` has another number.
const OPERATIONS: u64 = 3_000;
/// The operations of later rounds from one comparison of all rows to the next.
const ROWS_INTERVAL: u64 = 25;
const YEAR_MS: u64 = 365 * 24 * 60 * 60 * 1000;

/// Returns a result with the parts of its error.
fn comparable(result: &OperationResult) -> String {
    match result {
        Ok(outcome) => format!("{outcome:?}"),
        Err(error) => format!("{:?}: {error} ({})", error.kind(), error.hint()),
    }
}

/// A store that is compared with the model.
struct ComparedStores {
    seed: u64,
    memory: MemoryQueue,
    store: Arc<dyn Queue>,
    now: Arc<AtomicU64>,
    generator: OperationGenerator,
    history: RowHistory,
}

impl ComparedStores {
    fn new(seed: u64, open: impl FnOnce(Clock) -> Arc<dyn Queue>) -> Self {
        let now = Arc::new(AtomicU64::new(START_MS));
        let shared = Arc::clone(&now);
        let clock = Clock::new(move || shared.load(Ordering::SeqCst));
        let (memory, store) = (MemoryQueue::new(clock.clone()), open(clock));
        let (generator, history) = (OperationGenerator::new(seed), RowHistory::default());
        Self { seed, memory, store, now, generator, history }
    }

    /// Executes an operation on both; returns whether it was accepted.
    async fn execute_next(&mut self) -> bool {
        self.generator.now_ms = self.now.load(Ordering::SeqCst);
        let operation = self.generator.next();
        let before = match claim_of(&operation) {
            Some(claim) => self.store.read(TaskQuery::Task(claim.task.clone())).await.unwrap(),
            None => QueryResult::Tasks(Vec::new()),
        };
        let expected = self.memory.execute(operation.clone()).await;
        let result = self.store.execute(operation.clone()).await;
        assert_eq!(comparable(&result), comparable(&expected), "seed {}: {operation:?}", self.seed);
        if let QueryResult::Tasks(before) = before {
            check_fencing(before.first(), &operation, &result);
        }
        self.pass_time();
        result.is_ok()
    }

    fn pass_time(&mut self) {
        let numbers = &mut self.generator.numbers;
        if numbers.once_in(3) {
            self.now.fetch_add(numbers.below(9_000), Ordering::SeqCst);
        }
        if numbers.once_in(200) {
            let jump = [8 * YEAR_MS / 365, YEAR_MS][usize::from(numbers.once_in(2))];
            let now = self.now.load(Ordering::SeqCst);
            let next = if numbers.once_in(2) { now + jump } else { now.saturating_sub(jump) };
            self.now.store(next.max(START_MS / 2), Ordering::SeqCst);
        }
    }

    /// Gives the rows of the model to the generator.
    async fn refresh(&mut self) {
        let recent = usize::try_from(RECENT).unwrap();
        self.generator.tasks = list_tasks(&self.memory, recent).await;
        let questions = all_questions(&self.memory).await;
        self.generator.questions = questions.into_iter().rev().take(12).collect();
        // Before any of them is acknowledged.
        let outbox = all_outbox(&*self.store).await;
        self.history.observe_outbox(&outbox);
        self.generator.outbox = outbox.iter().take(5).map(|row| row.seq).collect();
    }

    /// Compares every row, and checks the rows of the store against their history.
    async fn compare_rows(&mut self) {
        let tasks = all_tasks(&*self.store).await;
        assert_eq!(tasks, all_tasks(&self.memory).await);
        let questions = all_questions(&*self.store).await;
        assert_eq!(questions, all_questions(&self.memory).await);
        let outbox = all_outbox(&*self.store).await;
        assert_eq!(outbox, all_outbox(&self.memory).await);
        self.history.observe_outbox(&outbox);
        self.history.observe_rows(&tasks, &questions);
    }

    async fn compare_details(&self) {
        let ids: Vec<_> = all_tasks(&self.memory).await.into_iter().map(|task| task.id).collect();
        let expected = read_details(&self.memory, &ids).await;
        assert_eq!(read_details(&*self.store, &ids).await, expected);
    }
}

/// Runs rounds with new stores; returns the numbers of operations and of accepted ones.
async fn compare_stores(
    count: u64,
    mut open: impl FnMut(Clock, u64) -> Arc<dyn Queue>,
) -> (u64, u64) {
    let (mut done, mut accepted) = (0, 0);
    while done < count {
        // The first one of a failure is repeated with `SKILLHOST_ROUND`.
        let first: u64 = std::env::var("SKILLHOST_ROUND").map_or(0, |text| text.parse().unwrap());
        let round = first + done / ROUND;
        // All rows after each operation of the first round, and after some of the others.
        let rows_every = if done == 0 { 1 } else { ROWS_INTERVAL };
        let mut stores = ComparedStores::new(round, |clock| open(clock, round));
        for number in 0..ROUND.min(count - done) {
            accepted += u64::from(stores.execute_next().await);
            if number % 4 == 0 {
                stores.refresh().await;
            }
            if number % rows_every == 0 {
                stores.compare_rows().await;
            }
        }
        stores.compare_rows().await;
        stores.compare_details().await;
        done += ROUND;
    }
    (done, accepted)
}

fn operation_count() -> u64 {
    std::env::var("SKILLHOST_OPERATIONS").map_or(OPERATIONS, |text| text.parse().unwrap())
}

#[tokio::test]
async fn sqlite_equals_memory_model() {
    let home = tempfile::tempdir().unwrap();
    let count = operation_count();
    let open = |clock, round: u64| -> Arc<dyn Queue> {
        let path = home.path().join(round.to_string()).join("work.db");
        let old = home.path().join((round.max(1) - 1).to_string());
        let _ = std::fs::remove_dir_all(old);
        Arc::new(SqliteQueue::new(path, clock))
    };
    let (done, accepted) = compare_stores(count, open).await;
    assert!(accepted > done / 3, "too few operations were accepted: {accepted} of {done}");
}
