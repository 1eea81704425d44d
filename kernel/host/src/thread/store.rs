//! The folder of journals.

use std::fs::{self, TryLockError};
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use super::state::{ThreadEntry, ThreadState};
use super::{Thread, ThreadError, ThreadSkill, VERSION, new_id};
use crate::error::suggest_similar;
use crate::home::Home;
use crate::journal::{AppendLog, create_private_dir, now_ms, open_append, split_complete_lines};
use crate::loader::to_hex;
use crate::model::Message;

/// The threads of a home.
#[derive(Debug, Clone)]
pub struct ThreadStore {
    folder: PathBuf,
}

/// One thread in a list.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ThreadSummary {
    /// Its id.
    pub id: String,
    /// The agent it was begun with; empty where the journal cannot be read.
    pub agent: String,
    /// The first line of what was said first.
    pub title: String,
    /// How many messages a model is to see.
    pub messages: usize,
    /// When it began, milliseconds since 1970.
    pub began: u64,
    /// When it was last changed, milliseconds since 1970.
    pub changed: u64,
    /// What is wrong with its journal.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub problem: Option<String>,
}

/// What is in a thread, for people.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ThreadContents {
    /// What a list says of it.
    #[serde(flatten)]
    pub summary: ThreadSummary,
    /// What a model is to see.
    #[serde(rename = "conversation")]
    pub messages: Vec<Message>,
    /// The skills that are active.
    pub skills: Vec<ThreadSkill>,
}

/// What is wrong with a line whose checksum differs.
const ALTERED: &str = "it is not what was written: its checksum differs";

/// The first line of a journal.
#[derive(Serialize, Deserialize)]
struct ThreadHeader {
    thread: String,
    version: u64,
    agent: String,
    at: u64,
}

#[derive(Serialize)]
struct ThreadLineRef<'a> {
    at: u64,
    #[serde(flatten)]
    change: &'a ThreadEntry,
}

#[derive(Deserialize)]
struct ThreadLine {
    at: u64,
    #[serde(flatten)]
    change: ThreadEntry,
}

/// A journal that was read.
struct ReplayedThread {
    header: ThreadHeader,
    state: ThreadState,
    title: String,
    changed: u64,
    /// Bytes that are whole lines that say something.
    length: usize,
    /// There was more: the rest of a line.
    torn: bool,
}

impl ThreadStore {
    /// The threads of a home.
    #[must_use]
    pub fn new(home: &Home) -> Self {
        Self { folder: home.data_dir("kernel").join("threads") }
    }

    /// Begins a thread.
    ///
    /// # Errors
    /// [`ThreadError::Io`].
    pub fn create(&self, agent: &str) -> Result<Thread, ThreadError> {
        let id = new_id();
        let path = self.path(&id);
        let failed = |source| ThreadError::Io { path: path.clone(), source };
        create_private_dir(&self.folder).map_err(failed)?;
        let header = ThreadHeader {
            thread: id.clone(),
            version: VERSION,
            agent: agent.to_owned(),
            at: now_ms(),
        };
        let line = serde_json::to_vec(&header).map_err(io::Error::from).map_err(failed)?;
        let line = with_checksum(line);
        // Locked and whole before it has its name: nobody sees a thread that is half begun.
        let temporary = self.folder.join(format!(".{id}.tmp"));
        let began = || {
            let mut file = open_append(&temporary, true)?;
            file.try_lock().map_err(io::Error::from)?;
            crate::journal::AppendSink::append(&mut file, &line)?;
            fs::rename(&temporary, &path)?;
            fs::File::open(&self.folder)?.sync_all()?;
            Ok(file)
        };
        let file = began().map_err(|error| {
            // The original error is the one worth reporting.
            let _ = fs::remove_file(&temporary);
            failed(error)
        })?;
        let journal = Some(AppendLog::new(path.clone(), Box::new(file), line.len() as u64));
        Ok(Thread { id, agent: header.agent, state: ThreadState::default(), journal, note: None })
    }

    /// Goes on with a thread. A last line that is not whole is dropped and noted.
    ///
    /// # Errors
    /// [`ThreadError`]; [`ThreadError::Busy`] while another process, or another part of this one,
    /// has it open.
    pub fn open(&self, id: &str) -> Result<Thread, ThreadError> {
        let path = self.validated_path(id)?;
        let failed = |source| ThreadError::Io { path: path.clone(), source };
        let mut file = match open_append(&path, false) {
            Ok(file) => file,
            Err(error) => return Err(self.open_error(id, error)),
        };
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Err(ThreadError::Busy { id: id.to_owned() }),
            Err(TryLockError::Error(error)) => return Err(failed(error)),
        }
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes).map_err(failed)?;
        let read = replay(&path, &bytes)?;
        let mut note = None;
        if read.torn {
            crate::journal::AppendSink::truncate(&mut file, read.length as u64).map_err(failed)?;
            note = Some("the last entry was not written to its end and is left out".to_owned());
        }
        let journal = Some(AppendLog::new(path, Box::new(file), read.length as u64));
        Ok(Thread { id: id.to_owned(), agent: read.header.agent, state: read.state, journal, note })
    }

    /// Lists the threads, the one changed last first.
    ///
    /// # Errors
    /// [`ThreadError::Io`] for the folder; a journal that cannot be read is listed with its
    /// problem.
    pub fn list(&self) -> Result<Vec<ThreadSummary>, ThreadError> {
        let mut summaries: Vec<_> = self.ids()?.into_iter().map(|id| self.summary(id)).collect();
        summaries.sort_by(|a, b| b.changed.cmp(&a.changed).then_with(|| b.id.cmp(&a.id)));
        Ok(summaries)
    }

    /// Reads a thread, whether or not it is open elsewhere.
    ///
    /// # Errors
    /// [`ThreadError`].
    pub fn read(&self, id: &str) -> Result<ThreadContents, ThreadError> {
        let path = self.validated_path(id)?;
        let bytes = fs::read(&path).map_err(|error| self.open_error(id, error))?;
        let read = replay(&path, &bytes)?;
        Ok(ThreadContents {
            summary: read.summary(id.to_owned()),
            messages: read.state.messages,
            skills: read.state.skills,
        })
    }

    fn summary(&self, id: String) -> ThreadSummary {
        let path = self.path(&id);
        let read = fs::read(&path)
            .map_err(|source| ThreadError::Io { path: path.clone(), source })
            .and_then(|bytes| replay(&path, &bytes));
        match read {
            Ok(read) => read.summary(id),
            Err(error) => ThreadSummary {
                id,
                agent: String::new(),
                title: String::new(),
                messages: 0,
                began: 0,
                changed: 0,
                problem: Some(error.to_string()),
            },
        }
    }

    fn ids(&self) -> Result<Vec<String>, ThreadError> {
        let failed = |source| ThreadError::Io { path: self.folder.clone(), source };
        let entries = match fs::read_dir(&self.folder) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            entries => entries.map_err(failed)?,
        };
        let mut ids = Vec::new();
        for entry in entries {
            let name = entry.map_err(failed)?.file_name();
            let id = name.to_str().and_then(|name| name.strip_suffix(".jsonl"));
            ids.extend(id.filter(|id| is_id(id)).map(str::to_owned));
        }
        Ok(ids)
    }

    /// The only way from an id to a file.
    fn validated_path(&self, id: &str) -> Result<PathBuf, ThreadError> {
        match is_id(id) {
            true => Ok(self.path(id)),
            false => Err(ThreadError::BadId { id: id.to_owned() }),
        }
    }

    fn path(&self, id: &str) -> PathBuf {
        self.folder.join(format!("{id}.jsonl"))
    }

    fn open_error(&self, id: &str, source: io::Error) -> ThreadError {
        if source.kind() != io::ErrorKind::NotFound {
            return ThreadError::Io { path: self.path(id), source };
        }
        let ids = self.ids().unwrap_or_default();
        let similar = suggest_similar(id, ids.iter().map(String::as_str));
        ThreadError::NotFound { id: id.to_owned(), similar }
    }
}

impl ReplayedThread {
    fn summary(&self, id: String) -> ThreadSummary {
        ThreadSummary {
            id,
            agent: self.header.agent.clone(),
            title: self.title.clone(),
            messages: self.state.messages.len(),
            began: self.header.at,
            changed: self.changed,
            problem: None,
        }
    }
}

fn is_id(id: &str) -> bool {
    (1..=64).contains(&id.len())
        && id.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-')
}

/// Adds a line to what will be written.
pub(super) fn write_line(lines: &mut Vec<u8>, at: u64, change: &ThreadEntry) {
    let line = serde_json::to_vec(&ThreadLineRef { at, change })
        .expect("a change has text keys only, and a vector takes every byte");
    lines.extend(with_checksum(line));
}

/// The last field of a line, up to its value.
const CHECKSUM: &[u8] = b",\"sum\":\"";

/// Hexadecimal digits of a checksum.
const CHECKSUM_LENGTH: usize = 16;

/// The checksum of a line: the beginning of the SHA-256 of every byte before it.
fn checksum(bytes: &[u8]) -> String {
    to_hex(&Sha256::digest(bytes)[..CHECKSUM_LENGTH / 2])
}

/// Ends a JSON object with its checksum and a line break.
fn with_checksum(mut line: Vec<u8>) -> Vec<u8> {
    line.pop();
    let sum = checksum(&line);
    line.extend_from_slice(CHECKSUM);
    line.extend_from_slice(sum.as_bytes());
    line.extend_from_slice(b"\"}\n");
    line
}

/// Whether a line is what was written; `None` for one of a version that wrote no checksums.
fn is_intact(line: &[u8]) -> Option<bool> {
    let (bytes, sum) = line.strip_suffix(b"\"}")?.split_last_chunk::<CHECKSUM_LENGTH>()?;
    let bytes = bytes.strip_suffix(CHECKSUM)?;
    Some(checksum(bytes).as_bytes() == sum)
}

fn replay(path: &Path, bytes: &[u8]) -> Result<ReplayedThread, ThreadError> {
    let damaged = |line, reason: String| ThreadError::Damaged { path: path.into(), line, reason };
    let (lines, whole) = split_complete_lines(bytes);
    let Some((first, changes)) = lines.split_first() else {
        return Err(damaged(1, "the journal has no first line".to_owned()));
    };
    let header = header(path, first)?;
    if is_intact(first) == Some(false) {
        return Err(damaged(1, ALTERED.to_owned()));
    }
    let mut read = ReplayedThread {
        changed: header.at,
        header,
        state: ThreadState::default(),
        title: String::new(),
        length: whole,
        torn: whole < bytes.len(),
    };
    for (index, line) in changes.iter().enumerate() {
        let last = index + 1 == changes.len();
        // A line that ends as it should was written to its end.
        if is_intact(line) == Some(false) && !(last && line.contains(&0)) {
            return Err(damaged(index + 2, ALTERED.to_owned()));
        }
        match serde_json::from_slice::<ThreadLine>(line) {
            Ok(ThreadLine { at, change }) if read.state.can_apply(&change) => {
                if let (true, ThreadEntry::Message { message: Message::User { text }, .. }) =
                    (read.title.is_empty(), &change)
                {
                    read.title = text.lines().next().unwrap_or_default().to_owned();
                }
                read.changed = at;
                read.state.apply(change);
            }
            // A machine that loses its power may leave the length of a line and not its bytes.
            Err(_) if last && !read.torn => {
                read.length = whole - line.len() - 1;
                read.torn = true;
            }
            Ok(_) => {
                let reason = "it cuts the conversation where there is nothing to cut".to_owned();
                return Err(damaged(index + 2, reason));
            }
            Err(error) => return Err(damaged(index + 2, error.to_string())),
        }
    }
    Ok(read)
}

fn header(path: &Path, line: &[u8]) -> Result<ThreadHeader, ThreadError> {
    /// What every version's first line has.
    #[derive(Deserialize)]
    struct VersionHeader {
        version: u64,
    }
    let damaged = |error: serde_json::Error| ThreadError::Damaged {
        path: path.into(),
        line: 1,
        reason: error.to_string(),
    };
    match serde_json::from_slice::<VersionHeader>(line).map_err(damaged)?.version {
        VERSION => serde_json::from_slice(line).map_err(damaged),
        version => Err(ThreadError::Version { path: path.into(), version }),
    }
}

#[cfg(test)]
pub(super) mod testing {
    use super::*;

    /// Reads a journal's bytes: the thread without its file.
    pub(in crate::thread) fn reread(bytes: &[u8]) -> Result<Thread, ThreadError> {
        let read = replay(Path::new("journal"), bytes)?;
        let (id, agent) = (read.header.thread, read.header.agent);
        Ok(Thread { id, agent, state: read.state, journal: None, note: None })
    }

    /// The first line of a journal.
    pub(in crate::thread) fn first_line(id: &str, agent: &str) -> Vec<u8> {
        let header =
            ThreadHeader { thread: id.into(), version: VERSION, agent: agent.into(), at: 1 };
        let mut line = serde_json::to_vec(&header).unwrap();
        line.push(b'\n');
        line
    }
}
