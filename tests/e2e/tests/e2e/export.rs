//! Tests of `skillhost skill export` and `skillhost mcp install`.

use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::Path;

use serde_json::{Value, json};
use test_support::{Output, TestHome};

const SCRIPT: &str = "#!/bin/sh\necho hot\n";

/// Creates a home with three skills, one of them for users only, without manifest and trust.
fn skills_home() -> TestHome {
    let home = TestHome::new()
        .trusted()
        .skill("brew", "---\nname: brew\ndescription: Brews tea.\n---\nBoil.\n")
        .file("sandbox/skills/brew/scripts/boil.sh", SCRIPT)
        .file("sandbox/skills/brew/leaf.bin", [0u8, 159, 146, 150])
        .skill("greet", "---\nname: greet\ndescription: Greets.\n---\nHello.\n")
        .skill("own", "---\nname: own\ndescription: O.\ndisable-model-invocation: true\n---\nO.\n");
    let script = home.path("sandbox/skills/brew/scripts/boil.sh");
    fs::set_permissions(script, fs::Permissions::from_mode(0o755)).unwrap();
    home
}

/// Returns the id and the status of each skill in a report.
fn statuses(output: &Output) -> Vec<(String, String)> {
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let skills = output.json()["skills"].as_array().unwrap().clone();
    skills.iter().map(|skill| (text(&skill["skill_id"]), text(&skill["status"]))).collect()
}

fn pairs(expected: &[(&str, &str)]) -> Vec<(String, String)> {
    expected.iter().map(|(id, status)| ((*id).to_owned(), (*status).to_owned())).collect()
}

/// Runs `skillhost skill export` with a JSON report.
fn run_export(home: &TestHome, args: &[&str]) -> Output {
    home.skillhost(["export", "--json"].iter().chain(args))
}

/// Returns the sorted names in a directory.
fn list_names(path: &Path) -> Vec<String> {
    let mut names: Vec<String> = fs::read_dir(path)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

const OURS: [&str; 2] = [".skillhost-export.json", ".skillhost-export.lock"];

#[test]
fn export_copies_and_updates_skills() {
    let home = skills_home();
    insta::assert_snapshot!(home.skillhost(["export", "--to", "claude"]), @"
    exit 0
    --- stdout
    written  brew
    written  greet
    0 of 2 skills in [HOME]/.claude/skills were up to date
    ");
    let copy = home.path(".claude/skills/brew");
    assert_eq!(list_names(&home.path(".claude/skills")), [OURS[0], OURS[1], "brew", "greet"]);
    assert_eq!(list_names(&copy), ["SKILL.md", "leaf.bin", "scripts"]);
    let script = copy.join("scripts/boil.sh");
    assert_eq!(fs::read_to_string(&script).unwrap(), SCRIPT);
    assert_ne!(fs::metadata(&script).unwrap().permissions().mode() & 0o100, 0);
    assert_eq!(fs::read(copy.join("leaf.bin")).unwrap(), [0u8, 159, 146, 150]);

    let second = run_export(&home, &["--to", "claude"]).success();
    assert_eq!(statuses(&second), pairs(&[("brew", "current"), ("greet", "current")]));
    home.write("sandbox/skills/brew/new.md", "new");
    fs::remove_file(home.path("sandbox/skills/brew/leaf.bin")).unwrap();
    home.write("sandbox/skills/brew/scripts/boil.sh", "#!/bin/sh\n");
    insta::assert_snapshot!(home.skillhost(["export", "--to", "claude", "--check"]), @"
    exit 1
    --- stdout
    outdated brew
      + leaf.bin
      - new.md
      ~ scripts/boil.sh
    1 of 2 skills in [HOME]/.claude/skills were up to date
    ");
    let updated = run_export(&home, &["--to", "claude"]).success();
    assert_eq!(statuses(&updated), pairs(&[("brew", "updated"), ("greet", "current")]));
    assert_eq!(list_names(&copy), ["SKILL.md", "new.md", "scripts"]);
    assert_eq!(list_names(&home.path(".claude/skills")), [OURS[0], OURS[1], "brew", "greet"]);
    run_export(&home, &["--to", "claude", "--check"]).success();
}

#[test]
fn export_uses_client_directories() {
    let home = skills_home();
    let user = home.outside().join("user");
    let cases: [(&[&str], _); 5] = [
        (&["--to", "codex"], home.path(".agents/skills")),
        (&["--to", "gemini", "--user"], user.join(".agents/skills")),
        (&["--to", "claude", "--user"], user.join(".claude/skills")),
        (&["--to", "a b/c"], home.path("a b/c")),
        (&["--to", "./claude"], home.path("claude")),
    ];
    for (args, directory) in cases {
        run_export(&home, &[args, &["greet"]].concat()).success();
        assert_eq!(list_names(&directory.join("greet")), ["SKILL.md"], "{args:?}");
    }
    run_export(&home, &["--to", "dir", "--user"]).exits(2);
}

#[test]
fn unknown_client_is_rejected() {
    let home = skills_home();
    insta::assert_snapshot!(home.skillhost(["export", "--to", "nope_client"]), @"
    exit 2
    --- stderr
    error: `nope_client` is not a client or an existing directory
    hint: the clients are claude, codex and gemini; a new directory is --to ./nope_client
    ");
    assert!(!home.path("nope_client").exists());
    fs::create_dir(home.path("there")).unwrap();
    run_export(&home, &["--to", "there", "greet"]).success();
}

#[test]
fn interrupted_export_is_cleaned_up() {
    let home = skills_home();
    home.write("out/.skillhost-tmp-2147483646-new-greet/SKILL.md", "half");
    home.write("out/.skillhost-tmp-2147483646-old-brew/SKILL.md", "mine");
    home.write("sandbox/skills/greet/.SKILL.md.2147483646-0.tmp", "half");
    run_export(&home, &["--to", "out", "greet"]).success();
    let leftovers = [".skillhost-tmp-2147483646-old-brew", "greet"];
    assert_eq!(list_names(&home.path("out")), [OURS[0], OURS[1], leftovers[0], leftovers[1]]);
    assert_eq!(list_names(&home.path("out/greet")), ["SKILL.md"]);
}

#[test]
fn foreign_files_are_not_overwritten() {
    let home = skills_home();
    let foreign_text = "---\nname: brew\ndescription: Mine.\n---\nMine.\n";
    home.write("out/brew/SKILL.md", foreign_text);
    let output = home.skillhost(["export", "--to", "./out"]);
    insta::assert_snapshot!(output, @"
    exit 4
    --- stdout
    foreign  brew: it was not written by export; move it away and export again
    written  greet
    0 of 2 skills in [HOME]/out were up to date
    ");
    assert_eq!(fs::read_to_string(home.path("out/brew/SKILL.md")).unwrap(), foreign_text);

    // An exported skill with manual changes must not be lost, either.
    home.write("out/greet/SKILL.md", foreign_text);
    let denied = run_export(&home, &["--to", "./out"]).exits(4);
    assert_eq!(statuses(&denied), pairs(&[("brew", "foreign"), ("greet", "edited")]));
    assert_eq!(fs::read_to_string(home.path("out/greet/SKILL.md")).unwrap(), foreign_text);
    fs::remove_dir_all(home.path("out/greet")).unwrap();
    home.write("out/greet", "a file");
    run_export(&home, &["--to", "./out", "greet"]).exits(4);
    fs::remove_file(home.path("out/greet")).unwrap();
    symlink(home.path("sandbox"), home.path("out/greet")).unwrap();
    run_export(&home, &["--to", "./out", "greet"]).exits(4);
    assert!(home.path("sandbox/skills/brew/SKILL.md").is_file());
    fs::remove_file(home.path("out/greet")).unwrap();
    let written = run_export(&home, &["--to", "./out", "greet"]).success();
    assert_eq!(statuses(&written), pairs(&[("greet", "written")]));

    // An additional file makes the copy an edited one.
    home.write("out/greet/more.md", "more");
    let checked = run_export(&home, &["--to", "./out", "--check", "greet"]).exits(1).json();
    let changes = json!([{"path": "more.md", "kind": "extra"}]);
    assert_eq!(
        (&checked["skills"][0]["status"], &checked["skills"][0]["changes"]),
        (&json!("edited"), &changes)
    );

    home.write("out/.skillhost-export.json", "{}");
    run_export(&home, &["--to", "./out", "greet"]).exits(4);
}

#[test]
fn identical_copy_counts_as_current() {
    let home = skills_home();
    let text = fs::read(home.path("sandbox/skills/greet/SKILL.md")).unwrap();
    home.write("out/greet/SKILL.md", text);
    let same = run_export(&home, &["--to", "./out", "greet"]).success();
    assert_eq!(statuses(&same), pairs(&[("greet", "current")]));
    // An identical copy of foreign origin remains foreign.
    home.write("sandbox/skills/greet/SKILL.md", "---\nname: greet\ndescription: New.\n---\nNew.\n");
    let moved = run_export(&home, &["--to", "./out", "greet"]).exits(4);
    assert_eq!(statuses(&moved), pairs(&[("greet", "foreign")]));
}

#[test]
fn links_can_become_copies() {
    let home = skills_home();
    let linked = run_export(&home, &["--to", "./out", "--link", "greet"]).success();
    assert_eq!(statuses(&linked), pairs(&[("greet", "written")]));
    let link = home.path("out/greet");
    assert_eq!(fs::read_link(&link).unwrap(), home.path("sandbox/skills/greet"));
    run_export(&home, &["--to", "./out", "--link", "--check", "greet"]).success();
    let copied = run_export(&home, &["--to", "./out", "greet"]).success();
    assert_eq!(statuses(&copied), pairs(&[("greet", "updated")]));
    assert!(!link.is_symlink() && link.join("SKILL.md").is_file());
    let relinked = run_export(&home, &["--to", "./out", "--link", "greet"]).success();
    assert_eq!(statuses(&relinked), pairs(&[("greet", "updated")]));
    assert!(link.is_symlink() && home.path("sandbox/skills/greet/SKILL.md").is_file());
    fs::remove_file(&link).unwrap();
    symlink("/", &link).unwrap();
    run_export(&home, &["--to", "./out", "--link", "greet"]).exits(4);
}

#[test]
fn check_reports_removed_skills() {
    let home = skills_home();
    let missing = run_export(&home, &["--to", "./out", "--check"]).exits(1);
    assert_eq!(statuses(&missing), pairs(&[("brew", "missing"), ("greet", "missing")]));
    assert!(!home.path("out").exists());
    run_export(&home, &["--to", "./out"]).success();
    fs::remove_dir_all(home.path("sandbox/skills/brew")).unwrap();
    let leftover = run_export(&home, &["--to", "./out", "--check"]).exits(1);
    assert_eq!(statuses(&leftover), pairs(&[("greet", "current"), ("brew", "leftover")]));
    let written = run_export(&home, &["--to", "./out"]).success();
    assert_eq!(statuses(&written), pairs(&[("greet", "current"), ("brew", "leftover")]));
    assert!(home.path("out/brew/SKILL.md").is_file());
    fs::remove_dir_all(home.path("out/brew")).unwrap();
    run_export(&home, &["--to", "./out", "--check"]).success();
}

#[test]
fn untrusted_skills_are_not_exported() {
    let home = skills_home()
        .file("other/found/SKILL.md", "---\nname: found\ndescription: Found.\n---\nFound.\n")
        .settings(
            "extensions:\n  skill_registry:\n    roots:\n    - {label: sandbox, path: \
             sandbox/skills, trust: operator}\n    - {label: other, path: other}\n",
        );
    let all = home.skillhost(["export", "--to", "./out"]).success();
    insta::assert_snapshot!(all, @"
    exit 0
    --- stdout
    written  brew
    written  greet
    0 of 2 skills in [HOME]/out were up to date
    --- stderr
    note: `found` is left out: it is in the untrusted root `other`; --allow-untrusted found exports it
    ");
    insta::assert_snapshot!(home.skillhost(["export", "--to", "./out", "found"]), @"
    exit 5
    --- stderr
    error: `found` is in the untrusted root `other`
    hint: inspect its files; then, if you trust them: --allow-untrusted found
    ");
    let allowed = run_export(&home, &["--to", "./out", "found", "--allow", "found"]).success();
    assert_eq!(statuses(&allowed), pairs(&[("found", "written")]));
    // Skills for users only are exported when the command names them.
    let named = run_export(&home, &["--to", "./out", "own"]).success();
    assert_eq!(statuses(&named), pairs(&[("own", "written")]));
    insta::assert_snapshot!(home.skillhost(["export", "--to", "./out", "grete"]), @"
    exit 3
    --- stderr
    error: skill `grete` not found
    hint: did you mean `greet`?
    ");
    assert_eq!(list_names(&home.path("out")), [OURS[0], OURS[1], "brew", "found", "greet", "own"]);
}

#[test]
fn mcp_install_prints_client_config() {
    let home = skills_home();
    insta::assert_snapshot!(home.skillhost(["mcp", "install", "claude", "--print"]), @r#"
    exit 0
    --- stdout
    {
      "mcpServers": {
        "skillhost": {
          "args": [
            "--home",
            "[HOME]",
            "mcp"
          ],
          "command": "[TARGET]/skillhost",
          "type": "stdio"
        }
      }
    }
    --- stderr
    note: for .mcp.json of a project, or ~/.claude.json of the user
    note: the same, by the client itself: claude mcp add --transport stdio --scope user skillhost -- [TARGET]/skillhost --home [HOME] mcp
    "#);
    insta::assert_snapshot!(home.skillhost(["mcp", "install", "codex", "--print"]), @r#"
    exit 0
    --- stdout
    [mcp_servers.skillhost]
    command = "[TARGET]/skillhost"
    args = ["--home", "[HOME]", "mcp"]
    --- stderr
    note: for .codex/config.toml of a project, or ~/.codex/config.toml of the user
    note: the same, by the client itself: codex mcp add skillhost -- [TARGET]/skillhost --home [HOME] mcp
    "#);
    let gemini = home.skillhost(["mcp", "install", "gemini", "--print", "--json"]).success().json();
    let text: Value = serde_json::from_str(gemini["text"].as_str().unwrap()).unwrap();
    let program = home.redact(&test_support::binary().display().to_string());
    let root = home.redact(&home.root().display().to_string());
    let server = json!({"command": program, "args": ["--home", root, "mcp"]});
    assert_eq!(text, json!({"mcpServers": {"skillhost": server}}));
    assert_eq!(gemini["user_file"], json!("~/.gemini/settings.json"));
    home.skillhost(["mcp", "install", "nope", "--print"]).exits(2);
    assert_eq!(list_names(&home.root()), ["sandbox"]);
}
