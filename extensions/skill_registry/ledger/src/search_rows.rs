//! The catalog in the database: the words of every skill, so that a search does not read all files
//! after a start.
//!
//! It can be rebuilt at any time, so a damaged catalog is discarded.

use skill_format::Digest;

use crate::ledger::Ledger;
use crate::records::catalog_row::{CatalogHit, CatalogRow, CatalogTerm};
use crate::records::error::LedgerError;
use crate::session::LedgerSession;

impl Ledger {
    /// Returns the skills that have a row, with the digest of its text.
    ///
    /// # Errors
    /// Those of the disk and the database.
    pub fn catalog_rows(&self) -> Result<Vec<(String, Digest)>, LedgerError> {
        self.with_existing_session(|session| session.read(|work| work.catalog_rows()))
    }

    /// Replaces the rows of some skills and removes others.
    ///
    /// # Errors
    /// Those of the disk and the database.
    pub fn renew_catalog(&self, rows: &[CatalogRow], gone: &[String]) -> Result<(), LedgerError> {
        self.with_session(|session| session.change(|work| work.renew_catalog(rows, gone)))
    }

    /// Returns all rows, and the ids of those that match all terms, each in any field.
    ///
    /// # Errors
    /// Those of the disk and the database.
    #[expect(clippy::type_complexity, reason = "both lists are of one state of the database")]
    pub fn matching_catalog_rows(
        &self,
        terms: &[CatalogTerm],
    ) -> Result<(Vec<(String, Digest)>, Vec<String>), LedgerError> {
        self.with_existing_session(|session| {
            // Both from one transaction: the caller compares one list with the other.
            let found = session.read(|work| {
                let holders = work.matching_catalog_rows(terms)?;
                Ok(holders.map(|holders| (holders, work.catalog_rows())))
            })?;
            match found {
                Some((holders, rows)) => Ok((rows?, holders)),
                None => session.reset_catalog(),
            }
        })
    }

    /// Returns the rows that match any of the terms, the best first.
    ///
    /// # Errors
    /// Those of the disk and the database.
    pub fn rank_catalog(&self, terms: &[CatalogTerm]) -> Result<Vec<CatalogHit>, LedgerError> {
        self.with_existing_session(|session| {
            let found = session.read(|work| work.rank_catalog(terms))?;
            found.map_or_else(|| session.reset_catalog(), Ok)
        })
    }

    /// Returns the vectors of a model, by the digest of the SKILL.md from which they were made.
    ///
    /// # Errors
    /// Those of the disk and the database.
    pub fn vectors(&self, model: &str) -> Result<Vec<(Digest, Vec<u8>)>, LedgerError> {
        self.with_existing_session(|session| session.read(|work| work.vectors(model)))
    }

    /// Stores vectors of a model.
    ///
    /// # Errors
    /// Those of the disk and the database.
    pub fn put_vectors(&self, model: &str, rows: &[(Digest, Vec<u8>)]) -> Result<(), LedgerError> {
        self.with_session(|session| session.change(|work| work.put_vectors(model, rows)))
    }

    /// Removes vectors of a model.
    ///
    /// # Errors
    /// Those of the disk and the database.
    pub fn drop_vectors(&self, model: &str, gone: &[Digest]) -> Result<(), LedgerError> {
        if gone.is_empty() {
            return Ok(());
        }
        self.with_existing_session(|session| session.change(|work| work.drop_vectors(model, gone)))
    }
}

impl LedgerSession<'_> {
    /// Discards a damaged catalog; returns the result of an empty one.
    fn reset_catalog<T: Default>(&mut self) -> Result<T, LedgerError> {
        // A peeking session must not write; the next writing one resets the catalog.
        if !self.peeks {
            self.change(|work| work.empty_catalog())?;
        }
        Ok(T::default())
    }
}
