//! Paths with the semantics of Python's pathlib.

use std::ffi::OsStr;
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::{Path, PathBuf};

/// Returns the path without empty and `.` components; two slashes at the start stay two.
fn normal(path: &Path) -> PathBuf {
    let bytes = path.as_os_str().as_bytes();
    let slashes = bytes.iter().take_while(|&&byte| byte == b'/').count();
    let mut out = b"/".repeat(if slashes == 2 { 2 } else { slashes.min(1) });
    let parts = bytes.split(|&byte| byte == b'/');
    let parts: Vec<&[u8]> = parts.filter(|part| !part.is_empty() && *part != b".").collect();
    out.extend(parts.join(&b'/'));
    if out.is_empty() {
        out.push(b'.');
    }
    PathBuf::from(std::ffi::OsString::from_vec(out))
}

/// Returns the directory of a skill: the parent of its SKILL.md, else the path itself.
pub(super) fn skill_directory(path: &Path) -> PathBuf {
    let path = normal(path);
    let is_skill_file =
        path.file_name().is_some_and(|name| name.to_string_lossy().to_lowercase() == "skill.md")
            && std::fs::metadata(&path).is_ok_and(|metadata| metadata.is_file());
    match path.parent() {
        Some(parent) if is_skill_file => normal(parent),
        _ => path,
    }
}

/// Returns the last component; empty for `.` and the root, `..` for `..`.
pub(super) fn name(path: &Path) -> String {
    let text = path.as_os_str().to_string_lossy();
    match text.rsplit('/').next() {
        Some(".") | None => String::new(),
        Some(name) => name.to_owned(),
    }
}

/// Returns the path as text in Python's notation.
pub(super) fn as_python_writes_it(path: impl AsRef<OsStr>) -> String {
    path.as_ref().to_string_lossy().into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_match_pathlib() {
        for (given, text, last) in [
            ("a", "a", "a"),
            ("./a/", "a", "a"),
            ("a//b/./c", "a/b/c", "c"),
            ("a/..", "a/..", ".."),
            ("..", "..", ".."),
            (".", ".", ""),
            ("./", ".", ""),
            ("", ".", ""),
            ("/", "/", ""),
            ("//a", "//a", "a"),
            ("///a", "/a", "a"),
        ] {
            let path = normal(Path::new(given));
            assert_eq!((path.to_str(), &*name(&path)), (Some(text), last), "{given}");
        }
    }
}
