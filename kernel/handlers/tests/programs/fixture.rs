//! Skills in private directories, and the processes of their programs.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt as _;
use serde_json::Value;
use skillhost_control::RestartLimits;
use skillhost_handlers::{
    ProgramCall, ProgramError, ProgramKey, ProgramLanguage, ProgramMetadata, ProgramReport,
    ProgramSkill, ProgramSpec, ProgramSupervisor, SkillResource, SupervisionLimits, ToolInvoker,
};
use skillhost_payload::CallContext;
use skillhost_policy::SandboxPolicy;
use skillhost_sandbox::{LaunchSpec, SandboxLauncher};
use tempfile::TempDir;

/// The time limit of calls that are expected to end by themselves.
pub(crate) const LONG: Duration = Duration::from_secs(30);

/// A skill with programs.
pub(crate) struct SkillFixture {
    base: TempDir,
    pub(crate) policy: SandboxPolicy,
    pub(crate) supervisor: ProgramSupervisor,
    pub(crate) tools: Option<Arc<dyn ToolInvoker>>,
    pub(crate) allowed_tools: Option<Vec<String>>,
    /// The digest of the files.
    pub(crate) tree: String,
    /// The text of the runner, in place of that of the language.
    pub(crate) runner: Option<String>,
}

impl SkillFixture {
    /// Creates a skill, or returns `None` if this machine cannot run its programs.
    pub(crate) fn create(files: &[(&str, &str)]) -> Option<Self> {
        Self::with_limits(files, SupervisionLimits::default())
    }

    pub(crate) fn with_limits(files: &[(&str, &str)], limits: SupervisionLimits) -> Option<Self> {
        if !test_support::can_isolate() {
            return None;
        }
        for (path, _) in files {
            if let Some(language) = ProgramLanguage::from_path(path) {
                find_interpreter(language)?;
            }
        }
        let base = tempfile::tempdir().unwrap();
        for directory in ["skill", "work", "runner"] {
            fs::create_dir(base.path().join(directory)).unwrap();
        }
        for (path, text) in files {
            let path = base.path().join("skill").join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        let mut policy = SandboxPolicy::with_work_directory(&base.path().join("work"));
        policy.filesystem.allow_read =
            ["skill", "runner"].map(|name| base.path().join(name)).into();
        let restarts = RestartLimits {
            crashes: 3,
            delay: Duration::from_millis(1),
            ..RestartLimits::default()
        };
        let supervisor = ProgramSupervisor::new(SandboxLauncher::default(), limits, restarts);
        let (tools, allowed_tools, runner) = (None, None, None);
        let tree = "sha256:1".to_owned();
        Some(Self { base, policy, supervisor, tools, allowed_tools, tree, runner })
    }

    pub(crate) fn root(&self) -> PathBuf {
        self.base.path().join("skill")
    }

    pub(crate) fn work(&self) -> PathBuf {
        self.base.path().join("work")
    }

    /// Returns the description of the process of a program.
    async fn spec(&self, entry: &str) -> ProgramSpec {
        let language = ProgramLanguage::from_path(entry).unwrap();
        let place = tempfile::tempdir_in(self.base.path().join("runner")).unwrap();
        let directory = place.path().to_owned();
        let writing = tokio::task::spawn_blocking(move || language.write_runner(&directory));
        let mut runner = writing.await.unwrap().unwrap();
        if let Some(text) = &self.runner {
            runner.set_file_name("other");
            fs::write(&runner, text).unwrap();
        }
        let arguments = match language {
            ProgramLanguage::JavaScript => vec![runner.into()],
            ProgramLanguage::Python => vec!["-B".into(), runner.into()],
        };
        let environment = [("PATH", "/usr/local/bin:/usr/bin:/bin"), ("LANG", "C.UTF-8")];
        let environment = environment.map(|(name, value)| (name.into(), value.into()));
        let launch = LaunchSpec {
            program: find_interpreter(language).unwrap(),
            arguments,
            environment: BTreeMap::from(environment),
            folder: self.work(),
        };
        let skill = ProgramSkill {
            name: "yahoo-finance".to_owned(),
            description: "Quotes.".to_owned(),
            instructions: "Use it.".to_owned(),
            resources: self.resources(),
            dir_path: self.root(),
        };
        ProgramSpec {
            launch,
            entry: self.root().join(entry),
            policy: self.policy.clone(),
            skill: Arc::new(skill),
            kept: Box::new(place),
        }
    }

    fn resources(&self) -> Vec<SkillResource> {
        let mut paths = Vec::new();
        let mut directories = vec![self.root()];
        while let Some(directory) = directories.pop() {
            for entry in fs::read_dir(directory).unwrap() {
                let path = entry.unwrap().path();
                match path.is_dir() {
                    true => directories.push(path),
                    false => paths.push(path.strip_prefix(self.root()).unwrap().to_owned()),
                }
            }
        }
        paths.sort();
        paths.iter().map(|path| SkillResource::from_path(path.to_str().unwrap())).collect()
    }

    pub(crate) fn key(&self, thread: &str, entry: &str) -> ProgramKey {
        let (thread, tool) = (thread.to_owned(), tool_name(entry));
        ProgramKey { thread, tool, tree: self.tree.clone(), policy: String::new() }
    }

    pub(crate) async fn call_in(
        &self,
        context: CallContext,
        entry: &str,
        arguments: &str,
        limit: Duration,
    ) -> Result<ProgramReport, ProgramError> {
        let call = ProgramCall {
            arguments: ProgramCall::parse_arguments(arguments).unwrap(),
            context: context.clone(),
            tools: self.tools.clone(),
            allowed_tools: self.allowed_tools.clone(),
            limit,
        };
        let spec = async { Ok(self.spec(entry).await) }.boxed();
        self.supervisor.call(self.key(&context.session_id, entry), call, spec).await
    }

    /// Calls a program in the thread `t`.
    pub(crate) async fn call(
        &self,
        entry: &str,
        arguments: &str,
    ) -> Result<ProgramReport, ProgramError> {
        self.call_in(context(), entry, arguments, LONG).await
    }

    /// Calls a program, and returns its result.
    pub(crate) async fn result(&self, entry: &str, arguments: &str) -> Value {
        let report = self.call(entry, arguments).await.unwrap();
        serde_json::from_str(report.result.result.get()).unwrap()
    }

    /// Calls a program, and returns its error as kind and message.
    pub(crate) async fn error(&self, entry: &str, arguments: &str) -> (&'static str, String) {
        let error = self.call(entry, arguments).await.unwrap_err();
        describe(&error, entry)
    }

    pub(crate) async fn load(&self, entry: &str) -> Result<ProgramMetadata, ProgramError> {
        let spec = async { Ok(self.spec(entry).await) }.boxed();
        self.supervisor.load(self.key("t", entry), LONG, spec).await
    }
}

pub(crate) fn describe(error: &ProgramError, entry: &str) -> (&'static str, String) {
    let error = error.to_call_error(&tool_name(entry));
    (error.kind.as_str(), error.message)
}

pub(crate) fn context() -> CallContext {
    CallContext {
        agent_id: "assistant".to_owned(),
        session_id: "t".to_owned(),
        turn_id: "turn-1".to_owned(),
        call_id: 7,
        ..CallContext::default()
    }
}

fn tool_name(entry: &str) -> String {
    let stem = Path::new(entry).file_stem().unwrap().to_str().unwrap();
    // A skill of the tests may have one file per language.
    let language = if entry.ends_with(".py") { "_py" } else { "" };
    format!("skill.{stem}{language}")
}

/// Returns the interpreter of a language, or prints why a test is skipped.
pub(crate) fn find_interpreter(language: ProgramLanguage) -> Option<PathBuf> {
    test_support::find_interpreter(match language {
        ProgramLanguage::JavaScript => "node",
        ProgramLanguage::Python => "python3",
    })
}

/// Waits until a condition holds.
pub(crate) async fn wait_for(condition: impl Fn() -> bool) {
    let waiting = async {
        while !condition() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(LONG, waiting).await.unwrap();
}
