//! Threads whose journals are not files.

use std::path::{Path, PathBuf};
use std::sync::Mutex;

use skillhost_files::{AppendLog, LineWriter};
use skillhost_home::now_ms;

use super::Thread;
use super::error::ThreadError;
use super::line::{ThreadHeader, VERSION, with_checksum};
use super::state::ThreadState;
use super::store::replay_journal;

impl Thread {
    /// Opens a thread from the bytes of its journal, which a writer continues. Without bytes it is a
    /// new thread with the given id. The name stands for the path in errors. The caller has to keep
    /// other writers away.
    ///
    /// # Errors
    /// [`ThreadError`] of a journal that cannot be read, and [`ThreadError::Io`] if the first line
    /// cannot be written.
    pub async fn from_journal(
        name: &str,
        id: &str,
        agent: &str,
        bytes: &[u8],
        writer: Box<dyn LineWriter>,
    ) -> Result<Self, ThreadError> {
        let path = PathBuf::from(name);
        let journal = AppendLog::with_writer(path.clone(), writer);
        if bytes.is_empty() {
            let (thread, agent) = (id.to_owned(), agent.to_owned());
            let header = ThreadHeader { thread, version: VERSION, agent, at: now_ms() };
            let failed = |source| ThreadError::Io { path: path.clone(), source };
            let line = serde_json::to_vec(&header).map_err(|error| failed(error.into()))?;
            journal.append(with_checksum(line)).await.map_err(failed)?;
            return Ok(Self::with_state(header, ThreadState::default(), Some(journal)));
        }
        let replayed = replay_journal(Path::new(name), bytes)?;
        Ok(Self::with_state(replayed.header, replayed.state, Some(journal)))
    }

    pub(super) fn with_state(
        header: ThreadHeader,
        state: ThreadState,
        journal: Option<AppendLog>,
    ) -> Self {
        Self {
            id: header.thread,
            agent: header.agent,
            state,
            journal,
            pending: None,
            starts: Mutex::default(),
            note: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use skillhost_files::AppendReceipt;

    use super::*;
    use crate::model::Message;

    /// A writer into memory.
    #[derive(Clone, Default)]
    struct MemoryWriter(Arc<Mutex<Vec<u8>>>);

    impl LineWriter for MemoryWriter {
        fn write_lines(&self, lines: Vec<u8>) -> AppendReceipt {
            self.0.lock().unwrap().extend(lines);
            let (sender, receipt) = AppendReceipt::channel();
            let _ = sender.send(Ok(()));
            receipt
        }
    }

    async fn open(lines: &MemoryWriter) -> Thread {
        let bytes = lines.0.lock().unwrap().clone();
        Thread::from_journal("task", "t1", "worker", &bytes, Box::new(lines.clone())).await.unwrap()
    }

    #[tokio::test]
    async fn written_journal_opens_again() {
        let lines = MemoryWriter::default();
        let mut thread = open(&lines).await;
        thread.push_user_message("Do it".into(), "m1".into()).await.unwrap();
        let again = open(&lines).await;
        assert_eq!((again.id(), again.agent()), ("t1", "worker"));
        assert_eq!(again.messages(), thread.messages());
        assert_eq!(again.message_status("m1"), thread.message_status("m1"));
    }

    #[tokio::test]
    async fn notice_is_added_once() {
        let lines = MemoryWriter::default();
        let mut thread = open(&lines).await;
        thread.push_notice("task-1".into(), "It ended.".into()).await.unwrap();
        thread.reset().await.unwrap();
        let mut again = open(&lines).await;
        assert!(again.has_notice("task-1") && again.messages().is_empty());
        again.push_notice("task-1".into(), "It ended.".into()).await.unwrap();
        again.push_notice("task-2".into(), "It ended too.".into()).await.unwrap();
        assert_eq!(again.messages(), [Message::User { text: "It ended too.".into() }]);
    }
}
