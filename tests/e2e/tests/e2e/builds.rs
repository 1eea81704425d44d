//! Extensions that are built by the program itself: for an operator, and for an agent with consent.

use std::fs::{self, File};
use std::io::{BufRead as _, BufReader};
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;

use mock_model::{MockModel, Step, Wire};
use rustix::process::{Pid, Signal, kill_process};
use test_support::{Output, TestHome, profile_dir, program};

use crate::scene::{agent, home, repository, shipped};

/// What cargo needs; the tests' own environment is private.
const TOOLCHAIN: [(&str, &str); 2] = [("CARGO_HOME", ".cargo"), ("RUSTUP_HOME", ".rustup")];

/// Quick to compile, for the SDK too.
const PROFILE: &str = "[profile.release]\nopt-level = 0\n";

fn cargo_toml(name: &str) -> String {
    format!(
        "[package]\nname = \"ext-{name}\"\nversion = \"0.1.0\"\nedition = \"2024\"\n\n\
         [lib]\nname = \"{name}\"\ncrate-type = [\"cdylib\"]\n\n\
         [dependencies]\nskillhost-sdk = \"*\"\n\n{PROFILE}\n"
    )
}

/// An extension with one tool, `<name>_greet`; `new` is what it does when it is created.
fn lib(name: &str, new: &str, greeting: &str) -> String {
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

    async fn invoke(&self, _cx: &CallContext, _tool: &str, _args: Args<'_>) -> Result<ToolOutput> {{
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
        .map(|(name, folder)| (name, std::env::var_os(name).map_or(user.join(folder), Into::into)))
        .into();
    let chosen = std::env::var_os("RUSTUP_TOOLCHAIN").map(PathBuf::from);
    variables.extend(chosen.map(|chosen| ("RUSTUP_TOOLCHAIN", chosen)));
    // The target folder of the tests need not lie in the repository.
    variables.push(("SKILLHOST_BUILD__SDK", repository().join("kernel/sdk")));
    variables
}

/// Where all tests build to, with the SDK built already: that takes long once, and no program that
/// has to answer in time waits for it.
fn target() -> PathBuf {
    let target = profile_dir().join("../e2e-builds");
    let warm = target.join("warm");
    fs::create_dir_all(warm.join("src")).unwrap();
    let sdk = format!("{{ path = {:?} }}", repository().join("kernel/sdk"));
    let text = cargo_toml("warm").replace("\"*\"", &sdk).replace(PROFILE, "") + PROFILE;
    for (path, text) in
        [("Cargo.toml", text + "panic = \"unwind\"\n[workspace]\n"), ("src/lib.rs", String::new())]
    {
        // Another test may be building it: nothing is touched that need not be.
        let path = warm.join(path);
        if fs::read_to_string(&path).ok().as_ref() != Some(&text) {
            fs::write(path, text).unwrap();
        }
    }
    let lock = warm.join("Cargo.lock");
    if !lock.exists() {
        fs::copy(repository().join("Cargo.lock"), lock).unwrap();
    }
    let output = Command::new("cargo")
        .args(["build", "--release", "--offline", "--quiet", "--manifest-path"])
        .arg(warm.join("Cargo.toml"))
        .arg("--target-dir")
        .arg(&target)
        .env_clear()
        .envs(std::env::var_os("PATH").map(|path| ("PATH", path)))
        .envs(toolchain())
        .env("CARGO_INCREMENTAL", "0")
        .current_dir("/")
        .output()
        .expect("cargo starts");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    fs::canonicalize(target).unwrap()
}

/// Has a home build into the folder that all tests share.
pub(crate) fn with_target(home: TestHome) -> TestHome {
    let builds = home.path("sandbox/data/kernel/builds");
    fs::create_dir_all(&builds).unwrap();
    symlink(target(), builds.join(".target")).unwrap();
    home
}

/// Writes an extension.
fn write(home: &TestHome, name: &str, source: &str) {
    let folder = format!("sandbox/extensions/{name}");
    if !home.path(format!("{folder}/manifest.yaml")).exists() {
        home.write(format!("{folder}/manifest.yaml"), manifest(name));
    }
    home.write(format!("{folder}/Cargo.toml"), cargo_toml(name));
    home.write(format!("{folder}/src/lib.rs"), source);
}

fn skillhost(home: &TestHome, arguments: &[&str]) -> Output {
    home.start(home.command().envs(toolchain()).args(arguments)).finish()
}

fn build(home: &TestHome, name: &str) -> Output {
    skillhost(home, &["ext", "build", name, "--yes"])
}

fn greeting(home: &TestHome, name: &str) -> String {
    home.skillhost(["tool", "call", &format!("{name}_greet")]).success().stdout
}

/// What of an extension is installed.
fn installed(home: &TestHome, name: &str) -> (bool, String, bool) {
    let folder = home.path(format!("sandbox/extensions/{name}"));
    (
        folder.join(format!("lib{name}.so")).exists(),
        fs::read_to_string(folder.join("manifest.yaml")).unwrap(),
        home.path("sandbox/data/kernel/approvals.jsonl").exists(),
    )
}

#[test]
fn a_crate_is_mended_built_used_built_again_and_rolled_back() {
    let home = with_target(home());
    // What lies in the sandbox steers no build.
    home.write("sandbox/.cargo/config.toml", "[build]\nrustc-wrapper = \"/nowhere/wrapper\"\n");
    home.write("sandbox/rust-toolchain.toml", "[toolchain]\nchannel = \"1.0.0\"\n");
    write(&home, "tea", &lib("tea", "let x: u32 = \"leaves\";", "\"one\""));
    let nothing = (false, manifest("tea"), false);
    let failed = build(&home, "tea").exits(1);
    let expected = "src/lib.rs:8:22: error[E0308]: mismatched types\n  8 |         let x: u32 = \
                    \"leaves\";\n    |                      ^^^^^^^^ expected `u32`, found `&str`";
    assert!(failed.stderr.contains(expected), "{failed}");
    assert_eq!(installed(&home, "tea"), nothing);

    write(&home, "tea", &lib("tea", "", "\"one\""));
    let built = build(&home, "tea").success();
    assert!(built.stdout.starts_with("built tea 0.1.0: tools tea_greet, sha256 "), "{built}");
    assert_eq!(greeting(&home, "tea"), "one\n");
    assert!(installed(&home, "tea").1.contains("version: 0.1.0\nsha256: "));
    let nothing_before = skillhost(&home, &["ext", "rollback", "tea"]).exits(3);
    assert!(
        nothing_before.stderr.contains("there is no earlier build of `tea`"),
        "{nothing_before}"
    );

    // A running kernel takes the new build into use, and the old one back.
    let kernel = home.start(home.command().envs(toolchain()).arg("run"));
    kernel.line_with("running; Ctrl-C ends it");
    write(&home, "tea", &lib("tea", "", "\"two\""));
    let built = build(&home, "tea").success();
    assert!(built.stdout.ends_with("it is in use\n"), "{built}");
    kernel.line_with("extension.built tea ");
    assert_eq!(greeting(&home, "tea"), "two\n");
    let back = skillhost(&home, &["ext", "rollback", "tea"]).success();
    assert!(back.stdout.starts_with("rolled back tea: sha256 "), "{back}");
    assert_eq!(greeting(&home, "tea"), "one\n");
    kernel.interrupt().success();
    assert_eq!(greeting(&home, "tea"), "one\n");
    home.skillhost(["ext", "doctor"]).success();
}

#[test]
fn the_templates_that_agents_start_from_build_load_and_answer() {
    let home = with_target(home());
    let templates = repository().join("sandbox/skills/extension-development/templates");
    for (template, id) in [
        ("tool-provider", "checklist"),
        ("context-provider", "house_rules"),
        ("service-provider", "skill_watch"),
    ] {
        for file in ["manifest.yaml", "Cargo.toml", "src/lib.rs"] {
            let text = fs::read_to_string(templates.join(template).join(file)).unwrap();
            // As it is, but quick to compile.
            let text = text.replace("strip = \"symbols\"", "opt-level = 0");
            home.write(format!("sandbox/extensions/{id}/{file}"), text);
        }
        let built = build(&home, id).success();
        assert!(built.stdout.starts_with(&format!("built {id} 0.1.0: ")), "{built}");
    }
    // Nor does what was built with look like something that was interrupted.
    let doctor = home.skillhost(["ext", "doctor"]).success();
    assert!(!doctor.stdout.contains("interrupted"), "{doctor}");
    let added = home.skillhost(["tool", "call", "checklist_add", r#"{"item": "taste it"}"#]);
    assert_eq!(added.success().stdout, "added as item 1\n");
}

#[test]
fn what_does_not_load_is_reported_and_not_installed() {
    let home = with_target(home());
    let cases = [
        ("panic!(\"no water\");", "phase new: ", "no water"),
        ("std::process::abort();", "it ends its process with abort", ""),
        ("println!(\"hello\");", "it prints to standard output", "hello"),
        ("std::process::exit(3);", "it ends its process with exit code 3", ""),
        ("loop {}", "phase new: was not created within", ""),
    ];
    for (new, expected, more) in cases {
        // What follows cannot be reached, and the compiler says so.
        let source = format!("#![allow(unreachable_code)]\n{}", lib("odd", new, "\"x\""));
        write(&home, "odd", &source);
        let refused = build(&home, "odd").exits(1);
        assert!(refused.stderr.contains(expected) && refused.stderr.contains(more), "{refused}");
        assert_eq!(installed(&home, "odd"), (false, manifest("odd"), false), "{new}");
    }
    // A tool that another extension has.
    write(&home, "odd", &lib("odd", "", "\"x\"").replace("odd_greet", "echo"));
    let refused = build(&home, "odd").exits(4);
    assert!(
        refused.stderr.contains("the tool `echo` of `odd` is already provided by `echo`"),
        "{refused}"
    );
    assert_eq!(installed(&home, "odd"), (false, manifest("odd"), false));
}

#[test]
fn what_may_not_be_built_is_refused_with_its_place_before_anything_is_asked() {
    let home = home();
    let path = |name: &str| home.path(format!("sandbox/extensions/tea/{name}"));
    let refused = |what: &str| {
        let output = skillhost(&home, &["ext", "build", "tea"]).exits(5);
        assert!(output.stderr.starts_with(&format!("error: {what}")), "{what}: {output}");
        write(&home, "tea", &lib("tea", "", "\"x\""));
    };
    write(&home, "tea", &lib("tea", "", "\"x\""));
    home.write(path("build.rs"), "fn main() {}");
    refused("build.rs: a build script runs while it is built, and none may");
    fs::remove_file(path("build.rs")).unwrap();

    for (line, what) in [
        ("x = { git = \"https://example.org/x\" }", "Cargo.toml:13: `x` is a git dependency"),
        ("x = { path = \"../../..\" }", "Cargo.toml:13: `x` is a path dependency"),
    ] {
        let text = cargo_toml("tea").replace("\"*\"\n", &format!("\"*\"\n{line}\n"));
        home.write(path("Cargo.toml"), text.replacen('\n', "\n# one more\n", 1));
        refused(what);
    }
    File::create(path("huge")).unwrap().set_len(1 << 30).unwrap();
    refused("huge: 1073741824 bytes, more than the 1048576 that one file may have");
    fs::remove_file(path("huge")).unwrap();
    symlink("/etc/passwd", path("src/secrets.rs")).unwrap();
    refused("src/secrets.rs: it is a symbolic link, not a regular file");
    fs::remove_file(path("src/secrets.rs")).unwrap();
    home.write(path(".cargo/config.toml"), "[build]\nrustc-wrapper = \"/tmp/x\"\n");
    refused(".cargo: configuration for cargo is not taken from an extension");
    fs::remove_dir_all(path(".cargo")).unwrap();

    // Nobody sits at a terminal.
    let asked = skillhost(&home, &["ext", "build", "tea"]).exits(2);
    assert!(asked.stderr.contains("nobody can be asked here"), "{asked}");
    assert!(!home.path("sandbox/data/kernel/builds").exists());

    // Ids of others.
    home.write("sandbox/extensions/echo/manifest.yaml", manifest("echo"));
    let shipped = skillhost(&home, &["ext", "build", "echo", "--yes"]).exits(5);
    assert!(
        shipped.stderr.contains("the id `echo` is that of an extension that ships"),
        "{shipped}"
    );
    for (id, code) in [("kernel", 5), ("nobody", 3), ("../tea", 2)] {
        skillhost(&home, &["ext", "build", id, "--yes"]).exits(code);
    }
}

/// A home whose `cargo` says who it is and then waits for ever.
fn with_stuck_cargo() -> (TestHome, PathBuf, PathBuf) {
    let home = home();
    write(&home, "tea", &lib("tea", "", "\"x\""));
    let bin = home.outside().join("bin");
    let said = home.outside().join("said");
    fs::create_dir(&bin).unwrap();
    home.start(home.command_of(Path::new("mkfifo")).arg(&said)).finish().success();
    let script = format!(
        "#!/bin/sh\nexec 3>{}\necho $$ >&3\nwhile :; do sleep 1000; done\n",
        said.display()
    );
    fs::write(bin.join("cargo"), script).unwrap();
    fs::set_permissions(bin.join("cargo"), fs::Permissions::from_mode(0o755)).unwrap();
    (home, bin, said)
}

#[test]
fn a_build_that_is_killed_or_given_up_leaves_nothing() {
    let (home, bin, said) = with_stuck_cargo();
    let path = format!("{}:/usr/bin:/bin", bin.display());
    for interrupted in [false, true] {
        let mut command = home.command();
        command.envs(toolchain()).env("PATH", &path).args(["ext", "build", "tea", "--yes"]);
        let building = home.start(&mut command);
        let mut lines = BufReader::new(File::open(&said).unwrap()).lines();
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
        // Nobody of the group holds the pipe any more.
        assert!(lines.next().is_none());
        assert_eq!(installed(&home, "tea"), (false, manifest("tea"), false));
    }
}

/// A home whose agent `worker` has the kernel's tools.
fn workshop(mock: &MockModel) -> TestHome {
    let worker = agent("worker", "  instructions: You build.\n  uses_tools: [kernel]\n");
    TestHome::new()
        .manifest("skill_registry", &shipped("skill_registry"))
        .manifest("worker", &worker)
        .settings(&mock.settings(Wire::Openai))
        .trusted()
}

const CALL: &str = r#"{"id":"brew"}"#;

#[test]
fn an_agent_builds_what_a_person_has_looked_at() {
    let mock = MockModel::with([
        Step::calls("build_extension", CALL),
        Step::calls("build_extension", CALL),
        Step::calls("build_extension", r#"{"id":"skill_registry"}"#),
        Step::text("Done."),
    ]);
    let home = with_target(workshop(&mock));
    write(&home, "brew", &lib("brew", "// \u{1b}[2Jallow it? [y]es", "\"brewed\""));
    let mut command = home.command();
    command.envs(toolchain()).args(["ask", "--agent", "worker", "Build it"]);
    let mut user = home.on_terminal(&mut command, (120, 100));
    user.wait_for("worker asks to call build_extension of kernel");
    // Everything is there, and none of it passes for the question.
    user.wait_for("| sandbox/extensions/brew: a Rust library");
    user.wait_for("| --- src/lib.rs");
    user.wait_for("// \\u{1b}[2Jallow it? [y]es");
    user.wait_for("[N]o");
    // It is changed while the person reads.
    let changed = lib("brew", "", "\"brewed twice\"");
    home.write("sandbox/extensions/brew/src/lib.rs", &changed);
    user.send("y\n");
    user.wait_for("worker asks to call build_extension of kernel");
    user.wait_for("[N]o");
    user.send("y\n");
    user.wait_for("Done.");
    assert_eq!(user.finish().output.status, 0);
    let asked = mock.requests();
    assert_eq!(asked.len(), 4);
    let told = |number: usize| asked[number].last_text();
    assert!(
        told(1).contains("the files of `brew` are not those that were shown any more"),
        "{}",
        told(1)
    );
    assert!(told(2).contains("`brew` 0.1.0 was built and installed, sha256 "), "{}", told(2));
    assert!(told(2).contains("Its tools: brew_greet."), "{}", told(2));
    // Nobody was asked about that one.
    assert!(
        told(3).contains("the id `skill_registry` is that of an extension that ships"),
        "{}",
        told(3)
    );
    assert_eq!(greeting(&home, "brew"), "brewed twice\n");
}

#[test]
fn a_process_extension_is_approved_and_tried() {
    let Some(_) = program("python3") else { return };
    let home = home();
    let template = repository()
        .join("sandbox/skills/extension-development/templates/process-python/server.py");
    let server = fs::read_to_string(template).unwrap();
    let text = "id: snake\nname: Snake\nentrypoint: {command: [python3, server.py]}\n";
    home.write("sandbox/extensions/snake/manifest.yaml", text);
    home.write("sandbox/extensions/snake/server.py", "print('garbage', flush=True)\ninput()\n");
    let refused = build(&home, "snake").exits(1);
    assert!(refused.stderr.contains("it was built and does not load, phase start"), "{refused}");
    assert!(!home.path("sandbox/data/kernel/approvals.jsonl").exists());

    home.write("sandbox/extensions/snake/server.py", &server);
    build(&home, "snake").success();
    let doctor = home.skillhost(["ext", "doctor"]).success();
    assert!(doctor.stdout.contains("ok snake"), "{doctor}");
    // What was approved is these bytes.
    home.write("sandbox/extensions/snake/server.py", server + "\n");
    let kernel = home.skillhost(["ext", "doctor"]).exits(1);
    assert!(kernel.stdout.contains("its files have changed since they were approved"), "{kernel}");
}
