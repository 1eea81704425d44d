//! The directory of thread journals.

use std::fs::{self, TryLockError};
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use serde::{Deserialize, Serialize};
use skillhost_files::{
    AppendLog, create_private_dir, open_append, split_complete_lines, sync_directory,
};
use skillhost_home::{Home, now_ms, suggest_similar};

use super::entry::{ThreadEntry, ThreadSkill};
use super::error::ThreadError;
use super::line::{ThreadHeader, ThreadLine, VERSION, is_intact, with_checksum};
use super::state::ThreadState;
use super::{Thread, new_id};
use crate::model::Message;

/// The threads of a home.
#[derive(Debug, Clone)]
pub struct ThreadStore {
    directory: PathBuf,
}

/// An entry of the thread list.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ThreadSummary {
    /// The thread's id.
    pub id: String,
    /// The agent that the thread was created with; empty where the journal cannot be read.
    pub agent: String,
    /// The first line of the first user message.
    pub title: String,
    /// The number of messages in the next model request.
    pub messages: usize,
    /// The time of creation, in milliseconds since 1970.
    pub began: u64,
    /// The time of the last change, in milliseconds since 1970.
    pub changed: u64,
    /// The error of an unreadable journal.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub problem: Option<String>,
}

/// The contents of a thread, for display.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ThreadContents {
    /// The entry of the thread list.
    #[serde(flatten)]
    pub summary: ThreadSummary,
    /// The messages of the next model request.
    #[serde(rename = "conversation")]
    pub messages: Vec<Message>,
    /// The active skills.
    pub skills: Vec<ThreadSkill>,
}

/// The number of ids that the error for an ambiguous prefix lists.
const MAX_AMBIGUOUS: usize = 3;

/// The reason for rejecting a line whose checksum differs.
const ALTERED: &str = "checksum does not match the line";

/// The result of reading a journal.
pub(super) struct ReplayedThread {
    pub(super) header: ThreadHeader,
    pub(super) state: ThreadState,
    title: String,
    changed: u64,
    /// The length of the complete lines that hold valid entries, in bytes.
    length: usize,
    /// True if an incomplete line followed.
    torn: bool,
}

impl ThreadStore {
    /// Creates the store of a home's threads.
    #[must_use]
    pub fn new(home: &Home) -> Self {
        Self { directory: home.data_dir("kernel").join("threads") }
    }

    /// Creates a thread with its journal. Blocks until the journal is on disk.
    ///
    /// # Errors
    /// [`ThreadError::Io`].
    pub fn create(&self, agent: &str) -> Result<Thread, ThreadError> {
        let id = new_id();
        let path = self.path(&id);
        let failed = |source| ThreadError::Io { path: path.clone(), source };
        create_private_dir(&self.directory).map_err(failed)?;
        let header = ThreadHeader {
            thread: id.clone(),
            version: VERSION,
            agent: agent.to_owned(),
            at: now_ms(),
        };
        let line = serde_json::to_vec(&header).map_err(io::Error::from).map_err(failed)?;
        let line = with_checksum(line);
        // Locked and complete before the file gets its final name: a half-written thread is never
        // listed.
        let temporary = self.directory.join(format!(".{id}.tmp"));
        let create_file = || {
            let mut file = open_append(&temporary, true)?;
            file.try_lock().map_err(io::Error::from)?;
            skillhost_files::AppendSink::append(&mut file, &line)?;
            fs::rename(&temporary, &path)?;
            // Without syncing the directory the rename itself can be lost.
            sync_directory(&self.directory)?;
            Ok(file)
        };
        let file = create_file().map_err(|error| {
            // The original error is the one worth reporting.
            let _ = fs::remove_file(&temporary);
            failed(error)
        })?;
        let journal = Some(AppendLog::new(path.clone(), Box::new(file), line.len() as u64));
        Ok(Thread {
            id,
            agent: header.agent,
            state: ThreadState::default(),
            journal,
            pending: None,
            starts: Mutex::default(),
            note: None,
        })
    }

    /// Returns whether a thread exists. Blocks, as all of the store does.
    #[must_use]
    pub fn exists(&self, id: &str) -> bool {
        self.validated_path(id).is_ok_and(|path| path.is_file())
    }

    /// Resumes a thread. An incomplete last line is dropped and noted. Blocks, as all of the store
    /// does.
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
        // The lock ends with the file handle, so a crashed process leaves no stale lock.
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Err(ThreadError::Busy { id: id.to_owned() }),
            Err(TryLockError::Error(error)) => return Err(failed(error)),
        }
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes).map_err(failed)?;
        let replayed = replay_journal(&path, &bytes)?;
        let mut note = None;
        if replayed.torn {
            skillhost_files::AppendSink::truncate(&mut file, replayed.length as u64)
                .map_err(failed)?;
            note = Some("last entry was incomplete and has been dropped".to_owned());
        }
        let journal = Some(AppendLog::new(path, Box::new(file), replayed.length as u64));
        Ok(Thread {
            id: id.to_owned(),
            agent: replayed.header.agent,
            state: replayed.state,
            journal,
            pending: None,
            starts: Mutex::default(),
            note,
        })
    }

    /// Lists the threads, the one changed last first.
    ///
    /// # Errors
    /// [`ThreadError::Io`] for the directory; a journal that cannot be read is listed with its
    /// problem.
    pub fn list(&self) -> Result<Vec<ThreadSummary>, ThreadError> {
        let mut summaries: Vec<_> = self.ids()?.into_iter().map(|id| self.summary(id)).collect();
        summaries.sort_by(|a, b| b.changed.cmp(&a.changed).then_with(|| b.id.cmp(&a.id)));
        Ok(summaries)
    }

    /// Returns the id of the one thread that a text names: the complete id, or the start of one.
    ///
    /// # Errors
    /// [`ThreadError::BadId`]; [`ThreadError::NotFound`] for none, [`ThreadError::Ambiguous`] for
    /// several.
    pub fn resolve(&self, prefix: &str) -> Result<String, ThreadError> {
        // A complete id needs no listing, which takes longer the more threads there are.
        if self.validated_path(prefix)?.exists() {
            return Ok(prefix.to_owned());
        }
        let ids = self.ids()?;
        let mut matching: Vec<_> = ids.iter().filter(|id| id.starts_with(prefix)).collect();
        matching.sort_unstable_by(|a, b| b.cmp(a));
        match matching.as_slice() {
            [id] => Ok((*id).clone()),
            [] => Err(self.not_found(prefix, &ids)),
            several => Err(ThreadError::Ambiguous {
                prefix: prefix.to_owned(),
                count: several.len(),
                ids: several.iter().take(MAX_AMBIGUOUS).map(|id| (*id).clone()).collect(),
            }),
        }
    }

    /// Returns the threads, the one changed last first, each read when the iterator reaches it. A
    /// thread that cannot be read is returned with its problem.
    ///
    /// # Errors
    /// [`ThreadError::Io`] for the directory.
    pub fn recent(&self) -> Result<impl Iterator<Item = ThreadSummary>, ThreadError> {
        let changed =
            |id: &String| fs::metadata(self.path(id)).and_then(|file| file.modified()).ok();
        let mut ids: Vec<_> = self.ids()?.into_iter().map(|id| (changed(&id), id)).collect();
        ids.sort_unstable_by(|a, b| b.cmp(a));
        Ok(ids.into_iter().map(|(_, id)| self.summary(id)))
    }

    /// Reads a thread, even one that another process has open.
    ///
    /// # Errors
    /// [`ThreadError`].
    pub fn read(&self, id: &str) -> Result<ThreadContents, ThreadError> {
        let path = self.validated_path(id)?;
        let bytes = fs::read(&path).map_err(|error| self.open_error(id, error))?;
        let replayed = replay_journal(&path, &bytes)?;
        Ok(ThreadContents {
            summary: replayed.summary(id.to_owned()),
            messages: replayed.state.messages,
            skills: replayed.state.skills,
        })
    }

    /// Deletes a thread; also one whose journal is damaged.
    ///
    /// # Errors
    /// As [`ThreadStore::open`]; [`ThreadError::Busy`] leaves it as it is.
    pub fn delete(&self, id: &str) -> Result<(), ThreadError> {
        let path = self.validated_path(id)?;
        let failed = |source| ThreadError::Io { path: path.clone(), source };
        let file = open_append(&path, false).map_err(|error| self.open_error(id, error))?;
        // A process that has it open would write on into a file without a name.
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Err(ThreadError::Busy { id: id.to_owned() }),
            Err(TryLockError::Error(error)) => return Err(failed(error)),
        }
        fs::remove_file(&path).and_then(|()| sync_directory(&self.directory)).map_err(failed)
    }

    fn summary(&self, id: String) -> ThreadSummary {
        let path = self.path(&id);
        let replayed = fs::read(&path)
            .map_err(|source| ThreadError::Io { path: path.clone(), source })
            .and_then(|bytes| replay_journal(&path, &bytes));
        match replayed {
            Ok(replayed) => replayed.summary(id),
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

    /// Returns the ids of all threads in no order. No journal is read.
    ///
    /// # Errors
    /// [`ThreadError::Io`] for the directory.
    pub fn ids(&self) -> Result<Vec<String>, ThreadError> {
        let failed = |source| ThreadError::Io { path: self.directory.clone(), source };
        let entries = match fs::read_dir(&self.directory) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            entries => entries.map_err(failed)?,
        };
        let mut ids = Vec::new();
        for entry in entries {
            let name = entry.map_err(failed)?.file_name();
            let id = name.to_str().and_then(|name| name.strip_suffix(".jsonl"));
            // Temporary files and foreign files are skipped.
            ids.extend(id.filter(|id| is_id(id)).map(str::to_owned));
        }
        Ok(ids)
    }

    /// Returns the path of a valid id. Every public method goes through this check.
    fn validated_path(&self, id: &str) -> Result<PathBuf, ThreadError> {
        match is_id(id) {
            true => Ok(self.path(id)),
            false => Err(ThreadError::BadId { id: id.to_owned() }),
        }
    }

    fn path(&self, id: &str) -> PathBuf {
        self.directory.join(format!("{id}.jsonl"))
    }

    fn open_error(&self, id: &str, source: io::Error) -> ThreadError {
        if source.kind() != io::ErrorKind::NotFound {
            return ThreadError::Io { path: self.path(id), source };
        }
        self.not_found(id, &self.ids().unwrap_or_default())
    }

    fn not_found(&self, id: &str, ids: &[String]) -> ThreadError {
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

pub(super) fn replay_journal(path: &Path, bytes: &[u8]) -> Result<ReplayedThread, ThreadError> {
    let damaged = |line, reason: String| ThreadError::Damaged { path: path.into(), line, reason };
    let (lines, complete_length) = split_complete_lines(bytes);
    let Some((first, changes)) = lines.split_first() else {
        return Err(damaged(1, "journal has no first line".to_owned()));
    };
    let header = parse_header(path, first)?;
    if is_intact(first) == Some(false) {
        return Err(damaged(1, ALTERED.to_owned()));
    }
    let mut replayed = ReplayedThread {
        changed: header.at,
        header,
        state: ThreadState::default(),
        title: String::new(),
        length: complete_length,
        torn: complete_length < bytes.len(),
    };
    for (index, line) in changes.iter().enumerate() {
        let last = index + 1 == changes.len();
        // A line with its closing brace and line break was written completely; a power loss leaves
        // zeros.
        if is_intact(line) == Some(false) && !(last && line.contains(&0)) {
            return Err(damaged(index + 2, ALTERED.to_owned()));
        }
        match serde_json::from_slice::<ThreadLine>(line) {
            Ok(ThreadLine { at, change }) if replayed.state.can_apply(&change) => {
                if let (true, ThreadEntry::Message { message: Message::User { text }, .. }) =
                    (replayed.title.is_empty(), &change)
                {
                    replayed.title = text.lines().next().unwrap_or_default().to_owned();
                }
                replayed.changed = at;
                replayed.state.apply(change);
            }
            // A later kernel wrote it: dropping it would lose what it states.
            Err(_) if is_intact(line) == Some(true) => {
                return Err(ThreadError::LaterEntry { path: path.into(), line: index + 2 });
            }
            // After a power loss the file system may keep a line's length but not its bytes.
            Err(_) if last && !replayed.torn => {
                replayed.length = complete_length - line.len() - 1;
                replayed.torn = true;
            }
            Ok(_) => {
                let reason = "entry cuts outside of the stored messages".to_owned();
                return Err(damaged(index + 2, reason));
            }
            Err(error) => return Err(damaged(index + 2, error.to_string())),
        }
    }
    Ok(replayed)
}

fn parse_header(path: &Path, line: &[u8]) -> Result<ThreadHeader, ThreadError> {
    /// The fields that the first line of every version has.
    #[derive(Deserialize)]
    struct VersionHeader {
        version: u64,
    }
    let damaged = |error: serde_json::Error| ThreadError::Damaged {
        path: path.into(),
        line: 1,
        reason: error.to_string(),
    };
    // The version is read first: a later version may have other fields.
    match serde_json::from_slice::<VersionHeader>(line).map_err(damaged)?.version {
        VERSION => serde_json::from_slice(line).map_err(damaged),
        version => Err(ThreadError::Version { path: path.into(), version }),
    }
}

#[cfg(test)]
pub(super) mod testing {
    use super::*;

    /// Reads a journal's bytes into a thread without a file.
    pub(in crate::thread) fn reread(bytes: &[u8]) -> Result<Thread, ThreadError> {
        let replayed = replay_journal(Path::new("journal"), bytes)?;
        Ok(Thread::with_state(replayed.header, replayed.state, None))
    }

    /// Returns the first line of a journal.
    pub(in crate::thread) fn first_line(id: &str, agent: &str) -> Vec<u8> {
        let header =
            ThreadHeader { thread: id.into(), version: VERSION, agent: agent.into(), at: 1 };
        let mut line = serde_json::to_vec(&header).unwrap();
        line.push(b'\n');
        line
    }
}
