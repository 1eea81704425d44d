//! What the tests share: homes with the shipped extensions, a running kernel, steady output.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};

use serde_json::Value;
use test_support::{Background, Output, TestHome, binary, library};

/// The root of the repository.
pub(crate) fn repository() -> PathBuf {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    fs::canonicalize(root).expect("this package lies in the repository")
}

/// A manifest as it ships.
pub(crate) fn shipped(id: &str) -> String {
    let path = repository().join(format!("manifests/{id}/manifest.yaml"));
    fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// The text of a SKILL.md.
pub(crate) fn skill(description: &str, body: &str) -> String {
    format!("---\ndescription: {description}\n---\n{body}\n")
}

/// A trusted home with the shipped registry, the shipped echo and one skill, `greet`.
pub(crate) fn home() -> TestHome {
    untrusted_home().trusted()
}

/// As [`home`], before anybody has trusted it.
pub(crate) fn untrusted_home() -> TestHome {
    TestHome::new()
        .manifest("skill_registry", &shipped("skill_registry"))
        .manifest("echo", &shipped("echo"))
        .skill("greet", &skill("Greets people. Use when somebody arrives.", "Say hello to them."))
}

/// A declarative agent's manifest; `rest` goes on where `agent:` has begun.
pub(crate) fn agent(id: &str, rest: &str) -> String {
    format!("id: {id}\nname: The {id}\ndepends_on: [skill_registry]\nagent:\n{rest}")
}

/// Starts `skillhost run` with a poll every 20 ms and waits until it serves.
pub(crate) fn running(home: &TestHome) -> Background {
    let kernel = home.start(
        home.command()
            .env("SKILLHOST_EXTENSIONS__SKILL_REGISTRY__POLL_INTERVAL_MS", "20")
            .arg("run"),
    );
    kernel.line_with("running; Ctrl-C ends it");
    kernel
}

/// Waits until the registry of a running kernel has looked at every skill as it is now. `folder` is
/// a root; `name` must not have been used before.
pub(crate) fn let_it_poll(home: &TestHome, kernel: &Background, folder: &str, name: &str) {
    // The first poll that sees something may have begun earlier, the second has not.
    for number in [1, 2] {
        let text = skill("Probes.", &format!("{name} {number}"));
        home.write(format!("{folder}/{name}-{number}/SKILL.md"), text);
        kernel.line_with(&format!("skill.added {name}-{number} "));
    }
}

/// Runs a command as somebody who may read the home and write nothing in it.
pub(crate) fn as_a_reader(home: &TestHome, args: &[&str]) -> Output {
    // The target folder may be closed to others, so what is run is put beside the home.
    let bin = home.outside().join("bin");
    fs::create_dir_all(&bin).unwrap();
    for built in [binary(), library("echo"), library("skill_registry")] {
        let link = bin.join(built.file_name().unwrap());
        if !link.exists() && fs::hard_link(&built, &link).is_err() {
            fs::copy(&built, &link).unwrap();
        }
    }
    let mode = |mode| {
        for folder in ["", "home", "home/sandbox", "home/sandbox/skills", "home/manifests"] {
            let path = home.outside().join(folder);
            fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
        }
    };
    mode(0o555);
    let mut command = home.command_of(&bin.join("skillhost"));
    if rustix::process::geteuid().is_root() {
        // Permissions do not bind root, so it is somebody else: by custom the id of nobody.
        command.uid(65_534).gid(65_534);
    }
    let output = home.start(command.args(args)).finish();
    mode(0o755);
    output
}

/// Reads a JSON output without what differs from run to run.
#[track_caller]
pub(crate) fn steady(output: &Output) -> String {
    let mut value = output.json();
    drop_volatile(&mut value);
    pretty(value)
}

/// A value with its fields in one order, whatever order the parser keeps.
pub(crate) fn pretty(mut value: Value) -> String {
    value.sort_all_objects();
    serde_json::to_string_pretty(&value).expect("a value can be printed")
}

fn drop_volatile(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            for key in ["timings", "session_id", "generation", "call_id", "turn_id"] {
                fields.remove(key);
            }
            fields.values_mut().for_each(drop_volatile);
        }
        Value::Array(values) => values.iter_mut().for_each(drop_volatile),
        _ => {}
    }
}

/// Until the guard is dropped, snapshots do not depend on times and hashes.
pub(crate) fn timeless() -> insta::internals::SettingsBindDropGuard {
    let mut settings = insta::Settings::clone_current();
    settings.add_filter(r"\d+ µs", "[N] µs");
    settings.add_filter(r"after \d+ ms", "after [N] ms");
    settings.add_filter(r"\(\d+ files", "([N] files");
    settings.add_filter(r"[0-9a-f]{16}\.sock", "[N].sock");
    // Beside the folder with the built programs; only an installed copy has it.
    settings.add_filter(r"[^ ]*/lib/skillhost\b", "[TARGET]/../lib/skillhost");
    settings.bind_to_scope()
}
