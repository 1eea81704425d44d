//! The directories that a scan does not enter.

use globset::{Glob, GlobBuilder, GlobSet, GlobSetBuilder};
use skillhost_files::temporary::is_temporary;

use crate::error::StoreError;

/// Directories that never hold skills of their own.
const ALWAYS: [&str; 2] = [".git", "node_modules"];

/// The compiled ignore patterns.
#[derive(Debug)]
pub(crate) struct IgnorePatterns(GlobSet);

impl IgnorePatterns {
    /// Compiles patterns. One without a slash applies at every depth.
    pub(crate) fn new(patterns: &[String]) -> Result<Self, StoreError> {
        let fail = |pattern: &str, error: &globset::Error| StoreError::Ignore {
            pattern: pattern.to_owned(),
            reason: error.kind().to_string(),
        };
        let mut set = GlobSetBuilder::new();
        for pattern in patterns {
            set.add(compile(pattern).map_err(|error| fail(pattern, &error))?);
        }
        set.build().map(Self).map_err(|error| fail(&patterns.join(", "), &error))
    }

    /// Returns whether the directory `name`, whose path below its root is `rel`, is ignored.
    pub(crate) fn matches(&self, name: &str, rel: &str) -> bool {
        ALWAYS.contains(&name) || is_temporary(name) || (!self.0.is_empty() && self.0.is_match(rel))
    }
}

fn compile(pattern: &str) -> Result<Glob, globset::Error> {
    let trimmed = pattern.trim_start_matches("./").trim_end_matches('/');
    let anywhere = if trimmed.contains('/') {
        trimmed.trim_start_matches('/').to_owned()
    } else {
        format!("**/{trimmed}")
    };
    GlobBuilder::new(&anywhere).literal_separator(true).build()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_apply_to_names_or_to_paths() {
        let patterns = ["draft-*", "vendor/*/old/", "/top/only"].map(str::to_owned);
        let ignore = IgnorePatterns::new(&patterns).unwrap();
        let matched = |rel: &str| ignore.matches(rel.rsplit('/').next().unwrap(), rel);
        for rel in [
            "draft-1",
            "a/b/draft-x",
            "vendor/a/old",
            "top/only",
            "x/.git",
            "node_modules",
            "a/.skillhost-tmp-1-0",
        ] {
            assert!(matched(rel), "{rel}");
        }
        for rel in ["drafts", "vendor/a/b/old", "a/vendor/b/old", "a/top/only", "git"] {
            assert!(!matched(rel), "{rel}");
        }
    }

    #[test]
    fn bad_pattern_is_named() {
        let error = IgnorePatterns::new(&["ok".to_owned(), "a[".to_owned()]).unwrap_err();
        assert!(error.to_string().starts_with("ignore pattern `a[`: "), "{error}");
    }
}
