//! Tests of directories that are not homes, and of homes that are not writable.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;

use test_support::TestHome;

use crate::fixtures::{bind_time_filters, home, run_as_reader, untrusted_home};

#[test]
fn directory_without_sandbox_is_rejected() {
    let home = TestHome::new();
    fs::create_dir(home.outside().join("plain")).unwrap();
    let plain = home.outside().join("plain");
    let run = |args: &[&str]| home.start(home.command().current_dir(&plain).args(args)).finish();
    insta::assert_snapshot!(run(&["ext", "list"]), @"
    exit 3
    --- stderr
    error: home not found: neither --home nor SKILLHOST_HOME is set, and no directory here or above has a sandbox/
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
    {"error":{"hints":["create one: skillhost init DIR"],"kind":"not_found","message":"home not found: neither --home nor SKILLHOST_HOME is set, and no directory here or above has a sandbox/"},"schema_version":1}
    "#);
    fs::write(plain.join("sandbox"), "a file").unwrap();
    run(&["--home", ".", "run"]).exits(3);
}

#[test]
fn deleted_working_directory_is_reported() {
    let home = home();
    let deleted = home.outside().join("gone");
    fs::create_dir(&deleted).unwrap();
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
fn read_only_home_still_works() {
    let home = home();
    let call = run_as_reader(&home, &["tool", "call", "echo", r#"{"text":"hi"}"#]);
    assert_eq!(call.success().stdout, "hi\n");
    run_as_reader(&home, &["skill", "list"]).success();
    run_as_reader(&home, &["ext", "doctor"]).success();
    assert!(!home.path("sandbox/data").exists());
}

#[test]
fn denied_write_leaves_no_files() {
    let home = home();
    // The repository may be unreadable for other users, so the test names its own SDK directory.
    let sdk = home.outside().join("sdk");
    fs::create_dir(&sdk).unwrap();
    fs::write(sdk.join("Cargo.toml"), "").unwrap();
    let made = run_as_reader(&home, &["ext", "new", "mine", "--sdk", sdk.to_str().unwrap()]);
    insta::assert_snapshot!(made, @"
    exit 5
    --- stderr
    error: [HOME]/sandbox/extensions: Permission denied (os error 13)
    hint: check who may read and write there
    ");
    assert!(!home.path("sandbox/extensions").exists());
    let other = untrusted_home();
    fs::set_permissions(other.outside().join("state"), fs::Permissions::from_mode(0o555)).unwrap();
    insta::assert_snapshot!(run_as_reader(&other, &["trust"]), @"
    exit 5
    --- stderr
    error: [OUTSIDE]/state/skillhost/trusted-homes: Permission denied (os error 13)
    hint: check that it exists and may be read and written
    ");
}

#[test]
fn failed_write_reports_path() {
    // Root ignores permissions, but not a file in place of a directory.
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
fn run_requires_socket_directory() {
    let _filters = bind_time_filters();
    let home = home();
    fs::remove_dir(home.outside().join("run")).unwrap();
    fs::write(home.outside().join("run"), "").unwrap();
    insta::assert_snapshot!(home.skillhost(["run"]), @"
    exit 5
    --- stderr
    error: [OUTSIDE]/run/skillhost/[N].sock: Not a directory (os error 20)
    hint: move the file away: a directory is required there
    hint: XDG_RUNTIME_DIR has to name a directory of yours that may be written to
    ");
    // Commands without a socket still work.
    home.skillhost(["tool", "call", "echo", r#"{"text":"hi"}"#]).success();
}
