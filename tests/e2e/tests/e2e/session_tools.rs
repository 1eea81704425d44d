//! The session tools: skills that a thread loads, reads and unloads, on every wire.

use mock_model::{MockModel, MockRequest, Step, Wire};
use serde_json::{Value, json};
use test_support::TestHome;

use crate::agents_scene::{
    REVIEW, agents_home_on, ask_agent, ask_in_thread, last_thread, misbehaving_home,
};
use crate::fixtures::skill_md;
use crate::mcp_client::Client;

const ALPHA: &str = "Count the beads on a string of red silk.";
const BETA: &str = "Count the beads in a bowl of blue glass.";
const RULE: &str = "You MUST load a skill, with skills.load or read_skill, before you use its \
                    instructions, files or scripts.";

/// Creates a home with the skills `alpha`, `beta` and `gamma` for one wire.
pub(crate) fn skills_home(mock: &MockModel, wire: Wire) -> TestHome {
    agents_home_on(mock, wire)
        .skill("alpha", &skill_md("Counts beads on strings.", ALPHA))
        .skill("beta", &skill_md("Counts beads in bowls.", BETA))
        .skill("gamma", &skill_md("Counts no beads.", "Do nothing."))
        .file("sandbox/skills/alpha/references/red.md", "Red silk is strong.")
        .file("sandbox/skills/beta/assets/blue.bin", [0_u8, 159, 146, 150])
}

/// Returns the names in `<active_skills>` of a request, in order, each with its text.
fn active_skills(request: &MockRequest) -> Vec<(String, String)> {
    let system = request.system();
    let Some((_, section)) = system.split_once("<active_skills>\n") else { return Vec::new() };
    let (section, _) = section.split_once("\n</active_skills>").unwrap();
    let elements = section.split("\n<skill name=\"").skip(1);
    let element = |text: &str| {
        let (name, text) = text.split_once("\">\n").unwrap();
        (name.to_owned(), text.strip_suffix("\n</skill>").unwrap().to_owned())
    };
    elements.map(element).collect()
}

fn active_names(request: &MockRequest) -> Vec<String> {
    active_skills(request).into_iter().map(|(name, _)| name).collect()
}

/// Returns how many times a text is in a request as it was sent.
fn count(request: &MockRequest, text: &str) -> usize {
    request.body.to_string().matches(text).count()
}

fn receipt(request: &MockRequest) -> Value {
    serde_json::from_str(&request.last_text()).unwrap()
}

pub(crate) fn receipt_names(receipt: &Value) -> Vec<&str> {
    let skills = receipt["active_skills"].as_array().unwrap();
    skills.iter().map(|skill| skill["name"].as_str().unwrap()).collect()
}

#[test]
fn session_follows_specification_on_each_wire() {
    for wire in Wire::ALL {
        let mock = MockModel::with([
            // Choose and activate.
            Step::calls("skills_load", r#"{"names":["alpha"]}"#),
            // Use.
            Step::calls("skills_read", r#"{"path":"references/red.md"}"#),
            Step::text("There are three."),
            // A second load of the same text.
            Step::calls("skills_load", r#"{"names":["alpha"]}"#),
            // Switch.
            Step::calls("skills_load", r#"{"names":["beta"],"mode":"replace"}"#),
            Step::calls("skills_read", r#"{"path":"assets/blue.bin"}"#),
            // Add, in the order of loading; both calls see the load before them.
            Step::calls("skills_load", r#"{"names":["alpha"],"mode":"add"}"#)
                .call("skills_read", r#"{"path":"references/red.md"}"#)
                .call("skills_unload", r#"{"names":["beta"]}"#)
                .call("skills_load", r#"{"names":["gamma","beta"],"mode":"add"}"#),
            Step::calls("skills_unload", r#"{"all":true}"#),
            Step::text("Done."),
        ]);
        let home = skills_home(&mock, wire);
        ask_agent(&home, "worker", "How many beads?").success();
        let thread = last_thread(&home);
        ask_in_thread(&home, &thread, "And in the bowl?").success();
        let requests = mock.requests();
        assert_eq!((requests.len(), mock.left()), (9, 0), "{wire:?}");
        for request in &requests {
            let system = request.system();
            assert!(system.contains("<available_skills>\n[Available Skills]\n"), "{system}");
            assert_eq!(system.matches(RULE).count(), 1, "{system}");
            assert_eq!(system.matches("Counts beads in bowls.").count(), 1, "{wire:?}");
            for name in ["skills_load", "skills_unload", "skills_read", "read_skill"] {
                assert_eq!(request.tools().iter().filter(|tool| *tool == name).count(), 1);
            }
            assert!(request.tools().iter().all(|tool| !tool.contains('.')), "{wire:?}");
        }
        let active: Vec<_> = requests.iter().map(active_names).collect();
        let none: &[&str] = &[];
        let expected = [
            none,
            &["alpha"],
            &["alpha"],
            &["alpha"],
            &["alpha"],
            &["beta"],
            &["beta"],
            &["alpha", "gamma", "beta"],
            none,
        ];
        assert_eq!(active, expected, "{wire:?}");
        // Instructions are in the top-level instructions only, and only those that are in force.
        for (request, active) in requests.iter().zip(&active) {
            for (name, text) in [("alpha", ALPHA), ("beta", BETA)] {
                let expected = usize::from(active.iter().any(|one| one == name));
                assert_eq!(count(request, text), expected, "{wire:?} {name}");
                assert_eq!(request.system().matches(text).count(), expected);
            }
        }
        assert!(requests[1].system().contains("if they conflict, the later one applies"));
        // The history only grows.
        for pair in requests.windows(2) {
            let (before, after) = (pair[0].messages(), pair[1].messages());
            assert_eq!(after[..before.len()], before[..], "{wire:?}");
        }
        // The second load adds its receipt to the history, and no byte to the instructions.
        assert_eq!(requests[3].system(), requests[4].system());
        assert_eq!(receipt(&requests[4]), receipt(&requests[1]));
        let loaded = receipt(&requests[1]);
        let skill = &loaded["active_skills"][0];
        assert_eq!(skill["properties"]["description"], "Counts beads on strings.");
        assert!(skill["digest"].as_str().unwrap().starts_with("sha256:"));
        // The worker has file tools.
        assert_eq!(skill["root_dir"], json!(home.path("sandbox/skills/alpha")));
        let text = json!({
            "path": "references/red.md", "type": "text", "text": "Red silk is strong.",
            "mime": "text/markdown", "next_offset": null,
        });
        assert_eq!(receipt(&requests[2]), text);
        assert_eq!(receipt(&requests[6])["base64"], "AJ+Slg==");
        let round: Vec<Value> = requests[7].messages()[requests[7].messages().len() - 4..]
            .iter()
            .map(|message| serde_json::from_str(&message.text).unwrap())
            .collect();
        assert_eq!(receipt_names(&round[0]), ["beta", "alpha"]);
        assert_eq!(round[1], text);
        assert_eq!(receipt_names(&round[2]), ["alpha"]);
        assert_eq!(receipt_names(&round[3]), ["alpha", "gamma", "beta"]);
        assert_eq!(receipt(&requests[8]), json!({"active_skills": []}));
    }
}

#[test]
fn text_in_messages_is_not_sent_twice() {
    let mock = MockModel::with([
        Step::calls("read_skill", r#"{"skill_id":"alpha"}"#),
        Step::calls("skills_load", r#"{"names":["alpha","beta"]}"#),
        Step::calls("skills_unload", r#"{"names":["alpha"]}"#),
        Step::calls("skills_load", r#"{"names":["alpha"],"mode":"add"}"#),
        Step::calls("read_skill", r#"{"skill_id":"beta"}"#),
        Step::text("Done."),
    ]);
    let home = skills_home(&mock, Wire::Anthropic);
    ask_agent(&home, "worker", "How many beads?").success();
    let requests = mock.requests();
    let in_message = |name: &str| (name.to_owned(), "(its text is in a message)".to_owned());
    assert_eq!(active_skills(&requests[1]), [in_message("alpha")]);
    assert_eq!(active_names(&requests[2]), ["alpha", "beta"]);
    assert_eq!(active_names(&requests[3]), ["beta"]);
    assert_eq!(active_names(&requests[4]), ["beta", "alpha"]);
    // Read after its load, beta moves from the instructions to the message.
    assert_eq!(active_skills(&requests[5]), [in_message("beta"), in_message("alpha")]);
    for request in &requests[1..] {
        assert_eq!(count(request, ALPHA), 1);
    }
    for request in &requests[2..] {
        assert_eq!(count(request, BETA), 1);
    }
    let shown = home.skillhost(["threads", "show", &last_thread(&home)]).success().stdout;
    let names: Vec<_> = shown
        .lines()
        .filter_map(|line| line.strip_prefix("skill    ")?.split(' ').next())
        .collect();
    assert_eq!(names, ["beta", "alpha"]);
}

#[test]
fn wrong_calls_change_nothing() {
    let nine = r#"{"names":["a","b","c","d","e","f","g","h","i"]}"#;
    let cases = [
        ("skills_read", r#"{"path":"references/red.md"}"#, "denied: load a skill first\n"),
        ("skills_load", r#"{"names":["alpha"]}"#, ""),
        ("skills_load", r#"{"names":["beta","delta"]}"#, "not_found: skill `delta` not found\n"),
        ("skills_load", r#"{"names":["ALPHA"]}"#, "not_found: skill `ALPHA` not found\n"),
        ("skills_load", r#"{"names":[]}"#, "names"),
        ("skills_load", nine, "names"),
        ("skills_load", r#"{"names":["beta"],"mode":"merge"}"#, "mode"),
        ("skills_load", r#"{"names":["beta"],"agent":"other"}"#, "agent"),
        ("skills_unload", "{}", "invalid_argument: exactly one of names and all is needed\n"),
        ("skills_read", r#"{"path":"../beta/SKILL.md"}"#, "denied: "),
        ("skills_read", r#"{"path":"/etc/passwd"}"#, "denied: "),
        ("skills_read", r#"{"path":"SKILL.md","skill":"beta"}"#, "denied: `beta` is not loaded"),
    ];
    let steps = cases.iter().map(|(tool, arguments, _)| Step::calls(tool, arguments));
    let mock = MockModel::with(steps.chain([Step::text("Done.")]));
    let home = skills_home(&mock, Wire::Openai);
    ask_agent(&home, "worker", "How many beads?").success();
    let requests = mock.requests();
    for ((tool, arguments, expected), request) in cases.iter().zip(&requests[1..]) {
        let text = request.last_text();
        assert!(text.contains(expected), "{tool} {arguments}: {text}");
    }
    assert!(requests[2..].iter().all(|request| active_names(request) == ["alpha"]));
}

#[test]
fn changed_and_removed_skills_leave_the_prompt() {
    let mock = MockModel::with([
        Step::calls("skills_load", r#"{"names":["alpha","beta"]}"#),
        Step::text("One."),
        Step::text("Two."),
        Step::calls("skills_load", r#"{"names":["gamma"],"mode":"add"}"#),
        Step::text("Three."),
    ]);
    let home = skills_home(&mock, Wire::Gemini);
    ask_agent(&home, "worker", "One").success();
    let thread = last_thread(&home);
    let changed = "Count the beads of a green crown.";
    home.write("sandbox/skills/alpha/SKILL.md", skill_md("Counts beads.", changed));
    ask_in_thread(&home, &thread, "Two").success();
    std::fs::remove_dir_all(home.path("sandbox/skills/alpha")).unwrap();
    ask_in_thread(&home, &thread, "Three").success();
    let requests = mock.requests();
    assert_eq!((count(&requests[2], changed), count(&requests[2], ALPHA)), (1, 0));
    assert_eq!(active_names(&requests[3]), ["beta"]);
    let receipt = receipt(&requests[4]);
    assert_eq!(receipt["active_skills"][0]["removed"], true);
    assert_eq!(receipt_names(&receipt), ["alpha", "beta", "gamma"]);
}

#[test]
fn compaction_moves_instructions_to_the_prompt() {
    let mock = MockModel::with([
        Step::calls("read_skill", r#"{"skill_id":"alpha"}"#),
        Step::calls("skills_load", r#"{"names":["beta"],"mode":"add"}"#),
        Step::text("Read."),
        Step::text("Noted."),
        Step::text("Alpha was read."),
        Step::text("Still loaded."),
    ]);
    let home = skills_home(&mock, Wire::Openai);
    let path = home.outside().join("lines");
    std::fs::write(&path, "Read it\nNote it\n/compact\nGo on\n").unwrap();
    let mut command = home.command();
    command.args(["chat", "--agent", "worker"]).stdin(std::fs::File::open(&path).unwrap());
    home.start(&mut command).finish().success();
    let requests = mock.requests();
    let (summary, after) = (&requests[4], &requests[5]);
    // The model that summarizes receives none of the instructions in force.
    assert_eq!((count(summary, ALPHA), count(summary, BETA)), (0, 0));
    assert_eq!(count(summary, "(the instructions of the skill alpha, which stays loaded)"), 1);
    assert_eq!(active_names(after), ["alpha", "beta"]);
    assert_eq!((after.system().matches(ALPHA).count(), count(after, ALPHA)), (1, 1));
    assert_eq!(count(after, BETA), 1);
}

#[test]
fn delegated_agents_start_without_skills() {
    let task = r#"{"agent_id":"orchestrator_agent","task":"Count."}"#;
    let mock = MockModel::with([
        Step::calls("skills_load", r#"{"names":["alpha"]}"#),
        Step::calls("delegate_task", task),
        Step::calls("skills_load", r#"{"names":["beta"]}"#),
        Step::text("Counted."),
        Step::text("Done."),
    ]);
    let home = skills_home(&mock, Wire::Openai);
    ask_agent(&home, "worker", "How many beads?").success();
    let active: Vec<_> = mock.requests().iter().map(active_names).collect();
    let none: &[&str] = &[];
    assert_eq!(active, [none, &["alpha"], none, &["beta"], &["alpha"]]);
}

#[test]
fn calls_of_extensions_do_not_change_skills() {
    let nested = |tool: &str, arguments: Value| {
        let deed = json!({"do": "call", "tool": tool, "arguments": arguments}).to_string();
        Step::calls("bad", &deed)
    };
    let mock = MockModel::with([
        nested("skills.load", json!({"names": ["code-review"]})),
        nested("read_skill", json!({"skill_id": "code-review"})),
        Step::text("Done."),
    ]);
    let home = misbehaving_home(&mock);
    ask_agent(&home, "careless", "Try it").success();
    let requests = mock.requests();
    let refused = requests[1].last_text();
    assert!(refused.contains("only a model calls it, in a run of its own"), "{refused}");
    assert!(requests[2].last_text().contains(REVIEW), "{}", requests[2].last_text());
    assert_eq!(active_names(&requests[1]), [""; 0]);
}

#[test]
fn mcp_clients_receive_instructions() {
    let home = skills_home(&MockModel::new(), Wire::Openai);
    let mut client = Client::connect(&home);
    for (tool, arguments) in
        [("skills.load", json!({"names": ["alpha"]})), ("read_skill", json!({"skill_id": "alpha"}))]
    {
        let answer = client.call(tool, arguments);
        let text = answer["content"][0]["text"].as_str().unwrap();
        assert!(text.contains(ALPHA), "{tool}: {text}");
        assert!(!text.contains("root_dir"));
    }
    let page = client.call("skills.read", json!({"path": "references/red.md", "skill": "alpha"}));
    let page: Value = serde_json::from_str(page["content"][0]["text"].as_str().unwrap()).unwrap();
    assert_eq!(page["text"], "Red silk is strong.");
    // Nothing is kept between two calls.
    let answer = client.call("skills.read", json!({"path": "references/red.md"}));
    assert_eq!(answer["isError"], true);
    let answer = client.call("skills.load", json!({"names": ["delta"]}));
    assert_eq!(answer["isError"], true);
}
