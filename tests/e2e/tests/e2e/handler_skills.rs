//! Tests of the programs of skills: found, shown, listed and called.

mod calls;
mod figures;
mod sdk_document;

use std::fs;

use serde_json::{Value, json};
use test_support::{TestHome, can_isolate, find_interpreter};

use crate::fixtures::{agent_manifest, home, start_kernel};

const QUOTES: &str = "---\nname: quotes\ndescription: Looks quotes up.\n---\nAsk for the symbol.\n";
const INDEX: &str = "export default async (args, ctx) => ({ result: { symbol: args.symbol, skill: ctx.skill.name } });\n";
/// A tool that describes itself.
const CHART: &str = "export class Tool {\n  name = 'chart';\n  description = 'Draws a chart.';\n  \
    schema = { type: 'object', properties: { days: { type: 'integer' } }, required: ['days'] };\n  \
    async invoke(args) { return { days: args.days }; }\n}\n";
const PYTHON: &str =
    "def handler(args, ctx):\n    return {'result': {'count': len(ctx.skill.resources)}}\n";

fn quotes_home() -> TestHome {
    home()
        .file("sandbox/skills/quotes/SKILL.md", QUOTES)
        .file("sandbox/skills/quotes/index.mjs", INDEX)
        .file("sandbox/skills/quotes/chart.mjs", CHART)
        .file("sandbox/skills/quotes/count.py", PYTHON)
        .file("sandbox/skills/quotes/references/REFERENCE.md", "# API\n")
}

/// Returns whether programs can run here; prints why not.
fn can_run_programs() -> bool {
    can_isolate() && find_interpreter("node").is_some() && find_interpreter("python3").is_some()
}

fn call(home: &TestHome, arguments: &[&str]) -> Value {
    let command = [&["skill", "call", "--json"], arguments].concat();
    home.skillhost(command).success().json()["structured"].clone()
}

/// Approves the scripts and programs of a skill as they are.
fn approve_programs(home: &TestHome, id: &str) {
    let shown = home.skillhost(["skill", "show", id, "--json"]).success().json();
    let digest = shown["scripts"]["digest"].as_str().unwrap();
    home.skillhost(["skill", "approve-scripts", id, "--yes", "--digest", digest]).success();
}

fn tool_names(home: &TestHome, agent: &str) -> Vec<String> {
    let listed = home.skillhost(["tool", "list", "--json", "--agent", agent]).success().json();
    let tools = listed["tools"].as_array().unwrap();
    tools.iter().map(|tool| tool["name"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn instructions_are_result_without_program() {
    let home = home().file("sandbox/skills/greet/assets/card.svg", "<svg/>");
    let result = call(&home, &["greet"]);
    assert_eq!(
        result,
        json!({
            "name": "greet",
            "description": "Greets people. Use when somebody arrives.",
            "instructions": "Say hello to them.\n",
            "resources": [{ "path": "assets/card.svg", "type": "data" }],
            "dirPath": "[HOME]/sandbox/skills/greet",
        })
    );
    assert_eq!(call(&home, &["tools/greet", "{}"]), result);
}

#[test]
fn calls_name_faults() {
    let home = home()
        .file("sandbox/skills/broken/SKILL.md", QUOTES.replace("quotes", "broken"))
        .file("sandbox/skills/broken/tool.json", "{\n  \"kind\": \"mcp\"\n}\n")
        .file("sandbox/skills/quotes/SKILL.md", QUOTES)
        .file("sandbox/skills/quotes/index.mjs", INDEX);
    insta::assert_snapshot!(home.skillhost(["skill", "call", "broken"]), @"
    exit 2
    --- stderr
    error: the programs of `broken` cannot be used: tool.json:2:11: the kind `mcp` is not a skill but a process extension
    hint: add the server as an extension: a manifest.yaml with its `command`, in a directory of sandbox/extensions
    ");
    insta::assert_snapshot!(home.skillhost(["skill", "call", "quotes", "chart", "{}"]), @"
    exit 3
    --- stderr
    error: skill `quotes` has no program `chart`
    hint: its programs are: index
    ");
    insta::assert_snapshot!(home.skillhost(["skill", "call", "quoets"]), @"
    exit 3
    --- stderr
    error: skill `quoets` not found
    hint: did you mean `quotes`?
    ");
    insta::assert_snapshot!(home.skillhost(["skill", "call", "quotes", "{"]), @r#"
    exit 2
    --- stderr
    error: the arguments are not JSON: EOF while parsing an object at line 1 column 1
    hint: write one JSON object: skillhost skill call quotes '{"key": "value"}'
    "#);
}

#[test]
fn validate_names_line_and_column() {
    let home = home()
        .file("sandbox/skills/quotes/SKILL.md", QUOTES)
        .file("sandbox/skills/quotes/tool.json", "{\n  \"kind\": \"n8n\"\n}\n")
        .file("sandbox/skills/lost/tool.json", "{\"kind\": \"skill\"}\n");
    let paths = ["sandbox/skills/quotes", "sandbox/skills/lost"];
    insta::assert_snapshot!(home.skillhost([&["skill", "validate"], &paths[..]].concat()), @r#"
    exit 1
    --- stdout
    error[programs.unsupported]: the kind `n8n` is not supported
     --> sandbox/skills/quotes/tool.json:2:11
      |
    2 |   "kind": "n8n"
      |           ^^^^^
      |
      = help: publish the workflow as an MCP server and add it as an extension

    error[structure.missingSkillMd]: tool.json declares a skill, but there is no SKILL.md
     --> sandbox/skills/lost
     = help: write a SKILL.md with `name`, `description` and instructions next to it

    1 skill: invalid; 1 error, 1 problem
    "#);
    let shown = home.skillhost(["skill", "show", "quotes"]).success().stdout;
    let finding = "tool.json:2:11: error[programs.unsupported]: the kind `n8n` is not supported";
    assert!(shown.contains(finding), "{shown}");
}

#[test]
fn programs_are_called_by_operator() {
    if !can_run_programs() {
        return;
    }
    let home = quotes_home();
    let result = call(&home, &["quotes", "{\"symbol\": \"ACME\"}"]);
    assert_eq!(result["result"], json!({ "symbol": "ACME", "skill": "quotes" }));
    assert_eq!(call(&home, &["quotes", "chart", "{\"days\": 7}"])["result"], json!({ "days": 7 }));
    assert_eq!(call(&home, &["quotes", "count"])["result"], json!({ "count": 4 }));
    let explained = home.skillhost(["skill", "call", "quotes", "--explain"]).success();
    assert!(explained.stdout.contains("index.mjs"), "{}", explained.stdout);
}

#[test]
fn agents_are_offered_granted_programs() {
    if !can_run_programs() {
        return;
    }
    let home = quotes_home()
        .manifest("reader", &agent_manifest("reader", "  uses_tools: [skill_registry]\n"));
    let is_offered = |name: &str| tool_names(&home, "reader").iter().any(|it| it == name);
    assert!(!is_offered("quotes") && !is_offered("quotes.chart"));
    // Nothing of it is prepared for the list either.
    assert!(!home.path("sandbox/work/program-list").exists());
    approve_programs(&home, "quotes");
    assert!(is_offered("quotes") && is_offered("quotes.chart") && is_offered("quotes.count"));
    // The program's own statement precedes SKILL.md.
    let shown = home.skillhost(["tool", "show", "quotes.chart", "--json"]).success().json();
    assert_eq!(shown["description"], "Draws a chart.");
    assert_eq!(shown["input_schema"]["required"], json!(["days"]));
    // A changed skill needs another grant.
    home.write("sandbox/skills/quotes/references/REFERENCE.md", "# Other\n");
    assert!(!is_offered("quotes"));
}

#[test]
fn removed_program_is_unknown_to_running_kernel() {
    let home = home()
        .file("sandbox/skills/quotes/SKILL.md", QUOTES)
        .file("sandbox/skills/quotes/tool.json", "{\"kind\": \"skill\"}");
    let kernel = start_kernel(&home);
    assert_eq!(call(&home, &["quotes"])["name"], "quotes");
    assert!(home.skillhost(["tool", "list"]).success().stdout.contains("quotes"));
    fs::remove_dir_all(home.path("sandbox/skills/quotes")).unwrap();
    kernel.line_with("skill.removed quotes");
    assert!(!home.skillhost(["tool", "list"]).success().stdout.contains("quotes"));
    home.skillhost(["skill", "call", "quotes"]).exits(3);
}
