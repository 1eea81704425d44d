//! The export of runs and of the calls of tools as OpenTelemetry traces, off by default.
//!
//! - `conventions` has the names of a version of the GenAI conventions, the only place with names.
//! - `skill_call` reads which skill a call uses, from the arguments that its tool declares.
//! - `exporter` sends spans to a collector, on a thread of its own and from a queue with a limit;
//!   `spans` makes them, as a [`skillhost_agents::RunObserver`]. Both are behind the feature
//!   `otlp`.
//!
//! Prompts, replies, arguments and results are never exported. The names of skills and the paths of
//! their files are, if they have the form of such names.

use std::sync::Arc;

use skillhost_agents::RunObserver;
use skillhost_home::TelemetrySettings;

#[cfg(feature = "otlp")]
mod collector_client;
#[cfg(any(feature = "otlp", test))]
mod conventions;
#[cfg(feature = "otlp")]
mod exporter;
#[cfg(any(feature = "otlp", test))]
mod skill_call;
#[cfg(feature = "otlp")]
mod spans;

/// The variable by which instrumentations of generative AI opt in to unstable conventions.
#[cfg(feature = "otlp")]
const OPT_IN_VARIABLE: &str = "OTEL_SEMCONV_STABILITY_OPT_IN";

/// An error that prevents the export.
#[derive(Debug, thiserror::Error)]
pub enum TelemetryError {
    /// The settings name a collector, but the program cannot send to one.
    #[error("telemetry.otlp is set, but this program was built without the feature `otlp`")]
    NotBuilt,
    /// The exporter could not be created.
    #[error("telemetry.otlp: {message}")]
    Exporter {
        /// The cause.
        message: String,
    },
}

impl TelemetryError {
    /// Returns the hint for the operator.
    #[must_use]
    pub fn hint(&self) -> String {
        match self {
            Self::NotBuilt => "build the program with `--features otlp`, or remove the setting",
            Self::Exporter { .. } => "correct telemetry in skillhost.yaml and the OTEL_ variables",
        }
        .to_owned()
    }
}

/// A running export.
pub struct TelemetryExport {
    #[cfg(feature = "otlp")]
    exporter: exporter::CollectorExporter,
    #[cfg(not(feature = "otlp"))]
    never: std::convert::Infallible,
}

impl TelemetryExport {
    /// Starts the export that settings name; `None` if they name no collector. Must be called in a
    /// tokio runtime, which sends the requests.
    ///
    /// # Errors
    /// [`TelemetryError`].
    pub fn start(settings: &TelemetrySettings) -> Result<Option<Self>, TelemetryError> {
        let Some(collector) = &settings.otlp else { return Ok(None) };
        #[cfg(feature = "otlp")]
        {
            let opt_in = std::env::var(OPT_IN_VARIABLE).unwrap_or_default();
            let names = conventions::ConventionNames::select(settings.gen_ai, &opt_in);
            exporter::CollectorExporter::start(collector, names, settings.content)
                .map(|exporter| Some(Self { exporter }))
                .map_err(|message| TelemetryError::Exporter { message })
        }
        #[cfg(not(feature = "otlp"))]
        {
            let _ = collector;
            Err(TelemetryError::NotBuilt)
        }
    }

    /// Returns the observer that makes spans.
    #[must_use]
    pub fn observer(&self) -> Arc<dyn RunObserver> {
        #[cfg(feature = "otlp")]
        return self.exporter.observer();
        // Without the feature there is no value of this type.
        #[cfg(not(feature = "otlp"))]
        match self.never {}
    }

    /// Sends the spans that have ended, for a second at most.
    pub async fn shut_down(self) {
        #[cfg(feature = "otlp")]
        self.exporter.shut_down().await;
        #[cfg(not(feature = "otlp"))]
        match self.never {}
    }
}
