//! Tests of the export of telemetry: the built program sends to a collector on this machine.

use std::collections::BTreeSet;
use std::net::TcpListener;
use std::time::{Duration, Instant};

use mock_model::{MockModel, Step, Wire};
use opentelemetry_proto::tonic::trace::v1::Span;
use opentelemetry_proto::tonic::trace::v1::status::StatusCode;
use serde_json::json;
use test_support::{TestHome, can_isolate, program};

use crate::agents_scene::{agents_home_on, ask_agent};
use crate::fixtures::repository_root;
use crate::mcp_client::Client;
use crate::telemetry_collector::{Collector, CollectorReply, attribute};

const REVIEW: &str = r#"{"skill_id":"code-review"}"#;
const FILE: &str = r#"{"skill_id":"code-review","path":"references/notes.md"}"#;
const NAMES: &str = "gen_ai: development-2026-11";
/// A sentence that only the user's message has.
const PROMPT: &str = "Zanzibar is my secret holiday";

/// Creates a home of the agent `worker` with settings of telemetry.
fn home_with(mock: &MockModel, telemetry: &str) -> TestHome {
    let home = agents_home_on(mock, Wire::Openai)
        .file("sandbox/skills/code-review/references/notes.md", "Notes.");
    set_telemetry(&home, mock, telemetry);
    home
}

fn set_telemetry(home: &TestHome, mock: &MockModel, telemetry: &str) {
    let settings = mock.settings(Wire::Openai);
    home.write("skillhost.yaml", format!("{settings}telemetry: {{{telemetry}}}\n"));
}

fn to_collector(collector: &Collector, rest: &str) -> String {
    format!("otlp: '{}', {rest}", collector.url())
}

/// Returns the names of the attributes of the pinned conventions.
fn pinned_attributes() -> BTreeSet<String> {
    let file = "kernel/telemetry/conventions/development-2026-11.txt";
    let text = std::fs::read_to_string(repository_root().join(file)).unwrap();
    let lines = text.lines().filter_map(|line| line.strip_prefix("attribute "));
    lines.map(|line| line.split(' ').next().unwrap().to_owned()).collect()
}

#[test]
fn run_is_exported_with_pinned_names() {
    let mock = MockModel::with([
        Step::calls("read_skill", REVIEW),
        Step::calls("read_skill_resource", FILE),
        Step::calls("read_skill", r#"{"skill_id":"code-revue"}"#),
        Step::calls("skills.load", r#"{"names":["code-review"]}"#),
        Step::calls("echo", r#"{"text":"hello"}"#),
        Step::text("Done."),
    ]);
    let collector = Collector::start(CollectorReply::Accept);
    let home = home_with(&mock, &to_collector(&collector, NAMES));
    ask_agent(&home, "worker", PROMPT).success();
    let spans = collector.spans();
    let names: Vec<_> = spans.iter().map(|span| span.name.as_str()).collect();
    assert_eq!(
        names,
        [
            "invoke_agent worker",
            "execute_tool read_skill code-review",
            "execute_tool read_skill_resource code-review references/notes.md",
            "execute_tool read_skill code-revue",
            "execute_tool skills.load code-review",
            "execute_tool echo",
        ]
    );
    let of = |name: &str| spans.iter().map(|span| attribute(span, name)).collect::<Vec<_>>();
    let some = |text: &str| Some(text.to_owned());
    let calls = vec![some("execute_tool"); 5];
    assert_eq!(of("gen_ai.operation.name"), [vec![some("invoke_agent")], calls].concat());
    assert_eq!(of("gen_ai.agent.name"), vec![some("worker"); 6]);
    assert_eq!(of("gen_ai.tool.name")[2], some("read_skill_resource"));
    // The name of a skill that does not exist is exported as well.
    let skills = ["code-review", "code-review", "code-revue", "code-review"].map(some);
    assert_eq!(of("gen_ai.skill.name"), [vec![None], skills.to_vec(), vec![None]].concat());
    assert_eq!(of("gen_ai.skill.resource.name")[2], some("references/notes.md"));
    let errors = of("error.type");
    assert!(errors[3].is_some(), "{errors:?}");
    assert_eq!(errors.iter().flatten().count(), 1);
    let failed = spans.iter().map(is_failed).collect::<Vec<_>>();
    assert_eq!(failed, [false, false, false, true, false, false]);
    // One trace, in which the run is the parent of its calls.
    assert!(spans.iter().all(|span| span.trace_id == spans[0].trace_id));
    assert!(spans[1..].iter().all(|span| span.parent_span_id == spans[0].span_id));
    let threads = of("gen_ai.conversation.id");
    assert!(threads[0].is_some() && threads.iter().all(|thread| *thread == threads[0]));
    let pinned = pinned_attributes();
    for attribute in spans.iter().flat_map(|span| &span.attributes) {
        assert!(pinned.contains(&attribute.key), "{} is not pinned", attribute.key);
    }
    let heads = collector.heads();
    assert!(heads.iter().all(|head| head.starts_with("post /v1/traces ")), "{heads:?}");
}

#[test]
fn failed_run_has_status() {
    let mock = MockModel::with([Step::status(400, "Zanzibar is not served")]);
    let collector = Collector::start(CollectorReply::Accept);
    let home = home_with(&mock, &to_collector(&collector, NAMES));
    let output = ask_agent(&home, "worker", "Go");
    assert_ne!(output.status, 0, "{output}");
    let spans = collector.spans();
    assert_eq!((spans.len(), is_failed(&spans[0])), (1, true), "{spans:?}");
    assert!(attribute(&spans[0], "error.type").is_some());
    assert!(!collector.bytes().windows(8).any(|part| part == b"Zanzibar"));
}

/// Returns whether a span has the status *error*, which has no message.
fn is_failed(span: &Span) -> bool {
    let Some(status) = &span.status else { return false };
    assert_eq!(status.message, "");
    status.code() == StatusCode::Error
}

#[test]
fn texts_and_paths_are_not_exported() {
    let added = ["skill://", "Reviews code"];
    check_no_text_is_exported(NAMES, &added);
    // Both may be exported with `content`, and nothing else.
    check_no_text_is_exported(&format!("{NAMES}, content: true"), &[]);
}

fn check_no_text_is_exported(settings: &str, more: &[&str]) {
    let mock = MockModel::with([
        Step::calls("read_skill", REVIEW),
        Step::calls("read_skill_resource", r#"{"skill_id":"code-review","path":"../../secret"}"#),
        Step::calls("read_skill_resource", r#"{"skill_id":"/etc/shadow","path":"/etc/passwd"}"#),
        Step::calls("echo", &json!({ "text": PROMPT }).to_string()),
        Step::calls("Zanzibar", "{}"),
        Step::text(PROMPT),
    ]);
    let collector = Collector::start(CollectorReply::Accept);
    let home = home_with(&mock, &to_collector(&collector, settings));
    ask_agent(&home, "worker", PROMPT).success();
    assert_eq!(collector.spans().len(), 5);
    let bytes = collector.bytes();
    let has = |text: &str| bytes.windows(text.len()).any(|part| part == text.as_bytes());
    assert!(has("read_skill"));
    let root = home.path("").display().to_string();
    for text in ["Zanzibar", "secret", "passwd", "shadow", &root].iter().chain(more) {
        assert!(!has(text), "{text} was exported with {settings}");
    }
}

#[test]
fn content_adds_description_and_address() {
    let mock = MockModel::with([Step::calls("read_skill", REVIEW), Step::text(PROMPT)]);
    let collector = Collector::start(CollectorReply::Accept);
    let settings = format!("{NAMES}, content: true");
    let home = home_with(&mock, &to_collector(&collector, &settings));
    ask_agent(&home, "worker", PROMPT).success();
    let spans = collector.spans();
    let source = attribute(&spans[1], "gen_ai.skill.source.uri");
    assert_eq!(source.as_deref(), Some("skill://code-review/SKILL.md"));
    let description = attribute(&spans[1], "gen_ai.skill.description");
    assert_eq!(description.as_deref(), Some("Reviews code. Use when asked for a review."));
    let bytes = collector.bytes();
    assert!(!bytes.windows(8).any(|part| part == b"Zanzibar"));
}

#[test]
fn script_has_program_and_exit_code() {
    if !can_isolate() || program("bash").is_none() {
        return;
    }
    let mock = MockModel::with([
        Step::calls("read_skill", r#"{"skill_id": "demo"}"#),
        Step::calls("skills.run_script", r#"{"path": "scripts/a.sh"}"#),
        Step::text("Failed."),
    ]);
    let collector = Collector::start(CollectorReply::Accept);
    let home = home_with(&mock, &to_collector(&collector, NAMES));
    let text = "---\nname: demo\ndescription: Demos. Use for demos.\n---\nRun scripts/a.sh.\n";
    home.write("sandbox/skills/demo/SKILL.md", text);
    home.write("sandbox/skills/demo/scripts/a.sh", "exit 7\n");
    let shown = home.skillhost(["skill", "show", "demo", "--json"]).success().json();
    let digest = shown["scripts"]["digest"].as_str().unwrap();
    home.skillhost(["skill", "approve-scripts", "demo", "--yes", "--digest", digest]).success();
    ask_agent(&home, "worker", "Run it").success();
    let spans = collector.spans();
    let span = &spans[2];
    assert_eq!(span.name, "execute_tool skills.run_script demo scripts/a.sh");
    assert_eq!(attribute(span, "process.executable.name").as_deref(), Some("a.sh"));
    assert_eq!(attribute(span, "process.exit.code").as_deref(), Some("7"));
    assert_eq!(attribute(span, "error.type").as_deref(), Some("tool_error"));
}

#[test]
fn delegated_run_is_child_of_run() {
    let mock = MockModel::with([
        Step::calls("delegate_task", r#"{"agent_id":"worker","task":"Go on"}"#),
        Step::text("Went on."),
        Step::text("Done."),
    ]);
    let collector = Collector::start(CollectorReply::Accept);
    let home = home_with(&mock, &to_collector(&collector, NAMES));
    ask_agent(&home, "orchestrator_agent", "Delegate").success();
    let spans = collector.spans();
    let runs: Vec<_> = spans.iter().filter(|span| span.name.starts_with("invoke_agent")).collect();
    assert_eq!(runs.len(), 2, "{spans:?}");
    assert_eq!(runs[1].name, "invoke_agent worker");
    assert_eq!(runs[1].parent_span_id, runs[0].span_id);
    assert_eq!(runs[1].trace_id, runs[0].trace_id);
    let thread = |at: usize| attribute(runs[at], "gen_ai.conversation.id");
    assert!(thread(0).is_some() && thread(0) == thread(1), "{runs:?}");
}

#[test]
fn calls_of_mcp_client_have_no_parent() {
    let collector = Collector::start(CollectorReply::Accept);
    let home = home_with(&MockModel::new(), &to_collector(&collector, NAMES));
    let mut client = Client::connect(&home);
    client.call("read_skill", json!({"skill_id": "code-review"}));
    client.close().success();
    let spans = collector.spans();
    assert_eq!(spans.len(), 1, "{spans:?}");
    assert_eq!(spans[0].name, "execute_tool read_skill code-review");
    assert!(spans[0].parent_span_id.is_empty());
    assert_eq!(attribute(&spans[0], "gen_ai.conversation.id"), None);
    // A person's own call is not exported.
    home.skillhost(["tool", "call", "read_skill", REVIEW]).success();
    assert_eq!(collector.spans().len(), 1);
}

#[test]
fn nothing_is_sent_by_default() {
    let mock = MockModel::with([Step::calls("read_skill", REVIEW), Step::text("Done.")]);
    let collector = Collector::start(CollectorReply::Accept);
    let home = agents_home_on(&mock, Wire::Openai);
    // The variables of other programs do not switch the export on.
    let mut command = home.command();
    command
        .env("OTEL_EXPORTER_OTLP_ENDPOINT", collector.url())
        .env("OTEL_TRACES_EXPORTER", "otlp")
        .env("OTEL_SEMCONV_STABILITY_OPT_IN", "gen_ai_latest_experimental")
        .args(["ask", "--agent", "worker", PROMPT]);
    home.start(&mut command).finish().success();
    assert_eq!(collector.connection_count(), 0);
}

#[test]
fn conventions_are_selected_by_variable() {
    let ask = || vec![Step::calls("read_skill", REVIEW), Step::text("Done.")];
    let mock = MockModel::with(ask().into_iter().chain(ask()).chain(ask()));
    let run = |telemetry: &str, opt_in: &str| {
        let collector = Collector::start(CollectorReply::Accept);
        let home = home_with(&mock, &to_collector(&collector, telemetry));
        let mut command = home.command();
        command.env("OTEL_SEMCONV_STABILITY_OPT_IN", opt_in);
        command.args(["ask", "--agent", "worker", "Review"]);
        home.start(&mut command).finish().success();
        let spans = collector.spans();
        let spans = spans.iter().map(|span| (span.name.clone(), span.attributes.len()));
        spans.collect::<Vec<_>>()
    };
    let bare = [("invoke_agent worker".into(), 0), ("execute_tool read_skill".into(), 0)];
    let named =
        [("invoke_agent worker".into(), 3), ("execute_tool read_skill code-review".into(), 5)];
    assert_eq!(run("", "http"), bare);
    assert_eq!(run("", "http,gen_ai_latest_experimental"), named);
    assert_eq!(run("gen_ai: off", "gen_ai_latest_experimental"), bare);
}

#[test]
fn failing_collector_costs_no_turn() {
    // A port that refuses connections.
    let closed = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let refusing = Collector::start(CollectorReply::Refuse);
    let silent = Collector::start(CollectorReply::Never);
    let urls = [(format!("http://{closed}"), 1), (refusing.url(), 1), (silent.url(), 0)];
    for (url, reported) in urls {
        let mock = MockModel::with([Step::calls("read_skill", REVIEW), Step::text("Done.")]);
        let home = home_with(&mock, &format!("otlp: '{url}'"));
        let start = Instant::now();
        let output = ask_agent(&home, "worker", "Review").success();
        assert_eq!(output.stdout.trim(), "Done.");
        // The limit of the export at the end is a second; the rest is the run.
        assert!(start.elapsed() < Duration::from_secs(30), "{url}: {:?}", start.elapsed());
        let count = |text: &str| output.stderr.matches(text).count();
        assert_eq!(count("spans of telemetry are not accepted"), reported, "{url}: {output}");
        assert_eq!(count("spans of telemetry were not exported lost=2"), 1, "{url}: {output}");
        assert_eq!(count("panicked"), 0, "{url}: {output}");
    }
}

#[test]
fn busy_collector_is_tried_again() {
    let mock = MockModel::with([Step::text("Done.")]);
    let collector = Collector::start(CollectorReply::BusyOnce);
    let home = home_with(&mock, &to_collector(&collector, NAMES));
    let output = ask_agent(&home, "worker", "Go").success();
    // The same span, once refused and once accepted.
    assert_eq!(collector.heads().len(), 2, "{output}");
    assert!(!output.stderr.contains("not exported"), "{output}");
}

#[test]
fn redirect_is_not_followed() {
    let other = Collector::start(CollectorReply::Accept);
    let collector = Collector::start(CollectorReply::Redirect(other.address()));
    let mock = MockModel::with([Step::text("Done.")]);
    let home = home_with(&mock, &to_collector(&collector, NAMES));
    let output = ask_agent(&home, "worker", "Go").success();
    assert!(collector.connection_count() > 0, "{output}");
    assert_eq!(other.connection_count(), 0);
}

#[test]
fn proxy_is_not_used_for_this_machine() {
    let proxy = Collector::start(CollectorReply::Accept);
    let mock = MockModel::with([Step::text("Done.")]);
    let collector = Collector::start(CollectorReply::Accept);
    let home = home_with(&mock, &to_collector(&collector, NAMES));
    let mut command = home.command();
    command.env("HTTP_PROXY", proxy.url()).env("http_proxy", proxy.url());
    command.args(["ask", "--agent", "worker", "Go"]);
    home.start(&mut command).finish().success();
    assert_eq!((collector.spans().len(), proxy.connection_count()), (1, 0));
}

#[test]
fn calls_follow_sampling_of_their_run() {
    let mock = MockModel::with([Step::calls("read_skill", REVIEW), Step::text("Done.")]);
    let collector = Collector::start(CollectorReply::Accept);
    let home = home_with(&mock, &to_collector(&collector, NAMES));
    let mut command = home.command();
    command.env("OTEL_TRACES_SAMPLER", "parentbased_always_off");
    command.args(["ask", "--agent", "worker", "Go"]);
    let output = home.start(&mut command).finish().success();
    assert_eq!(collector.connection_count(), 0, "{output}");
    assert!(!output.stderr.contains("not exported"), "{output}");
}

#[test]
fn headers_come_from_environment() {
    let mock = MockModel::with([Step::text("Done.")]);
    let collector = Collector::start(CollectorReply::Accept);
    let home = home_with(&mock, &to_collector(&collector, NAMES));
    let mut command = home.command();
    command.env("OTEL_EXPORTER_OTLP_HEADERS", "x-team=blue").env("OTEL_SERVICE_NAME", "agents");
    command.args(["ask", "--agent", "worker", "Go"]);
    home.start(&mut command).finish().success();
    let heads = collector.heads();
    assert!(heads[0].contains("x-team: blue"), "{heads:?}");
    let bytes = collector.bytes();
    assert!(bytes.windows(6).any(|part| part == b"agents"));
}

#[test]
fn wrong_settings_stop_the_start() {
    let mock = MockModel::new();
    for (telemetry, message) in [
        ("otlp: 'localhost:4318'", "is not the base URL of a collector"),
        ("content: true", "have no effect without telemetry.otlp"),
        ("otlp: 'http://me:pw@localhost'", "OTEL_EXPORTER_OTLP_HEADERS"),
    ] {
        let home = home_with(&mock, telemetry);
        let output = ask_agent(&home, "worker", "Go").exits(2);
        assert!(output.stderr.contains(message), "{output}");
        assert!(output.stderr.contains("skillhost.yaml"), "{output}");
        assert!(!output.stderr.contains("me:pw"), "{output}");
    }
    assert_eq!(mock.requests().len(), 0);
}
