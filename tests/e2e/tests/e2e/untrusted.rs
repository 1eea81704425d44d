//! Tests of untrusted homes: the files that offline commands read, and those that they ignore.

use std::fs;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, symlink};
use std::path::Path;
use std::time::{Duration, Instant};

use test_support::TestHome;

use crate::fixtures::{
    run_as_reader, shipped_manifest, skill_md, start_kernel, untrusted_home, wait_for_poll,
};

/// Commands that require no trust.
const OFFLINE: [&[&str]; 14] = [
    &["skill", "list"],
    &["skill", "list", "--json"],
    &["skill", "show", "greet"],
    &["skill", "read", "greet"],
    &["skill", "search", "greet"],
    &["skill", "doctor"],
    &["skill", "graph"],
    &["skill", "history", "greet"],
    &["skill", "proposals"],
    &["skill", "audit-log"],
    &["skill", "stats"],
    &["config"],
    &["models", "list"],
    &["export", "--to", "../exported"],
];

/// Returns every path below a directory with its size and modification time.
fn path_metadata(directory: &Path) -> Vec<String> {
    let mut found = Vec::new();
    let mut folders = vec![directory.to_owned()];
    while let Some(directory) = folders.pop() {
        for entry in fs::read_dir(directory).unwrap() {
            let path = entry.unwrap().path();
            let stat = fs::symlink_metadata(&path).unwrap();
            if stat.is_dir() {
                folders.push(path.clone());
            }
            let (size, at) = (stat.len(), stat.mtime_nsec());
            found.push(format!("{} {size} {at}", path.display()));
        }
    }
    found.sort();
    found
}

/// Creates an untrusted home whose ledger has two versions of a skill.
fn home_with_ledger() -> TestHome {
    let home = untrusted_home().trusted();
    let kernel = start_kernel(&home);
    for word in ["leaves", "stays"] {
        let text = skill_md(&format!("Greets people. Use when somebody {word}."), "Say hello.");
        home.write("sandbox/skills/greet/SKILL.md", text);
        kernel.line_with("skill.changed greet");
        wait_for_poll(&home, &kernel, "sandbox/skills", word);
    }
    kernel.interrupt().success();
    home.skillhost(["trust", "--remove"]).success();
    home
}

/// Returns the versions of the skill, oldest first.
fn skill_versions(home: &TestHome) -> Vec<serde_json::Value> {
    let history = home.skillhost(["skill", "history", "greet", "--json"]).success().json();
    history["versions"].as_array().unwrap().clone()
}

#[test]
fn offline_commands_leave_untrusted_home_unchanged() {
    for home in [untrusted_home(), home_with_ledger()] {
        let before = path_metadata(&home.root());
        for command in OFFLINE {
            let output = home.skillhost(command);
            assert!([0, 1].contains(&output.status), "{command:?}: {output}");
        }
        assert_eq!(path_metadata(&home.root()), before);
    }
}

#[test]
fn read_only_home_is_readable() {
    for trusted in [true, false] {
        let home = home_with_ledger();
        let expected = skill_versions(&home);
        if trusted {
            home.skillhost(["trust"]).success();
        }
        // Other users can read the home; only its owner can write to it.
        let data = home.path("sandbox/data");
        for entry in path_metadata(&data) {
            let path = entry.split(' ').next().unwrap();
            let mode = if Path::new(path).is_dir() { 0o555 } else { 0o444 };
            fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
        }
        fs::set_permissions(&data, fs::Permissions::from_mode(0o555)).unwrap();
        let history =
            run_as_reader(&home, &["skill", "history", "greet", "--json"]).success().json();
        assert_eq!(history["versions"].as_array().unwrap(), &expected);
        for command in [&["skill", "list"][..], &["skill", "proposals"], &["config"]] {
            run_as_reader(&home, command).success();
        }
        if trusted {
            run_as_reader(&home, &["events", "tail"]).success();
            run_as_reader(&home, &["threads", "list"]).success();
        }
    }
}

#[test]
fn untrusted_home_has_no_operator_roots() {
    let home = untrusted_home();
    insta::assert_snapshot!(home.skillhost(["skill", "list"]), @"
    exit 0
    --- stdout
    greet  Greets people. Use when somebody arrives. [~5 tokens, sandbox, untrusted]
    --- stderr
    note: 1 warning; `skillhost skill show ID` prints those of a skill
    ");
    let listed = home.skillhost(["skill", "list", "--json"]).success().json();
    assert_eq!(listed["skills"][0]["trust"], "untrusted");
    insta::assert_snapshot!(home.skillhost(["export", "--to", "../exported"]), @"
    exit 0
    --- stdout
    0 of 0 skills in [HOME]/../exported were up to date
    --- stderr
    note: `greet` is left out: it is in the untrusted root `sandbox`; --allow-untrusted greet exports it
    ");
    assert!(!home.outside().join("exported/greet").exists());
    home.skillhost(["export", "greet", "--to", "../exported"]).exits(5);
    let trusted = home.trusted();
    let listed = trusted.skillhost(["skill", "list", "--json"]).success().json();
    assert_eq!(listed["skills"][0]["trust"], "operator");
    trusted.skillhost(["export", "--to", "../exported"]).success();
    assert!(trusted.outside().join("exported/greet/SKILL.md").exists());
}

#[test]
fn untrusted_roots_stay_in_the_home() {
    let home = untrusted_home().settings(
        "extensions: {skill_registry: {roots: [\
         {label: up, path: ../far, trust: operator}, {label: own, path: sandbox/skills}]}}\n",
    );
    let elsewhere = home.outside().join("far/secret");
    fs::create_dir_all(&elsewhere).unwrap();
    fs::write(elsewhere.join("SKILL.md"), skill_md("Far away.", "x")).unwrap();
    let output = home.skillhost(["skill", "list"]).success();
    assert!(!output.stdout.contains("secret"), "{output}");
    assert!(output.stderr.contains("the root `up` is left out"), "{output}");
    let trusted = home.trusted();
    assert!(trusted.skillhost(["skill", "list"]).success().stdout.contains("secret"));
}

#[test]
fn hostile_settings_fail_at_once() {
    let fifo = |path: &Path| {
        let kind = rustix::fs::FileType::Fifo;
        rustix::fs::mknodat(rustix::fs::CWD, path, kind, rustix::fs::Mode::RUSR, 0).unwrap();
    };
    for (name, message) in [
        ("device", "a symbolic link"),
        ("file", "a symbolic link"),
        ("fifo", "not a regular file"),
        ("deep", "at most 64 deep"),
        ("large", "bytes"),
    ] {
        let home = untrusted_home();
        let path = home.path("skillhost.yaml");
        match name {
            "device" => symlink("/dev/zero", path).unwrap(),
            "file" => symlink("/etc/passwd", path).unwrap(),
            "fifo" => fifo(&path),
            "deep" => fs::write(path, "[".repeat(100_000)).unwrap(),
            _ => fs::File::create(path).unwrap().set_len(1 << 32).unwrap(),
        }
        for command in [&["config"][..], &["skill", "list"], &["models", "list"]] {
            let started = Instant::now();
            let output = home.skillhost(command);
            assert!([2, 5].contains(&output.status), "{name}: {output}");
            assert!(output.stderr.contains(message), "{name}: {output}");
            assert!(output.stderr.contains("\nhint: "), "{name}: {output}");
            assert!(started.elapsed() < Duration::from_secs(10), "{name}: {command:?}");
        }
    }
}

#[test]
fn hostile_manifests_and_skills_are_skipped() {
    let home = untrusted_home();
    for (directory, target) in [("a", "/dev/zero"), ("b", "/etc/passwd")] {
        fs::create_dir_all(home.path("manifests").join(directory)).unwrap();
        symlink(target, home.path("manifests").join(directory).join("manifest.yaml")).unwrap();
        fs::create_dir_all(home.path("sandbox/skills").join(directory)).unwrap();
        symlink(target, home.path("sandbox/skills").join(directory).join("SKILL.md")).unwrap();
    }
    fs::create_dir_all(home.outside().join("far")).unwrap();
    fs::write(home.outside().join("far/manifest.yaml"), shipped_manifest("embedding")).unwrap();
    symlink(home.outside().join("far"), home.path("manifests/far")).unwrap();
    home.write("manifests/deep/manifest.yaml", "[".repeat(100_000));
    home.write("sandbox/skills/deep/SKILL.md", format!("---\nname: {}\n---\n", "[".repeat(60_000)));
    let config = home.skillhost(["config"]).success();
    assert!(!config.stdout.contains("extensions.embedding"), "{config}");
    for directory in ["a", "b", "far", "deep"] {
        assert!(config.stderr.contains(&format!("manifests/{directory}")), "{directory}: {config}");
    }
    assert!(home.skillhost(["skill", "list"]).success().stdout.contains("greet"));
}

#[test]
fn linked_data_directory_is_rejected() {
    let home = untrusted_home();
    let elsewhere = home.outside().join("far");
    fs::create_dir(&elsewhere).unwrap();
    symlink(&elsewhere, home.path("sandbox/data")).unwrap();
    for command in [
        &["skill", "list"][..],
        &["skill", "history", "greet"],
        &["skill", "proposals"],
        &["export", "--to", "../exported"],
    ] {
        let output = home.skillhost(command).exits(5);
        assert!(output.stderr.contains("sandbox/data"), "{command:?}: {output}");
        assert!(output.stderr.contains("a symbolic link"), "{command:?}: {output}");
    }
    assert_eq!(fs::read_dir(&elsewhere).unwrap().count(), 0);
    home.trusted().skillhost(["skill", "history", "greet"]).success();
}

#[test]
fn untrusted_skill_changes_require_trust() {
    let home = home_with_ledger();
    let versions = skill_versions(&home);
    assert!(versions.len() >= 2, "{versions:?}");
    let (number, digest) = (versions[0]["number"].to_string(), versions[0]["tree"].clone());
    let digest = digest.as_str().unwrap();
    let rollback = ["skill", "rollback", "greet", &number, "--yes", "--digest", digest];
    let output = home.skillhost(rollback).exits(5);
    assert!(output.stderr.contains("its home is not trusted"), "{output}");
    let mut trusting = vec!["--trust-home"];
    trusting.extend(rollback);
    home.skillhost(trusting).success();
    for command in [&["threads", "list"][..], &["events", "tail"]] {
        let output = home.skillhost(command).exits(5);
        assert!(output.stderr.contains("this home is not trusted"), "{output}");
    }
}

#[test]
fn untrusted_dotenv_is_not_read() {
    let home = untrusted_home().file(".env", "OPENAI_API_KEY=x\n");
    let models = home.skillhost(["models", "list", "--json"]).success();
    let trusted = home.trusted();
    let after = trusted.skillhost(["models", "list", "--json"]).success();
    assert_ne!(models.stdout, after.stdout);
}

#[test]
fn hidden_characters_are_escaped() {
    let home = TestHome::new()
        .skill("code-review\u{200b}", &skill_md("Reviews.", "x"))
        .skill("plain", &skill_md("Re\u{200b}views\u{ad} co\u{e0041}de \u{3164}.", "x"))
        .trusted();
    let output = home.skillhost(["skill", "list"]).success();
    assert!(!output.stdout.contains("code-review"), "{output}");
    assert!(output.stderr.contains("U+200B"), "{output}");
    for hidden in ['\u{200b}', '\u{ad}', '\u{e0041}', '\u{3164}'] {
        assert!(!output.stdout.contains(hidden), "{:x}: {output}", u32::from(hidden));
        assert!(!output.stderr.contains(hidden), "{:x}: {output}", u32::from(hidden));
    }
    let details = home.skillhost(["skill", "show", "plain"]).success();
    assert!(details.stdout.contains("Re\\u{200b}views\\u{ad}"), "{details}");
}

#[test]
fn data_directory_is_private_after_start() {
    let home = untrusted_home().trusted().file("sandbox/data/kernel/old", "x");
    let mode = |path: &str, mode| {
        fs::set_permissions(home.path(path), fs::Permissions::from_mode(mode)).unwrap();
    };
    mode("sandbox/data", 0o755);
    mode("sandbox/data/kernel/old", 0o644);
    let kernel = start_kernel(&home);
    let entries = path_metadata(&home.path("sandbox/data"));
    assert!(entries.iter().any(|entry| entry.contains("events.db-wal")), "{entries:?}");
    for entry in [
        "",
        "kernel",
        "kernel/old",
        "kernel/events.db",
        "kernel/events.db-wal",
        "kernel/events.db-shm",
    ] {
        let found = fs::metadata(home.path("sandbox/data").join(entry)).unwrap();
        assert_eq!(found.mode() & 0o077, 0, "{entry}");
    }
    let doctor = home.skillhost(["ext", "doctor"]);
    assert!(format!("{doctor}").contains("removed the access of other users"), "{doctor}");
    kernel.interrupt().success();
}

#[cfg(target_os = "linux")]
#[test]
fn environment_is_unreadable_by_others() {
    use std::io::{BufRead as _, BufReader, Write as _};
    use std::os::unix::process::CommandExt as _;
    use std::process::{Command, Stdio};

    let home = untrusted_home();
    // Copies the program to a place where another user can run it, because root can read every
    // environment.
    run_as_reader(&home, &["--version"]).success();
    let program = home.outside().join("bin/skillhost");
    let run_unprivileged = |command: &mut Command| {
        if rustix::process::geteuid().is_root() {
            command.uid(65_534).gid(65_534);
        }
    };
    for (dumpable, is_readable) in [("", false), ("1", true)] {
        let mut command = home.command_of(&program);
        command.arg("mcp").current_dir(home.outside()).env("SKILLHOST_DUMPABLE", dumpable);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        run_unprivileged(&mut command);
        let mut server = command.spawn().unwrap();
        // Any response shows that the server has started.
        let mut stdin = server.stdin.take().unwrap();
        stdin.write_all(b"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"}\n").unwrap();
        let mut line = String::new();
        BufReader::new(server.stdout.take().unwrap()).read_line(&mut line).unwrap();
        assert!(!line.is_empty());
        let mut reader = Command::new("cat");
        reader.arg(format!("/proc/{}/environ", server.id())).stderr(Stdio::null());
        run_unprivileged(&mut reader);
        let read = reader.output().unwrap();
        assert_eq!(read.status.success() && !read.stdout.is_empty(), is_readable, "{dumpable:?}");
        drop(stdin);
        server.wait().unwrap();
    }
}
