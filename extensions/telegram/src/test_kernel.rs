//! A kernel and a clock for tests.

use std::sync::{Mutex, MutexGuard};
use std::time::Duration;

use skillhost_sdk::prelude::*;
use skillhost_sdk::{ButtonOutcome, InboundOutcome, IncomingMessage, PressedButton};
use tokio::sync::{Notify, Semaphore};

use crate::bot_kernel::BotKernel;
use crate::poll_timer::PollTimer;

/// A kernel that stores messages once.
#[derive(Default)]
pub(crate) struct TestKernel {
    state: Mutex<StoredUpdates>,
    changed: Notify,
}

#[derive(Default)]
pub(crate) struct StoredUpdates {
    pub(crate) token: Option<String>,
    pub(crate) messages: Vec<IncomingMessage>,
    pub(crate) duplicates: usize,
    pub(crate) presses: Vec<PressedButton>,
    pub(crate) cursor: Option<String>,
    /// The errors of the next messages, in order; `None` stores one.
    pub(crate) failures: Vec<Option<ErrorKind>>,
    /// The error of each use of the cursor.
    pub(crate) cursor_failure: Option<ErrorKind>,
    pub(crate) press_failure: Option<ErrorKind>,
}

impl TestKernel {
    pub(crate) fn with_token(token: &str) -> Arc<Self> {
        let kernel = Self::default();
        kernel.lock().token = Some(token.to_owned());
        Arc::new(kernel)
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, StoredUpdates> {
        self.state.lock().unwrap()
    }

    /// Waits until the state is as expected.
    pub(crate) async fn wait_until(&self, mut condition: impl FnMut(&StoredUpdates) -> bool) {
        let waiting = async {
            loop {
                let changed = self.changed.notified();
                let mut changed = std::pin::pin!(changed);
                changed.as_mut().enable();
                if condition(&self.lock()) {
                    return;
                }
                changed.await;
            }
        };
        tokio::time::timeout(Duration::from_secs(60), waiting).await.unwrap();
    }
}

fn fail(kind: ErrorKind) -> ExtensionError {
    ExtensionError::new(kind, "failed on purpose")
}

#[async_trait]
impl BotKernel for TestKernel {
    async fn receive_message(&self, message: &IncomingMessage) -> Result<InboundOutcome> {
        let mut state = self.lock();
        let failure = if state.failures.is_empty() { None } else { state.failures.remove(0) };
        if let Some(kind) = failure {
            return Err(fail(kind));
        }
        let is_same = |stored: &&IncomingMessage| {
            stored.external_id == message.external_id && stored.conversation == message.conversation
        };
        let outcome = if state.messages.iter().any(|stored| is_same(&stored)) {
            state.duplicates += 1;
            InboundOutcome::Duplicate
        } else {
            state.messages.push(message.clone());
            InboundOutcome::Accepted
        };
        self.changed.notify_waiters();
        Ok(outcome)
    }

    async fn press_button(&self, button: &PressedButton) -> Result<ButtonOutcome> {
        let mut state = self.lock();
        if let Some(kind) = state.press_failure {
            return Err(fail(kind));
        }
        state.presses.push(button.clone());
        self.changed.notify_waiters();
        Ok(ButtonOutcome { text: "Approved.".to_owned() })
    }

    async fn load_cursor(&self) -> Result<Option<String>> {
        let state = self.lock();
        state.cursor_failure.map_or_else(|| Ok(state.cursor.clone()), |kind| Err(fail(kind)))
    }

    async fn store_cursor(&self, value: &str) -> Result<()> {
        let mut state = self.lock();
        if let Some(kind) = state.cursor_failure {
            return Err(fail(kind));
        }
        state.cursor = Some(value.to_owned());
        self.changed.notify_waiters();
        Ok(())
    }

    async fn read_token(&self) -> Result<Option<String>> {
        Ok(self.lock().token.clone())
    }
}

/// A clock whose pauses end at once, as many as a test grants.
pub(crate) struct TestTimer {
    pauses: Mutex<Vec<Duration>>,
    granted: Semaphore,
    requested: Notify,
    now: Mutex<u64>,
}

impl TestTimer {
    pub(crate) fn new(granted: usize) -> Arc<Self> {
        Arc::new(Self {
            pauses: Mutex::default(),
            granted: Semaphore::new(granted),
            requested: Notify::new(),
            now: Mutex::new(1_700_000_000),
        })
    }

    pub(crate) fn grant(&self, pauses: usize) {
        self.granted.add_permits(pauses);
    }

    pub(crate) fn set_time(&self, now: u64) {
        *self.now.lock().unwrap() = now;
    }

    /// Waits until so many pauses were requested; returns them in seconds.
    pub(crate) async fn wait_for_pauses(&self, count: usize) -> Vec<u64> {
        let waiting = async {
            loop {
                let requested = self.requested.notified();
                let mut requested = std::pin::pin!(requested);
                requested.as_mut().enable();
                let pauses = self.pauses.lock().unwrap().clone();
                if pauses.len() >= count {
                    return pauses.iter().map(Duration::as_secs).collect();
                }
                requested.await;
            }
        };
        tokio::time::timeout(Duration::from_secs(60), waiting).await.unwrap()
    }
}

#[async_trait]
impl PollTimer for TestTimer {
    async fn pause(&self, time: Duration) {
        self.pauses.lock().unwrap().push(time);
        self.requested.notify_waiters();
        self.granted.acquire().await.unwrap().forget();
    }

    fn unix_time(&self) -> u64 {
        *self.now.lock().unwrap()
    }
}
