//! Secrets and denied paths that are symbolic links.

use std::fs;
use std::os::unix::fs::symlink;

use skillhost_policy::IsolationLevel;
use skillhost_sandbox::SandboxError;

use crate::fixture::{Victims, words};

/// Creates a home whose secrets are links, as with managed configuration files.
fn linked_secrets() -> Victims {
    let victims = Victims::create();
    for (path, text) in [
        ("user/dotfiles/ssh/id_rsa", "KEY"),
        ("user/conf/env", "TOKEN"),
        ("user/private/note", "NOTE"),
        ("user/plain", "plain"),
    ] {
        fs::create_dir_all(victims.path(path).parent().unwrap()).unwrap();
        fs::write(victims.path(path), text).unwrap();
    }
    symlink("dotfiles/ssh", victims.path("user/.ssh")).unwrap();
    symlink(victims.path("user/conf/env"), victims.path("user/.env")).unwrap();
    symlink("private", victims.path("user/hidden")).unwrap();
    victims
}

#[test]
fn linked_secrets_are_hidden_by_every_path() {
    let victims = linked_secrets();
    let mut policy = victims.policy();
    policy.filesystem.allow_read.push(victims.path("user"));
    policy.filesystem.deny_read.push(victims.path("user/hidden"));
    let script = format!(
        "cd {}; cat plain .ssh/id_rsa dotfiles/ssh/id_rsa .env conf/env hidden/note private/note; \
         ls hidden private dotfiles/ssh",
        victims.path("user").display()
    );
    let command = words(&["/bin/sh", "-c", &script]);
    let exit = victims.run(&command, policy, IsolationLevel::Namespaces).unwrap();
    assert_eq!(String::from_utf8_lossy(&exit.stdout), "plain", "{exit:?}");
}

#[test]
fn linked_secrets_are_refused_at_landlock() {
    let victims = linked_secrets();
    // Only the target of the denied link is inside of an allowed directory.
    let mut policy = victims.policy();
    policy.filesystem.allow_read.push(victims.path("user/dotfiles"));
    policy.filesystem.deny_read.push(victims.path("user/.ssh"));
    let command = words(&["/bin/sh", "-c", "echo ran"]);
    match victims.run(&command, policy, IsolationLevel::Landlock) {
        Err(SandboxError::Refused(refusal)) => {
            assert!(refusal.to_string().contains("dotfiles/ssh is inside of"), "{refusal}");
            assert!(!refusal.hint.is_empty());
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn replaceable_denied_link_is_refused() {
    let victims = linked_secrets();
    symlink("input.txt", victims.path("work/fixed")).unwrap();
    for level in [IsolationLevel::Namespaces, IsolationLevel::Landlock] {
        let mut policy = victims.policy();
        policy.filesystem.deny_write.push(victims.path("work/fixed"));
        let error = victims.run(&words(&["/bin/true"]), policy, level).unwrap_err();
        assert!(error.to_string().contains("could replace this symbolic link"), "{error}");
    }
}
