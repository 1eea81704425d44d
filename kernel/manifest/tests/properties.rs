//! For any text `parse_manifest` returns, its errors point into the text, and an accepted text is
//! valid under the schema.

use std::collections::HashMap;
use std::sync::{LazyLock, Mutex};

use proptest::prelude::*;
use proptest::test_runner::RngSeed;
use regex::Regex;
use serde_json::Value;
use skillhost_manifest::{manifest_schema, parse_manifest};

const LIBRARY: &str = "\
id: skill_registry
name: Skill registry
version: 1.2.3-beta+4
description: >
  Lists skills.
entrypoint: skill_registry
sha256: 0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef
depends_on: [kv, {id: memory, optional: true}]
config:
  roots: [{label: sandbox, path: sandbox/skills}]
  poll_interval_ms: 5000
secrets: [TOKEN]
enabled: true
setup_instructions: |
  Get a token.
events:
  publishes: [skill.changed, {topic: 'skill.*', description: Any.}]
  subscribes:
    - {topic: skill.added, handler: notify_user, text: '{{ payload.id }}'}
    - {topic: skill, handler: invoke_agent, agent: builder, prompt: Look., timeout_ms: 5}
    - {topic: '*', handler: custom}
schedules:
  - name: poll
    cron: '*/15 * * * *'
    timezone: Europe/Berlin
    task: poll
    timeout_ms: 60000
  - {name: tidy, cron: 0 3 * * SUN, tool: tidy, arguments: {days: 7}}
";

const AGENT: &str = "\
# yaml-language-server: $schema=manifest.json
id: builder
name: \"Builder\"
version: 1.10
agent:
  integration_mode: tool
  model: some-model
  instructions: Be brief.
  parallel_tool_calls: false
  parameters: {temperature: 0.2}
  uses_tools: [core_tools, skill_registry]
  uses_skills: [extension-development]
  catalog: {include: ['review-*'], exclude: []}
  allowed_tools_mode: restrict
  capability_mode: report
  limits:
    max_turns: 20
    max_tokens_per_invocation: 100000
    time_budget_ms: 60000
depends_on: [skill_registry]
schedules: [{name: daily, cron: 0 9 * * 1-5, prompt: Look around.}]
";

const PROCESS: &str = "\
id: weather
name: Weather
entrypoint: {command: [npx, -y, weather-server]}
secrets: [WEATHER_KEY]
env: {UNITS: metric, PORT: 8080, DEBUG: false}
start_timeout_ms: 60000
channel: true
sandbox:
  filesystem: {allowRead: [/srv/wiki, ~/notes], denyRead: [], allowWrite: [~/], denyWrite: [~/a]}
  network: {allowedDomains: [api.example.org, '*.b.example'], allowUnixSockets: [/run/x]}
  limits: {memoryMib: 512, tasks: 64, fileMib: 8, diskMib: 9, files: 10, temporaryMib: 11}
  minimum: landlock
  require: [files, deny_inside]
tools:
  prefix: weather_
  rename: {get: weather_now}
  include: ['*']
  exclude: [delete_*]
mcp: {tools: [weather_now]}
";

static SCHEMA: LazyLock<Value> = LazyLock::new(manifest_schema);

/// Matches a text against a pattern of the schema; each pattern is compiled once.
fn matches(pattern: &str, text: &str) -> bool {
    static COMPILED: LazyLock<Mutex<HashMap<String, Regex>>> = LazyLock::new(Mutex::default);
    let mut compiled = COMPILED.lock().expect("a test that panics has failed anyway");
    let regex = compiled
        .entry(pattern.to_owned())
        .or_insert_with(|| Regex::new(pattern).expect("the schema has valid patterns"));
    regex.is_match(text)
}

fn config() -> ProptestConfig {
    ProptestConfig {
        rng_seed: RngSeed::Fixed(11),
        failure_persistence: None,
        ..ProptestConfig::with_cases(1_500)
    }
}

/// Checks the invariants of every text.
fn check(text: &str) {
    match parse_manifest(text) {
        Ok(_) => {
            // The other parser rejects parts of YAML 1.2, such as `[a:]`.
            let Ok(value) = serde_yaml::from_str::<Value>(text) else { return };
            let violation = find_violation(&SCHEMA, &value);
            assert_eq!(violation, None, "accepted, but not valid under the schema:\n{text}");
        }
        Err(errors) => {
            let lines = text.lines().count().max(1);
            let positions: Vec<_> = errors.iter().map(|error| (error.line, error.column)).collect();
            assert!(!positions.is_empty(), "an error has a position");
            assert!(positions.is_sorted(), "{positions:?}");
            for (line, column) in positions {
                // An error at the end of the text may be found on the line after the last.
                assert!(line >= 1 && line as usize <= lines + 1 && column >= 1, "{errors}\n{text}");
            }
            assert_eq!(errors.to_string().lines().count(), errors.as_slice().len());
        }
    }
}

/// Returns the first violation of a schema, for the part of JSON Schema that ours uses.
fn find_violation(schema: &Value, value: &Value) -> Option<String> {
    let fail = |keyword: &str| Some(format!("{keyword}: {value} under {schema}"));
    let choices = |key: &str| schema[key].as_array().cloned();
    for (keyword, constraint) in schema.as_object().expect("a schema is an object") {
        let holds = match keyword.as_str() {
            "$schema" | "title" | "description" | "default" => true,
            "type" => match constraint.as_str().expect("one type") {
                "object" => value.is_object(),
                "array" => value.is_array(),
                "string" => value.is_string(),
                "boolean" => value.is_boolean(),
                "number" => value.is_number(),
                "integer" => value.is_u64() || value.is_i64(),
                other => panic!("unknown type {other}"),
            },
            "enum" => constraint.as_array().expect("a list").contains(value),
            "minimum" => value.as_f64() >= constraint.as_f64(),
            "maximum" => value.as_f64() <= constraint.as_f64(),
            "minItems" | "maxItems" => {
                let length = value.as_array().map(|items| items.len() as u64);
                match (length, constraint.as_u64()) {
                    (Some(length), least) if keyword == "minItems" => Some(length) >= least,
                    (Some(length), most) => Some(length) <= most,
                    (None, _) => true,
                }
            }
            "pattern" => {
                let pattern = constraint.as_str().expect("text");
                value.as_str().is_some_and(|text| matches(pattern, text))
            }
            "required" => {
                let mut names = constraint.as_array().into_iter().flatten();
                names.all(|name| value.get(name.as_str().expect("a name")).is_some())
            }
            "const" => value == constraint,
            "anyOf" | "oneOf" => {
                let choices = choices(keyword).expect("a list");
                let valid = choices.iter().filter(|choice| find_violation(choice, value).is_none());
                let valid = valid.count();
                if keyword == "oneOf" { valid == 1 } else { valid >= 1 }
            }
            "items" => {
                let mut items = value.as_array().into_iter().flatten();
                if let Some(found) = items.find_map(|item| find_violation(constraint, item)) {
                    return Some(found);
                }
                true
            }
            "properties" => {
                for (name, value) in value.as_object().into_iter().flatten() {
                    let known = constraint.get(name);
                    if let Some(found) = known.and_then(|schema| find_violation(schema, value)) {
                        return Some(found);
                    }
                }
                true
            }
            "additionalProperties" => {
                let known = schema["properties"].as_object();
                let is_known = |name: &String| known.is_some_and(|known| known.contains_key(name));
                let fields = || value.as_object().into_iter().flatten();
                let mut others = fields().filter(|(name, _)| !is_known(name));
                if constraint.is_object() {
                    if let Some(found) =
                        others.find_map(|(_, value)| find_violation(constraint, value))
                    {
                        return Some(found);
                    }
                    true
                } else {
                    constraint == true || others.next().is_none()
                }
            }
            other => panic!("the schema uses the unsupported keyword {other}"),
        };
        if !holds {
            return fail(keyword);
        }
    }
    None
}

#[test]
fn samples_are_valid() {
    for text in [LIBRARY, AGENT, PROCESS] {
        assert!(parse_manifest(text).is_ok(), "{:?}", parse_manifest(text));
        check(text);
    }
}

#[test]
fn schema_rejects_invalid_manifests() {
    let rejected = [
        "{id: a, name: N, entrypoint: a, zzz: 1}",
        "{id: a, name: N, agent: {zzz: 1}}",
        "{id: a, name: N, agent: {limits: {zzz: 1}}}",
        "{id: a, name: N, agent: {catalog: {zzz: []}}}",
        "{id: a, name: N, entrypoint: a, depends_on: [{id: b, zzz: 1}]}",
        "{id: a, name: N, entrypoint: a, events: {zzz: []}}",
        "{id: a, name: N, entrypoint: a, events: {publishes: [{topic: b, zzz: 1}]}}",
        "{id: a, name: N, entrypoint: a, schedules: [{name: a, task: b}]}",
        "{id: a, name: N, entrypoint: a, schedules: [{name: A, cron: 0 0 * * *, task: b}]}",
        "{id: a, name: N, entrypoint: a, schedules: [{name: a, cron: 0 0 * * *, task: b, at: c}]}",
        "{id: a, name: N, entrypoint: a, events: {subscribes: [{topic: b, handler: tell}]}}",
        "{id: a, name: N, entrypoint: a, agent: {}}",
        "{id: a, name: N}",
        "{id: a, entrypoint: a}",
        "{id: A, name: N, entrypoint: a}",
        "{id: a, name: N, entrypoint: {}}",
        "{id: a, name: N, entrypoint: {command: []}}",
        "{id: a, name: N, entrypoint: {command: sh}}",
        "{id: a, name: N, entrypoint: {command: [sh], args: []}}",
        "{id: a, name: N, entrypoint: {command: [\"a\\nb\"]}}",
        "{id: a, name: N, entrypoint: ../a}",
        "{id: a, name: N, agent: {limits: {max_turns: 0}}}",
        "{id: a, name: N, agent: {integration_mode: handoff}}",
        "{id: a, name: N, agent: ~}",
    ];
    for text in rejected {
        let value: Value = serde_yaml::from_str(text).unwrap();
        assert!(find_violation(&SCHEMA, &value).is_some(), "the schema accepts {text}");
        assert!(parse_manifest(text).is_err(), "parse accepts {text}");
    }
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn any_text_is_handled(text in any::<String>()) {
        check(&text);
    }

    #[test]
    fn yaml_like_text_is_handled(
        text in "([ ]{0,4}(id|name|agent|config|- |\\? |[a-c]|[-:?,\\[\\]{}#&*!|>'\"%@` \t~0-9.]){1,8}\n?){0,8}",
    ) {
        check(&text);
    }

    #[test]
    fn mutated_manifests_are_handled(
        agent in any::<bool>(),
        cuts in prop::collection::vec((any::<prop::sample::Index>(), 0..12_usize, "[a-z:\\-\\[\\]{}#&*!|>'\" \t\n~0-9é\u{0}]{0,4}"), 1..4),
    ) {
        let mut chars: Vec<char> = if agent { AGENT } else { LIBRARY }.chars().collect();
        for (at, length, replacement) in cuts {
            let start = at.index(chars.len() + 1);
            let end = (start + length).min(chars.len());
            chars.splice(start..end, replacement.chars());
        }
        check(&chars.into_iter().collect::<String>());
    }

    #[test]
    fn shuffled_lines_are_handled(
        agent in any::<bool>(),
        order in prop::collection::vec(any::<prop::sample::Index>(), 0..25),
    ) {
        let lines: Vec<&str> = if agent { AGENT } else { LIBRARY }.lines().collect();
        let mut chosen: Vec<usize> = order.iter().map(|index| index.index(lines.len())).collect();
        chosen.sort_unstable();
        let text: String = chosen.iter().flat_map(|&index| [lines[index], "\n"]).collect();
        check(&text);
    }

    #[test]
    fn values_match_serde_yaml(
        value in "[-+]?(0x[0-9a-f]{1,3}|0o[0-7]{1,3}|[0-9]{1,18}|[0-9]{0,3}\\.[0-9]{0,3}(e[-+]?[0-9])?|true|True|null|yes|on|~|[a-z]{1,4}|1_0|12:30)",
    ) {
        let text = format!("id: a\nname: N\nentrypoint: a\nconfig: {{value: {value}}}\n");
        let expected: Value = serde_yaml::from_str(&text).unwrap();
        let manifest = parse_manifest(&text).map(|manifest| manifest.config);
        prop_assert_eq!(manifest, Ok(expected["config"].clone()));
    }
}
