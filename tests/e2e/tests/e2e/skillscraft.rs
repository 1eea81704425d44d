//! The SkillsCraft declarations at run time: tools with versions, conflicts, capabilities, scripts.

use mock_model::{MockModel, Step};
use serde_json::Value;
use test_support::{TestHome, can_isolate, program};

use crate::agents_scene::{agents_home, ask_agent};
use crate::fixtures::{agent_manifest, skill_md};

const NEEDS_BASH: &str = "tools:\n  dependencies:\n    - {tool: Bash, required: true, purpose: \
                          Runs csvkit., minVersion: '2.0'}\n";

/// The home of the agent tests with the skill `csv-tools` and its `skill.yaml`.
fn csv_home(mock: &MockModel, declared: &str) -> TestHome {
    agents_home(mock)
        .skill("csv-tools", &skill_md("Edits CSV files. Use for CSV.", "Edit the columns."))
        .file("sandbox/skills/csv-tools/skill.yaml", declared)
}

fn explain(home: &TestHome, agent: &str) -> (String, Value) {
    let args = ["skill", "explain", "--agent", agent, "--prompt", "edit CSV columns"];
    let text = home.skillhost(args).stdout;
    let json = home.skillhost(args.iter().chain(&["--json"])).json();
    (text, json)
}

fn absence(explained: &Value) -> Value {
    let skills = explained["skills"].as_array().unwrap();
    skills.iter().find(|it| it["skill_id"] == "csv-tools").unwrap()["absent"].clone()
}

#[test]
fn missing_tool_hides_skill_with_reason() {
    let mock = MockModel::with([
        Step::calls("read_skill", r#"{"skill_id": "csv-tools"}"#),
        Step::calls("skills_load", r#"{"names": ["csv-tools"]}"#),
        Step::calls("list_skills", r#"{"query": "edit CSV columns"}"#),
        Step::text("Done."),
    ]);
    let home = csv_home(&mock, NEEDS_BASH);
    let (text, json) = explain(&home, "worker");
    let reason = "not eligible: csv-tools: Bash ≥ 2.0 is missing for worker";
    let found = text.contains(&format!("{reason}\n")) || text.ends_with(reason);
    assert!(found, "{text}");
    assert_eq!(absence(&json), "ineligible");
    ask_agent(&home, "worker", "Edit the CSV").success();
    let requests = mock.requests();
    let error = "ineligible: csv-tools: Bash ≥ 2.0 is missing for worker\nhint: ";
    assert!(!requests[0].system().contains("csv-tools"), "{}", requests[0].system());
    assert!(requests[1].last_text().starts_with(error), "{}", requests[1].last_text());
    assert!(requests[2].last_text().starts_with(error), "{}", requests[2].last_text());
    assert!(!requests[3].last_text().contains("csv-tools"), "{}", requests[3].last_text());
    // A person sees it, and the check without an agent names the tool.
    let shown = home.skillhost(["skill", "doctor"]).stdout;
    assert!(shown.contains("it needs tools, which depend on the agent: Bash"), "{shown}");
}

#[test]
fn alias_and_version_make_skill_eligible() {
    let mock = MockModel::with([Step::text("Done.")]);
    let home = csv_home(&mock, &NEEDS_BASH.replace("2.0", "0.1"));
    let settings = std::fs::read_to_string(home.path("skillhost.yaml")).unwrap();
    let write = |aliases: &str| home.write("skillhost.yaml", format!("{settings}\n{aliases}\n"));
    write("tool_aliases: {Bash: read, read: read_file}");
    let (text, json) = explain(&home, "worker");
    assert_eq!(absence(&json), Value::Null, "{text}");
    ask_agent(&home, "worker", "Edit the CSV").success();
    assert!(mock.requests()[0].system().contains("csv-tools"));
    // The version of the shipped tools is older.
    home.write("sandbox/skills/csv-tools/skill.yaml", NEEDS_BASH);
    let (text, _) = explain(&home, "worker");
    assert!(text.contains("Bash ≥ 2.0 is missing (found "), "{text}");
    write("tool_aliases: {Bash: Bash}");
    let failed = home.skillhost(["config"]).exits(2);
    assert!(failed.stderr.contains("`Bash` leads back to `Bash`"), "{}", failed.stderr);
}

#[test]
fn bound_skills_fail_their_agent_alone() {
    let mock = MockModel::with([Step::text("Done.")]);
    let bind = |ids: &str| format!("  uses_skills: [{ids}]\n  uses_tools: [skill_registry]\n");
    let home = csv_home(&mock, NEEDS_BASH)
        .skill("tabs", &skill_md("Edits tabs.", "Use tabs."))
        .skill("spaces", &skill_md("Edits spaces.", "Use spaces."))
        .file(
            "sandbox/skills/spaces/skill.yaml",
            "composition: {dependencies: [], conflicts: [tabs]}\n",
        )
        .manifest("csv_agent", &agent_manifest("csv_agent", &bind("csv-tools")))
        .manifest("both_agent", &agent_manifest("both_agent", &bind("tabs, spaces")))
        .manifest("tab_agent", &agent_manifest("tab_agent", &bind("tabs")));
    let doctor = home.skillhost(["ext", "doctor"]);
    let text = format!("{}{}", doctor.stdout, doctor.stderr);
    assert!(text.contains("uses_skills: csv-tools: Bash ≥ 2.0 is missing for csv_agent"), "{text}");
    assert!(text.contains("uses_skills: `tabs` conflicts with `spaces`"), "{text}");
    for failed in ["csv_agent", "both_agent"] {
        let output = ask_agent(&home, failed, "go");
        assert_ne!(output.status, 0, "{}", output.stderr);
        assert!(output.stderr.contains("uses_skills: "), "{}", output.stderr);
    }
    ask_agent(&home, "tab_agent", "go").success();
    assert_eq!(mock.left(), 0);
}

#[test]
fn conflicting_skills_are_not_loaded_together() {
    let mock = MockModel::with([
        Step::calls("skills_load", r#"{"names": ["tabs"]}"#),
        Step::calls("skills_load", r#"{"names": ["spaces"], "mode": "add"}"#),
        Step::calls("read_skill", r#"{"skill_id": "spaces"}"#),
        Step::calls("skills_load", r#"{"names": ["spaces", "tabs"]}"#),
        Step::calls("skills_load", r#"{"names": ["spaces"]}"#),
        Step::text("Done."),
    ]);
    let home = agents_home(&mock)
        .skill("tabs", &skill_md("Edits tabs.", "Use tabs."))
        .skill("spaces", &skill_md("Edits spaces.", "Use spaces."))
        .file(
            "sandbox/skills/spaces/skill.yaml",
            "composition: {dependencies: [], conflicts: [tabs]}\n",
        );
    ask_agent(&home, "worker", "go").success();
    let requests = mock.requests();
    let text = |at: usize| requests[at].last_text();
    let error = "conflict: `spaces` conflicts with `tabs`: they must not be used together";
    assert!(text(2).starts_with(error), "{}", text(2));
    let note = "Note: `spaces` conflicts with the active skill `tabs`: follow only one of them.";
    assert!(text(3).contains(note), "{}", text(3));
    let error = "conflict: `tabs` conflicts with `spaces`: they must not be used together";
    assert!(text(4).starts_with(error), "{}", text(4));
    assert!(text(5).contains("active_skills"), "{}", text(5));
}

#[test]
fn undeclared_capability_is_refused_or_reported() {
    let security = "security:\n  capabilities:\n    - {capability: 'file:read', reason: Reads.}\n";
    for (mode, refused) in [("enforce", true), ("report", false), ("off", false)] {
        let mock = MockModel::with([
            Step::calls("read_skill", r#"{"skill_id": "csv-tools"}"#),
            Step::calls("read_file", r#"{"path": "notes.md"}"#),
            Step::calls("echo", r#"{"text": "hello"}"#),
            Step::text("Done."),
        ]);
        let strict = format!(
            "  uses_tools: [skill_registry, core_tools, echo]\n  capability_mode: {mode}\n"
        );
        let home = csv_home(&mock, security)
            .manifest("strict", &agent_manifest("strict", &strict))
            .file("sandbox/notes.md", "The note.\n");
        ask_agent(&home, "strict", "go").success();
        let requests = mock.requests();
        assert!(requests[2].last_text().contains("The note."), "{}", requests[2].last_text());
        let echoed = requests[3].last_text();
        let error = "denied: tool `echo` uses `tool:echo`, which the active skill `csv-tools` does \
                     not declare";
        assert_eq!(echoed.starts_with(error), refused, "{mode}: {echoed}");
        let events = home.skillhost(["events", "tail", "-n", "5000", "--json"]).success().stdout;
        let reported = events.contains("skill.capability_undeclared");
        assert_eq!(reported, mode == "report", "{mode}: {events}");
    }
}

#[test]
fn declared_script_limits_are_exact() {
    if !can_isolate() || program("bash").is_none() {
        return;
    }
    let security = "security:\n  capabilities: []\n  executesCommands: false\n  fileSystemScope: \
                    skill-directory\n";
    let home = csv_home(&MockModel::new(), security).file(
        "sandbox/skills/csv-tools/scripts/a.sh",
        "/bin/ls / > /dev/null 2>&1 && echo EXECUTED\necho kept > kept.txt && echo done\n",
    );
    let run = home.skillhost(["skill", "run", "csv-tools", "scripts/a.sh"]).success();
    assert_eq!(run.stdout, "done\n");
    assert!(!home.path("sandbox/work/operator/kept.txt").exists());
    home.write("sandbox/skills/csv-tools/skill.yaml", "security:\n  capabilities: []\n");
    let run = home.skillhost(["skill", "run", "csv-tools", "scripts/a.sh"]).success();
    assert_eq!(run.stdout, "EXECUTED\ndone\n");
    assert!(home.path("sandbox/work/operator/kept.txt").exists());
}
