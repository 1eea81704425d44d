//! Tests of the discovery of programs.

use std::collections::BTreeMap;

use skill_format::{DiscoveredPrograms, ProgramFile, TOOL_JSON_LIMIT};

/// The maximum number of programs.
const PROGRAM_LIMIT: usize = 32;

fn files(list: &[(&str, &str)]) -> (Vec<String>, BTreeMap<String, String>) {
    let map: BTreeMap<_, _> =
        list.iter().map(|(path, text)| ((*path).to_owned(), (*text).to_owned())).collect();
    (map.keys().filter(|path| !path.contains('/')).cloned().collect(), map)
}

fn found(tool_json: Option<&str>, list: &[(&str, &str)]) -> DiscoveredPrograms {
    DiscoveredPrograms::find(tool_json, "quotes", &files(list))
}

fn names(found: &DiscoveredPrograms) -> Vec<String> {
    let line = |program: &ProgramFile| {
        let mark = if program.is_default { "*" } else { "" };
        format!("{}{mark}={}", program.key, program.path)
    };
    found.programs.iter().map(line).collect()
}

fn lines(found: &DiscoveredPrograms) -> Vec<String> {
    found.findings.iter().map(ToString::to_string).collect()
}

const JS: &str = "export default async (args, ctx) => ({ result: args });\n";
const SKILL: Option<&str> = Some("{\"kind\": \"skill\"}");

#[test]
fn top_level_files_are_programs() {
    let list = [
        ("SKILL.md", ""),
        ("_shared.js", JS),
        (".hidden.js", JS),
        ("chart.mjs", JS),
        ("index.js", JS),
        ("index.test.js", JS),
        ("lib/yahoo.js", JS),
        ("quote.cjs", "module.exports = class extends StructuredTool {}"),
        ("recalc.py", "import sys\nprint(sys.argv)\n"),
        ("tables.py", "def handler(args, ctx):\n    return {}\n"),
    ];
    let plain = found(None, &list);
    assert_eq!(
        names(&plain),
        ["chart=chart.mjs", "index*=index.js", "quote=quote.cjs", "tables=tables.py"]
    );
    let left_out: Vec<_> = plain.left_out.iter().map(|(path, _)| path.as_str()).collect();
    assert_eq!(left_out, [".hidden.js", "_shared.js", "index.test.js", "recalc.py"]);
    assert_eq!(lines(&plain), Vec::<String>::new());
    // A declared skill has a reason for each of its files.
    let declared = found(SKILL, &list);
    assert!(names(&declared).contains(&"recalc=recalc.py".to_owned()));
}

#[test]
fn python_forms_are_recognized_by_text() {
    for (text, is_program) in [
        ("async def handler(args, ctx):\n    pass\n", true),
        ("class Tool:\n    pass\n", true),
        ("class Tool(Base):\n    pass\n", true),
        ("tool = make()\n", true),
        ("tool: Any = make()\n", true),
        ("from lib import make, handler\n", true),
        ("from lib import run as handler\n", true),
        ("from lib import handlers\n", false),
        ("def handler_of(x):\n    pass\n", false),
        ("    def handler(self):\n        pass\n", false),
        ("tool == 1\n", false),
        ("if handler:\n    pass\n", false),
    ] {
        assert_eq!(!found(None, &[("a.py", text)]).programs.is_empty(), is_program, "{text}");
    }
    for (text, is_program) in [
        ("export async function handler(args, ctx) {}\n", true),
        ("export const handler = async () => ({});\n", true),
        ("export class Tool {}\n", true),
        ("export { run as default };\n", true),
        ("exports.handler = () => {};\n", true),
        ("console.log(process.argv);\n", false),
        ("export const add = (a, b) => a + b;\n", false),
    ] {
        assert_eq!(!found(None, &[("a.mjs", text)]).programs.is_empty(), is_program, "{text}");
    }
}

#[test]
fn default_is_index_then_handler_then_first() {
    let of = |list: &[(&str, &str)]| names(&found(SKILL, list));
    assert_eq!(of(&[("a.js", ""), ("handler.js", ""), ("index.py", "")])[2], "index*=index.py");
    assert_eq!(of(&[("a.js", ""), ("handler.js", "")])[1], "handler*=handler.js");
    assert_eq!(of(&[("a.js", ""), ("b.js", "")])[0], "a*=a.js");
    // The tools of LangChain are equal.
    let langchain = Some("{\"kind\": \"langchain\"}");
    assert_eq!(names(&found(langchain, &[("a.js", ""), ("b.js", "")])), ["a=a.js", "b=b.js"]);
    assert_eq!(names(&found(langchain, &[("a.js", "")])), ["a*=a.js"]);
}

#[test]
fn programs_precede_entry_point_and_files() {
    let list = [("index.js", ""), ("lib/quote.mjs", ""), ("src/index.js", ""), ("a b.js", "")];
    let json = r#"{"kind": "skill", "entryPoint": "index", "programs": {"q": "./lib/quote"}}"#;
    assert_eq!(names(&found(Some(json), &list)), ["q*=lib/quote.mjs"]);
    let json = r#"{"kind": "skill", "programs": ["lib/quote.mjs", "src"]}"#;
    assert_eq!(names(&found(Some(json), &list)), ["quote=lib/quote.mjs", "index*=src/index.js"]);
    let json = r#"{"kind": "skill", "entryPoint": "lib/quote"}"#;
    assert_eq!(names(&found(Some(json), &list)), ["quote*=lib/quote.mjs"]);
    let json = r#"{"kind": "skill", "enabled": false}"#;
    let off = found(Some(json), &list);
    assert_eq!(names(&off), Vec::<String>::new());
    assert_eq!(lines(&off), ["1:30: note[programs.ignored]: the programs are not enabled"]);
}

#[test]
fn faulty_declarations_are_named_with_their_position() {
    let list = [("index.js", ""), ("index.py", ""), ("a b.js", "")];
    for (json, expected) in [
        (
            "{\n  \"kind\": \"skil\"\n}",
            "2:11: error[programs.invalid]: the kind `skil` is not known",
        ),
        (
            "{\"kind\": \"skill\",}",
            "1:18: error[programs.invalid]: it is not valid JSON: trailing comma",
        ),
        (
            "[]",
            "1:1: error[programs.invalid]: it is not valid JSON: invalid type: sequence, expected an object",
        ),
        ("{}", "error[programs.invalid]: `kind` is missing"),
        ("{\"kind\": 7}", "1:10: error[programs.invalid]: `kind` is not a text"),
        (
            "{\"kind\": \"mcp\"}",
            "1:10: error[programs.unsupported]: the kind `mcp` is not a skill but a process extension",
        ),
        (
            "{\"kind\": \"n8n\"}",
            "1:10: error[programs.unsupported]: the kind `n8n` is not supported",
        ),
        (
            "{\"kind\": \"skill\", \"kind\": \"n8n\"}",
            "1:27: error[programs.invalid]: `kind` is repeated",
        ),
        (
            "{\"kind\": \"skill\", \"entryPoint\": \"../x.js\"}",
            "1:33: error[programs.invalid]: `../x.js` is not a path in the skill's directory",
        ),
        (
            "{\"kind\": \"skill\", \"entryPoint\": \"/etc/x.js\"}",
            "1:33: error[programs.invalid]: `/etc/x.js` is not a path in the skill's directory",
        ),
        (
            "{\"kind\": \"skill\", \"programs\": [\"gone.js\"]}",
            "1:32: error[programs.invalid]: there is no program `gone.js` in the skill",
        ),
        (
            "{\"kind\": \"skill\", \"programs\": []}",
            "1:31: error[programs.invalid]: `programs` is empty",
        ),
        (
            "{\"kind\": \"skill\", \"programs\": [\"index.js\", \"index.py\"]}",
            "1:44: error[programs.ambiguous]: `index.js` and `index.py` are both the program `index`",
        ),
        (
            "{\"kind\": \"skill\", \"programs\": {\"a.b\": \"index.js\"}}",
            "1:39: error[programs.invalid]: the program `index.js` has no valid key",
        ),
        (
            "{\"kind\": \"skill\", \"inputSchema\": []}",
            "1:34: error[programs.invalid]: `inputSchema` is not an object",
        ),
        (
            "{\"kind\": \"skill\", \"enabled\": \"no\"}",
            "1:30: error[programs.invalid]: `enabled` is not `true` or `false`",
        ),
    ] {
        let found = found(Some(json), &list);
        assert!(lines(&found).iter().any(|line| line == expected), "{json}: {:?}", lines(&found));
        assert_eq!(names(&found), Vec::<String>::new(), "{json}");
    }
}

#[test]
fn two_files_of_one_name_are_ambiguous() {
    let both = found(None, &[("index.js", JS), ("index.mjs", JS), ("quote.js", JS)]);
    assert_eq!(
        lines(&both),
        ["error[programs.ambiguous]: `index.js` and `index.mjs` are both the program `index`"]
    );
    assert_eq!(names(&both), Vec::<String>::new());
}

#[test]
fn unknown_fields_and_other_names_are_warnings() {
    let json = "{\"kind\": \"skill\", \"name\": \"other\",\n\"colour\": 1}";
    let warned = found(Some(json), &[("index.js", "")]);
    assert_eq!(
        lines(&warned),
        [
            "1:27: warning[programs.ignored]: the name `other` does not name the tool",
            "2:11: warning[programs.ignored]: the field `colour` is not known and has no effect",
        ]
    );
    assert_eq!(names(&warned), ["index*=index.js"]);
    let own = found(Some("{\"kind\": \"skill\", \"name\": \"tools/quotes\"}"), &[]);
    assert_eq!(lines(&own), Vec::<String>::new());
}

#[test]
fn sizes_and_counts_are_limited() {
    let many: Vec<_> = (0..=PROGRAM_LIMIT).map(|n| (format!("p{n:02}.js"), JS)).collect();
    let many: Vec<_> = many.iter().map(|(name, text)| (&**name, *text)).collect();
    assert_eq!(lines(&found(None, &many)), ["error[programs.invalid]: more than 32 programs"]);
    assert_eq!(found(None, &many[1..]).programs.len(), PROGRAM_LIMIT);
    let long = format!("{{\"kind\": \"skill\", \"name\": \"{}\"}}", "x".repeat(TOOL_JSON_LIMIT));
    assert_eq!(
        lines(&found(Some(&long), &[])),
        ["error[programs.invalid]: it has more than 65536 bytes"]
    );
    // Nested deeper than the parser allows.
    let deep = format!("{{\"costHints\": {}", "[".repeat(10_000));
    assert!(found(Some(&deep), &[]).has_errors());
}
