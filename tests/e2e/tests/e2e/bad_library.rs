//! Tests of libraries that cannot be loaded. Libraries with a wrong contract or without an
//! extension are in tests/abi, where they are built.

use std::fs;
use std::path::Path;

use test_support::{TestHome, library};

use crate::fixtures::{bind_time_filters, home};

const CALL: [&str; 4] = ["tool", "call", "echo", r#"{"text":"hi"}"#];

/// Returns the doctor's report about an extension `bad` with these bytes as its library.
fn doctor_report(bytes: &[u8], rest: &str) -> String {
    let home = with_manifest(rest);
    fs::write(home.path("manifests/bad/libbad.so"), bytes).unwrap();
    rejected_report(&home)
}

fn with_manifest(rest: &str) -> TestHome {
    home().manifest("bad", &format!("id: bad\nname: Bad\nentrypoint: bad\n{rest}"))
}

fn rejected_report(home: &TestHome) -> String {
    let output = home.skillhost(["ext", "doctor"]).exits(1);
    assert_eq!(home.skillhost(CALL).success().stdout, "hi\n");
    assert_eq!(output.stderr, "");
    // A failed load must remove its private copy of the library.
    let copies = fs::read_dir(home.path("sandbox/data"));
    let copies: Vec<_> =
        copies.into_iter().flatten().flatten().map(|entry| entry.file_name()).collect();
    assert!(!copies.iter().any(|name| Path::new(name).extension().is_some()), "{copies:?}");
    let lines = output.stdout.lines().skip_while(|line| !line.starts_with("rejected"));
    lines.collect::<Vec<_>>().join("\n")
}

#[test]
fn missing_library_is_reported() {
    let _filters = bind_time_filters();
    insta::assert_snapshot!(rejected_report(&with_manifest("")), @"
    rejected bad in phase probe
      manifest: [HOME]/manifests/bad/manifest.yaml
      reason: library `libbad.so` not found in the manifest's directory, the executable's directory or lib/skillhost
      hint: build it, or copy it to one of: [HOME]/manifests/bad, [HOME]/manifests/bad/target/release, [TARGET], [TARGET]/../lib/skillhost
    review human: people decide about proposals
    note `skill_registry` optionally depends on `embedding`, which does not exist
    ");
}

#[test]
fn invalid_library_files_are_rejected() {
    insta::assert_snapshot!(doctor_report(b"", ""), @"
    rejected bad in phase probe
      manifest: [HOME]/manifests/bad/manifest.yaml
      reason: [HOME]/manifests/bad/libbad.so: the file is empty
      hint: copy or build the library again
    review human: people decide about proposals
    note `skill_registry` optionally depends on `embedding`, which does not exist
    ");
    insta::assert_snapshot!(doctor_report(b"#!/bin/sh\n", ""), @"
    rejected bad in phase probe
      manifest: [HOME]/manifests/bad/manifest.yaml
      reason: [HOME]/manifests/bad/libbad.so: not a shared library (no ELF header)
      hint: copy or build the library again
    review human: people decide about proposals
    note `skill_registry` optionally depends on `embedding`, which does not exist
    ");
    insta::assert_snapshot!(doctor_report("words ".repeat(100).as_bytes(), ""), @"
    rejected bad in phase probe
      manifest: [HOME]/manifests/bad/manifest.yaml
      reason: [HOME]/manifests/bad/libbad.so: not a shared library (no ELF header)
      hint: copy or build the library again
    review human: people decide about proposals
    note `skill_registry` optionally depends on `embedding`, which does not exist
    ");
    insta::assert_snapshot!(doctor_report(b"\x7fELF", ""), @"
    rejected bad in phase probe
      manifest: [HOME]/manifests/bad/manifest.yaml
      reason: [HOME]/manifests/bad/libbad.so: truncated: its headers describe 64 bytes, the file has 4
      hint: copy or build the library again
    review human: people decide about proposals
    note `skill_registry` optionally depends on `embedding`, which does not exist
    ");
}

#[test]
fn truncated_library_is_rejected() {
    let library_bytes = fs::read(library("echo")).unwrap();
    for part in [1, 2, 3, 60, 99] {
        let report = doctor_report(&library_bytes[..library_bytes.len() / 100 * part], "");
        assert!(
            report.contains("libbad.so: truncated: its headers describe "),
            "{part} %: {report}"
        );
        assert!(report.contains("\n  hint: copy or build the library again"), "{part} %: {report}");
    }
}

#[test]
fn program_is_rejected_as_library() {
    // The header of a position-independent program equals that of a library, so only the loader can
    // reject it.
    let report = doctor_report(&fs::read("/bin/true").unwrap(), "");
    assert!(report.starts_with("rejected bad in phase "), "{report}");
    assert!(report.contains("\n  hint: "), "{report}");
}

#[test]
fn pinned_digest_is_enforced() {
    use sha2::{Digest as _, Sha256};
    let library_bytes = fs::read(library("echo")).unwrap();
    let right: String =
        Sha256::digest(&library_bytes).iter().map(|byte| format!("{byte:02x}")).collect();
    let wrong = "0".repeat(64);
    let report =
        doctor_report(&library_bytes, &format!("sha256: {wrong}\n")).replace(&right, "[RIGHT]");
    insta::assert_snapshot!(report, @"
    rejected bad in phase probe
      manifest: [HOME]/manifests/bad/manifest.yaml
      reason: [HOME]/manifests/bad/libbad.so: its sha256 is [RIGHT], the manifest pins 0000000000000000000000000000000000000000000000000000000000000000
      hint: if the new file is the one you want, put its sha256 into the manifest
    review human: people decide about proposals
    note `skill_registry` optionally depends on `embedding`, which does not exist
    ");
    // The pinned file itself loads.
    let home = home()
        .manifest(
            "echo",
            &format!("{}sha256: {right}\n", crate::fixtures::shipped_manifest("echo")),
        )
        .library("echo", "echo", &library("echo"));
    home.skillhost(["ext", "doctor"]).success();
    insta::assert_snapshot!(doctor_report(&library_bytes, "sha256: abc\n"), @"
    rejected bad in phase parse
      manifest: [HOME]/manifests/bad/manifest.yaml
      reason: [HOME]/manifests/bad/manifest.yaml:4:9: `sha256` must be 64 hexadecimal digits, found `abc`
      hint: correct the manifest; skillhost schema manifest prints its schema
    review human: people decide about proposals
    note `skill_registry` optionally depends on `embedding`, which does not exist
    ");
}

#[test]
fn directory_named_as_library_is_ignored() {
    let home = with_manifest("");
    fs::create_dir(home.path("manifests/bad/libbad.so")).unwrap();
    let report = rejected_report(&home);
    assert!(
        report.contains("reason: library `libbad.so` not found in the manifest's directory"),
        "{report}"
    );
}
