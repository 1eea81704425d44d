//! The history of repositories.

use std::fs;
use std::os::unix::fs::symlink;
use std::time::{Duration, Instant};

use core_tools::{WalkControl, git_diff};
use skillhost_sdk::{CallContext, ErrorKind, ToolArgs, Value, Workspace, WorkspaceAccess, json};
use test_support::GitRepository;

use crate::fixture::SandboxFixture;

const OLD: [(&str, &str); 4] = [
    ("README.md", "# Project\n"),
    ("src/gone.rs", "gone\n"),
    ("src/lib.rs", "fn one() {}\nfn two() {}\n"),
    ("src/moved.rs", "moved\n"),
];

const NEW: [(&str, &str); 4] = [
    ("README.md", "# Project\n"),
    ("src/lib.rs", "fn one() {}\nfn two() { 2 }\n"),
    ("src/new.rs", "new\n"),
    ("src/renamed.rs", "moved\n"),
];

/// Creates the workspace `p`, a repository whose branch `feature` has two commits and whose branch
/// `main` has one since they parted.
fn fixture() -> (SandboxFixture, GitRepository) {
    let mut fixture = SandboxFixture::new();
    let root = fixture.outside("project");
    let mut repository = GitRepository::create(&root);
    let first = repository.commit("main", &[], &OLD, "Start");
    let middle = [&OLD[..], &[("src/new.rs", "new\n")]].concat();
    let second = repository.commit("feature", &[first], &middle, "Add a file");
    repository.commit("main", &[first], &[("README.md", "# Changed on main\n")], "Change main");
    repository.commit(
        "feature",
        &[second],
        &NEW,
        "Answer with two\n\nBecause one was wrong.\n\u{1b}[2J",
    );
    repository.check_out("feature");
    repository.restore(&NEW);
    let workspaces = vec![Workspace {
        label: "p".into(),
        path: fs::canonicalize(root).unwrap(),
        access: WorkspaceAccess::Read,
    }];
    let context = CallContext { workspaces, ..CallContext::default() };
    fixture.sandbox = fixture.sandbox.for_call(&context);
    (fixture, repository)
}

fn letters(structured: &Value) -> Vec<String> {
    let files = structured["files"].as_array().unwrap();
    files
        .iter()
        .map(|file| {
            format!("{} {}", file["change"].as_str().unwrap(), file["path"].as_str().unwrap())
        })
        .collect()
}

#[test]
fn branch_is_compared_with_merge_base() {
    let (fixture, _) = fixture();
    let diff = fixture.call("git_diff", &json!({"path": "workspace:p"})).unwrap();
    let commit =
        |number: usize| diff.structured["commits"][number].as_str().unwrap()[..10].to_owned();
    let base = &diff.structured["base"].as_str().unwrap()[..10];
    let expected = format!(
        "Changes on the branch since it left main at {base} (on branch feature):\n\
         {} 2023-11-14 22:17 Ada: Answer with two\n    Because one was wrong.\n    \\u{{1b}}[2J\n\
         {} 2023-11-14 22:15 Ada: Add a file\n\
         \x20D workspace:p/src/gone.rs  +0 -1\n\
         \x20M workspace:p/src/lib.rs  +1 -1\n\
         \x20A workspace:p/src/new.rs  +1 -0\n\
         \x20R workspace:p/src/renamed.rs (renamed from workspace:p/src/moved.rs, same content)\n\
         [4 files, +2 -2 lines]\n\n\
         --- a/workspace:p/src/gone.rs\n+++ b/workspace:p/src/gone.rs\n@@ -1 +0,0 @@\n-gone\n\n\
         --- a/workspace:p/src/lib.rs\n+++ b/workspace:p/src/lib.rs\n@@ -1,2 +1,2 @@\n \
         fn one() {{}}\n-fn two() {{}}\n+fn two() {{ 2 }}\n\n\
         --- a/workspace:p/src/new.rs\n+++ b/workspace:p/src/new.rs\n@@ -0,0 +1 @@\n+new\n",
        commit(0),
        commit(1)
    );
    assert_eq!(diff.text, expected);
    let part = fixture.call("git_diff", &json!({"path": "workspace:p/src/lib.rs"})).unwrap();
    assert_eq!(letters(&part.structured), ["M workspace:p/src/lib.rs"]);
    // A file that is gone can be named.
    let gone = fixture.call("git_diff", &json!({"path": "workspace:p/src/gone.rs"})).unwrap();
    assert_eq!(letters(&gone.structured), ["D workspace:p/src/gone.rs"]);
    let summary = json!({"path": "workspace:p", "base": "HEAD~1", "summary": true});
    let summary = fixture.call("git_diff", &summary).unwrap();
    assert_eq!(summary.structured["files"].as_array().unwrap().len(), 3);
    assert!(!summary.text.contains("@@"), "{}", summary.text);
}

#[test]
fn index_and_worktree_are_compared() {
    let (fixture, repository) = fixture();
    repository.write("src/lib.rs", "fn one() {}\n");
    repository.write("notes.txt", "untracked\n");
    repository.write(".github/ci.yml", "untracked\n");
    repository.write("built.log", "ignored\n");
    repository.write(".gitignore", "*.log\n");
    fs::remove_file(repository.git("../src/new.rs")).unwrap();
    let call = |target: &str| {
        fixture.call("git_diff", &json!({"path": "workspace:p", "target": target})).unwrap()
    };
    let worktree = call("worktree");
    assert_eq!(
        letters(&worktree.structured),
        ["M workspace:p/src/lib.rs", "D workspace:p/src/new.rs"]
    );
    assert_eq!(
        worktree.structured["notes"],
        json!(["not known to git: workspace:p/.github/ci.yml, workspace:p/.gitignore, \
             workspace:p/notes.txt"])
    );
    assert!(worktree.text.contains("-fn two() { 2 }\n"), "{}", worktree.text);
    assert_eq!(letters(&call("index").structured), Vec::<String>::new());
    repository.write_index(&NEW[..3]);
    assert_eq!(letters(&call("index").structured), ["D workspace:p/src/renamed.rs"]);
    // The branch itself is the same, and says what is not committed.
    let branch = fixture.call("git_diff", &json!({"path": "workspace:p"})).unwrap();
    assert!(branch.text.contains("Note: 3 more files differ in the worktree"), "{}", branch.text);
}

#[test]
fn log_lists_commits_of_path_and_range() {
    let (fixture, _) = fixture();
    let log = |mut args: Value| {
        args["path"] = args["path"].as_str().unwrap_or("workspace:p").into();
        let done = fixture.call("git_log", &args).unwrap();
        let commits = done.structured["commits"].as_array().unwrap().clone();
        commits
            .iter()
            .map(|commit| commit["message"].as_str().unwrap().lines().next().unwrap().to_owned())
            .collect::<Vec<_>>()
    };
    assert_eq!(log(json!({})), ["Answer with two", "Add a file", "Start"]);
    assert_eq!(log(json!({"base": "main"})), ["Answer with two", "Add a file"]);
    assert_eq!(log(json!({"revision": "main", "base": "feature"})), ["Change main"]);
    assert_eq!(log(json!({"revision": "feature^"})), ["Add a file", "Start"]);
    assert_eq!(log(json!({"limit": 1})), ["Answer with two"]);
    assert_eq!(log(json!({"path": "workspace:p/src/new.rs"})), ["Add a file"]);
    assert_eq!(log(json!({"path": "workspace:p/README.md"})), ["Start"]);
    let refusal = |args| fixture.refusal("git_log", &args);
    for revision in [
        "nothing", "HEAD~9", "HEAD^2", "../../x", "config", "abcdef1", "HEAD~x", "HEAD~é",
        "HEAD^1é",
    ] {
        let (kind, message, _) = refusal(json!({"path": "workspace:p", "revision": revision}));
        assert_eq!(kind, ErrorKind::NotFound, "{revision}: {message}");
    }
}

#[test]
fn repository_without_commits_is_explained() {
    let (fixture, _) = fixture();
    let empty = GitRepository::create(fixture.outside("project/empty"));
    let branch = fixture.call("git_diff", &json!({"path": "workspace:p/empty"})).unwrap();
    assert_eq!(
        branch.text,
        "The repository has no commits yet (on branch main), so there is no history to compare \
         with. git_diff with target: worktree or target: index shows its files."
    );
    assert_eq!(fixture.call("git_log", &json!({"path": "workspace:p/empty"})).unwrap(), branch);
    empty.restore(&[("a.txt", "a\n")]);
    let args = json!({"path": "workspace:p/empty", "target": "worktree"});
    let added = fixture.call("git_diff", &args).unwrap();
    assert_eq!(letters(&added.structured), ["A workspace:p/empty/a.txt"]);
    assert!(
        added.text.starts_with("Changes in the worktree since the empty tree"),
        "{}",
        added.text
    );
}

#[test]
fn main_branch_names_next_step() {
    let (fixture, repository) = fixture();
    repository.check_out("main");
    let explained = |fixture: &SandboxFixture| {
        fixture.call("git_diff", &json!({"path": "workspace:p"})).unwrap().text
    };
    assert!(explained(&fixture).contains("no other branch named main or master"));
    let head = fs::read_to_string(repository.git("refs/heads/main")).unwrap();
    fs::create_dir_all(repository.git("refs/remotes/origin")).unwrap();
    fs::write(repository.git("refs/remotes/origin/trunk"), head).unwrap();
    fs::write(repository.git("refs/remotes/origin/HEAD"), "ref: refs/remotes/origin/trunk\n")
        .unwrap();
    let same = explained(&fixture);
    assert!(same.contains("which has no commits that origin/trunk lacks"), "{same}");
}

#[test]
fn packed_objects_and_references_are_read() {
    let (fixture, repository) = fixture();
    let before = fixture.call("git_diff", &json!({"path": "workspace:p"})).unwrap();
    let texts: Vec<&str> = OLD.iter().chain(&NEW).map(|(_, text)| *text).collect();
    let mut unique: Vec<&str> = Vec::new();
    texts.into_iter().for_each(|text| {
        if !unique.contains(&text) {
            unique.push(text);
        }
    });
    repository.pack_blobs(&unique);
    let names = ["refs/heads/main", "refs/heads/feature"];
    let lines: Vec<String> = names
        .iter()
        .map(|name| format!("{} {name}", fs::read_to_string(repository.git(name)).unwrap().trim()))
        .collect();
    fs::write(
        repository.git("packed-refs"),
        format!("# pack-refs with: peeled\n{}\n", lines.join("\n")),
    )
    .unwrap();
    names.iter().for_each(|name| fs::remove_file(repository.git(name)).unwrap());
    assert_eq!(fixture.call("git_diff", &json!({"path": "workspace:p"})).unwrap(), before);
    let id = before.structured["head"].as_str().unwrap();
    let args = json!({"path": "workspace:p", "revision": &id[..8], "limit": 1});
    assert_eq!(fixture.call("git_log", &args).unwrap().structured["commits"][0]["id"], id);
}

#[test]
fn hostile_repositories_are_contained() {
    let (fixture, repository) = fixture();
    let diff = || fixture.call("git_diff", &json!({"path": "workspace:p"}));
    // What other programs would run or follow has no effect.
    let config =
        "[core]\n\tfsmonitor = touch /tmp/owned\n\thooksPath = /tmp\n[diff]\n\texternal = false\n";
    fs::write(repository.git("config"), config).unwrap();
    fs::create_dir_all(repository.git("objects/info")).unwrap();
    fs::write(repository.git("objects/info/alternates"), "/nonexistent\n").unwrap();
    diff().unwrap();
    // A reference that leads out, and one in a circle.
    let head = fs::read_to_string(repository.git("HEAD")).unwrap();
    for target in
        ["ref: ../../outside/secret\n", "ref: refs/../../../canary.txt\n", "ref: HEAD\n", "x"]
    {
        fs::write(repository.git("HEAD"), target).unwrap();
        let text = match diff() {
            Ok(done) => done.text,
            Err(error) => error.message().to_owned(),
        };
        assert!(!text.contains("CANARY"), "{text}");
    }
    fs::write(repository.git("HEAD"), head).unwrap();
    // Damaged objects, packs and indexes.
    for (path, bytes) in [
        ("objects/pack/pack-x.idx", &b"\xfftOc\0\0\0\x02"[..]),
        ("index", b"DIRC\0\0\0\x02\xff\xff\xff\xff"),
        ("index", b"no index"),
    ] {
        fs::write(repository.git(path), bytes).unwrap();
        fs::write(repository.git("objects/pack/pack-x.pack"), b"PACK").unwrap();
        let error = diff().unwrap_err();
        assert!(error.message().starts_with("the repository is damaged"), "{}", error.message());
        fs::remove_file(repository.git(path)).unwrap();
        let _ = fs::remove_file(repository.git("objects/pack/pack-x.pack"));
    }
    // A reference is a line, not a file of any size.
    fs::write(repository.git("HEAD"), format!("ref: {}", "x".repeat(1 << 20))).unwrap();
    assert_eq!(diff().unwrap_err().kind(), ErrorKind::TooLarge);
    fs::write(repository.git("HEAD"), "ref: refs/heads/feature\n").unwrap();
    // An object that inflates to far more than it may.
    let bomb = repository.write_object("blob", &vec![b'x'; 17 << 20]);
    let hex = test_support::hex(&bomb);
    let lib = fixture.call("git_diff", &json!({"path": "workspace:p", "base": hex}));
    assert_eq!(lib.unwrap_err().kind(), ErrorKind::TooLarge);
    // The directory of the repository may not be elsewhere.
    for make in [
        |git: &std::path::Path| fs::write(git, "gitdir: /elsewhere\n").unwrap(),
        |git: &std::path::Path| symlink("elsewhere", git).unwrap(),
    ] {
        fs::create_dir_all(fixture.outside("project/linked")).unwrap();
        let git = fixture.outside("project/linked/.git");
        let _ = fs::remove_file(&git);
        make(&git);
        let (kind, message, _) =
            fixture.refusal("git_diff", &json!({"path": "workspace:p/linked"}));
        assert_eq!(kind, ErrorKind::Unavailable, "{message}");
    }
    let (kind, message, _) = fixture.refusal("git_diff", &json!({}));
    assert_eq!(kind, ErrorKind::NotFound);
    assert_eq!(message, "`the sandbox` is not in a repository of git");
}

/// Writes a commit with this tree, and makes it the current one.
fn commit_tree(repository: &GitRepository, tree: &[u8], message: &str) {
    let tree = test_support::hex(&repository.write_object("tree", tree));
    let person = "A <a@example.org> 1700000000 +0000";
    let text = format!("tree {tree}\nauthor {person}\ncommitter {person}\n\n{message}");
    let id = repository.write_object("commit", text.as_bytes());
    repository.set_ref("refs/heads/feature", &id);
}

#[test]
fn small_objects_describe_no_endless_tree() {
    let (fixture, repository) = fixture();
    let entry = |name: &str, id: &[u8]| [format!("40000 {name}\0").as_bytes(), id].concat();
    // Sixty levels with the same directory twice: 2^60 directories without a file.
    let mut id = repository.write_object("tree", b"");
    let mut tree = Vec::new();
    for _ in 0..60 {
        tree = [entry("a", &id), entry("b", &id)].concat();
        id = repository.write_object("tree", &tree);
    }
    commit_tree(&repository, &tree, "Many directories");
    let args = json!({"path": "workspace:p", "target": "worktree"}).to_string();
    let args = ToolArgs::new(&args).parse().unwrap();
    let short = WalkControl::new(Instant::now() + Duration::from_millis(50));
    let late = git_diff(&fixture.sandbox, &args, &short);
    assert_eq!(late.unwrap_err().kind(), ErrorKind::Timeout);
    // Long names add up, too.
    let blob = repository.write_object("blob", b"x");
    let file = [&b"100644 f\0"[..], &blob].concat();
    let mut id = repository.write_object("tree", &file);
    for _ in 0..3 {
        tree = entry(&"n".repeat(2_000), &id);
        id = repository.write_object("tree", &tree);
    }
    commit_tree(&repository, &tree, "Long names");
    let (_, message, _) =
        fixture.refusal("git_diff", &json!({"path": "workspace:p", "target": "index"}));
    assert_eq!(message, "the repository is damaged: a path is too long");
}

#[test]
fn long_message_is_cut() {
    let (fixture, repository) = fixture();
    commit_tree(&repository, b"", &"m".repeat(1 << 20));
    let log = fixture.call("git_log", &json!({"path": "workspace:p"})).unwrap();
    assert!(log.text.len() < 1_000 && log.structured.to_string().len() < 6_000);
}

#[test]
fn index_does_not_lead_to_private_data() {
    let (mut fixture, _) = fixture();
    fixture.sandbox = fixture.sandbox.for_call(&CallContext::default());
    let repository = GitRepository::create(fixture.path(""));
    repository.write_index(&[("data/x/secret", "old\n"), ("notes/a.md", "old\n")]);
    let diff = fixture.call("git_diff", &json!({"target": "worktree"})).unwrap();
    assert_eq!(letters(&diff.structured), ["A notes/a.md"]);
    assert!(!diff.text.contains("CANARY"), "{}", diff.text);
    let note = diff.structured["notes"][0].as_str().unwrap();
    assert_eq!(note, "not compared, too large or not readable: data/x/secret");
}
