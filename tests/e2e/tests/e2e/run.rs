//! `skillhost run`: services, events, hot reload, the end.

use std::fs;

use serde_json::{Value, json};

use crate::scene::{agent, home, let_it_poll, running, skill, steady};

#[test]
fn the_report_comes_first_and_an_interrupt_ends_it_well() {
    let home = home();
    insta::assert_snapshot!(running(&home).interrupt(), @"
    exit 0
    --- stdout
    EXTENSION      STATE  VERSION PROVIDES
    echo           loaded 0.1.0   tools echo, context 200, service
    skill_registry loaded 0.1.0   tools list_skills read_skill read_skill_resource propose_skill_update explain_catalog, context 60, service, skill
    running; Ctrl-C ends it
    --- stderr
    note: `skill_registry` would like `embedding`, which does not exist
    note: shutting down
    ");
    // The socket is gone, so the next one starts.
    running(&home).interrupt().success();
}

#[test]
fn a_terminated_kernel_ends_as_well_as_an_interrupted_one() {
    let home = home();
    let kernel = running(&home);
    let pid = rustix::process::Pid::from_raw(kernel.id().try_into().unwrap()).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
    kernel.finish().success();
}

#[test]
fn skills_that_come_change_move_and_go_are_noticed_while_it_runs() {
    let home = home();
    let kernel = running(&home);
    home.write("sandbox/skills/brew/SKILL.md", skill("Brews.", "Boil."));
    let added = kernel.line_with("skill.added");
    home.write("sandbox/skills/brew/SKILL.md", skill("Brews tea.", "Boil."));
    let changed = kernel.line_with("skill.changed");
    fs::rename(home.path("sandbox/skills/brew"), home.path("sandbox/skills/tea")).unwrap();
    let renamed = kernel.line_with("skill.renamed");
    fs::remove_dir_all(home.path("sandbox/skills/tea")).unwrap();
    let removed = kernel.line_with("skill.removed");
    insta::assert_snapshot!([added, changed, renamed, removed].join("\n"), @"
    skill_registry skill.added brew digest=7b980fd132a1
    skill_registry skill.changed brew new=7c6fe1b30119 old=7b980fd132a1
    skill_registry skill.renamed digest=7c6fe1b30119 from=brew to=tea
    skill_registry skill.removed tea digest=7c6fe1b30119
    ");
    let prompt = home.skillhost(["ask", "--print-prompt", "--agent", "nobody", "hi"]);
    prompt.exits(3);
    kernel.interrupt().success();
}

#[test]
fn events_are_one_json_object_a_line() {
    let home = home();
    let kernel = home.start(
        home.command()
            .env("SKILLHOST_EXTENSIONS__SKILL_REGISTRY__POLL_INTERVAL_MS", "20")
            .args(["run", "--json"]),
    );
    let started: Value = serde_json::from_str(&kernel.line_with("kernel.started")).unwrap();
    assert_eq!(started["schema_version"], 1);
    assert_eq!(started["report"]["loaded"][1]["id"], "skill_registry");
    home.write("sandbox/skills/brew/SKILL.md", skill("Brews.", "Boil."));
    let mut added: Value = serde_json::from_str(&kernel.line_with("skill.added")).unwrap();
    let digest = added["payload"]["digest"].take();
    assert_eq!(digest.as_str().map(str::len), Some(64));
    let expected = json!({
        "schema_version": 1,
        "event": "skill.added",
        "source": "skill_registry",
        "payload": { "id": "brew", "digest": null },
    });
    assert_eq!(added, expected);
    kernel.interrupt().success();
}

#[test]
fn one_home_has_one_running_kernel() {
    let home = home();
    let kernel = running(&home);
    insta::assert_snapshot!(home.skillhost(["run"]), @"
    exit 4
    --- stderr
    error: skillhost already runs for [HOME]
    hint: stop the other one, or use another --home
    ");
    // The first one goes on, and still answers.
    assert_eq!(
        home.skillhost(["tool", "call", "echo", r#"{"text":"on"}"#]).success().stdout,
        "on\n"
    );
    kernel.interrupt().success();
}

#[test]
fn a_socket_left_behind_by_a_killed_kernel_hinders_nothing() {
    let home = home();
    // Dropping it kills it.
    drop(running(&home));
    assert!(fs::read_dir(home.outside().join("run/skillhost")).unwrap().count() > 0);
    assert_eq!(
        home.skillhost(["tool", "call", "echo", r#"{"text":"on"}"#]).success().stdout,
        "on\n"
    );
    running(&home).interrupt().success();
}

#[test]
fn a_skill_that_breaks_while_it_runs_is_served_from_its_last_good_text() {
    let home = home();
    let kernel = running(&home);
    let_it_poll(&home, &kernel, "sandbox/skills", "known");
    let before =
        home.skillhost(["tool", "call", "read_skill", r#"{"skill_id":"greet"}"#]).success();
    home.write("sandbox/skills/greet/SKILL.md", "---\ndescription: [\n");
    let after = home.skillhost(["tool", "call", "read_skill", r#"{"skill_id":"greet"}"#]).success();
    assert!(after.stdout.starts_with(before.stdout.trim_end()), "{after}");
    insta::assert_snapshot!(after.stdout, @r#"
    Skill loaded: greet (approx. 5 tokens)

    <skill_content name="greet" digest="bac4baef64d29c6de0616a12b9b6e43eb74078226f01be2df8d4cad99799224c">
    Say hello to them.
    </skill_content>
    Note: SKILL.md is broken on disk (the frontmatter has no closing line '---'); this is the last good version.
    "#);
    let_it_poll(&home, &kernel, "sandbox/skills", "broken");
    let listed = home.skillhost(["tool", "call", "list_skills"]).success();
    assert!(listed.stdout.contains("• `greet` — Greets people."), "{listed}");
    let output = kernel.interrupt().success();
    assert!(output.stderr.contains("[HOME]/sandbox/skills/greet/SKILL.md"), "{output}");
    // A kernel of its own has it from the versions.
    let alone = home.skillhost(["tool", "call", "read_skill", r#"{"skill_id":"greet"}"#]).success();
    assert_eq!(alone.stdout, after.stdout);
}

#[test]
fn a_root_that_vanishes_while_it_runs_takes_nothing_with_it_and_is_picked_up_again() {
    let roots = "[{label: one, path: sandbox/skills}, {label: two, path: sandbox/more}]";
    let home = home().settings(&format!("extensions: {{skill_registry: {{roots: {roots}}}}}\n"));
    let kernel = running(&home);
    let_it_poll(&home, &kernel, "sandbox/skills", "known");
    fs::rename(home.path("sandbox/skills"), home.path("sandbox/gone")).unwrap();
    let_it_poll(&home, &kernel, "sandbox/more", "gone");
    let listed = home.skillhost(["tool", "call", "list_skills"]).success();
    assert!(listed.stdout.contains("`greet`"), "{listed}");
    fs::rename(home.path("sandbox/gone"), home.path("sandbox/skills")).unwrap();
    home.write("sandbox/skills/brew/SKILL.md", skill("Brews.", "Boil."));
    kernel.line_with("skill.added brew");
    let output = kernel.interrupt().success();
    assert!(!output.stdout.contains("skill.removed"), "{output}");
}

#[test]
fn what_is_listed_is_what_the_running_kernel_has() {
    let bound = "  uses_skills: [greet]\n  uses_tools: [echo]\n";
    let home = home().manifest("greeter", &agent("greeter", bound));
    let questions: [&[&str]; 6] = [
        &["tool", "list", "--json"],
        &["tool", "list", "--json", "--agent", "greeter"],
        &["agent", "list", "--json"],
        &["agent", "show", "--json", "greeter"],
        &["ext", "list", "--json"],
        &["ext", "doctor", "--json"],
    ];
    let ask = |question: &&[&str]| steady(&home.skillhost(*question).success());
    let alone: Vec<_> = questions.iter().map(ask).collect();
    let kernel = running(&home);
    assert_eq!(questions.iter().map(ask).collect::<Vec<_>>(), alone);
    let stranger = home.skillhost(["agent", "show", "greter"]).exits(3);
    assert!(stranger.stderr.contains("did you mean greeter?"), "{stranger}");

    // Only a new kernel would reject this manifest.
    home.write("manifests/late/manifest.yaml", "id: late\nname: [\n");
    home.write("sandbox/skills/greet/SKILL.md", "---\ndescription: [\n");
    let_it_poll(&home, &kernel, "sandbox/skills", "known");
    for (question, alone) in questions.iter().zip(&alone).skip(2) {
        assert_eq!(ask(question), *alone, "{question:?}");
    }
    kernel.interrupt().success();
    home.skillhost(["ext", "doctor"]).exits(1);
    home.skillhost(["agent", "show", "greeter"]).success();
}
