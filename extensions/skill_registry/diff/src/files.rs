//! The splitting of diffs of several files.

use crate::names::{self, NOWHERE};
use crate::parse::{is_side, parse_hunk_header};

/// The part of a diff for one file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileDiff<'d> {
    /// The path without `a/` and `b/`; if both sides differ, that of the new one.
    pub path: String,
    /// The complete part, for [`apply_diff`](crate::apply_diff).
    pub text: &'d str,
}

/// Splits a diff by files, in order. A diff without names has no parts; one that names a file twice
/// has two parts, each based on the result of the one before.
///
/// The counts of a hunk's header decide whether a line `--- x` is a name or a deleted `-- x`.
#[must_use]
pub fn split_files(diff: &str) -> Vec<FileDiff<'_>> {
    let mut parts = FileSplitter { diff, starts: Vec::new(), due: (0, 0), is_open: false };
    let mut lines = diff.split_inclusive('\n').peekable();
    let mut at = 0;
    while let Some(line) = lines.next() {
        parts.read_line(at, trim_ending(line), lines.peek().map_or("", |next| trim_ending(next)));
        at += line.len();
    }
    parts.finish()
}

/// Returns a line without its ending.
fn trim_ending(line: &str) -> &str {
    line.trim_end_matches(['\n', '\r'])
}

struct FileSplitter<'d> {
    diff: &'d str,
    /// The start of each part and its two names.
    starts: Vec<(usize, FileNames)>,
    /// The numbers of lines still due in the hunk, of the old and the new text.
    due: (usize, usize),
    /// `true` if the last part has a first line, but not yet the names of its sides.
    is_open: bool,
}

/// The names of a file on both sides; `None` if a side has no name.
#[derive(Default)]
struct FileNames(Option<String>, Option<String>);

impl<'d> FileSplitter<'d> {
    fn read_line(&mut self, at: usize, line: &str, next: &str) {
        if let Some(both) = line.strip_prefix("diff --git ") {
            let (old, new) = names::parse_git_names(both).unzip();
            self.start_file(at, FileNames(old, new), true);
        } else if let Some(name) = marked_name(line) {
            self.start_file(at, FileNames(None, Some(name)), false);
        } else if self.due != (0, 0) {
            self.count_line(line);
        } else if is_side(line, "---") && is_side(next, "+++") {
            let [old, new] =
                [&line[3..], &next[3..]].map(|name| names::parse_name(name.trim_start()));
            let [old, new] = [old, new].map(|name| (name != NOWHERE).then_some(name));
            match self.starts.last_mut().filter(|_| self.is_open) {
                Some((_, names)) => (*names, self.is_open) = (FileNames(old, new), false),
                None => self.start_file(at, FileNames(old, new), false),
            }
        } else if line.starts_with("@@") {
            self.is_open = false;
            self.due = parse_hunk_header(line).map_or((0, 0), |numbers| (numbers.old, numbers.new));
        }
    }

    fn start_file(&mut self, at: usize, names: FileNames, is_open: bool) {
        self.starts.push((at, names));
        (self.due, self.is_open) = ((0, 0), is_open);
    }

    fn count_line(&mut self, line: &str) {
        let (old, new) = match line.as_bytes().first() {
            Some(b'-') => (1, 0),
            Some(b'+') => (0, 1),
            None | Some(b' ') => (1, 1),
            Some(b'\\') => (0, 0),
            // A line that cannot be part of a hunk ends it, even if its header counts more.
            Some(_) => self.due,
        };
        self.due = (self.due.0.saturating_sub(old), self.due.1.saturating_sub(new));
    }

    fn finish(self) -> Vec<FileDiff<'d>> {
        let ends = self.starts.iter().skip(1).map(|(at, _)| *at).chain([self.diff.len()]);
        let ends: Vec<usize> = ends.collect();
        let parts = self.starts.into_iter().zip(ends);
        let part = |((start, names), end): ((usize, FileNames), usize)| FileDiff {
            path: names.path(),
            text: &self.diff[start..end],
        };
        parts.map(part).collect()
    }
}

impl FileNames {
    fn path(self) -> String {
        let Self(old, new) = self;
        let strip = |name: &Option<String>, side| match name {
            None => Some(None),
            Some(name) => name.strip_prefix(side).map(|rest| Some(rest.to_owned())),
        };
        // `a/x` and `a/x` have no sides: then `a` is a directory.
        let (old, new) = match (strip(&old, "a/"), strip(&new, "b/")) {
            (Some(old), Some(new)) => (old, new),
            _ => (old, new),
        };
        let path = new.or(old).unwrap_or_default();
        path.strip_prefix("./").map_or(path.clone(), str::to_owned)
    }
}

/// Returns the name after a `*** ` mark of the other patch format.
fn marked_name(line: &str) -> Option<String> {
    let verbs = ["*** Update File: ", "*** Add File: ", "*** Delete File: "];
    verbs.iter().find_map(|verb| line.strip_prefix(verb)).map(names::parse_name)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn paths(diff: &str) -> Vec<String> {
        split_files(diff).into_iter().map(|part| part.path).collect()
    }

    #[test]
    fn split_restores_joined_diffs() {
        let texts = [("x.md", "a\n-- y\nb\n", "a\nc\n"), ("dir/z é", "", "new\n"), ("w", "1", "2")];
        let diffs = texts.map(|(path, old, new)| crate::unified_diff(old, new, path));
        let joined = diffs.concat();
        let expected: Vec<_> = texts
            .iter()
            .zip(&diffs)
            .map(|((path, ..), diff)| FileDiff { path: (*path).to_owned(), text: diff })
            .collect();
        assert_eq!(split_files(&joined), expected);
        for ((path, old, new), part) in texts.iter().zip(split_files(&joined)) {
            assert_eq!(crate::apply_diff(old, part.text, path).unwrap().text, **new);
        }
        assert_eq!(split_files(&joined.replace('\n', "\r\n")).len(), 3);
    }

    #[test]
    fn every_format_names_files() {
        let body = "@@ -1 +1 @@\n-a\n+b\n";
        let cases: [(String, &[&str]); 9] = [
            (format!("--- a/x\n+++ b/x\n{body}"), &["x"]),
            (format!("--- x\n+++ x\n{body}--- y\n+++ y\n{body}"), &["x", "y"]),
            (format!("--- a/x\n+++ a/x\n{body}"), &["a/x"]),
            (format!("--- /dev/null\n+++ b/x\n{body}"), &["x"]),
            ("--- a/x\n+++ /dev/null\n@@ -1 +0,0 @@\n-a\n".to_owned(), &["x"]),
            (format!("diff --git a/x b/x\nindex 1..2\n--- a/x\n+++ b/x\n{body}"), &["x"]),
            ("diff --git a/x b/y\nrename from x\nrename to y\n".to_owned(), &["y"]),
            (
                format!(
                    "*** Begin Patch\n*** Update File: x\n{body}*** Add File: y\n+a\n*** End Patch\n"
                ),
                &["x", "y"],
            ),
            (format!("Here it is:\n```diff\n--- ./x\n+++ ./x\n{body}```\n"), &["x"]),
        ];
        for (diff, expected) in cases {
            assert_eq!(paths(&diff), expected, "{diff}");
        }
        for diff in ["", "prose", body] {
            assert_eq!(split_files(diff), [], "{diff:?}");
        }
    }

    #[test]
    fn deleted_dashes_are_not_header() {
        let diff = "--- a/x\n+++ b/x\n@@ -1,2 +1,2 @@\n--- old\n+++ new\n a\n--- a/y\n+++ b/y\n\
                    @@ -1 +1 @@\n-a\n+b\n";
        assert_eq!(paths(diff), ["x", "y"]);
    }
}
