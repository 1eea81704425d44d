//! Tests of `skillhost run`: services, events, hot reload, shutdown.

use std::fs;

use serde_json::{Value, json};

use crate::fixtures::{agent_manifest, home, skill_md, stable_json, start_kernel, wait_for_poll};

#[test]
fn run_reports_then_stops_on_interrupt() {
    let home = home();
    insta::assert_snapshot!(start_kernel(&home).interrupt(), @"
    exit 0
    --- stdout
    EXTENSION      STATE  VERSION PROVIDES
    echo           loaded 0.1.0   tools echo, context 200, service
    skill_registry loaded 0.1.0   tools list_skills read_skill read_skill_resource skills.load skills.unload skills.read propose_skill_update explain_catalog, context 60, service, skill
    running; Ctrl-C ends it
    --- stderr
    note: `skill_registry` optionally depends on `embedding`, which does not exist
    note: shutting down
    ");
    // The socket is removed, so the next kernel starts.
    start_kernel(&home).interrupt().success();
}

#[test]
fn sigterm_stops_kernel_cleanly() {
    let home = home();
    let kernel = start_kernel(&home);
    let pid = rustix::process::Pid::from_raw(kernel.id().try_into().unwrap()).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
    kernel.finish().success();
}

#[test]
fn running_kernel_detects_skill_changes() {
    let home = home();
    let kernel = start_kernel(&home);
    home.write("sandbox/skills/brew/SKILL.md", skill_md("Brews.", "Boil."));
    let added = kernel.line_with("skill.added");
    home.write("sandbox/skills/brew/SKILL.md", skill_md("Brews tea.", "Boil."));
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
fn json_events_are_one_per_line() {
    let home = home();
    let kernel = home.start(
        home.command()
            .env("SKILLHOST_EXTENSIONS__SKILL_REGISTRY__POLL_INTERVAL_MS", "20")
            .args(["run", "--json"]),
    );
    let started: Value = serde_json::from_str(&kernel.line_with("kernel.started")).unwrap();
    assert_eq!(started["schema_version"], 1);
    assert_eq!(started["report"]["loaded"][1]["id"], "skill_registry");
    home.write("sandbox/skills/brew/SKILL.md", skill_md("Brews.", "Boil."));
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
fn second_kernel_is_rejected() {
    let home = home();
    let kernel = start_kernel(&home);
    let second = home.skillhost(["run"]).exits(4);
    let expected = format!(
        "error: skillhost already runs for [HOME], as process {}\n\
         hint: see: skillhost status; stop it: skillhost stop; or use another --home\n",
        kernel.id()
    );
    assert_eq!((second.stdout.as_str(), second.stderr.as_str()), ("", &*expected));
    // The first kernel still serves calls.
    assert_eq!(
        home.skillhost(["tool", "call", "echo", r#"{"text":"on"}"#]).success().stdout,
        "on\n"
    );
    kernel.interrupt().success();
}

#[test]
fn stale_socket_is_replaced() {
    let home = home();
    // Dropping the handle kills the kernel.
    drop(start_kernel(&home));
    assert!(fs::read_dir(home.outside().join("run/skillhost")).unwrap().count() > 0);
    assert_eq!(
        home.skillhost(["tool", "call", "echo", r#"{"text":"on"}"#]).success().stdout,
        "on\n"
    );
    start_kernel(&home).interrupt().success();
}

#[test]
fn broken_skill_keeps_last_valid_text() {
    let home = home();
    let kernel = start_kernel(&home);
    wait_for_poll(&home, &kernel, "sandbox/skills", "known");
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
    wait_for_poll(&home, &kernel, "sandbox/skills", "broken");
    let listed = home.skillhost(["tool", "call", "list_skills"]).success();
    assert!(listed.stdout.contains("• `greet` — Greets people."), "{listed}");
    let output = kernel.interrupt().success();
    assert!(output.stderr.contains("[HOME]/sandbox/skills/greet/SKILL.md"), "{output}");
    // A kernel of its own reads the last valid text from the versions.
    let alone = home.skillhost(["tool", "call", "read_skill", r#"{"skill_id":"greet"}"#]).success();
    assert_eq!(alone.stdout, after.stdout);
}

#[test]
fn vanished_root_keeps_skills() {
    let roots = "[{label: one, path: sandbox/skills}, {label: two, path: sandbox/more}]";
    let home = home().settings(&format!("extensions: {{skill_registry: {{roots: {roots}}}}}\n"));
    let kernel = start_kernel(&home);
    wait_for_poll(&home, &kernel, "sandbox/skills", "known");
    fs::rename(home.path("sandbox/skills"), home.path("sandbox/gone")).unwrap();
    wait_for_poll(&home, &kernel, "sandbox/more", "gone");
    let listed = home.skillhost(["tool", "call", "list_skills"]).success();
    assert!(listed.stdout.contains("`greet`"), "{listed}");
    fs::rename(home.path("sandbox/gone"), home.path("sandbox/skills")).unwrap();
    home.write("sandbox/skills/brew/SKILL.md", skill_md("Brews.", "Boil."));
    kernel.line_with("skill.added brew");
    let output = kernel.interrupt().success();
    assert!(!output.stdout.contains("skill.removed"), "{output}");
}

#[test]
fn lists_show_running_kernel_state() {
    let bound = "  uses_skills: [greet]\n  uses_tools: [echo]\n";
    let home = home().manifest("greeter", &agent_manifest("greeter", bound));
    let questions: [&[&str]; 6] = [
        &["tool", "list", "--json"],
        &["tool", "list", "--json", "--agent", "greeter"],
        &["agent", "list", "--json"],
        &["agent", "show", "--json", "greeter"],
        &["ext", "list", "--json"],
        &["ext", "doctor", "--json"],
    ];
    let ask = |question: &&[&str]| stable_json(&home.skillhost(*question).success());
    let alone: Vec<_> = questions.iter().map(ask).collect();
    let kernel = start_kernel(&home);
    assert_eq!(questions.iter().map(ask).collect::<Vec<_>>(), alone);
    let stranger = home.skillhost(["agent", "show", "greter"]).exits(3);
    assert!(stranger.stderr.contains("did you mean greeter?"), "{stranger}");

    // Only a newly started kernel would reject this manifest; the running one names it.
    home.write("manifests/late/manifest.yaml", "id: late\nname: [\n");
    home.write("sandbox/skills/greet/SKILL.md", "---\ndescription: [\n");
    wait_for_poll(&home, &kernel, "sandbox/skills", "known");
    for (question, alone) in questions.iter().zip(&alone).skip(2).take(3) {
        assert_eq!(ask(question), *alone, "{question:?}");
    }
    let doctor = home.skillhost(["ext", "doctor"]).exits(1);
    assert!(doctor.stdout.contains("pending extension `late`: "), "{doctor}");
    kernel.interrupt().success();
    home.skillhost(["ext", "doctor"]).exits(1);
    home.skillhost(["agent", "show", "greeter"]).success();
}
