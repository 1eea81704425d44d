//! Names of hosts, and patterns of them.

use std::fmt;

use serde::{Deserialize, Serialize};

/// A host name, or `*.` and a domain of at least two labels, in lower case.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct DomainPattern(String);

/// An entry of a domain list that is not a host name or pattern.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{text}` is not a host name: {reason}")]
pub struct InvalidDomain {
    /// The entry.
    pub text: String,
    /// The rule that it violates.
    pub reason: &'static str,
}

impl DomainPattern {
    /// Parses a pattern; a trailing dot is not part of the name.
    ///
    /// # Errors
    /// [`InvalidDomain`] for a scheme, port, path, address with a port or a wildcard that is too wide.
    pub fn parse(text: &str) -> Result<Self, InvalidDomain> {
        let invalid = |reason| InvalidDomain { text: text.to_owned(), reason };
        let name = text.trim_end_matches('.').to_ascii_lowercase();
        let rest = name.strip_prefix("*.");
        let host = rest.unwrap_or(&name);
        if host.is_empty() || host.len() > 253 {
            return Err(invalid("it is empty or too long"));
        }
        if text.contains("://") {
            return Err(invalid("remove the scheme"));
        }
        if text.contains(['/', ':', '@', '?', '#']) {
            return Err(invalid("remove the path, port or user"));
        }
        let is_label = |label: &str| {
            (1..=63).contains(&label.len())
                && label.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-' || b == b'_')
                && !label.starts_with('-')
                && !label.ends_with('-')
        };
        if !host.split('.').all(is_label) {
            return Err(invalid("labels have letters, digits and hyphens"));
        }
        if rest.is_some() && host.split('.').count() < 2 {
            return Err(invalid("`*.` requires a domain of two labels"));
        }
        Ok(Self(name))
    }

    /// Tests whether the pattern covers a host name. A wildcard does not cover the domain itself.
    #[must_use]
    pub fn matches(&self, host: &str) -> bool {
        let host = host.trim_end_matches('.').to_ascii_lowercase();
        match self.0.strip_prefix('*') {
            Some(suffix) => host.len() > suffix.len() && host.ends_with(suffix),
            None => host == self.0,
        }
    }

    /// Tests whether every host of another pattern is covered.
    #[must_use]
    pub fn covers(&self, other: &Self) -> bool {
        match (self.0.strip_prefix('*'), other.0.strip_prefix('*')) {
            (Some(suffix), Some(inner)) => inner.ends_with(suffix),
            (None, Some(_)) => false,
            (_, None) => self.matches(&other.0),
        }
    }

    /// Returns the text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl TryFrom<String> for DomainPattern {
    type Error = InvalidDomain;

    fn try_from(text: String) -> Result<Self, InvalidDomain> {
        Self::parse(&text)
    }
}

impl From<DomainPattern> for String {
    fn from(pattern: DomainPattern) -> Self {
        pattern.0
    }
}

impl fmt::Display for DomainPattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pattern(text: &str) -> DomainPattern {
        DomainPattern::parse(text).unwrap()
    }

    #[test]
    fn wildcard_covers_subdomains_only() {
        let wild = pattern("*.Example.org");
        assert!(wild.matches("a.b.example.ORG."));
        for other in ["example.org", "badexample.org", "example.org.evil.com"] {
            assert!(!wild.matches(other), "{other}");
        }
        assert!(wild.covers(&pattern("*.sub.example.org")) && wild.covers(&wild));
        assert!(!pattern("a.example.org").covers(&wild));
    }

    #[test]
    fn invalid_domains_are_rejected() {
        for bad in [
            "",
            "*",
            "*.com",
            "https://a.org",
            "a.org:80",
            "a.org/x",
            "a b",
            "[::1]",
            "a..b",
            "-a.org",
            "*.*.org",
            "u@a.org",
        ] {
            assert!(DomainPattern::parse(bad).is_err(), "{bad}");
        }
    }
}
