//! The catalog in the database: searchable before any file is read.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use skill_catalog::{Skill, Snapshot, Store};
use skill_format::Digest;
use skill_ledger::{CatalogRow, CatalogTerm, Ledger, LedgerError};

use super::filter::QueryFilter;
use super::query::{RankedSkill, RankedSkills, RankingSource, SkillQuery, find_admitted};
use super::text::SearchableText;

/// The rows per transaction; a small number keeps the database available to others.
const BATCH: usize = 64;

/// The time that a batch waits for the lock of the database.
const KEEPING_WAIT: Duration = Duration::from_secs(1);

/// So many words of a query count here.
const MOST_WORDS: usize = 32;

/// So many skills the database ranks.
const MOST_HITS: usize = 100;

/// The skills in the database by the digest of their text, and those of them that meet the filters.
pub(super) struct CatalogMatches {
    rows: HashMap<String, (Digest, bool)>,
}

impl CatalogMatches {
    /// Returns whether a skill meets the filters, or `None` if the database has another text of it
    /// or none.
    pub(super) fn get(&self, skill: &Skill) -> Option<bool> {
        let (digest, holds) = self.rows.get(skill.id().as_str())?;
        (skill.digest() == Some(*digest)).then_some(*holds)
    }
}

/// Queries the skills that meet filters; returns `None` if the database cannot decide it.
pub(super) fn query_matches(ledger: &Ledger, filters: &[QueryFilter]) -> Option<CatalogMatches> {
    // The database splits words outside of ASCII differently.
    if !filters.iter().all(|filter| filter.words.is_ascii()) {
        return None;
    }
    let terms: Vec<CatalogTerm> = filters
        .iter()
        .map(|filter| CatalogTerm { words: filter.words.clone(), prefix: filter.prefix })
        .collect();
    // The ledger reports a database error itself; the texts remain readable.
    let (rows, holders) = ledger.matching_catalog_rows(&terms).ok()?;
    let mut rows: HashMap<String, (Digest, bool)> =
        rows.into_iter().map(|(id, digest)| (id, (digest, false))).collect();
    // Ids that are only in the second list were written between the two queries.
    for id in holders {
        if let Some((_, holds)) = rows.get_mut(&id) {
            *holds = true;
        }
    }
    Some(CatalogMatches { rows })
}

/// Updates the rows of the database to a snapshot; returns the number of changed rows.
pub(super) fn sync_rows(
    ledger: &Ledger,
    store: &Store,
    snapshot: &Snapshot,
) -> Result<usize, LedgerError> {
    let ledger = ledger.with_wait(KEEPING_WAIT);
    let mut rows: HashMap<String, Digest> = ledger.catalog_rows()?.into_iter().collect();
    let mut news: Vec<&Arc<Skill>> = Vec::new();
    for skill in snapshot.skills() {
        let row = rows.remove(skill.id().as_str());
        // A skill without a digest was never read; its row stays until a full pass has read it.
        if row.is_none() || skill.digest().is_some_and(|digest| row != Some(digest)) {
            news.push(skill);
        }
    }
    let gone: Vec<String> = rows.into_keys().collect();
    let mut written = gone.len();
    if !gone.is_empty() {
        // Removed first, so that no query finds a skill that is gone.
        ledger.renew_catalog(&[], &gone)?;
    }
    for batch in news.chunks(BATCH) {
        let rows: Vec<CatalogRow> = batch
            .iter()
            .filter_map(|skill| row(&SearchableText::read(store, skill, usize::MAX)))
            .collect();
        ledger.renew_catalog(&rows, &[])?;
        written += rows.len();
    }
    Ok(written)
}

/// Builds the row of a text; returns `None` if the skill has no text.
fn row(text: &SearchableText) -> Option<CatalogRow> {
    let digest = text.digest?;
    let fields = text.fields().map(|(_, text)| text);
    Some(CatalogRow { skill_id: text.skill.id().to_string(), digest, fields })
}

/// Ranks skills by the catalog in the database; returns `None` if it is empty.
pub(super) fn search_rows(
    ledger: &Ledger,
    snapshot: &Arc<Snapshot>,
    ask: &SkillQuery<'_>,
) -> Option<RankedSkills> {
    let words = terms(ask.query);
    if words.is_empty() {
        return None;
    }
    // The ledger reports a database error itself; the listing remains searchable.
    let found = ledger.rank_catalog(&words).ok()?;
    let mut hits: Vec<RankedSkill> = found
        .into_iter()
        .filter_map(|found| {
            // The database may hold skills that the snapshot lacks or the scope excludes.
            let skill = Arc::clone(find_admitted(snapshot, ask, &found.skill_id)?);
            Some(RankedSkill { skill, score: found.score, fields: found.fields })
        })
        .take(MOST_HITS)
        .collect();
    let matched = hits.len();
    hits.truncate(ask.limit);
    (matched > 0).then_some(RankedSkills { hits, matched, by: RankingSource::Catalog })
}

/// Returns the words of a query, each as itself or as the beginning of another form of it.
fn terms(query: &str) -> Vec<CatalogTerm> {
    let words = query.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty());
    let mut terms: Vec<CatalogTerm> = Vec::new();
    for word in words {
        let mut words = word.to_lowercase();
        // Rough, and only until there is an index.
        let prefix = words.len() >= 5 && words.is_ascii();
        for ending in ["ing", "ies", "es", "ed", "s"] {
            if prefix && words.len() >= ending.len() + 4 && words.ends_with(ending) {
                words.truncate(words.len() - ending.len());
                break;
            }
        }
        let term = CatalogTerm { words, prefix };
        if !terms.contains(&term) {
            terms.push(term);
        }
        // The limit keeps the database query small for a pasted text.
        if terms.len() == MOST_WORDS {
            break;
        }
    }
    terms
}
