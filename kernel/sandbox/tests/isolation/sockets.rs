//! Sockets of other programs in directories that a run can read.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};

use skillhost_policy::IsolationLevel;

use crate::fixture::{PYTHON, Victims, words};

/// Connects to each argument and prints its file name if that succeeds.
const CONNECT: &str = "import os, socket, sys
for path in sys.argv[1:]:
    try:
        socket.socket(socket.AF_UNIX).connect(path)
        print(os.path.basename(path))
    except OSError:
        pass
own = socket.socket(socket.AF_UNIX)
own.bind('/tmp/own')
own.listen()
socket.socket(socket.AF_UNIX).connect('/tmp/own')
print('own')
";

fn connect(victims: &Victims, read: &[PathBuf], listed: &Path, sockets: &[PathBuf]) -> String {
    let mut policy = victims.policy();
    policy.filesystem.allow_read.extend_from_slice(read);
    policy.network.allow_unix_sockets.push(listed.to_owned());
    let mut command = words(&[PYTHON, "-c", CONNECT]);
    command.extend(sockets.iter().map(|path| path.display().to_string()));
    let exit = victims.run(&command, policy, IsolationLevel::Namespaces).unwrap();
    let output = String::from_utf8_lossy(&exit.stdout);
    assert!(output.ends_with("own\n"), "{exit:?} {}", String::from_utf8_lossy(&exit.stderr));
    output.into_owned()
}

#[test]
fn sockets_of_other_programs_are_unreachable() {
    let victims = Victims::create();
    let directory = victims.path("daemon/run");
    fs::create_dir_all(&directory).unwrap();
    fs::write(directory.join("readable"), "").unwrap();
    // The kernel names neither this path after it was moved nor the link to it.
    let moved = directory.join("moved");
    let paths = [
        directory.join("bound"),
        directory.join("before"),
        directory.join("listed"),
        victims.path("work/mine"),
    ];
    let _listeners = paths.each_ref().map(|path| UnixListener::bind(path).unwrap());
    fs::rename(directory.join("before"), &moved).unwrap();
    std::os::unix::fs::symlink("bound", directory.join("link")).unwrap();
    let all = [paths.to_vec(), vec![moved, directory.join("link")]].concat();
    let listed = directory.join("listed");
    let found = connect(&victims, std::slice::from_ref(&directory), &listed, &all);
    assert_eq!(found, "listed\nown\n");
}

#[test]
fn root_views_machine_as_nobody() {
    if !rustix::process::getuid().is_root() {
        return;
    }
    let victims = Victims::create();
    let secret = tempfile::tempdir_in("/var/tmp").unwrap();
    fs::write(secret.path().join("secret"), "").unwrap();
    fs::set_permissions(secret.path(), PermissionsExt::from_mode(0o700)).unwrap();
    let mut policy = victims.policy();
    policy.filesystem.allow_read.push("/".into());
    let path = secret.path().display();
    let script = format!("ls -d /etc/passwd /proc/self/status; ls {path} 2>/dev/null; true");
    let command = words(&["/bin/sh", "-c", &script]);
    let exit = victims.run(&command, policy, IsolationLevel::Namespaces).unwrap();
    let seen = String::from_utf8(exit.stdout.clone()).unwrap();
    assert_eq!(seen, "/etc/passwd\n/proc/self/status\n", "{exit:?}");
}

/// A directory of root is closed to `nobody`, so that a user has this test.
#[test]
fn view_of_machine_has_no_sockets_of_services() {
    if rustix::process::getuid().is_root() {
        return;
    }
    let victims = Victims::create();
    let outside = tempfile::tempdir_in("/var/tmp").unwrap();
    let [far, listed] = ["far", "listed"].map(|name| outside.path().join(name));
    let _listeners = [&far, &listed].map(|path| UnixListener::bind(path).unwrap());
    let found = connect(&victims, &["/".into()], &listed, &[far, listed.clone()]);
    assert_eq!(found, "listed\nown\n");
    let mut policy = victims.policy();
    policy.filesystem.allow_read.push("/".into());
    let command = words(&["/usr/bin/find", "/run/", "-type", "s"]);
    let exit = victims.run(&command, policy, IsolationLevel::Namespaces).unwrap();
    assert_eq!((exit.end.exit_code, &*exit.stdout), (Some(0), &b""[..]), "{exit:?}");
}
