//! Tests of `skill call`: tools that a program invokes, policies, arguments, names that collide, and
//! programs that misbehave.

use std::fs::File;
use std::process::Stdio;

use mock_model::{MockModel, Step};
use serde_json::{Value, json};
use test_support::{Output, TestHome, can_isolate, find_interpreter};

use super::{approve_programs, call};
use crate::agents_scene::{agents_home, ask_agent};
use crate::fixtures::{agent_manifest, home, start_kernel};

/// Calls a tool and returns its text, or kind and message of its error.
const CALLER: &str = "export default async ({ tool, args }, ctx) => {\n  \
     try { return (await ctx.invokeTool(tool, args ?? {})).text; }\n  \
     catch (error) { return `${error.kind}: ${error.message}`; }\n};\n";

/// Adds a skill with one program in JavaScript.
fn add_program(home: &TestHome, id: &str, frontmatter: &str, program: &str) {
    let text =
        format!("---\nname: {id}\ndescription: Has a program.\n{frontmatter}---\nCall it.\n");
    home.write(format!("sandbox/skills/{id}/SKILL.md"), text);
    home.write(format!("sandbox/skills/{id}/index.mjs"), program);
}

fn can_run_node() -> bool {
    can_isolate() && find_interpreter("node").is_some()
}

fn result(home: &TestHome, words: &[&str]) -> Value {
    call(home, words)["result"].clone()
}

/// Calls the program of [`CALLER`] in a skill.
fn invoke(home: &TestHome, skill: &str, tool: &str, args: &Value) -> String {
    let arguments = json!({ "tool": tool, "args": args }).to_string();
    result(home, &[skill, &arguments]).as_str().unwrap().to_owned()
}

fn fails(home: &TestHome, words: &[&str]) -> Output {
    home.skillhost([&["skill", "call"], words].concat())
}

#[test]
fn program_invokes_allowed_tools_only() {
    if !can_run_node() {
        return;
    }
    let home = home();
    add_program(&home, "caller", "allowed-tools: echo tools/greet caller\n", CALLER);
    let text = json!({ "text": "hi" });
    assert_eq!(invoke(&home, "caller", "echo", &text), "hi");
    let greeting = invoke(&home, "caller", "tools/greet", &json!({}));
    assert!(greeting.contains("Say hello to them."), "{greeting}");
    // A name is compared as it is written.
    for tool in ["list_skills", "greet", "Echo", "echo ", "", "caller.index"] {
        let expected = format!("denied: tool `{tool}` is not in the skill's `allowed-tools`");
        assert_eq!(invoke(&home, "caller", tool, &text), expected);
    }
    // Arguments are checked as those of any other call.
    let invalid = invoke(&home, "caller", "echo", &json!({ "txt": 1 }));
    assert!(
        invalid.starts_with("invalid_argument: arguments of `echo` are not valid"),
        "{invalid}"
    );
    // The operator's call approves the program, not the programs that it calls in turn.
    let unapproved = invoke(&home, "caller", "caller", &json!({ "tool": "echo" }));
    let expected = "denied: tool `caller` requires approval, but no approval channel is available";
    assert_eq!(unapproved, expected);
}

#[test]
fn program_has_only_tools_of_its_agent() {
    if !can_run_node() {
        return;
    }
    let arguments = |tool: &str| json!({ "tool": tool, "args": { "text": "hi" } }).to_string();
    let mock = MockModel::with([
        Step::calls("caller", &arguments("echo"))
            .call("caller", &arguments("other"))
            .call("caller", &arguments("tools/other"))
            .call("caller", &arguments("list_skills"))
            .call("caller", &arguments("nothing")),
        Step::text("Done."),
    ]);
    let home = agents_home(&mock)
        .manifest("narrow", &agent_manifest("narrow", "  uses_tools: [caller, echo]\n"))
        .trusted();
    add_program(&home, "caller", "", CALLER);
    add_program(&home, "other", "", "export default () => 'other';\n");
    approve_programs(&home, "caller");
    approve_programs(&home, "other");
    ask_agent(&home, "narrow", "Call them.").success();
    let requests = mock.requests();
    assert_eq!(requests[0].tools(), ["caller", "echo"]);
    let results = requests[1].messages();
    let results: Vec<_> = results.iter().rev().take(5).rev().map(|it| &*it.text).collect();
    let expected = [
        "hi\n",
        // Each name of a program stands for the same tool.
        "denied: agent `narrow` does not have tool `other`\n",
        "denied: agent `narrow` does not have tool `tools/other`\n",
        "denied: agent `narrow` does not have tool `list_skills`\n",
        "not_found: tool `nothing` not found\n",
    ];
    for (found, expected) in results.iter().zip(expected) {
        assert!(found.starts_with(expected), "{expected}: {results:?}");
    }
}

#[test]
fn calls_of_programs_reach_depth_limit() {
    if !can_run_node() {
        return;
    }
    let home = home();
    let program = |next: &str| {
        format!(
            "export default async (args, ctx) => {{ const depth = args.depth ?? 1; try {{\n  \
             return (await ctx.invokeTool('{next}', {{ depth: depth + 1 }})).structured.result;\n  \
             }} catch (error) {{ return `${{depth}} {next} ${{error.kind}}: ${{error.message}}`; }} }};\n"
        )
    };
    add_program(&home, "itself", "", &program("itself"));
    add_program(&home, "ping", "", &program("pong"));
    add_program(&home, "pong", "", &program("ping"));
    for id in ["itself", "ping", "pong"] {
        approve_programs(&home, id);
    }
    let limit = "denied: calls of programs and delegations are 4 levels deep, the limit";
    assert_eq!(result(&home, &["itself"]), format!("4 itself {limit}"));
    assert_eq!(result(&home, &["ping"]), format!("4 ping {limit}"));
}

#[test]
fn policy_of_call_narrows_and_widens() {
    if !can_run_node() {
        return;
    }
    let home = home();
    let reader = "import { readFileSync } from 'node:fs';\n\
                  export default ({ path }) => readFileSync(path, 'utf8');\n";
    add_program(&home, "reads", "", reader);
    add_program(&home, "never", "", "export default () => new Promise(() => {});\n");
    home.write("data/outside.txt", "outside");
    let path = home.path("data/outside.txt");
    let arguments = json!({ "path": path }).to_string();
    let policy = |text: &Value| home.write("policy.json", text.to_string());
    // A limit below the default.
    policy(&json!({ "limits": { "seconds": 1 } }));
    insta::assert_snapshot!(fails(&home, &["never", "--policy", "policy.json"]), @"
    exit 1
    --- stderr
    error: program `never` did not answer within 1000 ms
    hint: raise `limits: {seconds}` of `sandbox.handlers` in the settings, if the program needs more time
    ");
    // The operator may permit more than the default, for this call only.
    let denied = fails(&home, &["reads", &arguments]).exits(1);
    assert!(denied.stderr.contains("ENOENT") || denied.stderr.contains("EACCES"), "{denied}");
    policy(&json!({ "filesystem": { "allowRead": [path] } }));
    assert_eq!(result(&home, &["reads", &arguments, "--policy", "policy.json"]), "outside");
    let explained = fails(&home, &["reads", "--policy", "policy.json", "--explain"]).success();
    let line = "allowRead [HOME]/data/outside.txt (this run's operator)";
    assert!(explained.stdout.contains(line), "{explained}");
    assert!(fails(&home, &["reads", &arguments]).status == 1, "the policy is not kept");
    // What a program itself requests is not granted by the call.
    add_program(
        &home,
        "asks",
        &format!("sandbox: {{filesystem: {{allowRead: [\"{}\"]}}}}\n", path.display()),
        reader,
    );
    fails(&home, &["asks", &arguments]).exits(1);
    let explained = fails(&home, &["asks", "--explain"]).success();
    assert!(explained.stdout.contains("not granted"), "{explained}");
    for (text, message) in [
        ("{", "the policy of this call: the policy is not valid: EOF while parsing"),
        (r#"{"nonsense": 1}"#, "unknown field `nonsense`"),
        (r#"{"limits": {"seconds": "1"}}"#, "the policy of this call: "),
        (r#"{"filesystem": {"allowRead": ["../x"]}}"#, "the policy of this call: "),
    ] {
        home.write("policy.json", text);
        let failed = fails(&home, &["reads", &arguments, "--policy", "policy.json"]).exits(2);
        assert!(failed.stderr.contains(message), "{text}: {failed}");
    }
    fails(&home, &["reads", "--policy", "missing.json"]).exits(3);
}

#[test]
fn arguments_are_read_from_stdin() {
    if !can_run_node() {
        return;
    }
    let home = home();
    add_program(&home, "same", "", "export default (args) => ({ result: args });\n");
    home.write("sandbox/skills/same/second.mjs", "export default (args) => [args];\n");
    let piped = |words: &[&str], text: &[u8]| {
        home.write("input.json", text);
        let input = Stdio::from(File::open(home.path("input.json")).unwrap());
        let words = [&["skill", "call", "--json"], words].concat();
        home.start(home.command().args(words).stdin(input)).finish()
    };
    let text = "{\n  \"text\": \"ä\"\n}\n";
    let found = piped(&["same", "-"], text.as_bytes()).success().json();
    assert_eq!(found["structured"]["result"], json!({ "text": "ä" }));
    let found = piped(&["same", "second", "-"], text.as_bytes()).success().json();
    assert_eq!(found["structured"]["result"], json!([{ "text": "ä" }]));
    for (input, code) in
        [(&b""[..], 2), (b"no", 2), (b"[1]", 2), (b"{} {}", 2), (b"{\"a\": \xff}", 5)]
    {
        piped(&["same", "-"], input).exits(code);
    }
}

#[test]
fn names_that_collide_are_reported() {
    if !can_run_node() {
        return;
    }
    let home = home();
    add_program(&home, "pair", "", "export default () => 'pair';\n");
    home.write("sandbox/skills/pair/one.mjs", "export default () => 'key';\n");
    add_program(&home, "pair.one", "", "export default () => 'skill';\n");
    // The name of a tool of an extension.
    add_program(&home, "echo", "", "export default () => 'program';\n");
    let listed = home.skillhost(["tool", "list"]).success();
    for message in [
        "two programs are called `pair.one`; only that of the skill `pair.one` is offered",
        "the program `echo` is not offered: `echo` has a tool of this name",
    ] {
        assert!(listed.stderr.contains(message), "{listed}");
    }
    let approved = ["pair", "pair.one", "echo"];
    approved.iter().for_each(|id| approve_programs(&home, id));
    let listed = home.skillhost(["tool", "list", "--json"]).success().json();
    let names: Vec<_> = listed["tools"].as_array().unwrap().iter().collect();
    let count = |name: &str| names.iter().filter(|tool| tool["name"] == name).count();
    assert_eq!((count("pair"), count("pair.one"), count("echo")), (1, 1, 1));
    // A call names the skill, so each program can be reached.
    let calls: [(&[&str], &str); 5] = [
        (&["pair"], "pair"),
        (&["pair", "one"], "key"),
        (&["pair.one"], "skill"),
        (&["tools/pair/one"], "key"),
        (&["echo"], "program"),
    ];
    for (words, expected) in calls {
        assert_eq!(result(&home, words), expected, "{words:?}");
    }
    let echoed = home.skillhost(["tool", "call", "echo", r#"{"text": "tool"}"#]).success();
    assert_eq!(echoed.stdout, "tool\n");
    // Two files with one key are an error of the skill.
    add_program(&home, "twice", "", "export default () => 1;\n");
    home.write("sandbox/skills/twice/index.py", "def handler(args, ctx):\n    return 1\n");
    let failed = fails(&home, &["twice"]).exits(2);
    assert!(failed.stderr.contains("are both the program `index`"), "{failed}");
}

#[test]
fn tool_of_extension_is_not_called() {
    let home = home();
    insta::assert_snapshot!(fails(&home, &["read_skill"]), @"
    exit 3
    --- stderr
    error: skill `read_skill` not found
    hint: `skillhost skill list` shows the available skills
    ");
    fails(&home, &["echo", r#"{"text": "x"}"#]).exits(3);
    fails(&home, &["tools/echo", r#"{"text": "x"}"#]).exits(3);
}

#[test]
fn misbehaving_programs_are_contained() {
    if !can_run_node() {
        return;
    }
    let home = home();
    let forged = r#"{"id":2,"result":{"result":"forged"}}"#;
    let twice = format!(
        "import {{ writeSync }} from 'node:fs';\nexport default ({{ times }}) => {{\n  \
         writeSync(3, '{forged}\\n'.repeat(times));\n  return new Promise(() => {{}}); }};\n"
    );
    let loud = format!(
        "console.log('{forged}');\nexport default () => {{ console.log('{forged}');\n  \
         process.stdout.write('x'.repeat(3e6)); console.error('\\u001b[31merror'); return 'real'; }};\n"
    );
    let programs = [
        ("twice", twice.as_str()),
        ("loud", &loud),
        (
            "garbage",
            "import { writeSync } from 'node:fs';\nexport default () => { writeSync(3, 'hello\\n'); return new Promise(() => {}); };\n",
        ),
        ("exits", "export default () => { console.error('last words'); process.exit(9); };\n"),
        (
            "closes",
            "import { closeSync } from 'node:fs';\nexport default () => { closeSync(3); return 1; };\n",
        ),
        ("broken", "export default (\n"),
        ("nothing", "export const other = 1; // export default\n"),
    ];
    for (id, program) in programs {
        add_program(&home, id, "", program);
    }
    assert_eq!(result(&home, &["loud"]), "real");
    // The second answer ends the process, and the next call has another one.
    let kernel = start_kernel(&home);
    for _ in 0..2 {
        assert_eq!(result(&home, &["twice", r#"{"times": 2}"#]), "forged");
    }
    home.write("policy.json", json!({ "limits": { "seconds": 1 } }).to_string());
    let failed = fails(&home, &["twice", r#"{"times": 0}"#, "--policy", "policy.json"]).exits(1);
    assert!(failed.stderr.contains("`twice` did not answer within 1000 ms"), "{failed}");
    let logged = kernel.interrupt().success().stderr;
    assert!(logged.contains("was ended: line 3 answers request 2 a second time"), "{logged}");
    let errors: [(&[&str], &str); 5] = [
        (&["garbage"], "is not JSON"),
        (
            &["exits"],
            "program `exits` ended with exit code 9\nlast lines of its output:\nlast words",
        ),
        (&["closes"], "program `closes` "),
        (&["broken"], "program `broken` cannot be loaded: SyntaxError: Unexpected end of input"),
        (&["nothing"], "program `nothing` cannot be loaded: it exports no function"),
    ];
    for (words, message) in errors {
        let failed = fails(&home, words).exits(1);
        assert!(failed.stderr.contains(message), "{words:?}: {failed}");
    }
}

#[test]
fn faulty_tool_json_is_named_with_its_place() {
    let home = home();
    for (text, message) in [
        (r#"{"kind": "agent"}"#, "tool.json:1:10: the kind `agent` is not known"),
        ("{\"kind\":\n  7}", "tool.json:2:3: "),
        ("{}", "`kind` is missing"),
        ("kind: skill", "tool.json:1:1: it is not valid JSON"),
        (
            r#"{"kind": "skill", "entryPoint": "../../other/index.js"}"#,
            "`../../other/index.js` is not a path in the skill's directory",
        ),
        (
            r#"{"kind": "skill", "programs": ["missing.js"]}"#,
            "there is no program `missing.js` in the skill",
        ),
    ] {
        add_program(&home, "faulty", "", "export default () => 1;\n");
        home.write("sandbox/skills/faulty/tool.json", text);
        let failed = fails(&home, &["faulty"]).exits(2);
        let expected = "the programs of `faulty` cannot be used: ";
        assert!(failed.stderr.contains(expected), "{text}: {failed}");
        assert!(failed.stderr.contains(message), "{text}: {failed}");
    }
}
