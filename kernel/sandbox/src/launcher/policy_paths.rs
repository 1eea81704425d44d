//! The paths of a request, opened without following links.

use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, FileType, Mode, OFlags, ResolveFlags, fstat, openat, openat2};
use rustix::io::Errno;

use super::error::SetupError;
use crate::isolation::RefusalKind;
use crate::protocol::LaunchRequest;

/// The readable paths of the system that every interpreter needs.
const SYSTEM_PATHS: [&str; 16] = [
    "/usr",
    "/bin",
    "/sbin",
    "/lib",
    "/lib32",
    "/lib64",
    "/etc/ssl",
    "/etc/ca-certificates",
    "/etc/pki",
    "/etc/fonts",
    "/etc/alternatives",
    "/etc/ld.so.cache",
    "/etc/ld.so.conf",
    "/etc/ld.so.conf.d",
    "/etc/localtime",
    "/etc/mime.types",
];

/// The devices that a program may use.
pub(super) const DEVICES: [&str; 5] =
    ["/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom"];

/// Files of the host that describe the machine and no process.
pub(super) const MACHINE_FILES: [&str; 8] = [
    "/proc/cpuinfo",
    "/proc/meminfo",
    "/proc/stat",
    "/proc/loadavg",
    "/proc/uptime",
    "/proc/version",
    "/proc/filesystems",
    "/sys/devices/system/cpu",
];

/// The user who owns nothing.
pub(super) const NOBODY: u32 = 65534;

/// The readable paths of the system that exist.
pub(super) fn system_paths() -> impl Iterator<Item = &'static Path> {
    SYSTEM_PATHS.iter().map(Path::new).filter(|path| path.symlink_metadata().is_ok())
}

/// Opens a path of the policy as a place, without following links.
pub(super) fn open_path(path: &Path) -> io::Result<OwnedFd> {
    let flags = OFlags::PATH | OFlags::CLOEXEC;
    match openat2(CWD, path, flags, Mode::empty(), ResolveFlags::NO_SYMLINKS) {
        // Inside of another sandbox the call does not exist.
        Err(Errno::NOSYS) => open_components(path),
        place => Ok(place?),
    }
}

/// Opens a path one component after another.
fn open_components(path: &Path) -> io::Result<OwnedFd> {
    let flags = OFlags::PATH | OFlags::CLOEXEC | OFlags::NOFOLLOW;
    let mut place = openat(CWD, "/", flags, Mode::empty())?;
    for component in path.components().skip(1) {
        place = openat(&place, component.as_os_str(), flags, Mode::empty())?;
        // A link was opened itself.
        if FileType::from_raw_mode(fstat(&place)?.st_mode) == FileType::Symlink {
            return Err(Errno::LOOP.into());
        }
    }
    Ok(place)
}

/// Checks the paths of a request, and denies the secrets in its directories.
///
/// # Errors
/// A path that is not absolute, does not exist or contains a link; a denied path that the program
/// needs or that a run could replace.
pub(super) fn prepare_paths(request: &mut LaunchRequest) -> Result<(), SetupError> {
    let files = &mut request.policy.filesystem;
    let allowed: Vec<PathBuf> =
        files.allow_read.iter().chain(&files.allow_write).cloned().collect();
    for path in allowed.iter().chain([&request.cwd]) {
        check_path(path)?;
    }
    for path in &request.policy.network.allow_unix_sockets {
        check_path(path)?;
        // Another file would become writable.
        if !path.symlink_metadata().is_ok_and(|meta| meta.file_type().is_socket()) {
            return Err(path_error(path, "it is not a socket"));
        }
    }
    for path in files.deny_read.iter().chain(&files.deny_write) {
        if !path.is_absolute() {
            return Err(path_error(path, "it is not absolute"));
        }
    }
    Ok(())
}

fn check_path(path: &Path) -> Result<(), SetupError> {
    if !path.is_absolute() {
        return Err(path_error(path, "it is not absolute"));
    }
    match open_path(path) {
        Ok(_) => Ok(()),
        Err(error) if error.raw_os_error() == Some(libc::ELOOP) => {
            Err(path_error(path, "it contains a symbolic link"))
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            Err(path_error(path, "it does not exist"))
        }
        Err(error) => Err(path_error(path, &error.to_string())),
    }
}

pub(super) fn path_error(path: &Path, reason: &str) -> SetupError {
    SetupError::new(RefusalKind::Policy, "paths", format!("{}: {reason}", path.display()))
}

/// Tests whether the user `nobody` can reach a path, and write it if necessary. Access control
/// lists are not considered, so that the answer may be `false` for an accessible path.
pub(super) fn nobody_can_use(path: &Path, write: bool) -> bool {
    let mode = |path: &Path| {
        path.metadata().map_or(0, |meta| {
            // As owner or group, `nobody` has other bits than everybody else.
            if meta.uid() == NOBODY { meta.mode() >> 6 } else { meta.mode() }
        })
    };
    let wanted = match (path.is_dir(), write) {
        (true, true) => 0o7,
        (true, false) => 0o5,
        (false, true) => 0o6,
        (false, false) => 0o4,
    };
    mode(path) & wanted == wanted && path.ancestors().skip(1).all(|above| mode(above) & 0o1 != 0)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn links_are_not_followed_by_either_way() {
        let base = tempfile::tempdir().unwrap();
        fs::create_dir(base.path().join("real")).unwrap();
        std::os::unix::fs::symlink("real", base.path().join("link")).unwrap();
        fs::write(base.path().join("real/file"), "").unwrap();
        for (name, opens) in [("real/file", true), ("link/file", false), ("link", false)] {
            let path = base.path().join(name);
            assert_eq!(open_path(&path).is_ok(), opens, "{name}");
            assert_eq!(open_components(&path).is_ok(), opens, "{name}");
        }
    }
}
