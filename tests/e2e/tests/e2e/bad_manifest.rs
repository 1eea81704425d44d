//! Tests of invalid manifests: each is reported with its position, and the others are loaded.

use test_support::TestHome;

use crate::fixtures::{bind_time_filters, home};

const CALL: [&str; 4] = ["tool", "call", "echo", r#"{"text":"hi"}"#];

/// Returns the doctor's report about one invalid manifest; all other commands must still work.
fn doctor_report(text: impl AsRef<[u8]>) -> String {
    let home = home().file("sandbox/extensions/bad/manifest.yaml", text);
    rejected_report(&home)
}

fn rejected_report(home: &TestHome) -> String {
    let output = home.skillhost(["ext", "doctor"]).exits(1);
    assert_eq!(home.skillhost(CALL).success().stdout, "hi\n");
    home.skillhost(["skill", "list"]).success();
    assert_eq!(output.stderr, "");
    let lines = output.stdout.lines().skip_while(|line| !line.starts_with("rejected"));
    lines.collect::<Vec<_>>().join("\n")
}

#[test]
fn invalid_manifest_text_is_reported() {
    insta::assert_snapshot!(doctor_report(""), @"
    rejected bad in phase parse
      manifest: [HOME]/sandbox/extensions/bad/manifest.yaml
      reason: [HOME]/sandbox/extensions/bad/manifest.yaml:1:1: the manifest is empty; it needs at least `id`, `name` and `entrypoint` or `agent`
      hint: correct the manifest; skillhost schema manifest prints its schema
    review human: people decide about proposals
    note `skill_registry` optionally depends on `embedding`, which does not exist
    ");
    insta::assert_snapshot!(doctor_report("# nothing\n"), @"
    rejected bad in phase parse
      manifest: [HOME]/sandbox/extensions/bad/manifest.yaml
      reason: [HOME]/sandbox/extensions/bad/manifest.yaml:1:1: the manifest is empty; it needs at least `id`, `name` and `entrypoint` or `agent`
      hint: correct the manifest; skillhost schema manifest prints its schema
    review human: people decide about proposals
    note `skill_registry` optionally depends on `embedding`, which does not exist
    ");
    insta::assert_snapshot!(doctor_report("- id: bad\n"), @"
    rejected bad in phase parse
      manifest: [HOME]/sandbox/extensions/bad/manifest.yaml
      reason: [HOME]/sandbox/extensions/bad/manifest.yaml:1:1: a manifest must consist of lines `field: value`, found a list
      hint: correct the manifest; skillhost schema manifest prints its schema
    review human: people decide about proposals
    note `skill_registry` optionally depends on `embedding`, which does not exist
    ");
    insta::assert_snapshot!(doctor_report("just words\n"), @"
    rejected bad in phase parse
      manifest: [HOME]/sandbox/extensions/bad/manifest.yaml
      reason: [HOME]/sandbox/extensions/bad/manifest.yaml:1:1: a manifest must consist of lines `field: value`, found text
      hint: correct the manifest; skillhost schema manifest prints its schema
    review human: people decide about proposals
    note `skill_registry` optionally depends on `embedding`, which does not exist
    ");
    insta::assert_snapshot!(doctor_report("id: bad\n\tname: Bad\n"), @"
    rejected bad in phase parse
      manifest: [HOME]/sandbox/extensions/bad/manifest.yaml
      reason: [HOME]/sandbox/extensions/bad/manifest.yaml:2:1: tab in the indentation; YAML allows only spaces there
      hint: correct the manifest; skillhost schema manifest prints its schema
    review human: people decide about proposals
    note `skill_registry` optionally depends on `embedding`, which does not exist
    ");
    insta::assert_snapshot!(doctor_report("id: bad\nname: [\n"), @"
    rejected bad in phase parse
      manifest: [HOME]/sandbox/extensions/bad/manifest.yaml
      reason: [HOME]/sandbox/extensions/bad/manifest.yaml:3:1: not valid YAML: while parsing a node, did not find expected node content
      hint: correct the manifest; skillhost schema manifest prints its schema
    review human: people decide about proposals
    note `skill_registry` optionally depends on `embedding`, which does not exist
    ");
    insta::assert_snapshot!(doctor_report(b"id: bad\nname: \xff\n"), @"
    rejected bad in phase discover
      manifest: [HOME]/sandbox/extensions/bad/manifest.yaml
      reason: [HOME]/sandbox/extensions/bad/manifest.yaml: line 2 is not UTF-8 text
      hint: check that it is a UTF-8 text file that may be read
    review human: people decide about proposals
    note `skill_registry` optionally depends on `embedding`, which does not exist
    ");
}

#[test]
fn invalid_manifest_fields_are_reported() {
    insta::assert_snapshot!(doctor_report("id: bad\nname: Bad\nentrypiont: bad\n"), @"
    rejected bad in phase parse
      manifest: [HOME]/sandbox/extensions/bad/manifest.yaml
      reason: [HOME]/sandbox/extensions/bad/manifest.yaml:3:1: unknown field `entrypiont`; did you mean `entrypoint`?
      hint: correct the manifest; skillhost schema manifest prints its schema
    review human: people decide about proposals
    note `skill_registry` optionally depends on `embedding`, which does not exist
    ");
    insta::assert_snapshot!(doctor_report("id: bad\nname: 1\nentrypoint: [bad]\nenabled: maybe\n"), @"
    rejected bad in phase parse
      manifest: [HOME]/sandbox/extensions/bad/manifest.yaml
      reason: [HOME]/sandbox/extensions/bad/manifest.yaml:2:7: `name` must be text, found a number; put it in quotes
      reason: [HOME]/sandbox/extensions/bad/manifest.yaml:3:13: `entrypoint` must be text or a mapping with `command`, found a list
      reason: [HOME]/sandbox/extensions/bad/manifest.yaml:4:10: `enabled` must be `true` or `false`, found text
      hint: correct the manifest; skillhost schema manifest prints its schema
    review human: people decide about proposals
    note `skill_registry` optionally depends on `embedding`, which does not exist
    ");
    insta::assert_snapshot!(doctor_report("id: Bad Id\nname: Bad\nentrypoint: ../bad\n"), @"
    rejected bad in phase parse
      manifest: [HOME]/sandbox/extensions/bad/manifest.yaml
      reason: [HOME]/sandbox/extensions/bad/manifest.yaml:1:5: `id` must be a lower-case letter followed by at most 63 of `a-z`, `0-9`, `_` and `-`, found `Bad Id`
      reason: [HOME]/sandbox/extensions/bad/manifest.yaml:3:13: `entrypoint` must be the library's base name, of letters, digits, `_` and `-`, without `lib` and `.so`, found `../bad`
      hint: correct the manifest; skillhost schema manifest prints its schema
    review human: people decide about proposals
    note `skill_registry` optionally depends on `embedding`, which does not exist
    ");
    insta::assert_snapshot!(doctor_report("id: bad\nname: Bad\nentrypoint: bad\nagent: {}\n"), @"
    rejected bad in phase parse
      manifest: [HOME]/sandbox/extensions/bad/manifest.yaml
      reason: [HOME]/sandbox/extensions/bad/manifest.yaml:4:1: `entrypoint` and `agent` exclude each other; an extension is one or the other
      hint: correct the manifest; skillhost schema manifest prints its schema
    review human: people decide about proposals
    note `skill_registry` optionally depends on `embedding`, which does not exist
    ");
    insta::assert_snapshot!(doctor_report("id: bad\nname: Bad\n"), @"
    rejected bad in phase parse
      manifest: [HOME]/sandbox/extensions/bad/manifest.yaml
      reason: [HOME]/sandbox/extensions/bad/manifest.yaml:1:1: `entrypoint` (of a library or a process) or `agent` (of a declarative agent) is missing
      hint: correct the manifest; skillhost schema manifest prints its schema
    review human: people decide about proposals
    note `skill_registry` optionally depends on `embedding`, which does not exist
    ");
    insta::assert_snapshot!(doctor_report("id: bad\nname: Bad\nentrypoint: bad\nschedules: [{name: a, cron: 0 0 30 2 *, task: a}]\n"), @"
    rejected bad in phase parse
      manifest: [HOME]/sandbox/extensions/bad/manifest.yaml
      reason: [HOME]/sandbox/extensions/bad/manifest.yaml:4:29: `schedules[0].cron`: the pattern `0 0 30 2 *` never fires: the day exists in no year
      hint: correct the manifest; skillhost schema manifest prints its schema
    review human: people decide about proposals
    note `skill_registry` optionally depends on `embedding`, which does not exist
    ");
    insta::assert_snapshot!(doctor_report("id: bad\nname: Bad\nagent: {limits: {max_turns: 0}}\n"), @"
    rejected bad in phase parse
      manifest: [HOME]/sandbox/extensions/bad/manifest.yaml
      reason: [HOME]/sandbox/extensions/bad/manifest.yaml:3:29: `agent.limits.max_turns` must be a whole number from 1 to 4294967295, found `0`
      hint: correct the manifest; skillhost schema manifest prints its schema
    review human: people decide about proposals
    note `skill_registry` optionally depends on `embedding`, which does not exist
    ");
}

#[test]
fn dependency_cycle_is_reported_together() {
    let home = home()
        .manifest("a", "id: a\nname: A\nentrypoint: echo\ndepends_on: [b]\n")
        .manifest("b", "id: b\nname: B\nentrypoint: echo\ndepends_on: [c]\n")
        .manifest("c", "id: c\nname: C\nentrypoint: echo\ndepends_on: [a]\n")
        .manifest("d", "id: d\nname: D\nentrypoint: echo\ndepends_on: [nowhere]\n");
    insta::assert_snapshot!(rejected_report(&home), @"
    rejected a in phase plan
      manifest: [HOME]/manifests/a/manifest.yaml
      reason: `a` depends on itself: a → b → c → a
      hint: correct depends_on in the manifest, or install and enable what it names
    rejected b in phase plan
      manifest: [HOME]/manifests/b/manifest.yaml
      reason: `b` depends on itself: b → c → a → b
      hint: correct depends_on in the manifest, or install and enable what it names
    rejected c in phase plan
      manifest: [HOME]/manifests/c/manifest.yaml
      reason: `c` depends on itself: c → a → b → c
      hint: correct depends_on in the manifest, or install and enable what it names
    rejected d in phase plan
      manifest: [HOME]/manifests/d/manifest.yaml
      reason: `d` depends on `nowhere` (line 4), which does not exist
      hint: correct depends_on in the manifest, or install and enable what it names
    review human: people decide about proposals
    note `skill_registry` optionally depends on `embedding`, which does not exist
    ");
}

#[test]
fn non_file_manifests_are_reported() {
    let home = home();
    std::fs::create_dir_all(home.path("sandbox/extensions/folder/manifest.yaml")).unwrap();
    std::fs::create_dir_all(home.path("sandbox/extensions/pipe")).unwrap();
    rustix::fs::mknodat(
        rustix::fs::CWD,
        home.path("sandbox/extensions/pipe/manifest.yaml"),
        rustix::fs::FileType::Fifo,
        rustix::fs::Mode::RUSR,
        0,
    )
    .unwrap();
    std::fs::create_dir_all(home.path("sandbox/extensions/nothing")).unwrap();
    home.write("sandbox/extensions/big/manifest.yaml", "x".repeat(300 << 10));
    insta::assert_snapshot!(rejected_report(&home), @"
    rejected big in phase parse
      manifest: [HOME]/sandbox/extensions/big/manifest.yaml
      reason: [HOME]/sandbox/extensions/big/manifest.yaml:1:1: the manifest has 262145 bytes, the limit is 262144
      hint: correct the manifest; skillhost schema manifest prints its schema
    rejected folder in phase discover
      manifest: [HOME]/sandbox/extensions/folder/manifest.yaml
      reason: [HOME]/sandbox/extensions/folder/manifest.yaml: it is a directory, not a regular file
      hint: replace it with a regular file
    rejected pipe in phase discover
      manifest: [HOME]/sandbox/extensions/pipe/manifest.yaml
      reason: [HOME]/sandbox/extensions/pipe/manifest.yaml: it is a FIFO, not a regular file
      hint: replace it with a regular file
    review human: people decide about proposals
    note [HOME]/sandbox/extensions/nothing is not an extension: manifest.yaml not found; write it, or move the directory elsewhere
    note `skill_registry` optionally depends on `embedding`, which does not exist
    ");
}

#[test]
fn duplicate_ids_are_rejected() {
    let text = "id: same\nname: Same\nentrypoint: echo\nenabled: false\n";
    let home = home().manifest("one", text).manifest("two", text).extension("three", text);
    insta::assert_snapshot!(rejected_report(&home), @"
    rejected same in phase discover
      manifest: [HOME]/manifests/two/manifest.yaml
      reason: the id `same` is already used by [HOME]/manifests/one/manifest.yaml
      hint: choose another id
    rejected same in phase discover
      manifest: [HOME]/sandbox/extensions/three/manifest.yaml
      reason: its id is `same`, and its directory `three`
      hint: give both the same name
    review human: people decide about proposals
    note `skill_registry` optionally depends on `embedding`, which does not exist
    ");
}

#[test]
fn alias_bomb_is_not_expanded() {
    let mut bomb = String::from("id: bad\nname: Bad\nentrypoint: bad\nconfig:\n  a0: &a0 [x, x]\n");
    for level in 1..30 {
        bomb.push_str(&format!("  a{level}: &a{level} [*a{0}, *a{0}]\n", level - 1));
    }
    let report = doctor_report(&bomb);
    assert!(report.starts_with("rejected bad in phase parse\n"), "{report}");
    assert!(report.contains("manifest.yaml:5:7: anchors and aliases"), "{report}");
    let deep = format!("id: bad\nname: Bad\nentrypoint: bad\nconfig: {}\n", "[".repeat(100_000));
    insta::assert_snapshot!(doctor_report(deep), @"
    rejected bad in phase parse
      manifest: [HOME]/sandbox/extensions/bad/manifest.yaml
      reason: [HOME]/sandbox/extensions/bad/manifest.yaml:4:264: lists and mappings are nested more than 32 deep
      hint: correct the manifest; skillhost schema manifest prints its schema
    review human: people decide about proposals
    note `skill_registry` optionally depends on `embedding`, which does not exist
    ");
}

#[test]
fn config_and_list_name_bad_manifest() {
    let _filters = bind_time_filters();
    let home = home().extension("bad", "id: bad\n");
    insta::assert_snapshot!(home.skillhost(["ext", "list"]), @"
    exit 0
    --- stdout
    EXTENSION      STATE            VERSION PROVIDES
    echo           loaded           0.1.0   tools echo, context 200, service
    skill_registry loaded           0.1.0   tools list_skills read_skill read_skill_resource skills.load skills.unload skills.read propose_skill_update explain_catalog, context 60, service, skill
    bad            rejected (parse)         [HOME]/sandbox/extensions/bad/manifest.yaml:1:1: `name` is missing
    --- stderr
    note: `skill_registry` optionally depends on `embedding`, which does not exist
    note: skillhost ext doctor shows how to fix the rejected ones
    ");
    let config = home.skillhost(["config"]).success();
    assert_eq!(
        config.stderr,
        "note: [HOME]/sandbox/extensions/bad/manifest.yaml: not read, see: skillhost ext doctor\n"
    );
}
