//! Waiting for other processes, with one limit.

use std::fmt::Debug;
use std::thread::sleep;
use std::time::{Duration, Instant};

/// The time after which a test is stuck, also on a slow machine that runs other tests.
pub const STUCK_AFTER: Duration = Duration::from_secs(300);

/// The interval of polls. A loop without one takes the processor from the processes that it waits
/// for.
const POLL_INTERVAL: Duration = Duration::from_millis(2);

/// Polls until the closure returns `Ok`, and returns the value. `Err` has the present state.
///
/// # Panics
/// If the test is stuck; the message has the last state.
#[track_caller]
pub fn poll_until<T, E: Debug>(awaited: &str, mut poll: impl FnMut() -> Result<T, E>) -> T {
    let start = Instant::now();
    loop {
        match poll() {
            Ok(found) => return found,
            Err(state) if start.elapsed() > STUCK_AFTER => {
                panic!("stuck waiting for: {awaited}; the last state: {state:#?}")
            }
            Err(_) => sleep(POLL_INTERVAL),
        }
    }
}

/// Waits until the closure returns `true`.
///
/// # Panics
/// If the test is stuck.
#[track_caller]
pub fn wait_until(awaited: &str, mut is_reached: impl FnMut() -> bool) {
    poll_until(awaited, || if is_reached() { Ok(()) } else { Err("not reached") });
}
