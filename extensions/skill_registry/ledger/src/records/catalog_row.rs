//! The indexed texts of skills, and the terms and hits of a search in them.

use skill_format::Digest;

/// The indexed texts of one skill.
#[derive(Clone, Debug)]
pub struct CatalogRow {
    /// The skill.
    pub skill_id: String,
    /// The digest of the SKILL.md from which the fields were made.
    pub digest: Digest,
    /// The name, the description, the tags, the headings and the body.
    pub fields: [String; 5],
}

/// The searched fields, in the order of [`CatalogRow::fields`].
pub(crate) const FIELDS: [&str; 5] = ["name", "description", "tags", "headings", "body"];

/// A search term that a row has to match.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CatalogTerm {
    /// Words, separated by one space each.
    pub words: String,
    /// `true` if the last word is only the beginning of a word.
    pub prefix: bool,
}

/// A row that matches some of the terms.
#[derive(Clone, Debug, PartialEq)]
pub struct CatalogHit {
    /// The skill.
    pub skill_id: String,
    /// The score; comparable only within one result.
    pub score: f64,
    /// The fields in which terms occur.
    pub fields: Vec<&'static str>,
}
