//! The catalog in the database: the words of every skill, so that they can be searched across starts.
//!
//! It can be made again at any time, so nothing depends on it: what is damaged is thrown away.

use skill_format::Digest;

use crate::ledger::Ledger;
use crate::ledger::error::LedgerError;
use crate::ledger::session::LedgerSession;

/// A skill's row.
#[derive(Clone, Debug)]
pub(crate) struct CatalogRow {
    pub(crate) skill_id: String,
    /// The digest of the SKILL.md that the fields were made of.
    pub(crate) digest: Digest,
    /// In the order of [`FIELDS`].
    pub(crate) fields: [String; 5],
}

/// The searched fields.
pub(crate) const FIELDS: [&str; 5] = ["name", "description", "tags", "headings", "body"];

/// What a row is to have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct CatalogTerm {
    /// Words with one space between them.
    pub(crate) words: String,
    /// Whether the last one may go on.
    pub(crate) prefix: bool,
}

/// A row that has some of the terms.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct CatalogHit {
    pub(crate) skill_id: String,
    pub(crate) score: f64,
    /// The fields in which terms occur.
    pub(crate) fields: Vec<&'static str>,
}

impl Ledger {
    /// Returns the skills that have a row, with the digest it was made of.
    pub(crate) fn catalog_rows(&self) -> Result<Vec<(String, Digest)>, LedgerError> {
        self.with_existing_session(|session| session.read(|work| work.catalog_rows()))
    }

    /// Puts rows in place of what there was, and removes some.
    pub(crate) fn renew_catalog(
        &self,
        rows: &[CatalogRow],
        gone: &[String],
    ) -> Result<(), LedgerError> {
        self.with_session(|session| session.change(|work| work.renew_catalog(rows, gone)))
    }

    /// Returns the rows, and the ids of those that have all the terms, each in one field or another.
    #[expect(clippy::type_complexity, reason = "both lists are of one state of the database")]
    pub(crate) fn matching_catalog_rows(
        &self,
        terms: &[CatalogTerm],
    ) -> Result<(Vec<(String, Digest)>, Vec<String>), LedgerError> {
        self.with_existing_session(|session| {
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

    /// Returns the rows that have any of the terms, the best first.
    pub(crate) fn rank_catalog(
        &self,
        terms: &[CatalogTerm],
    ) -> Result<Vec<CatalogHit>, LedgerError> {
        self.with_existing_session(|session| {
            let found = session.read(|work| work.rank_catalog(terms))?;
            found.map_or_else(|| session.reset_catalog(), Ok)
        })
    }

    /// Returns the vectors that a model made, by the digest of the SKILL.md they were made of.
    pub(crate) fn vectors(&self, model: &str) -> Result<Vec<(Digest, Vec<u8>)>, LedgerError> {
        self.with_existing_session(|session| session.read(|work| work.vectors(model)))
    }

    /// Keeps vectors that a model made.
    pub(crate) fn put_vectors(
        &self,
        model: &str,
        rows: &[(Digest, Vec<u8>)],
    ) -> Result<(), LedgerError> {
        self.with_session(|session| session.change(|work| work.put_vectors(model, rows)))
    }

    /// Removes vectors that a model made.
    pub(crate) fn drop_vectors(&self, model: &str, gone: &[Digest]) -> Result<(), LedgerError> {
        if gone.is_empty() {
            return Ok(());
        }
        self.with_existing_session(|session| session.change(|work| work.drop_vectors(model, gone)))
    }
}

impl LedgerSession<'_> {
    /// Throws a damaged catalog away; answers as an empty one does.
    fn reset_catalog<T: Default>(&mut self) -> Result<T, LedgerError> {
        if !self.peeks {
            self.change(|work| work.empty_catalog())?;
        }
        Ok(T::default())
    }
}
