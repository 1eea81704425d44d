//! What programs see and request: their skill, tools, other calls.

use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use serde_json::value::RawValue;
use serde_json::{Value, json};
use skillhost_handlers::{ProgramToolCall, ToolInvoker};
use skillhost_payload::{CallContext, CallError, ErrorKind, ToolOutput};

use crate::fixture::{LONG, SkillFixture, context, describe};

const CONTEXT: &[(&str, &str)] = &[
    (
        "index.mjs",
        "export default async (args, ctx) => ({ result: { ids: [ctx.requestId, ctx.taskId, ctx.traceId, ctx.userId], name: ctx.skill.name, description: ctx.skill.description, instructions: ctx.skill.instructions, dir: ctx.skill.dirPath, tools: typeof ctx.invokeTool, notes: await ctx.skill.readResource('references/NOTES.md'), code: ctx.skill.getResourcesByType('code').map((r) => r.path), all: ctx.skill.resources } });",
    ),
    (
        "index.py",
        "def handler(args, ctx):\n    s = ctx.skill\n    return {'result': {'ids': [ctx.requestId, ctx.task_id, ctx.traceId, ctx.user_id], 'name': s.name, 'description': s.description, 'instructions': s.instructions, 'dir': s.dirPath, 'tools': 'function' if hasattr(ctx, 'invoke_tool') else 'undefined', 'notes': s.readResource('./references/NOTES.md'), 'code': [r['path'] for r in s.get_resources_by_type('code')], 'all': s.resources}}\n",
    ),
    ("references/NOTES.md", "Nötes.\n"),
    ("assets/data.json", "{}"),
];

#[tokio::test]
async fn context_has_skill_and_ids() {
    let Some(skill) = SkillFixture::create(CONTEXT) else { return };
    for entry in ["index.mjs", "index.py"] {
        let seen = skill.result(entry, "{}").await;
        let expected = json!({
            "ids": ["7", "t", "turn-1", "assistant"],
            "name": "yahoo-finance",
            "description": "Quotes.",
            "instructions": "Use it.",
            "dir": skill.root(),
            "tools": "undefined",
            "notes": "Nötes.\n",
            "code": ["index.mjs", "index.py"],
            "all": [
                {"path": "assets/data.json", "type": "data"},
                {"path": "index.mjs", "type": "code"},
                {"path": "index.py", "type": "code"},
                {"path": "references/NOTES.md", "type": "instructions"},
            ],
        });
        assert_eq!(seen, expected, "{entry}");
    }
}

#[tokio::test]
async fn only_listed_text_is_read() {
    let files = [
        (
            "read.mjs",
            "export default async (args, ctx) => { try { return await ctx.skill.readResource(args.path); } catch (e) { return `${e.kind}: ${e.message}`; } };",
        ),
        (
            "read.py",
            "def handler(args, ctx):\n    try:\n        return ctx.skill.read_resource(args['path'])\n    except Exception as error:\n        return f'{error.kind}: {error}'\n",
        ),
        ("big.txt", ""),
        ("binary.dat", ""),
    ];
    let Some(skill) = SkillFixture::create(&files) else { return };
    std::fs::write(skill.root().join("big.txt"), "x".repeat(2 * 1024 * 1024 + 1)).unwrap();
    std::fs::write(skill.root().join("binary.dat"), [0xff, 0xfe]).unwrap();
    let cases = [
        ("../work", "not_found: the skill has no file `../work`"),
        ("/etc/passwd", "not_found: the skill has no file `/etc/passwd`"),
        ("", "not_found: the skill has no file ``"),
        ("missing.md", "not_found: the skill has no file `missing.md`"),
        ("binary.dat", "invalid_argument: binary.dat is not UTF-8 text"),
        ("big.txt", "too_large: big.txt: "),
    ];
    for entry in ["read.mjs", "read.py"] {
        for (path, expected) in cases {
            let found = skill.result(entry, &json!({ "path": path }).to_string()).await;
            assert!(found.as_str().unwrap().starts_with(expected), "{entry} {path}: {found}");
        }
    }
}

#[tokio::test]
async fn many_files_are_read_at_once() {
    let text = "export default async (args, ctx) => { const all = await Promise.all(Array.from({ length: 60 }, () => ctx.skill.readResource('big.txt'))); return { result: all.map((text) => text.length).reduce((a, b) => a + b) }; };";
    let Some(skill) = SkillFixture::create(&[("many.mjs", text), ("big.txt", "")]) else { return };
    std::fs::write(skill.root().join("big.txt"), "x".repeat(1024 * 1024)).unwrap();
    assert_eq!(skill.result("many.mjs", "{}").await, 60 * 1024 * 1024);
}

/// Records calls, and calls programs of the same skill for `skill.…`.
#[derive(Default)]
struct TestTools {
    calls: Mutex<Vec<ProgramToolCall>>,
    skill: Mutex<Option<std::sync::Weak<SkillFixture>>>,
}

#[async_trait]
impl ToolInvoker for TestTools {
    async fn invoke_tool(&self, call: ProgramToolCall) -> Result<ToolOutput, CallError> {
        self.calls.lock().unwrap().push(call.clone());
        let text =
            |text: &str| -> ToolOutput { serde_json::from_value(json!({ "text": text })).unwrap() };
        match call.name.as_str() {
            "echo" => Ok(ToolOutput {
                structured: Some(
                    RawValue::from_string(call.arguments.replace(',', ",\r\n")).unwrap(),
                ),
                ..text("echoed")
            }),
            "failing" => Ok(ToolOutput { is_error: true, ..text("it failed") }),
            "denied" => Err(CallError::new(ErrorKind::Denied, "not approved").with_hint("ask")),
            "never" => std::future::pending().await,
            "huge" => Ok(text(&"x".repeat(5 << 20))),
            itself => {
                let skill = self.skill.lock().unwrap().as_ref().and_then(|skill| skill.upgrade());
                let skill = skill.unwrap();
                let entry = itself.strip_prefix("skill.").unwrap();
                let entry = match entry.strip_suffix("_py") {
                    Some(stem) => format!("{stem}.py"),
                    None => format!("{entry}.mjs"),
                };
                let report = skill.call_in(call.context, &entry, &call.arguments, LONG).await;
                let report = report.map_err(|error| error.to_call_error(itself))?;
                Ok(text(report.result.result.get()))
            }
        }
    }
}

fn with_tools(files: &[(&str, &str)]) -> Option<(Arc<SkillFixture>, Arc<TestTools>)> {
    let mut skill = SkillFixture::create(files)?;
    let tools = Arc::new(TestTools::default());
    skill.tools = Some(Arc::clone(&tools) as Arc<dyn ToolInvoker>);
    skill.allowed_tools = Some(vec!["echo".to_owned()]);
    let skill = Arc::new(skill);
    *tools.skill.lock().unwrap() = Some(Arc::downgrade(&skill));
    Some((skill, tools))
}

const INVOKE: &[(&str, &str)] = &[
    (
        "invoke.mjs",
        "export default async (args, ctx) => { const call = (n) => ctx.invokeTool(n, args).catch((e) => `${e.kind}: ${e.message} (${e.hint})`); return args.pass ? ctx.invokeTool(args.pass) : Promise.all(args.names.map(call)); };",
    ),
    (
        "invoke.py",
        "def handler(args, ctx):\n    if args.get('pass'):\n        return ctx.invoke_tool(args['pass'])\n    found = []\n    for name in args['names']:\n        try:\n            found.append(ctx.invokeTool(name, args))\n        except Exception as e:\n            found.append(f'{e.kind}: {e} ({e.hint})')\n    return found\n",
    ),
];

#[tokio::test]
async fn tools_answer_programs() {
    let Some((skill, tools)) = with_tools(INVOKE) else { return };
    for entry in ["invoke.mjs", "invoke.py"] {
        let names = ["echo", "failing", "denied", "huge"];
        let arguments = json!({ "names": names });
        // Line breaks between the tokens do not end a message, in either direction.
        let found = skill.result(entry, &format!("{arguments:#}")).await;
        let expected = json!([
            { "text": "echoed", "structured": arguments },
            "failed: it failed ()",
            "denied: not approved (ask)",
            "too_large: the answer has more than 4 MiB ()",
        ]);
        assert_eq!(found, expected, "{entry}");
        let calls = std::mem::take(&mut *tools.calls.lock().unwrap());
        assert_eq!(calls.iter().map(|call| &*call.name).collect::<Vec<_>>(), names);
        let CallContext { agent_id, session_id, deadline_ms, call_chain, .. } = &calls[0].context;
        let tool = if entry.ends_with(".py") { "skill.invoke_py" } else { "skill.invoke" };
        assert_eq!((&**agent_id, &**session_id), ("assistant", "t"));
        assert_eq!(*call_chain, [format!("program {tool}")]);
        assert!(deadline_ms.is_some_and(|ms| ms <= 30_000));
        assert_eq!(calls[0].allowed_tools.as_deref(), Some(&["echo".to_owned()][..]));
        // An error that the program passes on keeps its kind.
        assert_eq!(
            skill.error(entry, r#"{"pass": "denied"}"#).await,
            ("denied", "not approved".into())
        );
        tools.calls.lock().unwrap().clear();
    }
}

#[tokio::test]
async fn tool_without_answer_ends_with_the_call() {
    let Some((skill, _)) = with_tools(INVOKE) else { return };
    for entry in ["invoke.mjs", "invoke.py"] {
        let limit = std::time::Duration::from_millis(700);
        let error =
            skill.call_in(context(), entry, r#"{"pass": "never"}"#, limit).await.unwrap_err();
        assert_eq!(describe(&error, entry).0, "timeout", "{entry}");
        // The process is free for the next call.
        assert_eq!(skill.result(entry, r#"{"names": []}"#).await, json!([]));
    }
    assert_eq!(skill.supervisor.running_count(), 2);
}

#[tokio::test]
async fn program_that_calls_itself_reaches_depth_limit() {
    let files = [
        (
            "self.mjs",
            "export default async (args, ctx) => { const depth = args.depth ?? 1; try { const { text } = await ctx.invokeTool('skill.self', { depth: depth + 1 }); return JSON.parse(text); } catch (e) { return `${depth} ${e.kind}: ${e.message}`; } };",
        ),
        (
            "self.py",
            "import json\ndef handler(args, ctx):\n    depth = args.get('depth', 1)\n    try:\n        return json.loads(ctx.invoke_tool('skill.self_py', {'depth': depth + 1})['text'])\n    except Exception as e:\n        return f'{depth} {e.kind}: {e}'\n",
        ),
    ];
    let Some((skill, _)) = with_tools(&files) else { return };
    for entry in ["self.mjs", "self.py"] {
        let expected = "4 denied: calls of programs and delegations are 4 levels deep, the limit";
        assert_eq!(skill.result(entry, "{}").await, Value::from(expected), "{entry}");
        // A delegation before counts as well.
        let called = CallContext { call_chain: vec!["agent helper".to_owned()], ..context() };
        let report = skill.call_in(called, entry, "{}", LONG).await.unwrap();
        assert!(report.result.result.get().starts_with("\"3 denied"), "{:?}", report.result);
    }
    assert_eq!(skill.supervisor.running_count(), 2, "one process answers all levels");
}

#[tokio::test]
async fn calls_run_at_the_same_time() {
    let files = [
        (
            "pair.mjs",
            "let first; export default () => new Promise((resolve) => { if (first) { first(1); resolve(2); first = null; } else first = resolve; });",
        ),
        (
            "pair.py",
            "import threading\nbarrier = threading.Barrier(2)\ndef handler(args, ctx):\n    barrier.wait()\n    return 1\n",
        ),
    ];
    let Some(skill) = SkillFixture::create(&files) else { return };
    for (entry, _) in files {
        let (one, other) = tokio::join!(skill.call(entry, "{}"), skill.call(entry, "{}"));
        assert!(one.is_ok() && other.is_ok(), "{entry}: {one:?} {other:?}");
    }
    assert_eq!(skill.supervisor.running_count(), 2);
}
