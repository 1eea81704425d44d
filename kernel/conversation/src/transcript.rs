//! The transcript of a run: one JSON line per event.

use std::collections::BTreeSet;
use std::io;
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};

use serde::Serialize;
use skillhost_files::{
    AppendLog, AppendReceipt, AppendSink, create_private_dir, open_append, sha256_hex,
};
use skillhost_home::{Home, now_ms};
use skillhost_payload::{CallOrigin, SkillRef};

use crate::channel::{ApprovalDecision, UncertainDecision};
use crate::model::ModelReply;
use crate::usage::TokenUsage;

/// The version of a transcript's lines.
const VERSION: u32 = 1;

/// The transcript of one run, `sandbox/data/kernel/runs/<run>.jsonl`. It is for people and
/// programs; the kernel does not read it. Entries are written in their order, in the background.
pub struct Transcript {
    inner: Mutex<TranscriptFile>,
}

/// The properties of a run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct RunHeader {
    /// The run; names the file.
    pub run_id: String,
    /// The run that delegated the task.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub parent: Option<String>,
    /// The thread; absent if it cannot be resumed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub thread: Option<String>,
    /// The agent.
    pub agent: String,
    /// The model, `provider/model`.
    pub model: String,
    /// The caller on whose behalf the run acts.
    pub origin: CallOrigin,
}

/// One line of a transcript.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(tag = "entry", rename_all = "snake_case")]
pub enum RunEntry {
    /// The message of the user or of the delegating agent.
    Prompt {
        /// The text.
        text: String,
    },
    /// The skills in force from here on.
    Skills {
        /// Those of the agent's manifest.
        bound: Vec<SkillRef>,
        /// Skills that were read or invoked.
        active: Vec<SkillRef>,
    },
    /// A model request.
    Request {
        /// The request's number within the run, from 1.
        turn: u32,
        /// The number of messages.
        messages: usize,
        /// The number of offered tools.
        tools: usize,
        /// Its estimated tokens.
        tokens: u64,
    },
    /// A model reply.
    Reply {
        /// The request's number.
        turn: u32,
        /// The reply.
        reply: ModelReply,
        /// The cost, if the price is known.
        #[serde(skip_serializing_if = "Option::is_none")]
        cost: Option<f64>,
    },
    /// A tool call.
    Call {
        /// The call's id, the model's own.
        call_id: String,
        /// The tool.
        tool: String,
        /// The arguments as the model wrote them.
        arguments: String,
    },
    /// The decision about a tool call.
    Approval {
        /// The tool.
        tool: String,
        /// The decision.
        decision: ApprovalDecision,
    },
    /// The decision about a call that may have happened.
    Uncertain {
        /// The tool.
        tool: String,
        /// The decision.
        decision: UncertainDecision,
    },
    /// A question to a person, with the answer if there was one.
    Question {
        /// The question.
        question: String,
        /// The answer.
        #[serde(skip_serializing_if = "Option::is_none")]
        answer: Option<String>,
    },
    /// A tool result.
    Answer {
        /// The call's id.
        call_id: String,
        /// The tool.
        tool: String,
        /// The text for the model.
        text: String,
        /// It failed.
        is_error: bool,
    },
    /// Compaction of older messages.
    Compacted {
        /// The number of messages.
        messages: usize,
        /// Estimated tokens before.
        before: u64,
        /// And after.
        after: u64,
    },
    /// Delegation of a task to another agent.
    Delegated {
        /// The agent.
        to: String,
        /// Its run.
        run_id: String,
    },
    /// A note for people.
    Note {
        /// The text.
        text: String,
    },
    /// The end of the run.
    Ended {
        /// `done`, or the kind of error.
        outcome: String,
        /// The error's message.
        #[serde(skip_serializing_if = "Option::is_none")]
        error: Option<String>,
        /// The total usage.
        usage: TokenUsage,
        /// The total cost, if the prices are known.
        #[serde(skip_serializing_if = "Option::is_none")]
        cost: Option<f64>,
    },
}

/// An error after which a transcript is not written any more.
#[derive(Debug, thiserror::Error)]
#[error("writing the transcript {} failed: {source}", path.display())]
pub struct TranscriptError {
    /// The file.
    pub path: PathBuf,
    /// The system's error.
    pub source: io::Error,
}

struct TranscriptFile {
    /// Absent for a transcript that is not written, and after the first failure.
    journal: Option<AppendLog>,
    /// The receipts of entries that may not be on disk yet.
    receipts: Vec<AppendReceipt>,
    /// Digests of the system prompts that the file contains.
    prompts: BTreeSet<String>,
}

#[derive(Serialize)]
struct TranscriptLine<'a, T> {
    at: u64,
    #[serde(flatten)]
    entry: &'a T,
}

#[derive(Serialize)]
#[serde(tag = "entry", rename_all = "snake_case")]
enum TranscriptRecord<'a> {
    Run {
        version: u32,
        #[serde(flatten)]
        header: &'a RunHeader,
    },
    System {
        digest: &'a str,
        #[serde(skip_serializing_if = "Option::is_none")]
        text: Option<&'a str>,
    },
}

impl Transcript {
    /// Creates the transcript of a run; its first line is on disk when this returns.
    ///
    /// # Errors
    /// [`TranscriptError`]; a run can continue with [`Transcript::disabled`].
    pub async fn create(home: &Home, header: &RunHeader) -> Result<Self, TranscriptError> {
        let dir = home.data_dir("kernel").join("runs");
        let path = dir.join(format!("{}.jsonl", header.run_id));
        let opened = create_private_dir(&dir).and_then(|()| open_append(&path, true));
        match opened {
            Ok(file) => Self::with_sink(path, Box::new(file), header).await,
            Err(source) => Err(TranscriptError { path, source }),
        }
    }

    /// Returns a transcript that is not written.
    #[must_use]
    pub fn disabled() -> Self {
        Self::new(None)
    }

    fn new(journal: Option<AppendLog>) -> Self {
        let (receipts, prompts) = (Vec::new(), BTreeSet::new());
        Self { inner: Mutex::new(TranscriptFile { journal, receipts, prompts }) }
    }

    async fn with_sink(
        path: PathBuf,
        disk: Box<dyn AppendSink>,
        header: &RunHeader,
    ) -> Result<Self, TranscriptError> {
        let transcript = Self::new(Some(AppendLog::ending_on_error(path, disk)));
        transcript.lock().write(&TranscriptRecord::Run { version: VERSION, header })?;
        transcript.flush().await?;
        Ok(transcript)
    }

    /// Adds an entry.
    ///
    /// # Errors
    /// [`TranscriptError`] once a write of an earlier entry has failed; later entries are ignored
    /// without an error.
    pub fn record(&self, entry: &RunEntry) -> Result<(), TranscriptError> {
        self.lock().write(entry)
    }

    /// Waits until all entries are on disk.
    ///
    /// # Errors
    /// As for [`Transcript::record`].
    pub async fn flush(&self) -> Result<(), TranscriptError> {
        let Some(receipt) = self.lock().journal.as_ref().map(|log| log.append(Vec::new())) else {
            return Ok(());
        };
        // Its own error is that of an earlier entry.
        let _ = receipt.await;
        self.lock().check_receipts()
    }

    /// Adds the system prompt of a request: in full at its first use, else its digest.
    ///
    /// # Errors
    /// As for [`Transcript::record`].
    pub fn record_system_prompt(&self, prompt: &str) -> Result<(), TranscriptError> {
        let digest = sha256_hex(prompt.as_bytes());
        let mut inner = self.lock();
        let known = inner.prompts.contains(&digest);
        inner.write(&TranscriptRecord::System {
            digest: &digest,
            text: (!known).then_some(prompt),
        })?;
        // If it cannot be written, no later entry is written either.
        inner.prompts.insert(digest);
        Ok(())
    }

    /// Locks the file. A panic in another thread leaves complete lines behind.
    fn lock(&self) -> std::sync::MutexGuard<'_, TranscriptFile> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl TranscriptFile {
    fn write<T: Serialize>(&mut self, entry: &T) -> Result<(), TranscriptError> {
        self.check_receipts()?;
        let Some(journal) = &self.journal else { return Ok(()) };
        match serde_json::to_vec(&TranscriptLine { at: now_ms(), entry }) {
            Ok(mut line) => {
                line.push(b'\n');
                self.receipts.push(journal.append(line));
                Ok(())
            }
            Err(error) => self.end(error.into()),
        }
    }

    /// Removes the receipts of written entries.
    fn check_receipts(&mut self) -> Result<(), TranscriptError> {
        let mut first_error = None;
        self.receipts.retain_mut(|receipt| match receipt.try_result() {
            None => true,
            Some(written) => {
                first_error = first_error.take().or(written.err());
                false
            }
        });
        first_error.map_or(Ok(()), |error| self.end(error))
    }

    /// Ends the transcript: an entry that follows would hide the missing one.
    fn end(&mut self, source: io::Error) -> Result<(), TranscriptError> {
        self.receipts.clear();
        match self.journal.take() {
            Some(journal) => Err(TranscriptError { path: journal.path().to_owned(), source }),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use skillhost_home::HomeSource;
    use test_support::SmallDisk;

    fn header() -> RunHeader {
        RunHeader {
            run_id: "run-1".into(),
            parent: None,
            thread: Some("thread-1".into()),
            agent: "worker".into(),
            model: "script/demo".into(),
            origin: CallOrigin::Operator,
        }
    }

    fn note(text: &str) -> RunEntry {
        RunEntry::Note { text: text.into() }
    }

    /// Returns the lines without their times.
    fn lines(text: &str) -> Vec<Value> {
        let line = |line: &str| {
            let mut line: Value = serde_json::from_str(line).unwrap();
            assert!(line.as_object_mut().unwrap().remove("at").unwrap().is_u64());
            line
        };
        text.lines().map(line).collect()
    }

    #[tokio::test]
    async fn repeated_prompt_is_written_once() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir(dir.path().join("sandbox")).unwrap();
        let home = Home::open(dir.path(), HomeSource::Argument).unwrap();
        let transcript = Transcript::create(&home, &header()).await.unwrap();
        transcript.record_system_prompt("one").unwrap();
        transcript.record_system_prompt("one").unwrap();
        transcript.record_system_prompt("two").unwrap();
        transcript.record(&note("said")).unwrap();
        transcript.flush().await.unwrap();
        let path = home.data_dir("kernel").join("runs/run-1.jsonl");
        let (one, two) = (sha256_hex(b"one"), sha256_hex(b"two"));
        assert_eq!(
            lines(&std::fs::read_to_string(path).unwrap()),
            [
                json!({ "entry": "run", "version": 1, "run_id": "run-1", "thread": "thread-1",
                        "agent": "worker", "model": "script/demo", "origin": "operator" }),
                json!({ "entry": "system", "digest": one, "text": "one" }),
                json!({ "entry": "system", "digest": one }),
                json!({ "entry": "system", "digest": two, "text": "two" }),
                json!({ "entry": "note", "text": "said" }),
            ]
        );
        let again = Transcript::create(&home, &header()).await.map(drop).unwrap_err();
        assert_eq!(again.source.kind(), io::ErrorKind::AlreadyExists);
    }

    #[tokio::test]
    async fn full_disk_ends_transcript_once() {
        let disk = SmallDisk::with_room(400);
        let transcript =
            Transcript::with_sink("runs/run-1.jsonl".into(), Box::new(disk.clone()), &header())
                .await
                .unwrap();
        transcript.record(&note("fits")).unwrap();
        transcript.record(&note(&"x".repeat(400))).unwrap();
        // Queued after the failure, so that it must not be written although it would fit.
        let error = match transcript.record(&note("behind")) {
            Ok(()) => transcript.flush().await.unwrap_err(),
            Err(error) => error,
        };
        assert_eq!(error.path, PathBuf::from("runs/run-1.jsonl"));
        assert_eq!(error.source.kind(), io::ErrorKind::StorageFull);
        transcript.record(&note("would fit")).unwrap();
        transcript.record_system_prompt("would fit").unwrap();
        transcript.flush().await.unwrap();
        let kept = lines(&disk.text());
        assert_eq!(kept[1], json!({ "entry": "note", "text": "fits" }));
        assert_eq!(kept.len(), 2);
        Transcript::disabled().record(&note("nowhere")).unwrap();
    }

    #[tokio::test]
    async fn full_disk_fails_creation() {
        let disk = SmallDisk::with_room(10);
        let error = Transcript::with_sink("run".into(), Box::new(disk.clone()), &header())
            .await
            .map(drop)
            .unwrap_err();
        assert_eq!(error.source.kind(), io::ErrorKind::StorageFull);
        assert_eq!(disk.text(), "");
    }
}
