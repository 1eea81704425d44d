//! The ids of messages that were received lately, on disk, so that a replay is refused after a restart
//! as well.

use std::collections::HashMap;
use std::io;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use skillhost_files::{LinkPolicy, create_private_dir, read_limited, write_private};
use skillhost_sdk::prelude::*;
use tokio::task::spawn_blocking;

use crate::hook_clock::TOLERANCE;

/// The ids that are remembered at once.
const MAX_IDS: usize = 10_000;
/// The longest file, in bytes: more than all ids need.
const FILE_LIMIT: u64 = 16 << 20;

/// A received message.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct SeenMessage {
    hook: String,
    id: String,
    /// The newest timestamp under which it came, in seconds since 1970.
    timestamp: u64,
}

/// The answer for an id.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum IdStatus {
    New,
    /// The sender sends it again, with a signature of its own.
    Repeated,
    /// It has a signature that came before, or an older one.
    Replayed,
    /// No more ids can be remembered now.
    Full,
}

/// The ids within the window of valid timestamps.
#[derive(Debug)]
pub(crate) struct SeenIds {
    path: PathBuf,
    messages: HashMap<(String, String), u64>,
}

impl SeenIds {
    /// Loads the ids.
    ///
    /// # Errors
    /// [`ErrorKind::Io`] for a file that cannot be read: without it, replays could not be refused.
    pub(crate) async fn load(path: PathBuf, now: u64) -> Result<Self> {
        let file = path.clone();
        let read = spawn_blocking(move || read_limited(&file, FILE_LIMIT, LinkPolicy::Refuse));
        let bytes = match read.await.map_err(|error| ExtensionError::failed(error.to_string()))? {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == io::ErrorKind::NotFound => b"[]".to_vec(),
            Err(error) => return Err(file_error(&path, &error.to_string())),
        };
        let messages: Vec<SeenMessage> =
            serde_json::from_slice(&bytes).map_err(|_| file_error(&path, "is damaged"))?;
        let messages = messages.into_iter().map(|one| ((one.hook, one.id), one.timestamp));
        let mut seen = Self { path, messages: messages.collect() };
        seen.forget_old(now);
        Ok(seen)
    }

    /// Returns whether a message with a valid timestamp came before.
    pub(crate) fn check(&self, hook: &str, id: &str, timestamp: u64) -> IdStatus {
        match self.messages.get(&(hook.to_owned(), id.to_owned())) {
            Some(newest) if timestamp > *newest => IdStatus::Repeated,
            Some(_) => IdStatus::Replayed,
            None if self.messages.len() >= MAX_IDS => IdStatus::Full,
            None => IdStatus::New,
        }
    }

    /// Remembers a message; on return it is on disk.
    ///
    /// # Errors
    /// [`ErrorKind::Io`]; the message then may come again, and the kernel knows it.
    pub(crate) async fn remember(
        &mut self,
        hook: &str,
        id: &str,
        timestamp: u64,
        now: u64,
    ) -> Result<()> {
        self.forget_old(now);
        self.messages.insert((hook.to_owned(), id.to_owned()), timestamp);
        let all = self.messages.iter().map(|((hook, id), timestamp)| SeenMessage {
            hook: hook.clone(),
            id: id.clone(),
            timestamp: *timestamp,
        });
        let bytes = serde_json::to_vec(&all.collect::<Vec<_>>())
            .map_err(|error| ExtensionError::failed(error.to_string()))?;
        let path = self.path.clone();
        let write = spawn_blocking(move || {
            if let Some(directory) = path.parent() {
                create_private_dir(directory)?;
            }
            write_private(&path, &bytes)
        });
        let written = write.await.map_err(|error| ExtensionError::failed(error.to_string()))?;
        written.map_err(|error| file_error(&self.path, &error.to_string()))
    }

    /// Forgets messages whose timestamps are not valid any more.
    pub(crate) fn forget_old(&mut self, now: u64) {
        // One second more: the window includes its ends.
        self.messages.retain(|_, timestamp| timestamp.saturating_add(TOLERANCE + 1) >= now);
    }
}

fn file_error(path: &std::path::Path, reason: &str) -> ExtensionError {
    ExtensionError::new(ErrorKind::Io, format!("{}: {reason}", path.display())).with_hint(
        "delete the file if it is damaged; webhooks of the last minutes may then come again",
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn ids_survive_restart() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("webhook/seen.json");
        let mut seen = SeenIds::load(path.clone(), 1000).await.unwrap();
        assert_eq!(seen.check("ci", "a", 1000), IdStatus::New);
        seen.remember("ci", "a", 1000, 1000).await.unwrap();
        seen.remember("ci", "b", 1200, 1000).await.unwrap();
        for (now, a) in
            [(1000, IdStatus::Replayed), (1301, IdStatus::Replayed), (1302, IdStatus::New)]
        {
            let seen = SeenIds::load(path.clone(), now).await.unwrap();
            assert_eq!(seen.check("ci", "a", 1000), a);
            assert_eq!(seen.check("ci", "b", 1200), IdStatus::Replayed);
            assert_eq!(seen.check("ci", "b", 1201), IdStatus::Repeated);
            assert_eq!(seen.check("other", "b", 1200), IdStatus::New);
        }
    }

    #[tokio::test]
    async fn damaged_file_is_not_replaced() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("seen.json");
        for text in ["", "{", "[1]", "[{\"hook\":\"a\"}]"] {
            std::fs::write(&path, text).unwrap();
            let error = SeenIds::load(path.clone(), 1).await.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Io);
            assert_eq!(std::fs::read_to_string(&path).unwrap(), text);
        }
    }

    #[tokio::test]
    async fn full_memory_takes_no_new_id() {
        let dir = tempfile::tempdir().unwrap();
        let mut seen = SeenIds::load(dir.path().join("seen.json"), 0).await.unwrap();
        for number in 0..MAX_IDS {
            seen.messages.insert(("ci".to_owned(), number.to_string()), 1000);
        }
        assert_eq!(seen.check("ci", "new", 1000), IdStatus::Full);
        assert_eq!(seen.check("ci", "5", 1000), IdStatus::Replayed);
        seen.forget_old(1302);
        assert_eq!(seen.check("ci", "new", 1302), IdStatus::New);
    }
}
