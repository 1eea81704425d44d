//! Parsing and comparison of tool versions.

use std::cmp::Ordering;
use std::fmt;

use serde::{Serialize, Serializer};

/// A version: numbers separated by periods, such as `2`, `2.40` or `v1.2.3-beta.1`.
///
/// Versions are ordered as in Semantic Versioning 2.0.0, for any number of components: `2` equals
/// `2.0.0`, `2.9` is older than `2.10`, and `1.0-beta` is older than `1.0`. Build metadata after a
/// `+` is ignored.
#[derive(Clone, Debug)]
pub struct ToolVersion {
    text: String,
    /// The numbers without leading zeros, so that numbers of any length compare as texts.
    numbers: Vec<String>,
    prerelease: Vec<String>,
}

impl ToolVersion {
    /// Parses a version, or returns `None` if the text is not valid.
    #[must_use]
    pub fn new(text: &str) -> Option<Self> {
        let bare = text.strip_prefix(['v', 'V']).unwrap_or(text);
        let (rest, build) = split_suffix(bare, '+');
        let (core, prerelease) = split_suffix(rest, '-');
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
        // Trailing zeros do not count, so that `2` equals `2.0.0`.
        while numbers.last().is_some_and(String::is_empty) {
            numbers.pop();
        }
        let prerelease = prerelease.map_or(Some(Vec::new()), identifiers)?;
        let _: Vec<String> = build.map_or(Some(Vec::new()), identifiers)?;
        Some(Self { text: text.to_owned(), numbers, prerelease })
    }

    /// Returns the version as written.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.text
    }
}

fn split_suffix(text: &str, at: char) -> (&str, Option<&str>) {
    text.split_once(at).map_or((text, None), |(left, right)| (left, Some(right)))
}

fn compare_numbers(left: &str, right: &str) -> Ordering {
    // Without leading zeros, a longer number is larger.
    left.len().cmp(&right.len()).then_with(|| left.cmp(right))
}

impl Ord for ToolVersion {
    fn cmp(&self, other: &Self) -> Ordering {
        let longest = self.numbers.len().max(other.numbers.len());
        let number =
            |version: &Self, index| version.numbers.get(index).cloned().unwrap_or_default();
        let numbers = (0..longest)
            .map(|index| compare_numbers(&number(self, index), &number(other, index)))
            .find(|order| order.is_ne());
        if let Some(order) = numbers {
            return order;
        }
        match (self.prerelease.is_empty(), other.prerelease.is_empty()) {
            (true, true) => Ordering::Equal,
            // A pre-release is older than its release.
            (true, false) => Ordering::Greater,
            (false, true) => Ordering::Less,
            (false, false) => {
                let pairs = self.prerelease.iter().zip(&other.prerelease);
                let differs = pairs.map(|(left, right)| compare_identifiers(left, right));
                let differs = differs.into_iter().find(|order| order.is_ne());
                differs.unwrap_or_else(|| self.prerelease.len().cmp(&other.prerelease.len()))
            }
        }
    }
}

fn compare_identifiers(left: &str, right: &str) -> Ordering {
    let is_number = |text: &str| text.bytes().all(|b| b.is_ascii_digit());
    match (is_number(left), is_number(right)) {
        (true, true) => {
            compare_numbers(left.trim_start_matches('0'), right.trim_start_matches('0'))
        }
        // Semantic Versioning orders numeric identifiers before others.
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
    fn versions_compare_by_number() {
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
    fn invalid_version_is_rejected() {
        for text in ["", "v", "latest", "1.", ".1", "1..2", "1.x", ">=1", "1.0-", "1 2", "1.0+"] {
            assert!(ToolVersion::new(text).is_none(), "{text}");
        }
    }
}
