//! Homes that are none, and homes that cannot be written to.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;

use test_support::TestHome;

use crate::scene::{as_a_reader, home, timeless, untrusted_home};

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
    error: the working directory: No such file or directory (os error 2)
    hint: change to a directory that exists
    ");
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
    // The repository may lie where only its owner can read, so a stand-in is named.
    let sdk = home.outside().join("sdk");
    fs::create_dir(&sdk).unwrap();
    fs::write(sdk.join("Cargo.toml"), "").unwrap();
    let made = as_a_reader(&home, &["ext", "new", "mine", "--sdk", sdk.to_str().unwrap()]);
    insta::assert_snapshot!(made, @"
    exit 5
    --- stderr
    error: [HOME]/sandbox/extensions: Permission denied (os error 13)
    hint: check who may read and write there
    ");
    assert!(!home.path("sandbox/extensions").exists());
    let other = untrusted_home();
    fs::set_permissions(other.outside().join("state"), fs::Permissions::from_mode(0o555)).unwrap();
    insta::assert_snapshot!(as_a_reader(&other, &["trust"]), @"
    exit 5
    --- stderr
    error: [OUTSIDE]/state/skillhost/trusted-homes: Permission denied (os error 13)
    hint: check that it exists and may be read and written
    ");
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
    error: [OUTSIDE]/run/skillhost/[N].sock: Not a directory (os error 20)
    hint: a file stands where a directory has to be
    hint: XDG_RUNTIME_DIR has to name a directory of yours that may be written to
    ");
    // Everything else works.
    home.skillhost(["tool", "call", "echo", r#"{"text":"hi"}"#]).success();
}
