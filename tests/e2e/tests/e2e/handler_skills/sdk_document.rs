//! The examples of the document of the JavaScript SDK, section by section: each format rule, each form
//! of a program, and the two skills that it names. The texts are ours, the shapes are the document's.

use mock_model::{MockModel, Step};
use serde_json::{Value, json};
use test_support::{Output, TestHome, copy_directory};

use super::{approve_programs, call, can_run_programs};
use crate::agents_scene::{agents_home, ask_agent};
use crate::fixtures::{home, repository_root, start_kernel};
use crate::mcp_client::Client;

/// A skill with programs, one call of it and the result.
struct ProgramExample {
    /// The section of the document and what is shown there.
    shows: &'static str,
    skill: &'static str,
    /// Lines of the frontmatter after name and description.
    frontmatter: &'static str,
    files: &'static [(&'static str, &'static str)],
    /// The words of `skill call`.
    words: &'static [&'static str],
    /// The result as JSON.
    result: &'static str,
}

/// Reports its arguments and its skill.
const FUNCTION: &str =
    "export default async (args, ctx) => ({ result: [args.n, ctx.skill.name] });";
const KEY: &str = "export default (args) => ({ result: args.key });";
/// Calls the tools of its arguments.
const CALLER: &str = "export default async ({ tools }, ctx) => ({ result: await Promise.all(tools.map(\n  \
     (name) => ctx.invokeTool(name, { text: 'hi' }).then((found) => found.text, (error) => error.kind))) });";
const LEVELS: &str = "export default async (args, { skill }) => ({ result: [\n  \
     skill.name, skill.description, skill.instructions.trim(),\n  \
     skill.resources.map(({ path, type }) => `${path} ${type}`),\n  \
     await skill.readResource('references/FORMS.md'), skill.getResourcesByType('data').map((it) => it.path)] });";
/// The base class of LangChain in miniature: `invoke` checks the arguments and calls `_call`.
const STRUCTURED: &str = "class StructuredTool { async invoke(input) { if (!('n' in input)) throw new TypeError('no n'); return this._call(input); } }\n\
     export default class extends StructuredTool { name = 'n'; description = 'Doubles n.'; schema = { type: 'object', required: ['n'] };\n  \
     async _call({ n }) { return 2 * n; } }";

const EXAMPLES: &[ProgramExample] = &[
    ProgramExample {
        shows: "1: a directory with SKILL.md and a tool.json of the kind skill",
        skill: "declared",
        frontmatter: "",
        files: &[("tool.json", r#"{"kind": "skill"}"#), ("index.mjs", FUNCTION)],
        words: &["declared", r#"{"n": 1}"#],
        result: r#"[1, "declared"]"#,
    },
    ProgramExample {
        shows: "1, 6: any layout; the type of a resource is that of its extension",
        skill: "layout",
        frontmatter: "",
        files: &[
            ("index.mjs", "export default (a, ctx) => ctx.skill.resources.map((it) => it.type);"),
            ("a/b/odd.csv", "1,2\n"),
            ("assets/logo.svg", "<svg/>"),
            ("notes.txt", "Notes.\n"),
            ("references/FORMS.md", "# Forms\n"),
            ("scripts/fill.py", "print(1)\n"),
        ],
        words: &["layout"],
        result: r#"["data", "data", "code", "instructions", "instructions", "code"]"#,
    },
    ProgramExample {
        shows: "3: allowed-tools restricts invokeTool",
        skill: "restricted",
        frontmatter: "allowed-tools: echo tools/greet\n",
        files: &[("index.mjs", CALLER)],
        words: &["restricted", r#"{"tools": ["echo", "list_skills", "greet"]}"#],
        result: r#"["hi", "denied", "denied"]"#,
    },
    ProgramExample {
        shows: "3: without allowed-tools any tool may be invoked",
        skill: "free",
        frontmatter: "",
        files: &[("index.mjs", CALLER)],
        words: &["free", r#"{"tools": ["echo"]}"#],
        result: r#"["hi"]"#,
    },
    ProgramExample {
        shows: "3: an empty allowed-tools is none",
        skill: "empty",
        frontmatter: "allowed-tools: \"\"\n",
        files: &[("index.mjs", CALLER)],
        words: &["empty", r#"{"tools": ["echo"]}"#],
        result: r#"["hi"]"#,
    },
    ProgramExample {
        shows: "3: the name need not be that of the directory",
        skill: "renamed",
        frontmatter: "name: renamed-skill\n",
        files: &[("index.mjs", FUNCTION)],
        words: &["renamed", r#"{"n": 1}"#],
        result: r#"[1, "renamed-skill"]"#,
    },
    ProgramExample {
        shows: "4, 5, 7: frontmatter, body and resources reach the program",
        skill: "levels",
        frontmatter: "",
        files: &[
            ("index.mjs", LEVELS),
            ("references/FORMS.md", "# Forms"),
            ("assets/t.json", "{}"),
        ],
        words: &["levels"],
        result: r##"["levels", "Shows levels.", "Follow the steps.",
            ["assets/t.json data", "index.mjs code", "references/FORMS.md instructions"],
            "# Forms", ["assets/t.json"]]"##,
    },
    ProgramExample {
        shows: "8: a function handler with evidence",
        skill: "function",
        frontmatter: "",
        files: &[(
            "index.js",
            "module.exports = async (args, ctx) => ({ result: typeof ctx.invokeTool, evidence: ['e'] });",
        )],
        words: &["function"],
        result: r#""function""#,
    },
    ProgramExample {
        shows: "8: a named handler in an ES module",
        skill: "named",
        frontmatter: "",
        files: &[("index.js", "export async function handler({ n }) { return { result: n }; }")],
        words: &["named", r#"{"n": 3}"#],
        result: "3",
    },
    ProgramExample {
        shows: "8: an object like those of LangChain",
        skill: "object",
        frontmatter: "",
        files: &[(
            "index.js",
            "export default { name: 'o', description: 'Adds.', schema: { type: 'object' }, invoke: async ({ n }) => n + 1 };",
        )],
        words: &["object", r#"{"n": 3}"#],
        result: "4",
    },
    ProgramExample {
        shows: "8: a class that extends StructuredTool",
        skill: "class",
        frontmatter: "",
        files: &[("index.js", STRUCTURED)],
        words: &["class", r#"{"n": 3}"#],
        result: "6",
    },
    ProgramExample {
        shows: "8: the same in Python",
        skill: "python",
        frontmatter: "",
        files: &[(
            "index.py",
            "async def handler(args, ctx):\n    return {'result': [args['n'], ctx.skill.name, ctx.invokeTool('echo', {'text': 'hi'})['text']]}\n",
        )],
        words: &["python", r#"{"n": 3}"#],
        result: r#"[3, "python", "hi"]"#,
    },
    ProgramExample {
        shows: "9: handler.js is the default, other files are programs of their own",
        skill: "several",
        frontmatter: "",
        files: &[
            ("chart.js", KEY),
            ("handler.js", "exports.handler = async () => ({ result: 'default' });"),
            ("_helper.js", KEY),
            ("quote.test.js", KEY),
        ],
        words: &["several"],
        result: r#""default""#,
    },
    ProgramExample {
        shows: "9: a program by its key",
        skill: "keys",
        frontmatter: "",
        files: &[("chart.js", KEY), ("index.js", FUNCTION)],
        words: &["keys", "chart", r#"{"key": "chart"}"#],
        result: r#""chart""#,
    },
    ProgramExample {
        shows: "9: programs of tool.json, as a list",
        skill: "listed",
        frontmatter: "",
        files: &[
            ("tool.json", r#"{"kind": "skill", "programs": ["src/quote.js", "./src/chart"]}"#),
            ("src/quote.js", FUNCTION),
            ("src/chart.mjs", KEY),
        ],
        words: &["listed", "chart", r#"{"key": 1}"#],
        result: "1",
    },
    ProgramExample {
        shows: "9: programs of tool.json, by their keys",
        skill: "mapped",
        frontmatter: "",
        files: &[
            ("tool.json", r#"{"kind": "skill", "programs": {"one": "a.js", "two": "b.js"}}"#),
            ("a.js", FUNCTION),
            ("b.js", KEY),
        ],
        words: &["tools/mapped/two", r#"{"key": 2}"#],
        result: "2",
    },
    ProgramExample {
        shows: "9: the entry point of tool.json",
        skill: "entry",
        frontmatter: "",
        files: &[
            ("tool.json", r#"{"kind": "skill", "entryPoint": "src/main"}"#),
            ("src/main.cjs", "exports.handler = () => ({ result: 'main' });"),
            ("other.js", KEY),
        ],
        words: &["tools/entry"],
        result: r#""main""#,
    },
    ProgramExample {
        shows: "9: a tool of LangChain per file",
        skill: "langchain",
        frontmatter: "",
        files: &[
            ("tool.json", r#"{"kind": "langchain"}"#),
            ("double.js", STRUCTURED),
            ("same.js", KEY),
        ],
        words: &["langchain.double", r#"{"n": 4}"#],
        result: "8",
    },
];

fn write_example(home: &TestHome, example: &ProgramExample) {
    let ProgramExample { skill, frontmatter, files, .. } = example;
    let name = match frontmatter.contains("name: ") {
        true => String::new(),
        false => format!("name: {skill}\n"),
    };
    let text =
        format!("---\n{name}description: Shows {skill}.\n{frontmatter}---\nFollow the steps.\n",);
    home.write(format!("sandbox/skills/{skill}/SKILL.md"), text);
    for (path, text) in *files {
        home.write(format!("sandbox/skills/{skill}/{path}"), text);
    }
}

#[test]
fn each_program_of_document_runs() {
    if !can_run_programs() {
        return;
    }
    let home = home();
    for example in EXAMPLES {
        write_example(&home, example);
    }
    let kernel = start_kernel(&home);
    for ProgramExample { shows, words, result, .. } in EXAMPLES {
        let expected: Value = serde_json::from_str(result).unwrap();
        assert_eq!(call(&home, words)["result"], expected, "{shows}");
    }
    let evidence = &call(&home, &["function"])["evidence"];
    assert_eq!(*evidence, json!(["e"]));
    // Discovery is visible without a call.
    let shown = home.skillhost(["skill", "show", "several", "--json"]).success().json();
    let tools = shown["tools"]["programs"].as_array().unwrap();
    let tools: Vec<_> = tools.iter().map(|program| program["tool"].as_str().unwrap()).collect();
    assert_eq!(tools, ["several.chart", "several"]);
    assert_eq!(shown["tools"]["left_out"].as_array().unwrap().len(), 2);
    kernel.interrupt().success();
}

/// Section 3 and the table of enforced constraints: a frontmatter, and its finding. `{…}` stands for
/// a text of that length.
const CONSTRAINTS: &[(&str, &str, &str)] = &[
    ("plain", "name: plain\ndescription: Shows a name.\n", ""),
    ("required-name", "description: Has no name.\n", "name.required"),
    ("required-text", "name: required-text\n", "description.required"),
    ("empty-text", "name: empty-text\ndescription: \"\"\n", "description.required"),
    ("{64}", "name: {64}\ndescription: Has the longest name.\n", ""),
    ("{65}", "name: {65}\ndescription: Has a longer name.\n", "name.maxLength"),
    ("Upper", "name: Upper\ndescription: Has a capital.\n", "name.format"),
    ("-first", "name: -first\ndescription: Starts with a hyphen.\n", "name.format"),
    ("last-", "name: last-\ndescription: Ends with a hyphen.\n", "name.format"),
    ("two--hyphens", "name: two--hyphens\ndescription: Has two hyphens.\n", "name.format"),
    ("my-claude", "name: my-claude\ndescription: Has a reserved word.\n", "name.reserved"),
    ("anthropic-x", "name: anthropic-x\ndescription: Has a reserved word.\n", "name.reserved"),
    ("tag", "name: tag\ndescription: Has a <b>tag</b>.\n", "description.xmlTag"),
    ("longest", "name: longest\ndescription: {1024}\n", ""),
    ("longer", "name: longer\ndescription: {1025}\n", "description.maxLength"),
    ("fits", "name: fits\ndescription: Fits.\ncompatibility: {500}\n", ""),
    (
        "exceeds",
        "name: exceeds\ndescription: Exceeds.\ncompatibility: {501}\n",
        "compatibility.maxLength",
    ),
    (
        "optional",
        "name: optional\ndescription: Has all fields.\nlicense: MIT\ncompatibility: Node.js\n\
         allowed-tools: tools/a tools/b\nmetadata:\n  author: A. Author\n  version: \"1.0\"\n",
        "",
    ),
];

/// Replaces `{N}` by N letters.
fn fill(text: &str) -> String {
    let Some((before, rest)) = text.split_once('{') else { return text.to_owned() };
    let (length, after) = rest.split_once('}').unwrap();
    let filled = format!("{before}{}{after}", "a".repeat(length.parse().unwrap()));
    fill(&filled)
}

#[test]
fn each_constraint_of_document_is_checked() {
    let home = home();
    for (directory, frontmatter, finding) in CONSTRAINTS {
        let directory = fill(directory);
        let path = format!("checked/{directory}");
        let text = format!("---\n{}---\nFollow the steps.\n", fill(frontmatter));
        home.write(format!("{path}/SKILL.md"), text);
        let checked = home.skillhost(["skill", "validate", "--json", &path]);
        let skill = &checked.json()["skills"][0];
        let rules: Vec<_> = skill["diagnostics"].as_array().unwrap().iter().collect();
        let rules: Vec<_> = rules.iter().map(|it| it["rule"].as_str().unwrap()).collect();
        let expected: &[_] = if finding.is_empty() { &[] } else { &[*finding] };
        assert_eq!(rules, expected, "{directory}");
        // What only some readers refuse is a warning.
        let is_refused = !["", "name.reserved", "description.xmlTag"].contains(finding);
        assert_eq!(checked.status, i32::from(is_refused), "{directory}");
    }
    // The optional fields are kept, and metadata is a map.
    let read = home.skillhost(["skill", "read-properties", "checked/optional"]).success().json();
    assert_eq!(
        read,
        json!({
            "name": "optional", "description": "Has all fields.", "license": "MIT",
            "compatibility": "Node.js", "allowed-tools": "tools/a tools/b",
            "metadata": {"author": "A. Author", "version": "1.0"},
        })
    );
}

const INSTRUCTION_ONLY: &str = "---\nname: instruction-only\ndescription: Lists steps. Use to be guided.\n\
     license: MIT\n---\n# Steps\n\n1. Read the request.\n2. Answer it.\n";

#[test]
fn skill_without_handler_returns_instructions() {
    let home = home()
        .file("sandbox/skills/instruction-only/SKILL.md", INSTRUCTION_ONLY)
        // The document's layout: `tools/NAME/skill`. The id is the name of the directory.
        .file("sandbox/skills/tools/guide/skill/SKILL.md", INSTRUCTION_ONLY)
        .file("sandbox/skills/tools/guide/skill/references/MORE.md", "More.\n");
    let result = |directory: &str, resources: &Value| {
        json!({
            "name": "instruction-only",
            "description": "Lists steps. Use to be guided.",
            "instructions": "# Steps\n\n1. Read the request.\n2. Answer it.\n",
            "resources": resources,
            "dirPath": format!("[HOME]/sandbox/skills/{directory}"),
        })
    };
    assert_eq!(call(&home, &["instruction-only"]), result("instruction-only", &json!([])));
    let more = json!([{ "path": "references/MORE.md", "type": "instructions" }]);
    assert_eq!(call(&home, &["tools/guide/skill"]), result("tools/guide/skill", &more));
}

/// Copies the skill of the document into a home, with canned data in place of the service.
fn add_yahoo_finance(home: &TestHome) {
    let fixture = repository_root().join("tests/fixtures/handler-skills/yahoo-finance");
    copy_directory(&fixture, &home.path("sandbox/skills/yahoo-finance"));
}

#[test]
fn documented_skill_is_called_by_operator() {
    if !can_run_programs() {
        return;
    }
    let home = home();
    add_yahoo_finance(&home);
    let summary = call(&home, &["yahoo-finance", r#"{"symbol": "aapl"}"#]);
    assert_eq!(summary["result"], "AAPL: 189.5 USD");
    assert_eq!(summary["evidence"][0]["source"], "lib/quotes.json");
    assert_eq!(summary["metadata"], json!({ "reference": "# Reference", "code": 4 }));
    let calls: [(&[&str], Value); 4] = [
        (&["yahoo-finance", "quote", r#"{"symbol": "SAP.DE"}"#], json!(176.1)),
        (&["yahoo-finance.quote", r#"{"symbol": "AAPL"}"#], json!(189.5)),
        (
            &["tools/yahoo-finance/chart", r#"{"symbol": "AAPL", "days": 2}"#],
            json!([187.75, 189.5]),
        ),
        (&["yahoo", "index", r#"{"symbol": "AAPL"}"#], json!("AAPL: 189.5 USD")),
    ];
    for (words, expected) in calls {
        assert_eq!(call(&home, words)["result"], expected, "{words:?}");
    }
    let unknown = ["skill", "call", "yahoo-finance", "quote", r#"{"symbol": "NONE"}"#];
    insta::assert_snapshot!(home.skillhost(unknown), @"
    exit 1
    --- stderr
    error: RangeError: unknown symbol NONE (lib/yahoo-api.js:10:21)
    ");
}

#[test]
fn documented_skill_is_called_by_agent() {
    if !can_run_programs() {
        return;
    }
    let mock = MockModel::with([
        Step::text("No such tool."),
        Step::calls("yahoo-finance", r#"{"symbol": "AAPL"}"#)
            .call("yahoo-finance_chart", r#"{"symbol": "AAPL", "days": 2}"#)
            .call("yahoo-finance_quote", r#"{"symbol": "NONE"}"#),
        Step::text("It costs 189.5 USD."),
    ]);
    let home = agents_home(&mock);
    add_yahoo_finance(&home);
    // Without a grant the programs are not offered.
    ask_agent(&home, "worker", "What does Apple cost?").success();
    approve_programs(&home, "yahoo-finance");
    ask_agent(&home, "worker", "What does Apple cost?").success();
    let requests = mock.requests();
    let offered = |at: usize| -> Vec<String> {
        let tools = requests[at].tools().into_iter();
        tools.filter(|tool| tool.starts_with("yahoo")).collect()
    };
    assert_eq!(offered(0), Vec::<String>::new());
    assert_eq!(offered(1), ["yahoo-finance", "yahoo-finance_chart", "yahoo-finance_quote"]);
    // What the programs state precedes SKILL.md.
    let tools = requests[1].body["tools"].as_array().unwrap();
    let function =
        |name: &str| &tools.iter().find(|it| it["function"]["name"] == name).unwrap()["function"];
    assert_eq!(function("yahoo-finance")["description"], "Summarizes the price of a share.");
    let chart = function("yahoo-finance_chart");
    assert_eq!(chart["description"], "Returns the last closing prices of a share.");
    assert_eq!(chart["parameters"]["properties"]["days"]["maximum"], 5);
    let results: Vec<_> =
        requests[2].messages().iter().rev().take(3).map(|it| it.text.clone()).collect();
    assert!(results[2].starts_with("AAPL: 189.5 USD\nevidence: "), "{results:?}");
    assert!(results[1].starts_with("[187.75,189.5]\n[isolation: "), "{results:?}");
    assert!(results[0].contains("unknown symbol NONE"), "{results:?}");
}

#[test]
fn documented_skill_does_not_exist_for_mcp_clients() {
    let home = home();
    add_yahoo_finance(&home);
    let mut client = Client::connect(&home);
    let listed = client.result("tools/list", json!({}));
    let names: Vec<_> = listed["tools"].as_array().unwrap().iter().map(|it| &it["name"]).collect();
    assert!(names.iter().all(|name| !name.as_str().unwrap().contains("yahoo")), "{names:?}");
    for name in
        ["yahoo-finance", "yahoo-finance.quote", "tools/yahoo-finance/quote", "/yahoo-finance"]
    {
        let answer = client
            .request("tools/call", json!({ "name": name, "arguments": { "symbol": "AAPL" } }));
        let text = answer.to_string();
        let is_refused = answer["error"].is_object() || answer["result"]["isError"] == true;
        assert!(is_refused && !text.contains("189.5"), "{name}: {text}");
    }
    let left: Output = client.close();
    assert_eq!(left.status, 0, "{left}");
}
