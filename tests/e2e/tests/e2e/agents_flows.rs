//! The three jobs that agents are there for, from the command line to the model and back.

use std::io::Write as _;
use std::process::Stdio;

use mock_model::{MockModel, Step, Wire};
use serde_json::{Value, json};

use crate::agents_scene::{
    ECHO, REVIEW, agents, agents_on, ask, go_on, last_thread, said, transcripts,
};
use crate::scene::{agent, skill};

const READ: &str = r#"{"skill_id":"code-review"}"#;
const FILE: &str = r#"{"path":"drafts/echo_copy/manifest.yaml"}"#;

#[test]
fn a_worker_finds_a_skill_and_works_by_it_and_keeps_it() {
    for wire in [Wire::Openai, Wire::Anthropic, Wire::Gemini] {
        let mock = MockModel::with([
            Step::busy(Some(0)),
            Step::text("First the skill.").call("read_skill", READ),
            Step::calls("read_file", FILE),
            Step::text("It is disabled, and that is all."),
        ]);
        let home = agents_on(&mock, wire);
        let task = "Review the echo extension for best practices";
        let output = ask(&home, "worker", task).success();
        assert_eq!(output.stdout, "First the skill.\nIt is disabled, and that is all.\n");
        assert!(output.stderr.contains("skill code-review is active"), "{output}");
        let asked = mock.requests();
        assert_eq!(asked.len(), 4, "{output}");
        // It knows what there is, and not yet what it says.
        let catalog = "• `code-review` — Reviews code. Use when asked for a review.";
        assert!(asked[1].system().contains(catalog), "{}", asked[1].system());
        assert!(asked[1].system().starts_with("You work."), "{}", asked[1].system());
        assert!(!asked[1].system().contains(REVIEW));
        for tool in ["read_skill", "read_file", "echo", "delegate_task"] {
            assert!(asked[1].tools().iter().any(|offered| offered == tool), "{tool}");
        }
        assert_eq!(said(&asked[1]), format!("user: {task}\n"));
        // A request that was made again is the same.
        assert_eq!(asked[0].body, asked[1].body);
        let answered = asked[2].messages();
        assert_eq!(answered[1].calls, [format!("read_skill {READ}")]);
        assert!(answered[2].text.contains(REVIEW), "{}", answered[2].text);
        assert!(asked[3].last_text().contains(ECHO.trim_end()), "{}", asked[3].last_text());

        // Two turns later it still has the skill where it read it, and not twice.
        let thread = last_thread(&home);
        for turn in ["And the tests?", "Anything else?"] {
            mock.push(Step::text("No."));
            go_on(&home, &thread, turn).success();
            let asked = mock.requests().pop().unwrap();
            assert_eq!(said(&asked).matches(REVIEW).count(), 1);
            assert!(!asked.system().contains(REVIEW));
            assert_eq!(asked.last_text(), turn);
        }

        // The transcript knows which text it worked by.
        let skills = transcripts(&home, "skills");
        let active = &skills.last().unwrap()["active"][0];
        let shown = home.skillhost(["skill", "show", "code-review", "--json"]).success().json();
        assert_eq!(active, &json!({ "skill_id": "code-review", "digest": shown["digest"] }));
        assert_eq!(transcripts(&home, "run").len(), 3);
    }
}

#[test]
fn a_skill_that_was_read_survives_a_compaction() {
    let mock = MockModel::with([
        Step::calls("read_skill", READ),
        Step::text("I have it."),
        Step::text("SUMMARY: it was read."),
        Step::text("Nothing goes wrong."),
    ]);
    let home = agents(&mock);
    let window = "  known: {mock/test-model: {context_window: 12000}}\n";
    home.write("skillhost.yaml", mock.settings(Wire::Openai) + window);
    ask(&home, "worker", "Read the skill").success();
    let thread = last_thread(&home);
    // Too much for what is left of the window.
    let long = "Look at this. ".repeat(2_600);
    let output = go_on(&home, &thread, &long).success();
    assert!(output.stderr.contains("older messages were summed up"), "{output}");
    let asked = mock.requests();
    assert_eq!(asked.len(), 4);
    assert_eq!(asked[2].tools(), Vec::<String>::new());
    assert!(asked[2].last_text().contains("Read the skill"), "{}", asked[2].last_text());
    assert!(said(&asked[3]).contains("SUMMARY: it was read."), "{}", said(&asked[3]));
    // The text went with the messages and came back with the instructions.
    assert!(!said(&asked[3]).contains(REVIEW));
    assert_eq!(asked[3].system().matches(REVIEW).count(), 1);
    assert!(asked[3].system().contains("• `code-review`"));

    // The long message does not leave room for another turn either.
    mock.push(Step::text("SUMMARY: nothing goes wrong."));
    mock.push(Step::text("Still nothing."));
    go_on(&home, &thread, "And now?").success();
    let asked = mock.requests();
    assert_eq!(asked.len(), 6);
    assert!(!said(&asked[5]).contains("Look at this."), "{}", said(&asked[5]));
    assert_eq!(asked[5].system().matches(REVIEW).count(), 1);
}

#[test]
fn a_specialist_already_carries_its_skill() {
    let mock = MockModel::with([
        Step::calls("delegate_task", r#"{"agent_id":"specialist","task":"Open the door twice."}"#),
        Step::text("It creaks."),
        Step::text("The specialist says that it creaks."),
    ]);
    let specialist = "  uses_skills: [code-review]\n  uses_tools: [skill_registry]\n";
    let home = agents(&mock).manifest("specialist", &agent("specialist", specialist));
    let output = ask(&home, "orchestrator_agent", "What is wrong with the door?").success();
    assert_eq!(output.stdout, "The specialist says that it creaks.\n");
    assert!(output.stderr.contains("⇒ specialist: Open the door twice."), "{output}");
    let asked = mock.requests();
    assert_eq!(asked.len(), 3);
    assert!(!asked[0].system().contains(REVIEW));
    assert_eq!(asked[1].system().matches(REVIEW).count(), 1);
    assert_eq!(said(&asked[1]), "user: Open the door twice.\n");
    assert!(asked[2].last_text().contains("It creaks."), "{}", asked[2].last_text());
    let calls: Vec<Value> =
        transcripts(&home, "call").into_iter().map(|call| call["tool"].clone()).collect();
    assert_eq!(calls, ["delegate_task"]);
    let runs = transcripts(&home, "run");
    assert_eq!(runs[1]["parent"], runs[0]["run_id"]);
    assert_eq!(runs[1]["agent"], "specialist");
}

#[test]
fn what_an_operator_approves_meanwhile_is_in_the_next_turn_of_the_same_chat() {
    let better = "Ask what goes wrong when the door is opened a hundred times.";
    let text = skill("Reviews code. Use when asked for a review.", better);
    let wish = json!({
        "skill_id": "code-review", "new_content": text, "justification": "Twice is not enough.",
    });
    let mock = MockModel::with([
        Step::calls("read_skill", READ),
        Step::text("Better would be more.").call("propose_skill_update", &wish.to_string()),
        Step::text("Proposed."),
        Step::text("A hundred times it is."),
    ]);
    let home = agents(&mock);
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
    assert!(output.stderr.contains("the skill `code-review` has changed"), "{output}");
    let asked = mock.requests();
    assert!(!asked[2].system().contains(better));
    assert_eq!(asked[3].system().matches(better).count(), 1);
    // What was said stays said; the new text says that it counts.
    assert!(said(&asked[3]).contains(REVIEW));
    assert_eq!(asked[3].last_text(), "How often?");
}
