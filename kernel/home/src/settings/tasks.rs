//! The settings of background tasks.

use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The default number of tasks that run at once.
const DEFAULT_WORKERS: u16 = 4;
/// The default length of a lease, in milliseconds.
const DEFAULT_LEASE_MS: u32 = 30_000;
/// The lengths of leases: a shorter one would be lost by a busy machine, with a longer one the tasks of
/// a lost machine wait too long.
const LEASE_RANGE_MS: std::ops::RangeInclusive<u32> = 1_000..=600_000;
/// The times for which a person is asked live: a shorter one leaves no time to read the question.
const LIVE_RANGE_MS: std::ops::RangeInclusive<u32> = 100..=3_600_000;
/// The maximum number. Tasks mostly wait for model providers, so a machine can have many.
const MAX_WORKERS: u16 = 512;

/// The store of background tasks and questions, and their execution.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default, try_from = "TaskStoreForm")]
#[schemars(!try_from)]
pub struct TaskStoreSettings {
    /// `sqlite`, the default: a file of the home; `postgres`: a database that several machines
    /// share, in a program with the feature `postgres`.
    pub store: TaskStoreKind,
    /// The secret with the address of the database, such as
    /// `postgresql://user:password@host/database`. Required by `postgres`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub url_secret: Option<String>,
    /// The schema of the queue in the database; default: `skillhost`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub schema: Option<String>,
    /// The number of tasks that run at once; default: 4. With 0 the kernel runs none.
    #[schemars(range(max = 512))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub workers: Option<u16>,
    /// The time after which the task of a worker that does not report is given to another one, in
    /// milliseconds; default: 30000.
    #[schemars(range(min = 1000, max = 600_000))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lease_ms: Option<u32>,
    /// The time for which a question of a conversation is shown to its clients before the run stops
    /// and waits parked, in milliseconds; default: 120000.
    #[schemars(range(min = 100, max = 3_600_000))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub live_ms: Option<u32>,
}

/// The kind of the store of tasks.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum TaskStoreKind {
    /// A file of the home.
    #[default]
    Sqlite,
    /// A database that several machines share.
    Postgres,
}

/// The keys as written, before they are checked together.
#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct TaskStoreForm {
    store: TaskStoreKind,
    url_secret: Option<String>,
    schema: Option<String>,
    workers: Option<u16>,
    lease_ms: Option<u32>,
    live_ms: Option<u32>,
}

impl TryFrom<TaskStoreForm> for TaskStoreSettings {
    type Error = String;

    fn try_from(form: TaskStoreForm) -> Result<Self, String> {
        let TaskStoreForm { store, url_secret, schema, workers, lease_ms, live_ms } = form;
        match (store, &url_secret, &schema) {
            (TaskStoreKind::Postgres, None, _) => {
                Err("`tasks.store: postgres` requires `tasks.url_secret`".to_owned())
            }
            // The value would be printed by `config`; a secret's name has no such characters.
            (_, Some(name), _) if name.is_empty() || name.contains([':', '/', '=', ' ', '@']) => {
                Err("`tasks.url_secret` is the name of a secret, not an address".to_owned())
            }
            (TaskStoreKind::Sqlite, Some(_), _) => {
                Err("`tasks.url_secret` requires `tasks.store: postgres`".to_owned())
            }
            (TaskStoreKind::Sqlite, _, Some(_)) => {
                Err("`tasks.schema` requires `tasks.store: postgres`".to_owned())
            }
            _ if workers.is_some_and(|workers| workers > MAX_WORKERS) => {
                Err(format!("`tasks.workers` is at most {MAX_WORKERS}"))
            }
            _ if lease_ms.is_some_and(|lease| !LEASE_RANGE_MS.contains(&lease)) => {
                let (min, max) = LEASE_RANGE_MS.into_inner();
                Err(format!("`tasks.lease_ms` is {min} to {max}"))
            }
            _ if live_ms.is_some_and(|live| !LIVE_RANGE_MS.contains(&live)) => {
                let (min, max) = LIVE_RANGE_MS.into_inner();
                Err(format!("`tasks.live_ms` is {min} to {max}"))
            }
            _ => Ok(Self { store, url_secret, schema, workers, lease_ms, live_ms }),
        }
    }
}

impl TaskStoreSettings {
    /// Returns the secret with the address of the shared database, and the schema of the queue in
    /// it; `None` if tasks are kept in the home.
    #[must_use]
    pub fn shared_database(&self) -> Option<(&str, &str)> {
        let secret = self.url_secret.as_deref()?;
        Some((secret, self.schema.as_deref().unwrap_or("skillhost")))
    }

    /// Returns the number of tasks that run at once.
    #[must_use]
    pub fn worker_count(&self) -> usize {
        usize::from(self.workers.unwrap_or(DEFAULT_WORKERS))
    }

    /// Returns the length of a lease.
    #[must_use]
    pub fn lease(&self) -> Duration {
        Duration::from_millis(self.lease_ms.unwrap_or(DEFAULT_LEASE_MS).into())
    }

    /// Returns the time for which a person is asked live; `None` for the default.
    #[must_use]
    pub fn live_limit(&self) -> Option<Duration> {
        self.live_ms.map(|live| Duration::from_millis(live.into()))
    }

    /// Returns whether no key is set.
    pub(super) fn is_default(&self) -> bool {
        *self == Self::default()
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::super::{Settings, SettingsError};

    #[test]
    fn database_is_named_by_a_secret() {
        let parse = |text: &str| Settings::parse(Path::new("skillhost.yaml"), text);
        let text = "tasks: {store: postgres, url_secret: WORK_DATABASE}";
        let tasks = parse(text).unwrap().tasks;
        assert_eq!(tasks.shared_database(), Some(("WORK_DATABASE", "skillhost")));
        assert!(parse("tasks: {}").unwrap().tasks.is_default());
        let errors = [
            ("\ntasks: {store: postgres}", "`tasks.store: postgres` requires `tasks.url_secret`"),
            ("\ntasks: {schema: work}", "`tasks.schema` requires `tasks.store: postgres`"),
            ("\ntasks: {url_secret: A}", "`tasks.url_secret` requires `tasks.store: postgres`"),
            ("\ntasks: {store: mysql}", "unknown variant `mysql`"),
            ("\ntasks: {workers: 513}", "`tasks.workers` is at most 512"),
            ("\ntasks: {lease_ms: 999}", "`tasks.lease_ms` is 1000 to 600000"),
            ("\ntasks: {live_ms: 99}", "`tasks.live_ms` is 100 to 3600000"),
            ("\ntasks: {scheme: a}", "unknown field `scheme`"),
        ];
        for (text, expected) in errors {
            let error = parse(text).unwrap_err();
            assert!(error.to_string().contains(expected), "{error}");
            assert!(matches!(error, SettingsError::Invalid { line: 2, .. }), "{error}");
        }
        let text = "tasks: {store: postgres, url_secret: 'postgresql://u:hunter2@h/d'}";
        let error = parse(text).unwrap_err().to_string();
        assert!(error.contains("not an address") && !error.contains("hunter2"), "{error}");
    }
}
