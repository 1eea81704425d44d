//! Tests of `skillhost config` and `skillhost schema`.

use crate::fixtures::{home, repository_root, stable_json};

/// Leaves out the directory of the SDK, which depends on the place of the sources.
fn without_sdk(text: &str) -> String {
    let sdk = repository_root().join("kernel/sdk").display().to_string();
    let lines = text.lines().filter(|line| !line.starts_with("build.sdk "));
    lines.collect::<Vec<_>>().join("\n").replace(&sdk, "[SDK]")
}

#[test]
fn config_shows_source_of_values() {
    let home = home()
        .settings("extensions:\n  skill_registry: {l1_budget_chars: 4000}\n  absent: {key: [1]}\n");
    let output = home
        .start(
            home.command()
                .env("SKILLHOST_EXTENSIONS__SKILL_REGISTRY__POLL_INTERVAL_MS", "250")
                .arg("config"),
        )
        .finish();
    insta::assert_snapshot!(without_sdk(&output.to_string()), @r#"
    exit 0
    --- stdout
    home  [HOME] (ancestor, trusted)
    KEY                                         VALUE                                                                                                  SOURCE
    allow_shadowing                             []                                                                                                     default
    build.allow                                 []                                                                                                     default
    build.memory_limit_mib                      4096                                                                                                   default
    build.time_limit_ms                         600000                                                                                                 default
    events.retry_ms                             [1000, 5000, 25000]                                                                                    default
    extensions.absent.key                       [1]                                                                                                    skillhost.yaml
    extensions.echo.greeting                    ""                                                                                                     manifests/echo/manifest.yaml
    extensions.skill_registry.ignore            []                                                                                                     default
    extensions.skill_registry.l1_budget_chars   4000                                                                                                   skillhost.yaml
    extensions.skill_registry.l1_full_limit     40                                                                                                     manifests/skill_registry/manifest.yaml
    extensions.skill_registry.poll_interval_ms  250                                                                                                    variable SKILLHOST_EXTENSIONS__SKILL_REGISTRY__POLL_INTERVAL_MS
    extensions.skill_registry.review            {"policy": "human", "agent": "reviewer_agent", "timeout_ms": 300000, "checks": {"routing": "require"}} manifests/skill_registry/manifest.yaml
    extensions.skill_registry.roots             [{"label": "sandbox", "path": "sandbox/skills", "trust": "operator"}]                                  manifests/skill_registry/manifest.yaml
    extensions.skill_registry.search_embeddings "off"                                                                                                  manifests/skill_registry/manifest.yaml
    extensions.skill_registry.skills            {}                                                                                                     default
    mcp.catalog                                 "all"                                                                                                  default
    mcp.consent                                 "off"                                                                                                  default
    mcp.review                                  "off"                                                                                                  default
    models.default                              "script/demo"                                                                                          default
    processes.memory_limit_mib                  1024                                                                                                   default
    sandbox.unsandboxed                         []                                                                                                     default
    supervisor.crashes                          5                                                                                                      default
    supervisor.delay_ms                         1000                                                                                                   default
    supervisor.silence_ms                       30000                                                                                                  default
    supervisor.within_ms                        300000                                                                                                 default
    workspaces                                  []                                                                                                     default
    "#);
}

#[test]
fn config_defaults_without_settings() {
    let json = without_sdk(&stable_json(&home().skillhost(["config", "--json"]).success()));
    insta::assert_snapshot!(json, @r#"
    {
      "home": "[HOME]",
      "home_source": "ancestor",
      "schema_version": 1,
      "settings": [
        {
          "key": "allow_shadowing",
          "source": "default",
          "value": []
        },
        {
          "key": "build.allow",
          "source": "default",
          "value": []
        },
        {
          "key": "build.memory_limit_mib",
          "source": "default",
          "value": 4096
        },
        {
          "key": "build.sdk",
          "source": "default",
          "value": "[SDK]"
        },
        {
          "key": "build.time_limit_ms",
          "source": "default",
          "value": 600000
        },
        {
          "key": "events.retry_ms",
          "source": "default",
          "value": [
            1000,
            5000,
            25000
          ]
        },
        {
          "key": "extensions.echo.greeting",
          "source": "[HOME]/manifests/echo/manifest.yaml",
          "value": ""
        },
        {
          "key": "extensions.skill_registry.ignore",
          "source": "default",
          "value": []
        },
        {
          "key": "extensions.skill_registry.l1_budget_chars",
          "source": "[HOME]/manifests/skill_registry/manifest.yaml",
          "value": 8000
        },
        {
          "key": "extensions.skill_registry.l1_full_limit",
          "source": "[HOME]/manifests/skill_registry/manifest.yaml",
          "value": 40
        },
        {
          "key": "extensions.skill_registry.poll_interval_ms",
          "source": "[HOME]/manifests/skill_registry/manifest.yaml",
          "value": 5000
        },
        {
          "key": "extensions.skill_registry.review",
          "source": "[HOME]/manifests/skill_registry/manifest.yaml",
          "value": {
            "agent": "reviewer_agent",
            "checks": {
              "routing": "require"
            },
            "policy": "human",
            "timeout_ms": 300000
          }
        },
        {
          "key": "extensions.skill_registry.roots",
          "source": "[HOME]/manifests/skill_registry/manifest.yaml",
          "value": [
            {
              "label": "sandbox",
              "path": "sandbox/skills",
              "trust": "operator"
            }
          ]
        },
        {
          "key": "extensions.skill_registry.search_embeddings",
          "source": "[HOME]/manifests/skill_registry/manifest.yaml",
          "value": "off"
        },
        {
          "key": "extensions.skill_registry.skills",
          "source": "default",
          "value": {}
        },
        {
          "key": "mcp.catalog",
          "source": "default",
          "value": "all"
        },
        {
          "key": "mcp.consent",
          "source": "default",
          "value": "off"
        },
        {
          "key": "mcp.review",
          "source": "default",
          "value": "off"
        },
        {
          "key": "models.default",
          "source": "default",
          "value": "script/demo"
        },
        {
          "key": "processes.memory_limit_mib",
          "source": "default",
          "value": 1024
        },
        {
          "key": "sandbox.unsandboxed",
          "source": "default",
          "value": []
        },
        {
          "key": "supervisor.crashes",
          "source": "default",
          "value": 5
        },
        {
          "key": "supervisor.delay_ms",
          "source": "default",
          "value": 1000
        },
        {
          "key": "supervisor.silence_ms",
          "source": "default",
          "value": 30000
        },
        {
          "key": "supervisor.within_ms",
          "source": "default",
          "value": 300000
        },
        {
          "key": "workspaces",
          "source": "default",
          "value": []
        }
      ],
      "settings_file": "[HOME]/skillhost.yaml",
      "trusted": true
    }
    "#);
}

#[test]
fn config_reports_home_source() {
    let home = home();
    let source = |command: &mut std::process::Command| {
        let output = home.start(command.args(["config", "--json"])).finish().success().json();
        assert_eq!(output["home"], "[HOME]");
        output["home_source"].as_str().unwrap().to_owned()
    };
    assert_eq!(source(home.command().current_dir(home.path("sandbox/skills"))), "ancestor");
    assert_eq!(source(home.command().args(["--home", "."])), "argument");
    assert_eq!(
        source(home.command().current_dir("/").env("SKILLHOST_HOME", home.root())),
        "variable"
    );
    let default = home.outside().join("data/skillhost");
    std::os::unix::fs::symlink(home.root(), default).unwrap();
    assert_eq!(source(home.command().current_dir("/")), "default");
}

#[test]
fn settings_errors_have_position() {
    let home = home().settings("# mine\nextension: {}\n");
    insta::assert_snapshot!(home.skillhost(["config"]), @"
    exit 2
    --- stderr
    error: [HOME]/skillhost.yaml:2:1: unknown field `extension`, expected one of `allow_shadowing`, `capability_modes`, `channels`, `console`, `events`, `extensions`, `lint`, `mcp`, `models`, `processes`, `sandbox`, `supervisor`, `tasks`, `telemetry`, `tool_aliases`, `build`, `workspaces`
    hint: did you mean `extensions`?
    ");
    home.write("skillhost.yaml", "extensions: [1]\n");
    insta::assert_snapshot!(home.skillhost(["ext", "list"]), @"
    exit 2
    --- stderr
    error: [HOME]/skillhost.yaml:1:13: extensions: invalid type: sequence, expected a map
    hint: see the valid keys: skillhost schema settings
    ");
    home.write("skillhost.yaml", "extensions: {a: {\n");
    insta::assert_snapshot!(home.skillhost(["skill", "list"]), @"
    exit 2
    --- stderr
    error: [HOME]/skillhost.yaml:2:1: did not find expected node content
    hint: see the valid keys: skillhost schema settings
    ");
    home.write("skillhost.yaml", "extensions:\n\tskill_registry: {}\n");
    insta::assert_snapshot!(home.skillhost(["skill", "list"]), @"
    exit 2
    --- stderr
    error: [HOME]/skillhost.yaml:2:1: tab in the indentation; YAML allows only spaces there
    hint: see the valid keys: skillhost schema settings
    ");
    home.write("skillhost.yaml", b"allow_shadowing: [\xff]\n");
    insta::assert_snapshot!(home.skillhost(["config"]), @"
    exit 2
    --- stderr
    error: [HOME]/skillhost.yaml:1:19: not UTF-8 text
    hint: see the valid keys: skillhost schema settings
    ");
    std::fs::remove_file(home.path("skillhost.yaml")).unwrap();
    std::fs::create_dir(home.path("skillhost.yaml")).unwrap();
    insta::assert_snapshot!(home.skillhost(["config"]), @"
    exit 5
    --- stderr
    error: [HOME]/skillhost.yaml: Is a directory (os error 21)
    hint: check that the file may be read
    ");
}

#[test]
fn extension_reports_unknown_setting() {
    let home = home().settings("extensions: {skill_registry: {poll_interval: 5}}\n");
    insta::assert_snapshot!(home.skillhost(["skill", "list"]), @"
    exit 2
    --- stderr
    error: the configuration of skill_registry: unknown field `poll_interval`, expected one of `roots`, `poll_interval_ms`, `l1_budget_chars`, `l1_full_limit`, `ignore`, `skills`, `search_embeddings`, `review`
    hint: see: skillhost config
    ");
    // The other extensions are loaded.
    insta::assert_snapshot!(home.skillhost(["ext", "list"]), @"
    exit 0
    --- stdout
    EXTENSION      STATE          VERSION PROVIDES
    echo           loaded         0.1.0   tools echo, context 200, service
    skill_registry rejected (new)         config: unknown field `poll_interval`, expected one of `roots`, `poll_interval_ms`, `l1_budget_chars`, `l1_full_limit`, `ignore`, `skills`, `search_embeddings`, `review`
    --- stderr
    note: `skill_registry` optionally depends on `embedding`, which does not exist
    note: skillhost ext doctor shows how to fix the rejected ones
    ");
    insta::assert_snapshot!(home.start(home.command().env("SKILLHOST_EXTENSIONS__ECHO", "x").arg("config")).finish(), @r#"
    exit 2
    --- stderr
    error: environment: invalid type: found string "x", expected a map for key "EXTENSIONS.ECHO" in `SKILLHOST_` environment variable(s)
    hint: see the valid keys: skillhost schema settings
    "#);
}

#[test]
fn schemas_match_documentation() {
    let home = home();
    let schema = home.skillhost(["schema", "manifest"]).success();
    let documented =
        std::fs::read_to_string(repository_root().join("docs/schema/manifest.json")).unwrap();
    assert_eq!(schema.stdout, documented);
    let settings = home.skillhost(["schema", "settings"]).success().json();
    let keys: Vec<_> = settings["properties"].as_object().unwrap().keys().collect();
    let expected = [
        "allow_shadowing",
        "build",
        "capability_modes",
        "channels",
        "console",
        "events",
        "extensions",
        "lint",
        "mcp",
        "models",
        "processes",
        "sandbox",
        "supervisor",
        "tasks",
        "telemetry",
        "tool_aliases",
        "workspaces",
    ];
    assert_eq!(keys, expected);
    assert_eq!(settings["additionalProperties"], false);
    insta::assert_snapshot!(home.skillhost(["schema", "manifset"]), @"
    exit 2
    --- stderr
    error: invalid value 'manifset' for '<FILE>'
      [possible values: manifest, settings]

      tip: a similar value exists: 'manifest'

    For more information, try '--help'.
    ");
}
