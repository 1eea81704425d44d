//! Tests of a running kernel that follows its settings, secrets, agents and approvals.

use std::fs;

use mock_model::{MockModel, Step, Wire};
use test_support::TestHome;

use crate::agents_scene::agents_home;
use crate::fixtures::{agent_manifest, home, shipped_manifest, start_kernel};

/// Sends a message to an agent and returns the reply.
fn ask(home: &TestHome, agent: &str, text: &str) -> String {
    home.skillhost(["ask", "--agent", agent, text]).success().stdout
}

#[test]
fn changed_models_are_used_at_once() {
    let mock = MockModel::with([Step::text("From the server.")]);
    let home = home().manifest("worker", &agent_manifest("worker", "  instructions: Work.\n"));
    let kernel = start_kernel(&home);
    assert!(!ask(&home, "worker", "Hello").contains("From the server."));
    let settings = mock.settings(Wire::Openai);
    assert!(settings.contains("models:"), "{settings}");
    home.write("skillhost.yaml", &settings);
    // The client asks for the kernel's notices first, which reads the settings again.
    assert_eq!(ask(&home, "worker", "Hello"), "From the server.\n");
    assert_eq!(kernel.line_with("is in force"), "kernel skillhost.yaml is in force: models");
    kernel.interrupt().success();
}

#[test]
fn invalid_settings_leave_last_valid_ones() {
    let mock = MockModel::with([Step::text("Still here."), Step::text("And here.")]);
    let home = agents_home(&mock);
    let valid = fs::read_to_string(home.path("skillhost.yaml")).unwrap();
    let kernel = start_kernel(&home);
    home.write("skillhost.yaml", "models: {defalt: x}\n");
    kernel.line_with("skillhost.yaml:1:");
    for command in [["ask", "--agent", "worker", "Hello"].as_slice(), &["tool", "list"]] {
        let output = home.skillhost(command).success();
        let note = "note: settings: [HOME]/skillhost.yaml:1:";
        assert!(output.stderr.contains(note), "{output}");
        assert!(output.stderr.contains("did you mean `default`?"), "{output}");
    }
    let status = home.skillhost(["status"]).success().stdout;
    assert!(status.contains("the last valid settings stay in force"), "{status}");
    let doctor = home.skillhost(["ext", "doctor"]).exits(1).stdout;
    assert!(doctor.contains("pending settings: [HOME]/skillhost.yaml:1:"), "{doctor}");
    home.write("skillhost.yaml", &valid);
    kernel.line_with("skillhost.yaml is valid again");
    let output = home.skillhost(["ask", "--agent", "worker", "Hello"]).success();
    assert_eq!(output.stdout, "And here.\n");
    assert!(!output.stderr.contains("skillhost.yaml"), "{output}");
    // The mistake is reported once, however many polls have seen it.
    let printed = kernel.interrupt().success().stdout;
    assert_eq!(printed.matches("skillhost.yaml:1:").count(), 1, "{printed}");
}

#[test]
fn missing_key_of_kernel_is_named() {
    let home = home();
    let kernel = start_kernel(&home);
    let list = |home: &TestHome| {
        let mut command = home.command();
        command.env("OPENAI_API_KEY", "s3cret").args(["tool", "list"]);
        home.start(&mut command).finish().success().stderr
    };
    let note = "note: OPENAI_API_KEY is set here and not in the running kernel; add it to .env of \
                the home, or restart the kernel with it\n";
    assert_eq!(list(&home), note);
    home.write(".env", "OPENAI_API_KEY=s3cret\n");
    assert_eq!(list(&home), "");
    kernel.line_with(".env is in force: OPENAI_API_KEY");
    home.write(".env", "s3cret\n");
    let broken = list(&home);
    assert!(broken.contains(".env: .env has a line that is not NAME=value"), "{broken}");
    assert!(!broken.contains("s3cret"), "{broken}");
    kernel.interrupt().success();
}

#[test]
fn agents_follow_manifests_and_prompts() {
    let mock = MockModel::with((0..4).map(|_| Step::text("Done.")));
    let home =
        agents_home(&mock).file("manifests/worker/prompt.jinja2", "You are {{ agent.name }}.");
    let kernel = start_kernel(&home);
    let system = |agent: &str| {
        ask(&home, agent, "Hello");
        mock.requests().last().unwrap().system()
    };
    assert!(system("worker").contains("You are The worker."));
    home.write("manifests/worker/prompt.jinja2", "You are new.");
    kernel.line_with("agent `worker` was updated");
    assert!(system("worker").contains("You are new."));
    // A prompt that is not valid leaves the previous one in use.
    home.write("manifests/worker/prompt.jinja2", "{{ no_such }}");
    kernel.line_with("agent `worker`: ");
    assert!(system("worker").contains("You are new."));
    home.write("manifests/late/manifest.yaml", agent_manifest("late", "  instructions: Wait.\n"));
    kernel.line_with("agent `late` was added");
    assert!(system("late").contains("Wait."));
    fs::remove_dir_all(home.path("manifests/late")).unwrap();
    kernel.line_with("agent `late` was removed");
    home.skillhost(["agent", "show", "late"]).exits(3);
    kernel.interrupt().success();
}

#[test]
fn unapproved_agent_stays_inert() {
    let mock = MockModel::with((0..3).map(|_| Step::text("Done.")));
    let home = agents_home(&mock);
    let kernel = start_kernel(&home);
    let manifest = |text: &str| agent_manifest("mine", &format!("  instructions: {text}\n"));
    home.write("sandbox/extensions/mine/manifest.yaml", manifest("First."));
    kernel.line_with("extension `mine`: it is not approved");
    home.skillhost(["ask", "--agent", "mine", "Hello"]).exits(3);
    home.approve("mine");
    kernel.line_with("agent `mine` was added");
    let system = || {
        ask(&home, "mine", "Hello");
        mock.requests().last().unwrap().system()
    };
    assert!(system().contains("First."));
    // A changed file is not used before it is approved again.
    home.write("sandbox/extensions/mine/manifest.yaml", manifest("Second."));
    let line = kernel.line_with("agent `mine`: its files have changed since they were approved");
    assert!(line.contains("skillhost ext approve mine"), "{line}");
    assert!(system().contains("First."));
    let refused = home.skillhost(["ext", "reload", "mine"]);
    assert_ne!(refused.status, 0, "{refused}");
    assert!(refused.stderr.contains("skillhost ext approve mine"), "{refused}");
    home.approve("mine");
    kernel.line_with("agent `mine` was updated");
    assert!(system().contains("Second."));
    kernel.interrupt().success();
}

#[test]
fn reload_takes_agents() {
    let home = home().manifest("worker", &agent_manifest("worker", "  instructions: Work.\n"));
    let kernel = start_kernel(&home);
    home.write(
        "manifests/worker/manifest.yaml",
        agent_manifest("worker", "  instructions: Rest.\n"),
    );
    let reloaded = home.skillhost(["ext", "reload", "worker"]).success().stdout;
    assert!(reloaded.starts_with("reloaded worker: instructions "), "{reloaded}");
    let shown = home.skillhost(["agent", "show", "worker"]).success().stdout;
    assert!(shown.contains("Rest."), "{shown}");
    home.write("manifests/worker/manifest.yaml", "id: worker\nname: [\n");
    let refused = home.skillhost(["ext", "reload", "worker"]).exits(1);
    assert!(refused.stderr.contains("manifest.yaml:3:"), "{refused}");
    home.skillhost(["ext", "reload", "nobody"]).exits(3);
    kernel.interrupt().success();
}

#[test]
fn doctor_names_what_is_not_loaded() {
    let home = home();
    let kernel = start_kernel(&home);
    home.skillhost(["ext", "doctor"]).success();
    home.write("manifests/core_tools/manifest.yaml", shipped_manifest("core_tools"));
    home.write("skillhost.yaml", "extensions: {echo: {greeting: Hi}}\n");
    let doctor = home.skillhost(["ext", "doctor"]).exits(1).stdout;
    for part in [
        "pending extension `core_tools`: is not loaded yet\n  hint: skillhost ext reload core_tools\n",
        "pending extension `echo`: has another configuration than the one that is loaded\n",
    ] {
        assert!(doctor.contains(part), "{part:?} in {doctor}");
    }
    let many = home.skillhost(["tool", "list"]).success().stderr;
    assert!(many.contains("2 changes are not in force in the running kernel"), "{many}");
    home.skillhost(["ext", "reload", "core_tools"]).success();
    home.skillhost(["ext", "reload", "echo"]).success();
    home.skillhost(["ext", "doctor"]).success();
    kernel.interrupt().success();
}
