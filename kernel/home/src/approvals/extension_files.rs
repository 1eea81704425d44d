//! The files of an extension, as approvals cover them.

use std::path::Path;

use sha2::{Digest as _, Sha256};
use skillhost_files::{TreeError, TreeFile, read_tree, to_hex};

/// Cargo writes it when a library is built by hand; a build does not read it.
const LOCK_FILE: &str = "Cargo.lock";

/// The manifest's file name.
pub const MANIFEST: &str = "manifest.yaml";

/// Reads an extension's files as [`read_tree`] does, except the `Cargo.lock` of a library.
///
/// # Errors
/// As [`read_tree`].
pub fn read_extension_files(dir: &Path) -> Result<Vec<TreeFile>, TreeError> {
    let mut files = read_tree(dir)?;
    let manifest = files.iter().find(|file| file.path == MANIFEST);
    let manifest = manifest.and_then(|file| std::str::from_utf8(&file.bytes).ok());
    let is_library = manifest
        .and_then(|text| skillhost_manifest::parse_manifest(text).ok())
        .is_some_and(|manifest| manifest.entrypoint().is_some());
    files.retain(|file| !(is_library && file.path == LOCK_FILE));
    Ok(files)
}

/// Computes the sha256 that the manifest of a process extension may pin: over path and content of
/// every file, except the line `sha256: …` of the manifest itself; hexadecimal.
#[must_use]
pub fn pin_digest(files: &[TreeFile]) -> String {
    let mut hasher = Sha256::new();
    hasher.update(b"skillhost files 1\n");
    for file in files {
        let bytes = match file.path.as_str() {
            MANIFEST => &strip_pin(&file.bytes),
            _ => &file.bytes,
        };
        hasher.update(file.path.as_bytes());
        hasher.update([0]);
        hasher.update((bytes.len() as u64).to_le_bytes());
        hasher.update(bytes);
    }
    to_hex(&hasher.finalize())
}

/// Returns a manifest's text without its pin, which is a line of its own.
fn strip_pin(text: &[u8]) -> Vec<u8> {
    text.split_inclusive(|byte| *byte == b'\n')
        .filter(|line| !is_pin_line(line))
        .flatten()
        .copied()
        .collect()
}

fn is_pin_line(line: &[u8]) -> bool {
    let Some(value) = line.strip_prefix(b"sha256:") else { return false };
    let value = value.trim_ascii();
    let quoted = |quote: &[u8]| value.strip_prefix(quote).and_then(|v| v.strip_suffix(quote));
    let value = quoted(b"\"").or_else(|| quoted(b"'")).unwrap_or(value);
    value.len() == 64 && value.iter().all(u8::is_ascii_hexdigit)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use skillhost_files::files_digest;

    use super::*;

    fn write(dir: &Path, name: &str, text: &str) {
        let path = dir.join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    fn sample() -> tempfile::TempDir {
        let dir = tempfile::tempdir().unwrap();
        write(dir.path(), "manifest.yaml", "id: a\nname: A\nentrypoint: a\n");
        write(dir.path(), "server.py", "print()\n");
        write(dir.path(), "lib/b.py", "");
        dir
    }

    fn digest(dir: &Path) -> String {
        files_digest(&read_extension_files(dir).unwrap())
    }

    fn pin(dir: &Path) -> String {
        pin_digest(&read_extension_files(dir).unwrap())
    }

    #[test]
    fn generated_files_are_not_digested() {
        let dir = sample();
        let before = digest(dir.path());
        for made in [
            "target/release/a",
            "lib/__pycache__/b.pyc",
            ".git/HEAD",
            "Cargo.lock",
            "lib/.b.py.7-0.tmp",
        ] {
            write(dir.path(), made, "made");
        }
        assert_eq!(digest(dir.path()), before);
        // The program of a process extension may read it.
        write(dir.path(), "manifest.yaml", "id: a\nname: A\nentrypoint: {command: [./a]}\n");
        let names: Vec<_> =
            read_extension_files(dir.path()).unwrap().into_iter().map(|file| file.path).collect();
        assert_eq!(names, ["Cargo.lock", "lib/b.py", "manifest.yaml", "server.py"]);
    }

    #[test]
    fn pin_digest_excludes_only_pin() {
        let dir = sample();
        let before = pin(dir.path());
        let sha = "0a".repeat(32);
        for line in
            [format!("sha256: {sha}"), format!("sha256:  \"{sha}\" "), format!("sha256: '{sha}'")]
        {
            let text = format!("id: a\n{line}\nname: A\nentrypoint: a\n");
            write(dir.path(), "manifest.yaml", &text);
            assert_eq!(pin(dir.path()), before, "{line}");
        }
        // A line with more than the pin is covered.
        for more in
            [format!("sha256: {sha}, entrypoint: {{command: [sh]}}"), "sha256: x".to_owned()]
        {
            write(dir.path(), "manifest.yaml", &format!("id: a\n{more}\nname: A\n"));
            assert_ne!(pin(dir.path()), before, "{more}");
        }
    }
}
