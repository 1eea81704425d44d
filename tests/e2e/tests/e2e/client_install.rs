//! Tests of `skillhost mcp install`, with programs in place of the clients.

use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Value, json};
use test_support::{Output, TestHome};

/// A program that records its arguments, one per line.
const RECORDER: &str = "#!/bin/sh\necho \"$(basename \"$0\") says hello\"\nfor word in \"$@\"; do \
                        printf '%s\\n' \"$word\"; done >> \"$(dirname \"$0\")/record\"\n";

const FAILING: &str = "#!/bin/sh\necho 'no such scope' >&2\nexit 9\n";

/// A trusted home whose path needs quotes, and a directory for programs.
struct Scene {
    home: TestHome,
    served: PathBuf,
}

impl Scene {
    fn new() -> Self {
        let home = TestHome::new();
        let served = home.outside().join("it's \"my\" home");
        fs::create_dir_all(served.join("sandbox")).unwrap();
        fs::create_dir(home.outside().join("programs")).unwrap();
        let scene = Self { home, served };
        scene.home.skillhost(["trust", scene.served.to_str().unwrap()]).success();
        scene
    }

    /// Makes a program of a client available.
    fn with_program(self, name: &str, script: &str) -> Self {
        let path = self.home.outside().join("programs").join(name);
        fs::write(&path, script).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        self
    }

    fn command(&self, args: &[&str]) -> Command {
        let mut command = self.home.command();
        let search = format!("{}:/usr/bin:/bin", self.home.outside().join("programs").display());
        command.env("PATH", search).args(["--home", self.served.to_str().unwrap()]);
        command.args(["mcp", "install"]).args(args);
        command
    }

    fn install(&self, args: &[&str]) -> Output {
        self.home.start(&mut self.command(args)).finish()
    }

    /// Returns the arguments that programs received, and forgets them.
    fn take_record(&self) -> Vec<String> {
        let path = self.home.outside().join("programs/record");
        let text = fs::read_to_string(&path).unwrap_or_default();
        let _ = fs::remove_file(path);
        text.lines().map(str::to_owned).collect()
    }

    fn user_file(&self, name: &str) -> PathBuf {
        self.home.outside().join("user").join(name)
    }

    fn write_user_file(&self, name: &str, text: &str) {
        let path = self.user_file(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    /// Returns the server's command line as clients must start it.
    fn server(&self) -> Vec<String> {
        let served = self.served.to_str().unwrap();
        let program = test_support::binary().display().to_string();
        [&*program, "--home", served, "mcp"].map(str::to_owned).to_vec()
    }

    fn entry(&self) -> Value {
        let server = self.server();
        json!({"command": server[0], "args": server[1..]})
    }
}

fn words(start: &[&str], rest: &[String]) -> Vec<String> {
    start.iter().map(|word| (*word).to_owned()).chain(rest.iter().cloned()).collect()
}

fn read_json(path: &Path) -> Value {
    serde_json::from_str(&fs::read_to_string(path).unwrap()).unwrap()
}

/// Returns the sorted names in a directory.
fn names(path: &Path) -> Vec<String> {
    let entries = fs::read_dir(path).unwrap().map(|entry| entry.unwrap().file_name());
    let mut names: Vec<_> = entries.map(|name| name.into_string().unwrap()).collect();
    names.sort();
    names
}

#[test]
fn client_commands_receive_exact_words() {
    let scene = Scene::new();
    let scene = ["claude", "codex", "gemini", "code"]
        .into_iter()
        .fold(scene, |scene, name| scene.with_program(name, RECORDER));
    let server = scene.server();
    let claude = ["mcp", "add", "--transport", "stdio", "--scope"];
    for scope in ["user", "project"] {
        scene.install(&["claude", "--yes", "--scope", scope]).success();
        let start = [&claude[..], &[scope, "skillhost", "--"]].concat();
        assert_eq!(scene.take_record(), words(&start, &server));
        scene.install(&["gemini", "--yes", "--scope", scope]).success();
        let start = ["mcp", "add", "--scope", scope, "skillhost", &server[0], "--"];
        assert_eq!(scene.take_record(), words(&start, &server[1..]));
    }
    scene.install(&["codex", "--yes"]).success();
    assert_eq!(scene.take_record(), words(&["mcp", "add", "skillhost", "--"], &server));
    let report = scene.install(&["vscode", "--yes", "--json"]).success();
    let record = scene.take_record();
    assert_eq!((record.len(), &*record[0]), (2, "--add-mcp"));
    let mut added: Value = serde_json::from_str(&record[1]).unwrap();
    assert_eq!(added["name"].take(), json!("skillhost"));
    assert_eq!(added["command"], json!(server[0]));
    assert_eq!(added["args"], json!(server[1..]));
    let report = report.json();
    let command = &report["commands"][0];
    assert_eq!(command[1], json!("--add-mcp"));
    assert_eq!((&report["outcome"], &report["scope"]), (&json!("added"), &json!("user")));
}

#[test]
fn command_is_shown_before_it_runs() {
    let scene = Scene::new().with_program("codex", RECORDER);
    let mut terminal = scene.home.on_terminal(&mut scene.command(&["codex"]), (400, 60));
    terminal.wait_for("codex mcp add skillhost -- ");
    terminal.wait_for("run it? [y]es, [N]o");
    assert_eq!(scene.take_record(), [""; 0]);
    terminal.send("\r");
    assert_eq!(terminal.finish().output.status, 1);
    assert_eq!(scene.take_record(), [""; 0]);
    let mut terminal = scene.home.on_terminal(&mut scene.command(&["codex"]), (400, 60));
    terminal.wait_for("run it?");
    terminal.send("y\r");
    terminal.wait_for("added to Codex: ");
    assert_eq!(terminal.finish().output.status, 0);
    assert_eq!(scene.take_record().len(), 8);
}

#[test]
fn pipe_requires_yes() {
    let scene = Scene::new().with_program("claude", RECORDER);
    insta::assert_snapshot!(scene.install(&["claude"]), @r#"
    exit 2
    --- stderr
    claude mcp add --transport stdio --scope user skillhost -- [TARGET]/skillhost --home '[OUTSIDE]/it'\''s "my" home' mcp
    error: an installation requires a terminal, or --yes
    hint: see: skillhost --home '[OUTSIDE]/it'\''s "my" home' mcp install claude --print
    hint: then: skillhost --home '[OUTSIDE]/it'\''s "my" home' mcp install claude --yes
    "#);
    scene.install(&["claude", "--json"]).exits(2);
    scene.install(&["claude", "--yes", "--print"]).exits(2);
    assert_eq!(scene.take_record(), [""; 0]);
}

#[test]
fn missing_program_prints_configuration() {
    let scene = Scene::new();
    insta::assert_snapshot!(scene.install(&["codex"]), @r#"
    exit 3
    --- stdout
    [mcp_servers.skillhost]
    command = "[TARGET]/skillhost"
    args = ["--home", "[OUTSIDE]/it's \"my\" home", "mcp"]
    --- stderr
    note: for [OUTSIDE]/user/.codex/config.toml
    error: `codex` was not found; nothing was changed
    hint: edit the file: skillhost --home '[OUTSIDE]/it'\''s "my" home' mcp install codex --write
    "#);
    let output = scene.install(&["vscode", "--scope", "project"]).exits(3);
    let shown: Value = serde_json::from_str(&output.stdout).unwrap();
    let served = scene.home.redact(scene.served.to_str().unwrap());
    assert_eq!(shown["servers"]["skillhost"]["args"], json!(["--home", served, "mcp"]));
    assert!(output.stderr.contains("note: for [HOME]/.vscode/mcp.json\n"), "{output}");
    assert!(output.stderr.contains("mcp install vscode --scope project --write\n"), "{output}");
    scene.install(&["cursor"]).exits(3);
    scene.install(&["claude", "--json"]).exits(3);
    assert_eq!(names(&scene.home.outside().join("user")), [""; 0]);
    assert_eq!(names(&scene.home.root()), ["sandbox"]);
}

#[test]
fn program_of_project_is_not_run() {
    let scene = Scene::new();
    let program = scene.home.path("claude");
    fs::write(&program, RECORDER).unwrap();
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
    let mut command = scene.command(&["claude", "--yes"]);
    scene.home.start(command.env("PATH", ".::bin")).finish().exits(3);
    assert!(!scene.home.path("record").exists());
}

#[test]
fn failed_program_is_reported() {
    let scene = Scene::new().with_program("gemini", FAILING);
    insta::with_settings!({filters => vec![(r"gemini mcp add .* failed", "[COMMAND] failed"), (r"gemini mcp add --scope.*", "[COMMAND]")]}, {
        insta::assert_snapshot!(scene.install(&["gemini", "--yes"]), @r#"
        exit 1
        --- stderr
        [COMMAND]
        no such scope
        error: [COMMAND] failed: exit status: 9
        hint: edit the file instead: skillhost --home '[OUTSIDE]/it'\''s "my" home' mcp install gemini --write
        "#);
    });
}

#[test]
fn write_edits_every_client_file() {
    let scene = Scene::new();
    for (client, scope, file, table) in [
        ("claude", "user", "user/.claude.json", "mcpServers"),
        ("claude", "project", "home/.mcp.json", "mcpServers"),
        ("gemini", "user", "user/.gemini/settings.json", "mcpServers"),
        ("gemini", "project", "home/.gemini/settings.json", "mcpServers"),
        ("cursor", "user", "user/.cursor/mcp.json", "mcpServers"),
        ("vscode", "user", "user/.config/Code/User/mcp.json", "servers"),
        ("vscode", "project", "home/.vscode/mcp.json", "servers"),
    ] {
        let path = scene.home.outside().join(file);
        let args = [client, "--write", "--scope", scope];
        assert!(scene.install(&args).success().stdout.starts_with("added to "), "{file}");
        let found = read_json(&path);
        for key in ["command", "args"] {
            assert_eq!(found[table]["skillhost"][key], scene.entry()[key], "{file}");
        }
        let again = scene.install(&args).success();
        assert!(again.stdout.contains(" has it already: "), "{again}");
        assert_eq!(
            names(path.parent().unwrap()).iter().filter(|it| it.contains("before")).count(),
            0
        );
        let mode = path.metadata().unwrap().permissions().mode() & 0o077;
        assert_eq!(mode == 0, scope == "user", "{file}: {mode:o}");
    }
    scene.install(&["codex", "--write"]).success();
    let text = fs::read_to_string(scene.user_file(".codex/config.toml")).unwrap();
    assert!(text.starts_with("[mcp_servers.skillhost]\ncommand = \""), "{text}");
    let moved = scene.home.outside().join("moved");
    let mut command = scene.command(&["codex", "--write"]);
    scene.home.start(command.env("CODEX_HOME", &moved)).finish().success();
    assert_eq!(names(&moved), ["config.toml"]);
}

#[test]
fn write_keeps_content_and_backup() {
    let scene = Scene::new();
    let old = "{\n  // mine\n  \"theme\": \"dark\",\n  \"mcpServers\": {\n    \"skillhost\": {\n      \
               \"command\": \"/old\",\n      \"env\": {\"KEY\": \"value\"}\n    }\n  }\n}\n";
    scene.write_user_file(".gemini/real.json", old);
    fs::set_permissions(scene.user_file(".gemini/real.json"), fs::Permissions::from_mode(0o640))
        .unwrap();
    symlink("real.json", scene.user_file(".gemini/settings.json")).unwrap();
    let output = scene.install(&["gemini", "--write"]).success();
    insta::assert_snapshot!(output, @"
    exit 0
    --- stdout
    updated in Gemini CLI: [OUTSIDE]/user/.gemini/settings.json
    the file as it was: [OUTSIDE]/user/.gemini/real.json.before-skillhost
    restart the client; see: gemini mcp list
    ");
    let link = scene.user_file(".gemini/settings.json");
    assert_eq!(fs::read_link(&link).unwrap(), Path::new("real.json"));
    assert_eq!(link.metadata().unwrap().permissions().mode() & 0o777, 0o640);
    let new = fs::read_to_string(&link).unwrap();
    assert!(new.contains("  // mine\n  \"theme\": \"dark\",\n"), "{new}");
    assert!(new.contains("\"env\": {\"KEY\": \"value\"}") && !new.contains("/old"), "{new}");
    let backup = scene.user_file(".gemini/real.json.before-skillhost");
    assert_eq!(fs::read_to_string(&backup).unwrap(), old);
    assert_eq!(backup.metadata().unwrap().permissions().mode() & 0o777, 0o600);
    // A second change gets a backup of its own.
    fs::write(scene.user_file(".gemini/real.json"), "{}").unwrap();
    let report = scene.install(&["gemini", "--write", "--json"]).success().json();
    let second = scene.user_file(".gemini/real.json.before-skillhost-2");
    assert_eq!(report["backup"], json!(scene.home.redact(second.to_str().unwrap())));
    assert_eq!(fs::read_to_string(second).unwrap(), "{}");
    assert_eq!(fs::read_to_string(backup).unwrap(), old);
}

#[test]
fn existing_entry_is_replaced_or_kept() {
    let scene = Scene::new().with_program("claude", RECORDER);
    let server = scene.server();
    scene.write_user_file(
        ".claude.json",
        &json!({"mcpServers": {"skillhost": scene.entry()}}).to_string(),
    );
    let output = scene.install(&["claude"]).success();
    assert!(output.stdout.starts_with("Claude Code has it already: "), "{output}");
    assert_eq!(scene.take_record(), [""; 0]);
    scene.write_user_file(".claude.json", r#"{"mcpServers": {"skillhost": {"command": "/old"}}}"#);
    let report = scene.install(&["claude", "--yes", "--json"]).success().json();
    assert_eq!(report["outcome"], json!("updated"));
    // Its program adds nothing under a name that exists.
    let removed = ["mcp", "remove", "--scope", "user", "skillhost"];
    let added = ["mcp", "add", "--transport", "stdio", "--scope", "user", "skillhost", "--"];
    let start = [&removed[..], &added].concat();
    assert_eq!(scene.take_record(), words(&start, &server));
}

#[test]
fn unusable_file_stays_and_nothing_runs() {
    let scene = Scene::new().with_program("claude", RECORDER).with_program("codex", RECORDER);
    scene.write_user_file(".claude.json", "{\"mcpServers\": {},}\n");
    scene.write_user_file(".codex/config.toml", "model = 'o'\n[x\n");
    for option in ["--yes", "--write"] {
        let claude = scene.install(&["claude", option]).exits(1);
        assert!(
            claude
                .stderr
                .contains(".claude.json is not valid: key must be a string at line 1 column 19"),
            "{claude}"
        );
        let codex = scene.install(&["codex", option]).exits(1);
        assert!(codex.stderr.contains("on line 2 column 3"), "{codex}");
    }
    assert_eq!(
        fs::read_to_string(scene.user_file(".claude.json")).unwrap(),
        "{\"mcpServers\": {},}\n"
    );
    fs::write(scene.user_file(".claude.json"), b"{\"a\": \"\xff\"}").unwrap();
    scene.install(&["claude", "--yes"]).exits(1);
    fs::remove_file(scene.user_file(".claude.json")).unwrap();
    fs::create_dir(scene.user_file(".claude.json")).unwrap();
    scene.install(&["claude", "--write"]).exits(5);
    // In a project, links may be those of others.
    symlink(scene.home.outside().join("user"), scene.home.path(".cursor")).unwrap();
    scene.install(&["cursor", "--scope", "project", "--write"]).exits(5);
    symlink(scene.user_file("mine.json"), scene.home.path(".mcp.json")).unwrap();
    scene.install(&["claude", "--scope", "project", "--write"]).exits(5);
    assert!(!scene.user_file("mcp.json").exists() && !scene.user_file("mine.json").exists());
    assert_eq!(scene.take_record(), [""; 0]);
}

#[test]
fn untrusted_home_is_not_installed() {
    let scene = Scene::new().with_program("claude", RECORDER);
    scene.home.skillhost(["trust", "--remove", scene.served.to_str().unwrap()]).success();
    for option in ["--yes", "--write", "--json"] {
        let output = scene.install(&["claude", option]).exits(5);
        assert!((output.stdout.clone() + &output.stderr).contains("skillhost trust"), "{output}");
    }
    let mut command = scene.command(&["claude", "--yes", "--trust-home"]);
    scene.home.start(&mut command).finish().exits(5);
    // Looking at the configuration is possible, with a word on trust.
    let printed = scene.install(&["claude", "--print"]).success();
    assert!(printed.stderr.contains("skillhost trust"), "{printed}");
    assert_eq!(scene.take_record(), [""; 0]);
    assert_eq!(names(&scene.home.outside().join("user")), [""; 0]);
}

#[test]
fn installed_server_starts() {
    let scene = Scene::new();
    scene.install(&["claude", "--write"]).success();
    let config = read_json(&scene.user_file(".claude.json"));
    let server = &config["mcpServers"]["skillhost"];
    let program = PathBuf::from(server["command"].as_str().unwrap());
    let mut command = scene.home.command_of(&program);
    // A client starts it in a directory of its own.
    command.current_dir(scene.home.outside().join("run"));
    command.args(server["args"].as_array().unwrap().iter().map(|word| word.as_str().unwrap()));
    let request = scene.home.outside().join("request");
    fs::write(
        &request,
        "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"initialize\",\"params\":{\"protocolVersion\":\
         \"2025-06-18\",\"capabilities\":{},\"clientInfo\":{\"name\":\"t\",\"version\":\"1\"}}}\n",
    )
    .unwrap();
    command.stdin(fs::File::open(request).unwrap());
    let output = scene.home.start(&mut command).finish().success();
    assert!(output.stdout.contains("\"serverInfo\""), "{output}");
}
