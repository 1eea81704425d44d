//! A home with a sandbox, and canaries all around it.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use core_tools::{
    FileRoots, ToolResult, WalkControl, WritePlan, apply_patch, delete_path, find_files, git_diff,
    git_log, list_directory, move_path, read_file, search_text, write_file, write_files,
};
use skillhost_sdk::{ErrorKind, ExtensionError, ToolArgs, Value, json};

pub(crate) const CANARY: &str = "CANARY: this lies outside";

pub(crate) struct SandboxFixture {
    temp: tempfile::TempDir,
    pub(crate) sandbox: FileRoots,
}

impl SandboxFixture {
    pub(crate) fn new() -> Self {
        let temp = tempfile::tempdir().unwrap();
        let fixture = Self { sandbox: FileRoots::new(&temp.path().join("home")), temp };
        for rel in ["canary.txt", "outside/secret", "home/canary.txt", "home/sandbox/data/x/secret"]
        {
            fixture.write_outside(rel, CANARY);
        }
        fixture
            .write("skills/demo/SKILL.md", "---\nname: demo\ndescription: A demo.\n---\nDo it.\n");
        fixture.write("skills/demo/references/guide.md", "inside");
        fixture.write("notes/a.md", "one\ntwo\nthree\n");
        fixture
    }

    pub(crate) fn path(&self, rel: &str) -> PathBuf {
        self.temp.path().join("home/sandbox").join(rel)
    }

    pub(crate) fn outside(&self, rel: &str) -> PathBuf {
        self.temp.path().join(rel)
    }

    pub(crate) fn write(&self, rel: &str, text: impl AsRef<[u8]>) {
        self.write_outside(&format!("home/sandbox/{rel}"), text);
    }

    pub(crate) fn write_outside(&self, rel: &str, text: impl AsRef<[u8]>) {
        let path = self.outside(rel);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    pub(crate) fn text(&self, rel: &str) -> Option<String> {
        fs::read_to_string(self.path(rel)).ok()
    }

    /// Calls a tool as the extension does, but for the registry.
    pub(crate) fn call(&self, tool: &str, args: &Value) -> Result<ToolResult, ExtensionError> {
        let text = args.to_string();
        let args = ToolArgs::new(&text);
        match tool {
            "read_file" => read_file(&self.sandbox, &args.parse()?),
            "list_directory" => list_directory(&self.sandbox, &args.parse()?),
            "search_text" => search_text(&self.sandbox, &args.parse()?, &control()),
            "git_diff" => git_diff(&self.sandbox, &args.parse()?, &control()),
            "git_log" => git_log(&self.sandbox, &args.parse()?, &control()),
            "find_files" => find_files(&self.sandbox, &args.parse()?, &control()),
            _ => self.plan(tool, &args.value()?)?.commit(&self.sandbox, None),
        }
    }

    /// Plans the write of a tool.
    pub(crate) fn plan(&self, tool: &str, args: &Value) -> Result<WritePlan, ExtensionError> {
        let text = args.to_string();
        let args = ToolArgs::new(&text);
        match tool {
            "write_file" => write_file(&self.sandbox, &args.parse()?),
            "write_files" => write_files(&self.sandbox, &args.parse()?),
            "apply_patch" => apply_patch(&self.sandbox, &args.parse()?),
            "delete_path" => delete_path(&self.sandbox, &args.parse()?),
            "move_path" => move_path(&self.sandbox, &args.parse()?),
            other => panic!("{other} does not plan"),
        }
    }

    pub(crate) fn refusal(&self, tool: &str, args: &Value) -> (ErrorKind, String, String) {
        match self.call(tool, args) {
            Err(error) => (error.kind(), error.message().to_owned(), error.hint().to_owned()),
            Ok(done) => panic!("{tool} {args} answered {}", done.text),
        }
    }

    /// Returns every file outside of the sandbox and in its private directory, with its text.
    pub(crate) fn canaries(&self) -> BTreeMap<PathBuf, String> {
        let mut found = BTreeMap::new();
        let inside = self.path("");
        let mut dirs = vec![self.temp.path().to_owned(), self.path("data")];
        while let Some(dir) = dirs.pop() {
            for entry in fs::read_dir(dir).unwrap() {
                let path = entry.unwrap().path();
                if path.is_dir() {
                    if Path::new(&path) != inside {
                        dirs.push(path);
                    }
                } else {
                    let text = fs::read_to_string(&path).unwrap();
                    found.insert(path, text);
                }
            }
        }
        found
    }
}

/// Returns the control of a walk that no test has to wait for.
fn control() -> WalkControl {
    WalkControl::new(Instant::now() + Duration::from_secs(600))
}

/// Returns every tool that takes a path, with its other arguments.
pub(crate) fn uses(path: &str) -> Vec<(&'static str, Value)> {
    let patch = skill_diff::unified_diff("", "new\n", path);
    vec![
        ("read_file", json!({ "path": path })),
        ("list_directory", json!({ "path": path })),
        ("write_file", json!({"path": path, "content": "new\n"})),
        ("write_files", json!({"files": [{"path": path, "content": "new\n"}]})),
        ("delete_path", json!({"path": path, "recursive": true})),
        ("move_path", json!({"from": path, "to": "notes/moved"})),
        ("move_path", json!({"from": "notes/a.md", "to": path})),
        ("apply_patch", json!({ "patch": patch })),
    ]
}
