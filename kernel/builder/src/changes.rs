//! The changes of an extension since its last approval, for its review.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::fs;

use similar::TextDiff;
use skillhost_files::{LinkPolicy, TreeFile, read_limited, sha256_hex, write_private};
use skillhost_home::{ApprovalRecord, Approvals, library_file_name};
use skillhost_manifest::Manifest;
use skillhost_payload::format_rfc3339;

use crate::build_paths::{BuildPaths, create_private};
use crate::error::BuildError;

/// The maximum size of a text that is kept and compared, in bytes: that of all texts of a review.
const MAX_TEXT: u64 = 256 * 1024;
/// The number of unchanged lines around a change.
const CONTEXT: usize = 3;

/// Keeps the texts of an approval, so that the next review can show what has changed since. The
/// texts of `earlier`, the approval before it, stay for the review after a rollback; others are
/// removed. An error is logged only: no approval depends on these files.
pub(crate) fn keep_approved_texts(
    place: &BuildPaths,
    earlier: Option<&ApprovalRecord>,
    files: &[TreeFile],
) {
    if let Err(error) = replace_approved_texts(place, earlier, files) {
        let id = &place.id;
        tracing::warn!(%error, "the next review of `{id}` cannot show what has changed");
    }
}

fn replace_approved_texts(
    place: &BuildPaths,
    earlier: Option<&ApprovalRecord>,
    files: &[TreeFile],
) -> Result<(), BuildError> {
    let directory = place.approved_texts();
    create_private(&directory)?;
    let earlier = earlier.into_iter().flat_map(|record| &record.files);
    let mut kept: BTreeSet<String> = earlier.map(|file| file.sha256.clone()).collect();
    for file in files.iter().filter(|file| as_text(&file.bytes).is_some()) {
        let name = sha256_hex(&file.bytes);
        let path = directory.join(&name);
        write_private(&path, &file.bytes).map_err(BuildError::io(&path))?;
        kept.insert(name);
    }
    for entry in fs::read_dir(&directory).map_err(BuildError::io(&directory))?.flatten() {
        if !entry.file_name().to_str().is_some_and(|name| kept.contains(name)) {
            fs::remove_file(entry.path()).map_err(BuildError::io(&entry.path()))?;
        }
    }
    Ok(())
}

/// Describes what has changed since the approval in force, file by file, and shows the changed lines
/// of texts; `None` if nothing is approved.
///
/// # Errors
/// [`BuildError`] for approvals that cannot be read.
pub(crate) fn describe_changes(
    place: &BuildPaths,
    manifest: &Manifest,
    files: &[TreeFile],
) -> Result<Option<String>, BuildError> {
    let approvals = Approvals::load(&place.home)?;
    let Some(record) = approvals.approval(&place.id) else { return Ok(None) };
    // The library and the lock file are made from the other files.
    let library = manifest.entrypoint().map(library_file_name);
    let is_source = |path: &str| match &library {
        Some(library) => path != library && path != "Cargo.lock",
        None => true,
    };
    let before: BTreeMap<_, _> = record
        .files
        .iter()
        .filter(|file| is_source(&file.path))
        .map(|file| (file.path.as_str(), file.sha256.as_str()))
        .collect();
    let now: BTreeMap<_, _> = files
        .iter()
        .filter(|file| is_source(&file.path))
        .map(|file| (file.path.as_str(), file.bytes.as_slice()))
        .collect();
    let (mut list, mut differences) = (String::new(), String::new());
    let paths: BTreeSet<_> = before.keys().chain(now.keys()).copied().collect();
    for path in paths {
        let line = match (before.get(path), now.get(path)) {
            (None, _) => format!("new {path}"),
            (Some(_), None) => format!("removed {path}"),
            (Some(was), Some(is)) if sha256_hex(is) == **was => continue,
            (Some(was), Some(is)) => match compare_texts(place, was, is) {
                Some(difference) => {
                    push_difference(&mut differences, path, &difference);
                    format!("changed {path}")
                }
                None => format!("changed {path} (the approved text is not kept)"),
            },
        };
        push_line(&mut list, &format!("  {line}"));
    }
    let at = format_rfc3339(i64::try_from(record.at_ms).unwrap_or(i64::MAX));
    let approval = format!("the approval of {at} by {}", record.approved_by);
    Ok(Some(match list.is_empty() {
        true => format!("unchanged since {approval}\n"),
        false => format!("changed since {approval}:\n{list}{differences}"),
    }))
}

/// Returns the changed lines of a text; `None` if the approved text is not there or was altered.
fn compare_texts(place: &BuildPaths, approved: &str, now: &[u8]) -> Option<String> {
    let path = place.approved_texts().join(approved);
    let bytes = read_limited(&path, MAX_TEXT, LinkPolicy::Refuse).ok()?;
    if sha256_hex(&bytes) != approved {
        return None;
    }
    let (before, now) = (as_text(&bytes)?, as_text(now)?);
    let difference = TextDiff::from_lines(before, now);
    Some(difference.unified_diff().context_radius(CONTEXT).to_string())
}

/// Appends the changed lines of a file. They are indented, so that none passes for a heading.
fn push_difference(text: &mut String, path: &str, difference: &str) {
    push_line(text, &format!("--- {path}: changed lines"));
    for line in difference.lines() {
        push_line(text, &format!("    {line}"));
    }
}

fn push_line(text: &mut String, line: &str) {
    // Writing to a string cannot fail.
    let _ = writeln!(text, "{line}");
}

/// Returns a text that a review can show.
fn as_text(bytes: &[u8]) -> Option<&str> {
    if bytes.len() as u64 > MAX_TEXT {
        return None;
    }
    std::str::from_utf8(bytes).ok().filter(|text| !text.contains('\0'))
}

#[cfg(test)]
mod tests {
    use skillhost_home::{ApprovalSurface, Approver, Home, HomeSource};
    use skillhost_manifest::parse_manifest;

    use super::*;

    const MANIFEST: &str = "id: tea\nname: Tea\nentrypoint: {command: [./tea]}\n";

    struct Extension {
        _home: tempfile::TempDir,
        place: BuildPaths,
        manifest: Manifest,
    }

    impl Extension {
        fn new() -> Self {
            let home = tempfile::tempdir().unwrap();
            fs::create_dir(home.path().join("sandbox")).unwrap();
            let place =
                BuildPaths::new(&Home::open(home.path(), HomeSource::Argument).unwrap(), "tea");
            Self { _home: home, place, manifest: parse_manifest(MANIFEST).unwrap() }
        }

        fn approve(&self, files: &[TreeFile]) {
            let approver = Approver::operator(ApprovalSurface::Terminal);
            let earlier = Approvals::load(&self.place.home).unwrap();
            let mut record = ApprovalRecord::approve(&self.manifest, files, None, &approver);
            record.at_ms = 1_000;
            Approvals::append(&self.place.home, &record).unwrap();
            keep_approved_texts(&self.place, earlier.approval("tea"), files);
        }

        fn changes(&self, files: &[TreeFile]) -> Option<String> {
            describe_changes(&self.place, &self.manifest, files).unwrap()
        }

        fn count_texts(&self) -> usize {
            fs::read_dir(self.place.approved_texts()).unwrap().count()
        }
    }

    fn files(contents: &[(&str, &str)]) -> Vec<TreeFile> {
        let file = |(path, text): &(&str, &str)| TreeFile {
            path: (*path).to_owned(),
            bytes: text.as_bytes().to_vec(),
            executable: false,
        };
        contents.iter().map(file).collect()
    }

    #[test]
    fn changes_are_shown_by_line() {
        let tea = Extension::new();
        let first = files(&[("manifest.yaml", MANIFEST), ("a.py", "one\ntwo\n"), ("b.py", "b\n")]);
        assert_eq!(tea.changes(&first), None);
        tea.approve(&first);
        let by = "the approval of 1970-01-01T00:00:01.000Z by operator";
        assert_eq!(tea.changes(&first).unwrap(), format!("unchanged since {by}\n"));
        let second =
            files(&[("manifest.yaml", MANIFEST), ("a.py", "one\nthree\n"), ("c.py", "c\n")]);
        assert_eq!(
            tea.changes(&second).unwrap(),
            format!(
                "changed since {by}:\n  changed a.py\n  removed b.py\n  new c.py\n\
                 --- a.py: changed lines\n    @@ -1,2 +1,2 @@\n     one\n    -two\n    +three\n"
            )
        );
    }

    #[test]
    fn altered_approved_text_is_not_compared() {
        let tea = Extension::new();
        let first = files(&[("manifest.yaml", MANIFEST), ("a.py", "one\n")]);
        tea.approve(&first);
        let kept = tea.place.approved_texts().join(sha256_hex(b"one\n"));
        fs::write(kept, "other\n").unwrap();
        let second = files(&[("manifest.yaml", MANIFEST), ("a.py", "two\n")]);
        let changes = tea.changes(&second).unwrap();
        assert!(changes.ends_with("  changed a.py (the approved text is not kept)\n"), "{changes}");
    }

    #[test]
    fn texts_of_two_approvals_are_kept() {
        let tea = Extension::new();
        for text in ["one\n", "two\n", "three\n"] {
            tea.approve(&files(&[("manifest.yaml", MANIFEST), ("a.py", text)]));
        }
        assert_eq!(tea.count_texts(), 3);
        let back = files(&[("manifest.yaml", MANIFEST), ("a.py", "two\n")]);
        assert!(tea.changes(&back).unwrap().contains("    -three\n    +two\n"));
    }
}
