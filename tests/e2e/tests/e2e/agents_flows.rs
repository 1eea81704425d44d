//! Tests of the three main agent flows, from the command line to the model and back.

use std::io::Write as _;
use std::process::Stdio;

use mock_model::{MockModel, Step, Wire};
use serde_json::{Value, json};

use crate::agents_scene::{
    ECHO, REVIEW, agents_home, agents_home_on, ask_agent, ask_in_thread, format_messages,
    last_thread, transcript_lines,
};
use crate::fixtures::{agent_manifest, skill_md};

const READ: &str = r#"{"skill_id":"code-review"}"#;
const FILE: &str = r#"{"path":"drafts/echo_copy/manifest.yaml"}"#;

#[test]
fn active_skill_stays_in_thread() {
    for wire in [Wire::Openai, Wire::Anthropic, Wire::Gemini] {
        let mock = MockModel::with([
            Step::busy(Some(0)),
            Step::text("First the skill.").call("read_skill", READ),
            Step::calls("read_file", FILE),
            Step::text("It is disabled, and that is all."),
        ]);
        let home = agents_home_on(&mock, wire);
        let task = "Review the echo extension for best practices";
        let output = ask_agent(&home, "worker", task).success();
        assert_eq!(output.stdout, "First the skill.\nIt is disabled, and that is all.\n");
        assert!(output.stderr.contains("skill code-review is active"), "{output}");
        let requests = mock.requests();
        assert_eq!(requests.len(), 4, "{output}");
        // The first request has the catalog line of the skill, but not the text.
        let catalog = "• `code-review` — Reviews code. Use when asked for a review.";
        assert!(requests[1].system().contains(catalog), "{}", requests[1].system());
        assert!(requests[1].system().starts_with("You work."), "{}", requests[1].system());
        assert!(!requests[1].system().contains(REVIEW));
        for tool in ["read_skill", "read_file", "echo", "delegate_task"] {
            assert!(requests[1].tools().iter().any(|offered| offered == tool), "{tool}");
        }
        assert_eq!(format_messages(&requests[1]), format!("user: {task}\n"));
        // A retried request must be identical, or the provider's prompt cache misses.
        assert_eq!(requests[0].body, requests[1].body);
        let messages = requests[2].messages();
        assert_eq!(messages[1].calls, [format!("read_skill {READ}")]);
        assert!(messages[2].text.contains(REVIEW), "{}", messages[2].text);
        assert!(requests[3].last_text().contains(ECHO.trim_end()), "{}", requests[3].last_text());

        // Later turns keep the skill where it was read and do not repeat it.
        let thread = last_thread(&home);
        for turn in ["And the tests?", "Anything else?"] {
            mock.push(Step::text("No."));
            ask_in_thread(&home, &thread, turn).success();
            let request = mock.requests().pop().unwrap();
            assert_eq!(format_messages(&request).matches(REVIEW).count(), 1);
            assert!(!request.system().contains(REVIEW));
            assert_eq!(request.last_text(), turn);
        }

        // The transcript records the digest of the text that was in use.
        let skills = transcript_lines(&home, "skills");
        let active = &skills.last().unwrap()["active"][0];
        let skill_json =
            home.skillhost(["skill", "show", "code-review", "--json"]).success().json();
        assert_eq!(active, &json!({ "skill_id": "code-review", "digest": skill_json["digest"] }));
        assert_eq!(transcript_lines(&home, "run").len(), 3);
    }
}

#[test]
fn active_skill_survives_compaction() {
    let mock = MockModel::with([
        Step::calls("read_skill", READ),
        Step::text("I have it."),
        Step::text("SUMMARY: it was read."),
        Step::text("Nothing goes wrong."),
    ]);
    let home = agents_home(&mock);
    let window = "  known: {mock/test-model: {context_window: 14400}}\n";
    home.write("skillhost.yaml", mock.settings(Wire::Openai) + window);
    ask_agent(&home, "worker", "Read the skill").success();
    let thread = last_thread(&home);
    // The message exceeds the rest of the context window.
    let long = "Look at this. ".repeat(2_600);
    let output = ask_in_thread(&home, &thread, &long).success();
    assert!(output.stderr.contains("older messages were summarized"), "{output}");
    let requests = mock.requests();
    assert_eq!(requests.len(), 4);
    assert_eq!(requests[2].tools(), Vec::<String>::new());
    assert!(requests[2].last_text().contains("Read the skill"), "{}", requests[2].last_text());
    assert!(
        format_messages(&requests[3]).contains("SUMMARY: it was read."),
        "{}",
        format_messages(&requests[3])
    );
    // Compaction dropped the tool result, so the text moves to the instructions.
    assert!(!format_messages(&requests[3]).contains(REVIEW));
    assert_eq!(requests[3].system().matches(REVIEW).count(), 1);
    assert!(requests[3].system().contains("• `code-review`"));

    // The long message leaves too little room for another turn as well.
    mock.push(Step::text("SUMMARY: nothing goes wrong."));
    mock.push(Step::text("Still nothing."));
    ask_in_thread(&home, &thread, "And now?").success();
    let requests = mock.requests();
    assert_eq!(requests.len(), 6);
    assert!(
        !format_messages(&requests[5]).contains("Look at this."),
        "{}",
        format_messages(&requests[5])
    );
    assert_eq!(requests[5].system().matches(REVIEW).count(), 1);
}

#[test]
fn specialist_prompt_contains_bound_skill() {
    let mock = MockModel::with([
        Step::calls("delegate_task", r#"{"agent_id":"specialist","task":"Open the door twice."}"#),
        Step::text("It creaks."),
        Step::text("The specialist says that it creaks."),
    ]);
    let specialist = "  uses_skills: [code-review]\n  uses_tools: [skill_registry]\n";
    let home = agents_home(&mock).manifest("specialist", &agent_manifest("specialist", specialist));
    let output = ask_agent(&home, "orchestrator_agent", "What is wrong with the door?").success();
    assert_eq!(output.stdout, "The specialist says that it creaks.\n");
    assert!(output.stderr.contains("⇒ specialist: Open the door twice."), "{output}");
    let requests = mock.requests();
    assert_eq!(requests.len(), 3);
    assert!(!requests[0].system().contains(REVIEW));
    assert_eq!(requests[1].system().matches(REVIEW).count(), 1);
    assert_eq!(format_messages(&requests[1]), "user: Open the door twice.\n");
    assert!(requests[2].last_text().contains("It creaks."), "{}", requests[2].last_text());
    let calls: Vec<Value> =
        transcript_lines(&home, "call").into_iter().map(|call| call["tool"].clone()).collect();
    assert_eq!(calls, ["delegate_task"]);
    let runs = transcript_lines(&home, "run");
    assert_eq!(runs[1]["parent"], runs[0]["run_id"]);
    assert_eq!(runs[1]["agent"], "specialist");
}

#[test]
fn approved_update_reaches_open_chat() {
    let better = "Ask what goes wrong when the door is opened a hundred times.";
    let text = skill_md("Reviews code. Use when asked for a review.", better);
    let wish = json!({
        "skill_id": "code-review", "new_content": text, "justification": "Twice is not enough.",
    });
    let mock = MockModel::with([
        Step::calls("read_skill", READ),
        Step::text("Better would be more.").call("propose_skill_update", &wish.to_string()),
        Step::text("Proposed."),
        Step::text("A hundred times it is."),
    ]);
    let home = agents_home(&mock);
    let (reader, mut lines) = std::io::pipe().unwrap();
    let mut command = home.command();
    command.args(["chat", "--agent", "worker"]).stdin(Stdio::from(reader));
    let chat = home.start(&mut command);
    drop(command);
    writeln!(lines, "Improve the skill").unwrap();
    chat.line_with("Proposed.");

    let proposals = home.skillhost(["skill", "proposals", "--json"]).success().json();
    let id = proposals["proposals"][0]["id"].as_str().unwrap();
    let review = home.skillhost(["skill", "review", id, "--json"]).success().json();
    let digest = review["proposals"][0]["new_digest"].as_str().unwrap();
    home.skillhost(["skill", "approve", id, "--yes", "--digest", digest]).success();

    writeln!(lines, "How often?").unwrap();
    chat.line_with("A hundred times it is.");
    drop(lines);
    let output = chat.finish().success();
    assert!(output.stderr.contains("skill `code-review` has changed"), "{output}");
    let requests = mock.requests();
    assert!(!requests[2].system().contains(better));
    assert_eq!(requests[3].system().matches(better).count(), 1);
    // Earlier messages are not rewritten; the new text states that it replaces the old one.
    assert!(format_messages(&requests[3]).contains(REVIEW));
    assert_eq!(requests[3].last_text(), "How often?");
}
