//! How much a client may ask for.

use std::time::Duration;

/// Upper bounds of what clients decide.
#[derive(Debug, Clone)]
pub struct ClientLimits {
    /// Bytes of one message that comes in.
    pub message: usize,
    /// Bytes of a resource's content as it stands in an answer.
    pub resource: usize,
    /// Requests of one session that are worked on at the same time; more wait.
    pub running: usize,
    /// Requests of one session that wait; more are refused.
    pub waiting: usize,
    /// Entries of one page of a list.
    pub page: usize,
    /// Resources that one session may watch.
    pub watched: usize,
    /// After this time a call reports its progress, and then again and again.
    pub progress: Duration,
    /// How often watched resources are compared with what they were.
    pub watch: Duration,
    /// How long requests are worked on once the client says nothing more.
    pub farewell: Duration,
    /// How long a human may think about a proposal.
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
            review: Duration::from_secs(600),
        }
    }
}
