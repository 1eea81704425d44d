//! Tests of the program alone: a copy in an otherwise empty directory, with the extensions and files
//! that it contains.

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Value, json};
use test_support::{Background, Output, TestHome, binary};

use crate::builds::{link_shared_target, shared_target, toolchain};
use crate::fixtures::bind_time_filters;
use crate::install::{Installation, files};
use crate::mcp_client::{Client, texts};

/// Returns whether the built program has the feature `bundled`, which is a default.
pub(crate) fn is_bundled() -> bool {
    let output = Command::new(binary()).arg("--version").output().unwrap();
    String::from_utf8(output.stdout).unwrap().contains("\nbundled: ")
}

/// A copy of the program without an installation.
struct LonelyProgram {
    place: TestHome,
    program: PathBuf,
    /// The directory for caches of the user.
    caches: PathBuf,
}

impl LonelyProgram {
    /// Copies the program; `None` if it contains nothing, which `install.rs` covers.
    fn new() -> Option<Self> {
        if !is_bundled() {
            return None;
        }
        let place = TestHome::new();
        let program = place.outside().join("bin/skillhost");
        fs::create_dir(program.parent().unwrap()).unwrap();
        fs::copy(binary(), &program).unwrap();
        let caches = place.outside().join("user/.cache");
        Some(Self { place, program, caches })
    }

    /// Returns a command in a directory from which no home is found.
    fn command<A: AsRef<OsStr>>(&self, args: impl IntoIterator<Item = A>) -> Command {
        let mut command = self.place.command_of(&self.program);
        command.env("XDG_CACHE_HOME", &self.caches);
        command.current_dir(self.place.outside()).args(args);
        command
    }

    fn spawn<A: AsRef<OsStr>>(&self, args: impl IntoIterator<Item = A>) -> Background {
        self.place.start(&mut self.command(args))
    }

    fn run<A: AsRef<OsStr>>(&self, args: impl IntoIterator<Item = A>) -> Output {
        self.spawn(args).finish()
    }

    /// Runs a command on the home `mine`.
    fn on_home(&self, args: &[&str]) -> Output {
        self.run(["--home", "mine"].iter().chain(args))
    }

    fn home_dir(&self) -> PathBuf {
        self.place.outside().join("mine")
    }

    fn cache(&self) -> PathBuf {
        self.caches.join("skillhost/bundled")
    }

    /// Returns the only directory of unpacked files.
    fn unpacked(&self) -> PathBuf {
        let entries = fs::read_dir(self.cache()).unwrap().map(|entry| entry.unwrap().path());
        let mut dirs: Vec<_> = entries.filter(|path| path.is_dir()).collect();
        assert_eq!(dirs.len(), 1, "{dirs:?}");
        dirs.remove(0)
    }
}

fn ids(report: &Value, key: &str) -> Vec<String> {
    texts(&report[key], "/id")
}

#[test]
fn program_alone_runs_main_flow() {
    let Some(lonely) = LonelyProgram::new() else { return };
    lonely.run(["init", "mine"]).success();
    let report = lonely.on_home(&["ext", "list", "--json"]).success().json();
    let loaded = ["echo", "skill_registry", "core_tools", "web_search"];
    assert_eq!(ids(&report, "loaded"), loaded);
    let agents = ["reviewer_agent", "builder_agent", "orchestrator_agent", "task_worker_agent"];
    assert_eq!(ids(&report, "agents"), agents);
    assert_eq!(ids(&report, "rejected"), Vec::<String>::new());
    for extension in report["loaded"].as_array().unwrap() {
        assert_eq!(extension["bundled"], true, "{extension}");
        assert_eq!(extension["library"], "[OUTSIDE]/bin/skillhost");
    }
    let listed = lonely.on_home(&["ext", "list"]).success();
    assert!(listed.stdout.contains("bundled, tools echo, context 200, service"), "{listed}");
    let doctor = lonely.on_home(&["ext", "doctor"]).success().stdout;
    assert!(doctor.contains("ok echo 0.1.0 (bundled, tools echo, context 200, service)\n"));

    let skills = lonely.on_home(&["skill", "list", "--json"]).success().json();
    let shipped = ["code-review", "extension-development", "skill-authoring", "task-decomposition"];
    assert_eq!(texts(&skills["skills"], "/skill_id"), shipped);
    assert_eq!(skills["problems"], json!([]));
    let echoed = lonely.on_home(&["tool", "call", "echo", r#"{"text":"hi"}"#]).success();
    assert_eq!((&*echoed.stdout, &*echoed.stderr), ("hi\n", ""));
    let reply = lonely.on_home(&["ask", "hello"]).success();
    assert!(reply.stdout.starts_with("I am script/demo"), "{reply}");
    // The skill of `uses_skills` comes from the bundled registry.
    let prompt = ["ask", "--agent", "builder_agent", "--print-prompt", "hello"];
    let builder = lonely.on_home(&prompt).success().stdout;
    assert!(builder.contains("<skill_content name=\"extension-development\""), "{builder}");
    let prompt = lonely.on_home(&["ask", "--print-prompt", "hello"]).success().stdout;
    assert!(prompt.contains("[Available Skills]\n• `code-review` — "), "{prompt}");
    let search = lonely.on_home(&["tool", "call", "list_directory", r#"{"path":"skills"}"#]);
    assert!(search.success().stdout.contains("code-review"));
}

#[test]
fn disabled_bundled_extension_loads_when_enabled() {
    let Some(lonely) = LonelyProgram::new() else { return };
    lonely.run(["init", "mine"]).success();
    let manifest = lonely.home_dir().join("manifests/embedding/manifest.yaml");
    let text = fs::read_to_string(&manifest).unwrap();
    fs::write(&manifest, text.replace("enabled: false\n", "")).unwrap();
    let report = lonely.on_home(&["ext", "list", "--json"]).success().json();
    let rejected = &report["rejected"][0];
    // Its code runs: it misses the model that the settings should name.
    assert_eq!((&rejected["id"], &rejected["phase"]), (&json!("embedding"), &json!("new")));

    // The program has no file whose digest a manifest could pin.
    let manifest = lonely.home_dir().join("manifests/echo/manifest.yaml");
    let text = fs::read_to_string(&manifest).unwrap() + "sha256: " + &"0a".repeat(32) + "\n";
    fs::write(&manifest, text).unwrap();
    let report = lonely.on_home(&["ext", "list", "--json"]).success().json();
    let reasons = texts(&report["rejected"], "/reason").join("\n");
    assert!(reasons.contains("not found in the manifest's directory"), "{reasons}");
}

#[test]
fn bundled_registry_answers_mcp_clients() {
    let Some(lonely) = LonelyProgram::new() else { return };
    lonely.run(["init", "mine"]).success();
    let mut client = Client::connect_with(&mut lonely.command(["--home", "mine", "mcp"]));
    let listed = client.result("tools/list", json!({}));
    let names = [
        "list_skills",
        "propose_skill_update",
        "read_skill",
        "read_skill_resource",
        "skills.load",
        "skills.read",
    ];
    assert_eq!(texts(&listed["tools"], "/name"), names);
    let read = json!({ "name": "read_skill", "arguments": { "skill_id": "code-review" } });
    let skill = client.result("tools/call", read);
    assert!(skill["content"][0]["text"].as_str().unwrap().contains("# "), "{skill}");
    let output = client.close();
    assert_eq!((output.status, &*output.stderr), (0, ""));
}

#[test]
fn running_kernel_reloads_bundled_extensions() {
    let _filters = bind_time_filters();
    let Some(lonely) = LonelyProgram::new() else { return };
    lonely.run(["init", "mine"]).success();
    let kernel = lonely.spawn(["--home", "mine", "run", "--log", "extension=debug"]);
    kernel.line_with("running; Ctrl-C ends it");
    insta::assert_snapshot!(lonely.on_home(&["ext", "reload", "skill_registry"]), @"
    exit 0
    --- stdout
    reloaded skill_registry: 0.1.0 → 0.1.0 (switched after [N] ms, the old build ended after [N] ms)
    ");
    kernel.line_with("kernel.extension_reloaded skill_registry");
    let skill = lonely.home_dir().join("sandbox/skills/code-review/SKILL.md");
    let text = fs::read_to_string(&skill).unwrap();
    fs::write(&skill, text + "\nA new last line.\n").unwrap();
    kernel.line_with("skill.changed");
    let read = r#"{"skill_id":"code-review"}"#;
    let read = lonely.on_home(&["tool", "call", "read_skill", read]).success();
    assert!(read.stdout.contains("A new last line."), "{read}");
    lonely.on_home(&["tool", "call", "echo", r#"{"text":"hi"}"#]).success();
    let output = kernel.interrupt().success();
    // The log names the extension of an event, and the filter for libraries applies.
    let events = output.stderr.lines().filter(|line| line.contains("bundled_echo: echo"));
    let expected = "DEBUG extension{id=\"echo\"}: bundled_echo: echo chars=2";
    assert_eq!(events.collect::<Vec<_>>(), [expected]);
}

#[test]
fn changed_cache_is_restored() {
    let Some(lonely) = LonelyProgram::new() else { return };
    lonely.run(["init", "mine"]).success();
    let unpacked = lonely.unpacked();
    // A home without manifests of its own uses the unpacked ones.
    fs::remove_dir_all(lonely.home_dir().join("manifests")).unwrap();
    let list = ["ext", "list", "--json"];
    assert_eq!(ids(&lonely.on_home(&list).success().json(), "loaded").len(), 4);

    let manifest = unpacked.join("manifests/echo/manifest.yaml");
    let own = fs::read_to_string(&manifest).unwrap();
    let evil = "id: echo\nname: Evil\ncommand: [sh, -c, 'touch [OUTSIDE]/evil']\n";
    let evil = evil.replace("[OUTSIDE]", &lonely.place.outside().display().to_string());
    fs::write(&manifest, &evil).unwrap();
    fs::create_dir(unpacked.join("manifests/target")).unwrap();
    fs::write(unpacked.join("manifests/target/manifest.yaml"), &evil).unwrap();
    let output = lonely.on_home(&["ext", "list"]).success();
    assert!(output.stderr.contains("had been changed; they are restored"), "{output}");
    assert!(output.stdout.contains("bundled, tools echo"), "{output}");
    assert_eq!(fs::read_to_string(&manifest).unwrap(), own);
    assert!(!lonely.place.outside().join("evil").exists());
    assert_eq!(lonely.on_home(&list).success().stderr, "");

    // A running kernel does not use a manifest that is changed later: the command restores it.
    let kernel = lonely.spawn(["--home", "mine", "run"]);
    kernel.line_with("running; Ctrl-C ends it");
    fs::write(&manifest, &evil).unwrap();
    let reload = lonely.on_home(&["ext", "reload", "echo"]).success();
    assert!(reload.stderr.contains("had been changed; they are restored"), "{reload}");
    kernel.interrupt().success();
    assert!(!lonely.place.outside().join("evil").exists());
}

#[test]
fn concurrent_first_starts_succeed() {
    let Some(lonely) = LonelyProgram::new() else { return };
    let names: Vec<_> = (0..4).map(|number| format!("home{number}")).collect();
    let started: Vec<_> = names.iter().map(|name| lonely.spawn(["init", name])).collect();
    for output in started {
        let output = output.finish().success();
        assert_eq!(output.stderr, "");
    }
    lonely.unpacked();
}

#[test]
fn earlier_cache_is_ignored() {
    let Some(lonely) = LonelyProgram::new() else { return };
    let earlier = lonely.cache().join("0.0.9-0123456789abcdef");
    fs::create_dir_all(earlier.join("manifests/old")).unwrap();
    fs::write(earlier.join("manifests/old/manifest.yaml"), "id: old\nname: Old\nagent: {}\n")
        .unwrap();
    lonely.run(["init", "mine"]).success();
    assert!(!lonely.home_dir().join("manifests/old").exists());
    let report = lonely.on_home(&["ext", "list", "--json"]).success().json();
    assert_eq!(ids(&report, "rejected"), Vec::<String>::new());
    assert!(earlier.join("manifests/old/manifest.yaml").is_file());
}

#[test]
fn unusable_cache_is_reported() {
    let Some(lonely) = LonelyProgram::new() else { return };
    fs::write(lonely.place.outside().join("file"), "").unwrap();
    let cache = |name: &str, args: &[&str]| {
        let path = lonely.place.outside().join(name);
        lonely.place.start(lonely.command(args).env("XDG_CACHE_HOME", path)).finish()
    };
    insta::assert_snapshot!(cache("file", &["init", "mine"]), @"
    exit 5
    --- stderr
    error: the files of the program are not available: [OUTSIDE]/file/skillhost/bundled: Not a directory (os error 20)
    hint: name a directory that you can write to: XDG_CACHE_HOME=DIR
    ");
    assert!(!lonely.home_dir().exists());
    // A home has copies of the files, and the extensions need none.
    cache("other", &["init", "mine"]).success();
    let listed = cache("file", &["--home", "mine", "ext", "list", "--json"]).success();
    assert_eq!(ids(&listed.json(), "loaded").len(), 4);
    let listed = cache("file", &["--home", "mine", "ext", "list"]).success();
    assert!(listed.stderr.starts_with("note: the files of the program are not available: "));
    insta::assert_snapshot!(cache("file", &["--home", "mine", "ext", "new", "rss"]), @"
    exit 5
    --- stderr
    error: the files of the program are not available: [OUTSIDE]/file/skillhost/bundled: Not a directory (os error 20)
    hint: name a directory that you can write to: XDG_CACHE_HOME=DIR
    ");
    // Without a home, no file is needed.
    assert!(!cache("file", &["skill", "list"]).success().stderr.contains("not available"));
}

/// The first extension is built with the sources of the SDK that the program contains. The crates
/// are those that cargo has fetched for the program, and other tests may have compiled them already.
/// The sources are in a directory that stays, so that they are compiled once for each program.
#[test]
fn unpacked_sdk_builds_extension() {
    let Some(mut lonely) = LonelyProgram::new() else { return };
    lonely.caches = shared_target().join("caches");
    lonely.run(["init", "mine"]).success();
    lonely.on_home(&["ext", "new", "coffee_time"]).success();
    let manifest = lonely.home_dir().join("sandbox/extensions/coffee_time/Cargo.toml");
    let text = fs::read_to_string(&manifest).unwrap();
    let (_, sdk) = text.split_once("skillhost-sdk = { path = \"").unwrap();
    let sdk = Path::new(sdk.split('"').next().unwrap());
    assert!(sdk.starts_with(lonely.cache()) && sdk.ends_with("sdk/sdk"), "{text}");
    let text = text.replace("[profile.release]\n", "[profile.release]\nopt-level = 0\n");
    fs::write(&manifest, text).unwrap();
    link_shared_target(&lonely.home_dir());
    let build = ["--home", "mine", "ext", "build", "coffee_time", "--yes"];
    let mut command = lonely.command(build);
    let toolchain = toolchain().into_iter().filter(|(name, _)| !name.starts_with("SKILLHOST"));
    let built = lonely.place.start(command.envs(toolchain)).finish();
    built.success();
    let called = lonely.on_home(&["tool", "list", "--json"]).success();
    assert!(called.stdout.contains("coffee_time"), "{called}");
}

/// An installation and the program have the same files.
#[test]
fn unpacked_files_equal_installed_files() {
    let Some(lonely) = LonelyProgram::new() else { return };
    lonely.run(["init", "mine"]).success();
    let unpacked = lonely.unpacked();
    let installed = Installation::new();
    let share = installed.prefix().join("share/skillhost");
    let mut names = files(&share);
    // Cargo has fetched these crates when it built the program.
    names.retain(|name| !name.starts_with("sdk/vendor/"));
    assert_eq!(files(&unpacked), names);
    // `cargo vendor` reduces the lock file to these crates.
    for name in names.iter().filter(|name| *name != "sdk/Cargo.lock") {
        let read = |dir: &Path| fs::read(dir.join(name)).unwrap();
        assert!(read(&unpacked) == read(&share), "{name}");
    }
}
