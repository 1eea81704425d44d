//! Tests of the tool.

use skillhost_home::HomeSource;
use skillhost_payload::{Workspace, WorkspaceAccess};
use test_support::can_isolate;

use super::*;

struct Fixture {
    _temp: tempfile::TempDir,
    tool: CommandTool,
    context: CallContext,
}

fn fixture() -> Fixture {
    let temp = tempfile::tempdir().unwrap();
    let base = std::fs::canonicalize(temp.path()).unwrap();
    for dir in ["home/sandbox", "project/src", "readable"] {
        std::fs::create_dir_all(base.join(dir)).unwrap();
    }
    std::os::unix::fs::symlink("/", base.join("project/out")).unwrap();
    let home = Home::open(&base.join("home"), HomeSource::Argument).unwrap();
    let workspace = |label: &str, dir: &str, access| Workspace {
        label: label.into(),
        path: base.join(dir),
        access,
    };
    let context = CallContext {
        workspaces: vec![
            workspace("p", "project", WorkspaceAccess::Write),
            workspace("r", "readable", WorkspaceAccess::Read),
        ],
        ..CallContext::default()
    };
    Fixture {
        _temp: temp,
        tool: CommandTool { home, launcher: SandboxLauncher::default() },
        context,
    }
}

fn set_settings(fixture: &Fixture, text: &str) {
    std::fs::write(fixture.tool.home.settings_file(), text).unwrap();
}

fn structured(done: ToolOutput) -> serde_json::Value {
    serde_json::from_str(done.structured.unwrap().get()).unwrap()
}

async fn run(fixture: &Fixture, arguments: serde_json::Value) -> Result<ToolOutput, CallError> {
    let arguments = arguments.to_string();
    let prepared = fixture.tool.prepare(&fixture.context, NAME, &arguments).await?;
    fixture.tool.invoke(&fixture.context, NAME, &arguments, prepared).await
}

#[tokio::test]
async fn command_runs_in_its_directory() {
    for settings in ["", "sandbox: off"] {
        if settings.is_empty() && !can_isolate() {
            continue;
        }
        let fixture = fixture();
        set_settings(&fixture, settings);
        let script = "pwd; echo to-stderr >&2; read -r line; echo \"[$line]\"; exit 3";
        let done = run(&fixture, json!({"command": script, "directory": "workspace:p/src"}))
            .await
            .unwrap();
        assert!(done.is_error);
        let expected = match settings {
            "" => "workspace:p/src; contained at isolation level ",
            _ => "not contained: it ran with the user's permissions",
        };
        assert!(done.text.contains(expected), "{}", done.text);
        let value = structured(done);
        let path = fixture.context.workspaces[0].path.join("src");
        assert_eq!(value["stdout"], format!("{}\n[]\n", path.display()));
        assert_eq!((&value["stderr"], &value["exit_code"]), (&json!("to-stderr\n"), &json!(3)));
        assert_eq!(value["contained"], settings.is_empty());
        assert_eq!(value["isolation"]["level"].is_string(), settings.is_empty());
        let inner = fixture.tool.home.sandbox_dir().join("notes");
        std::fs::create_dir(inner).unwrap();
        let done = run(&fixture, json!({"command": "pwd", "directory": "sandbox/notes"})).await;
        let done = done.unwrap();
        assert!(!done.is_error && done.text.contains("/home/sandbox/notes\n"), "{}", done.text);
    }
}

#[tokio::test]
async fn contained_command_changes_only_its_workspace() {
    if !can_isolate() {
        return;
    }
    let fixture = fixture();
    let outside = fixture.context.workspaces[1].path.clone();
    std::fs::write(outside.join("secret.txt"), "hidden").unwrap();
    let script = format!(
        "echo made > ../made; cat {0}/secret.txt; echo bad > {0}/bad; echo tmp > $TMPDIR/a && cat $TMPDIR/a; \
         cat < /dev/tcp/127.0.0.1/1; exit 1",
        outside.display()
    );
    let done = run(&fixture, json!({"command": script, "directory": "workspace:p/src"})).await;
    let done = done.unwrap();
    let text = done.text.clone();
    let value = structured(done);
    assert_eq!(value["stdout"], "tmp\n", "{text}");
    assert!(fixture.context.workspaces[0].path.join("made").exists(), "{text}");
    assert!(!outside.join("bad").exists());
    // The refusal proposes the exact lines.
    let settings = value["proposed_settings"].as_str().unwrap();
    let list = format!("[\"{}/secret.txt\"", outside.display());
    let has_path = settings.contains(&format!("allowRead: {list}"))
        || settings.contains(&format!("allowRead: [\"{}/bad\"", outside.display()));
    assert!(has_path, "{settings}");
    assert!(text.contains("the user can allow more in skillhost.yaml:\nsandbox:\n  commands:"));
}

#[tokio::test]
async fn changed_settings_are_in_force_for_next_command() {
    if !can_isolate() {
        return;
    }
    let fixture = fixture();
    let outside = fixture.context.workspaces[1].path.clone();
    std::fs::write(outside.join("data.txt"), "visible").unwrap();
    let script = format!("cat {}/data.txt", outside.display());
    let arguments = json!({"command": script, "directory": "workspace:p"});
    let scope = async || {
        let text = arguments.to_string();
        fixture.tool.prepare(&fixture.context, NAME, &text).await.unwrap().scope.unwrap()
    };
    let before = scope().await;
    assert_eq!(before, scope().await, "an approval for the session covers the same policy");
    assert_ne!(structured(run(&fixture, arguments.clone()).await.unwrap())["exit_code"], 0);
    let allowed =
        format!("sandbox: {{commands: {{filesystem: {{allowRead: ['{}']}}}}}}", outside.display());
    set_settings(&fixture, &allowed);
    let value = structured(run(&fixture, arguments.clone()).await.unwrap());
    assert_eq!((&value["exit_code"], &value["stdout"]), (&json!(0), &json!("visible")));
    assert_ne!(before, scope().await, "a wider policy asks again");
    set_settings(&fixture, "sandbox: {commands: {filesystem: {allowReads: []}}}");
    let error = run(&fixture, arguments.clone()).await.unwrap_err();
    assert_eq!(error.kind, ErrorKind::Unavailable);
    assert!(
        error.message.contains("1:35: sandbox.commands.filesystem: unknown field"),
        "{error:?}"
    );
    set_settings(&fixture, "sandbox: {commands: {filesystem: {allowRead: [/no/such]}}}");
    let error = run(&fixture, arguments.clone()).await.unwrap_err();
    assert!(error.message.contains("/no/such"), "{error:?}");
    set_settings(&fixture, "sandbox: {commands: {filesystem: {allowWrite: []}}}");
    let touch = json!({"command": "touch new", "directory": "workspace:p"});
    assert_ne!(structured(run(&fixture, touch).await.unwrap())["exit_code"], 0);
}

#[tokio::test]
async fn private_data_of_sandbox_is_hidden() {
    if !test_support::can_isolate_at(skillhost_policy::IsolationLevel::Namespaces) {
        return;
    }
    let fixture = fixture();
    let data = fixture.tool.home.sandbox_dir().join("data");
    std::fs::create_dir(&data).unwrap();
    std::fs::write(data.join("approvals"), "private").unwrap();
    let script = "cat data/approvals; echo x > data/new; ls data";
    let done = run(&fixture, json!({"command": script, "directory": "sandbox"})).await.unwrap();
    assert!(!done.text.contains("private\n"), "{}", done.text);
    assert!(!data.join("new").exists());
}

#[tokio::test]
async fn approval_shows_exact_command_and_policy() {
    let fixture = fixture();
    let arguments = json!({"command": "echo 'a\nb' | sh", "directory": "workspace:p"}).to_string();
    let prepare = async || fixture.tool.prepare(&fixture.context, NAME, &arguments).await;
    let path = fixture.context.workspaces[0].path.display().to_string();
    if can_isolate() {
        let prepared = prepare().await.unwrap();
        let details = prepared.details.unwrap();
        let start = details.strip_prefix("contained (isolation level ").unwrap();
        let (_, rest) = start.split_once(')').unwrap();
        let expected = format!(
            ", for at most 120 s:\n$ echo 'a\n  b' | sh\nin {path}\nwrites: {path}\nreads: that, the system"
        );
        assert!(rest.starts_with(&expected), "{details}");
        assert!(details.ends_with("\nno network"), "{details}");
        assert!(!prepared.is_protected);
    }
    set_settings(&fixture, "sandbox: off");
    let prepared = prepare().await.unwrap();
    assert_eq!(
        prepared.details.unwrap(),
        format!(
            "runs with your permissions and is not contained (sandbox: off), for at most 120 s:\n\
             $ echo 'a\n  b' | sh\nin {path}"
        )
    );
    assert_eq!(prepared.scope.unwrap(), format!("{path}\0off\0echo 'a\nb' | sh"));
}

#[tokio::test]
async fn other_directories_are_refused() {
    let fixture = fixture();
    for (directory, kind) in [
        ("workspace:r", ErrorKind::Denied),
        ("workspace:none", ErrorKind::NotFound),
        ("workspace:p/none", ErrorKind::NotFound),
        ("workspace:p/out", ErrorKind::Denied),
        ("workspace:p/../readable", ErrorKind::Denied),
        ("/tmp", ErrorKind::InvalidArgument),
        ("sandbox/..", ErrorKind::Denied),
        ("sandbox/data", ErrorKind::Denied),
        ("", ErrorKind::InvalidArgument),
    ] {
        let error = run(&fixture, json!({"command": "true", "directory": directory})).await;
        assert_eq!(error.unwrap_err().kind, kind, "{directory}");
    }
    for command in [" ", "echo \u{1b}[2J", "echo \u{202e}x", "a\rb", &"x".repeat(9_000)] {
        let error = run(&fixture, json!({"command": command, "directory": "sandbox"})).await;
        assert_eq!(error.unwrap_err().kind, ErrorKind::InvalidArgument, "{command:?}");
    }
}

#[tokio::test]
async fn uncontained_time_and_output_are_limited() {
    let fixture = fixture();
    set_settings(&fixture, "sandbox: off");
    let slow = json!({"command": "sleep 1000", "directory": "sandbox", "timeout_ms": 200});
    let error = run(&fixture, slow).await.unwrap_err();
    assert_eq!(error.kind, ErrorKind::Timeout);
    check_long_output(&fixture, "sandbox").await;
}

#[tokio::test]
async fn contained_time_and_output_are_limited() {
    if !can_isolate() {
        return;
    }
    let fixture = fixture();
    let slow = "echo begun; sleep 1000 & sleep 1000";
    let slow = json!({"command": slow, "directory": "workspace:p", "timeout_ms": 200});
    let done = run(&fixture, slow).await.unwrap();
    assert!(
        done.is_error && done.text.starts_with("ended by the time limit of 1 s"),
        "{}",
        done.text
    );
    let value = structured(done);
    assert_eq!((&value["stdout"], &value["ended_by"]), (&json!("begun\n"), &json!("time")));
    check_long_output(&fixture, "workspace:p").await;
    set_settings(&fixture, "sandbox: {commands: {limits: {outputKib: 64}}}");
    let endless = json!({"command": "yes", "directory": "workspace:p"});
    let done = run(&fixture, endless).await.unwrap();
    assert!(done.text.starts_with("ended by the output limit of 64 KiB"), "{}", &done.text[..80]);
}

async fn check_long_output(fixture: &Fixture, directory: &str) {
    let long = json!({"command": "yes | head -c 3000000; echo END", "directory": directory});
    let done = run(fixture, long).await.unwrap();
    assert!(done.text.len() < 60_000, "{}", done.text.len());
    assert!(done.text.contains("bytes left out"), "{}", &done.text[..200]);
    assert!(done.text.ends_with("y\nEND\n"), "{}", &done.text[done.text.len() - 200..]);
}

#[tokio::test]
async fn developer_tools_work_contained() {
    if !can_isolate() {
        return;
    }
    let fixture = fixture();
    let project = &fixture.context.workspaces[0].path;
    let script = "git init -q . && git -c user.name=a -c user.email=a@b commit -q --allow-empty -m one && git log --oneline";
    let git = json!({"command": script, "directory": "workspace:p"});
    if std::process::Command::new("git").arg("--version").output().is_ok() {
        std::fs::create_dir_all(project).unwrap();
        let done = run(&fixture, git).await.unwrap();
        assert!(done.text.contains(" one\n"), "{}", done.text);
    }
    std::fs::write(project.join("Cargo.toml"), "[package]\nname = \"p\"\nversion = \"0.1.0\"\n")
        .unwrap();
    std::fs::write(project.join("src/lib.rs"), "pub fn one() -> u8 { 1 }\n").unwrap();
    let build =
        json!({"command": "cargo check --offline && ls target", "directory": "workspace:p/src/.."});
    assert!(run(&fixture, build).await.is_err(), "`..` is refused");
    let build =
        json!({"command": "cargo check --offline && ls target", "directory": "workspace:p"});
    let done = run(&fixture, build).await.unwrap();
    assert!(!done.is_error && done.text.contains("debug"), "{}", done.text);
}
