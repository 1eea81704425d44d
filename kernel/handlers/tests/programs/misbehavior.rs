//! Programs that fail, and programs that do what no program should.

use std::fs;
use std::time::{Duration, Instant};

use skillhost_handlers::SupervisionLimits;

use crate::fixture::{LONG, SkillFixture, context, describe, wait_for};

const SHORT: Duration = Duration::from_millis(700);

fn quick() -> SupervisionLimits {
    SupervisionLimits { grace: Duration::from_millis(100), ..SupervisionLimits::default() }
}

/// Programs whose process lives on, with kind and start of the message of their error.
const FAILURES: &[(&str, &str, &str, &str)] = &[
    (
        "error.mjs",
        "export default () => { throw new Error('no such symbol'); };",
        "failed",
        "no such symbol (error.mjs:1:30)",
    ),
    (
        "typed.mjs",
        "export default () => { throw new TypeError('bad'); };",
        "failed",
        "TypeError: bad",
    ),
    (
        "text.mjs",
        "export default () => { throw 'just text'; };",
        "failed",
        "threw a value that is not an error: 'just text'",
    ),
    (
        "null.mjs",
        "export default async () => { throw null; };",
        "failed",
        "threw a value that is not an error: null",
    ),
    (
        "reject.mjs",
        "export default () => Promise.reject();",
        "failed",
        "threw a value that is not an error: undefined",
    ),
    (
        "getter.mjs",
        "export default () => { throw { get message() { throw 1; } }; };",
        "failed",
        "threw a value that cannot be described",
    ),
    (
        "cyclic.mjs",
        "export default () => { const a = {}; a.a = a; return a; };",
        "failed",
        "the result cannot be sent: TypeError: Converting circular structure to JSON",
    ),
    (
        "bigint.mjs",
        "export default () => ({ result: 10n });",
        "failed",
        "the result cannot be sent: TypeError: Do not know how to serialize a BigInt",
    ),
    (
        "hostile.mjs",
        "export default () => ({ result: { toJSON() { throw 'x'; } } });",
        "failed",
        "the result cannot be sent: threw a value that is not an error: 'x'",
    ),
    (
        "huge.mjs",
        "export default () => 'x'.repeat(5e6);",
        "too_large",
        "the result cannot be sent: the message has more than 4194304 bytes",
    ),
    (
        "deep.mjs",
        "export default () => JSON.parse('['.repeat(2000) + ']'.repeat(2000));",
        "too_large",
        "the result is nested too deep",
    ),
    (
        "error.py",
        "def handler(args, ctx):\n    raise ValueError('bad')\n",
        "failed",
        "ValueError: bad (error.py:2)",
    ),
    (
        "exit.py",
        "import sys\ndef handler(args, ctx):\n    sys.exit(3)\n",
        "failed",
        "called sys.exit(3)",
    ),
    (
        "odd.py",
        "class Odd(Exception):\n    def __str__(self):\n        raise KeyError(1)\ndef handler(args, ctx):\n    raise Odd()\n",
        "failed",
        "Odd: an error that cannot be described",
    ),
    (
        "cyclic.py",
        "def handler(args, ctx):\n    a = []\n    a.append(a)\n    return a\n",
        "failed",
        "the result cannot be sent: ValueError: Circular reference detected",
    ),
    (
        "set.py",
        "def handler(args, ctx):\n    return {1, 2}\n",
        "failed",
        "the result cannot be sent: TypeError: Object of type set is not JSON serializable",
    ),
    (
        "nan.py",
        "def handler(args, ctx):\n    return float('nan')\n",
        "failed",
        "the result cannot be sent: ValueError: Out of range float values",
    ),
    (
        "huge.py",
        "def handler(args, ctx):\n    return 'x' * 5000000\n",
        "too_large",
        "the result cannot be sent: the message has more than 4194304 bytes",
    ),
    (
        "parameters.py",
        "def handler(args):\n    return 1\n",
        "failed",
        "TypeError: handler() takes 1 positional argument but 2 were given",
    ),
];

#[tokio::test]
async fn failures_are_errors_of_their_call() {
    let files: Vec<_> = FAILURES.iter().map(|(entry, text, ..)| (*entry, *text)).collect();
    let Some(skill) = SkillFixture::create(&files) else { return };
    for (number, (entry, _, kind, start)) in FAILURES.iter().enumerate() {
        let (found, message) = skill.error(entry, "{}").await;
        assert!(found == *kind && message.starts_with(start), "{entry}: {found}: {message}");
        // The same process answers again.
        assert_eq!(skill.error(entry, "{}").await.0, *kind, "{entry}");
        assert_eq!(skill.supervisor.running_count(), number + 1, "{entry}");
    }
}

/// Programs that cannot be loaded, with the start of the message of their error.
const UNLOADABLE: &[(&str, &str, &str)] = &[
    (
        "throws.mjs",
        "throw new Error('at load');",
        "program `skill.throws` cannot be loaded: at load (throws.mjs:1:7)",
    ),
    (
        "syntax.mjs",
        "export default (",
        "program `skill.syntax` cannot be loaded: SyntaxError: Unexpected end of input (syntax.mjs:1)",
    ),
    (
        "nothing.mjs",
        "export const other = 1;",
        "program `skill.nothing` cannot be loaded: it exports no function, no object with `invoke` and no class as `default`, `handler` or `Tool`; it exports other",
    ),
    (
        "schema.mjs",
        "const tool = async () => 1; export default { schema: { type: 'object', title: 'x'.repeat(70000) }, invoke: tool };",
        "program `skill.schema`: the result is not valid: program/load: the schema has more than 65536 bytes",
    ),
    ("empty.cjs", "", "program `skill.empty` cannot be loaded: it exports no function"),
    (
        "number.mjs",
        "export default 7;",
        "program `skill.number` cannot be loaded: it exports no function",
    ),
    (
        "class.mjs",
        "export default class Quote { run() {} }",
        "program `skill.class` cannot be loaded: the class Quote has no method `invoke`",
    ),
    (
        "constructor.mjs",
        "export default class { constructor() { throw 'x'; } invoke() {} }",
        "program `skill.constructor` cannot be loaded: threw a value that is not an error: 'x'",
    ),
    (
        "langchain.mjs",
        "import { StructuredTool } from '@langchain/core/tools';\nexport default class extends StructuredTool {}",
        "program `skill.langchain` cannot be loaded: it needs the package `@langchain/core`, which is not installed in the directory of the skill",
    ),
    (
        "require.cjs",
        "const { tool } = require('@langchain/core/tools');",
        "program `skill.require` cannot be loaded: it needs the package `@langchain/core`, which",
    ),
    (
        "sibling.mjs",
        "import './missing.mjs';",
        "program `skill.sibling` cannot be loaded: Cannot find module",
    ),
    ("exits.mjs", "process.exit(4);", "program `skill.exits` ended with exit code 4"),
    ("zero.mjs", "process.exit(0);", "program `skill.zero` ended with exit code 0"),
    (
        "module.py",
        "import pandas_that_is_not_there\n",
        "program `skill.module_py` cannot be loaded: it needs the module `pandas_that_is_not_there`, which is not installed",
    ),
    (
        "syntax_error.py",
        "def handler(:\n",
        "program `skill.syntax_error_py` cannot be loaded: SyntaxError: ",
    ),
    (
        "none.py",
        "x = 1\n",
        "program `skill.none_py` cannot be loaded: it defines none of `handler`, `Tool` and `tool`; it defines x",
    ),
    (
        "exits_.py",
        "import sys\nsys.exit(4)\n",
        "program `skill.exits__py` cannot be loaded: called sys.exit(4)",
    ),
    (
        "bare.py",
        "class Tool:\n    pass\n",
        "program `skill.bare_py` cannot be loaded: the class Tool has no method `invoke`",
    ),
    (
        "value.py",
        "handler = 5\n",
        "program `skill.value_py` cannot be loaded: it has neither a function nor an object with `invoke`",
    ),
];

#[tokio::test]
async fn load_failures_are_explained() {
    let files: Vec<_> = UNLOADABLE.iter().map(|(entry, text, _)| (*entry, *text)).collect();
    let Some(skill) = SkillFixture::create(&files) else { return };
    for (entry, _, start) in UNLOADABLE {
        let (_, message) = skill.error(entry, "{}").await;
        assert!(message.starts_with(start), "{entry}: {message}");
    }
    // The third failure is the last: there is no further process.
    let (entry, _, start) = UNLOADABLE[0];
    skill.error(entry, "{}").await;
    skill.error(entry, "{}").await;
    let (kind, message) = skill.error(entry, "{}").await;
    let (_, why) = start.split_once("` ").unwrap();
    let expected = format!("program `skill.throws` ended 3 times; the last time it {why}");
    assert_eq!((kind, &*message), ("unavailable", &*expected));
}

#[tokio::test]
async fn endless_programs_end_with_their_time() {
    let files = [
        ("never.mjs", "export default (args) => args.ok ? 1 : new Promise(() => {});"),
        ("loop.mjs", "export default (args) => { while (!args.ok); return 1; };"),
        ("load.mjs", "for (;;);"),
        (
            "sleep.py",
            "import time\ndef handler(args, ctx):\n    while not args.get('ok'):\n        time.sleep(1000)\n    return 1\n",
        ),
        (
            "loop.py",
            "def handler(args, ctx):\n    while not args.get('ok'):\n        pass\n    return 1\n",
        ),
    ];
    let Some(skill) = SkillFixture::with_limits(&files, quick()) else { return };
    for (entry, _) in files {
        let start = Instant::now();
        let error = skill.call_in(context(), entry, "{}", SHORT).await.unwrap_err();
        let (kind, message) = describe(&error, entry);
        assert_eq!(kind, "timeout", "{entry}: {message}");
        assert!(message.ends_with("did not answer within 700 ms"), "{entry}: {message}");
        assert!(start.elapsed() < Duration::from_secs(5), "{entry}");
        if entry != "load.mjs" {
            // The process is replaced.
            let ok = skill.call_in(context(), entry, r#"{"ok": 1}"#, LONG).await;
            assert!(ok.is_ok(), "{entry}: {ok:?}");
        }
    }
}

#[tokio::test]
async fn cancelled_call_ends_what_it_waits_for() {
    let files = [
        (
            "signal.mjs",
            "let seen = 0;\nexport default (args, ctx) => args.count ? seen : new Promise((_, no) => ctx.signal.addEventListener('abort', (e) => { seen += 1; no(ctx.signal.reason); }));",
        ),
        (
            "event.py",
            "seen = 0\ndef handler(args, ctx):\n    global seen\n    if args.get('count'):\n        return seen\n    ctx.cancelled.wait()\n    seen += 1\n",
        ),
    ];
    let Some(skill) = SkillFixture::create(&files) else { return };
    for (entry, _) in files {
        assert_eq!(skill.result(entry, r#"{"count": 1}"#).await, 0);
        let error = skill.call_in(context(), entry, "{}", SHORT).await.unwrap_err();
        assert_eq!(describe(&error, entry).0, "timeout");
        // The same process has counted the cancellation.
        while skill.result(entry, r#"{"count": 1}"#).await != 1 {}
    }
    assert_eq!(skill.supervisor.running_count(), 2);
}

#[tokio::test]
async fn output_never_reaches_protocol() {
    let files = [
        (
            "print.mjs",
            "console.log('{\"id\":1,\"result\":{}}');\nexport default () => { console.log('{\"id\":2,\"result\":{}}'); process.stdout.write('x'.repeat(3e6)); console.error('e'); return 1; };",
        ),
        (
            "print.py",
            "print('{\"id\":1,\"result\":{}}')\ndef handler(args, ctx):\n    print('x' * 3000000)\n    return 1\n",
        ),
    ];
    let Some(skill) = SkillFixture::create(&files) else { return };
    for (entry, _) in files {
        assert_eq!(skill.result(entry, "{}").await, 1, "{entry}");
        assert_eq!(skill.result(entry, "{}").await, 1, "{entry}");
    }
}

#[tokio::test]
async fn exit_during_call_is_reported_with_output() {
    let files = [
        ("exit.mjs", "export default () => { console.error('last words'); process.exit(9); };"),
        (
            "callback.mjs",
            "export default () => { setTimeout(() => { throw new Error('later'); }); return new Promise(() => {}); };",
        ),
        (
            "kill.py",
            "import os, signal\ndef handler(args, ctx):\n    os.kill(os.getpid(), signal.SIGKILL)\n",
        ),
        ("memory.py", "def handler(args, ctx):\n    return len(bytearray(1 << 30))\n"),
    ];
    let Some(mut skill) = SkillFixture::create(&files) else { return };
    skill.policy.limits.memory_mib = 256;
    let (kind, message) = skill.error("exit.mjs", "{}").await;
    assert_eq!(kind, "unavailable");
    assert_eq!(
        message,
        "program `skill.exit` ended with exit code 9\nlast lines of its output:\nlast words"
    );
    let (_, message) = skill.error("callback.mjs", "{}").await;
    assert!(message.contains("ended with exit code 1") && message.contains("later"), "{message}");
    let (_, message) = skill.error("kill.py", "{}").await;
    assert!(message.contains("was ended by signal 9"), "{message}");
    // A limit ends the process, or the program is refused the memory.
    let (_, message) = skill.error("memory.py", "{}").await;
    assert!(message.contains("limit of memory") || message.contains("MemoryError"), "{message}");
}

#[tokio::test]
async fn repeated_exits_reach_restart_limit() {
    let files = [("exit.mjs", "export default (args) => process.exit(9);")];
    let Some(skill) = SkillFixture::create(&files) else { return };
    for _ in 0..3 {
        assert_eq!(
            skill.error("exit.mjs", "{}").await.1,
            "program `skill.exit` ended with exit code 9"
        );
    }
    let (kind, message) = skill.error("exit.mjs", "{}").await;
    assert_eq!(kind, "unavailable");
    assert!(message.starts_with("program `skill.exit` ended 3 times; the last"), "{message}");
    // Another thread has a process of its own.
    let other = skillhost_payload::CallContext { session_id: "u".into(), ..context() };
    let error = skill.call_in(other, "exit.mjs", "{}", LONG).await.unwrap_err();
    assert_eq!(describe(&error, "exit.mjs").1, "program `skill.exit` ended with exit code 9");
}

/// Runners that violate the protocol, with the error of the call.
const VIOLATIONS: &[(&str, &str)] = &[
    (
        "for line in lines:\n    send('{\"id\":%d,\"result\":{}}' % line['id'])\n    send('{\"id\":%d,\"result\":{}}' % line['id'])",
        "line 2 answers request 1 a second time",
    ),
    (
        "for line in lines:\n    send('{\"id\":77,\"result\":{}}')",
        "line 1 answers request 77, which was never made",
    ),
    ("send('hello')\nnext(lines)", "line 1 is not JSON"),
    ("send('[1, 2]')\nnext(lines)", "line 1 is neither a request nor an answer"),
    ("send('{' + ' ' * (5 << 20))\nnext(lines)", "line 1 has more than 4194304 bytes"),
    (
        "send('{\"id\":1,\"result\":5}')\nfor line in lines: pass",
        "program `skill.a_py`: the result is not valid: program/load: invalid type",
    ),
    (
        "send('{\"id\":1,\"result\":{}}')\nnext(lines)\nsend('{\"id\":%d,\"result\":{}}' % next(lines)['id'])\nnext(lines)",
        "program `skill.a_py`: the result is not valid: missing field `result`",
    ),
];

#[tokio::test]
async fn violations_end_the_process() {
    for (text, expected) in VIOLATIONS {
        let Some(mut skill) = SkillFixture::create(&[("a.py", "")]) else { return };
        let runner = format!(
            "import json, os\ndef send(text):\n    text = text.encode() + b'\\n'\n    while text: text = text[os.write(3, text):]\nfile = os.fdopen(os.dup(3))\nlines = map(json.loads, file)\n{text}\n"
        );
        skill.runner = Some(runner);
        let start = Instant::now();
        let (_, message) = skill.error("a.py", "{}").await;
        assert!(message.starts_with(expected), "{text}: {message}");
        assert!(start.elapsed() < Duration::from_secs(8), "{text}");
    }
}

/// Answers its call again once the caller has the answer, and lives on when the connection is closed.
const TWICE: &str = "import json, os, time
def send(id, result):
    os.write(3, (json.dumps({'id': id, 'result': result}) + '\\n').encode())
lines = map(json.loads, os.fdopen(os.dup(3)))
send(next(lines)['id'], {})
call = next(lines)['id']
send(call, {'result': 'first'})
while not os.path.exists('answered'): time.sleep(0.01)
send(call, {'result': 'second'})
list(lines)
open('closed', 'w').close()
time.sleep(60)
";

#[tokio::test]
async fn call_after_violation_has_new_process() {
    let Some(mut skill) = SkillFixture::create(&[("a.py", "")]) else { return };
    skill.runner = Some(TWICE.to_owned());
    assert_eq!(skill.result("a.py", "{}").await, "first");
    fs::write(skill.work().join("answered"), "").unwrap();
    // The second answer has been read.
    let closed = skill.work().join("closed");
    wait_for(|| closed.exists() || skill.supervisor.running_count() == 0).await;
    assert_eq!(skill.result("a.py", "{}").await, "first");
}
