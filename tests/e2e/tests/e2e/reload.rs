//! Tests of `skillhost ext reload` in a running kernel.

use std::fs;

use sha2::{Digest as _, Sha256};
use test_support::library;

use crate::fixtures::{bind_time_filters, home, shipped_manifest, start_kernel};

const CALL: [&str; 4] = ["tool", "call", "echo", r#"{"text":"hi"}"#];

fn pinned_manifest(bytes: &[u8]) -> String {
    let digest: String = Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect();
    format!("{}sha256: {digest}\n", shipped_manifest("echo"))
}

#[test]
fn reload_replaces_only_valid_library() {
    let _filters = bind_time_filters();
    let old = fs::read(library("echo")).unwrap();
    // Bytes after the last section change the file, but not the program.
    let new = [&*old, b"another build"].concat();
    let home =
        home().manifest("echo", &pinned_manifest(&old)).library("echo", "echo", &library("echo"));
    let kernel = start_kernel(&home);

    let built = home.outside().join("built.so");
    fs::write(&built, &new).unwrap();
    home.replace_library("echo", "echo", &built);
    let denied = home.skillhost(["ext", "reload", "echo"]).exits(1);
    assert!(denied.stderr.contains("was not reloaded (probe): "), "{denied}");
    assert!(denied.stderr.contains("hint: the previous build stays in use\n"), "{denied}");
    assert_eq!(home.skillhost(CALL).success().stdout, "hi\n");

    home.write("manifests/echo/manifest.yaml", pinned_manifest(&new));
    insta::assert_snapshot!(home.skillhost(["ext", "reload", "echo"]), @"
    exit 0
    --- stdout
    reloaded echo: 0.1.0 → 0.1.0 (switched after [N] ms, the old build ended after [N] ms)
    ");
    insta::assert_snapshot!(kernel.line_with("reloaded"), @"kernel kernel.extension_reloaded echo from=0.1.0 to=0.1.0");
    assert_eq!(home.skillhost(CALL).success().stdout, "hi\n");

    // A file that is not a library leaves the loaded one in use.
    fs::write(&built, "text").unwrap();
    home.write("manifests/echo/manifest.yaml", shipped_manifest("echo"));
    home.replace_library("echo", "echo", &built);
    insta::assert_snapshot!(home.skillhost(["ext", "reload", "echo"]), @"
    exit 1
    --- stderr
    error: `echo` was not reloaded (probe): [HOME]/manifests/echo/libecho.so: not a shared library (no ELF header)
    hint: copy or build the library again
    hint: the previous build stays in use
    ");
    assert_eq!(home.skillhost(CALL).success().stdout, "hi\n");
    kernel.interrupt().success();
}

#[test]
fn reload_reads_manifest() {
    let agent = "id: plain\nname: Plain\nagent: {instructions: Answer.}\n";
    let home = home().manifest("plain", agent);
    let kernel = start_kernel(&home);
    let ask =
        || home.skillhost(["ask", "--print-prompt", "--agent", "plain", "hi"]).success().stdout;
    assert!(!ask().contains("Good morning."));
    home.write(
        "manifests/echo/manifest.yaml",
        shipped_manifest("echo").replace("\"\"", "Good morning."),
    );
    let reloaded = home.skillhost(["ext", "reload", "echo", "--json"]).success().json();
    assert_eq!(
        (&reloaded["id"], &reloaded["from"], &reloaded["to"]),
        (&"echo".into(), &"0.1.0".into(), &"0.1.0".into())
    );
    assert!(ask().ends_with("\n---\n\nGood morning.\n"));
    // The registry reloads as well: its skills are listed, and it continues to watch.
    home.skillhost(["ext", "reload", "skill_registry"]).success();
    home.write("sandbox/skills/brew/SKILL.md", crate::fixtures::skill_md("Brews.", "Boil."));
    kernel.line_with("skill.added brew");
    assert!(ask().contains("• `brew` — Brews.\n"));
    kernel.interrupt().success();
}

#[test]
fn reload_reports_invalid_manifest() {
    let home = home();
    let kernel = start_kernel(&home);
    home.write("manifests/echo/manifest.yaml", "id: echo\nnmae: Echo\nentrypoint: echo\n");
    insta::assert_snapshot!(home.skillhost(["ext", "reload", "echo"]), @"
    exit 1
    --- stderr
    error: `echo` was not reloaded (parse): [HOME]/manifests/echo/manifest.yaml:2:1: unknown field `nmae`; did you mean `name`?
    hint: correct the manifest; skillhost schema manifest prints its schema
    hint: the previous build stays in use
    ");
    fs::remove_file(home.path("manifests/echo/manifest.yaml")).unwrap();
    insta::assert_snapshot!(home.skillhost(["ext", "reload", "echo"]), @"
    exit 3
    --- stderr
    error: the manifest of `echo` is missing, or names no code
    hint: the previous build stays in use until the kernel is restarted
    ");
    assert_eq!(home.skillhost(CALL).success().stdout, "hi\n");
    kernel.interrupt().success();
}

#[test]
fn reload_requires_kernel_and_known_id() {
    let home = home().manifest("plain", "id: plain\nname: Plain\nagent: {instructions: Answer.}\n");
    insta::assert_snapshot!(home.skillhost(["ext", "reload", "echo"]), @"
    exit 3
    --- stderr
    error: no kernel runs for [HOME]
    hint: the next `skillhost run` loads the new build anyway
    ");
    let kernel = start_kernel(&home);
    insta::assert_snapshot!(home.skillhost(["ext", "reload", "ecko"]), @"
    exit 3
    --- stderr
    error: extension `ecko` not found
    hint: did you mean echo?
    hint: see: skillhost ext list
    ");
    // An agent is reloaded as well.
    home.skillhost(["ext", "reload", "plain"]).success();
    kernel.interrupt().success();
}
