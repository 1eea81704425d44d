//! The semantic similarity of skills to a query, if an embedding model is available.
//!
//! The model belongs to the caller. This module holds the texts to embed, the vectors, which the
//! database stores by the digest of the text and the name of the model, and the scores computed
//! from them.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use arc_swap::ArcSwapOption;
use skill_catalog::{Skill, Snapshot, Store};
use skill_format::Digest;
use skill_ledger::{Ledger, LedgerError};
use skill_search::{CosineScores, EmbeddingSimilarity};

use super::text::SearchableText;

/// So many sections of a body have a vector.
const SECTIONS: usize = 40;

/// The words of a section, and the number of them that the next section repeats.
const WORDS: usize = 200;
const REPEATED: usize = 40;

/// The approximate number of texts per request.
const BATCH: usize = 128;

/// The pause after a failed request.
const BACKOFF: Duration = Duration::from_secs(60);

/// The time that a write of vectors waits for the lock of the database.
const WAIT: Duration = Duration::from_secs(1);

/// The vectors of a store's skills.
pub struct EmbeddingVectors {
    ledger: Ledger,
    held: ArcSwapOption<ModelVectors>,
    trouble: Mutex<Option<EmbeddingBackoff>>,
}

/// The reason for missing vectors, and the end of the pause.
struct EmbeddingBackoff {
    reason: String,
    until: Instant,
}

/// The vectors of one model.
#[derive(Clone)]
struct ModelVectors {
    model: String,
    dimension: usize,
    skills: HashMap<Digest, Arc<QuantizedVectors>>,
}

/// The vectors of a skill: of its description, of its description with its headings, of each
/// section. A component is a byte, which costs about half a percent of a cosine.
struct QuantizedVectors {
    components: Box<[i8]>,
    /// The value of one step of each vector's bytes.
    scales: Box<[f32]>,
}

/// The skills without vectors.
pub struct MissingVectors {
    model: String,
    skills: std::vec::IntoIter<Arc<Skill>>,
}

/// The texts of one embedding request.
pub struct EmbeddingBatch {
    model: String,
    skills: Vec<(Digest, usize)>,
    texts: Vec<String>,
}

/// The similarity of the skills of a snapshot to a query.
pub struct SimilarityScores {
    held: Arc<ModelVectors>,
    snapshot: Arc<Snapshot>,
    query: Vec<f32>,
}

impl fmt::Debug for EmbeddingVectors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let held = self.held.load();
        let model = held.as_ref().map(|held| &*held.model);
        f.debug_struct("Vectors").field("model", &model).finish_non_exhaustive()
    }
}

impl EmbeddingVectors {
    /// Creates an empty set of vectors backed by a ledger's database; opens no file.
    #[must_use]
    pub fn new(ledger: &Ledger) -> Self {
        let ledger = ledger.with_wait(WAIT);
        Self { ledger, held: ArcSwapOption::empty(), trouble: Mutex::default() }
    }

    /// Selects a model and loads its vectors from the database; those of another model are dropped.
    /// Returns the skills that lack vectors.
    #[must_use]
    pub fn load_model(&self, snapshot: &Snapshot, model: &str, dimension: usize) -> MissingVectors {
        let before = self.held.load_full();
        // Vectors of another model or dimension cannot be compared with this one's.
        let before = before.filter(|held| held.model == model && held.dimension == dimension);
        let stored = match &before {
            Some(_) => Vec::new(),
            // Without the database the vectors are computed again at each start.
            None => self.ledger.vectors(model).unwrap_or_default(),
        };
        let mut known = before.map_or_else(HashMap::new, |held| held.skills.clone());
        let unpacked = |(digest, bytes): (Digest, Vec<u8>)| {
            Some((digest, Arc::new(QuantizedVectors::parse(&bytes, dimension)?)))
        };
        known.extend(stored.into_iter().filter_map(unpacked));
        let mut skills = HashMap::new();
        let mut missing = Vec::new();
        for skill in snapshot.skills() {
            match skill.digest().and_then(|digest| known.remove_entry(&digest)) {
                Some((digest, packed)) => drop(skills.insert(digest, packed)),
                // Two skills may have the same text.
                None if skill.digest().is_some_and(|digest| skills.contains_key(&digest)) => {}
                None => missing.push(Arc::clone(skill)),
            }
        }
        let gone: Vec<Digest> = known.into_keys().collect();
        // Rows that stay after an error are removed by a later call.
        let _ = self.ledger.drop_vectors(model, &gone);
        let model = model.to_owned();
        self.held.store(Some(Arc::new(ModelVectors { model: model.clone(), dimension, skills })));
        MissingVectors { model, skills: missing.into_iter() }
    }

    /// Stores the vectors of a batch, one per text.
    ///
    /// # Errors
    /// Those of the disk and the database; the vectors are used in spite of the error.
    pub fn store_batch(
        &self,
        batch: &EmbeddingBatch,
        vectors: &[Vec<f32>],
    ) -> Result<(), LedgerError> {
        // The model may have been changed while the batch was computed; its vectors are then
        // useless.
        let held = self.held.load_full().filter(|held| held.model == batch.model);
        let Some(held) = held.filter(|_| vectors.len() == batch.texts.len()) else {
            return Ok(());
        };
        // Copied, because queries hold the previous set without a lock.
        let mut held = ModelVectors::clone(&held);
        let mut rest = vectors;
        let mut rows = Vec::new();
        for (digest, count) in &batch.skills {
            let (own, others) = rest.split_at(*count);
            rest = others;
            let packed = QuantizedVectors::new(own);
            rows.push((*digest, packed.bytes(held.dimension)));
            held.skills.insert(*digest, Arc::new(packed));
        }
        let model = held.model.clone();
        // Published before the write: a database error must not lose the vectors of this run.
        self.held.store(Some(Arc::new(held)));
        self.ledger.put_vectors(&model, &rows)
    }

    /// Returns the similarity of the skills of a snapshot to a query with this vector; `None`
    /// before any vectors exist, or if this one is of another model.
    #[must_use]
    pub fn similarity_scores(
        &self,
        snapshot: &Arc<Snapshot>,
        query: &[f32],
    ) -> Option<SimilarityScores> {
        let held = self.held.load_full()?;
        let fits = held.dimension == query.len() && !held.skills.is_empty();
        let query = normalize(query);
        fits.then(|| SimilarityScores { held, snapshot: Arc::clone(snapshot), query })
    }

    /// Returns whether there are vectors to compare and no pause is active.
    #[must_use]
    pub fn are_ready(&self, now: Instant) -> bool {
        !self.is_backing_off(now)
            && self.held.load().as_ref().is_some_and(|held| !held.skills.is_empty())
    }

    /// Returns whether a pause after a failure is active.
    #[must_use]
    pub fn is_backing_off(&self, now: Instant) -> bool {
        self.trouble().as_ref().is_some_and(|trouble| now < trouble.until)
    }

    /// Records a failed request and starts a pause of a minute. Returns whether the reason is new.
    pub fn record_failure(&self, reason: String, now: Instant) -> bool {
        self.trouble().replace(EmbeddingBackoff { reason, until: now + BACKOFF }).is_none()
    }

    /// Ends the pause after a successful request.
    pub fn clear_backoff(&self) {
        *self.trouble() = None;
    }

    /// Returns the reason for missing vectors.
    #[must_use]
    pub fn unavailable_reason(&self) -> Option<String> {
        self.trouble().as_ref().map(|trouble| trouble.reason.clone())
    }

    fn trouble(&self) -> MutexGuard<'_, Option<EmbeddingBackoff>> {
        self.trouble.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl MissingVectors {
    /// Reads the texts of the next skills; returns `None` after the last one.
    pub fn next_batch(&mut self, store: &Store) -> Option<EmbeddingBatch> {
        let mut batch =
            EmbeddingBatch { model: self.model.clone(), skills: Vec::new(), texts: Vec::new() };
        while batch.texts.len() < BATCH {
            let Some(skill) = self.skills.next() else { break };
            let text = SearchableText::read(store, &skill, usize::MAX);
            // A text without a digest has no key under which its vectors could be stored.
            let Some(digest) = text.digest else { continue };
            let texts = text.embedding_texts();
            batch.skills.push((digest, texts.len()));
            batch.texts.extend(texts);
        }
        (!batch.texts.is_empty()).then_some(batch)
    }
}

impl EmbeddingBatch {
    /// Returns the texts.
    #[must_use]
    pub fn texts(&self) -> Vec<&str> {
        self.texts.iter().map(String::as_str).collect()
    }
}

impl SearchableText {
    /// Returns the texts to embed: the description, the description with the headings, the
    /// sections.
    fn embedding_texts(&self) -> Vec<String> {
        let name = self.skill.name().replace('-', " ");
        let own = format!("{name} {}", self.skill.description());
        let with_headings = format!("{own} {}", self.headings.join(" "));
        [own, with_headings].into_iter().chain(sections(&self.body)).collect()
    }
}

/// Cuts a body into sections that overlap.
fn sections(body: &str) -> impl Iterator<Item = String> {
    let words: Vec<&str> = body.split_whitespace().collect();
    let starts = (0..words.len()).step_by(WORDS - REPEATED).take(SECTIONS);
    starts.map(move |start| words[start..words.len().min(start + WORDS)].join(" "))
}

impl QuantizedVectors {
    fn new(vectors: &[Vec<f32>]) -> Self {
        let mut components = Vec::new();
        let mut scales = Vec::new();
        for vector in vectors {
            let vector = normalize(vector);
            let largest = vector.iter().fold(0.0_f32, |largest, part| largest.max(part.abs()));
            // A zero vector has no direction; a scale of 1 avoids a division by zero.
            let scale = if largest > 0.0 { largest / 127.0 } else { 1.0 };
            scales.push(scale);
            components.extend(vector.iter().map(|part| (part / scale).round() as i8));
        }
        Self { components: components.into(), scales: scales.into() }
    }

    /// Writes each vector as its scale and its components.
    fn bytes(&self, dimension: usize) -> Vec<u8> {
        // `chunks` panics on 0.
        let vectors = self.components.chunks(dimension.max(1)).zip(&self.scales);
        vectors
            .flat_map(|(vector, scale)| {
                let components = vector.iter().map(|part| part.to_le_bytes()[0]);
                scale.to_le_bytes().into_iter().chain(components)
            })
            .collect()
    }

    /// Parses the output of [`QuantizedVectors::bytes`]; returns `None` if it is not valid.
    fn parse(bytes: &[u8], dimension: usize) -> Option<Self> {
        let vectors = bytes.chunks_exact(4 + dimension);
        // Every skill has at least the vectors of its description and its headings.
        if !vectors.remainder().is_empty() || vectors.len() < 2 {
            return None;
        }
        let mut packed = (Vec::new(), Vec::new());
        for vector in vectors {
            let (scale, components) = vector.split_first_chunk::<4>()?;
            packed.0.extend(components.iter().map(|part| i8::from_le_bytes([*part])));
            packed.1.push(f32::from_le_bytes(*scale));
        }
        // A damaged row could otherwise put NaN into the ranking.
        let finite = packed.1.iter().all(|scale| scale.is_finite());
        finite.then(|| Self { components: packed.0.into(), scales: packed.1.into() })
    }

    fn cosine(&self, at: usize, query: &[f32]) -> f32 {
        let vector = &self.components[at * query.len()..(at + 1) * query.len()];
        let sum: f32 = vector.iter().zip(query).map(|(part, query)| f32::from(*part) * query).sum();
        sum * self.scales[at]
    }
}

/// Brings a vector to the length 1; one without a length stays.
fn normalize(vector: &[f32]) -> Vec<f32> {
    let length = vector.iter().map(|part| part * part).sum::<f32>().sqrt();
    // A zero vector stays zero instead of becoming NaN.
    let length = if length > 0.0 { length } else { 1.0 };
    vector.iter().map(|part| part / length).collect()
}

impl SimilarityScores {
    fn packed(&self, skill: &Skill) -> Option<&QuantizedVectors> {
        Some(&**self.held.skills.get(&skill.digest()?)?)
    }
}

impl EmbeddingSimilarity for SimilarityScores {
    fn cosines(&self, id: &str) -> Option<CosineScores> {
        let packed = self.packed(self.snapshot.find_primary(id)?)?;
        let sections = (2..packed.scales.len()).map(|at| packed.cosine(at, &self.query));
        Some(CosineScores {
            description: packed.cosine(0, &self.query),
            headings: packed.cosine(1, &self.query),
            section: sections.max_by(f32::total_cmp).unwrap_or_default(),
        })
    }

    fn nearest(&self, limit: usize) -> Vec<&str> {
        let skills = self.snapshot.skills().iter();
        let cosine = |skill: &'_ Arc<Skill>| Some(self.packed(skill)?.cosine(0, &self.query));
        let mut all: Vec<(f32, &str)> =
            skills.filter_map(|skill| Some((cosine(skill)?, skill.id().as_str()))).collect();
        // Equal cosines are ordered by id, so that the result does not depend on the snapshot's
        // order.
        all.sort_by(|a, b| b.0.total_cmp(&a.0).then_with(|| a.1.cmp(b.1)));
        all.into_iter().take(limit).map(|(_, id)| id).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sections_overlap_and_are_bounded() {
        let ends = |count: usize| -> Vec<(String, String)> {
            let body: String = (0..count).map(|n| format!("w{n}\n")).collect();
            let words = |section: String| {
                let words: Vec<&str> = section.split(' ').collect();
                (words[0].to_owned(), words[words.len() - 1].to_owned())
            };
            sections(&body).map(words).collect()
        };
        let pair = |a: &str, b: &str| (a.to_owned(), b.to_owned());
        assert_eq!(ends(361), [pair("w0", "w199"), pair("w160", "w359"), pair("w320", "w360")]);
        assert_eq!((ends(0), ends(20_000).len()), (vec![], SECTIONS));
    }

    #[test]
    fn quantized_vectors_preserve_directions() {
        let packed = QuantizedVectors::new(&[vec![3.0, 4.0], vec![0.0, -2.0], vec![0.0, 0.0]]);
        let again = QuantizedVectors::parse(&packed.bytes(2), 2).unwrap();
        for packed in [&packed, &again] {
            let cosines = [0, 1, 2].map(|at| packed.cosine(at, &[0.0, 1.0]));
            assert!((cosines[0] - 0.8).abs() < 0.005, "{cosines:?}");
            assert_eq!(cosines[1..], [-1.0, 0.0]);
        }
        let bytes = packed.bytes(2);
        assert!(QuantizedVectors::parse(&bytes[1..], 2).is_none());
        assert!(QuantizedVectors::parse(&bytes, 3).is_none());
        assert!(QuantizedVectors::parse(&[], 2).is_none());
        assert!(QuantizedVectors::parse(&f32::NAN.to_le_bytes().repeat(2), 0).is_none());
    }
}
