//! Lists of paths and domains that are checked while they are read.
//!
//! The error then has the line and column of the entry, where the format has them.

use std::fmt;

use serde::Deserializer;
use serde::de::{DeserializeSeed, Error, SeqAccess, Visitor};

use crate::domain::DomainPattern;
use crate::paths::check_path;

/// Checks one entry; the error states the violated rule.
type EntryCheck = fn(&str) -> Result<(), String>;

/// A visitor of the list.
struct CheckedList(EntryCheck);

/// A visitor of one entry.
struct CheckedEntry(EntryCheck);

/// Reads a list of paths.
pub(crate) fn paths<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<String>, D::Error> {
    from.deserialize_seq(CheckedList(check_path_entry))
}

/// Reads a list of paths for an optional key.
pub(crate) fn optional_paths<'de, D: Deserializer<'de>>(
    from: D,
) -> Result<Option<Vec<String>>, D::Error> {
    paths(from).map(Some)
}

/// Reads a list of domains.
pub(crate) fn domains<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<String>, D::Error> {
    from.deserialize_seq(CheckedList(check_domain_entry))
}

/// Reads a list of domains for an optional key.
pub(crate) fn optional_domains<'de, D: Deserializer<'de>>(
    from: D,
) -> Result<Option<Vec<String>>, D::Error> {
    domains(from).map(Some)
}

fn check_path_entry(text: &str) -> Result<(), String> {
    check_path(text).map_err(|reason| format!("the path `{text}` is not valid: {reason}"))
}

fn check_domain_entry(text: &str) -> Result<(), String> {
    DomainPattern::parse(text).map(|_| ()).map_err(|error| error.to_string())
}

impl<'de> Visitor<'de> for CheckedList {
    type Value = Vec<String>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list of strings")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut entries: A) -> Result<Self::Value, A::Error> {
        let mut list = Vec::new();
        while let Some(entry) = entries.next_element_seed(CheckedEntry(self.0))? {
            list.push(entry);
        }
        Ok(list)
    }
}

impl<'de> DeserializeSeed<'de> for CheckedEntry {
    type Value = String;

    fn deserialize<D: Deserializer<'de>>(self, from: D) -> Result<String, D::Error> {
        from.deserialize_str(self)
    }
}

impl Visitor<'_> for CheckedEntry {
    type Value = String;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a string")
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<String, E> {
        (self.0)(text).map_err(E::custom)?;
        Ok(text.to_owned())
    }
}
