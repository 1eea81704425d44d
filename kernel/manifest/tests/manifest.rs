//! The parsed form of complete manifests.

use std::collections::BTreeMap;

use serde_json::json;
use skillhost_manifest::{
    AgentCatalog, AgentLimits, AgentManifest, AllowedToolsMode, CapabilityMode, EventDeclaration,
    EventDeclarations, EventHandler, EventSubscription, ExtensionDependency, ExtensionId,
    ExtensionKind, IntegrationMode, Located, Manifest, McpExports, ScheduleAction, ScheduleSpec,
    ToolNames, parse_manifest,
};
use skillhost_policy::{
    FilesystemLayer, Guarantee, IsolationLevel, LimitLayer, NetworkLayer, PolicyLayer,
};

fn id(text: &str) -> ExtensionId {
    ExtensionId::new(text).expect("a literal id is well-formed")
}

fn located(value: &str, line: u32, column: u32) -> Located<String> {
    Located { value: value.to_owned(), line, column }
}

fn library(id_text: &str, entrypoint: &str) -> Manifest {
    Manifest {
        id: id(id_text),
        name: "N".to_owned(),
        version: None,
        description: String::new(),
        kind: ExtensionKind::Library { entrypoint: entrypoint.to_owned() },
        depends_on: Vec::new(),
        config: json!({}),
        secrets: Vec::new(),
        optional_secrets: Vec::new(),
        env: BTreeMap::new(),
        start_timeout_ms: None,
        is_channel: false,
        sandbox: None,
        tools: ToolNames::default(),
        enabled: true,
        sha256: None,
        setup_instructions: None,
        events: EventDeclarations::default(),
        mcp: McpExports::default(),
        schedules: Vec::new(),
    }
}

/// The default agent section.
fn bare_agent() -> AgentManifest {
    AgentManifest {
        integration_mode: IntegrationMode::Standalone,
        model: None,
        instructions: None,
        parallel_tool_calls: None,
        parameters: json!({}),
        uses_tools: Vec::new(),
        uses_skills: Vec::new(),
        catalog: AgentCatalog::All,
        allowed_tools_mode: AllowedToolsMode::Grant,
        capability_mode: None,
        limits: AgentLimits {
            max_turns: None,
            max_tokens_per_invocation: None,
            time_budget_ms: None,
        },
    }
}

#[test]
fn minimal_library_has_documented_defaults() {
    assert_eq!(parse_manifest("id: a\nname: N\nentrypoint: b-C_9\n"), Ok(library("a", "b-C_9")));
}

#[test]
fn minimal_agent_has_documented_defaults() {
    let expected =
        Manifest { kind: ExtensionKind::Agent(Box::new(bare_agent())), ..library("a", "") };
    assert_eq!(parse_manifest("id: a\nname: N\nagent: {}\n"), Ok(expected.clone()));
    assert_eq!(expected.agent(), Some(&bare_agent()));
    assert_eq!(expected.entrypoint(), None);
}

#[test]
fn process_manifest_is_parsed() {
    let hash = "0a".repeat(32);
    let text = format!(
        "id: a\nname: N\nentrypoint:\n  command: [./bin/server, '', --flag=ä b]\n\
         sha256: {hash}\nmcp: {{tools: [t]}}\n"
    );
    let command: Vec<_> = ["./bin/server", "", "--flag=ä b"].map(str::to_owned).into();
    let expected = Manifest {
        kind: ExtensionKind::Process { command: command.clone() },
        sha256: Some([10; 32]),
        mcp: McpExports { tools: vec!["t".to_owned()] },
        ..library("a", "")
    };
    assert_eq!(parse_manifest(&text), Ok(expected.clone()));
    assert_eq!((expected.command(), expected.entrypoint()), (Some(&*command), None));
    for program in ["python3", "run.sh", "a/b..c/d", "..."] {
        let text = format!("id: a\nname: N\nentrypoint: {{command: [{program}]}}\n");
        let parsed = parse_manifest(&text).map(|manifest| manifest.kind);
        assert_eq!(parsed, Ok(ExtensionKind::Process { command: vec![program.to_owned()] }));
    }
}

#[test]
fn process_fields_are_parsed() {
    let text = "\
id: a
name: N
entrypoint: {command: [server]}
secrets: [KEY, {name: OTHER, optional: true}, {name: LAST}]
env: {HOME: /home/me, PORT: 8080, DEBUG: true, EMPTY: ''}
start_timeout_ms: 120000
channel: true
sandbox:
  filesystem: {allowRead: [~/wiki], denyRead: [~/wiki/private], allowWrite: [/srv/out]}
  network: {allowedDomains: ['*.example.org'], allowLocalBinding: false}
  limits: {memoryMib: 2048}
  minimum: namespaces
  require: [domains]
tools:
  prefix: w_
  rename: {read/file: read_report, echo: say}
  include: ['*']
  exclude: [delete_*]
";
    let owned = |pairs: &[(&str, &str)]| {
        pairs.iter().map(|(a, b)| ((*a).to_owned(), (*b).to_owned())).collect::<BTreeMap<_, _>>()
    };
    let requested = PolicyLayer {
        filesystem: Some(FilesystemLayer {
            allow_read: Some(vec!["~/wiki".to_owned()]),
            deny_read: vec!["~/wiki/private".to_owned()],
            allow_write: Some(vec!["/srv/out".to_owned()]),
            deny_write: Vec::new(),
        }),
        network: Some(NetworkLayer {
            allowed_domains: Some(vec!["*.example.org".to_owned()]),
            allow_local_binding: Some(false),
            ..NetworkLayer::default()
        }),
        limits: Some(LimitLayer { memory_mib: Some(2048), ..LimitLayer::default() }),
        minimum: Some(IsolationLevel::Namespaces),
        require: Some([Guarantee::Domains].into()),
    };
    let expected = Manifest {
        kind: ExtensionKind::Process { command: vec!["server".to_owned()] },
        secrets: ["KEY", "OTHER", "LAST"].map(str::to_owned).into(),
        optional_secrets: vec!["OTHER".to_owned()],
        env: owned(&[("HOME", "/home/me"), ("PORT", "8080"), ("DEBUG", "true"), ("EMPTY", "")]),
        start_timeout_ms: Some(120_000),
        is_channel: true,
        sandbox: Some(requested),
        tools: ToolNames {
            prefix: Some("w_".to_owned()),
            rename: owned(&[("read/file", "read_report"), ("echo", "say")]),
            include: Some(vec!["*".to_owned()]),
            exclude: vec!["delete_*".to_owned()],
        },
        ..library("a", "")
    };
    assert_eq!(parse_manifest(text), Ok(expected));
    let text = "id: a\nname: N\nentrypoint: a\ntools: {prefix: w_}\n";
    assert_eq!(parse_manifest(text).unwrap().tools.prefix.as_deref(), Some("w_"));
}

#[test]
fn full_library_is_parsed() {
    let hash = "0123456789abcdef0123456789ABCDEF0123456789abcdef0123456789ABCDEF";
    let text = format!(
        "\
# yaml-language-server: $schema=x.json
---
id: skill_registry
name: \"N\"
version: 1.10
description: >
  Two lines
  folded.
entrypoint: skill_registry
sha256: {hash}
depends_on:
  - kv
  - {{id: memory, optional: true}}
config:
  roots: [{{label: sandbox, path: sandbox/skills}}]
  poll: 5000
  ratio: 0.5
  big: 18446744073709551615
  hex: 0x1F
  quoted: '5'
  yes: yes
  none: ~
  nan: .nan
  dashes: ---
  1: one
secrets: [TOKEN, _x9]
enabled: false
setup_instructions: |
  Get a token.
events:
  publishes: [skill.changed, {{topic: 'skill.*', description: Any change.}}]
  subscribes: []
mcp:
  tools: [read_skill, a.b-c]
"
    );
    let hash_half = [0x01, 0x23, 0x45, 0x67, 0x89, 0xab, 0xcd, 0xef];
    let mut sha256 = [0; 32];
    for chunk in sha256.chunks_mut(8) {
        chunk.copy_from_slice(&hash_half);
    }
    let expected = Manifest {
        version: Some("1.10".to_owned()),
        description: "Two lines folded.\n".to_owned(),
        sha256: Some(sha256),
        depends_on: vec![
            ExtensionDependency { id: id("kv"), optional: false, line: 12, column: 5 },
            ExtensionDependency { id: id("memory"), optional: true, line: 13, column: 5 },
        ],
        config: json!({
            "roots": [{ "label": "sandbox", "path": "sandbox/skills" }],
            "poll": 5000, "ratio": 0.5, "big": u64::MAX, "hex": 31, "quoted": "5",
            "yes": "yes", "none": null, "nan": ".nan", "dashes": "---", "1": "one",
        }),
        secrets: vec!["TOKEN".to_owned(), "_x9".to_owned()],
        enabled: false,
        setup_instructions: Some("Get a token.\n".to_owned()),
        events: EventDeclarations {
            publishes: vec![
                EventDeclaration { topic: "skill.changed".to_owned(), description: None },
                EventDeclaration {
                    topic: "skill.*".to_owned(),
                    description: Some("Any change.".to_owned()),
                },
            ],
            subscribes: Vec::new(),
        },
        mcp: McpExports { tools: vec!["read_skill".to_owned(), "a.b-c".to_owned()] },
        schedules: Vec::new(),
        ..library("skill_registry", "skill_registry")
    };
    assert_eq!(parse_manifest(&text), Ok(expected.clone()));
    assert_eq!(parse_manifest(&text.replace('\n', "\r\n")), Ok(expected.clone()));
    assert_eq!(parse_manifest(&format!("\u{feff}{text}")), Ok(expected));
}

#[test]
fn full_agent_is_parsed() {
    let text = "\
id: builder
name: N
agent:
  integration_mode: tool
  model: some-model
  instructions: Be brief.
  parallel_tool_calls: false
  parameters: {temperature: 0.2}
  uses_tools: [core_tools, skill_registry, core_tools]
  uses_skills:
    - extension-development
    - Überblick
    - extension-development
  catalog: {include: ['review-*', plan], exclude: [review-old]}
  allowed_tools_mode: restrict
  capability_mode: enforce
  limits: {max_turns: 20, max_tokens_per_invocation: 5000000000, time_budget_ms: 1}
";
    let agent = AgentManifest {
        integration_mode: IntegrationMode::Tool,
        model: Some("some-model".to_owned()),
        instructions: Some("Be brief.".to_owned()),
        parallel_tool_calls: Some(false),
        parameters: json!({ "temperature": 0.2 }),
        uses_tools: vec![located("core_tools", 9, 16), located("skill_registry", 9, 28)],
        uses_skills: vec![located("extension-development", 11, 7), located("Überblick", 12, 7)],
        catalog: AgentCatalog::Globs {
            include: vec!["review-*".to_owned(), "plan".to_owned()],
            exclude: vec!["review-old".to_owned()],
        },
        allowed_tools_mode: AllowedToolsMode::Restrict,
        capability_mode: Some(CapabilityMode::Enforce),
        limits: AgentLimits {
            max_turns: Some(20),
            max_tokens_per_invocation: Some(5_000_000_000),
            time_budget_ms: Some(1),
        },
    };
    let expected =
        Manifest { kind: ExtensionKind::Agent(Box::new(agent)), ..library("builder", "") };
    assert_eq!(parse_manifest(text), Ok(expected));
}

#[test]
fn catalog_default_follows_bound_skills() {
    let catalog = |agent: &str| {
        let manifest = parse_manifest(&format!("id: a\nname: N\nagent: {agent}\n")).unwrap();
        manifest.agent().unwrap().catalog.clone()
    };
    let globs = |include: &[&str], exclude: &[&str]| AgentCatalog::Globs {
        include: include.iter().map(|&glob| glob.to_owned()).collect(),
        exclude: exclude.iter().map(|&glob| glob.to_owned()).collect(),
    };
    assert_eq!(catalog("{}"), AgentCatalog::All);
    assert_eq!(catalog("{uses_skills: []}"), AgentCatalog::All);
    assert_eq!(catalog("{uses_skills: [x]}"), AgentCatalog::Declared);
    assert_eq!(catalog("{uses_skills: [x], catalog: all}"), AgentCatalog::All);
    assert_eq!(catalog("{catalog: declared}"), AgentCatalog::Declared);
    assert_eq!(catalog("{catalog: none}"), AgentCatalog::None);
    assert_eq!(catalog("{catalog: {exclude: [x]}}"), globs(&["*"], &["x"]));
    assert_eq!(catalog("{catalog: {include: []}}"), globs(&[], &[]));
    assert_eq!(catalog("{catalog: [x, 'y-*']}"), globs(&["x", "y-*"], &[]));
    assert_eq!(catalog("{catalog: []}"), globs(&[], &[]));
}

#[test]
fn wire_names_match_manifest_words() {
    let globs = AgentCatalog::Globs { include: vec!["*".to_owned()], exclude: Vec::new() };
    let catalogs = [AgentCatalog::All, AgentCatalog::Declared, AgentCatalog::None, globs];
    assert_eq!(
        serde_json::to_value(catalogs).unwrap(),
        json!(["all", "declared", "none", { "include": ["*"], "exclude": [] }])
    );
    let modes = (IntegrationMode::Tool, AllowedToolsMode::Restrict);
    assert_eq!(serde_json::to_value(modes).unwrap(), json!(["tool", "restrict"]));
}

#[test]
fn schedules_and_handlers_are_parsed() {
    let text = "\
id: feeds
name: N
entrypoint: feeds
schedules:
  - {name: poll, cron: '*/15 * * * *', timezone: Europe/Berlin, task: poll, timeout_ms: 5000}
  - {name: tidy-up, cron: 0 3 * * SUN, tool: feeds_tidy, arguments: {days: 7}}
  - {name: count, cron: 5 0 1 1 *, tool: feeds_count}
events:
  subscribes:
    - skill.changed
    - {topic: 'skill.*', description: Read by a service.}
    - {topic: feed, handler: notify_user, text: 'new: {{ payload.title }}'}
    - {topic: '*', handler: notify_user}
    - {topic: feed.new, handler: invoke_agent, agent: reader, prompt: Read., timeout_ms: 9}
    - {topic: feed.gone, handler: custom}
";
    let schedule = |name: &str, cron: &str, action| ScheduleSpec {
        name: name.to_owned(),
        cron: cron.to_owned(),
        timezone: None,
        action,
        timeout_ms: None,
    };
    let tool = |name: &str, arguments| ScheduleAction::Tool { name: name.to_owned(), arguments };
    let subscription = |topic: &str, handler| EventSubscription {
        topic: topic.to_owned(),
        description: None,
        handler,
        timeout_ms: None,
    };
    let expected = Manifest {
        schedules: vec![
            ScheduleSpec {
                timezone: Some("Europe/Berlin".to_owned()),
                timeout_ms: Some(5000),
                ..schedule("poll", "*/15 * * * *", ScheduleAction::Task("poll".to_owned()))
            },
            schedule("tidy-up", "0 3 * * SUN", tool("feeds_tidy", json!({ "days": 7 }))),
            schedule("count", "5 0 1 1 *", tool("feeds_count", json!({}))),
        ],
        events: EventDeclarations {
            publishes: Vec::new(),
            subscribes: vec![
                subscription("skill.changed", None),
                EventSubscription {
                    description: Some("Read by a service.".to_owned()),
                    ..subscription("skill.*", None)
                },
                subscription("feed", {
                    let text = Some("new: {{ payload.title }}".to_owned());
                    Some(EventHandler::NotifyUser { text })
                }),
                subscription("*", Some(EventHandler::NotifyUser { text: None })),
                EventSubscription {
                    timeout_ms: Some(9),
                    ..subscription("feed.new", {
                        let (agent, prompt) = (Some(id("reader")), "Read.".to_owned());
                        Some(EventHandler::InvokeAgent { agent, prompt })
                    })
                },
                subscription("feed.gone", Some(EventHandler::Custom)),
            ],
        },
        ..library("feeds", "feeds")
    };
    assert_eq!(parse_manifest(text), Ok(expected));

    let agent = "id: a\nname: N\nagent: {}\nschedules:\n  - {name: a, cron: 0 9 * * *, prompt: Look.}\n\
                 events:\n  subscribes: [{topic: feed, handler: invoke_agent, prompt: Read.}]\n";
    let agent = parse_manifest(agent).unwrap();
    assert_eq!(
        agent.schedules,
        [schedule("a", "0 9 * * *", ScheduleAction::Prompt("Look.".to_owned()))]
    );
    let handler = EventHandler::InvokeAgent { agent: None, prompt: "Read.".to_owned() };
    assert_eq!(agent.events.subscribes, [subscription("feed", Some(handler))]);
}
