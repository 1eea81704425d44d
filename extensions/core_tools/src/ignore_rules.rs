//! The ignore files that apply to a directory, read through the jail.
//!
//! As in ripgrep, `.ignore` takes precedence over `.gitignore`, which counts in repositories only,
//! and a deeper file over a higher one. The user's global excludes are not read.

use std::io::Read as _;
use std::sync::Arc;

use cap_std::fs::Dir;
use ignore::Match;
use ignore::gitignore::{Gitignore, GitignoreBuilder};
use skillhost_files::jail;

use crate::roots::REPOSITORY;

/// The names of ignore files.
pub(crate) const IGNORE: &str = ".ignore";
pub(crate) const GITIGNORE: &str = ".gitignore";

/// The largest ignore file that counts, in bytes.
const MAX_IGNORE_FILE: u64 = 1 << 20;

/// The largest number of lines that count.
const MAX_LINES: usize = 20_000;

/// The rules for the entries of a directory.
#[derive(Clone, Default)]
pub(crate) struct IgnoreRules {
    own: Option<Arc<RuleLink>>,
    git: Option<Arc<RuleLink>>,
    in_repository: bool,
}

/// The rules of one ignore file, and those of the directories above.
struct RuleLink {
    matcher: Gitignore,
    /// The length of the path of its directory, with the slash.
    base: usize,
    above: Option<Arc<Self>>,
}

/// The ignore files that a directory has.
#[derive(Clone, Copy, Default)]
pub(crate) struct IgnoreFiles {
    pub(crate) ignore: bool,
    pub(crate) gitignore: bool,
    pub(crate) repository: bool,
}

impl IgnoreFiles {
    /// Records an entry of the directory.
    pub(crate) fn record(&mut self, name: &str) {
        match name {
            IGNORE => self.ignore = true,
            GITIGNORE => self.gitignore = true,
            REPOSITORY => self.repository = true,
            _ => {}
        }
    }

    /// Looks for the files in a directory that is not listed.
    pub(crate) fn find(dir: &Dir) -> Self {
        let exists = |name: &str| dir.symlink_metadata(name).is_ok();
        Self {
            ignore: exists(IGNORE),
            gitignore: exists(GITIGNORE),
            repository: exists(REPOSITORY),
        }
    }
}

impl IgnoreRules {
    /// Returns the rules for the entries of a directory: these, and those of its own files. `base`
    /// is the path of the directory, empty or with a slash at the end.
    pub(crate) fn enter(&self, dir: &Dir, base: &str, files: IgnoreFiles) -> Self {
        let mut rules = self.clone();
        if files.repository {
            // The rules of an enclosing repository do not apply to an inner one.
            rules.git = None;
            rules.in_repository = true;
            if let Ok(inner) = jail::open_component(dir, REPOSITORY)
                && let Ok(info) = jail::open_component(&inner, "info")
            {
                rules.git = read_rules(&info, "exclude", base, rules.git);
            }
        }
        if files.gitignore && rules.in_repository {
            rules.git = read_rules(dir, GITIGNORE, base, rules.git);
        }
        if files.ignore {
            rules.own = read_rules(dir, IGNORE, base, rules.own);
        }
        rules
    }

    /// Returns whether an entry is ignored, or explicitly not ignored; `None` without a rule.
    pub(crate) fn is_ignored(&self, path: &str, is_dir: bool) -> Option<bool> {
        find_rule(self.own.as_ref(), path, is_dir)
            .or_else(|| find_rule(self.git.as_ref(), path, is_dir))
    }
}

fn find_rule(mut link: Option<&Arc<RuleLink>>, path: &str, is_dir: bool) -> Option<bool> {
    while let Some(rules) = link {
        match rules.matcher.matched(&path[rules.base..], is_dir) {
            Match::Ignore(_) => return Some(true),
            Match::Whitelist(_) => return Some(false),
            Match::None => link = rules.above.as_ref(),
        }
    }
    None
}

/// Reads an ignore file; one that cannot be read has no rules.
fn read_rules(
    dir: &Dir,
    name: &str,
    base: &str,
    above: Option<Arc<RuleLink>>,
) -> Option<Arc<RuleLink>> {
    let mut text = Vec::new();
    let read = jail::open_regular(dir, name)
        .is_ok_and(|(file, _)| file.take(MAX_IGNORE_FILE).read_to_end(&mut text).is_ok());
    if !read {
        return above;
    }
    let mut builder = GitignoreBuilder::new("");
    for line in String::from_utf8_lossy(&text).lines().take(MAX_LINES) {
        // A malformed line has no effect, as in git.
        let _ = builder.add_line(None, line);
    }
    match builder.build() {
        Ok(matcher) if !matcher.is_empty() => {
            Some(Arc::new(RuleLink { matcher, base: base.len(), above }))
        }
        _ => above,
    }
}
