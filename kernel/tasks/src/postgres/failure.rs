//! The errors of the database, and which of them a repetition may overcome.

use tokio_postgres::error::SqlState;

use crate::error::{QueueError, QueueErrorKind};

/// What follows from the failure of a statement for its transaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum FailureClass {
    /// Another transaction was in the way; the same one may succeed now.
    Conflict,
    /// The connection is lost or was never made; the transaction was rolled back.
    Disconnected,
    /// A repetition would fail as well.
    Permanent,
}

/// A failed statement, with the error that the caller gets.
#[derive(Debug, Clone)]
pub(super) struct StatementFailure {
    pub(super) class: FailureClass,
    pub(super) error: QueueError,
}

impl StatementFailure {
    /// Creates the failure of a connection.
    pub(super) fn disconnected(message: impl Into<String>) -> Self {
        let hint = "check that the server runs; the operation may be repeated";
        let error = QueueError::new(QueueErrorKind::Io, message, hint);
        Self { class: FailureClass::Disconnected, error }
    }

    fn lost_connection(error: &tokio_postgres::Error) -> Self {
        Self::disconnected(format!("connection to PostgreSQL failed: {}", describe(error)))
    }

    /// Creates the failure of a row that this program cannot have written.
    pub(super) fn corrupt(message: impl Into<String>) -> Self {
        let hint = "restore a backup of the database";
        let error = QueueError::new(QueueErrorKind::Corrupt, message, hint);
        Self { class: FailureClass::Permanent, error }
    }
}

impl From<tokio_postgres::Error> for StatementFailure {
    fn from(error: tokio_postgres::Error) -> Self {
        let Some(database) = error.as_db_error() else {
            return match error.is_closed() || !is_conversion(&error) {
                true => Self::lost_connection(&error),
                false => Self::corrupt(format!("row of PostgreSQL is not valid: {error}")),
            };
        };
        // Details and context of the message are left out: they may quote values of rows.
        let (class, kind) = classify(database.code());
        let message = format!("PostgreSQL: {} ({})", database.message(), database.code().code());
        let hint = match kind {
            QueueErrorKind::Io => "check that the server runs and has disk space; then repeat",
            QueueErrorKind::Locked => "find the session that holds the lock, and end it",
            QueueErrorKind::Corrupt => "restore a backup of the database",
            _ => "see the log of the server",
        };
        Self { class, error: QueueError::new(kind, message, hint) }
    }
}

impl From<deadpool_postgres::PoolError> for StatementFailure {
    fn from(error: deadpool_postgres::PoolError) -> Self {
        match error {
            deadpool_postgres::PoolError::Backend(error) => {
                // A server that refuses a connection may accept the next one.
                let failure = match error.as_db_error() {
                    Some(_) => Self::from(error),
                    // No row was read: the network or the encryption failed.
                    None => Self::lost_connection(&error),
                };
                let kind = match failure.error.kind() {
                    QueueErrorKind::Database => QueueErrorKind::Io,
                    kind => kind,
                };
                let hint =
                    "check the address, the user, the password and the encryption of the database";
                let error = QueueError::new(kind, failure.error.to_string(), hint);
                Self { class: FailureClass::Disconnected, error }
            }
            other => Self::disconnected(format!("no connection to PostgreSQL: {other}")),
        }
    }
}

/// Returns whether a value of a row could not be converted.
fn is_conversion(error: &tokio_postgres::Error) -> bool {
    std::error::Error::source(error)
        .is_some_and(|source| source.downcast_ref::<std::io::Error>().is_none())
}

/// Returns an error with its cause. Neither contains the password.
fn describe(error: &tokio_postgres::Error) -> String {
    match std::error::Error::source(error) {
        Some(source) => format!("{error}: {source}"),
        None => error.to_string(),
    }
}

fn classify(code: &SqlState) -> (FailureClass, QueueErrorKind) {
    use FailureClass::{Conflict, Disconnected, Permanent};
    match *code {
        SqlState::T_R_SERIALIZATION_FAILURE
        | SqlState::T_R_DEADLOCK_DETECTED
        | SqlState::LOCK_NOT_AVAILABLE => (Conflict, QueueErrorKind::Locked),
        // Another machine has inserted the same key a moment ago.
        SqlState::UNIQUE_VIOLATION => (Conflict, QueueErrorKind::Conflict),
        SqlState::ADMIN_SHUTDOWN
        | SqlState::CRASH_SHUTDOWN
        | SqlState::CANNOT_CONNECT_NOW
        | SqlState::IDLE_IN_TRANSACTION_SESSION_TIMEOUT => (Disconnected, QueueErrorKind::Io),
        SqlState::DATA_CORRUPTED | SqlState::INDEX_CORRUPTED => {
            (Permanent, QueueErrorKind::Corrupt)
        }
        _ => match code.code().get(..2) {
            // Connection exceptions.
            Some("08") => (Disconnected, QueueErrorKind::Io),
            // Insufficient resources, such as a full disk, and errors of its operating system.
            Some("53" | "58") => (Permanent, QueueErrorKind::Io),
            _ => (Permanent, QueueErrorKind::Database),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn conflicts_of_transactions_are_repeated() {
        for code in ["40001", "40P01", "55P03", "23505"] {
            assert_eq!(classify(&SqlState::from_code(code)).0, FailureClass::Conflict, "{code}");
        }
        for code in ["57P01", "08006", "25P03"] {
            assert_eq!(classify(&SqlState::from_code(code)).0, FailureClass::Disconnected);
        }
        let full = (FailureClass::Permanent, QueueErrorKind::Io);
        assert_eq!(classify(&SqlState::DISK_FULL), full);
        let other = (FailureClass::Permanent, QueueErrorKind::Database);
        assert_eq!(classify(&SqlState::UNDEFINED_TABLE), other);
    }
}
