//! A skill and a work directory of its own.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use skillhost_files::jail::open_root;
use skillhost_files::{PackageTree, package_digest};
use skillhost_payload::{CallError, SkillSecurity, SkillTree, SkillTreeFile};
use skillhost_policy::{OperatorPolicy, PolicyLayer, PolicyUse, parse_policy_json};
use skillhost_sandbox::SandboxLauncher;
use skillhost_scripts::{ScriptPlan, ScriptRequest, ScriptResult};

pub(crate) struct SkillFixture {
    directory: tempfile::TempDir,
    pub(crate) operator: OperatorPolicy,
    pub(crate) sandbox: Option<serde_json::Value>,
    pub(crate) security: Option<SkillSecurity>,
    pub(crate) variables: BTreeMap<String, String>,
    pub(crate) workdir: String,
    pub(crate) layer: Option<PolicyLayer>,
    /// The id by which the skill is named, its root, and whether this is the operator's.
    pub(crate) identity: (&'static str, &'static str, bool),
}

impl SkillFixture {
    pub(crate) fn new(files: &[(&str, &str)]) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let fixture = Self {
            directory,
            operator: OperatorPolicy::default(),
            sandbox: None,
            security: None,
            variables: BTreeMap::new(),
            workdir: ".".into(),
            layer: None,
            identity: ("demo", "skills", true),
        };
        fs::create_dir_all(fixture.work()).unwrap();
        fixture.write("SKILL.md", "---\nname: demo\ndescription: Demo.\n---\n");
        for (path, text) in files {
            fixture.write(path, text);
        }
        fixture
    }

    pub(crate) fn write(&self, path: &str, text: &str) {
        let path = self.root().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, text).unwrap();
        if text.starts_with("#!") {
            fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        }
    }

    pub(crate) fn base(&self) -> PathBuf {
        fs::canonicalize(self.directory.path()).unwrap()
    }

    pub(crate) fn root(&self) -> PathBuf {
        self.base().join("skills/demo")
    }

    pub(crate) fn work(&self) -> PathBuf {
        self.base().join("work")
    }

    pub(crate) fn set_policy(&mut self, json: &str) {
        self.layer = Some(parse_policy_json(json).unwrap().layer);
    }

    pub(crate) fn tree(&self) -> SkillTree {
        let (skill_id, source, is_operator_root) = self.identity;
        SkillTree {
            skill_id: skill_id.into(),
            source: source.into(),
            is_operator_root,
            security: self.security,
            ..list_tree(&self.root(), self.sandbox.clone())
        }
    }

    pub(crate) fn plan(&self, path: &str, arguments: &[&str]) -> Result<ScriptPlan, CallError> {
        let arguments: Vec<String> = arguments.iter().map(|a| (*a).to_owned()).collect();
        let tree = self.tree();
        let work = self.work();
        let request = ScriptRequest {
            policy_use: PolicyUse::Script,
            tree: &tree,
            path,
            arguments: &arguments,
            variables: &self.variables,
            workdir: &self.workdir,
            work: &work,
            operator_layer: self.layer.as_ref(),
            deadline_seconds: None,
        };
        ScriptPlan::prepare(&self.operator, &SandboxLauncher::default(), &request)
    }

    pub(crate) async fn run(&self, path: &str, arguments: &[&str]) -> ScriptResult {
        // On a thread of its own, because a plan may wait for the disk.
        let plan = std::thread::scope(|scope| {
            scope.spawn(|| self.plan(path, arguments).unwrap()).join().unwrap()
        });
        let result = plan.run().await.unwrap();
        println!("{}", result.to_text());
        result
    }

    pub(crate) async fn run_with_input(&self, path: &str, input: Option<fs::File>) -> ScriptResult {
        let plan = std::thread::scope(|scope| scope.spawn(|| self.plan(path, &[])).join().unwrap());
        plan.unwrap().run_with_input(input).await.unwrap()
    }
}

fn list_tree(root: &Path, sandbox: Option<serde_json::Value>) -> SkillTree {
    let files = PackageTree::read(&open_root(root).unwrap()).unwrap().files;
    SkillTree {
        skill_id: "demo".into(),
        name: "demo".into(),
        description: "Demo.".into(),
        source: "skills".into(),
        root: root.to_owned(),
        is_operator_root: true,
        digest: package_digest(&files),
        files: files
            .into_iter()
            .map(|file| SkillTreeFile {
                path: file.path,
                bytes: file.bytes,
                sha256: file.sha256,
                executable: file.executable,
            })
            .collect(),
        allowed_tools: None,
        sandbox,
        security: None,
    }
}

/// Tests whether a program exists; prints the reason of a skip.
pub(crate) fn has_program(name: &str) -> bool {
    let found = test_support::program(name).is_some();
    if !found {
        println!("skipped: no {name} on this machine");
    }
    found
}
