//! The index: what documents have which terms, where.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use crate::field::FIELDS;
use crate::{Analysis, Document};

/// Documents, ready to be searched. It never changes; a copy costs a reference count.
#[derive(Clone, Debug)]
pub struct Index {
    pub(crate) state: Arc<State>,
}

#[derive(Debug)]
pub(crate) struct State {
    pub(crate) analysis: Analysis,
    pub(crate) documents: BTreeMap<Arc<str>, Arc<Analysed>>,
    pub(crate) df: HashMap<String, usize>,
    pub(crate) average: [f64; FIELDS],
    pub(crate) mean_section: f64,
}

#[derive(Debug)]
pub(crate) struct Analysed {
    pub(crate) fields: [Vec<String>; FIELDS],
    pub(crate) sections: Vec<Vec<String>>,
}

impl Index {
    /// Builds the index of a catalog. A later document with the same id replaces the earlier.
    #[must_use]
    pub fn build<'a>(
        analysis: Analysis,
        documents: impl IntoIterator<Item = Document<'a>>,
    ) -> Self {
        let analysed = |document: Document<'_>| {
            (Arc::from(document.id), Arc::new(analysed(analysis, &document)))
        };
        Self::of(analysis, documents.into_iter().map(analysed).collect())
    }

    /// Returns the index of a changed catalog: with these documents put in or replaced, and without
    /// those removed. An id that is in both is put in.
    #[must_use]
    pub fn updated<'a>(
        &self,
        put: impl IntoIterator<Item = Document<'a>>,
        removed: &[&str],
    ) -> Self {
        let analysis = self.state.analysis;
        let mut documents = self.state.documents.clone();
        for id in removed {
            documents.remove(*id);
        }
        for document in put {
            documents.insert(Arc::from(document.id), Arc::new(analysed(analysis, &document)));
        }
        Self::of(analysis, documents)
    }

    /// Returns how many documents it has.
    #[must_use]
    pub fn len(&self) -> usize {
        self.state.documents.len()
    }

    /// Says whether it has no document.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Says whether it has a document with this id.
    #[must_use]
    pub fn contains(&self, id: &str) -> bool {
        self.state.documents.contains_key(id)
    }

    /// Returns the bytes it holds on the heap.
    #[must_use]
    pub fn heap_bytes(&self) -> usize {
        let bytes = |terms: &Vec<String>| terms.iter().map(|term| term.len() + 24).sum::<usize>();
        let documents = self.state.documents.values();
        documents.flat_map(|it| it.fields.iter().chain(&it.sections)).map(bytes).sum()
    }

    fn of(analysis: Analysis, documents: BTreeMap<Arc<str>, Arc<Analysed>>) -> Self {
        let mut df: HashMap<String, usize> = HashMap::new();
        let mut lengths = [0usize; FIELDS];
        let (mut sections, mut in_sections) = (0, 0);
        for document in documents.values() {
            let distinct: BTreeSet<&String> = document.fields.iter().flatten().collect();
            for term in distinct {
                *df.entry(term.clone()).or_default() += 1;
            }
            for (length, field) in lengths.iter_mut().zip(&document.fields) {
                *length += field.len();
            }
            sections += document.sections.len();
            in_sections += document.sections.iter().map(Vec::len).sum::<usize>();
        }
        let count = documents.len().max(1) as f64;
        let average = lengths.map(|length| (length as f64 / count).max(1e-9));
        let mean_section = in_sections as f64 / sections.max(1) as f64;
        Self { state: Arc::new(State { analysis, documents, df, average, mean_section }) }
    }
}

fn first(text: &str, characters: usize) -> &str {
    text.char_indices().nth(characters).map_or(text, |(end, _)| &text[..end])
}

fn analysed(analysis: Analysis, document: &Document<'_>) -> Analysed {
    let joined = |texts: &[&str]| texts.iter().flat_map(|text| analysis.terms(text)).collect();
    Analysed {
        fields: [
            analysis.terms(document.name),
            joined(&[document.description, document.when_to_use]),
            joined(&document.tags),
            joined(&document.headings),
            analysis.terms(first(document.body, 8_000)),
        ],
        sections: sections(analysis, first(document.body, 12_000)),
    }
}

fn sections(analysis: Analysis, body: &str) -> Vec<Vec<String>> {
    let mut sections = Vec::new();
    let mut current: Vec<String> = Vec::new();
    for line in body.split('\n') {
        if line.starts_with('#') && current.len() >= 25 {
            sections.push(std::mem::take(&mut current));
        }
        current.extend(analysis.terms(line));
        while current.len() >= 150 {
            sections.push(current[..150].to_vec());
            current.drain(..120);
        }
    }
    if !current.is_empty() {
        sections.push(current);
    }
    sections.truncate(40);
    sections
}
