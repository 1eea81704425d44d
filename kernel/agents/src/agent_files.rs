//! The files of an agent's directory, read through a jail.
//!
//! Only regular files of the directory itself are read: links are not followed, pipes are not
//! waited for, and files above a size limit are rejected.

use std::io::{self, Read as _};
use std::path::Path;

use cap_fs_ext::{DirExt as _, FollowSymlinks, OpenOptionsFollowExt as _, OpenOptionsSyncExt as _};
use cap_std::ambient_authority;
use cap_std::fs::{Dir, OpenOptions};

/// The largest file that is read, in bytes.
const FILE_LIMIT: u64 = 1024 * 1024;

/// Reads a text file of a directory. `name` may contain directories separated by `/`. Returns
/// `None` if no entry has the name.
///
/// # Errors
/// Every entry that is not a readable text: links, special files, files above the limit, other
/// names.
pub(crate) fn read_agent_file(dir: &Path, name: &str) -> io::Result<Option<String>> {
    match read_text(dir, name) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        text => text.map(Some),
    }
}

fn read_text(dir: &Path, name: &str) -> io::Result<String> {
    let invalid = |message: &str| Err(io::Error::new(io::ErrorKind::InvalidInput, message));
    let (dirs, file) = name.rsplit_once('/').unwrap_or(("", name));
    let is_plain = |part: &str| {
        !part.is_empty() && !part.starts_with('.') && !part.contains(['\\', ':', '\0'])
    };
    if !name.split('/').all(is_plain) {
        return invalid("not a plain path below the agent's directory");
    }
    let mut dir = Dir::open_ambient_dir(dir, ambient_authority())?;
    for part in dirs.split('/').filter(|part| !part.is_empty()) {
        // The explicit check gives links an error of their own; the open below is safe without it.
        if dir.symlink_metadata(part)?.is_symlink() {
            return invalid("it passes through a symbolic link");
        }
        dir = dir.open_dir_nofollow(part)?;
    }
    if dir.symlink_metadata(file)?.is_symlink() {
        return invalid("it is a symbolic link, not a regular file");
    }
    let mut options = OpenOptions::new();
    options.read(true).follow(FollowSymlinks::No).nonblock(true);
    let file = dir.open_with(file, &options)?;
    if !file.metadata()?.is_file() {
        return invalid("it is not a regular file");
    }
    let mut bytes = Vec::new();
    // One byte more than the limit shows that the file is longer.
    file.take(FILE_LIMIT + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > FILE_LIMIT {
        return invalid("it is longer than 1 MiB");
    }
    String::from_utf8(bytes).or_else(|_| invalid("it is not UTF-8 text"))
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn only_regular_files_are_read() {
        let home = tempfile::tempdir().unwrap();
        let at = |path: &str| home.path().join(path);
        fs::write(at("secret"), "secret").unwrap();
        fs::create_dir_all(at("agent/parts")).unwrap();
        fs::write(at("agent/prompt.jinja2"), "prompt").unwrap();
        fs::write(at("agent/parts/a.jinja2"), "part").unwrap();
        fs::write(at("agent/long"), "x".repeat(FILE_LIMIT as usize + 1)).unwrap();
        fs::write(at("agent/binary"), b"\xff\xfe").unwrap();
        symlink("../secret", at("agent/link")).unwrap();
        symlink("nowhere", at("agent/dangling")).unwrap();
        symlink("..", at("agent/up")).unwrap();
        let fifo = rustix::fs::FileType::Fifo;
        let mode = rustix::fs::Mode::RUSR;
        rustix::fs::mknodat(rustix::fs::CWD, at("agent/pipe"), fifo, mode, 0).unwrap();
        let read = |name| read_agent_file(&at("agent"), name).map_err(|error| error.to_string());
        assert_eq!(read("prompt.jinja2"), Ok(Some("prompt".to_owned())));
        assert_eq!(read("parts/a.jinja2"), Ok(Some("part".to_owned())));
        assert_eq!(read("none"), Ok(None));
        for (name, why) in [
            ("link", "it is a symbolic link, not a regular file"),
            ("dangling", "it is a symbolic link, not a regular file"),
            ("up/secret", "it passes through a symbolic link"),
            ("../secret", "not a plain path below the agent's directory"),
            ("/etc/passwd", "not a plain path below the agent's directory"),
            ("parts//a.jinja2", "not a plain path below the agent's directory"),
            (".hidden", "not a plain path below the agent's directory"),
            ("pipe", "it is not a regular file"),
            ("parts", "it is not a regular file"),
            ("long", "it is longer than 1 MiB"),
            ("binary", "it is not UTF-8 text"),
        ] {
            assert_eq!(read(name), Err(why.to_owned()), "{name}");
        }
    }
}
