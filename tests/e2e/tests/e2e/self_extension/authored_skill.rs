//! A test of a skill that an agent writes on request: unapproved, approved, in the next prompt.

use super::{approve_call, shipped_home};

/// The models of both agents.
const SCRIPT: &str = r##"
rules:
  - when: {user: [make a skill], turn: 0, offered: builder_agent}
    call: {tool: builder_agent, arguments: {task: "{{user}}"}}
  - when: {answered: builder_agent}
    say: "{{all builder_agent}}"
  - when: {user: [make a skill], turn: 0, system: ["# Skill authoring"]}
    call: {tool: list_skills, arguments: {query: standup}}
  - when: {answered: list_skills}
    call:
      tool: write_files
      arguments:
        files:
          - path: skills/standup-notes/SKILL.md
            content: |
              ---
              name: standup-notes
              description: Writes the notes of a standup. Use when the team meets in the morning.
              ---
              # Standup notes

              One line per person: done, next, blocked. [Example](references/example.md).
          - path: skills/standup-notes/references/example.md
            content: |
              # Example

              Ada: parser done, next the printer.
  - when: {answered: write_files}
    say: "{{line write_files skill approve}}"
  - say: "no rule"
"##;

#[test]
fn skill_is_written_approved_and_listed() {
    let settings =
        "models: {default: play/x, providers: {play: {wire: script, script: play.yaml}}}\n";
    let home = shipped_home().settings(settings).file("play.yaml", SCRIPT).trusted();
    let mut command = home.command();
    command.args(["ask", "Make a skill for standup notes"]);
    let mut user = home.on_terminal(&mut command, (120, 60));
    approve_call(&mut user, "builder_agent", "write_files");
    user.wait_for("skillhost skill approve standup-notes");
    assert_eq!(user.finish().output.status, 0);

    let listed = home.skillhost(["skill", "list", "--json"]).success().json();
    let skills = listed["skills"].as_array().unwrap();
    let made = skills.iter().find(|skill| skill["skill_id"] == "standup-notes").unwrap();
    assert_eq!(made["unapproved"], true, "{made}");
    home.skillhost(["skill", "validate", "sandbox/skills/standup-notes"]).success();

    let mut command = home.command();
    command.args(["skill", "approve", "standup-notes"]);
    let mut user = home.on_terminal(&mut command, (120, 60));
    user.wait_for("[y/N]");
    user.send("y\n");
    assert_eq!(user.finish().output.status, 0);
    let prompt = home.skillhost(["ask", "--print-prompt", "hello"]).success();
    let line = "• `standup-notes` — Writes the notes of a standup. Use when the team meets in the morning.";
    assert!(prompt.stdout.contains(line), "{prompt}");
}
