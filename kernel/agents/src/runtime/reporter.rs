//! The reports of a run: events for the channel, entries for the transcript.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};

use skillhost_conversation::{Channel, RunEntry, RunEvent, Transcript, TranscriptError};
use skillhost_manifest::ExtensionId;

/// The channel and the transcript of one run.
pub(crate) struct RunReporter {
    agent_id: String,
    /// `None` for a run without clients, which can request no approval either.
    pub(crate) channel: Option<Arc<dyn Channel>>,
    transcript: Transcript,
    noted: Mutex<BTreeSet<String>>,
}

impl RunReporter {
    pub(crate) fn new(
        agent: &ExtensionId,
        channel: Option<Arc<dyn Channel>>,
        transcript: Result<Transcript, TranscriptError>,
    ) -> Self {
        let (transcript, failure) = match transcript {
            Ok(transcript) => (transcript, None),
            // A full disk must not stop runs: they only lose their transcripts.
            Err(error) => (Transcript::disabled(), Some(error)),
        };
        let agent_id = agent.to_string();
        let reporter = Self { agent_id, channel, transcript, noted: Mutex::default() };
        reporter.report_write_error(failure.map_or(Ok(()), Err));
        reporter
    }

    /// Returns the agent's id for events.
    pub(crate) fn agent_id(&self) -> String {
        self.agent_id.clone()
    }

    pub(crate) fn emit(&self, event: &RunEvent) {
        if let Some(channel) = &self.channel {
            channel.on_event(event);
        }
    }

    pub(crate) fn record(&self, entry: &RunEntry) {
        self.report_write_error(self.transcript.record(entry));
    }

    /// Waits until all entries so far are on disk.
    pub(crate) async fn flush(&self) {
        self.report_write_error(self.transcript.flush().await);
    }

    pub(crate) fn record_system(&self, prompt: &str) {
        self.report_write_error(self.transcript.record_system_prompt(prompt));
    }

    /// Reports a note for the operator, once per run.
    pub(crate) fn note_once(&self, text: String) {
        let new = self.noted.lock().unwrap_or_else(PoisonError::into_inner).insert(text.clone());
        if new {
            self.record(&RunEntry::Note { text: text.clone() });
            self.emit(&RunEvent::Note { agent_id: self.agent_id(), text });
        }
    }

    /// Reports a failed write as a note; the run continues without its transcript.
    fn report_write_error(&self, written: Result<(), TranscriptError>) {
        if let Err(error) = written {
            // Not recorded: the transcript is the file that failed.
            let (agent_id, text) = (self.agent_id(), error.to_string());
            self.emit(&RunEvent::Note { agent_id, text });
        }
    }
}
