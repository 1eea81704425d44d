//! What people are shown before they agree to a build.

use std::fmt::Write as _;

use skillhost_kernel::PlannedFile;
use skillhost_manifest::{Kind, Manifest};

use crate::files::sha256;
use crate::messages::cut;
use crate::policy::Recipe;

/// Bytes of the files' text that are shown.
const TEXT: usize = 64 * 1024;

/// Writes what would be built, and every file. Lines of files are indented, so that none passes for
/// a heading.
pub(crate) fn write(manifest: &Manifest, files: &[PlannedFile], recipe: Option<&Recipe>) -> String {
    let mut text = String::new();
    let bytes: usize = files.iter().map(|file| file.bytes.len()).sum();
    let what = match &manifest.kind {
        Kind::Process { command } => {
            format!("a program, started as {command:?}; it runs as you do, as a process of its own")
        }
        Kind::Library { .. } | Kind::Agent(_) => {
            "a Rust library; it runs inside of this program and may do whatever the program may"
                .to_owned()
        }
    };
    // Writing to a string cannot fail.
    let _ = writeln!(text, "sandbox/extensions/{}: {what}", manifest.id);
    if let Some(recipe) = recipe {
        let mut names = vec!["skillhost-sdk".to_owned()];
        let others = recipe.dependencies.iter();
        names.extend(others.map(|other| format!("{} {}", other.name, other.version)));
        let _ = writeln!(text, "depends on: {}", names.join(", "));
    }
    if !manifest.secrets.is_empty() {
        let _ = writeln!(text, "may ask for the secrets: {}", manifest.secrets.join(", "));
    }
    let _ = writeln!(text, "{} files, {bytes} bytes:", files.len());
    for file in files {
        let _ = writeln!(text, "  {:>8}  {}", file.bytes.len(), file.path);
    }
    let mut room = TEXT;
    for file in files {
        let PlannedFile { path, bytes, .. } = file;
        let _ = writeln!(text, "--- {path}");
        match std::str::from_utf8(bytes) {
            Ok(content) => {
                let shown = if content.len() > room { cut(content, room) } else { content.into() };
                for line in shown.lines() {
                    let _ = writeln!(text, "    {line}");
                }
                if content.len() > room {
                    let more = content.len() - room;
                    let _ = writeln!(
                        text,
                        "--- {path}: {more} more bytes are not shown, sha256 {}",
                        sha256(bytes)
                    );
                }
                room = room.saturating_sub(content.len());
            }
            Err(_) => {
                let _ = writeln!(text, "--- {path}: not text, sha256 {}", sha256(bytes));
            }
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(path: &str, bytes: &[u8]) -> PlannedFile {
        PlannedFile { path: path.to_owned(), bytes: bytes.to_vec(), executable: false }
    }

    #[test]
    fn every_file_is_named_and_what_is_not_shown_is_said() {
        let manifest =
            skillhost_manifest::parse("id: tea\nname: Tea\nentrypoint: tea\nsecrets: [KEY]\n");
        let files = [
            file("a.bin", &[0xff, 0]),
            file("b.rs", "--- c.rs\n\u{1b}[2Jx".as_bytes()),
            file("c.txt", "ü".repeat(40_000).as_bytes()),
        ];
        let text = write(&manifest.unwrap(), &files, None);
        let lines: Vec<_> = text.lines().collect();
        assert_eq!(
            lines[..10],
            [
                "sandbox/extensions/tea: a Rust library; it runs inside of this program and may do \
                 whatever the program may",
                "may ask for the secrets: KEY",
                "3 files, 80016 bytes:",
                "         2  a.bin",
                "        14  b.rs",
                "     80000  c.txt",
                "--- a.bin",
                &format!("--- a.bin: not text, sha256 {}", sha256(&[0xff, 0])),
                "--- b.rs",
                "    --- c.rs",
            ]
        );
        let more = 80_000 - (TEXT - 14);
        let last = format!("--- c.txt: {more} more bytes are not shown, sha256 ");
        assert!(lines.last().unwrap().starts_with(&last), "{}", lines.last().unwrap());
        assert!(text.len() < TEXT + 1024, "{}", text.len());
    }
}
