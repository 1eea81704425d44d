//! Tests of extension builds, for an operator and for an agent with approval.

use std::fs::{self, File};
use std::io::{BufRead as _, BufReader};
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;

use mock_model::{MockModel, Step, Wire};
use rustix::process::{Pid, Signal, kill_process};
use test_support::{Output, TestHome, profile_dir, program};

use crate::fixtures::{agent_manifest, home, repository_root, shipped_manifest};

/// Variables that cargo requires; the environment of the tests is private.
const TOOLCHAIN: [(&str, &str); 2] = [("CARGO_HOME", ".cargo"), ("RUSTUP_HOME", ".rustup")];

/// A profile that compiles quickly, also for the SDK: the one of the templates without optimization.
const PROFILE: &str = "[profile.release]\nopt-level = 0\npanic = \"unwind\"\nstrip = \"symbols\"\n";

fn cargo_toml(name: &str) -> String {
    format!(
        "[package]\nname = \"ext-{name}\"\nversion = \"0.1.0\"\nedition = \"2024\"\n\n\
         [lib]\nname = \"{name}\"\ncrate-type = [\"cdylib\"]\n\n\
         [dependencies]\nskillhost-sdk = \"*\"\n\n{PROFILE}\n"
    )
}

/// Returns the source of an extension with one tool `<name>_greet`; `new` is the body of its
/// constructor.
fn lib_source(name: &str, new: &str, greeting: &str) -> String {
    format!(
        r#"use skillhost_sdk::prelude::*;

struct Ext;

#[async_trait]
impl Extension for Ext {{
    fn new(_cx: ExtensionContext) -> Result<Self> {{
        {new}
        Ok(Self)
    }}
}}

#[async_trait]
impl ToolProvider for Ext {{
    fn tools(&self, _cx: &CallContext) -> Vec<ToolSpec> {{
        vec![ToolSpec::new("{name}_greet", "Greets.", json!({{"type": "object"}})).read_only()]
    }}

    async fn invoke(&self, _cx: &CallContext, _tool: &str, _args: ToolArgs<'_>) -> Result<ToolOutput> {{
        Ok(ToolOutput::text({greeting}))
    }}
}}

export_extension!(Ext: tools);
"#
    )
}

fn manifest(name: &str) -> String {
    format!("id: {name}\nname: Tea\nversion: 0.1.0\nentrypoint: {name}\n")
}

pub(crate) fn toolchain() -> Vec<(&'static str, PathBuf)> {
    let user = std::env::var_os("HOME").map(PathBuf::from).unwrap_or_default();
    let mut variables: Vec<_> = TOOLCHAIN
        .map(|(name, directory)| {
            (name, std::env::var_os(name).map_or(user.join(directory), Into::into))
        })
        .into();
    let chosen = std::env::var_os("RUSTUP_TOOLCHAIN").map(PathBuf::from);
    variables.extend(chosen.map(|chosen| ("RUSTUP_TOOLCHAIN", chosen)));
    // The target directory of the tests may be outside of the repository.
    variables.push(("SKILLHOST_BUILD__SDK", repository_root().join("kernel/sdk")));
    variables
}

/// Returns a command that builds a crate with the environment and the profile that `ext build` and
/// [`PROFILE`] have, so that both use the same dependencies.
pub(crate) fn cargo_build(manifest: &Path, target: &Path) -> Command {
    let mut command = Command::new("cargo");
    command
        .args(["build", "--release", "--offline", "--quiet", "--manifest-path"])
        .arg(manifest)
        .arg("--target-dir")
        .arg(target)
        .env_clear()
        .envs(std::env::var_os("PATH").map(|path| ("PATH", path)))
        .envs(toolchain())
        .env("CARGO_INCREMENTAL", "0")
        .env("CARGO_PROFILE_RELEASE_OPT_LEVEL", "0")
        .current_dir("/");
    command
}

/// Returns the shared target directory with the SDK already built. The SDK takes long to compile,
/// and a program with a timeout must not wait for it.
pub(crate) fn shared_target() -> PathBuf {
    let target = profile_dir().join("../e2e-builds");
    let warm = target.join("warm");
    fs::create_dir_all(warm.join("src")).unwrap();
    // Several tests prepare the directory at the same time.
    let preparation = File::create(target.join("warm.lock")).unwrap();
    preparation.lock().unwrap();
    let sdk = format!("{{ path = {:?} }}", repository_root().join("kernel/sdk"));
    let text = cargo_toml("warm").replace("\"*\"", &sdk) + "[workspace]\n";
    let write_changed = |path: &str, text: &str| {
        let path = warm.join(path);
        let is_changed = fs::read_to_string(&path).ok().as_deref() != Some(text);
        if is_changed {
            fs::write(path, text).unwrap();
        }
        is_changed
    };
    write_changed("Cargo.toml", &text);
    write_changed("src/lib.rs", "");
    // Cargo removes what this crate does not need from its copy.
    let locked = fs::read_to_string(repository_root().join("Cargo.lock")).unwrap();
    if write_changed("workspace.lock", &locked) {
        fs::write(warm.join("Cargo.lock"), locked).unwrap();
    }
    let output = cargo_build(&warm.join("Cargo.toml"), &target).output().expect("cargo starts");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    fs::canonicalize(target).unwrap()
}

/// Lets the home in a directory build into the shared target directory.
pub(crate) fn link_shared_target(home: &Path) {
    let builds = home.join("sandbox/data/kernel/builds");
    fs::create_dir_all(&builds).unwrap();
    symlink(shared_target(), builds.join(".target")).unwrap();
}

/// Lets a home build into the shared target directory.
pub(crate) fn with_target(home: TestHome) -> TestHome {
    link_shared_target(&home.path(""));
    home
}

/// Writes the files of an extension.
fn write_extension(home: &TestHome, name: &str, source: &str) {
    let directory = format!("sandbox/extensions/{name}");
    if !home.path(format!("{directory}/manifest.yaml")).exists() {
        home.write(format!("{directory}/manifest.yaml"), manifest(name));
    }
    home.write(format!("{directory}/Cargo.toml"), cargo_toml(name));
    home.write(format!("{directory}/src/lib.rs"), source);
}

fn run_skillhost(home: &TestHome, arguments: &[&str]) -> Output {
    home.start(home.command().envs(toolchain()).args(arguments)).finish()
}

fn build_extension(home: &TestHome, name: &str) -> Output {
    run_skillhost(home, &["ext", "build", name, "--yes"])
}

fn call_greeting(home: &TestHome, name: &str) -> String {
    home.skillhost(["tool", "call", &format!("{name}_greet")]).success().stdout
}

/// Returns library presence, manifest text and ledger presence of an extension.
fn install_state(home: &TestHome, name: &str) -> (bool, String, bool) {
    let directory = home.path(format!("sandbox/extensions/{name}"));
    (
        directory.join(format!("lib{name}.so")).exists(),
        fs::read_to_string(directory.join("manifest.yaml")).unwrap(),
        home.path("sandbox/data/kernel/approvals.jsonl").exists(),
    )
}

#[test]
fn crate_build_runs_and_rolls_back() {
    let home = with_target(home());
    // Settings files of cargo in the sandbox must not influence the build.
    home.write("sandbox/.cargo/config.toml", "[build]\nrustc-wrapper = \"/nowhere/wrapper\"\n");
    home.write("sandbox/rust-toolchain.toml", "[toolchain]\nchannel = \"1.0.0\"\n");
    write_extension(&home, "tea", &lib_source("tea", "let x: u32 = \"leaves\";", "\"one\""));
    let not_installed = (false, manifest("tea"), false);
    let failed = build_extension(&home, "tea").exits(1);
    let expected = "src/lib.rs:8:22: error[E0308]: mismatched types\n  8 |         let x: u32 = \
                    \"leaves\";\n    |                      ^^^^^^^^ expected `u32`, found `&str`";
    assert!(failed.stderr.contains(expected), "{failed}");
    assert_eq!(install_state(&home, "tea"), not_installed);

    write_extension(&home, "tea", &lib_source("tea", "", "\"one\""));
    let built = build_extension(&home, "tea").success();
    assert!(built.stdout.starts_with("built tea 0.1.0: tools tea_greet, sha256 "), "{built}");
    assert_eq!(call_greeting(&home, "tea"), "one\n");
    assert!(install_state(&home, "tea").1.contains("version: 0.1.0\nsha256: "));
    let no_rollback = run_skillhost(&home, &["ext", "rollback", "tea"]).exits(3);
    assert!(no_rollback.stderr.contains("earlier build of `tea` not found"), "{no_rollback}");

    // A running kernel loads the new build, and the old one after a rollback.
    let kernel = home.start(home.command().envs(toolchain()).arg("run"));
    kernel.line_with("running; Ctrl-C ends it");
    write_extension(&home, "tea", &lib_source("tea", "", "\"two\""));
    let built = build_extension(&home, "tea").success();
    assert!(built.stdout.ends_with("it is in use\n"), "{built}");
    kernel.line_with("extension.built tea ");
    assert_eq!(call_greeting(&home, "tea"), "two\n");
    let rolled_back = run_skillhost(&home, &["ext", "rollback", "tea"]).success();
    assert!(rolled_back.stdout.starts_with("rolled back tea: sha256 "), "{rolled_back}");
    assert_eq!(call_greeting(&home, "tea"), "one\n");
    kernel.interrupt().success();
    assert_eq!(call_greeting(&home, "tea"), "one\n");
    home.skillhost(["ext", "doctor"]).success();
}

#[test]
fn extension_templates_build_and_load() {
    let home = with_target(home());
    let templates = repository_root().join("sandbox/skills/extension-development/templates");
    for (template, id) in [
        ("tool-provider", "checklist"),
        ("context-provider", "house_rules"),
        ("service-provider", "skill_watch"),
    ] {
        for file in ["manifest.yaml", "Cargo.toml", "src/lib.rs"] {
            let text = fs::read_to_string(templates.join(template).join(file)).unwrap();
            // The template is unchanged except for a faster profile.
            let text = text.replace("[profile.release]\n", "[profile.release]\nopt-level = 0\n");
            home.write(format!("sandbox/extensions/{id}/{file}"), text);
        }
        let built = build_extension(&home, id).success();
        assert!(built.stdout.starts_with(&format!("built {id} 0.1.0: ")), "{built}");
    }
    // The files that a build leaves must not be reported as an interrupted build.
    let doctor = home.skillhost(["ext", "doctor"]).success();
    assert!(!doctor.stdout.contains("interrupted"), "{doctor}");
    let added = home.skillhost(["tool", "call", "checklist_add", r#"{"item": "taste it"}"#]);
    assert_eq!(added.success().stdout, "added as item 1\n");
}

#[test]
fn unloadable_build_is_not_installed() {
    let home = with_target(home());
    let cases = [
        ("panic!(\"no water\");", "phase new: ", "no water"),
        ("std::process::abort();", "it ends its process with abort", ""),
        ("println!(\"hello\");", "it prints to standard output", "hello"),
        ("std::process::exit(3);", "it ends its process with exit code 3", ""),
        ("loop {}", "phase new: creation timed out after", ""),
    ];
    for (new, expected, more) in cases {
        // The code after `new` is unreachable, which would be a warning.
        let source = format!("#![allow(unreachable_code)]\n{}", lib_source("odd", new, "\"x\""));
        write_extension(&home, "odd", &source);
        let denied = build_extension(&home, "odd").exits(1);
        assert!(denied.stderr.contains(expected) && denied.stderr.contains(more), "{denied}");
        assert_eq!(install_state(&home, "odd"), (false, manifest("odd"), false), "{new}");
    }
    // The name of a tool that another extension provides.
    write_extension(&home, "odd", &lib_source("odd", "", "\"x\"").replace("odd_greet", "echo"));
    let denied = build_extension(&home, "odd").exits(4);
    assert!(
        denied.stderr.contains("the tool `echo` of `odd` is already provided by `echo`"),
        "{denied}"
    );
    assert_eq!(install_state(&home, "odd"), (false, manifest("odd"), false));
}

#[test]
fn forbidden_source_is_rejected_before_approval() {
    let home = home();
    let path = |name: &str| home.path(format!("sandbox/extensions/tea/{name}"));
    let assert_denied = |what: &str| {
        let output = run_skillhost(&home, &["ext", "build", "tea"]).exits(5);
        assert!(output.stderr.starts_with(&format!("error: {what}")), "{what}: {output}");
        write_extension(&home, "tea", &lib_source("tea", "", "\"x\""));
    };
    write_extension(&home, "tea", &lib_source("tea", "", "\"x\""));
    home.write(path("build.rs"), "fn main() {}");
    assert_denied("build.rs: a build script is not allowed");
    fs::remove_file(path("build.rs")).unwrap();

    for (line, what) in [
        ("x = { git = \"https://example.org/x\" }", "Cargo.toml:13: `x` is a git dependency"),
        ("x = { path = \"../../..\" }", "Cargo.toml:13: `x` is a path dependency"),
    ] {
        let text = cargo_toml("tea").replace("\"*\"\n", &format!("\"*\"\n{line}\n"));
        home.write(path("Cargo.toml"), text.replacen('\n', "\n# one more\n", 1));
        assert_denied(what);
    }
    File::create(path("huge")).unwrap().set_len(1 << 30).unwrap();
    assert_denied("huge: 1073741824 bytes exceed the limit of 1048576 bytes per file");
    fs::remove_file(path("huge")).unwrap();
    symlink("/etc/passwd", path("src/secrets.rs")).unwrap();
    assert_denied("src/secrets.rs: it is a symbolic link, not a regular file");
    fs::remove_file(path("src/secrets.rs")).unwrap();
    home.write(path(".cargo/config.toml"), "[build]\nrustc-wrapper = \"/tmp/x\"\n");
    assert_denied(".cargo: configuration for cargo is not allowed in an extension");
    fs::remove_dir_all(path(".cargo")).unwrap();

    // The command has no terminal.
    let requests = run_skillhost(&home, &["ext", "build", "tea"]).exits(2);
    assert!(requests.stderr.contains("no approval channel is available"), "{requests}");
    assert!(!home.path("sandbox/data/kernel/builds").exists());

    // The ids of other extensions.
    home.write("sandbox/extensions/echo/manifest.yaml", manifest("echo"));
    let shipped = run_skillhost(&home, &["ext", "build", "echo", "--yes"]).exits(5);
    assert!(shipped.stderr.contains("the id `echo` is used by a shipped extension"), "{shipped}");
    for (id, code) in [("kernel", 5), ("nobody", 3), ("../tea", 2)] {
        run_skillhost(&home, &["ext", "build", id, "--yes"]).exits(code);
    }
}

/// Creates a home and a `cargo` that reports its process id and then blocks.
fn with_stuck_cargo() -> (TestHome, PathBuf, PathBuf) {
    let home = home();
    write_extension(&home, "tea", &lib_source("tea", "", "\"x\""));
    // An isolated build could not open the pipe.
    let settings = fs::read_to_string(home.path("skillhost.yaml")).unwrap_or_default();
    if !settings.contains("sandbox:") {
        home.write("skillhost.yaml", format!("{settings}sandbox: off\n"));
    }
    let bin = home.outside().join("bin");
    let pid_pipe = home.outside().join("said");
    fs::create_dir(&bin).unwrap();
    home.start(home.command_of(Path::new("mkfifo")).arg(&pid_pipe)).finish().success();
    let script = format!(
        "#!/bin/sh\nexec 3>{}\necho $$ >&3\nwhile :; do sleep 1000; done\n",
        pid_pipe.display()
    );
    fs::write(bin.join("cargo"), script).unwrap();
    fs::set_permissions(bin.join("cargo"), fs::Permissions::from_mode(0o755)).unwrap();
    (home, bin, pid_pipe)
}

#[test]
fn interrupted_build_installs_nothing() {
    let (home, bin, pid_pipe) = with_stuck_cargo();
    let path = format!("{}:/usr/bin:/bin", bin.display());
    for interrupted in [false, true] {
        let mut command = home.command();
        command.envs(toolchain()).env("PATH", &path).args(["ext", "build", "tea", "--yes"]);
        let building = home.start(&mut command);
        let mut lines = BufReader::new(File::open(&pid_pipe).unwrap()).lines();
        let cargo = lines.next().unwrap().unwrap().parse().unwrap();
        let output = if interrupted {
            building.interrupt()
        } else {
            kill_process(Pid::from_raw(cargo).unwrap(), Signal::KILL).unwrap();
            building.finish()
        };
        let (code, text) = match interrupted {
            true => (130, "interrupted; nothing was installed"),
            false => (1, "cargo was ended by signal 9"),
        };
        assert!(output.clone().exits(code).stderr.contains(text), "{output}");
        // The end of the pipe shows that the whole process group has ended.
        assert!(lines.next().is_none());
        assert_eq!(install_state(&home, "tea"), (false, manifest("tea"), false));
    }
}

/// Creates a home whose agent `worker` has the tools of the kernel.
fn kernel_tools_home(mock: &MockModel) -> TestHome {
    let worker = agent_manifest("worker", "  instructions: You build.\n  uses_tools: [kernel]\n");
    TestHome::new()
        .manifest("skill_registry", &shipped_manifest("skill_registry"))
        .manifest("worker", &worker)
        .settings(&mock.settings(Wire::Openai))
        .trusted()
}

const CALL: &str = r#"{"id":"brew"}"#;

#[test]
fn agent_build_uses_approved_files() {
    let mock = MockModel::with([
        Step::calls("build_extension", CALL),
        Step::calls("build_extension", CALL),
        Step::calls("build_extension", r#"{"id":"skill_registry"}"#),
        Step::text("Done."),
    ]);
    let home = with_target(kernel_tools_home(&mock));
    write_extension(
        &home,
        "brew",
        &lib_source("brew", "// \u{1b}[2Jallow it? [y]es", "\"brewed\""),
    );
    let mut command = home.command();
    command.envs(toolchain()).args(["ask", "--agent", "worker", "Build it"]);
    let mut user = home.on_terminal(&mut command, (120, 100));
    user.wait_for("worker asks to call build_extension of kernel");
    // The source is shown in full, and no part of it can pass for the prompt.
    user.wait_for("| sandbox/extensions/brew: a Rust library");
    user.wait_for("| --- src/lib.rs");
    user.wait_for("// \\u{1b}[2Jallow it? [y]es");
    user.wait_for("[N]o");
    // The files change while the person reads.
    let changed = lib_source("brew", "", "\"brewed twice\"");
    home.write("sandbox/extensions/brew/src/lib.rs", &changed);
    user.send("y\n");
    user.wait_for("worker asks to call build_extension of kernel");
    user.wait_for("[N]o");
    user.send("y\n");
    user.wait_for("Done.");
    assert_eq!(user.finish().output.status, 0);
    let requests = mock.requests();
    assert_eq!(requests.len(), 4);
    let result = |number: usize| requests[number].last_text();
    assert!(
        result(1).contains("files of `brew` have changed since they were shown"),
        "{}",
        result(1)
    );
    assert!(result(2).contains("`brew` 0.1.0 was built and installed, sha256 "), "{}", result(2));
    assert!(result(2).contains("Its tools: brew_greet."), "{}", result(2));
    // The reserved id is rejected without an approval request.
    assert!(
        result(3).contains("the id `skill_registry` is used by a shipped extension"),
        "{}",
        result(3)
    );
    assert_eq!(call_greeting(&home, "brew"), "brewed twice\n");
}

#[test]
fn process_extension_is_approved_and_started() {
    let Some(_) = program("python3") else { return };
    let home = home();
    let template = repository_root()
        .join("sandbox/skills/extension-development/templates/process-python/server.py");
    let server = fs::read_to_string(template).unwrap();
    let text = "id: snake\nname: Snake\nentrypoint: {command: [python3, server.py]}\n";
    home.write("sandbox/extensions/snake/manifest.yaml", text);
    home.write("sandbox/extensions/snake/server.py", "print('garbage', flush=True)\ninput()\n");
    let denied = build_extension(&home, "snake").exits(1);
    assert!(denied.stderr.contains("built, but failed to load in phase start"), "{denied}");
    assert!(!home.path("sandbox/data/kernel/approvals.jsonl").exists());

    home.write("sandbox/extensions/snake/server.py", &server);
    build_extension(&home, "snake").success();
    let doctor = home.skillhost(["ext", "doctor"]).success();
    assert!(doctor.stdout.contains("ok snake"), "{doctor}");
    // The approval covers exactly these bytes.
    home.write("sandbox/extensions/snake/server.py", server + "\n");
    let kernel = home.skillhost(["ext", "doctor"]).exits(1);
    assert!(kernel.stdout.contains("its files have changed since they were approved"), "{kernel}");
}
