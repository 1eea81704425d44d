//! The limits of a client.

use std::time::Duration;

/// The upper bounds of sizes, counts and times that clients control.
#[derive(Debug, Clone)]
pub struct ClientLimits {
    /// Bytes of one incoming message.
    pub message: usize,
    /// Bytes of a resource's content as encoded in a response.
    pub resource: usize,
    /// Concurrent requests of one session; more wait.
    pub running: usize,
    /// Waiting requests of one session; more are rejected.
    pub waiting: usize,
    /// Entries of one page of a list.
    pub page: usize,
    /// Resources that one session may watch.
    pub watched: usize,
    /// The interval of progress reports of a tool call.
    pub progress: Duration,
    /// The interval at which watched resources are checked for changes.
    pub watch: Duration,
    /// The time that active requests have after the end of the client's input.
    pub farewell: Duration,
    /// The time within which a task may end for its result to be the answer of its call.
    pub task_answer: Duration,
    /// The timeout of a user's decision about a proposal.
    pub review: Duration,
}

impl Default for ClientLimits {
    fn default() -> Self {
        Self {
            message: 4 * 1024 * 1024,
            resource: 8 * 1024 * 1024,
            running: 64,
            waiting: 4096,
            page: 100,
            watched: 1024,
            progress: Duration::from_secs(1),
            watch: Duration::from_secs(5),
            farewell: Duration::from_millis(500),
            task_answer: Duration::from_millis(250),
            review: Duration::from_secs(600),
        }
    }
}
