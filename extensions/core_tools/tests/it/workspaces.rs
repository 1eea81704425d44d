//! The workspaces of a call: as jailed as the sandbox, and written only with permission.

use std::fs;
use std::os::unix::fs::{MetadataExt as _, symlink};
use std::path::Path;

use core_tools::FileRoots;
use skillhost_sdk::{CallContext, ChangeKind, ErrorKind, Value, Workspace, WorkspaceAccess, json};

use crate::fixture::{SandboxFixture, uses};

fn workspace(label: &str, path: &Path, access: WorkspaceAccess) -> Workspace {
    Workspace { label: label.into(), path: fs::canonicalize(path).unwrap(), access }
}

/// Creates a fixture whose calls have the workspaces `p` (writable) and `r` (read-only).
fn fixture() -> SandboxFixture {
    let mut fixture = SandboxFixture::new();
    fixture.write_outside("project/src/lib.rs", "fn main() {}\n");
    fixture.write_outside("project/.git/config", "[core]\n");
    fixture.write_outside("project/skills/own/SKILL.md", "---\nname: own\n---\n");
    fixture.write_outside("readable/notes.md", "one\n");
    let context = CallContext {
        workspaces: vec![
            workspace("p", &fixture.outside("project"), WorkspaceAccess::Write),
            workspace("r", &fixture.outside("readable"), WorkspaceAccess::Read),
        ],
        ..CallContext::default()
    };
    fixture.sandbox = fixture.sandbox.for_call(&context);
    fixture
}

#[test]
fn workspace_files_are_read_and_written() {
    let fixture = fixture();
    let read = fixture.call("read_file", &json!({"path": "workspace:p/src/lib.rs"})).unwrap();
    assert_eq!(read.structured["path"], "workspace:p/src/lib.rs");
    assert_eq!(read.structured["content"], "fn main() {}\n");
    for path in ["workspace:p", "workspace:p/"] {
        let listed = fixture.call("list_directory", &json!({ "path": path })).unwrap();
        assert_eq!(listed.text, ".git/\nskills/\nsrc/\n[3 entries]");
    }
    let args = json!({"path": "workspace:p/src/new/a.rs", "content": "1\n"});
    let plan = fixture.plan("write_file", &args).unwrap();
    let effect = plan.effect(&fixture.sandbox, true).unwrap();
    let changes: Vec<_> = effect.changes.iter().map(|it| (it.kind, &*it.path)).collect();
    assert_eq!(changes, [(ChangeKind::Create, "workspace:p/src/new/a.rs")]);
    plan.commit(&fixture.sandbox, Some(&effect.digest)).unwrap();
    let patch = skill_diff::unified_diff("1\n", "2\n", "workspace:p/src/new/a.rs");
    fixture.call("apply_patch", &json!({ "patch": patch })).unwrap();
    let written = fixture.outside("project/src/new/a.rs");
    assert_eq!(fs::read_to_string(&written).unwrap(), "2\n");
    let moved = json!({"from": "workspace:p/src/new", "to": "workspace:p/old"});
    fixture.call("move_path", &moved).unwrap();
    fixture.call("delete_path", &json!({"path": "workspace:p/old", "recursive": true})).unwrap();
    assert!(!fixture.outside("project/old").exists() && !written.exists());
}

#[test]
fn read_only_workspace_is_not_written() {
    let fixture = fixture();
    fixture.call("read_file", &json!({"path": "workspace:r/notes.md"})).unwrap();
    for (tool, args) in uses("workspace:r/notes.md") {
        if !matches!(tool, "read_file" | "list_directory") {
            let (kind, message, _) = fixture.refusal(tool, &args);
            let is_across = message.ends_with("are in different places");
            assert!(is_across || message == "workspace `r` is read-only", "{tool}: {message}");
            assert!(is_across || kind == ErrorKind::Denied, "{tool}");
        }
    }
    assert_eq!(fs::read_to_string(fixture.outside("readable/notes.md")).unwrap(), "one\n");
}

#[test]
fn repository_and_skill_files_are_protected() {
    let fixture = fixture();
    let denied = |tool: &str, args: Value| {
        let (kind, message, _) = fixture.refusal(tool, &args);
        assert_eq!(kind, ErrorKind::Denied, "{tool} {args}: {message}");
        message
    };
    for path in ["workspace:p/.git/config", "workspace:p/.GIT/hooks/x", "workspace:p/.git"] {
        let message = denied("write_file", json!({"path": path, "content": "x"}));
        assert_eq!(message, format!("`{path}` belongs to the repository itself"));
        denied("delete_path", json!({"path": path, "recursive": true}));
    }
    let message =
        denied("write_file", json!({"path": "workspace:p/skills/own/SKILL.md", "content": "x"}));
    assert_eq!(
        message,
        "`workspace:p/skills/own/SKILL.md` belongs to the skill `own`, which is read-only"
    );
    denied("write_file", json!({"path": "workspace:p/a/b/SKILL.md", "content": "x"}));
    fixture.write_outside("project/vendored/.git/HEAD", "x");
    let message = denied("delete_path", json!({"path": "workspace:p/vendored", "recursive": true}));
    assert_eq!(message, "`workspace:p/vendored` holds a repository");
}

#[test]
fn workspace_paths_cannot_escape() {
    let fixture = fixture();
    symlink(fixture.outside("outside"), fixture.outside("project/out")).unwrap();
    symlink(fixture.outside("canary.txt"), fixture.outside("project/link")).unwrap();
    let before = fixture.canaries();
    let kinds = [
        ("workspace:p/../canary.txt", ErrorKind::Denied),
        ("workspace:p//etc/passwd", ErrorKind::Denied),
        ("workspace:p/src/../../canary.txt", ErrorKind::Denied),
        ("workspace:p/out/secret", ErrorKind::Denied),
        ("workspace:p/link", ErrorKind::Denied),
        ("workspace:none/x", ErrorKind::NotFound),
        ("workspace:../x", ErrorKind::InvalidArgument),
        ("workspace:/canary.txt", ErrorKind::InvalidArgument),
    ];
    for (path, expected) in kinds {
        let (kind, message, _) = fixture.refusal("read_file", &json!({ "path": path }));
        assert_eq!(kind, expected, "{path}: {message}");
        fixture.refusal("write_file", &json!({"path": path, "content": "x"}));
    }
    for tool in ["search_text", "find_files"] {
        let args = json!({"path": "workspace:p", "pattern": "CANARY", "glob": "*"});
        let args = if tool == "find_files" { json!({"path": "workspace:p"}) } else { args };
        let found = fixture.call(tool, &args).unwrap().text;
        assert!(!found.contains("secret") && !found.contains("CANARY"), "{found}");
    }
    let across = json!({"from": "workspace:p/src/lib.rs", "to": "notes/lib.rs"});
    assert_eq!(fixture.refusal("move_path", &across).0, ErrorKind::InvalidArgument);
    let (_, message, hint) = fixture.refusal("read_file", &json!({"path": "workspace:q/x"}));
    assert_eq!(message, "workspace `q` not found");
    assert_eq!(hint, "the workspaces are workspace:p, workspace:r");
    assert_eq!(fixture.canaries(), before);
}

#[test]
fn replaced_workspace_directory_is_refused() {
    let fixture = fixture();
    fs::rename(fixture.outside("readable"), fixture.outside("moved")).unwrap();
    let read = json!({"path": "workspace:r/secret"});
    let (kind, message, _) = fixture.refusal("read_file", &read);
    assert_eq!(kind, ErrorKind::Unavailable);
    assert_eq!(message, "workspace `r` cannot be opened: the directory is missing");
    symlink(fixture.outside("outside"), fixture.outside("readable")).unwrap();
    let (_, message, _) = fixture.refusal("read_file", &read);
    assert_eq!(message, "workspace `r` cannot be opened: its path leads through a link now");
}

#[test]
fn home_below_workspace_is_hidden() {
    let mut fixture = fixture();
    // The home was moved into the workspace after the check at the start of the run.
    let context = CallContext {
        workspaces: vec![workspace("all", &fixture.outside(""), WorkspaceAccess::Write)],
        ..CallContext::default()
    };
    fixture.sandbox = FileRoots::new(&fixture.outside("home")).for_call(&context);
    for path in ["workspace:all/home/canary.txt", "workspace:all/home/sandbox/data/x/secret"] {
        let (kind, message, _) = fixture.refusal("read_file", &json!({ "path": path }));
        assert_eq!(
            (kind, message),
            (ErrorKind::Denied, format!("`{path}` is or lies in the home of skillhost"))
        );
    }
    let found = fixture.call("find_files", &json!({"path": "workspace:all"})).unwrap().text;
    assert!(found.contains("workspace:all/canary.txt"), "{found}");
    assert!(!found.contains("workspace:all/home/"), "{found}");
}

/// `/dev` has other file systems in it on every Linux machine, also in containers.
#[test]
fn mount_below_workspace_is_refused() {
    let device = |path: &str| fs::metadata(path).unwrap().dev();
    if !Path::new("/dev/shm").is_dir() || device("/dev/shm") == device("/dev") {
        // Nothing can be mounted without privileges, so there is nothing to test.
        return;
    }
    let mut fixture = fixture();
    let context = CallContext {
        workspaces: vec![workspace("dev", Path::new("/dev"), WorkspaceAccess::Read)],
        ..CallContext::default()
    };
    fixture.sandbox = fixture.sandbox.for_call(&context);
    let (kind, message, _) =
        fixture.refusal("list_directory", &json!({"path": "workspace:dev/shm"}));
    assert_eq!(kind, ErrorKind::Denied);
    assert_eq!(message, "`workspace:dev/shm` is or lies in another file system, mounted there");
    let file = tempfile::NamedTempFile::new_in("/dev/shm").unwrap();
    let name = file.path().file_name().unwrap().to_str().unwrap();
    let args = json!({"path": "workspace:dev", "glob": name, "all": true});
    assert_eq!(fixture.call("find_files", &args).unwrap().structured["total"], 0);
}
