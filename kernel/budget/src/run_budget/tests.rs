use super::*;

fn with_limits(limits: BudgetLimits, parent: Option<&Arc<RunBudget>>) -> Arc<RunBudget> {
    RunBudget::new(limits, parent.map(Arc::clone))
}

fn timed(ms: u64) -> BudgetLimits {
    BudgetLimits { time_ms: Some(ms), ..BudgetLimits::default() }
}

async fn pass(ms: u64) {
    tokio::time::advance(Duration::from_millis(ms)).await;
}

/// Waits for the deadline for at most a time.
async fn wait_at_most(budget: &RunBudget, ms: u64) -> Option<ExhaustedLimit> {
    tokio::time::timeout(Duration::from_millis(ms), budget.wait_for_deadline()).await.ok()
}

#[tokio::test(start_paused = true)]
async fn exhausted_limit_is_reported() {
    let limits = BudgetLimits { turns: Some(2), tokens: Some(100), time_ms: Some(50), cost: None };
    let now = Instant::now();
    let budget = with_limits(limits, None);
    assert_eq!((budget.start_turn(now), budget.start_turn(now)), (Ok(1), Ok(2)));
    assert_eq!(budget.start_turn(now), Err(ExhaustedLimit::Turns(2)));

    let budget = with_limits(limits, None);
    budget.record_usage(99, 0);
    assert_eq!(budget.check_limits(now), Ok(()));
    budget.record_usage(1, 0);
    assert_eq!(budget.check_limits(now), Err(ExhaustedLimit::Tokens(100)));
}

#[tokio::test(start_paused = true)]
async fn time_is_exhausted_at_limit() {
    let budget = with_limits(timed(50), None);
    let request = budget.start_request();
    pass(49).await;
    let now = Instant::now();
    assert_eq!((budget.check_limits(now), budget.remaining_ms(now)), (Ok(()), Some(1)));
    pass(1).await;
    assert_eq!(budget.check_limits(Instant::now()), Err(ExhaustedLimit::Time(50)));
    drop(request);
    assert_eq!(budget.wait_for_deadline().await, ExhaustedLimit::Time(50));
    assert_eq!(budget.remaining_ms(Instant::now()), Some(0));
}

#[tokio::test(start_paused = true)]
async fn usage_saturates() {
    let budget = with_limits(BudgetLimits::default(), None);
    budget.record_usage(u64::MAX, u64::MAX);
    budget.record_usage(1, 1);
    let expected = BudgetUsage { turns: 0, tokens: u64::MAX, time_ms: 0, cost: u64::MAX };
    assert_eq!((budget.usage(), budget.remaining_ms(Instant::now())), (expected, None));
}

#[tokio::test(start_paused = true)]
async fn delegated_usage_counts_for_parent() {
    let now = Instant::now();
    let limits = BudgetLimits { turns: Some(1), tokens: Some(10), time_ms: Some(20), cost: None };
    let parent = with_limits(limits, None);
    parent.start_turn(now).unwrap();
    let child = with_limits(BudgetLimits::default(), Some(&parent));
    assert_eq!((child.start_turn(now), child.remaining_ms(now)), (Ok(1), Some(20)));
    child.record_usage(10, 500_000);
    assert_eq!(child.check_limits(now), Err(ExhaustedLimit::Tokens(10)));
    let expected = BudgetUsage { turns: 1, tokens: 10, time_ms: 0, cost: 500_000 };
    assert_eq!((parent.usage(), child.usage()), (expected, expected));
}

#[tokio::test(start_paused = true)]
async fn idle_time_costs_nothing() {
    let budget = with_limits(timed(100), None);
    pass(1_000_000).await;
    let request = budget.start_request();
    pass(40).await;
    drop(request);
    pass(1_000_000).await;
    assert_eq!((budget.usage().time_ms, budget.remaining_ms(Instant::now())), (40, Some(60)));
    assert_eq!(wait_at_most(&budget, 1_000_000).await, None);
}

#[tokio::test(start_paused = true)]
async fn overlapping_activities_count_once() {
    let budget = with_limits(timed(1_000), None);
    let (one, two) = (budget.start_call(1), budget.start_call(2));
    pass(60).await;
    drop(one);
    pass(40).await;
    drop(two);
    pass(500).await;
    assert_eq!(budget.usage().time_ms, 100);
}

#[tokio::test(start_paused = true)]
async fn waits_pause_their_call() {
    let budget = with_limits(timed(1_000), None);
    let call = budget.start_call(1);
    pass(10).await;
    let (one, two) = (budget.start_wait(1), budget.start_wait(1));
    pass(100).await;
    drop(one);
    pass(100).await;
    // Another call counts during the wait.
    let other = budget.start_call(2);
    pass(5).await;
    drop(other);
    drop(two);
    pass(20).await;
    drop(call);
    assert_eq!(budget.usage().time_ms, 35);
}

#[tokio::test(start_paused = true)]
async fn wait_may_outlive_call() {
    let budget = with_limits(timed(1_000), None);
    let call = budget.start_call(1);
    let wait = budget.start_wait(1);
    drop(call);
    drop(wait);
    // An id of no call has no effect either.
    let unknown = budget.start_wait(7);
    let next = budget.start_call(2);
    pass(30).await;
    drop((unknown, next));
    pass(30).await;
    assert_eq!(budget.usage().time_ms, 30);
}

#[tokio::test(start_paused = true)]
async fn activities_count_for_parents() {
    let parent = with_limits(timed(100), None);
    let child = with_limits(timed(1_000), Some(&parent));
    let call = parent.start_call(1);
    let wait = parent.start_wait(1);
    let nested = child.start_call(2);
    pass(30).await;
    drop(nested);
    pass(500).await;
    let again = child.start_request();
    pass(30).await;
    drop((again, wait, call));
    assert_eq!((parent.usage().time_ms, child.usage().time_ms), (60, 60));
    assert_eq!(child.remaining_ms(Instant::now()), Some(40));
    let _request = child.start_request();
    let waited = Instant::now();
    assert_eq!(child.wait_for_deadline().await, ExhaustedLimit::Time(100));
    assert_eq!(waited.elapsed(), Duration::from_millis(40));
}

#[tokio::test(start_paused = true)]
async fn deadline_follows_activities() {
    let budget = with_limits(timed(100), None);
    let started = Instant::now();
    let work = async {
        tokio::time::sleep(Duration::from_millis(1_000)).await;
        let request = budget.start_request();
        tokio::time::sleep(Duration::from_millis(60)).await;
        drop(request);
        tokio::time::sleep(Duration::from_millis(1_000)).await;
        let _call = budget.start_call(1);
        std::future::pending::<()>().await;
    };
    tokio::select! {
        limit = budget.wait_for_deadline() => assert_eq!(limit, ExhaustedLimit::Time(100)),
        () = work => unreachable!("the last call never ends"),
    }
    assert_eq!(started.elapsed(), Duration::from_millis(2_100));
}

#[tokio::test(start_paused = true)]
async fn endless_limit_is_never_reached() {
    let budget = with_limits(timed(u64::MAX), None);
    let _request = budget.start_request();
    assert_eq!(wait_at_most(&budget, 1_000).await, None);
    let unlimited = with_limits(BudgetLimits::default(), None);
    let _request = unlimited.start_request();
    assert_eq!(wait_at_most(&unlimited, 1_000).await, None);
}

#[tokio::test(start_paused = true)]
async fn earlier_usage_counts() {
    let limits = BudgetLimits {
        turns: Some(3),
        tokens: Some(100),
        time_ms: Some(1_000),
        cost: Some(2_000_000),
    };
    let used_before = BudgetUsage { turns: 1, tokens: 80, time_ms: 900, cost: 1_500_000 };
    let task = RunBudget::with_usage(limits, used_before);
    assert_eq!(task.usage(), used_before);
    let now = Instant::now();
    let run = with_limits(BudgetLimits::default(), Some(&task));
    assert_eq!((run.remaining_ms(now), run.check_limits(now)), (Some(100), Ok(())));
    // A delegated run uses up the turns of the task, too.
    let child = with_limits(BudgetLimits::default(), Some(&run));
    assert_eq!((run.start_turn(now), child.start_turn(now)), (Ok(1), Ok(1)));
    assert_eq!(run.start_turn(now), Err(ExhaustedLimit::Turns(3)));
    assert_eq!((run.turn_count(), task.usage().turns), (1, 3));

    let task = RunBudget::with_usage(limits, used_before);
    task.record_usage(2, 500_000);
    assert_eq!(task.check_limits(now), Err(ExhaustedLimit::Cost(2_000_000)));
    task.record_usage(18, 0);
    assert_eq!(task.check_limits(now), Err(ExhaustedLimit::Tokens(100)));

    let task = RunBudget::with_usage(limits, used_before);
    let run = with_limits(BudgetLimits::default(), Some(&task));
    let request = run.start_request();
    pass(100).await;
    drop(request);
    assert_eq!(run.check_limits(Instant::now()), Err(ExhaustedLimit::Time(1_000)));
    assert_eq!(task.usage().time_ms, 1_000);
}
