//! One-time tokens and the sessions that they open.
//!
//! Both are in memory: they end with the kernel, and no file of the home has them. The table stores
//! digests, so that a read of its memory opens no session.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use skillhost_files::sha256_hex;
use skillhost_payload::{CallError, ErrorKind};

/// The time for which a token can be used, in milliseconds.
pub(crate) const TOKEN_MS: u64 = 2 * 60 * 1000;
/// The length of a session, in milliseconds.
pub(crate) const SESSION_MS: u64 = 12 * 60 * 60 * 1000;
/// The number of tokens and of sessions at once; the oldest makes room.
const MAX_ENTRIES: usize = 64;

/// The tokens and sessions of a console.
#[derive(Default)]
pub(crate) struct LoginTable {
    state: Mutex<LoginState>,
}

#[derive(Default)]
struct LoginState {
    /// The ends of unused tokens, by their digests.
    tokens: BTreeMap<String, u64>,
    /// The sessions, by the digests of their cookies.
    sessions: BTreeMap<String, LoginSession>,
}

/// A session of the operator.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct LoginSession {
    /// The secret that every form of the session carries.
    pub(crate) csrf: String,
    /// The time of the login, in milliseconds since 1970.
    pub(crate) opened_ms: u64,
    /// The time of the end.
    pub(crate) expires_ms: u64,
}

impl LoginTable {
    /// Creates a token for one login; returns it with the time of its end.
    ///
    /// # Errors
    /// The system has no random numbers.
    pub(crate) fn issue_token(&self, now_ms: u64) -> Result<(String, u64), CallError> {
        let token = generate_secret()?;
        let expires_ms = now_ms + TOKEN_MS;
        let mut state = self.lock();
        state.tokens.retain(|_, end| *end > now_ms);
        make_room(&mut state.tokens, |end| *end);
        state.tokens.insert(digest_of(&token), expires_ms);
        Ok((token, expires_ms))
    }

    /// Opens a session with a token, which cannot be used again. Returns the cookie, or `None` for a
    /// token that is unknown, used or expired.
    ///
    /// # Errors
    /// The system has no random numbers.
    pub(crate) fn redeem_token(
        &self,
        token: &str,
        now_ms: u64,
    ) -> Result<Option<String>, CallError> {
        let (cookie, csrf) = (generate_secret()?, generate_secret()?);
        let mut state = self.lock();
        // Removed in the same critical section: of many uses at once, one finds it.
        let is_valid = state.tokens.remove(&digest_of(token)).is_some_and(|end| end > now_ms);
        if !is_valid {
            return Ok(None);
        }
        state.sessions.retain(|_, session| session.expires_ms > now_ms);
        make_room(&mut state.sessions, |session| session.expires_ms);
        let session = LoginSession { csrf, opened_ms: now_ms, expires_ms: now_ms + SESSION_MS };
        state.sessions.insert(digest_of(&cookie), session);
        Ok(Some(cookie))
    }

    /// Returns the session of a cookie, unless it is over.
    pub(crate) fn find_session(&self, cookie: &str, now_ms: u64) -> Option<LoginSession> {
        let state = self.lock();
        state.sessions.get(&digest_of(cookie)).filter(|it| it.expires_ms > now_ms).cloned()
    }

    /// Ends the session of a cookie.
    pub(crate) fn close_session(&self, cookie: &str) {
        // An unknown cookie has no session to end.
        self.lock().sessions.remove(&digest_of(cookie));
    }

    /// Ends all sessions, and all tokens.
    pub(crate) fn close_all(&self) {
        *self.lock() = LoginState::default();
    }

    /// Lists the sessions, the newest first.
    pub(crate) fn list_sessions(&self, now_ms: u64) -> Vec<LoginSession> {
        let state = self.lock();
        let open = state.sessions.values().filter(|session| session.expires_ms > now_ms);
        let mut sessions: Vec<_> = open.cloned().collect();
        sessions.sort_by_key(|session| std::cmp::Reverse(session.opened_ms));
        sessions
    }

    /// Locks the table. Entries stay consistent even if another thread panicked.
    fn lock(&self) -> MutexGuard<'_, LoginState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Removes the entry that ends first if there is no room for another one.
fn make_room<T>(entries: &mut BTreeMap<String, T>, end_of: impl Fn(&T) -> u64) {
    if entries.len() < MAX_ENTRIES {
        return;
    }
    let first = entries.iter().min_by_key(|(_, entry)| end_of(entry)).map(|(key, _)| key.clone());
    if let Some(first) = first {
        entries.remove(&first);
    }
}

/// Returns 256 random bits, hexadecimal.
fn generate_secret() -> Result<String, CallError> {
    let mut bytes = [0_u8; 32];
    getrandom::fill(&mut bytes).map_err(|error| {
        CallError::new(ErrorKind::Unavailable, format!("the system has no random numbers: {error}"))
    })?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}

fn digest_of(secret: &str) -> String {
    sha256_hex(secret.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn token_opens_one_session() {
        let table = LoginTable::default();
        let (token, expires_ms) = table.issue_token(1000).unwrap();
        assert_eq!((token.len(), expires_ms), (64, 1000 + TOKEN_MS));
        assert_eq!(table.redeem_token(&token[1..], 1000).unwrap(), None);
        let cookie = table.redeem_token(&token, 1000).unwrap().unwrap();
        assert_eq!(table.redeem_token(&token, 1000).unwrap(), None);
        let session = table.find_session(&cookie, 2000).unwrap();
        assert_eq!((session.opened_ms, session.csrf.len()), (1000, 64));
        assert_ne!(session.csrf, cookie);
        assert_eq!(table.find_session(&token, 2000), None);
        assert_eq!(table.find_session(&cookie, 1000 + SESSION_MS), None);
        table.close_session(&cookie);
        assert_eq!(table.find_session(&cookie, 2000), None);
    }

    #[test]
    fn expired_token_opens_none() {
        let table = LoginTable::default();
        let (token, expires_ms) = table.issue_token(0).unwrap();
        assert_eq!(table.redeem_token(&token, expires_ms).unwrap(), None);
        // It was consumed by the attempt.
        assert_eq!(table.redeem_token(&token, 0).unwrap(), None);
    }

    #[test]
    fn concurrent_uses_open_one_session() {
        let table = LoginTable::default();
        let (token, _) = table.issue_token(0).unwrap();
        let opened: usize = std::thread::scope(|scope| {
            let redeem = || usize::from(table.redeem_token(&token, 1).unwrap().is_some());
            let threads: Vec<_> = (0..100).map(|_| scope.spawn(redeem)).collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).sum()
        });
        assert_eq!(opened, 1);
        assert_eq!(table.list_sessions(1).len(), 1);
    }

    #[test]
    fn entries_are_limited() {
        let table = LoginTable::default();
        let first = table.issue_token(0).unwrap().0;
        let others: Vec<_> = (1..=64).map(|at| table.issue_token(at).unwrap().0).collect();
        assert_eq!(table.redeem_token(&first, 100).unwrap(), None);
        for token in others {
            assert!(table.redeem_token(&token, 100).unwrap().is_some());
        }
        assert_eq!(table.list_sessions(100).len(), MAX_ENTRIES);
        table.close_all();
        assert_eq!(table.list_sessions(100), []);
    }
}
