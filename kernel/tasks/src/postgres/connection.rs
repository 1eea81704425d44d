//! Connections to the server.

use std::fmt;
use std::str::FromStr as _;
use std::time::Duration;

use deadpool_postgres::{
    Manager, ManagerConfig, Object, Pool, RecyclingMethod, Runtime as PoolRuntime, Timeouts,
};
use tokio_postgres::Config;

use super::failure::StatementFailure;
use super::tls::TlsConnector;
use crate::error::{QueueError, QueueErrorKind};

/// The length limit of a schema's name, in bytes; the name of its channel is longer.
const MAX_SCHEMA_BYTES: usize = 48;
/// The timeout of a connection attempt and of the wait for a free connection.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// The time without traffic after which the operating system checks the other end.
const KEEPALIVE_IDLE: Duration = Duration::from_secs(15);

/// The parameters of every session. A session that is idle within a transaction belongs to a frozen
/// or unreachable process; its end releases the locks of that process. Each join is one of a few named
/// rows with a large table: without statistics the server would read that table as a whole.
const SESSION_OPTIONS: &str = "-c idle_in_transaction_session_timeout=10000 -c lock_timeout=10000 \
     -c statement_timeout=60000 -c default_transaction_isolation=read\\ committed \
     -c client_encoding=UTF8 -c jit=off -c enable_hashjoin=off -c enable_mergejoin=off";

/// The address of a database, the schema of the queue in it, and the home that uses it.
///
/// The address is a URL (`postgresql://user:password@host/database`) or a list of parameters
/// (`host=/run/postgresql dbname=work`). It may contain a password and is never printed.
#[derive(Clone)]
pub struct PostgresAddress {
    config: Config,
    schema: String,
    home: String,
}

impl fmt::Debug for PostgresAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PostgresAddress").field("schema", &self.schema).finish_non_exhaustive()
    }
}

impl PostgresAddress {
    /// Parses an address.
    ///
    /// # Errors
    /// [`QueueErrorKind::Invalid`] for an address that is not valid, which the message does not
    /// repeat, and for a schema that is not 1 to 48 lower-case letters, digits and `_`, or that
    /// begins with a digit or `pg_`.
    pub fn parse(url: &str, schema: &str) -> Result<Self, QueueError> {
        // The name becomes a part of statements, so only plain identifiers are valid.
        let is_valid = schema.len() <= MAX_SCHEMA_BYTES
            && schema.starts_with(|first: char| first.is_ascii_lowercase() || first == '_')
            && !schema.starts_with("pg_")
            && schema.bytes().all(|byte| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'_'));
        if !is_valid {
            let message = format!("`{}` is not a valid schema name", schema.escape_debug());
            let hint = "use up to 48 lower-case letters, digits and `_`, such as `skillhost`";
            return Err(QueueError::invalid(message, hint));
        }
        // The cause may quote a part of the password.
        let mut config = Config::from_str(url).map_err(|_| {
            let hint = "use `postgresql://USER:PASSWORD@HOST:PORT/DATABASE`, with `%` codes for \
                        special characters of the password";
            QueueError::invalid("address of the database is not valid", hint)
        })?;
        if config.get_hosts().is_empty() {
            let hint = "add the host, or `host=/run/postgresql` for a Unix socket";
            return Err(QueueError::invalid("address of the database has no host", hint));
        }
        // Later parameters win, so an operator can replace those of the program.
        let own = config.get_options().unwrap_or_default();
        config.options(format!("{SESSION_OPTIONS} -c search_path={schema} {own}"));
        if config.get_application_name().is_none() {
            config.application_name("skillhost");
        }
        config.connect_timeout(CONNECT_TIMEOUT).keepalives_idle(KEEPALIVE_IDLE);
        Ok(Self { config, schema: schema.to_owned(), home: String::new() })
    }

    /// Names the home that uses the queue: events about its tasks and questions are published by
    /// processes with the same name alone.
    #[must_use]
    pub fn with_home(mut self, identity: &str) -> Self {
        identity.clone_into(&mut self.home);
        self
    }

    /// Returns the name of the home; empty without one.
    pub(super) fn home(&self) -> &str {
        &self.home
    }

    /// Returns the schema.
    pub(super) fn schema(&self) -> &str {
        &self.schema
    }

    /// Returns the parameters of connections.
    pub(super) fn config(&self) -> &Config {
        &self.config
    }

    /// Creates a pool; it connects when a connection is first used.
    pub(super) fn create_pool(&self, tls: TlsConnector, size: usize) -> Result<Pool, QueueError> {
        // A check of every connection would cost a round trip for each transaction; one that the
        // server has closed is replaced when its transaction fails.
        let recycling_method = RecyclingMethod::Fast;
        let manager =
            Manager::from_config(self.config.clone(), tls, ManagerConfig { recycling_method });
        let timeouts = Timeouts {
            wait: Some(CONNECT_TIMEOUT),
            create: Some(CONNECT_TIMEOUT),
            recycle: Some(CONNECT_TIMEOUT),
        };
        let pool = Pool::builder(manager)
            .max_size(size)
            .timeouts(timeouts)
            .runtime(PoolRuntime::Tokio1)
            .build();
        pool.map_err(|error| {
            QueueError::new(QueueErrorKind::Database, error.to_string(), "report this error")
        })
    }
}

/// Returns a connection of a pool.
pub(super) async fn acquire(pool: &Pool) -> Result<Object, StatementFailure> {
    Ok(pool.get().await?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn password_is_never_printed() {
        let url = "postgresql://user:hunter2@db.example/work";
        let address = PostgresAddress::parse(url, "skillhost").unwrap();
        assert!(!format!("{address:?}").contains("hunter2"));
        for bad in ["postgresql://user:hunter2@db:port/x", "hunter2", "postgresql:///x"] {
            let error = PostgresAddress::parse(bad, "skillhost").unwrap_err();
            assert_eq!(error.kind(), QueueErrorKind::Invalid);
            assert!(!format!("{error} {error:?}").contains("hunter2"), "{error}");
        }
    }

    #[test]
    fn foreign_schema_names_are_rejected() {
        for name in ["", "Work", "1a", "a b", "a\"b", "pg_work", &"a".repeat(49)] {
            let error = PostgresAddress::parse("host=/tmp", name).unwrap_err();
            assert_eq!(error.kind(), QueueErrorKind::Invalid, "{name}");
        }
        assert!(PostgresAddress::parse("host=/tmp", "work_2").is_ok());
    }
}
