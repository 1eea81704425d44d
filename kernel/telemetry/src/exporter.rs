//! The export of spans to a collector.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use opentelemetry::Key;
use opentelemetry::trace::TracerProvider as _;
use opentelemetry_otlp::{
    RetryPolicy, SpanExporter as OtlpSpanExporter, WithExportConfig as _, WithHttpConfig as _,
};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::error::OTelSdkResult;
use opentelemetry_sdk::trace::{
    BatchConfigBuilder, BatchSpanProcessor, SdkTracerProvider, SpanData, SpanExporter,
};
use skillhost_agents::RunObserver;
use tokio::task::spawn_blocking;

use crate::collector_client::CollectorClient;
use crate::conventions::ConventionNames;
use crate::spans::SpanObserver;

/// The largest number of spans that wait for the export; further ones are counted and dropped.
const MAX_QUEUE: usize = 2048;
/// The longest time that a span waits.
const DELAY: Duration = Duration::from_secs(2);
/// The longest time of the export at the end.
const SHUTDOWN: Duration = Duration::from_secs(1);
/// The retries of a request that failed for a moment.
const MAX_RETRIES: usize = 2;

/// Sends spans to a collector, on a thread of its own.
pub(crate) struct CollectorExporter {
    provider: SdkTracerProvider,
    observer: Arc<SpanObserver>,
    counts: Arc<ExportCounts>,
}

/// The numbers of exported spans.
#[derive(Debug, Default)]
struct ExportCounts {
    exported: AtomicU64,
    failed: AtomicU64,
    /// The last request failed.
    is_failing: AtomicBool,
}

/// An exporter that reports when a collector stops accepting spans and when it accepts them again.
#[derive(Debug)]
struct ReportingExporter {
    inner: OtlpSpanExporter,
    counts: Arc<ExportCounts>,
    collector: String,
}

impl CollectorExporter {
    /// Starts the thread; must be called in a tokio runtime.
    ///
    /// # Errors
    /// The cause, for the operator.
    pub(crate) fn start(
        collector: &str,
        names: Option<&'static ConventionNames>,
        has_content: bool,
    ) -> Result<Self, String> {
        let inner = OtlpSpanExporter::builder()
            .with_http()
            .with_http_client(CollectorClient::new(collector)?)
            .with_endpoint(format!("{}/v1/traces", collector.trim_end_matches('/')))
            .with_retry_policy(RetryPolicy::default().with_max_retries(MAX_RETRIES))
            .build()
            .map_err(|error| error.to_string())?;
        let counts = Arc::new(ExportCounts::default());
        let exporter = ReportingExporter {
            inner,
            counts: Arc::clone(&counts),
            collector: collector.to_owned(),
        };
        let config = BatchConfigBuilder::default()
            .with_max_queue_size(MAX_QUEUE)
            .with_scheduled_delay(DELAY)
            .build();
        let processor = BatchSpanProcessor::builder(exporter).with_batch_config(config).build();
        let provider = SdkTracerProvider::builder()
            .with_resource(describe_service())
            .with_span_processor(processor)
            .build();
        let tracer = provider.tracer("skillhost");
        let observer = Arc::new(SpanObserver::new(tracer, names, has_content));
        Ok(Self { provider, observer, counts })
    }

    /// Returns the observer that makes spans.
    pub(crate) fn observer(&self) -> Arc<dyn RunObserver> {
        Arc::clone(&self.observer) as Arc<dyn RunObserver>
    }

    /// Sends the spans that have ended, and reports those that were not sent.
    pub(crate) async fn shut_down(self) {
        let Self { provider, observer, counts } = self;
        // It waits for the thread, which must not block a worker of the runtime.
        let _ = spawn_blocking(move || provider.shutdown_with_timeout(SHUTDOWN)).await;
        let exported = counts.exported.load(Ordering::Relaxed);
        // The SDK does not say how many spans did not fit into its queue, so they are counted here.
        let lost = observer.ended_count().saturating_sub(exported);
        if lost > 0 {
            tracing::warn!(lost, exported, "spans of telemetry were not exported");
        }
    }
}

/// Describes this program, unless the variables of OpenTelemetry do.
fn describe_service() -> Resource {
    let resource = Resource::builder().build();
    let name = resource.get(&Key::from_static_str("service.name")).map(|name| name.to_string());
    match name {
        // The default of the SDK has this start.
        Some(name) if !name.starts_with("unknown_service") => resource,
        _ => Resource::builder().with_service_name("skillhost").build(),
    }
}

impl SpanExporter for ReportingExporter {
    async fn export(&self, batch: Vec<SpanData>) -> OTelSdkResult {
        let count = u64::try_from(batch.len()).unwrap_or(u64::MAX);
        let exported = self.inner.export(batch).await;
        let collector = &self.collector;
        match &exported {
            Ok(()) => {
                self.counts.exported.fetch_add(count, Ordering::Relaxed);
                if self.counts.is_failing.swap(false, Ordering::Relaxed) {
                    let failed = self.counts.failed.load(Ordering::Relaxed);
                    tracing::info!(%collector, failed, "spans of telemetry are accepted again");
                }
            }
            Err(error) => {
                self.counts.failed.fetch_add(count, Ordering::Relaxed);
                // One message for each outage: the next turns must not fill the log.
                if !self.counts.is_failing.swap(true, Ordering::Relaxed) {
                    tracing::warn!(
                        %collector,
                        error = %error.to_string().escape_debug(),
                        "spans of telemetry are not accepted"
                    );
                }
            }
        }
        exported
    }

    fn shutdown_with_timeout(&self, timeout: Duration) -> OTelSdkResult {
        self.inner.shutdown_with_timeout(timeout)
    }

    fn set_resource(&mut self, resource: &Resource) {
        self.inner.set_resource(resource);
    }
}
