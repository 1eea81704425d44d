//! Fixtures of the agent tests: homes whose agents use a mock model, and a barrier for tool calls
//! that do not return.

use std::io::{BufRead as _, BufReader};
use std::os::unix::net::{UnixListener, UnixStream};

use mock_model::{MockModel, MockRequest, Wire};
use serde_json::Value;
use test_support::{Output, TestHome, example_library};

use crate::fixtures::{agent_manifest, shipped_manifest, skill_md};

/// A sentence that only the skill `code-review` contains.
pub(crate) const REVIEW: &str = "Ask what goes wrong when the door is opened twice.";

/// The manifest of the echo extension under review.
pub(crate) const ECHO: &str = "id: echo_copy\nname: A copy\nenabled: false\nentrypoint: echo\n";

/// Creates a trusted home with an agent `worker` that has skills, files and echo, and with the
/// skill `code-review`. Its agents use the mock model.
pub(crate) fn agents_home(mock: &MockModel) -> TestHome {
    agents_home_on(mock, Wire::Openai)
}

/// Creates the home of [`agents_home`] for one wire protocol.
pub(crate) fn agents_home_on(mock: &MockModel, wire: Wire) -> TestHome {
    untrusted_agents_home(mock, wire).trusted()
}

fn untrusted_agents_home(mock: &MockModel, wire: Wire) -> TestHome {
    let worker =
        "  instructions: You work.\n  uses_tools: [skill_registry, core_tools, echo, kernel]\n";
    TestHome::new()
        .manifest("skill_registry", &shipped_manifest("skill_registry"))
        .manifest("core_tools", &shipped_manifest("core_tools"))
        .manifest("echo", &shipped_manifest("echo"))
        .manifest("orchestrator_agent", &agent_manifest("orchestrator_agent", worker))
        .manifest("worker", &agent_manifest("worker", worker))
        .file("sandbox/drafts/echo_copy/manifest.yaml", ECHO)
        .skill("code-review", &skill_md("Reviews code. Use when asked for a review.", REVIEW))
        .settings(&mock.settings(wire))
}

/// Creates the home of [`agents_home`] with an agent `careless` that may call the tool of the
/// library `misbehave`.
pub(crate) fn misbehaving_home(mock: &MockModel) -> TestHome {
    untrusted_agents_home(mock, Wire::Openai)
        .manifest("bad", "id: bad\nname: Bad\nentrypoint: misbehave\n")
        .library("bad", "misbehave", &example_library("misbehave"))
        .manifest(
            "careless",
            &agent_manifest(
                "careless",
                "  instructions: You try things.\n  uses_tools: [bad, echo]\n",
            ),
        )
        .trusted()
}

/// A socket to which a tool of the library `misbehave` connects before it blocks.
pub(crate) struct ToolBarrier(UnixListener);

impl ToolBarrier {
    pub(crate) fn bind(home: &TestHome) -> Self {
        Self(UnixListener::bind(home.path("gate")).unwrap())
    }

    /// Waits until a tool has started. The tool continues when the returned stream is dropped.
    pub(crate) fn wait_for_call(&self) -> UnixStream {
        let (stream, _) = self.0.accept().unwrap();
        let mut place = String::new();
        BufReader::new(stream.try_clone().unwrap()).read_line(&mut place).unwrap();
        assert_eq!(place, "bad bad\n");
        stream
    }
}

/// Runs `skillhost ask` with an agent.
pub(crate) fn ask_agent(home: &TestHome, agent: &str, text: &str) -> Output {
    home.skillhost(["ask", "--agent", agent, text])
}

/// Runs `skillhost ask` in an existing thread.
pub(crate) fn ask_in_thread(home: &TestHome, thread: &str, text: &str) -> Output {
    home.skillhost(["ask", "--thread", thread, text])
}

/// Returns the id of the most recently changed thread.
pub(crate) fn last_thread(home: &TestHome) -> String {
    let listed = home.skillhost(["threads", "list", "--json"]).success().json();
    listed["threads"][0]["id"].as_str().unwrap().to_owned()
}

/// Returns the transcript lines of one kind in order, with runs sorted by start time.
pub(crate) fn transcript_lines(home: &TestHome, entry: &str) -> Vec<Value> {
    let directory = std::fs::read_dir(home.path("sandbox/data/kernel/runs")).unwrap();
    let mut paths: Vec<_> = directory.map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    let texts = paths.iter().map(|path| std::fs::read_to_string(path).unwrap());
    let lines: Vec<Value> = texts
        .flat_map(|text| text.lines().map(str::to_owned).collect::<Vec<_>>())
        .map(|line| serde_json::from_str(&line).unwrap())
        .collect();
    lines.into_iter().filter(|line| line["entry"] == entry).collect()
}

/// Formats the messages of a model request with their roles and tool calls.
pub(crate) fn format_messages(request: &MockRequest) -> String {
    let lines = request.messages().into_iter().map(|message| {
        let calls: String = message.calls.iter().map(|call| format!(" → {call}")).collect();
        format!("{}: {}{calls}\n", message.role, message.text)
    });
    lines.collect()
}
