//! Patterns of paths, relative to the directory of a policy.

use globset::{GlobBuilder, GlobSet, GlobSetBuilder};

/// The maximum length of a pattern in bytes, which bounds its compiled form.
const MAX_PATTERN: usize = 500;

/// Patterns that select paths and everything below them; compiled once.
#[derive(Clone, Debug)]
pub(crate) struct PathPatterns {
    set: GlobSet,
    /// The directories that the patterns are about: their parts before the first wildcard.
    bases: Vec<String>,
}

impl PathPatterns {
    /// Compiles patterns.
    ///
    /// # Errors
    /// A pattern is not relative, too long, or not a valid glob; with its index and the reason.
    pub(crate) fn new<'a>(
        patterns: impl IntoIterator<Item = &'a str>,
    ) -> Result<Self, (usize, String)> {
        let mut set = GlobSetBuilder::new();
        let mut bases = Vec::new();
        for (index, pattern) in patterns.into_iter().enumerate() {
            let failed = |reason: String| (index, reason);
            let relative = pattern.strip_prefix("./").unwrap_or(pattern).trim_end_matches('/');
            if relative.is_empty() || relative.len() > MAX_PATTERN {
                return Err(failed(format!("a pattern has 1 to {MAX_PATTERN} bytes")));
            }
            if relative.starts_with('/') || relative.split('/').any(|part| part == "..") {
                return Err(failed(format!("`{pattern}` leads out of the directory")));
            }
            let glob = GlobBuilder::new(relative).literal_separator(true).build();
            set.add(glob.map_err(|error| failed(error.kind().to_string()))?);
            bases.push(literal_base(relative));
        }
        let set = set.build().map_err(|error| (0, error.kind().to_string()))?;
        Ok(Self { set, bases })
    }

    /// Returns `true` if a pattern selects a path or one of its directories.
    pub(crate) fn select(&self, path: &str) -> bool {
        let ends = path.match_indices('/').map(|(at, _)| at).chain([path.len()]);
        ends.into_iter().any(|end| self.set.is_match(&path[..end]))
    }

    /// Returns `true` if everything that the patterns select is below one of some directories; the
    /// empty path is the directory of the policy.
    pub(crate) fn lie_below(&self, directories: &[String]) -> bool {
        self.bases.iter().all(|base| directories.iter().any(|dir| is_below(base, dir)))
    }
}

/// Returns `true` if a path is a directory or below it.
pub(crate) fn is_below(path: &str, directory: &str) -> bool {
    directory.is_empty()
        || path.strip_prefix(directory).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// Returns the components of a pattern before the first one with a wildcard.
fn literal_base(pattern: &str) -> String {
    let is_literal = |part: &&str| !part.contains(['*', '?', '[', '{', '\\']);
    pattern.split('/').take_while(is_literal).collect::<Vec<_>>().join("/")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn directory_selects_everything_below() {
        let patterns = PathPatterns::new(["skills/old-*", "./vendor/", "**/draft"]).unwrap();
        for (path, selected) in [
            ("skills/old-beads/SKILL.md", true),
            ("skills/beads/SKILL.md", false),
            ("vendor/a/b/SKILL.md", true),
            ("other/vendor/SKILL.md", false),
            ("a/b/draft/SKILL.md", true),
            ("", false),
        ] {
            assert_eq!(patterns.select(path), selected, "{path}");
        }
    }

    #[test]
    fn star_stays_in_one_directory() {
        let patterns = PathPatterns::new(["skills/*/SKILL.md"]).unwrap();
        assert!(patterns.select("skills/a/SKILL.md"));
        assert!(!patterns.select("skills/a/b/SKILL.md"));
    }

    #[test]
    fn bases_decide_coverage() {
        let patterns = PathPatterns::new(["skills/old-*", "skills/b/c"]).unwrap();
        let below = |dirs: &[&str]| {
            patterns.lie_below(&dirs.iter().map(|dir| (*dir).to_owned()).collect::<Vec<_>>())
        };
        assert!(below(&[""]) && below(&["skills"]) && below(&["x", "skills"]));
        assert!(!below(&["skills/old-a"]) && !below(&["skill"]) && !below(&[]));
    }

    #[test]
    fn outside_and_invalid_patterns_fail() {
        for (pattern, reason) in [
            ("/a", "`/a` leads out"),
            ("a/../b", "`a/../b` leads out"),
            ("", "a pattern has 1 to"),
            ("a[", "unclosed character class"),
        ] {
            let (index, message) = PathPatterns::new(["ok", pattern]).unwrap_err();
            assert!(index == 1 && message.starts_with(reason), "{pattern}: {message}");
        }
    }
}
