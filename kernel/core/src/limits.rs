//! The time limits of the kernel.

use std::time::Duration;

/// Timeouts and limits of the kernel.
#[derive(Debug, Clone)]
pub struct KernelLimits {
    /// Creating, starting and describing one extension.
    pub start: Duration,
    /// One block of context, one listing of tools, one request for a skill.
    pub context: Duration,
    /// One tool call without a shorter deadline.
    pub tool: Duration,
    /// The approval of a person.
    pub approval: Duration,
    /// Requests to the model in one run of an agent whose manifest names no limit.
    pub turns: u32,
    /// One health check.
    pub health: Duration,
    /// Calls in flight when an extension ends.
    pub drain: Duration,
    /// One attempt to handle an event, if the subscription sets no limit.
    pub event: Duration,
    /// One attempt of an agent to handle an event.
    pub event_agent: Duration,
    /// The delays after each failed attempt to handle an event, except the last.
    pub event_retries: Vec<Duration>,
    /// The end of the service, of `stop`, and of the runtime: each.
    pub stop: Duration,
    /// The drain of active runs before a restart, including the agents to which they delegated
    /// tasks.
    pub rest: Duration,
    /// The request of a client on the control socket, and every line that it reads.
    pub control: Duration,
}

impl Default for KernelLimits {
    fn default() -> Self {
        let seconds = Duration::from_secs;
        Self {
            start: seconds(10),
            context: seconds(2),
            tool: seconds(60),
            approval: seconds(120),
            turns: 100,
            health: seconds(2),
            drain: seconds(10),
            event: seconds(60),
            event_agent: seconds(600),
            event_retries: vec![seconds(1), seconds(5), seconds(25)],
            stop: seconds(5),
            rest: seconds(600),
            control: seconds(10),
        }
    }
}
