//! Tests of the reports on isolation and on what the settings exempt from it.

use mock_model::{MockModel, Step};
use serde_json::json;
use test_support::can_isolate;

use crate::agents_scene::agents_home;
use crate::fixtures::{home, start_kernel};

const EXEMPTED: &str = "nothing is contained (sandbox: off)";

#[test]
fn doctor_reports_isolation_of_machine() {
    let home = home();
    let text = home.skillhost(["ext", "doctor"]).success().stdout;
    let line = text.lines().find(|line| line.starts_with("isolation ")).unwrap();
    assert_eq!(line.starts_with("isolation none"), !can_isolate(), "{line}");
    let report = home.skillhost(["ext", "doctor", "--json"]).success().json();
    let levels = report["isolation"]["levels"].as_array().unwrap();
    let names: Vec<_> = levels.iter().map(|level| level["level"].as_str().unwrap()).collect();
    assert_eq!(names, ["namespaces", "landlock"]);
    // Each gap has a remedy.
    for gap in report["isolation"]["gaps"].as_array().unwrap() {
        assert!(!gap["remedy"].as_str().unwrap().is_empty(), "{gap}");
        assert!(text.contains(gap["finding"].as_str().unwrap()), "{text}");
    }
}

#[test]
fn exemption_is_reported_everywhere() {
    let home = home();
    home.write("skillhost.yaml", "sandbox: off\n");
    let doctor = home.skillhost(["ext", "doctor"]).success().stdout;
    assert!(doctor.contains(&format!("note {EXEMPTED}")), "{doctor}");
    let report = home.skillhost(["ext", "doctor", "--json"]).success().json();
    assert!(report["report"]["notes"].to_string().contains(EXEMPTED), "{report}");
    let status = home.skillhost(["status"]).exits(3);
    assert!(status.stdout.contains(EXEMPTED), "{status}");
    let status = home.skillhost(["status", "--json"]).exits(3).json();
    assert!(status["uncontained"][0].as_str().unwrap().starts_with(EXEMPTED), "{status}");
    home.write("skillhost.yaml", "sandbox: {unsandboxed: [echo, gone]}\n");
    let doctor = home.skillhost(["ext", "doctor"]).success().stdout;
    assert!(doctor.contains("note echo is not contained (sandbox.unsandboxed)"), "{doctor}");
    let unknown = "note skillhost.yaml: sandbox.unsandboxed: gone: extension not installed";
    assert!(doctor.contains(unknown), "{doctor}");
    home.write("skillhost.yaml", "");
    let status = home.skillhost(["status", "--json"]).exits(3).json();
    assert_eq!(status["uncontained"], json!([]));
}

#[test]
fn code_of_skills_is_refused_without_isolation() {
    let home = home()
        .skill("demo", "---\nname: demo\ndescription: Demos. Use for demos.\n---\nRun it.\n")
        .file("sandbox/skills/demo/scripts/a.sh", "echo ran\n")
        .file("sandbox/skills/demo/index.mjs", "export default () => ({ result: 'ran' });\n")
        .file("skillhost.yaml", "sandbox: off\n");
    let script = home.skillhost(["skill", "run", "demo", "scripts/a.sh"]).exits(5);
    let program = home.skillhost(["skill", "call", "demo", "{}"]);
    assert_ne!(program.status, 0, "{program}");
    for output in [script, program] {
        let all = format!("{}{}", output.stdout, output.stderr);
        assert!(all.contains("runs in isolation only, and `sandbox: off` is set"), "{output}");
        assert!(all.contains("remove `sandbox: off` from skillhost.yaml"), "{output}");
    }
}

#[test]
fn exemption_is_reported_at_every_start() {
    let mock = MockModel::with([Step::text("One."), Step::text("Two.")]);
    let home = agents_home(&mock);
    let settings = std::fs::read_to_string(home.path("skillhost.yaml")).unwrap();
    home.write("skillhost.yaml", format!("{settings}\nsandbox: off\n"));
    let note = format!("note: {EXEMPTED}");
    let asked = home.skillhost(["ask", "--agent", "worker", "hello"]).success();
    assert!(asked.stderr.contains(&note), "{asked}");
    let kernel = start_kernel(&home);
    // A kernel that already runs does not hide it.
    let asked = home.skillhost(["ask", "--agent", "worker", "hello"]).success();
    assert!(asked.stderr.contains(&note), "{asked}");
    let started = kernel.interrupt();
    assert!(started.stderr.contains(EXEMPTED), "{started}");
}

#[test]
fn policy_file_is_reported() {
    let home = home();
    home.write("skillhost.yaml", "sandbox: {policy_file: srt.json}\n");
    for text in [None, Some("{"), Some(r#"{"filesystem": {"allowRead": ["/no/such"]}}"#)] {
        if let Some(text) = text {
            home.write("srt.json", text);
        }
        let doctor = home.skillhost(["ext", "doctor"]).exits(1).stdout;
        let line = doctor.lines().find(|line| line.starts_with("unhealthy sandbox: "));
        assert!(line.is_some_and(|line| line.contains("srt.json")), "{doctor}");
        let doctor = home.skillhost(["ext", "doctor", "--json"]).exits(1).json();
        assert_eq!(doctor["healthy"], false);
        let status = home.skillhost(["status"]).stdout;
        assert!(status.contains("srt.json"), "{status}");
    }
    home.write("srt.json", r#"{"network": {"httpProxyPort": 8080}}"#);
    let doctor = home.skillhost(["ext", "doctor"]).success().stdout;
    let note = "`network.httpProxyPort` of sandbox-runtime has no effect here";
    assert!(doctor.contains(note), "{doctor}");
}

#[test]
fn missing_allowed_path_names_its_entry() {
    let home = home();
    let settings = "sandbox: {commands: {filesystem: {allowRead: [/no/such]}}}\n";
    home.write("skillhost.yaml", settings);
    let doctor = home.skillhost(["ext", "doctor"]).exits(1).stdout;
    let expected =
        "skillhost.yaml: sandbox.commands.filesystem.allowRead: `/no/such` does not exist";
    assert!(doctor.contains(expected), "{doctor}");
    assert!(doctor.contains("create it or remove the entry"), "{doctor}");
}

#[test]
fn settings_errors_have_place() {
    let home = home();
    for (text, expected) in [
        ("sandbox:\n  comands: {}\n", "skillhost.yaml:2:3: sandbox: unknown field `comands`"),
        ("sandbox: {scripts: {filesystem: {allowRead: [../x]}}}\n", "`..` is not allowed"),
        (
            "sandbox: {scripts: {network: {allowedDomains: ['https://a.org']}}}\n",
            "remove the scheme",
        ),
    ] {
        home.write("skillhost.yaml", text);
        let output = home.skillhost(["config"]).exits(2);
        assert!(output.stderr.contains(expected), "{output}");
    }
}
