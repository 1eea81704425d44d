//! Tools decide no question, whoever calls them.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};

use mock_model::{MockModel, Step, Wire};
use serde_json::{Map, Value, json};
use skillhost_tasks::{NewQuestion, Question, QuestionKind, QuestionState};
use test_support::TestHome;

use crate::fixtures::{agent_manifest, shipped_manifest, start_kernel};
use crate::home_queue::HomeQueue;
use crate::mcp_client::Client;

const KINDS: [QuestionKind; 5] = [
    QuestionKind::Consent,
    QuestionKind::Uncertain,
    QuestionKind::Choice,
    QuestionKind::Proposal,
    QuestionKind::Build,
];

/// The answers of people, as values of arguments.
const ANSWERS: [&str; 5] = ["approve", "refuse", "again", "answer", "yes"];

/// Creates a home whose agent has every tool, and whose MCP server exports those of extensions.
fn open_home(mock: &MockModel) -> TestHome {
    let all = "  instructions: You try things.\n  \
               uses_tools: [kernel, tasks, skill_registry, core_tools, echo]\n";
    let settings = format!("{}mcp: {{consent: elicitation}}\n", mock.settings(Wire::Openai));
    TestHome::new()
        .manifest("skill_registry", &shipped_manifest("skill_registry"))
        .manifest("core_tools", &shipped_manifest("core_tools"))
        .manifest("echo", &shipped_manifest("echo"))
        .manifest("worker", &agent_manifest("worker", all))
        .settings(&settings)
        .trusted()
}

fn ask_all_kinds(queue: &HomeQueue) -> Vec<Question> {
    let ask = |kind: QuestionKind| {
        let question = NewQuestion {
            id: ulid_of(kind),
            thread: None,
            kind,
            asker: "worker".into(),
            call: format!("consent:{kind:?}:0"),
            title: "write_file of core_tools".into(),
            subject: json!({ "tool": "write_file", "agent": "worker" }).to_string(),
            options: ANSWERS.map(str::to_owned).to_vec(),
        };
        queue.runtime.block_on(queue.queue.ask(question)).unwrap()
    };
    KINDS.into_iter().map(ask).collect()
}

fn ulid_of(kind: QuestionKind) -> String {
    format!("{:0>26}", format!("{kind:?}").to_lowercase().replace(['i', 'l', 'o', 'u'], "0"))
}

fn assert_open(queue: &HomeQueue, questions: &[Question]) {
    for question in questions {
        let found = queue.runtime.block_on(queue.queue.question(&question.id)).unwrap().unwrap();
        assert_eq!((found.state, found.decider), (QuestionState::Open, None), "{:?}", found.kind);
    }
}

/// Returns arguments that fit a schema and name the question, its digest and an answer wherever they
/// can.
fn naming_arguments(schema: &Value, question: &Question, answer: &str) -> Value {
    match schema["type"].as_str() {
        Some("object") => {
            let properties = schema["properties"].as_object().cloned().unwrap_or_default();
            let value = |(name, schema): (String, Value)| {
                (name, naming_arguments(&schema, question, answer))
            };
            let mut named: Map<_, _> = properties.into_iter().map(value).collect();
            // A tool that takes any property gets those of a decision.
            if schema["additionalProperties"] != false {
                named.insert("question".into(), json!(question.id));
                named.insert("digest".into(), json!(question.digest));
                named.insert("choice".into(), json!(answer));
            }
            Value::Object(named)
        }
        Some("array") => json!([naming_arguments(&schema["items"], question, answer)]),
        Some("boolean") => json!(true),
        Some("integer" | "number") => json!(schema["minimum"].as_u64().unwrap_or(1).max(1)),
        // Texts are the id, as a task, a proposal or a question would be named.
        _ => match schema["enum"].as_array() {
            Some(values) => {
                let wanted = values.iter().find(|value| *value == answer);
                wanted.or(values.last()).cloned().unwrap_or_default()
            }
            None => json!(question.id),
        },
    }
}

/// Returns the schemas of listed tools, by name.
fn schemas(tools: &Value, key: &str) -> Vec<(String, Value)> {
    let schema = |tool: &Value| (tool["name"].as_str().unwrap().to_owned(), tool[key].clone());
    tools.as_array().unwrap().iter().map(schema).collect()
}

#[test]
fn tools_of_agents_decide_no_question() {
    let mock = MockModel::new();
    let home = open_home(&mock);
    let queue = HomeQueue::open(&home);
    let questions = ask_all_kinds(&queue);
    let kernel = start_kernel(&home);
    let listed = home.skillhost(["tool", "list", "--agent", "worker", "--json"]).success().json();
    let tools = schemas(&listed["tools"], "input_schema");
    let names: BTreeSet<_> = tools.iter().map(|(name, _)| name.as_str()).collect();
    for expected in ["submit_task", "ask_person", "cancel_task", "create_agent", "write_file"] {
        assert!(names.contains(expected), "{names:?}");
    }
    // A name that promises a decision would be one that this test has to look at.
    let promises = |name: &&&str| ["decide", "approve", "inbox", "answer"].contains(*name);
    assert_eq!(names.iter().find(promises), None);
    let granted = |name: &&str| !["request_restart", "create_agent"].contains(name);
    let approved: Vec<_> = names.iter().copied().filter(granted).collect();
    let next: Arc<Mutex<Option<Step>>> = Arc::default();
    let prepared = Arc::clone(&next);
    mock.answer_with(move |_| Some(prepared.lock().unwrap().take().unwrap_or(Step::text("Done."))));
    for (name, schema) in &tools {
        let mut calls = questions
            .iter()
            .zip(ANSWERS)
            .map(|(question, answer)| naming_arguments(schema, question, answer).to_string());
        let first = Step::calls(name, &calls.next().unwrap());
        *next.lock().unwrap() = Some(calls.fold(first, |step, call| step.call(name, &call)));
        let mut ask = home.command();
        ask.args(["ask", "--agent", "worker", "Try it"]);
        ask.args(approved.iter().flat_map(|tool| ["--approve", tool]));
        let _ = home.start(&mut ask).finish();
        assert!(next.lock().unwrap().is_none(), "{name} was not called");
        assert_open(&queue, &questions);
    }
    kernel.interrupt().success();
}

#[test]
fn tools_of_clients_decide_no_question() {
    let mock = MockModel::new();
    let home = open_home(&mock);
    let queue = HomeQueue::open(&home);
    let questions = ask_all_kinds(&queue);
    let mut client = Client::connect(&home);
    let listed = client.result("tools/list", json!({}));
    let tools = schemas(&listed["tools"], "inputSchema");
    assert!(tools.len() > 5, "{tools:?}");
    for (number, question) in questions.iter().enumerate() {
        for (name, schema) in &tools {
            let arguments = naming_arguments(schema, question, ANSWERS[number]);
            let _ = client.request("tools/call", json!({ "name": name, "arguments": arguments }));
        }
        // Nor does a response that names a question of another.
        let responses = json!({ question.id.as_str(): {
            "action": "accept", "content": { "decision": ANSWERS[number] },
        } });
        let update = json!({ "taskId": question.id, "inputResponses": responses });
        let _ = client.request("tasks/update", update);
        assert_open(&queue, &questions);
    }
}
