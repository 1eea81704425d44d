//! What happened in a run, for whoever wants to know later: one JSON line per event.

use std::collections::BTreeSet;
use std::io;
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};

use serde::Serialize;
use sha2::{Digest as _, Sha256};
use skillhost_contract::payload::{CallOrigin, SkillRef};

use crate::channel::ApprovalDecision;
use crate::home::Home;
use crate::journal::{AppendLog, AppendSink, create_private_dir, now_ms, open_append};
use crate::loader::to_hex;
use crate::model::{ModelReply, TokenUsage};

/// The version of a transcript's lines.
const VERSION: u32 = 1;

/// The record of one run, `sandbox/data/kernel/runs/<run>.jsonl`. It is for people and programs;
/// nothing in the kernel reads it.
pub struct Transcript {
    inner: Mutex<TranscriptFile>,
}

/// Who runs, and for whom.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct RunHeader {
    /// The run; names the file.
    pub run_id: String,
    /// The run that handed the task on.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub parent: Option<String>,
    /// The thread; absent where nobody can go on with it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub thread: Option<String>,
    /// The agent.
    pub agent: String,
    /// The model, `provider/model`.
    pub model: String,
    /// Who stands behind the run.
    pub origin: CallOrigin,
}

/// One line of a transcript.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(tag = "entry", rename_all = "snake_case")]
pub enum RunEntry {
    /// What the user, or whoever gave the task, said.
    Prompt {
        /// The text.
        text: String,
    },
    /// The skills the model works by from here on.
    Skills {
        /// Those of the agent's manifest.
        bound: Vec<SkillRef>,
        /// Those that were read or invoked.
        active: Vec<SkillRef>,
    },
    /// The model is asked.
    Request {
        /// The request's number within the run, from 1.
        turn: u32,
        /// How many messages it has.
        messages: usize,
        /// How many tools it offers.
        tools: usize,
        /// Its estimated tokens.
        tokens: u64,
    },
    /// The model has answered.
    Reply {
        /// The request's number.
        turn: u32,
        /// The answer.
        reply: ModelReply,
        /// What it cost, where the price is known.
        #[serde(skip_serializing_if = "Option::is_none")]
        cost: Option<f64>,
    },
    /// A tool is called.
    Call {
        /// The call's id, the model's own.
        call_id: String,
        /// The tool.
        tool: String,
        /// The arguments as the model wrote them.
        arguments: String,
    },
    /// Somebody was asked whether a tool may be called.
    Approval {
        /// The tool.
        tool: String,
        /// What they said.
        decision: ApprovalDecision,
    },
    /// A tool has answered.
    Answer {
        /// The call's id.
        call_id: String,
        /// The tool.
        tool: String,
        /// What the model was told.
        text: String,
        /// It failed.
        is_error: bool,
    },
    /// Older messages were replaced.
    Compacted {
        /// How many.
        messages: usize,
        /// Estimated tokens before.
        before: u64,
        /// And after.
        after: u64,
    },
    /// A task was handed to another agent.
    Delegated {
        /// The agent.
        to: String,
        /// Its run.
        run_id: String,
    },
    /// Something a person should know.
    Note {
        /// The text.
        text: String,
    },
    /// The run is over.
    Ended {
        /// `done`, or the kind of error.
        outcome: String,
        /// The error's message.
        #[serde(skip_serializing_if = "Option::is_none")]
        error: Option<String>,
        /// Everything it used up.
        usage: TokenUsage,
        /// What it cost, where the prices are known.
        #[serde(skip_serializing_if = "Option::is_none")]
        cost: Option<f64>,
    },
}

/// A transcript that cannot be written any more.
#[derive(Debug, thiserror::Error)]
#[error("the transcript {} is not written from here on: {source}", path.display())]
pub struct TranscriptError {
    /// The file.
    pub path: PathBuf,
    /// The system's error.
    pub source: io::Error,
}

struct TranscriptFile {
    /// Absent after the first failure.
    journal: Option<AppendLog>,
    /// Digests of the system prompts that stand in it.
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
    /// Begins the record of a run.
    ///
    /// # Errors
    /// [`TranscriptError`]; a run can do without, with [`Transcript::disabled`].
    pub fn create(home: &Home, header: &RunHeader) -> Result<Self, TranscriptError> {
        let folder = home.data_dir("kernel").join("runs");
        let path = folder.join(format!("{}.jsonl", header.run_id));
        let opened = create_private_dir(&folder).and_then(|()| open_append(&path, true));
        match opened {
            Ok(file) => Self::with_sink(path, Box::new(file), header),
            Err(source) => Err(TranscriptError { path, source }),
        }
    }

    /// A transcript that is not written.
    #[must_use]
    pub fn disabled() -> Self {
        Self { inner: Mutex::new(TranscriptFile { journal: None, prompts: BTreeSet::new() }) }
    }

    fn with_sink(
        path: PathBuf,
        disk: Box<dyn AppendSink>,
        header: &RunHeader,
    ) -> Result<Self, TranscriptError> {
        let journal = Some(AppendLog::new(path, disk, 0));
        let transcript =
            Self { inner: Mutex::new(TranscriptFile { journal, prompts: BTreeSet::new() }) };
        transcript.lock().write(&TranscriptRecord::Run { version: VERSION, header })?;
        Ok(transcript)
    }

    /// Adds an entry.
    ///
    /// # Errors
    /// [`TranscriptError`] the first time it cannot be written; from then on nothing is written and
    /// nothing is said.
    pub fn record(&self, entry: &RunEntry) -> Result<(), TranscriptError> {
        self.lock().write(entry)
    }

    /// Adds the system prompt of a request: whole when it has not been there yet, else its digest.
    ///
    /// # Errors
    /// As for [`Transcript::record`].
    pub fn record_system_prompt(&self, prompt: &str) -> Result<(), TranscriptError> {
        let digest = to_hex(&Sha256::digest(prompt));
        let mut inner = self.lock();
        let known = inner.prompts.contains(&digest);
        inner.write(&TranscriptRecord::System {
            digest: &digest,
            text: (!known).then_some(prompt),
        })?;
        inner.prompts.insert(digest);
        Ok(())
    }

    /// A panic elsewhere leaves whole lines behind.
    fn lock(&self) -> std::sync::MutexGuard<'_, TranscriptFile> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl TranscriptFile {
    fn write<T: Serialize>(&mut self, entry: &T) -> Result<(), TranscriptError> {
        let Some(journal) = &mut self.journal else { return Ok(()) };
        let written = serde_json::to_vec(&TranscriptLine { at: now_ms(), entry })
            .map_err(io::Error::from)
            .and_then(|mut line| {
                line.push(b'\n');
                journal.append(&line)
            });
        let Err(source) = written else { return Ok(()) };
        let path = std::mem::take(&mut journal.path);
        self.journal = None;
        Err(TranscriptError { path, source })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::home::HomeSource;
    use crate::journal::testing::SmallDisk;

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

    /// The lines without their times.
    fn lines(text: &str) -> Vec<Value> {
        let line = |line: &str| {
            let mut line: Value = serde_json::from_str(line).unwrap();
            assert!(line.as_object_mut().unwrap().remove("at").unwrap().is_u64());
            line
        };
        text.lines().map(line).collect()
    }

    #[test]
    fn a_run_is_kept_line_by_line_and_a_prompt_whole_only_once() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir(folder.path().join("sandbox")).unwrap();
        let home = Home::open(folder.path(), HomeSource::Argument).unwrap();
        let transcript = Transcript::create(&home, &header()).unwrap();
        transcript.record_system_prompt("one").unwrap();
        transcript.record_system_prompt("one").unwrap();
        transcript.record_system_prompt("two").unwrap();
        transcript.record(&note("said")).unwrap();
        let path = home.data_dir("kernel").join("runs/run-1.jsonl");
        let (one, two) = (to_hex(&Sha256::digest("one")), to_hex(&Sha256::digest("two")));
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
        let again = Transcript::create(&home, &header()).map(drop).unwrap_err();
        assert_eq!(again.source.kind(), io::ErrorKind::AlreadyExists);
    }

    #[test]
    fn a_full_disk_is_told_once_and_ends_the_transcript_at_a_whole_line() {
        let disk = SmallDisk::with_room(400);
        let transcript =
            Transcript::with_sink("runs/run-1.jsonl".into(), Box::new(disk.clone()), &header())
                .unwrap();
        transcript.record(&note("fits")).unwrap();
        let error = transcript.record(&note(&"x".repeat(400))).unwrap_err();
        assert_eq!(error.path, PathBuf::from("runs/run-1.jsonl"));
        assert_eq!(error.source.kind(), io::ErrorKind::StorageFull);
        transcript.record(&note("would fit")).unwrap();
        transcript.record_system_prompt("would fit").unwrap();
        let kept = lines(&disk.text());
        assert_eq!(kept[1], json!({ "entry": "note", "text": "fits" }));
        assert_eq!(kept.len(), 2);
        Transcript::disabled().record(&note("nowhere")).unwrap();
    }

    #[test]
    fn a_disk_that_is_full_from_the_start_is_told_at_the_start() {
        let disk = SmallDisk::with_room(10);
        let error = Transcript::with_sink("run".into(), Box::new(disk.clone()), &header())
            .map(drop)
            .unwrap_err();
        assert_eq!(error.source.kind(), io::ErrorKind::StorageFull);
        assert_eq!(disk.text(), "");
    }
}
