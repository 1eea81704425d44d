//! A kernel and a clock for tests.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard};

use skillhost_sdk::prelude::*;
use skillhost_sdk::{InboundOutcome, IncomingMessage};

use crate::hook::{HookConfig, HookTable};
use crate::hook_clock::HookClock;
use crate::hook_kernel::HookKernel;

/// The secret of the specification's example.
pub(crate) const SECRET: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
/// The time at which tests begin.
pub(crate) const NOW: u64 = 1_700_000_000;

/// A kernel that stores messages once.
#[derive(Default)]
pub(crate) struct TestKernel {
    state: Mutex<StoredHooks>,
}

#[derive(Default)]
pub(crate) struct StoredHooks {
    pub(crate) secrets: BTreeMap<String, String>,
    pub(crate) messages: Vec<IncomingMessage>,
    /// The calls with a message.
    pub(crate) calls: usize,
    pub(crate) refuses: bool,
    pub(crate) throttles: bool,
    pub(crate) failure: Option<ErrorKind>,
}

impl TestKernel {
    pub(crate) fn lock(&self) -> MutexGuard<'_, StoredHooks> {
        self.state.lock().unwrap()
    }

    pub(crate) fn set_secret(&self, name: &str, value: &str) {
        self.lock().secrets.insert(name.to_owned(), value.to_owned());
    }
}

#[async_trait]
impl HookKernel for TestKernel {
    async fn receive_message(&self, message: &IncomingMessage) -> Result<InboundOutcome> {
        let mut state = self.lock();
        state.calls += 1;
        if let Some(kind) = state.failure {
            return Err(ExtensionError::new(kind, "failed on purpose"));
        }
        if state.refuses {
            return Ok(InboundOutcome::Refused);
        }
        if state.throttles {
            return Ok(InboundOutcome::Throttled { retry_after_ms: 2_001 });
        }
        if state.messages.contains(message) {
            return Ok(InboundOutcome::Duplicate);
        }
        state.messages.push(message.clone());
        Ok(InboundOutcome::Accepted)
    }

    async fn require_receiver(&self) -> Result<()> {
        Ok(())
    }

    async fn read_secret(&self, name: &str) -> Result<Option<String>> {
        Ok(self.lock().secrets.get(name).cloned())
    }
}

/// A clock that a test sets.
pub(crate) struct TestClock(AtomicU64);

impl TestClock {
    pub(crate) fn new() -> Arc<Self> {
        Arc::new(Self(AtomicU64::new(NOW)))
    }

    pub(crate) fn set_time(&self, now: u64) {
        self.0.store(now, Ordering::Relaxed);
    }
}

impl HookClock for TestClock {
    fn unix_time(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// Returns a table of hooks, each with a secret and perhaps a URL.
pub(crate) fn hook_table(hooks: &[(&str, &str, Option<&str>)]) -> Arc<HookTable> {
    let config = |(name, secret, url): &(&str, &str, Option<&str>)| {
        let url = url.map(str::to_owned);
        ((*name).to_owned(), HookConfig { secret: (*secret).to_owned(), url })
    };
    Arc::new(HookTable::parse(&hooks.iter().map(config).collect()).unwrap())
}
