//! Every form of a program, in both languages.

use serde_json::json;
use skillhost_handlers::ProgramForm;

use crate::fixture::SkillFixture;

const ARGUMENTS: &str = r#"{"symbol": "AAPL"}"#;

/// Programs of every form; each returns its symbol.
const FORMS: &[(&str, &str)] = &[
    ("esm_function.mjs", "export default (args) => ({ result: args.symbol });"),
    ("esm_async.mjs", "export default async function (args) { return { result: args.symbol }; }"),
    ("esm_handler.mjs", "export const handler = async ({ symbol }) => ({ result: symbol });"),
    ("esm_object.mjs", "export default { invoke: async (args) => args.symbol };"),
    (
        "esm_class.mjs",
        "export default class Quote { #n = 'symbol'; invoke(args) { return args[this.#n]; } }",
    ),
    (
        "esm_tool.mjs",
        "export class Tool { async invoke(args) { return { result: args.symbol }; } }",
    ),
    (
        "esm_syntax.js",
        "import path from 'node:path'; export default (args) => path.basename('/x/' + args.symbol);",
    ),
    ("cjs_function.cjs", "module.exports = (args) => ({ result: args.symbol });"),
    ("cjs_handler.js", "exports.handler = async (args) => ({ result: args.symbol });"),
    ("cjs_object.js", "module.exports = { invoke(args) { return args.symbol; } };"),
    (
        "cjs_class.cjs",
        "class Base { invoke(args) { return this._call(args); } }\nmodule.exports = class extends Base { async _call(args) { return args.symbol; } };",
    ),
    (
        "cjs_transpiled.js",
        "Object.defineProperty(exports, '__esModule', { value: true });\nexports.default = (args) => ({ result: args.symbol });",
    ),
    ("cjs_tool.cjs", "exports.Tool = class Quote { _call(args) { return args.symbol; } };"),
    ("py_handler.py", "def handler(args, ctx):\n    return {'result': args['symbol']}\n"),
    (
        "py_async.py",
        "import asyncio\nasync def handler(args, ctx):\n    await asyncio.sleep(0)\n    return {'result': args['symbol']}\n",
    ),
    ("py_class.py", "class Tool:\n    def invoke(self, args):\n        return args['symbol']\n"),
    (
        "py_object.py",
        "class Quote:\n    async def invoke(self, args, ctx):\n        return {'result': args['symbol'], 'ids': ctx.request_id}\ntool = Quote()\n",
    ),
    (
        "py_config.py",
        "class Tool:\n    def invoke(self, args, config=None):\n        assert config is None\n        return args['symbol']\n",
    ),
];

#[tokio::test]
async fn every_form_returns_its_result() {
    let Some(skill) = SkillFixture::create(FORMS) else { return };
    for (entry, _) in FORMS {
        assert_eq!(skill.result(entry, ARGUMENTS).await, json!("AAPL"), "{entry}");
        let is_function = ["function", "async", "handler", "syntax", "transpiled"]
            .iter()
            .any(|form| entry.contains(form));
        let form = if is_function { ProgramForm::Function } else { ProgramForm::Tool };
        assert_eq!(skill.load(entry).await.unwrap().form, form, "{entry}");
    }
}

#[tokio::test]
async fn program_states_override_skill() {
    let files = [
        (
            "tool.mjs",
            "export default { name: 'quote', description: 'Returns\\n a quote.',\n schema: { toJSONSchema: () => ({ type: 'object', properties: { symbol: { type: 'string' } } }) },\n invoke: () => 1 };",
        ),
        (
            "function.js",
            "module.exports = () => 1;\nmodule.exports.description = 'A function.';\nmodule.exports.schema = { type: 'object' };",
        ),
        (
            "named.mjs",
            "export const name = 'n', description = 'd', schema = { type: 'string' };\nexport const handler = () => 1;",
        ),
        (
            "pydantic.py",
            "class Args:\n    @staticmethod\n    def model_json_schema():\n        return {'type': 'object'}\nclass Tool:\n    name = 'n'\n    description = 'd'\n    args_schema = Args\n    def invoke(self, args):\n        return 1\n",
        ),
        ("plain.py", "def handler(args, ctx):\n    return None\n"),
    ];
    let Some(skill) = SkillFixture::create(&files) else { return };
    let loaded = skill.load("tool.mjs").await.unwrap();
    assert_eq!((loaded.form, loaded.name.as_deref()), (ProgramForm::Tool, Some("quote")));
    assert_eq!(loaded.description.as_deref(), Some("Returns a quote."));
    assert_eq!(loaded.schema.unwrap()["properties"]["symbol"]["type"], "string");
    let loaded = skill.load("function.js").await.unwrap();
    assert_eq!((loaded.form, loaded.name), (ProgramForm::Function, None));
    assert_eq!(loaded.description.as_deref(), Some("A function."));
    assert_eq!(loaded.schema, Some(json!({"type": "object"})));
    let loaded = skill.load("named.mjs").await.unwrap();
    assert_eq!((loaded.name.as_deref(), loaded.description.as_deref()), (Some("n"), Some("d")));
    assert_eq!(loaded.schema, None, "arguments are objects");
    let loaded = skill.load("pydantic.py").await.unwrap();
    assert_eq!(loaded.schema, Some(json!({"type": "object"})));
    let loaded = skill.load("plain.py").await.unwrap();
    assert_eq!((loaded.name, loaded.description, loaded.schema), (None, None, None));
    assert!(skill.supervisor.known_metadata("skill.named", "sha256:1").is_some());
    assert!(skill.supervisor.known_metadata("skill.named", "sha256:2").is_none());
}

#[tokio::test]
async fn result_has_evidence_and_metadata() {
    let files = [
        (
            "a.mjs",
            "export default () => ({ result: [1], evidence: ['e'], metadata: { m: 2 }, other: 3 });",
        ),
        (
            "b.py",
            "def handler(args, ctx):\n    return {'result': [1], 'evidence': ['e'], 'metadata': {'m': 2}, 'other': 3}\n",
        ),
        ("nothing.mjs", "export default () => {};"),
        ("text.mjs", "export default () => 'a'.repeat(3) + '\\ud83d' + '\\\\ud83d';"),
        ("text.py", "def handler(args, ctx):\n    return 'aaa\\ud83d'\n"),
    ];
    let Some(skill) = SkillFixture::create(&files) else { return };
    for entry in ["a.mjs", "b.py"] {
        let report = skill.call(entry, "{}").await.unwrap();
        let result = report.result;
        assert_eq!(result.result.get(), "[1]");
        assert_eq!(result.evidence.unwrap().get(), r#"["e"]"#);
        assert_eq!(result.metadata.unwrap().get(), r#"{"m":2}"#);
    }
    assert_eq!(skill.result("nothing.mjs", "{}").await, json!(null));
    // Half a character is replaced; the text `\ud83d` is not.
    assert_eq!(skill.result("text.mjs", "{}").await, json!("aaa\u{fffd}\\ud83d"));
    assert_eq!(skill.result("text.py", "{}").await, json!("aaa?"));
}
