//! Files that are not extensions: one clear line each, without an effect on others.

use std::env::consts::{DLL_PREFIX, DLL_SUFFIX};
use std::fs;
use std::path::Path;

use serde_json::json;
use sha2::{Digest as _, Sha256};
use test_support::{TestHome, example_library, library};

use crate::fixture::KernelFixture;

/// A home with `echo`, which works, and one manifest whose library has these bytes.
fn home_with_file(bytes: &[u8]) -> TestHome {
    let name = format!("manifests/bad/{DLL_PREFIX}bad{DLL_SUFFIX}");
    home_with_echo().manifest("bad", "id: bad\nname: Bad\nentrypoint: bad\n").file(name, bytes)
}

fn home_with_echo() -> TestHome {
    let yaml = "id: echo\nname: Echo\nentrypoint: echo\n";
    TestHome::new().manifest("echo", yaml).library("echo", "echo", &library("echo"))
}

/// Returns the report's error for a library with these bytes, after a check that `echo` works.
async fn refusal(bytes: &[u8]) -> String {
    let fixture = KernelFixture::boot(home_with_file(bytes)).await;
    assert_eq!(fixture.loaded(), ["echo"]);
    assert_eq!(fixture.done("echo", json!({"text": "still here"})).await, "still here");
    let text = fixture.rejection("bad");
    fixture.kernel.shutdown().await;
    text.replace(&format!("[HOME]/manifests/bad/{DLL_PREFIX}bad{DLL_SUFFIX}"), "[LIBRARY]")
}

fn misbehave() -> Vec<u8> {
    fs::read(example_library("misbehave")).expect("a built library can be read")
}

/// Replaces every `from` in a library.
fn altered(mut bytes: Vec<u8>, from: &[u8], to: &[u8]) -> Vec<u8> {
    assert_eq!(from.len(), to.len());
    let mut at = 0;
    let mut count = 0;
    while let Some(found) = bytes[at..].windows(from.len()).position(|window| window == from) {
        at += found;
        bytes[at..at + to.len()].copy_from_slice(to);
        count += 1;
    }
    assert!(count > 0, "{} is not in the library", String::from_utf8_lossy(from));
    bytes
}

#[tokio::test(flavor = "multi_thread")]
#[cfg_attr(not(target_os = "linux"), ignore = "the header check is for ELF")]
async fn non_library_is_rejected_by_header() {
    let cases: [(&[u8], &str); 4] = [
        (b"", "probe: [LIBRARY]: the file is empty"),
        (b"\x7f", "probe: [LIBRARY]: not a shared library (no ELF header)"),
        (b"#!/bin/sh\necho no\n", "probe: [LIBRARY]: not a shared library (no ELF header)"),
        (&[b'x'; 5000], "probe: [LIBRARY]: not a shared library (no ELF header)"),
    ];
    for (bytes, line) in cases {
        let expected = format!("{line}\nhint: copy or build the library again");
        assert_eq!(refusal(bytes).await, expected);
    }
}

#[tokio::test(flavor = "multi_thread")]
#[cfg_attr(not(target_os = "linux"), ignore = "the header check is for ELF")]
async fn truncated_library_is_rejected() {
    let whole = misbehave();
    let len = whole.len();
    // Within the file header, the program headers, the code, the tables at the end.
    for cut in [20, 63] {
        let line = format!("truncated: its headers describe 64 bytes, the file has {cut}");
        let hint = "copy or build the library again";
        assert_eq!(refusal(&whole[..cut]).await, format!("probe: [LIBRARY]: {line}\nhint: {hint}"));
    }
    for cut in [64, 100, 4096, len / 4, len / 2, len - 4096, len - 1] {
        let line = format!("truncated: its headers describe {len} bytes, the file has {cut}");
        let hint = "copy or build the library again";
        assert_eq!(refusal(&whole[..cut]).await, format!("probe: [LIBRARY]: {line}\nhint: {hint}"));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn plain_library_is_rejected_by_symbols() {
    let not_an_extension = |symbol| {
        format!(
            "open: [LIBRARY]: not a skillhost extension (it exports no `{symbol}`)\n\
             hint: export a type with skillhost_sdk::export_extension!"
        )
    };
    let plain = fs::read(example_library("non_plugin")).unwrap();
    assert_eq!(refusal(&plain).await, not_an_extension("skillhost_contract_version"));
    let rootless = altered(misbehave(), b"skillhost_extension_root", b"skillhost_extension_toor");
    assert_eq!(refusal(&rootless).await, not_an_extension("skillhost_extension_root"));
}

#[tokio::test(flavor = "multi_thread")]
async fn other_contract_is_rejected_by_version() {
    let future = fs::read(example_library("wrong_contract")).unwrap();
    assert_eq!(
        refusal(&future).await,
        "open: [LIBRARY]: built for contract 2.0, this kernel speaks 1.0\n\
         hint: rebuild it with the skillhost-sdk of this kernel (contract 1.0)"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn other_layout_is_rejected_briefly() {
    let hint = "hint: rebuild it with the skillhost-sdk of this kernel (contract 1.0)";
    let renamed = altered(misbehave(), b"build_info;create;", b"build_inf0;create;");
    assert_eq!(
        refusal(&renamed).await,
        format!(
            "open: [LIBRARY]: its layout differs from the contract: ExtensionModule: unexpected \
             field (expected build_info, found build_inf0)\n{hint}"
        )
    );
    let stranger =
        altered(misbehave(), b"abi stable library for Rust", b"abi stable library for Dust");
    assert_eq!(
        refusal(&stranger).await,
        format!(
            "open: [LIBRARY]: its layout differs from the contract: its root is not a library \
             header\n{hint}"
        )
    );
}

#[tokio::test(flavor = "multi_thread")]
#[cfg_attr(not(target_os = "linux"), ignore = "the loader's words are glibc's")]
async fn dlopen_error_keeps_system_message() {
    let needy = altered(misbehave(), b"libgcc_s.so.1", b"libgcc_x.so.1");
    assert_eq!(
        refusal(&needy).await,
        "open: [LIBRARY]: libgcc_x.so.1: cannot open shared object file: No such file or directory\n\
         hint: build it on this system, or install the libraries it names"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn missing_library_names_searched_directories() {
    let home = home_with_echo().manifest("bad", "id: bad\nname: Bad\nentrypoint: nowhere\n");
    // A directory of the name is not a library.
    fs::create_dir(home.path(format!("manifests/bad/{DLL_PREFIX}nowhere{DLL_SUFFIX}"))).unwrap();
    let fixture = KernelFixture::boot(home).await;
    let name = format!("{DLL_PREFIX}nowhere{DLL_SUFFIX}");
    assert_eq!(
        fixture.rejection("bad"),
        format!(
            "probe: library `{name}` not found in the manifest's directory, the executable's directory or lib/skillhost\n\
             hint: build it, or copy it to one of: [HOME]/manifests/bad, \
             [HOME]/manifests/bad/target/release, [TARGET]/deps, [TARGET], [TARGET]/lib/skillhost"
        )
    );
    assert_eq!(fixture.loaded(), ["echo"]);
    fixture.kernel.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn pinned_library_requires_matching_digest() {
    let digest = |path: &Path| -> String {
        Sha256::digest(fs::read(path).unwrap()).iter().map(|byte| format!("{byte:02x}")).collect()
    };
    let (right, wrong) = (digest(&library("echo")), "0".repeat(64));
    let pinned = |pin: &str| {
        let yaml = format!("id: echo\nname: Echo\nentrypoint: echo\nsha256: \"{pin}\"\n");
        TestHome::new().manifest("echo", &yaml).library("echo", "echo", &library("echo"))
    };
    let fixture = KernelFixture::boot(pinned(&right)).await;
    assert_eq!(fixture.loaded(), ["echo"]);
    fixture.kernel.shutdown().await;
    let fixture = KernelFixture::boot(pinned(&wrong)).await;
    assert_eq!(
        fixture.rejection("echo"),
        format!(
            "probe: [HOME]/manifests/echo/{DLL_PREFIX}echo{DLL_SUFFIX}: its sha256 is {right}, \
             the manifest pins {wrong}\n\
             hint: if the new file is the one you want, put its sha256 into the manifest"
        )
    );
}
