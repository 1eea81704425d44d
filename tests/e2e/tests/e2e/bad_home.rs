//! Homes that are none, and homes that cannot be written to.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::process::CommandExt as _;

use test_support::{Output, TestHome, binary, library};

use crate::scene::{home, repository, timeless, untrusted_home};

#[test]
fn a_directory_without_a_sandbox_is_no_home() {
    let home = TestHome::new();
    fs::create_dir(home.outside().join("plain")).unwrap();
    let plain = home.outside().join("plain");
    let run = |args: &[&str]| home.start(home.command().current_dir(&plain).args(args)).finish();
    insta::assert_snapshot!(run(&["ext", "list"]), @"
    exit 3
    --- stderr
    error: no home: neither --home nor SKILLHOST_HOME is given, and no folder here or above has a sandbox/
    hint: create one: skillhost init DIR
    ");
    insta::assert_snapshot!(run(&["--home", ".", "ext", "list"]), @"
    exit 3
    --- stderr
    error: [OUTSIDE]/plain: not a home, it has no sandbox/ directory
    hint: make it one: skillhost init [OUTSIDE]/plain
    ");
    insta::assert_snapshot!(run(&["--home", "nowhere", "skill", "list"]), @"
    exit 3
    --- stderr
    error: [OUTSIDE]/plain/nowhere: no such directory
    hint: make it one: skillhost init [OUTSIDE]/plain/nowhere
    ");
    insta::assert_snapshot!(run(&["config", "--json"]), @r#"
    exit 3
    --- stderr
    {"error":{"hints":["create one: skillhost init DIR"],"kind":"not_found","message":"no home: neither --home nor SKILLHOST_HOME is given, and no folder here or above has a sandbox/"},"schema_version":1}
    "#);
    fs::write(plain.join("sandbox"), "a file").unwrap();
    run(&["--home", ".", "run"]).exits(3);
}

#[test]
fn the_working_directory_may_be_gone() {
    let home = home();
    let gone = home.outside().join("gone");
    fs::create_dir(&gone).unwrap();
    let script = "cd ../gone && rmdir ../gone && exec \"$0\" skill list";
    let mut shell = home.command_of(std::path::Path::new("/bin/sh"));
    shell.arg("-c").arg(script).arg(test_support::binary());
    insta::assert_snapshot!(home.start(&mut shell).finish(), @"
    exit 5
    --- stderr
    error: No such file or directory (os error 2)
    ");
}

/// Runs a command as somebody who may read the home and write nothing in it.
fn as_a_reader(home: &TestHome, args: &[&str]) -> Output {
    // The target folder may be closed to others, so what is run is put beside the home.
    let bin = home.outside().join("bin");
    fs::create_dir_all(&bin).unwrap();
    for built in [binary(), library("echo"), library("skill_registry")] {
        let link = bin.join(built.file_name().unwrap());
        if !link.exists() && fs::hard_link(&built, &link).is_err() {
            fs::copy(&built, &link).unwrap();
        }
    }
    let mode = |mode| {
        for folder in ["", "home", "home/sandbox", "home/sandbox/skills", "home/manifests"] {
            let path = home.outside().join(folder);
            fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
        }
    };
    mode(0o555);
    let mut command = home.command_of(&bin.join("skillhost"));
    if rustix::process::geteuid().is_root() {
        // Permissions do not bind root, so it is somebody else: by custom the id of nobody.
        command.uid(65_534).gid(65_534);
    }
    let output = home.start(command.args(args)).finish();
    mode(0o755);
    output
}

#[test]
fn a_home_that_cannot_be_written_to_still_answers() {
    let home = home();
    let call = as_a_reader(&home, &["tool", "call", "echo", r#"{"text":"hi"}"#]);
    assert_eq!(call.success().stdout, "hi\n");
    as_a_reader(&home, &["skill", "list"]).success();
    as_a_reader(&home, &["ext", "doctor"]).success();
    assert!(!home.path("sandbox/data").exists());
}

#[test]
fn what_may_not_be_written_is_said_and_nothing_is_left_half_done() {
    let home = home();
    let sdk = repository().join("kernel/sdk");
    let made = as_a_reader(&home, &["ext", "new", "mine", "--sdk", sdk.to_str().unwrap()]);
    insta::assert_snapshot!(made, @"");
    assert!(!home.path("sandbox/extensions").exists());
    let other = untrusted_home();
    fs::set_permissions(other.outside().join("state"), fs::Permissions::from_mode(0o555)).unwrap();
    insta::assert_snapshot!(as_a_reader(&other, &["trust"]), @"");
}

#[test]
fn what_cannot_be_written_is_said_with_its_path() {
    // A file where a folder has to be made refuses root, too.
    let home = untrusted_home();
    fs::remove_dir(home.outside().join("state")).unwrap();
    fs::write(home.outside().join("state"), "").unwrap();
    insta::assert_snapshot!(home.skillhost(["trust"]), @"
    exit 5
    --- stderr
    error: [OUTSIDE]/state/skillhost/trusted-homes: Not a directory (os error 20)
    hint: check that it exists and may be read and written
    ");
    insta::assert_snapshot!(home.skillhost(["ext", "list"]), @"
    exit 5
    --- stderr
    error: [OUTSIDE]/state/skillhost/trusted-homes: Not a directory (os error 20)
    hint: check that it exists and may be read and written
    ");
}

#[test]
fn without_a_place_for_the_socket_it_does_not_run() {
    let _timeless = timeless();
    let home = home();
    fs::remove_dir(home.outside().join("run")).unwrap();
    fs::write(home.outside().join("run"), "").unwrap();
    insta::assert_snapshot!(home.skillhost(["run"]), @"
    exit 5
    --- stderr
    error: [OUTSIDE]/run/skillhost/bcb7609cd9ebdb04.sock: Not a directory (os error 20)
    ");
    // Everything else works.
    home.skillhost(["tool", "call", "echo", r#"{"text":"hi"}"#]).success();
}
