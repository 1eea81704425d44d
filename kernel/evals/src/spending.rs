//! The requests of an iteration and what they spent, across processes.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use serde::{Deserialize, Serialize};
use skill_evals::SpentAmounts;
use skill_testing::SpendingLimits;
use skillhost_core::spawn_blocking;
use skillhost_files::{open_append, split_complete_lines, sync_file};
use tokio::sync::OwnedMutexGuard;

use crate::error::EvalError;

/// The name of the file in the directory of an iteration.
const FILE: &str = "requests.jsonl";

/// A line of the file. A request has one before it is sent and one after it.
#[derive(Clone, Copy, Serialize, Deserialize)]
struct RequestLine {
    id: u64,
    /// The usage is known.
    is_done: bool,
    tokens: u64,
    usd: Option<f64>,
}

/// A request that may be sent.
pub(crate) struct SentRequest {
    id: u64,
    /// Held until the usage is known.
    _turn: OwnedMutexGuard<()>,
}

/// The reason why no request may be sent.
#[derive(Clone, Debug)]
pub(crate) struct SpendingStop {
    pub(crate) reason: String,
}

/// The amounts that an iteration spent. Each request is in the file before it is sent: one whose
/// process was killed counts as estimated, and none is counted twice.
pub(crate) struct SpendingMeter {
    path: PathBuf,
    limits: SpendingLimits,
    state: Mutex<MeterState>,
    /// Locked by the request that is sent.
    turn: Arc<tokio::sync::Mutex<()>>,
}

struct MeterState {
    file: File,
    next_id: u64,
    done: SpentAmounts,
    open: BTreeMap<u64, SpentAmounts>,
}

impl SpendingMeter {
    /// Opens the file of an iteration. Blocks.
    pub(crate) fn open(directory: &Path, limits: SpendingLimits) -> Result<Arc<Self>, EvalError> {
        let path = directory.join(FILE);
        let (bytes, is_new) = match fs::read(&path) {
            Ok(bytes) => (bytes, false),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => (Vec::new(), true),
            Err(error) => return Err(EvalError::io(&path)(error)),
        };
        let (lines, complete) = split_complete_lines(&bytes);
        let (mut next_id, mut done, mut open) = (0, SpentAmounts::default(), BTreeMap::new());
        // A line that was torn by a crash is of a request that was not sent.
        for line in lines.iter().filter_map(|line| serde_json::from_slice::<RequestLine>(line).ok())
        {
            let amounts = SpentAmounts { requests: 1, tokens: line.tokens, usd: line.usd };
            // Ids are not reused after a torn line.
            next_id = next_id.max(line.id + 1);
            if line.is_done {
                open.remove(&line.id);
                done.add(amounts);
            } else {
                open.insert(line.id, amounts);
            }
        }
        let file = open_append(&path, is_new).map_err(EvalError::io(&path))?;
        if complete < bytes.len() {
            file.set_len(complete as u64).map_err(EvalError::io(&path))?;
        }
        let state = Mutex::new(MeterState { file, next_id, done, open });
        Ok(Arc::new(Self { path, limits, state, turn: Arc::default() }))
    }

    /// Returns the amounts so far, with the estimates of requests without an end.
    pub(crate) fn spent(&self) -> SpentAmounts {
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.spent()
    }

    /// Returns the limit that an estimate exceeds.
    pub(crate) fn check(&self, estimate: SpentAmounts) -> Result<(), SpendingStop> {
        let spent = self.spent();
        if let Some(limit) = self.limits.tokens
            && spent.tokens.saturating_add(estimate.tokens) > limit
        {
            let tokens = spent.tokens;
            return Err(SpendingStop {
                reason: format!(
                    "{tokens} of {limit} tokens are spent, the next request needs more"
                ),
            });
        }
        if let Some(limit) = self.limits.usd {
            // Requests without a price may have cost any amount.
            if spent.requests > 0 && spent.usd.is_none() {
                let reason = "the cost of earlier requests is not known".to_owned();
                return Err(SpendingStop { reason });
            }
            let (before, next) = (spent.usd.unwrap_or_default(), estimate.usd.unwrap_or_default());
            if before + next > limit || limit <= 0.0 {
                return Err(SpendingStop {
                    reason: format!(
                        "${before:.4} of ${limit:.4} are spent, the next request needs more"
                    ),
                });
            }
        }
        Ok(())
    }

    /// Records a request before it is sent.
    pub(crate) async fn start(
        self: &Arc<Self>,
        estimate: SpentAmounts,
    ) -> Result<SentRequest, SpendingStop> {
        // One request at a time: those of delegated runs could exceed the limit together.
        let turn = Arc::clone(&self.turn).lock_owned().await;
        self.check(estimate)?;
        let meter = Arc::clone(self);
        // On disk before the request is: a killed process has paid for it.
        let recorded = spawn_blocking(move || meter.record(None, estimate)).await;
        match recorded {
            Ok(Ok(id)) => Ok(SentRequest { id, _turn: turn }),
            Ok(Err(error)) => {
                // Without the record, a resumed process would spend the amount again.
                Err(SpendingStop { reason: format!("{}: {error}", self.path.display()) })
            }
            Err(error) => Err(SpendingStop { reason: error.to_string() }),
        }
    }

    /// Records the usage of a request.
    pub(crate) async fn finish(self: &Arc<Self>, request: SentRequest, used: SpentAmounts) {
        let meter = Arc::clone(self);
        // On an error the estimate counts.
        let _ = spawn_blocking(move || meter.record(Some(request.id), used)).await;
    }

    fn record(&self, finished: Option<u64>, amounts: SpentAmounts) -> std::io::Result<u64> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let id = finished.unwrap_or(state.next_id);
        let is_done = finished.is_some();
        let line = RequestLine { id, is_done, tokens: amounts.tokens, usd: amounts.usd };
        let mut text = serde_json::to_vec(&line)?;
        text.push(b'\n');
        state.file.write_all(&text)?;
        sync_file(&state.file)?;
        let amounts = SpentAmounts { requests: 1, ..amounts };
        if is_done {
            state.open.remove(&id);
            state.done.add(amounts);
        } else {
            state.next_id = id + 1;
            state.open.insert(id, amounts);
        }
        Ok(id)
    }
}

impl MeterState {
    fn spent(&self) -> SpentAmounts {
        let mut spent = self.done;
        self.open.values().for_each(|amounts| spent.add(*amounts));
        spent
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn amounts(tokens: u64) -> SpentAmounts {
        SpentAmounts { requests: 1, tokens, usd: Some(tokens as f64 / 1e3) }
    }

    #[tokio::test]
    async fn killed_request_counts_once() {
        let directory = tempfile::tempdir().unwrap();
        let limits = SpendingLimits { tokens: Some(100), usd: None };
        let open = || SpendingMeter::open(directory.path(), limits).unwrap();
        let meter = open();
        let first = meter.start(amounts(10)).await.unwrap();
        meter.finish(first, amounts(30)).await;
        // Its process ends before the reply.
        let _second = meter.start(amounts(20)).await.unwrap();
        assert_eq!(meter.spent().tokens, 50);
        drop(meter);
        let meter = open();
        assert_eq!((meter.spent().requests, meter.spent().tokens), (2, 50));
        let third = meter.start(amounts(20)).await.unwrap();
        meter.finish(third, amounts(25)).await;
        assert_eq!((open().spent().requests, open().spent().tokens), (3, 75));
        assert!(meter.start(amounts(26)).await.is_err());
        // A torn line is of a request that was not sent.
        let path = directory.path().join(FILE);
        let mut file = open_append(&path, false).unwrap();
        file.write_all(br#"{"id":9,"is_done":fal"#).unwrap();
        assert_eq!(open().spent().tokens, 75);
        assert!(fs::read_to_string(&path).unwrap().ends_with("}\n"));
    }

    #[tokio::test]
    async fn unknown_cost_permits_nothing() {
        let directory = tempfile::tempdir().unwrap();
        let open = |usd| {
            let limits = SpendingLimits { tokens: None, usd };
            SpendingMeter::open(directory.path(), limits).unwrap()
        };
        let unpriced = SpentAmounts { usd: None, ..amounts(10) };
        let first = open(None);
        let request = first.start(unpriced).await.unwrap();
        first.finish(request, unpriced).await;
        assert!(open(Some(100.0)).start(amounts(1)).await.is_err());
    }

    #[tokio::test]
    async fn requests_wait_for_each_other() {
        let directory = tempfile::tempdir().unwrap();
        let limits = SpendingLimits { tokens: Some(10), usd: None };
        let meter = SpendingMeter::open(directory.path(), limits).unwrap();
        let first = meter.start(amounts(1)).await.unwrap();
        let second = {
            let meter = Arc::clone(&meter);
            tokio::spawn(async move { meter.start(amounts(1)).await.is_ok() })
        };
        tokio::task::yield_now().await;
        assert!(!second.is_finished());
        meter.finish(first, amounts(10)).await;
        // The reply of the first one was longer than its estimate.
        assert!(!second.await.unwrap());
    }

    #[tokio::test]
    async fn empty_budget_permits_nothing() {
        let directory = tempfile::tempdir().unwrap();
        for limits in [
            SpendingLimits { tokens: Some(0), usd: None },
            SpendingLimits { tokens: None, usd: Some(0.0) },
        ] {
            let meter = SpendingMeter::open(directory.path(), limits).unwrap();
            assert!(meter.start(amounts(1)).await.is_err(), "{limits:?}");
            assert_eq!(meter.spent(), SpentAmounts::default());
        }
    }
}
