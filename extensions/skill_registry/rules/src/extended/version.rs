//! Versions of tools.

use std::cmp::Ordering;
use std::fmt;

use serde::{Serialize, Serializer};

/// A version: numbers separated by periods, such as `2`, `2.40` or `v1.2.3-beta.1`.
///
/// Versions are ordered as Semantic Versioning 2.0.0 has it, whatever the number of numbers:
/// `2` is as old as `2.0.0`, `2.9` is older than `2.10`, and `1.0-beta` is older than `1.0`. What
/// follows a `+` does not count.
#[derive(Clone, Debug)]
pub struct ToolVersion {
    text: String,
    /// Without leading zeros, so that numbers of any length compare.
    numbers: Vec<String>,
    before: Vec<String>,
}

impl ToolVersion {
    /// Reads a version; nothing if the text is none.
    #[must_use]
    pub fn new(text: &str) -> Option<Self> {
        let bare = text.strip_prefix(['v', 'V']).unwrap_or(text);
        let (rest, build) = split(bare, '+');
        let (core, before) = split(rest, '-');
        let identifiers = |text: &str| {
            let fits = |part: &str| {
                !part.is_empty() && part.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-')
            };
            text.split('.').all(fits).then(|| text.split('.').map(str::to_owned).collect())
        };
        let number = |part: &str| {
            let fits = !part.is_empty() && part.bytes().all(|b| b.is_ascii_digit());
            fits.then(|| part.trim_start_matches('0').to_owned())
        };
        let mut numbers = core.split('.').map(number).collect::<Option<Vec<String>>>()?;
        while numbers.last().is_some_and(String::is_empty) {
            numbers.pop();
        }
        let before = before.map_or(Some(Vec::new()), identifiers)?;
        let _: Vec<String> = build.map_or(Some(Vec::new()), identifiers)?;
        Some(Self { text: text.to_owned(), numbers, before })
    }

    /// Returns the version as it is written.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.text
    }
}

fn split(text: &str, at: char) -> (&str, Option<&str>) {
    text.split_once(at).map_or((text, None), |(left, right)| (left, Some(right)))
}

fn by_number(left: &str, right: &str) -> Ordering {
    left.len().cmp(&right.len()).then_with(|| left.cmp(right))
}

impl Ord for ToolVersion {
    fn cmp(&self, other: &Self) -> Ordering {
        let longest = self.numbers.len().max(other.numbers.len());
        let number =
            |version: &Self, index| version.numbers.get(index).cloned().unwrap_or_default();
        let numbers = (0..longest)
            .map(|index| by_number(&number(self, index), &number(other, index)))
            .find(|order| order.is_ne());
        if let Some(order) = numbers {
            return order;
        }
        match (self.before.is_empty(), other.before.is_empty()) {
            (true, true) => Ordering::Equal,
            (true, false) => Ordering::Greater,
            (false, true) => Ordering::Less,
            (false, false) => {
                let pairs = self.before.iter().zip(&other.before);
                let differs = pairs.map(|(left, right)| by_identifier(left, right));
                let differs = differs.into_iter().find(|order| order.is_ne());
                differs.unwrap_or_else(|| self.before.len().cmp(&other.before.len()))
            }
        }
    }
}

fn by_identifier(left: &str, right: &str) -> Ordering {
    let is_number = |text: &str| text.bytes().all(|b| b.is_ascii_digit());
    match (is_number(left), is_number(right)) {
        (true, true) => by_number(left.trim_start_matches('0'), right.trim_start_matches('0')),
        (true, false) => Ordering::Less,
        (false, true) => Ordering::Greater,
        (false, false) => left.cmp(right),
    }
}

impl PartialOrd for ToolVersion {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for ToolVersion {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for ToolVersion {}

impl fmt::Display for ToolVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl Serialize for ToolVersion {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_ordered_by_their_numbers() {
        let ordered = "0 0.9 1.0.0-alpha 1.0.0-alpha.1 1.0.0-alpha.beta 1.0.0-beta.2 1.0.0-beta.11 \
                       1.0.0-rc.1 1 1.0.1 v1.2 1.10 2.0+7 2.9 2.10 99999999999999999999999.1";
        let versions: Vec<ToolVersion> =
            ordered.split_whitespace().map(|text| ToolVersion::new(text).unwrap()).collect();
        for (left, pair) in versions.iter().enumerate() {
            for (right, other) in versions.iter().enumerate() {
                assert_eq!(pair.cmp(other), left.cmp(&right), "{pair} {other}");
            }
        }
        let same = |left, right| assert_eq!(ToolVersion::new(left), ToolVersion::new(right));
        same("2", "2.0.0");
        same("v02.1", "2.1.0+build");
    }

    #[test]
    fn what_is_no_version_is_refused() {
        for text in ["", "v", "latest", "1.", ".1", "1..2", "1.x", ">=1", "1.0-", "1 2", "1.0+"] {
            assert!(ToolVersion::new(text).is_none(), "{text}");
        }
    }
}
