//! Tests of `skillhost ext doctor`: phase, reason and hint of each extension.

use std::fs;

use test_support::library;

use crate::fixtures::{bind_time_filters, home, shipped_manifest, stable_json};

#[test]
fn healthy_home_has_no_findings() {
    let _filters = bind_time_filters();
    let home = home();
    insta::assert_snapshot!(home.skillhost(["ext", "doctor"]), @"
    exit 0
    --- stdout
    ok echo 0.1.0 (tools echo, context 200, service; opened in [N] µs)
    ok skill_registry 0.1.0 (tools list_skills read_skill read_skill_resource skills.load skills.unload skills.read propose_skill_update explain_catalog, context 60, service, skill; opened in [N] µs)
    review human: people decide about proposals
    note `skill_registry` optionally depends on `embedding`, which does not exist
    ");
    insta::assert_snapshot!(stable_json(&home.skillhost(["ext", "doctor", "--json"]).success()), @r#"
    {
      "health": {
        "echo": {
          "error": null,
          "ok": true
        },
        "skill_registry": {
          "error": null,
          "ok": true
        }
      },
      "healthy": true,
      "report": {
        "agents": [],
        "disabled": [],
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
        "rejected": []
      },
      "review": {
        "agent": "reviewer_agent",
        "checks": {
          "routing": "require"
        },
        "policy": "human",
        "timeout_ms": 300000
      },
      "schema_version": 1
    }
    "#);
}

#[test]
fn duplicate_tool_names_both_owners() {
    let _filters = bind_time_filters();
    let home = home().manifest("parrot", "id: parrot\nname: Parrot\nentrypoint: echo\n").library(
        "parrot",
        "echo",
        &library("echo"),
    );
    insta::assert_snapshot!(home.skillhost(["ext", "doctor"]), @"
    exit 1
    --- stdout
    ok echo 0.1.0 (tools echo, context 200, service; opened in [N] µs)
    ok skill_registry 0.1.0 (tools list_skills read_skill read_skill_resource skills.load skills.unload skills.read propose_skill_update explain_catalog, context 60, service, skill; opened in [N] µs)
    rejected parrot in phase wire
      manifest: [HOME]/manifests/parrot/manifest.yaml
      reason: the tool `echo` of `parrot` is already provided by `echo`
      hint: write into the manifest of `parrot`: tools: {prefix: parrot_}
      hint: or disable one of the two
    review human: people decide about proposals
    note `skill_registry` optionally depends on `embedding`, which does not exist
    ");
    home.skillhost(["tool", "call", "echo", r#"{"text":"hi"}"#]).success();
}

#[test]
fn failed_dependency_fails_only_its_dependents() {
    let _filters = bind_time_filters();
    let home = home()
        .manifest("broken", "id: broken\nname: Broken\nentrypoint: nowhere\n")
        .manifest("leaning", "id: leaning\nname: Leaning\nentrypoint: echo\ndepends_on: [broken]\n")
        .manifest("content", "id: content\nname: Content\nagent: {instructions: Hi.}\ndepends_on: [{id: broken, optional: true}]\n")
        .manifest("sleeping", "id: sleeping\nname: Sleeping\nentrypoint: echo\nenabled: false\n")
        .manifest("waiting", "id: waiting\nname: Waiting\nagent: {instructions: Hi.}\ndepends_on: [sleeping, absent]\n");
    insta::assert_snapshot!(home.skillhost(["ext", "doctor"]), @"
    exit 1
    --- stdout
    ok echo 0.1.0 (tools echo, context 200, service; opened in [N] µs)
    ok skill_registry 0.1.0 (tools list_skills read_skill read_skill_resource skills.load skills.unload skills.read propose_skill_update explain_catalog, context 60, service, skill; opened in [N] µs)
    ok content (agent)
    disabled sleeping
    rejected waiting in phase plan
      manifest: [HOME]/manifests/waiting/manifest.yaml
      reason: `waiting` depends on `sleeping` (line 4), which is disabled
      reason: `waiting` depends on `absent` (line 4), which does not exist
      hint: correct depends_on in the manifest, or install and enable what it names
    rejected broken in phase probe
      manifest: [HOME]/manifests/broken/manifest.yaml
      reason: library `libnowhere.so` not found in the manifest's directory, the executable's directory or lib/skillhost
      hint: build it, or copy it to one of: [HOME]/manifests/broken, [HOME]/manifests/broken/target/release, [TARGET], [TARGET]/../lib/skillhost
    rejected leaning in phase plan
      manifest: [HOME]/manifests/leaning/manifest.yaml
      reason: depends on `broken`, which could not be loaded
      hint: see `broken` in: skillhost ext doctor
    review human: people decide about proposals
    note `skill_registry` optionally depends on `embedding`, which does not exist
    ");
    home.skillhost(["ask", "--print-prompt", "--agent", "content", "hi"]).success();
}

#[test]
fn shipped_id_requires_allow_shadowing() {
    let _filters = bind_time_filters();
    let home = home().extension("echo", &shipped_manifest("echo").replace("0.1.0", "9.9.9"));
    fs::copy(library("echo"), home.path("sandbox/extensions/echo/libecho.so")).unwrap();
    insta::assert_snapshot!(home.skillhost(["ext", "doctor"]), @"
    exit 1
    --- stdout
    ok echo 0.1.0 (tools echo, context 200, service; opened in [N] µs)
    ok skill_registry 0.1.0 (tools list_skills read_skill read_skill_resource skills.load skills.unload skills.read propose_skill_update explain_catalog, context 60, service, skill; opened in [N] µs)
    rejected echo in phase discover
      manifest: [HOME]/sandbox/extensions/echo/manifest.yaml
      reason: the id `echo` is already used by [HOME]/manifests/echo/manifest.yaml
      hint: choose another id, or list `echo` under allow_shadowing in skillhost.yaml
    review human: people decide about proposals
    note `skill_registry` optionally depends on `embedding`, which does not exist
    ");
    // An unapproved extension does not replace the shipped one.
    home.write("skillhost.yaml", "allow_shadowing: [echo]\n");
    let unapproved = home.skillhost(["ext", "doctor"]).exits(1).stdout;
    assert!(unapproved.contains("ok echo 0.1.0"), "{unapproved}");
    assert!(unapproved.contains("rejected echo in phase approve"), "{unapproved}");
    home.approve("echo");
    insta::assert_snapshot!(home.skillhost(["ext", "doctor"]), @"
    exit 0
    --- stdout
    ok skill_registry 0.1.0 (tools list_skills read_skill read_skill_resource skills.load skills.unload skills.read propose_skill_update explain_catalog, context 60, service, skill; opened in [N] µs)
    ok echo 0.1.0 (tools echo, context 200, service; opened in [N] µs)
    review human: people decide about proposals
    note [HOME]/sandbox/extensions/echo/manifest.yaml takes over `echo` from [HOME]/manifests/echo/manifest.yaml (allow_shadowing)
    note `skill_registry` optionally depends on `embedding`, which does not exist
    ");
}

#[test]
fn invalid_config_rejects_only_its_extension() {
    let _filters = bind_time_filters();
    let home = home().settings("extensions: {echo: {greting: Hi}}\n");
    insta::assert_snapshot!(home.skillhost(["ext", "doctor"]), @"
    exit 1
    --- stdout
    ok skill_registry 0.1.0 (tools list_skills read_skill read_skill_resource skills.load skills.unload skills.read propose_skill_update explain_catalog, context 60, service, skill; opened in [N] µs)
    rejected echo in phase new
      manifest: [HOME]/manifests/echo/manifest.yaml
      reason: config: unknown field `greting`, expected `greeting`
      hint: check `config` in the manifest and `extensions.echo` in skillhost.yaml
    review human: people decide about proposals
    note `skill_registry` optionally depends on `embedding`, which does not exist
    ");
    home.skillhost(["tool", "call", "list_skills"]).success();
}

#[test]
fn incomplete_skill_list_is_unhealthy() {
    let _filters = bind_time_filters();
    let home = home().settings(
        "extensions: {skill_registry: {roots: [{label: a, path: sandbox/skills}, {label: b, path: skillhost.yaml}]}}\n",
    );
    insta::assert_snapshot!(home.skillhost(["ext", "doctor"]), @r#"
    exit 1
    --- stdout
    ok echo 0.1.0 (tools echo, context 200, service; opened in [N] µs)
    unhealthy skill_registry: the list of skills is not complete: [HOME]/skillhost.yaml could not be read: Not a directory (os error 20)
      hint: skills found earlier are kept until the directories can be read again
    review human: people decide about proposals
    note `skill_registry` optionally depends on `embedding`, which does not exist
    --- stderr
     WARN extension: [HOME]/skillhost.yaml: error[root.unreadable]: root 'b' cannot be opened: Not a directory (os error 20) id=skill_registry origin="skill_registry::watch"
    "#);
}

#[test]
fn library_near_manifest_takes_precedence() {
    let home = home().library("echo", "echo", &library("echo"));
    let report = home.skillhost(["ext", "list", "--json"]).success().json();
    let libraries: Vec<_> =
        report["loaded"].as_array().unwrap().iter().map(|one| &one["library"]).collect();
    assert_eq!(libraries, ["[HOME]/manifests/echo/libecho.so", "[TARGET]/libskill_registry.so"]);
}
