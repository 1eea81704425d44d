//! Tests of the structured results of `skillhost mcp` and of their schemas.

use std::fs;
use std::sync::Arc;

use serde_json::{Value, json};
use skill_catalog::{AgentAuthor, Store, SystemClock};
use skill_ledger::Ledger;
use skill_service::RegistryConfig;
use test_support::TestHome;

use crate::fixtures::{home, skill_md};
use crate::mcp_client::{Client, VERSION, texts};

/// Returns the violations of a schema. Knows only the keywords that the registry uses.
fn violations(schema: &Value, value: &Value, at: &str) -> Vec<String> {
    let mut found = Vec::new();
    for (keyword, rule) in schema.as_object().unwrap() {
        let fits = match keyword.as_str() {
            "description" => true,
            "type" => is_of_type(value, rule.as_str().unwrap()),
            "anyOf" => {
                rule.as_array().unwrap().iter().any(|rule| violations(rule, value, at).is_empty())
            }
            "enum" => rule.as_array().unwrap().contains(value),
            "minimum" => value.as_f64().is_none_or(|number| number >= rule.as_f64().unwrap()),
            "required" => rule.as_array().unwrap().iter().all(|name| {
                value.as_object().is_none_or(|object| object.contains_key(name.as_str().unwrap()))
            }),
            "additionalProperties" => {
                assert_eq!(rule, &json!(false), "{at}");
                value
                    .as_object()
                    .into_iter()
                    .flatten()
                    .all(|(name, _)| schema["properties"].as_object().unwrap().contains_key(name))
            }
            "properties" => {
                for (name, rule) in rule.as_object().unwrap() {
                    if let Some(inner) = value.get(name) {
                        found.extend(violations(rule, inner, &format!("{at}/{name}")));
                    }
                }
                true
            }
            "items" => {
                for (number, inner) in value.as_array().into_iter().flatten().enumerate() {
                    found.extend(violations(rule, inner, &format!("{at}/{number}")));
                }
                true
            }
            other => panic!("{at}: unknown keyword {other}"),
        };
        if !fits {
            found.push(format!("{at}: {keyword} {rule}: {value}"));
        }
    }
    found
}

fn is_of_type(value: &Value, kind: &str) -> bool {
    match kind {
        "object" => value.is_object(),
        "array" => value.is_array(),
        "string" => value.is_string(),
        "boolean" => value.is_boolean(),
        "integer" => value.is_u64() || value.is_i64(),
        "number" => value.is_number(),
        "null" => value.is_null(),
        other => panic!("unknown type {other}"),
    }
}

/// Calls a tool and returns its text and its value, which must match the tool's schema.
#[track_caller]
fn call_with_schema(client: &mut Client, tool: &str, arguments: &Value) -> (Value, String) {
    let mut answer = client.call(tool, arguments);
    assert_eq!(answer["isError"], false, "{answer}");
    assert_eq!(answer.get("_meta"), None);
    let value = answer["structuredContent"].take();
    let listed = client.result("tools/list", json!({}));
    let tools = listed["tools"].as_array().unwrap();
    let schema = &tools.iter().find(|listed| listed["name"] == tool).unwrap()["outputSchema"];
    let violations = violations(schema, &value, tool);
    assert!(violations.is_empty(), "{violations:#?}");
    (value, answer["content"][0]["text"].as_str().unwrap().to_owned())
}

#[test]
fn schema_check_finds_violations() {
    let schema = json!({
        "type": "object", "properties": {
            "a": { "anyOf": [{ "type": "string", "enum": ["x"] }, { "type": "null" }] },
            "b": { "type": "array", "items": { "type": "integer", "minimum": 1 } },
        },
        "required": ["a"], "additionalProperties": false,
    });
    let count = |value: Value| violations(&schema, &value, "").len();
    assert_eq!(count(json!({ "a": "x", "b": [1, 2] })), 0);
    assert_eq!(count(json!({ "a": null })), 0);
    assert_eq!(count(json!({ "b": [] })), 1);
    assert_eq!(count(json!({ "a": "y" })), 1);
    assert_eq!(count(json!({ "a": "x", "b": [0, "1", 1.5] })), 3);
    assert_eq!(count(json!({ "a": "x", "c": 1 })), 1);
    assert_eq!(count(json!([])), 1);
}

#[test]
fn text_tools_have_no_schema() {
    let home = home().file("sandbox/skills/greet/a.md", "A.\n");
    let mut client = Client::connect(&home);
    let listed = client.result("tools/list", json!({}));
    let kind = |tool: &Value| tool["outputSchema"]["type"].as_str().map(str::to_owned);
    let kinds: Vec<_> = listed["tools"].as_array().unwrap().iter().map(kind).collect();
    let kinds: Vec<_> = texts(&listed["tools"], "/name").into_iter().zip(kinds).collect();
    let object = Some("object".to_owned());
    let expected = [
        ("list_skills", object.clone()),
        ("propose_skill_update", object),
        ("read_skill", None),
        ("read_skill_resource", None),
        ("skills.load", None),
        ("skills.read", None),
    ];
    assert_eq!(kinds, expected.map(|(name, kind)| (name.to_owned(), kind)));
    for (tool, arguments) in [
        ("read_skill", json!({ "skill_id": "greet" })),
        ("read_skill_resource", json!({ "skill_id": "greet", "path": "a.md" })),
    ] {
        let answer = client.call(tool, arguments);
        // Clients would give the value to the model instead of the text.
        assert_eq!(answer.get("structuredContent"), None, "{tool}");
        assert_eq!(answer["_meta"]["skillhost/structured"]["skill_id"], "greet", "{tool}");
    }
    // The schema does not describe errors.
    for (tool, arguments) in [
        ("list_skills", json!({ "limit": "many" })),
        ("propose_skill_update", json!({ "skill_id": "greet", "justification": "" })),
    ] {
        let answer = client.call(tool, arguments);
        assert_eq!(answer["isError"], true, "{tool}");
        assert_eq!(answer.get("structuredContent"), None, "{tool}");
        let kind = &answer["_meta"]["skillhost/structured"]["error"]["kind"];
        assert_eq!(kind, "invalid_argument", "{tool}");
    }
}

/// Creates a home with a skill of every list kind, and returns the directory of one more root.
fn home_of_every_kind() -> (TestHome, String) {
    let settings = "extensions: {skill_registry: {skills: {tagged: name-only}}}\n";
    let home = home()
        .settings(settings)
        .skill("tagged", "---\ndescription: Greets in Rust.\ntags: [rust]\n---\nGreet.\n")
        .skill("tea", &skill_md("Brews tea.", "Boil water."));
    // The file tools of an agent created this skill.
    let clock = Arc::new(SystemClock);
    let options = RegistryConfig::default().options(&home.root(), None);
    let store = Store::open(options, Arc::<SystemClock>::clone(&clock)).unwrap();
    let ledger = Ledger::new(home.path("sandbox/data/skill_registry"), clock);
    ledger.report_created(&store.snapshot(), &AgentAuthor::default(), "tea").unwrap();
    let team = home.outside().join("team");
    fs::create_dir_all(team.join("shared")).unwrap();
    fs::write(team.join("shared/SKILL.md"), skill_md("Shared.", "Shared.")).unwrap();
    let root = format!("team={}", team.display());
    (home, root)
}

#[test]
fn skill_lists_match_schema() {
    let (home, root) = home_of_every_kind();
    let interval = "SKILLHOST_EXTENSIONS__SKILL_REGISTRY__POLL_INTERVAL_MS";
    let mut command = home.command();
    let mut client =
        Client::connect_with(command.env(interval, "20").args(["mcp", "--root", &root]));
    let (all, text) = call_with_schema(&mut client, "list_skills", &json!({}));
    assert_eq!(texts(&all["skills"], "/skill_id"), ["greet", "shared", "tagged", "tea"]);
    assert_eq!(
        (&all["total"], &all["matched"], &all["omitted"]),
        (&json!(4), &json!(4), &json!(0))
    );
    let field = |at: usize, key: &str| all["skills"][at][key].clone();
    assert_eq!((field(1, "trust"), field(1, "source")), (json!("untrusted"), json!("team")));
    assert_eq!((field(2, "skill_state"), field(2, "tags")), (json!("name-only"), json!(["rust"])));
    assert!(field(3, "unapproved").is_object(), "{text}");
    // Every fact of the text is in the value as well.
    for skill in all["skills"].as_array().unwrap() {
        for key in ["skill_id", "description", "source"] {
            assert!(text.contains(skill[key].as_str().unwrap()), "{text}");
        }
    }
    let (one, _) = call_with_schema(&mut client, "list_skills", &json!({ "limit": 1 }));
    assert_eq!(
        (&one["omitted"], texts(&one["skills"], "/skill_id")),
        (&json!(3), vec!["greet".to_owned()])
    );
    let query = json!({ "query": "greets people \"no such phrase\"" });
    let (found, text) = call_with_schema(&mut client, "list_skills", &query);
    assert_eq!(found["skills"][0]["skill_id"], "greet");
    assert_eq!(found["unmet"], json!(["\"no such phrase\""]));
    assert!(found["skills"][0]["score"].is_number(), "{found}");
    // The search index may still be incomplete; text and value must agree on that.
    assert_eq!(found.get("caution").is_some(), text.contains("the index is being built"));
    let (none, _) =
        call_with_schema(&mut client, "list_skills", &json!({ "tags": ["no-such-tag"] }));
    assert_eq!(none["skills"], json!([]));
    // A missing root makes the list incomplete.
    fs::remove_dir_all(home.outside().join("team")).unwrap();
    loop {
        let (all, text) = call_with_schema(&mut client, "list_skills", &json!({}));
        assert_eq!(all.get("partial").is_some(), text.contains("the list is not complete"));
        if all.get("partial").is_some() {
            assert_eq!(all["partial"]["reasons"][0]["reason"], "root_vanished");
            break;
        }
    }
}

#[test]
fn proposals_match_schema() {
    let home = home();
    let mut client = Client::connect(&home);
    let diff = "```diff\n@@ -40 +40 @@\n-Say hello to them.\n+Say hello to them, by name.\n```\n";
    let change = json!({ "skill_id": "greet", "diff": diff, "justification": "Warmer." });
    let (made, text) = call_with_schema(&mut client, "propose_skill_update", &change);
    assert_eq!((&made["number"], &made["state"]), (&json!(1), &json!("open")));
    assert!(!made["fuzz"].as_array().unwrap().is_empty(), "{made}");
    assert!(text.ends_with(made["next"].as_str().unwrap()) || text.contains("\nNote: "), "{text}");
    let (repeated, text) = call_with_schema(&mut client, "propose_skill_update", &change);
    assert_eq!((&repeated["merged"], &repeated["count"]), (&json!(true), &json!(2)));
    assert!(text.contains(repeated["next"].as_str().unwrap()), "{text}");
    let flagged = json!({
        "skill_id": "greet", "justification": "It tells more.",
        "new_content": "---\nname: greet\ndescription: Greets.\nallowed-tools: Bash\n---\n\
                        Read [this](references/none.md).\u{200b}\n",
    });
    let (made, text) = call_with_schema(&mut client, "propose_skill_update", &flagged);
    assert_eq!(texts(&made["flags"], "/flag"), ["hidden_unicode", "frontmatter"]);
    let rules = |field: &str| texts(&made["lint"][field], "/rule");
    let reported = |what: &str, rule: &String| text.contains(&format!("\nIt {what} {rule}: "));
    assert!(rules("new").len() == 3 && rules("new").iter().all(|r| reported("adds", r)), "{text}");
    assert!(
        rules("gone").len() == 1 && rules("gone").iter().all(|r| reported("resolves", r)),
        "{text}"
    );
    let new = json!({
        "skill_id": "tea", "justification": "They asked.",
        "new_content": "---\nname: tea\ndescription: Brews tea.\n---\nBoil water.\n",
    });
    let (made, _) = call_with_schema(&mut client, "propose_skill_update", &new);
    assert_eq!(made["base_digest"], Value::Null);
}

#[test]
fn value_contains_review_decision() {
    let home = home().settings("mcp: {review: elicitation}");
    let mut client = Client::spawn(home.command().arg("mcp"));
    client.initialize(VERSION, &json!({ "elicitation": {} }));
    let schema = client.result("tools/list", json!({}))["tools"][1]["outputSchema"].take();
    let change = json!({
        "skill_id": "greet", "justification": "Politer.", "new_content": skill_md("Greets.", "Bow."),
    });
    let call = json!({ "name": "propose_skill_update", "arguments": change });
    let id = client.send_request("tools/call", call);
    let question = client.notification("elicitation/create");
    let answer = json!({ "action": "accept", "content": { "decision": "approve" } });
    client.send(&json!({ "jsonrpc": "2.0", "id": question["id"], "result": answer }));
    let result = client.response(id)["result"].take();
    let value = &result["structuredContent"];
    assert_eq!(violations(&schema, value, ""), Vec::<String>::new());
    let review = value["review"].as_str().unwrap();
    assert!(review.starts_with("A person approved it"), "{review}");
    assert!(result["content"][0]["text"].as_str().unwrap().contains(review), "{result}");
    assert_eq!((&value["state"], &value["next"]), (&json!("applied"), &value["review"]));
}

#[test]
fn list_without_home_matches_schema() {
    let home = TestHome::new();
    let directory = home.outside().join("elsewhere/.agents/skills/near");
    fs::create_dir_all(&directory).unwrap();
    fs::write(directory.join("SKILL.md"), skill_md("Near.", "Near.")).unwrap();
    let elsewhere = home.outside().join("elsewhere");
    let mut client = Client::connect_with(home.command().current_dir(&elsewhere).arg("mcp"));
    let (all, _) = call_with_schema(&mut client, "list_skills", &json!({}));
    assert_eq!(texts(&all["skills"], "/skill_id"), ["near"]);
    let (found, _) = call_with_schema(&mut client, "list_skills", &json!({ "query": "near" }));
    assert_eq!(found["skills"][0]["matched"], json!(["id", "description"]));
}
