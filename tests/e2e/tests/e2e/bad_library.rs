//! Libraries that cannot be loaded. A wrong contract and libraries that are no extensions are in
//! tests/abi, where they are built.

use std::fs;
use std::path::Path;

use test_support::{TestHome, library};

use crate::scene::{home, timeless};

const CALL: [&str; 4] = ["tool", "call", "echo", r#"{"text":"hi"}"#];

/// The doctor's words about an extension `bad` with these bytes as its library.
fn doctor(bytes: &[u8], rest: &str) -> String {
    let home = with_manifest(rest);
    fs::write(home.path("manifests/bad/libbad.so"), bytes).unwrap();
    rejected(&home)
}

fn with_manifest(rest: &str) -> TestHome {
    home().manifest("bad", &format!("id: bad\nname: Bad\nentrypoint: bad\n{rest}"))
}

fn rejected(home: &TestHome) -> String {
    let output = home.skillhost(["ext", "doctor"]).exits(1);
    assert_eq!(home.skillhost(CALL).success().stdout, "hi\n");
    assert_eq!(output.stderr, "");
    // The private copies are gone again.
    let left = fs::read_dir(home.path("sandbox/data"));
    let left: Vec<_> =
        left.into_iter().flatten().flatten().map(|entry| entry.file_name()).collect();
    assert!(!left.iter().any(|name| Path::new(name).extension().is_some()), "{left:?}");
    let lines = output.stdout.lines().skip_while(|line| !line.starts_with("rejected"));
    lines.collect::<Vec<_>>().join("\n")
}

#[test]
fn a_library_that_is_not_there() {
    let _timeless = timeless();
    insta::assert_snapshot!(rejected(&with_manifest("")), @"
    rejected bad in phase probe
      manifest: [HOME]/manifests/bad/manifest.yaml
      reason: no library `libbad.so` beside the manifest, beside the executable or in lib/skillhost
      hint: build it, or copy it to one of: [HOME]/manifests/bad, [HOME]/manifests/bad/target/release, [TARGET], [TARGET]/../lib/skillhost
    review human: people decide about proposals
    note `skill_registry` would like `embedding`, which does not exist
    ");
}

#[test]
fn files_that_are_no_library() {
    insta::assert_snapshot!(doctor(b"", ""), @"
    rejected bad in phase probe
      manifest: [HOME]/manifests/bad/manifest.yaml
      reason: [HOME]/manifests/bad/libbad.so: the file is empty
      hint: copy or build the library again
    review human: people decide about proposals
    note `skill_registry` would like `embedding`, which does not exist
    ");
    insta::assert_snapshot!(doctor(b"#!/bin/sh\n", ""), @"
    rejected bad in phase probe
      manifest: [HOME]/manifests/bad/manifest.yaml
      reason: [HOME]/manifests/bad/libbad.so: not a shared library (no ELF header)
      hint: copy or build the library again
    review human: people decide about proposals
    note `skill_registry` would like `embedding`, which does not exist
    ");
    insta::assert_snapshot!(doctor("words ".repeat(100).as_bytes(), ""), @"
    rejected bad in phase probe
      manifest: [HOME]/manifests/bad/manifest.yaml
      reason: [HOME]/manifests/bad/libbad.so: not a shared library (no ELF header)
      hint: copy or build the library again
    review human: people decide about proposals
    note `skill_registry` would like `embedding`, which does not exist
    ");
    insta::assert_snapshot!(doctor(b"\x7fELF", ""), @"
    rejected bad in phase probe
      manifest: [HOME]/manifests/bad/manifest.yaml
      reason: [HOME]/manifests/bad/libbad.so: truncated: its headers describe 64 bytes, the file has 4
      hint: copy or build the library again
    review human: people decide about proposals
    note `skill_registry` would like `embedding`, which does not exist
    ");
}

#[test]
fn a_truncated_library_does_not_end_the_process() {
    let whole = fs::read(library("echo")).unwrap();
    for part in [1, 2, 3, 60, 99] {
        let said = doctor(&whole[..whole.len() / 100 * part], "");
        assert!(said.contains("libbad.so: truncated: its headers describe "), "{part} %: {said}");
        assert!(said.contains("\n  hint: copy or build the library again"), "{part} %: {said}");
    }
}

#[test]
fn a_program_is_no_library() {
    // Position-independent programs are marked as libraries are, so the loader has the last word.
    let said = doctor(&fs::read("/bin/true").unwrap(), "");
    assert!(said.starts_with("rejected bad in phase "), "{said}");
    assert!(said.contains("\n  hint: "), "{said}");
}

#[test]
fn a_pin_is_kept() {
    use sha2::{Digest as _, Sha256};
    let whole = fs::read(library("echo")).unwrap();
    let right: String = Sha256::digest(&whole).iter().map(|byte| format!("{byte:02x}")).collect();
    let wrong = "0".repeat(64);
    let said = doctor(&whole, &format!("sha256: {wrong}\n")).replace(&right, "[RIGHT]");
    insta::assert_snapshot!(said, @"
    rejected bad in phase probe
      manifest: [HOME]/manifests/bad/manifest.yaml
      reason: [HOME]/manifests/bad/libbad.so: its sha256 is [RIGHT], the manifest pins 0000000000000000000000000000000000000000000000000000000000000000
      hint: if the new file is the one you want, put its sha256 into the manifest
    review human: people decide about proposals
    note `skill_registry` would like `embedding`, which does not exist
    ");
    // The very file that is pinned loads.
    let home = home()
        .manifest("echo", &format!("{}sha256: {right}\n", crate::scene::shipped("echo")))
        .library("echo", "echo", &library("echo"));
    home.skillhost(["ext", "doctor"]).success();
    insta::assert_snapshot!(doctor(&whole, "sha256: abc\n"), @"
    rejected bad in phase parse
      manifest: [HOME]/manifests/bad/manifest.yaml
      reason: [HOME]/manifests/bad/manifest.yaml:4:9: `sha256` must be 64 hexadecimal digits, found `abc`
      hint: correct the manifest; skillhost schema manifest prints its schema
    review human: people decide about proposals
    note `skill_registry` would like `embedding`, which does not exist
    ");
}

#[test]
fn a_directory_with_a_librarys_name_is_not_one() {
    let home = with_manifest("");
    fs::create_dir(home.path("manifests/bad/libbad.so")).unwrap();
    let said = rejected(&home);
    assert!(said.contains("reason: no library `libbad.so` beside the manifest"), "{said}");
}
