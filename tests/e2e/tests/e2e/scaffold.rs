//! Tests of `skillhost ext new`: a template is built and used as its author would.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use test_support::{TestHome, profile_dir};

use crate::fixtures::{home, repository_root, start_kernel};

/// Builds a new extension offline with the versions of the repository and returns its library.
///
/// The dependencies are built only once, in a directory below the target directory.
fn build_crate(crate_dir: &Path) -> PathBuf {
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

fn call_tool(home: &TestHome, arguments: &str) -> test_support::Output {
    home.skillhost(["tool", "call", "tea_time_greet", arguments])
}

#[test]
fn new_extension_builds_loads_and_reloads() {
    let home = home();
    let sdk = repository_root().join("kernel/sdk");
    home.start(home.command().args(["ext", "new", "tea-time", "--sdk"]).arg(sdk))
        .finish()
        .success();
    let directory = home.path("sandbox/extensions/tea-time");
    fs::copy(repository_root().join("Cargo.lock"), directory.join("Cargo.lock")).unwrap();
    let install = |built: &Path| {
        fs::copy(built, directory.join("new")).unwrap();
        fs::rename(directory.join("new"), directory.join("libtea_time.so")).unwrap();
        home.approve("tea-time");
    };

    install(&build_crate(&directory));
    home.skillhost(["ext", "doctor"]).success();
    let kernel = start_kernel(&home);
    assert_eq!(
        call_tool(&home, r#"{"name":"Ada"}"#).success().stdout,
        "Hello, Ada! This is tea-time.\n"
    );
    insta::assert_snapshot!(call_tool(&home, "{}"), @"
    exit 2
    --- stderr
    error: arguments of `tea_time_greet` are not valid: field `name` is missing
    hint: see the tool's input schema: skillhost tool list --json
    ");

    let source = fs::read_to_string(directory.join("src/lib.rs")).unwrap();
    fs::write(directory.join("src/lib.rs"), source.replace("Hello, {name}!", "Tea, {name}?"))
        .unwrap();
    install(&build_crate(&directory));
    home.skillhost(["ext", "reload", "tea-time"]).success();
    assert_eq!(
        call_tool(&home, r#"{"name":"Ada"}"#).success().stdout,
        "Tea, Ada? This is tea-time.\n"
    );
    kernel.interrupt().success();
}
