//! The connection of a home to the shared database.

use std::io;
use std::path::Path;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use skillhost_files::{LinkPolicy, create_private_dir, read_limited, write_new_file};
use skillhost_home::{Home, SecretStore};
use tokio::sync::OnceCell;

use crate::error::{QueueError, QueueErrorKind};
use crate::ids::TaskId;
use crate::postgres::{PostgresAddress, PostgresQueue};
use crate::queue::Queue;

/// The pause after a failed connection; until then operations get its error.
const RECONNECT_PAUSE: Duration = Duration::from_millis(500);
/// The file with the identity of a home, in the data of its kernel.
const IDENTITY_FILE: &str = "queue_identity";
/// The length limit of that file, in bytes.
const IDENTITY_LIMIT: u64 = 128;

/// The connection of a home, made when it is first used.
pub(super) struct DatabaseLink {
    home: Home,
    secret: String,
    schema: String,
    store: OnceCell<PostgresQueue>,
    failure: Mutex<Option<(Instant, QueueError)>>,
}

impl DatabaseLink {
    pub(super) fn new(home: &Home, secret: &str, schema: &str) -> Self {
        Self {
            home: home.clone(),
            secret: secret.to_owned(),
            schema: schema.to_owned(),
            store: OnceCell::new(),
            failure: Mutex::default(),
        }
    }

    /// Returns the store, connected.
    pub(super) async fn store(&self) -> Result<&dyn Queue, QueueError> {
        let store = self.store.get_or_try_init(|| self.connect()).await?;
        Ok(store)
    }

    /// Returns the store if it is connected.
    pub(super) fn connected(&self) -> Option<&dyn Queue> {
        self.store.get().map(|store| store as &dyn Queue)
    }

    async fn connect(&self) -> Result<PostgresQueue, QueueError> {
        // Operations that waited for the failed attempt must not repeat it one after the other.
        if let Some((at, error)) = &*self.lock_failure()
            && at.elapsed() < RECONNECT_PAUSE
        {
            return Err(error.clone());
        }
        let connected = match self.find_address().await {
            Ok(address) => PostgresQueue::connect(address).await,
            Err(error) => Err(error),
        };
        *self.lock_failure() =
            connected.as_ref().err().map(|error| (Instant::now(), error.clone()));
        connected
    }

    /// Returns the address. The secrets are read each time: an operator may just have stored it.
    async fn find_address(&self) -> Result<PostgresAddress, QueueError> {
        let (home, name) = (self.home.clone(), self.secret.clone());
        let read = tokio::task::spawn_blocking(move || {
            // The `.env` of a home that is not trusted is not read.
            let secrets = match home.is_untrusted() {
                true => SecretStore::of_environment(),
                false => SecretStore::load(home.root()).0,
            };
            let Some(url) = secrets.get(&name) else { return Err(missing_secret(&name)) };
            let directory = home.data_dir("kernel");
            let identity = load_identity(&directory).map_err(|error| {
                let message = format!("{}: {error}", directory.join(IDENTITY_FILE).display());
                QueueError::new(QueueErrorKind::Io, message, "make the directory writable")
            })?;
            Ok((url, identity))
        });
        let (url, identity) = read.await.unwrap_or_else(|error| {
            let message = format!("secrets could not be read: {error}");
            Err(QueueError::new(QueueErrorKind::Io, message, "report this error"))
        })?;
        Ok(PostgresAddress::parse(&url, &self.schema)?.with_home(&identity))
    }

    fn lock_failure(&self) -> std::sync::MutexGuard<'_, Option<(Instant, QueueError)>> {
        self.failure.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn missing_secret(name: &str) -> QueueError {
    let message = format!("secret `{name}` with the address of the database not found");
    let hint = format!(
        "add a line `{name}=postgresql://USER:PASSWORD@HOST/DATABASE` to .env of the home, \
         readable for its owner alone"
    );
    QueueError::new(QueueErrorKind::Database, message, hint)
}

/// Returns the identity of a home, which is created once.
fn load_identity(directory: &Path) -> io::Result<String> {
    let file = directory.join(IDENTITY_FILE);
    match read_limited(&file, IDENTITY_LIMIT, LinkPolicy::Refuse) {
        Ok(bytes) => {
            match str::from_utf8(&bytes).ok().and_then(|text| TaskId::parse(text.trim())) {
                Some(identity) => Ok(identity.to_string()),
                None => Err(io::Error::new(io::ErrorKind::InvalidData, "not an identity")),
            }
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            create_private_dir(directory)?;
            let identity = TaskId::generate().to_string();
            let temporary = directory.join(format!(".{IDENTITY_FILE}-{identity}"));
            write_new_file(&temporary, format!("{identity}\n").as_bytes(), Some(0o600))?;
            // Complete before it has its name, and of several processes the first one wins.
            let linked = std::fs::hard_link(&temporary, &file);
            let _ = std::fs::remove_file(&temporary);
            match linked {
                Ok(()) => Ok(identity),
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                    load_identity(directory)
                }
                Err(error) => Err(error),
            }
        }
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn identity_is_created_once() {
        let home = tempfile::tempdir().unwrap();
        let directory = home.path().join("kernel");
        let loads: Vec<_> = std::thread::scope(|scope| {
            let load = || load_identity(&directory).unwrap();
            let threads: Vec<_> = (0..8).map(|_| scope.spawn(load)).collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).collect()
        });
        assert!(loads.iter().all(|identity| *identity == loads[0]), "{loads:?}");
        assert_eq!(load_identity(&directory).unwrap(), loads[0]);
        assert_eq!(std::fs::read_dir(&directory).unwrap().count(), 1);
    }

    #[test]
    fn damaged_identity_is_not_replaced() {
        let home = tempfile::tempdir().unwrap();
        let file = home.path().join(IDENTITY_FILE);
        for text in ["", "mine", "\u{fffd}"] {
            std::fs::write(&file, text).unwrap();
            let error = load_identity(home.path()).unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::InvalidData);
            assert_eq!(std::fs::read_to_string(&file).unwrap(), text);
        }
    }
}
