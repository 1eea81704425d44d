//! The search for skills that fit a task.
//!
//! An [`Index`] is built from [`Document`]s and searched with [`SearchRequest`]s; it is immutable,
//! and an update returns a new one. A [`Ranker`] holds all numbers of the ranking, which has two
//! stages: BM25F over five fields finds up to a hundred candidates, and a linear model over their
//! features orders them.
//!
//! ```
//! use skill_search::{Document, Index, Ranker, SearchRequest, TextAnalyzer};
//!
//! let documents = [
//!     ("beads", "Counts beads on a string."),
//!     ("pdf-forms", "Fills in the fields of PDF forms."),
//! ];
//! let documents = documents.map(|(id, description)| Document {
//!     id,
//!     name: id,
//!     description,
//!     ..Document::default()
//! });
//! let index = Index::build(TextAnalyzer::Standard, documents);
//! let ranker = Ranker::standard();
//! let hits = index.search(&SearchRequest::new("fill in this form, please", &ranker));
//! assert_eq!(hits.len(), 1);
//! assert_eq!(&*hits[0].id, "pdf-forms");
//! assert_eq!(hits[0].fields.names(), ["name", "description"]);
//! ```

mod analysis;
mod document;
mod explain;
mod features;
mod field;
mod index;
mod measures;
mod query;
mod ranker;
mod request;
mod search;
mod segment;
mod weights;

pub use analysis::TextAnalyzer;
pub use document::{Document, extract_headings};
pub use explain::{ExplainedHit, FeatureContribution, QueryTerm, RankingExplanation, TermMatch};
pub use features::{CandidateFeatures, Feature};
pub use field::FieldSet;
pub use index::Index;
pub use measures::{CandidateMeasures, CosineScores, EmbeddingSimilarity};
pub use ranker::{LinearModel, Ranker};
pub use request::{SearchHit, SearchRequest};
pub use weights::Bm25fConstants;
