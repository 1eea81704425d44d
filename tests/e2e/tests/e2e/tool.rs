//! Tests of `skillhost tool list` and `skillhost tool call`.

use std::fs;
use std::process::Stdio;

use serde_json::json;
use test_support::{TestHome, library};

use crate::fixtures::{agent_manifest, home, shipped_manifest, stable_json, start_kernel};

#[test]
fn operator_sees_every_tool() {
    let home = home();
    insta::assert_snapshot!(home.skillhost(["tool", "list"]), @"
    exit 0
    --- stdout
    TOOL                 EXTENSION      DESCRIPTION
    echo                 echo           Repeats a text.
    explain_catalog      skill_registry Explains which skills an agent sees for a prompt, why others are missing, and which parts of the catalog in its prompt are cut.
    list_skills          skill_registry Lists the available skills: id, description, tags, tokens. With a query, finds the skills that fit a task, the best first. Use it when the catalog in the prompt is cut or none of its skills seems to fit.
    propose_skill_update skill_registry Proposes a better text for a file of a skill, or a new skill, to the person who maintains them. Use it when following a skill showed that it is wrong, outdated or lacks something. It never changes the skill: a person reviews the proposal later, so go on with the skill as it is. Read the file first, then give either `diff` (a unified diff against exactly its current text; for small edits) or `new_content` (the whole new text). For a new skill give a new `skill_id` and a whole SKILL.md with its frontmatter.
    read_skill           skill_registry Loads the full instructions of a skill. Use it before a task that a skill of the catalog covers, and follow them.
    read_skill_resource  skill_registry Reads a file of a skill: a template, reference or script that its instructions name.
    skills.load          skill_registry Loads skills by their names in the catalog. You must load a skill before you use its instructions, files or scripts. From your next message on, the instructions of the loaded skills are in <active_skills>; if they conflict, the later one applies. The mode replace (the default) unloads the others, add keeps them.
    skills.read          skill_registry Reads a file of a loaded skill (a reference, a template, an asset) by its path in the skill; of the skill loaded last if `skill` is not given. Binary files are base64. Continue a long file at next_offset.
    skills.unload        skill_registry Unloads skills that are no longer needed: those of `names`, or `all`. Their instructions no longer apply.
    ");
    let listed = home.skillhost(["tool", "list", "--json"]).success().json();
    let names: Vec<_> =
        listed["tools"].as_array().unwrap().iter().map(|tool| &tool["name"]).collect();
    let all = [
        "echo",
        "explain_catalog",
        "list_skills",
        "propose_skill_update",
        "read_skill",
        "read_skill_resource",
        "skills.load",
        "skills.read",
        "skills.unload",
    ];
    assert_eq!(names, all);
    assert_eq!(listed["failed"], json!([]));
    let echo = json!({
        "type": "object",
        "properties": { "text": { "type": "string", "description": "What to repeat" } },
        "required": ["text"],
        "additionalProperties": false,
    });
    assert_eq!(listed["tools"][0]["input_schema"], echo);
}

#[test]
fn agent_sees_only_its_tools() {
    let home = home()
        .manifest("reader", &agent_manifest("reader", "  uses_tools: [skill_registry]\n"))
        .manifest("idle", &agent_manifest("idle", "  instructions: Wait.\n"));
    let names = |id: &str| {
        let listed = home.skillhost(["tool", "list", "--json", "--agent", id]).success().json();
        let tools = listed["tools"].as_array().unwrap().clone();
        tools.iter().map(|tool| tool["name"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    let registry = [
        "list_skills",
        "propose_skill_update",
        "read_skill",
        "read_skill_resource",
        "skills.load",
        "skills.read",
        "skills.unload",
    ];
    assert_eq!(names("reader"), registry);
    assert_eq!(names("idle"), Vec::<String>::new());
    let listed = home.skillhost(["tool", "list", "--json", "--agent", "reader"]).success().json();
    // The schema allows only the skills that the agent sees.
    assert_eq!(
        listed["tools"][2]["input_schema"]["properties"]["skill_id"]["enum"],
        json!(["greet"])
    );
    insta::assert_snapshot!(home.skillhost(["tool", "list", "--agent", "raeder"]), @"
    exit 3
    --- stderr
    error: agent `raeder` not found
    hint: did you mean reader?
    hint: see: skillhost agent list
    ");
}

#[test]
fn sandbox_means_all_added_extensions() {
    let with = |tools: &str| agent_manifest("reader", &format!("  uses_tools: [{tools}]\n"));
    let echo = "id: mine\nname: Mine\nentrypoint: echo\n";
    let home = TestHome::new()
        .manifest("skill_registry", &shipped_manifest("skill_registry"))
        .extension("mine", echo)
        .manifest("sandbox", "id: sandbox\nname: S\nentrypoint: echo\n")
        .manifest("reader", &with("read_skill, sandbox"))
        .trusted();
    fs::copy(library("echo"), home.path("sandbox/extensions/mine/libecho.so")).unwrap();
    home.approve("mine");
    let listed = home.skillhost(["tool", "list", "--json", "--agent", "reader"]).success().json();
    let tools = listed["tools"].as_array().unwrap().iter();
    let tools: Vec<_> = tools.map(|tool| (&tool["extension"], &tool["name"])).collect();
    let expected =
        [(&json!("mine"), &json!("echo")), (&json!("skill_registry"), &json!("read_skill"))];
    assert_eq!(tools, expected);
    let doctor = home.skillhost(["ext", "doctor"]).exits(1);
    assert!(
        doctor.stdout.contains("reason: the id `sandbox` is reserved by the kernel"),
        "{doctor}"
    );
}

#[test]
fn call_prints_text_or_json() {
    let home = home();
    let text = home.skillhost(["tool", "call", "echo", r#"{"text":"héllo\nthere"}"#]).success();
    assert_eq!((&*text.stdout, &*text.stderr), ("héllo\nthere\n", ""));
    let call = home.skillhost(["tool", "call", "echo", r#"{"text":"hi"}"#, "--json"]).success();
    insta::assert_snapshot!(stable_json(&call), @r#"
    {
      "is_error": false,
      "schema_version": 1,
      "structured": {
        "caller": {
          "agent_id": "",
          "catalog": "all",
          "deadline_ms": 60000,
          "origin": "operator",
          "reads_files": true
        },
        "text": "hi"
      },
      "text": "hi",
      "tool": "echo"
    }
    "#);
}

#[test]
fn registry_tools_return_text_and_json() {
    let home = home().file("sandbox/skills/greet/notes/names.txt", "Ada\nGrace\n");
    insta::assert_snapshot!(home.skillhost(["tool", "call", "list_skills"]), @"
    exit 0
    --- stdout
    1 skill
    • `greet` — Greets people. Use when somebody arrives. [~5 tokens; sandbox]
    ");
    insta::assert_snapshot!(home.skillhost(["tool", "call", "read_skill", r#"{"skill_id":"greet"}"#]), @r#"
    exit 0
    --- stdout
    Skill loaded: greet (approx. 5 tokens)

    <skill_content name="greet" digest="bac4baef64d29c6de0616a12b9b6e43eb74078226f01be2df8d4cad99799224c">
    Say hello to them.
    </skill_content>

    Resources (load one with read_skill_resource(skill_id, path)):
    - notes/names.txt (instructions, 10 bytes)
    "#);
    insta::assert_snapshot!(stable_json(&home.skillhost(["tool", "call", "read_skill", r#"{"skill_id":"greet"}"#, "--json"]).success()), @r#"
    {
      "is_error": false,
      "schema_version": 1,
      "structured": {
        "changed_since_snapshot": false,
        "description": "Greets people. Use when somebody arrives.",
        "digest": "bac4baef64d29c6de0616a12b9b6e43eb74078226f01be2df8d4cad99799224c",
        "large": false,
        "more_resources": 0,
        "notes": [],
        "requires": [],
        "resources": [
          {
            "kind": "instructions",
            "mime_type": "text/plain",
            "path": "notes/names.txt",
            "size": 10
          }
        ],
        "skill_id": "greet",
        "source": "sandbox",
        "state": "current",
        "tokens": 5,
        "trust": "operator"
      },
      "text": "Skill loaded: greet (approx. 5 tokens)\n\n<skill_content name=\"greet\" digest=\"bac4baef64d29c6de0616a12b9b6e43eb74078226f01be2df8d4cad99799224c\">\nSay hello to them.\n</skill_content>\n\nResources (load one with read_skill_resource(skill_id, path)):\n- notes/names.txt (instructions, 10 bytes)",
      "tool": "read_skill"
    }
    "#);
    let page = r#"{"skill_id":"greet","path":"notes/names.txt","offset":4,"limit":3}"#;
    insta::assert_snapshot!(home.skillhost(["tool", "call", "read_skill_resource", page]), @"
    exit 0
    --- stdout
    Gra
    [bytes 4 to 7 of 10; continue with offset 7]
    ");
    insta::assert_snapshot!(stable_json(&home.skillhost(["tool", "call", "read_skill_resource", page, "--json"]).success()), @r#"
    {
      "is_error": false,
      "schema_version": 1,
      "structured": {
        "content": "Gra",
        "encoding": "utf-8",
        "kind": "instructions",
        "length": 3,
        "mime_type": "text/plain",
        "next_offset": 7,
        "notes": [
          "bytes 4 to 7 of 10; continue with offset 7"
        ],
        "offset": 4,
        "path": "notes/names.txt",
        "size": 10,
        "skill_id": "greet"
      },
      "text": "Gra\n[bytes 4 to 7 of 10; continue with offset 7]",
      "tool": "read_skill_resource"
    }
    "#);
}

#[test]
fn dash_reads_arguments_from_stdin() {
    let home = home();
    let input = home.outside().join("input");
    std::fs::write(&input, r#"{"text":"from a file"}"#).unwrap();
    let stdin = Stdio::from(std::fs::File::open(&input).unwrap());
    let output =
        home.start(home.command().args(["tool", "call", "echo", "-"]).stdin(stdin)).finish();
    assert_eq!(output.success().stdout, "from a file\n");
}

#[test]
fn running_kernel_matches_new_kernel() {
    let home = home();
    let calls: [&[&str]; 4] = [
        &["tool", "call", "echo", r#"{"text":"hi"}"#],
        &["tool", "call", "list_skills", "{}"],
        &["tool", "call", "ehco", "{}"],
        &["tool", "call", "echo", "{}"],
    ];
    let own_kernel: Vec<_> = calls.iter().map(|call| home.skillhost(*call)).collect();
    let kernel = start_kernel(&home);
    let running_kernel: Vec<_> = calls.iter().map(|call| home.skillhost(*call)).collect();
    kernel.interrupt().success();
    assert_eq!(own_kernel, running_kernel);
}

#[test]
fn invalid_calls_are_reported() {
    let home = home();
    let call = |name: &str, arguments: &str| home.skillhost(["tool", "call", name, arguments]);
    insta::assert_snapshot!(call("echo", "{\"text\":"), @r#"
    exit 2
    --- stderr
    error: arguments are not valid JSON: EOF while parsing a value at line 1 column 8
    hint: pass one JSON object, such as {"skill_id": "code-review"}
    "#);
    insta::assert_snapshot!(call("echo", "[\"text\"]"), @r#"
    exit 2
    --- stderr
    error: arguments are not a JSON object
    hint: pass one JSON object, such as {"skill_id": "code-review"}
    "#);
    insta::assert_snapshot!(call("echo", ""), @r#"
    exit 2
    --- stderr
    error: arguments are not valid JSON: EOF while parsing a value at line 1 column 0
    hint: pass one JSON object, such as {"skill_id": "code-review"}
    "#);
    insta::assert_snapshot!(call("echo", "{}"), @"
    exit 2
    --- stderr
    error: arguments of `echo` are not valid: field `text` is missing
    hint: see the tool's input schema: skillhost tool list --json
    ");
    insta::assert_snapshot!(call("echo", r#"{"text":"a","loud":true}"#), @"
    exit 2
    --- stderr
    error: arguments of `echo` are not valid: unknown field `loud`
    hint: see the tool's input schema: skillhost tool list --json
    ");
    insta::assert_snapshot!(call("echo", r#"{"text":1}"#), @r#"
    exit 2
    --- stderr
    error: arguments of `echo` are not valid: `/text`: 1 is not of type "string"
    hint: see the tool's input schema: skillhost tool list --json
    "#);
    insta::assert_snapshot!(call("read_skil", "{}"), @"
    exit 3
    --- stderr
    error: tool `read_skil` not found
    hint: did you mean read_skill, read_skill_resource?
    hint: see: skillhost tool list
    ");
    insta::assert_snapshot!(call("zzz", "{}"), @"
    exit 3
    --- stderr
    error: tool `zzz` not found
    hint: see: skillhost tool list
    ");
    insta::assert_snapshot!(call("read_skill", r#"{"skill_id":"gret"}"#), @"
    exit 3
    --- stderr
    error: skill `gret` not found
    hint: did you mean `greet`?
    ");
    insta::assert_snapshot!(call("list_skills", r#"{"limit":-1}"#), @"
    exit 2
    --- stderr
    error: arguments of `list_skills` are not valid: `/limit`: -1 is less than the minimum of 1
    hint: see the tool's input schema: skillhost tool list --json
    ");
    insta::assert_snapshot!(home.skillhost(["tool", "call", "zzz", "{}", "--json"]), @r#"
    exit 3
    --- stderr
    {"error":{"hints":["see: skillhost tool list"],"kind":"not_found","message":"tool `zzz` not found"},"schema_version":1}
    "#);
}
