//! Both ends of the control socket make sure that the other one is the same user's.
//!
//! A message can hold a secret, and whoever connects is the operator. So the socket's directory has
//! to belong to this user and be closed to others, and the system is asked who the peer is.

use std::fs::{self, Permissions};
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, PermissionsExt as _};
use std::path::Path;

use tokio::net::UnixStream;

/// Connects to the kernel that listens on a socket.
///
/// # Errors
/// [`io::ErrorKind::NotFound`] or [`io::ErrorKind::ConnectionRefused`] when none runs;
/// [`io::ErrorKind::PermissionDenied`] when the directory or the listener is another user's.
pub(super) async fn connect(path: &Path) -> io::Result<UnixStream> {
    if let Some(folder) = path.parent() {
        check_folder(folder)?;
    }
    let stream = UnixStream::connect(path).await?;
    check_peer(&stream)?;
    Ok(stream)
}

/// Makes the directory of a socket, or makes sure that it is private.
///
/// # Errors
/// [`io::ErrorKind::PermissionDenied`] for a directory that is another user's, is a link, or that
/// others may write to; the system's errors.
pub(super) fn prepare_folder(folder: &Path) -> io::Result<()> {
    fs::DirBuilder::new().mode(0o700).recursive(true).create(folder)?;
    let found = fs::symlink_metadata(folder)?;
    // Others could look into it, but nobody can have put anything there.
    if found.is_dir() && is_own(&found) && found.mode() & 0o077 != 0 && found.mode() & 0o022 == 0 {
        fs::set_permissions(folder, Permissions::from_mode(0o700))?;
    }
    check_folder(folder)
}

/// Refuses the directory of a socket unless it is this user's alone.
fn check_folder(folder: &Path) -> io::Result<()> {
    let found = fs::symlink_metadata(folder)?;
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
    Err(refused(format!(
        "the directory of the socket, {}, {problem}; remove it, or set XDG_RUNTIME_DIR to a \
         directory of your own",
        folder.display()
    )))
}

/// Refuses a peer that is another user.
///
/// # Errors
/// [`io::ErrorKind::PermissionDenied`]; the system's error where it cannot tell.
pub(super) fn check_peer(stream: &UnixStream) -> io::Result<()> {
    check_uid(stream.peer_cred()?.uid())
}

fn check_uid(peer: u32) -> io::Result<()> {
    // The superuser can do everything anyway.
    if peer == own_uid() || peer == 0 {
        return Ok(());
    }
    Err(refused(format!("the process at the other end of the socket is of another user, {peer}")))
}

fn is_own(found: &fs::Metadata) -> bool {
    found.uid() == own_uid()
}

fn own_uid() -> u32 {
    rustix::process::geteuid().as_raw()
}

fn refused(message: String) -> io::Error {
    io::Error::new(io::ErrorKind::PermissionDenied, message)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{chown, symlink};

    use super::*;

    fn mode(path: &Path, mode: u32) {
        fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
    }

    #[test]
    fn socket_directory_is_made_private() {
        let temp = tempfile::tempdir().unwrap();
        let folder = temp.path().join("a/b");
        prepare_folder(&folder).unwrap();
        assert_eq!(fs::metadata(&folder).unwrap().mode() & 0o777, 0o700);
        mode(&folder, 0o755);
        prepare_folder(&folder).unwrap();
        assert_eq!(fs::metadata(&folder).unwrap().mode() & 0o777, 0o700);
    }

    #[tokio::test]
    async fn foreign_socket_directory_is_refused() {
        let temp = tempfile::tempdir().unwrap();
        let (open, link) = (temp.path().join("open"), temp.path().join("link"));
        for folder in ["open", "target"] {
            fs::create_dir(temp.path().join(folder)).unwrap();
        }
        mode(&open, 0o777);
        mode(&temp.path().join("target"), 0o700);
        symlink(temp.path().join("target"), &link).unwrap();
        let mut refused = vec![(open, "open to other users"), (link, "symbolic link")];
        if rustix::process::geteuid().is_root() {
            let foreign = temp.path().join("foreign");
            fs::create_dir(&foreign).unwrap();
            mode(&foreign, 0o700);
            chown(&foreign, Some(65_534), None).unwrap();
            refused.push((foreign, "belongs to another user"));
        }
        for (folder, message) in refused {
            let listener = tokio::net::UnixListener::bind(folder.join("s.sock")).unwrap();
            for error in [
                prepare_folder(&folder).unwrap_err(),
                connect(&folder.join("s.sock")).await.unwrap_err(),
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
