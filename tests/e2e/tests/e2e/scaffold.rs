//! `skillhost ext new`, built and used as its author would.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use test_support::{TestHome, profile_dir};

use crate::scene::{home, repository, running};

/// Builds a scaffold offline with the versions of the repository, and returns its library.
///
/// The dependencies are built once: their folder stays below the target folder.
fn build(crate_dir: &Path) -> PathBuf {
    let target = profile_dir().join("../e2e-scaffold");
    let output = Command::new(env!("CARGO"))
        .args(["build", "--offline", "--quiet", "--manifest-path"])
        .arg(crate_dir.join("Cargo.toml"))
        .env("CARGO_TARGET_DIR", &target)
        .env("CARGO_PROFILE_DEV_DEBUG", "false")
        .env("CARGO_INCREMENTAL", "0")
        .output()
        .expect("cargo starts");
    let messages = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{messages}");
    assert_eq!(messages, "", "a scaffold builds without warnings");
    target.join("debug/libtea_time.so")
}

fn call(home: &TestHome, arguments: &str) -> test_support::Output {
    home.skillhost(["tool", "call", "tea_time_greet", arguments])
}

#[test]
fn a_scaffold_builds_loads_answers_and_reloads() {
    let home = home();
    let sdk = repository().join("kernel/sdk");
    home.start(home.command().args(["ext", "new", "tea-time", "--sdk"]).arg(sdk))
        .finish()
        .success();
    let folder = home.path("sandbox/extensions/tea-time");
    fs::copy(repository().join("Cargo.lock"), folder.join("Cargo.lock")).unwrap();
    let install = |built: &Path| {
        fs::copy(built, folder.join("new")).unwrap();
        fs::rename(folder.join("new"), folder.join("libtea_time.so")).unwrap();
        home.approve("tea-time");
    };

    install(&build(&folder));
    home.skillhost(["ext", "doctor"]).success();
    let kernel = running(&home);
    assert_eq!(
        call(&home, r#"{"name":"Ada"}"#).success().stdout,
        "Hello, Ada! This is tea-time.\n"
    );
    insta::assert_snapshot!(call(&home, "{}"), @"
    exit 2
    --- stderr
    error: the arguments of `tea_time_greet` are not valid: the field `name` is missing
    hint: see the tool's input schema: skillhost tool list --json
    ");

    let source = fs::read_to_string(folder.join("src/lib.rs")).unwrap();
    fs::write(folder.join("src/lib.rs"), source.replace("Hello, {name}!", "Tea, {name}?")).unwrap();
    install(&build(&folder));
    home.skillhost(["ext", "reload", "tea-time"]).success();
    assert_eq!(call(&home, r#"{"name":"Ada"}"#).success().stdout, "Tea, Ada? This is tea-time.\n");
    kernel.interrupt().success();
}
