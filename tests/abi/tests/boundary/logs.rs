//! Log events of extensions, which the kernel's subscriber receives as its own events.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, OnceLock, PoisonError};

use serde_json::{Value, json};
use skillhost_payload::CallContext;
use tracing::field::{Field, Visit};
use tracing::level_filters::LevelFilter;
use tracing::subscriber::Interest;
use tracing::{Event, Level, Metadata, Subscriber};
use tracing_subscriber::layer::{Context, Layer, SubscriberExt as _};

use crate::fixture::{KernelFixture, home_with, operator};

/// All log events of extensions, and whether debug events are enabled.
#[derive(Default)]
struct Log {
    lines: Mutex<Vec<Line>>,
    errors_only: AtomicBool,
}

type Line = BTreeMap<&'static str, String>;

struct Fields<'a>(&'a mut Line);

impl Visit for Fields<'_> {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        self.0.insert(field.name(), format!("{value:?}"));
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.0.insert(field.name(), value.to_owned());
    }
}

impl<S: Subscriber> Layer<S> for &'static Log {
    fn register_callsite(&self, _: &'static Metadata<'static>) -> Interest {
        // The result changes, and the kernel's own callsites are never queried again.
        Interest::sometimes()
    }

    fn enabled(&self, metadata: &Metadata<'_>, _: Context<'_, S>) -> bool {
        *metadata.level() == Level::ERROR || !self.errors_only.load(Ordering::SeqCst)
    }

    fn max_level_hint(&self) -> Option<LevelFilter> {
        Some(LevelFilter::TRACE)
    }

    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        if event.metadata().target() == "extension" {
            let mut line = BTreeMap::from([("level", event.metadata().level().to_string())]);
            event.record(&mut Fields(&mut line));
            self.lines.lock().unwrap_or_else(PoisonError::into_inner).push(line);
        }
    }
}

impl Log {
    /// Returns the log of the process: extensions have one subscriber, so the tests need their own.
    fn get() -> &'static Self {
        static LOG: OnceLock<&'static Log> = OnceLock::new();
        LOG.get_or_init(|| {
            let log: &'static Log = Box::leak(Box::default());
            let subscriber = tracing_subscriber::registry().with(log);
            tracing::subscriber::set_global_default(subscriber).expect("only this file sets one");
            log
        })
    }

    /// Returns the lines of one extension so far.
    fn of(&self, id: &str) -> Vec<Line> {
        let lines = self.lines.lock().unwrap_or_else(PoisonError::into_inner);
        lines.iter().filter(|line| line["id"] == id).cloned().collect()
    }
}

/// A single test, because the log is global and its filter changes.
#[tokio::test(flavor = "multi_thread")]
async fn log_events_keep_call_and_filter() {
    let log = Log::get();
    let fixture = KernelFixture::boot(home_with("talks", "")).await;
    fixture.done("talks", json!({"do": "log", "text": "hello"})).await;
    let context = r#"{"do": "context"}"#;
    let output = fixture.kernel.agents().invoke_tool(operator(), "talks", context).await.unwrap();
    let after: CallContext = serde_json::from_str(output.structured.unwrap().get()).unwrap();

    let mut lines = log.of("talks");
    let location = lines[0].remove("location").unwrap();
    assert!(location.starts_with("tests/abi/examples/misbehave.rs:"), "{location}");
    let fields: Value = serde_json::from_str(&lines[0].remove("fields").unwrap()).unwrap();
    assert_eq!(fields, json!({"number": 7, "ok": true, "ratio": 0.5}));
    let error = [
        ("level", "ERROR"),
        ("id", "talks"),
        ("message", "hello"),
        ("origin", "misbehave"),
        ("spans", r#"outer{"depth":1}"#),
        ("call_id", &(after.call_id - 1).to_string()),
    ];
    assert_eq!(lines[0], error.map(|(key, value)| (key, value.to_owned())).into());
    assert_eq!((lines.len(), &*lines[1]["level"]), (2, "DEBUG"));

    // A contained panic is an event, too.
    fixture.fault("talks", json!({"do": "act", "act": "panic"})).await;
    let lines = log.of("talks");
    let panic = lines.last().unwrap();
    assert_eq!((&*panic["origin"], &*panic["message"]), ("extension.panic", "talks panicked"));
    assert!(panic["fields"].contains("examples/misbehave.rs:"), "{panic:?}");
    assert_eq!((lines.len(), &*panic["call_id"]), (3, &*(after.call_id + 1).to_string()));

    // The extension caches the filter until it is notified of a change.
    log.errors_only.store(true, Ordering::SeqCst);
    fixture.kernel.extensions().log_filter_changed();
    fixture.done("talks", json!({"do": "log", "text": "quiet"})).await;
    let lines = log.of("talks");
    assert_eq!((lines.len(), &*lines[3]["message"]), (4, "quiet"));
    log.errors_only.store(false, Ordering::SeqCst);
    fixture.kernel.extensions().log_filter_changed();
    fixture.done("talks", json!({"do": "log", "text": "loud"})).await;
    assert_eq!(log.of("talks").len(), 6);
    fixture.kernel.shutdown().await;
}
