//! Diffs of several files, taken apart.

use crate::names::{self, NOWHERE};
use crate::parse::{is_side, parse_hunk_header};

/// The part of a diff that is about one file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileDiff<'d> {
    /// The file, without the `a/` and `b/` of the two sides; where they differ, the new one's name.
    pub path: String,
    /// Everything the diff says of it, for [`apply`](crate::apply).
    pub text: &'d str,
}

/// Takes a diff apart by files, in its order. A diff that names no file has none; one that names a
/// file twice has two parts, each for what the one before made of it.
///
/// The counts of a hunk's header decide whether a line `--- x` is a name or a deleted `-- x`.
#[must_use]
pub fn split_files(diff: &str) -> Vec<FileDiff<'_>> {
    let mut parts = FileSplitter { diff, starts: Vec::new(), due: (0, 0), is_open: false };
    let mut lines = diff.split_inclusive('\n').peekable();
    let mut at = 0;
    while let Some(line) = lines.next() {
        parts.line(at, bare(line), lines.peek().map_or("", |next| bare(next)));
        at += line.len();
    }
    parts.finish()
}

/// A line without its end.
fn bare(line: &str) -> &str {
    line.trim_end_matches(['\n', '\r'])
}

struct FileSplitter<'d> {
    diff: &'d str,
    /// Where parts begin, and the two names of each.
    starts: Vec<(usize, FileNames)>,
    /// The lines a hunk has still to have, of the old and the new text.
    due: (usize, usize),
    /// The last part has a first line and not yet the names of its sides.
    is_open: bool,
}

/// What the two sides call a file; nothing where a side has none.
#[derive(Default)]
struct FileNames(Option<String>, Option<String>);

impl<'d> FileSplitter<'d> {
    fn line(&mut self, at: usize, line: &str, next: &str) {
        if let Some(both) = line.strip_prefix("diff --git ") {
            let (old, new) = names::read_both(both).unzip();
            self.start_file(at, FileNames(old, new), true);
        } else if let Some(name) = marked(line) {
            self.start_file(at, FileNames(None, Some(name)), false);
        } else if self.due != (0, 0) {
            self.count(line);
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

    fn count(&mut self, line: &str) {
        let (old, new) = match line.as_bytes().first() {
            Some(b'-') => (1, 0),
            Some(b'+') => (0, 1),
            None | Some(b' ') => (1, 1),
            Some(b'\\') => (0, 0),
            // What cannot be a line of a hunk ends it, whatever its header says.
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
        let (old, new) = match (strip(&old, "a/"), strip(&new, "b/")) {
            (Some(old), Some(new)) => (old, new),
            _ => (old, new),
        };
        let path = new.or(old).unwrap_or_default();
        path.strip_prefix("./").map_or(path.clone(), str::to_owned)
    }
}

/// Reads the name after a mark of the other form of patches.
fn marked(line: &str) -> Option<String> {
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
    fn parts_are_what_was_joined() {
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
    fn names_come_from_every_form() {
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
    fn a_line_that_looks_like_a_name_is_counted() {
        let diff = "--- a/x\n+++ b/x\n@@ -1,2 +1,2 @@\n--- old\n+++ new\n a\n--- a/y\n+++ b/y\n\
                    @@ -1 +1 @@\n-a\n+b\n";
        assert_eq!(paths(diff), ["x", "y"]);
    }
}
