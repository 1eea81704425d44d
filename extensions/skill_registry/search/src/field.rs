//! The five fields of a document.

use serde::{Serialize, Serializer};

/// The number of fields.
pub(crate) const FIELDS: usize = 5;

/// The index of the name.
pub(crate) const NAME: usize = 0;
/// The index of the description with when_to_use.
pub(crate) const DESCRIPTION: usize = 1;
/// The index of the tags.
pub(crate) const TAGS: usize = 2;
/// The index of the headings of the body.
pub(crate) const HEADINGS: usize = 3;
/// The index of the start of the body.
pub(crate) const BODY: usize = 4;

const NAMES: [&str; FIELDS] = ["name", "description", "tags", "headings", "body"];

/// A set of the fields name, description, tags, headings and body.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FieldSet(u8);

impl FieldSet {
    /// Adds a field by its number.
    pub(crate) fn add(&mut self, field: usize) {
        self.0 |= 1 << field;
    }

    /// Adds all fields of another set.
    pub(crate) fn extend(&mut self, other: Self) {
        self.0 |= other.0;
    }

    /// Returns the names of the fields in the set, in their order.
    #[must_use]
    pub fn names(self) -> Vec<&'static str> {
        let is_in = |(field, _): &(usize, &&str)| self.0 & (1 << field) != 0;
        NAMES.iter().enumerate().filter(is_in).map(|(_, name)| *name).collect()
    }

    /// Returns whether the set is empty.
    #[must_use]
    pub fn is_empty(self) -> bool {
        self.0 == 0
    }
}

impl Serialize for FieldSet {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        // Clients see names, so that the bits can change.
        serializer.collect_seq(self.names())
    }
}
