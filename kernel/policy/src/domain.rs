//! Names of hosts, and patterns of them.

use std::fmt;
use std::net::{IpAddr, Ipv6Addr};

use serde::{Deserialize, Serialize};

/// A host name, an address, or `*.` and a domain of at least two labels, in lower case.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct DomainPattern(String);

/// An entry of a domain list that is not a host name or pattern.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{text}` is not a host name: {reason}")]
pub struct DomainError {
    /// The entry.
    pub text: String,
    /// The rule that it violates.
    pub reason: &'static str,
}

impl DomainPattern {
    /// Parses a pattern; a trailing dot is not part of the name.
    ///
    /// # Errors
    /// [`DomainError`] for a scheme, port, path, address with a port or a wildcard that is too wide.
    pub fn parse(text: &str) -> Result<Self, DomainError> {
        let invalid = |reason| DomainError { text: text.to_owned(), reason };
        if let Ok(address) = text.parse::<Ipv6Addr>() {
            // One form of an address, and that of IPv4 for the same host.
            return Ok(Self(address.to_canonical().to_string()));
        }
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
        // Programs read such names as addresses: `0x7f.1` is this machine.
        if is_numeric(host) && (rest.is_some() || host.parse::<IpAddr>().is_err()) {
            return Err(invalid("an address has four decimal parts and no `*`"));
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
    type Error = DomainError;

    fn try_from(text: String) -> Result<Self, DomainError> {
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

/// Tests whether the last label of a name is a number, so that the name is one, too.
fn is_numeric(host: &str) -> bool {
    let last = host.rsplit('.').next().unwrap_or_default();
    let hexadecimal = last.strip_prefix("0x");
    match hexadecimal {
        Some(digits) => digits.bytes().all(|byte| byte.is_ascii_hexdigit()),
        None => last.bytes().all(|byte| byte.is_ascii_digit()),
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
    fn addresses_have_one_form() {
        assert_eq!(pattern("0:0::1").as_str(), "::1");
        assert_eq!(pattern("::ffff:10.0.0.1"), pattern("10.0.0.1"));
        assert!(pattern("127.0.0.1").matches("127.0.0.1"));
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
            "127.1",
            "0x7f.1",
            "2130706433",
            "0177.0.0.1",
            "a.0xff",
            "*.0.0.1",
            "*.168.1.1",
            "fe80::1%eth0",
            "[::1]:80",
        ] {
            assert!(DomainPattern::parse(bad).is_err(), "{bad}");
        }
    }
}
