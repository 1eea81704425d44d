//! Shared fixtures: homes with the shipped extensions, a running kernel, stable output.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};

use serde_json::Value;
use test_support::{Background, Output, TestHome, binary, library};

/// Returns the root of the repository.
pub(crate) fn repository_root() -> PathBuf {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    fs::canonicalize(root).expect("this package lies in the repository")
}

/// Reads a shipped manifest.
pub(crate) fn shipped_manifest(id: &str) -> String {
    let path = repository_root().join(format!("manifests/{id}/manifest.yaml"));
    fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// Formats the text of a SKILL.md.
pub(crate) fn skill_md(description: &str, body: &str) -> String {
    format!("---\ndescription: {description}\n---\n{body}\n")
}

/// Creates a trusted home with the shipped registry, the shipped echo and one skill, `greet`.
pub(crate) fn home() -> TestHome {
    untrusted_home().trusted()
}

/// Creates the home of [`home`] without trust.
pub(crate) fn untrusted_home() -> TestHome {
    TestHome::new()
        .manifest("skill_registry", &shipped_manifest("skill_registry"))
        .manifest("echo", &shipped_manifest("echo"))
        .skill(
            "greet",
            &skill_md("Greets people. Use when somebody arrives.", "Say hello to them."),
        )
}

/// Formats the manifest of a declarative agent; `rest` follows the line `agent:`.
pub(crate) fn agent_manifest(id: &str, rest: &str) -> String {
    format!("id: {id}\nname: The {id}\ndepends_on: [skill_registry]\nagent:\n{rest}")
}

/// Starts `skillhost run` with a poll every 20 ms and waits until it serves.
pub(crate) fn start_kernel(home: &TestHome) -> Background {
    let kernel = home.start(
        home.command()
            .env("SKILLHOST_EXTENSIONS__SKILL_REGISTRY__POLL_INTERVAL_MS", "20")
            .arg("run"),
    );
    kernel.line_with("running; Ctrl-C ends it");
    kernel
}

/// Waits until the registry of a running kernel has polled the current state of all skills.
/// `folder` is a root; `name` must be unused.
pub(crate) fn wait_for_poll(home: &TestHome, kernel: &Background, directory: &str, name: &str) {
    // The first poll that sees the new skill may have started earlier; the second one has not.
    for number in [1, 2] {
        let text = skill_md("Probes.", &format!("{name} {number}"));
        home.write(format!("{directory}/{name}-{number}/SKILL.md"), text);
        kernel.line_with(&format!("skill.added {name}-{number} "));
    }
}

/// Runs a command as a user who can read the home, but not write to it.
pub(crate) fn run_as_reader(home: &TestHome, args: &[&str]) -> Output {
    // The target directory may be unreadable for other users, so the binaries are copied.
    let bin = home.outside().join("bin");
    fs::create_dir_all(&bin).unwrap();
    // An installation without files; without one the program would unpack its own.
    for directory in ["manifests", "skills"] {
        fs::create_dir_all(home.outside().join("share/skillhost").join(directory)).unwrap();
    }
    for built in [binary(), library("echo"), library("skill_registry")] {
        let link = bin.join(built.file_name().unwrap());
        if !link.exists() && fs::hard_link(&built, &link).is_err() {
            fs::copy(&built, &link).unwrap();
        }
    }
    let mode = |mode| {
        for directory in ["", "home", "home/sandbox", "home/sandbox/skills", "home/manifests"] {
            let path = home.outside().join(directory);
            fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
        }
    };
    mode(0o555);
    let mut command = home.command_of(&bin.join("skillhost"));
    if rustix::process::geteuid().is_root() {
        // Root ignores permissions, so the command runs under another id, by custom that of nobody.
        command.uid(65_534).gid(65_534);
    }
    let output = home.start(command.args(args)).finish();
    mode(0o755);
    output
}

/// Formats a JSON output without the fields that differ between runs.
#[track_caller]
pub(crate) fn stable_json(output: &Output) -> String {
    let mut value = output.json();
    drop_volatile(&mut value);
    pretty_json(value)
}

/// Formats a value with sorted keys, independent of the order that the parser keeps.
pub(crate) fn pretty_json(mut value: Value) -> String {
    value.sort_all_objects();
    serde_json::to_string_pretty(&value).expect("a value can be printed")
}

fn drop_volatile(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            for key in ["timings", "session_id", "generation", "call_id", "turn_id", "isolation"] {
                fields.remove(key);
            }
            fields.values_mut().for_each(drop_volatile);
        }
        Value::Array(values) => values.iter_mut().for_each(drop_volatile),
        _ => {}
    }
}

/// Removes times and hashes from snapshots until the guard is dropped.
pub(crate) fn bind_time_filters() -> insta::internals::SettingsBindDropGuard {
    let mut settings = insta::Settings::clone_current();
    settings.add_filter(r"\d+ µs", "[N] µs");
    settings.add_filter(r"after \d+ ms", "after [N] ms");
    settings.add_filter(r"\(\d+ files", "([N] files");
    settings.add_filter(r"[0-9a-f]{16}\.sock", "[N].sock");
    // The directory of the built programs; only an installed copy has it.
    settings.add_filter(r"[^ ]*/lib/skillhost\b", "[TARGET]/../lib/skillhost");
    settings.bind_to_scope()
}

/// Returns the field of a manifest that lets a process read paths.
pub(crate) fn allow_read(paths: &[&Path]) -> String {
    let real = |path: &&Path| fs::canonicalize(path).unwrap().display().to_string();
    let paths: Vec<_> = paths.iter().map(real).collect();
    format!("sandbox: {{filesystem: {{allowRead: {paths:?}}}}}\n")
}
