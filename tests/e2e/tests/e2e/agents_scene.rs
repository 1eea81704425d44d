//! What the tests of running agents share: homes whose agents ask a mock model, a gate for tools
//! that never end.

use std::io::{BufRead as _, BufReader};
use std::os::unix::net::{UnixListener, UnixStream};

use mock_model::{Asked, MockModel, Wire};
use serde_json::Value;
use test_support::{Output, TestHome, example_library};

use crate::scene::{agent, shipped, skill};

/// What only the skill `code-review` says.
pub(crate) const REVIEW: &str = "Ask what goes wrong when the door is opened twice.";

/// The manifest of the echo extension under review.
pub(crate) const ECHO: &str = "id: echo_copy\nname: A copy\nenabled: false\nentrypoint: echo\n";

/// A trusted home: a `worker` with skills, files and echo, and the skill `code-review`. Its agents
/// ask the mock.
pub(crate) fn agents(mock: &MockModel) -> TestHome {
    agents_on(mock, Wire::Openai)
}

/// As [`agents`], on a wire.
pub(crate) fn agents_on(mock: &MockModel, wire: Wire) -> TestHome {
    untrusted(mock, wire).trusted()
}

fn untrusted(mock: &MockModel, wire: Wire) -> TestHome {
    let worker =
        "  instructions: You work.\n  uses_tools: [skill_registry, core_tools, echo, kernel]\n";
    TestHome::new()
        .manifest("skill_registry", &shipped("skill_registry"))
        .manifest("core_tools", &shipped("core_tools"))
        .manifest("echo", &shipped("echo"))
        .manifest("orchestrator_agent", &agent("orchestrator_agent", worker))
        .manifest("worker", &agent("worker", worker))
        .file("sandbox/drafts/echo_copy/manifest.yaml", ECHO)
        .skill("code-review", &skill("Reviews code. Use when asked for a review.", REVIEW))
        .settings(&mock.settings(wire))
}

/// As [`agents`], with an agent `careless` that may call the tool of the library `misbehave`.
pub(crate) fn with_misbehaving(mock: &MockModel) -> TestHome {
    untrusted(mock, Wire::Openai)
        .manifest("bad", "id: bad\nname: Bad\nentrypoint: misbehave\n")
        .library("bad", "misbehave", &example_library("misbehave"))
        .manifest(
            "careless",
            &agent("careless", "  instructions: You try things.\n  uses_tools: [bad, echo]\n"),
        )
        .trusted()
}

/// Where the library `misbehave` says that a tool has begun that will not end.
pub(crate) struct Gate(UnixListener);

impl Gate {
    pub(crate) fn of(home: &TestHome) -> Self {
        Self(UnixListener::bind(home.path("gate")).unwrap())
    }

    /// Waits until a tool has begun; it goes on when what is returned is dropped.
    pub(crate) fn reached(&self) -> UnixStream {
        let (stream, _) = self.0.accept().unwrap();
        let mut place = String::new();
        BufReader::new(stream.try_clone().unwrap()).read_line(&mut place).unwrap();
        assert_eq!(place, "bad bad\n");
        stream
    }
}

/// `skillhost ask` with an agent.
pub(crate) fn ask(home: &TestHome, agent: &str, text: &str) -> Output {
    home.skillhost(["ask", "--agent", agent, text])
}

/// `skillhost ask` in a thread.
pub(crate) fn go_on(home: &TestHome, thread: &str, text: &str) -> Output {
    home.skillhost(["ask", "--thread", thread, text])
}

/// The id of the thread that was changed last.
pub(crate) fn last_thread(home: &TestHome) -> String {
    let listed = home.skillhost(["threads", "list", "--json"]).success().json();
    listed["threads"][0]["id"].as_str().unwrap().to_owned()
}

/// The transcripts' lines of a kind, in order; runs by the time they began.
pub(crate) fn transcripts(home: &TestHome, entry: &str) -> Vec<Value> {
    let folder = std::fs::read_dir(home.path("sandbox/data/kernel/runs")).unwrap();
    let mut paths: Vec<_> = folder.map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    let texts = paths.iter().map(|path| std::fs::read_to_string(path).unwrap());
    let lines: Vec<Value> = texts
        .flat_map(|text| text.lines().map(str::to_owned).collect::<Vec<_>>())
        .map(|line| serde_json::from_str(&line).unwrap())
        .collect();
    lines.into_iter().filter(|line| line["entry"] == entry).collect()
}

/// What the messages of a request say, roles and calls included.
pub(crate) fn said(asked: &Asked) -> String {
    let lines = asked.messages().into_iter().map(|said| {
        let calls: String = said.calls.iter().map(|call| format!(" → {call}")).collect();
        format!("{}: {}{calls}\n", said.role, said.text)
    });
    lines.collect()
}
