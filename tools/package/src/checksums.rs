//! Digests, and the file `SHA256SUMS`.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use sha2::{Digest as _, Sha256};

use crate::Result;
use crate::tree::PackageTree;

/// The name of the file with the digests of all packages.
pub const CHECKSUMS: &str = "SHA256SUMS";

/// Returns the SHA-256 digest of bytes in hexadecimal.
#[must_use]
pub fn sha256_hex(bytes: &[u8]) -> String {
    to_hex(&Sha256::digest(bytes))
}

/// Returns bytes in hexadecimal.
#[must_use]
pub fn to_hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        let _infallible = write!(text, "{byte:02x}");
        text
    })
}

/// Writes `SHA256SUMS` with all other files of a directory, in the format of `sha256sum`.
///
/// # Errors
/// A file cannot be read or written.
pub fn write_checksums(directory: &Path) -> Result<()> {
    let mut text = String::new();
    for (path, contents) in PackageTree::from_directory(directory)?.files() {
        if path != CHECKSUMS {
            writeln!(text, "{}  {path}", sha256_hex(contents))?;
        }
    }
    Ok(fs::write(directory.join(CHECKSUMS), text)?)
}

/// Compares the files of a directory with `SHA256SUMS` and returns their number.
///
/// # Errors
/// A file is missing, differs or is not listed, or a line is not valid.
pub fn verify_checksums(directory: &Path) -> Result<usize> {
    let text = fs::read_to_string(directory.join(CHECKSUMS))?;
    let tree = PackageTree::from_directory(directory)?;
    let mut listed = Vec::new();
    for line in text.lines() {
        let (digest, path) =
            line.split_once("  ").ok_or_else(|| format!("{CHECKSUMS}: {line}: not valid"))?;
        let contents = tree.contents(path).ok_or_else(|| format!("{path}: missing"))?;
        if sha256_hex(contents) != digest {
            return Err(format!("{path}: differs from {CHECKSUMS}").into());
        }
        listed.push(path);
    }
    let unlisted = tree.files().find(|(path, _)| *path != CHECKSUMS && !listed.contains(path));
    match unlisted {
        Some((path, _)) => Err(format!("{path}: not in {CHECKSUMS}").into()),
        None => Ok(listed.len()),
    }
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    #[test]
    fn checksums_detect_every_difference() {
        let directory = tempfile::tempdir().unwrap();
        let root = directory.path();
        fs::create_dir(root.join("image")).unwrap();
        fs::write(root.join("a.tar.zst"), "archive").unwrap();
        fs::write(root.join("image/index.json"), "{}").unwrap();
        write_checksums(root).unwrap();
        assert_eq!(verify_checksums(root).unwrap(), 2);
        if let Ok(status) =
            Command::new("sha256sum").args(["-c", "--strict", CHECKSUMS]).current_dir(root).output()
        {
            assert!(status.status.success(), "{}", String::from_utf8_lossy(&status.stderr));
        }
        let error = || verify_checksums(root).unwrap_err().to_string();
        fs::write(root.join("b"), "").unwrap();
        assert_eq!(error(), "b: not in SHA256SUMS");
        fs::remove_file(root.join("b")).unwrap();
        fs::write(root.join("image/index.json"), "{ }").unwrap();
        assert_eq!(error(), "image/index.json: differs from SHA256SUMS");
        fs::remove_file(root.join("image/index.json")).unwrap();
        assert_eq!(error(), "image/index.json: missing");
        fs::write(root.join(CHECKSUMS), "abc a").unwrap();
        assert_eq!(error(), "SHA256SUMS: abc a: not valid");
    }
}
