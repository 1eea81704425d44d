//! The checks by which both ends of the control socket ensure that the peer is the same user.
//!
//! A message can hold a secret, and every connection acts as the operator. So the socket's
//! directory must belong to this user and be closed to others, and the system reports the peer's
//! user id.

use std::fs::{self, Permissions};
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, PermissionsExt as _};
use std::path::Path;

use tokio::net::UnixStream;

/// Connects to the kernel that listens on a socket.
///
/// # Errors
/// [`io::ErrorKind::NotFound`] or [`io::ErrorKind::ConnectionRefused`] when none runs;
/// [`io::ErrorKind::PermissionDenied`] when the directory or the listener belongs to another user.
pub(crate) async fn connect_socket(path: &Path) -> io::Result<UnixStream> {
    if let Some(directory) = path.parent() {
        check_directory(directory)?;
    }
    let stream = UnixStream::connect(path).await?;
    check_peer(&stream)?;
    Ok(stream)
}

/// Creates the directory of a socket, or checks that it is private.
///
/// # Errors
/// [`io::ErrorKind::PermissionDenied`] for a directory that belongs to another user, is a link, or
/// is writable by others; the system's errors.
pub fn prepare_directory(directory: &Path) -> io::Result<()> {
    fs::DirBuilder::new().mode(0o700).recursive(true).create(directory)?;
    // The link itself is checked: its target could change after the check.
    let found = fs::symlink_metadata(directory)?;
    // Others could read it, but not write: every file in it is this user's.
    if found.is_dir() && is_own(&found) && found.mode() & 0o077 != 0 && found.mode() & 0o022 == 0 {
        fs::set_permissions(directory, Permissions::from_mode(0o700))?;
    }
    check_directory(directory)
}

/// Checks that the directory of a socket belongs to this user alone.
fn check_directory(directory: &Path) -> io::Result<()> {
    let found = fs::symlink_metadata(directory)?;
    let problem = if found.is_symlink() {
        "is a symbolic link"
    } else if !found.is_dir() {
        "is not a directory"
    } else if !is_own(&found) {
        "belongs to another user"
    } else if found.mode() & 0o077 != 0 {
        "is open to other users"
    } else {
        return Ok(());
    };
    Err(permission_denied(format!(
        "socket directory {} {problem}; remove it, or set XDG_RUNTIME_DIR to a \
         directory of your own",
        directory.display()
    )))
}

/// Checks that the peer is this user.
///
/// # Errors
/// [`io::ErrorKind::PermissionDenied`]; the system's error if the peer is unknown.
pub fn check_peer(stream: &UnixStream) -> io::Result<()> {
    check_uid(stream.peer_cred()?.uid())
}

fn check_uid(peer: u32) -> io::Result<()> {
    // The superuser can do everything anyway.
    if peer == own_uid() || peer == 0 {
        return Ok(());
    }
    Err(permission_denied(format!("socket peer belongs to another user, {peer}")))
}

fn is_own(found: &fs::Metadata) -> bool {
    found.uid() == own_uid()
}

fn own_uid() -> u32 {
    rustix::process::geteuid().as_raw()
}

fn permission_denied(message: String) -> io::Error {
    io::Error::new(io::ErrorKind::PermissionDenied, message)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{chown, symlink};

    use super::*;

    fn set_mode(path: &Path, mode: u32) {
        fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
    }

    #[test]
    fn socket_directory_is_made_private() {
        let temp = tempfile::tempdir().unwrap();
        let directory = temp.path().join("a/b");
        prepare_directory(&directory).unwrap();
        assert_eq!(fs::metadata(&directory).unwrap().mode() & 0o777, 0o700);
        set_mode(&directory, 0o755);
        prepare_directory(&directory).unwrap();
        assert_eq!(fs::metadata(&directory).unwrap().mode() & 0o777, 0o700);
    }

    #[tokio::test]
    async fn foreign_socket_directory_is_rejected() {
        let temp = tempfile::tempdir().unwrap();
        let (open, link) = (temp.path().join("open"), temp.path().join("link"));
        for directory in ["open", "target"] {
            fs::create_dir(temp.path().join(directory)).unwrap();
        }
        set_mode(&open, 0o777);
        set_mode(&temp.path().join("target"), 0o700);
        symlink(temp.path().join("target"), &link).unwrap();
        let mut cases = vec![(open, "open to other users"), (link, "symbolic link")];
        if rustix::process::geteuid().is_root() {
            let foreign = temp.path().join("foreign");
            fs::create_dir(&foreign).unwrap();
            set_mode(&foreign, 0o700);
            chown(&foreign, Some(65_534), None).unwrap();
            cases.push((foreign, "belongs to another user"));
        }
        for (directory, message) in cases {
            let listener = tokio::net::UnixListener::bind(directory.join("s.sock")).unwrap();
            for error in [
                prepare_directory(&directory).unwrap_err(),
                connect_socket(&directory.join("s.sock")).await.unwrap_err(),
            ] {
                assert_eq!(error.kind(), io::ErrorKind::PermissionDenied);
                assert!(error.to_string().contains(message), "{error}");
            }
            drop(listener);
        }
    }

    #[tokio::test]
    async fn own_peer_is_accepted() {
        let (one, other) = UnixStream::pair().unwrap();
        check_peer(&one).unwrap();
        check_peer(&other).unwrap();
        assert!(check_uid(own_uid() + 1).is_err());
    }
}
