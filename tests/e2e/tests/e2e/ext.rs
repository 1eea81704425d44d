//! Tests of `skillhost ext list` and `skillhost ext new`.

use std::fs;

use test_support::TestHome;

use crate::fixtures::{agent_manifest, bind_time_filters, home, repository_root, stable_json};

#[test]
fn list_shows_loaded_rejected_disabled() {
    let _filters = bind_time_filters();
    let home = home()
        .manifest("helper", &agent_manifest("helper", "  instructions: Help.\n"))
        .manifest("idle", "id: idle\nname: Idle\nentrypoint: idle\nenabled: false\n")
        .manifest("absent", "id: absent\nname: Absent\nentrypoint: absent\n");
    insta::assert_snapshot!(home.skillhost(["ext", "list"]), @"
    exit 0
    --- stdout
    EXTENSION      STATE            VERSION PROVIDES
    echo           loaded           0.1.0   tools echo, context 200, service
    skill_registry loaded           0.1.0   tools list_skills read_skill read_skill_resource skills.load skills.unload skills.read propose_skill_update explain_catalog, context 60, service, skill
    helper         loaded                   agent
    absent         rejected (probe)         library `libabsent.so` not found in the manifest's directory, the executable's directory or lib/skillhost
    idle           disabled
    --- stderr
    note: `skill_registry` optionally depends on `embedding`, which does not exist
    note: skillhost ext doctor shows how to fix the rejected ones
    ");
    insta::assert_snapshot!(stable_json(&home.skillhost(["ext", "list", "--json"]).success()), @r#"
    {
      "agents": [
        {
          "id": "helper",
          "name": "The helper"
        }
      ],
      "disabled": [
        "idle"
      ],
      "loaded": [
        {
          "bundled": false,
          "context_priority": 200,
          "id": "echo",
          "interfaces": [],
          "library": "[TARGET]/libecho.so",
          "name": "Echo",
          "service": true,
          "tools": [
            "echo"
          ],
          "version": "0.1.0"
        },
        {
          "bundled": false,
          "context_priority": 60,
          "id": "skill_registry",
          "interfaces": [
            "skill"
          ],
          "library": "[TARGET]/libskill_registry.so",
          "name": "Skill registry",
          "service": true,
          "tools": [
            "list_skills",
            "read_skill",
            "read_skill_resource",
            "skills.load",
            "skills.unload",
            "skills.read",
            "propose_skill_update",
            "explain_catalog"
          ],
          "version": "0.1.0"
        }
      ],
      "notes": [
        "`skill_registry` optionally depends on `embedding`, which does not exist"
      ],
      "rejected": [
        {
          "hint": "build it, or copy it to one of: [HOME]/manifests/absent, [HOME]/manifests/absent/target/release, [TARGET], [TARGET]/../lib/skillhost",
          "id": "absent",
          "manifest": "[HOME]/manifests/absent/manifest.yaml",
          "phase": "probe",
          "reason": "library `libabsent.so` not found in the manifest's directory, the executable's directory or lib/skillhost"
        }
      ],
      "schema_version": 1
    }
    "#);
}

#[test]
fn empty_home_has_no_extensions() {
    insta::assert_snapshot!(TestHome::new().trusted().skillhost(["ext", "list"]), @"
    exit 0
    --- stdout
    EXTENSION STATE VERSION PROVIDES
    ");
}

fn run_ext_new(home: &TestHome, args: &[&str]) -> test_support::Output {
    let sdk = repository_root().join("kernel/sdk");
    let mut command = home.command();
    command.args(["ext", "new"]).args(args).arg("--sdk").arg(sdk);
    home.start(&mut command).finish()
}

#[test]
fn new_extension_has_files_and_steps() {
    let home = home();
    insta::assert_snapshot!(run_ext_new(&home, &["rss_reader"]), @r#"
    exit 0
    --- stdout
    made [HOME]/sandbox/extensions/rss_reader
    next:
      skillhost ext build rss_reader
      skillhost ext doctor
      skillhost tool call rss_reader_greet '{"name": "Ada"}'
    "#);
    let directory = home.path("sandbox/extensions/rss_reader");
    let read = |name: &str| fs::read_to_string(directory.join(name)).unwrap();
    insta::assert_snapshot!(read("manifest.yaml"), @"
    # yaml-language-server: $schema=../../../docs/schema/manifest.json
    id: rss_reader
    name: Rss reader
    version: 0.1.0
    description: Describe the purpose of this extension in one sentence.
    entrypoint: rss_reader
    ");
    let cargo =
        read("Cargo.toml").replace(&repository_root().display().to_string(), "[REPOSITORY]");
    insta::assert_snapshot!(cargo, @r#"
    [package]
    name = "skillhost-ext-rss_reader"
    version = "0.1.0"
    edition = "2024"
    publish = false

    [lib]
    name = "rss_reader"
    crate-type = ["cdylib"]

    [dependencies]
    skillhost-sdk = { path = "[REPOSITORY]/kernel/sdk" }

    # An extension must unwind: a panic is caught and becomes an error.
    [profile.release]
    panic = "unwind"
    strip = "symbols"

    # Keeps the crate out of any workspace in a parent directory.
    [workspace]
    "#);
    let source = read("src/lib.rs");
    assert!(source.contains("\"rss_reader_greet\"") && !source.contains("{{"), "{source}");
    // Only the unbuilt extension is rejected, with a hint.
    let doctor = home.skillhost(["ext", "doctor", "--json"]).exits(1).json();
    assert_eq!(doctor["report"]["rejected"].as_array().map(Vec::len), Some(1));
    assert_eq!(doctor["report"]["rejected"][0]["phase"], "approve");
}

#[test]
fn new_extension_as_json() {
    let home = home();
    insta::assert_snapshot!(run_ext_new(&home, &["rss-reader", "--json"]), @r#"
    exit 0
    --- stdout
    {"files":["[HOME]/sandbox/extensions/rss-reader/manifest.yaml","[HOME]/sandbox/extensions/rss-reader/Cargo.toml","[HOME]/sandbox/extensions/rss-reader/src/lib.rs"],"folder":"[HOME]/sandbox/extensions/rss-reader","id":"rss-reader","schema_version":1,"template":"native"}
    "#);
    // A crate name may contain a hyphen, a library name may not.
    let manifest = fs::read_to_string(home.path("sandbox/extensions/rss-reader/manifest.yaml"));
    assert!(manifest.unwrap().contains("\nentrypoint: rss_reader\n"));
}

#[test]
fn existing_extension_is_not_overwritten() {
    let home = home().extension("mine", "id: mine\nname: Mine\nentrypoint: mine\n");
    insta::assert_snapshot!(run_ext_new(&home, &["mine"]), @"
    exit 4
    --- stderr
    error: [HOME]/sandbox/extensions/mine exists
    hint: choose another id
    ");
    assert!(!home.path("sandbox/extensions/mine/Cargo.toml").exists());
    // The id of a shipped extension would be rejected at the next start.
    insta::assert_snapshot!(run_ext_new(&home, &["echo"]), @"
    exit 4
    --- stderr
    error: the id `echo` is taken by [HOME]/manifests/echo/manifest.yaml
    hint: choose another id
    ");
    assert!(!home.path("sandbox/extensions/echo").exists());
}

#[test]
fn invalid_id_creates_no_files() {
    let home = home();
    insta::assert_snapshot!(run_ext_new(&home, &["../evil"]), @r#"
    exit 2
    --- stderr
    error: extension id "../evil" must be a lower-case letter followed by at most 63 of `a-z`, `0-9`, `_` and `-`
    hint: such as `rss_reader`
    "#);
    insta::assert_snapshot!(run_ext_new(&home, &["Rss"]), @r#"
    exit 2
    --- stderr
    error: extension id "Rss" must be a lower-case letter followed by at most 63 of `a-z`, `0-9`, `_` and `-`
    hint: such as `rss_reader`
    "#);
    insta::assert_snapshot!(run_ext_new(&home, &[""]), @r#"
    exit 2
    --- stderr
    error: extension id "" must be a lower-case letter followed by at most 63 of `a-z`, `0-9`, `_` and `-`
    hint: such as `rss_reader`
    "#);
    assert!(!home.path("sandbox/extensions").exists());
}

#[test]
fn missing_sdk_sources_get_hint() {
    let home = home();
    insta::assert_snapshot!(home.skillhost(["ext", "new", "mine", "--sdk", "nowhere"]), @"
    exit 3
    --- stderr
    error: [HOME]/nowhere: No such file or directory (os error 2)
    hint: name them: --sdk DIR (kernel/sdk in the source tree)
    ");
    insta::assert_snapshot!(home.skillhost(["ext", "new", "mine", "--sdk", "sandbox"]), @"
    exit 3
    --- stderr
    error: [HOME]/sandbox: not the sources of skillhost-sdk
    hint: name them: --sdk DIR (kernel/sdk in the source tree)
    ");
    assert!(!home.path("sandbox/extensions").exists());
}
