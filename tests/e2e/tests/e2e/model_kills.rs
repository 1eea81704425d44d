//! Kills of `skillhost skill test --model` in the middle of requests: no request is paid for twice, and
//! the budget is exceeded by at most one request.

use std::collections::BTreeMap;
use std::fs;
use std::process::Command;
use std::sync::{Arc, Mutex};

use mock_model::{MockModel, MockRequest, Step, Wire};
use serde_json::Value;
use test_support::TestHome;

use crate::fixtures::{agent_manifest, shipped_manifest, skill_md};

/// The tokens that the mock model reports for a request.
const TOKENS: u64 = 15;

/// The process that is killed, and the requests that it makes before.
#[derive(Default)]
struct KillState {
    process: Option<u32>,
    left: usize,
    kills: usize,
}

#[test]
fn killed_runs_resume_without_double_charge() {
    check_kills(6, 2, 1);
}

#[test]
#[ignore = "takes several minutes"]
fn two_hundred_kills_charge_once() {
    check_kills(200, 100, 2);
}

fn kill_home(mock: &MockModel) -> TestHome {
    let agent = "  instructions: You work.\n  uses_tools: [skill_registry]\n";
    TestHome::new()
        .manifest("skill_registry", &shipped_manifest("skill_registry"))
        .manifest("orchestrator_agent", &agent_manifest("orchestrator_agent", agent))
        .skill("greet", &skill_md("Greets people.", "Say hello."))
        .file(
            "sandbox/skills/greet/evals/evals.json",
            r#"{"evals": [{"id": 1, "prompt": "Greet Ada", "assertions": [
                {"type": "contains", "value": "Hello"}]}]}"#,
        )
        .file(
            "sandbox/skills/greet/evals/triggers.json",
            r#"[{"query": "greet Ada", "should_trigger": true},
                {"query": "brew tea", "should_trigger": false}]"#,
        )
        .settings(&mock.settings(Wire::Openai))
        .trusted()
}

fn reply(request: &MockRequest) -> Step {
    let last = request.messages().pop().unwrap();
    let is_first = last.role == "user" && last.text.contains("reet");
    match is_first {
        true => Step::calls("read_skill", r#"{"skill_id":"greet"}"#),
        false => Step::text("Hello."),
    }
}

#[expect(clippy::print_stderr, reason = "the figures of the measurement")]
fn check_kills(kills: usize, runs: u32, seed: u64) {
    let mock = MockModel::new();
    let state = Arc::new(Mutex::new(KillState::default()));
    let shared = Arc::clone(&state);
    mock.answer_with(move |request| {
        let mut state = shared.lock().unwrap();
        if let Some(process) = state.process {
            state.left = state.left.saturating_sub(1);
            if state.left == 0 {
                // The request has arrived, and its reply never does.
                let killed = Command::new("kill").args(["-9", &process.to_string()]).status();
                assert!(killed.unwrap().success());
                state.process = None;
                state.kills += 1;
            }
        }
        Some(reply(request))
    });
    let home = kill_home(&mock);
    let number = runs.to_string();
    let args = ["skill", "test", "greet", "--model", "mock/test-model", "--runs", &number];
    let args: Vec<&str> = args.into_iter().chain(["--out", "out", "--json"]).collect();
    let mut random = seed;
    let (mut ended, mut made) = (None, 0);
    while made < kills && ended.is_none() {
        random =
            random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        // Held until the process is known, so that no request comes before.
        let mut kill = state.lock().unwrap();
        let process = home.spawn(&args);
        kill.process = Some(process.id());
        kill.left = 1 + usize::try_from((random >> 33) % 4).unwrap();
        drop(kill);
        let output = process.finish();
        made = state.lock().unwrap().kills;
        if state.lock().unwrap().process.take().is_some() {
            ended = Some(output);
        }
    }
    let output = ended.unwrap_or_else(|| home.skillhost(&args)).success();
    let report = output.json()["models"][0].clone();
    eprintln!("{made} kills, {} requests, spent {}", mock.requests().len(), report["spent"]);

    // One directory per run, whose tokens are those of its own requests.
    let runs = u64::from(runs);
    let cases = report["cases"].as_array().unwrap().clone();
    let finished: Vec<Value> =
        cases.iter().flat_map(|case| case["runs"].as_array().unwrap().clone()).collect();
    assert_eq!(finished.len() as u64, runs * 4);
    assert!(finished.iter().all(|run| run["grading"]["skillhost"]["outcome"] == "valid"));
    let tokens = |run: &Value| run["timing"]["total_tokens"].as_u64().unwrap();
    let used: u64 = finished.iter().map(tokens).sum();

    // Every request of the server has one record, and those with a reply are charged once.
    let records = fs::read_to_string(home.path("out/iteration-1/requests.jsonl")).unwrap();
    let (mut sent, mut done) = (BTreeMap::new(), BTreeMap::new());
    for line in records.lines() {
        let line: Value = serde_json::from_str(line).unwrap();
        let (id, tokens) = (line["id"].as_u64().unwrap(), line["tokens"].as_u64().unwrap());
        let records = if line["is_done"] == true { &mut done } else { &mut sent };
        assert_eq!(records.insert(id, tokens), None, "request {id} is charged twice");
    }
    assert_eq!(sent.len(), mock.requests().len());
    assert_eq!(sent.len() - done.len(), made, "each kill left one request without a reply");
    assert!(done.values().all(|tokens| *tokens == TOKENS));
    let open: u64 = sent.iter().filter(|(id, _)| !done.contains_key(id)).map(|(_, it)| it).sum();
    let spent = report["spent"]["tokens"].as_u64().unwrap();
    assert_eq!(spent, done.len() as u64 * TOKENS + open);
    assert!(used <= done.len() as u64 * TOKENS, "{used}");

    check_limited(&home, &state, 7 * open / u64::try_from(made).unwrap());
}

/// Kills each process of an iteration with a budget at its first request, until the budget is spent.
fn check_limited(home: &TestHome, state: &Mutex<KillState>, limit: u64) {
    let number = limit.to_string();
    let args = ["skill", "test", "greet", "--model", "mock/test-model", "--runs", "1"];
    let more = ["--out", "limited", "--json", "--seed", "3", "--budget-tokens", &number];
    let args: Vec<&str> = args.into_iter().chain(more).collect();
    let mut refused = 0;
    for _ in 0..8 {
        let mut kill = state.lock().unwrap();
        let process = home.spawn(&args);
        (kill.process, kill.left) = (Some(process.id()), 1);
        drop(kill);
        let output = process.finish();
        refused += usize::from(output.stderr.contains("the runs need more than the budget"));
        state.lock().unwrap().process = None;
    }
    assert!(refused > 0, "the estimates of killed requests use up the budget");
    let path = home.path("limited/iteration-1/requests.jsonl");
    let records = fs::read_to_string(path).unwrap();
    let mut spent: BTreeMap<u64, u64> = BTreeMap::new();
    for line in records.lines() {
        let line: Value = serde_json::from_str(line).unwrap();
        spent.insert(line["id"].as_u64().unwrap(), line["tokens"].as_u64().unwrap());
    }
    let total: u64 = spent.values().sum();
    assert!(0 < total && total <= limit + TOKENS, "{total} of {limit}");
}
