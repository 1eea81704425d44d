//! Whole calls: from the files of a skill, its policy and its grant to the result of a tool.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use async_trait::async_trait;
use serde_json::{Value, json};
use skillhost_control::RestartLimits;
use skillhost_files::jail::open_root;
use skillhost_files::{PackageTree, package_digest};
use skillhost_handlers::{
    ProgramPlan, ProgramRuntime, ProgramSupervisor, ProgramToolCall, SupervisionLimits, ToolInvoker,
};
use skillhost_home::{
    ApprovalSurface, Approver, GrantStatus, Home, HomeSource, ScriptGrant, ScriptGrants,
};
use skillhost_payload::{
    CallContext, CallError, CallOrigin, ErrorKind, SkillProgram, SkillProgramKind, SkillTree,
    SkillTreeFile, ToolOutput,
};
use skillhost_policy::GrantedPolicy;
use skillhost_sandbox::SandboxLauncher;
use tempfile::TempDir;
use test_support::copy_directory;

use crate::fixture::context;

/// The skill of the documentation, with canned data.
const YAHOO: &str =
    concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/fixtures/handler-skills/yahoo-finance");

struct NoTools;

#[async_trait]
impl ToolInvoker for NoTools {
    async fn invoke_tool(&self, _: ProgramToolCall) -> Result<ToolOutput, CallError> {
        Err(CallError::new(ErrorKind::Denied, "no tools here"))
    }
}

struct HomeFixture {
    base: TempDir,
    home: Home,
    runtime: ProgramRuntime,
    supervisor: ProgramSupervisor,
}

impl HomeFixture {
    /// Creates a home with a copy of a skill, or returns `None` if this machine cannot run it.
    fn create() -> Option<Self> {
        if !test_support::can_isolate() || test_support::find_interpreter("node").is_none() {
            return None;
        }
        let base = tempfile::tempdir().unwrap();
        let root = fs::canonicalize(base.path()).unwrap();
        copy_directory(Path::new(YAHOO), &root.join("sandbox/skills/yahoo-finance"));
        fs::write(root.join("skillhost.yaml"), "").unwrap();
        let home = Home::open(&root, HomeSource::Argument).unwrap();
        let launcher = SandboxLauncher::default();
        let supervisor = ProgramSupervisor::new(
            launcher.clone(),
            SupervisionLimits::default(),
            RestartLimits::default(),
        );
        let runtime =
            ProgramRuntime::new(home.clone(), launcher, supervisor.clone(), Arc::new(NoTools));
        Some(Self { base, home, runtime, supervisor })
    }

    fn skill(&self) -> PathBuf {
        fs::canonicalize(self.base.path()).unwrap().join("sandbox/skills/yahoo-finance")
    }

    fn tree(&self) -> SkillTree {
        let files = PackageTree::read(&open_root(&self.skill()).unwrap()).unwrap().files;
        let digest = package_digest(&files);
        let files = files.into_iter().map(|file| SkillTreeFile {
            path: file.path,
            bytes: file.bytes,
            sha256: file.sha256,
            executable: file.executable,
        });
        SkillTree {
            skill_id: "yahoo-finance".into(),
            name: "yahoo-finance".into(),
            description: "Reports prices.".into(),
            source: "skills".into(),
            root: self.skill(),
            is_operator_root: true,
            digest,
            files: files.collect(),
            allowed_tools: None,
            sandbox: None,
            security: None,
        }
    }

    fn program(&self, key: &str) -> SkillProgram {
        let tool_name = match key {
            "index" => "yahoo-finance".to_owned(),
            key => format!("yahoo-finance.{key}"),
        };
        SkillProgram {
            tool_name,
            skill_id: "yahoo-finance".into(),
            key: key.into(),
            entry: Some(format!("{key}.js")),
            kind: SkillProgramKind::Skill,
            description: "Reports prices.".into(),
            input_schema: json!({"type": "object"}),
            output_schema: None,
            tree_digest: self.tree().digest,
            instructions: "# Yahoo Finance\n".into(),
        }
    }

    async fn prepare(&self, key: &str) -> Result<ProgramPlan, CallError> {
        self.runtime.prepare(self.tree(), self.program(key), None, &context()).await
    }

    async fn call(&self, key: &str, arguments: &Value) -> Result<ToolOutput, CallError> {
        let plan = self.prepare(key).await?;
        self.runtime.call(&plan, &arguments.to_string(), &context()).await
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn documented_skill_answers() {
    let Some(fixture) = HomeFixture::create() else { return };
    let output = fixture.call("index", &json!({"symbol": "aapl"})).await.unwrap();
    let (summary, level) = output.text.rsplit_once("\n[isolation: ").unwrap();
    assert!(matches!(level, "namespaces]" | "landlock]"), "{level}");
    assert_eq!(
        summary,
        "AAPL: 189.5 USD\nevidence: [{\"source\":\"lib/quotes.json\",\"fields\":[\"regularMarketPrice\"]}]\n\
         metadata: {\"reference\":\"# Reference\",\"code\":4}"
    );
    let structured: Value = serde_json::from_str(output.structured.unwrap().get()).unwrap();
    assert_eq!(structured["result"], "AAPL: 189.5 USD");
    assert_eq!(structured["isolation"]["level"].as_str().unwrap(), level.trim_end_matches(']'));
    let quote = fixture.call("quote", &json!({"symbol": "SAP.DE"})).await.unwrap();
    assert!(quote.text.starts_with("176.1\n"), "{}", quote.text);
    let chart = fixture.call("chart", &json!({"symbol": "AAPL", "days": 2})).await.unwrap();
    assert!(chart.text.starts_with("[187.75,189.5]\n"), "{}", chart.text);
    let error = fixture.call("chart", &json!({})).await.unwrap_err();
    assert_eq!(
        (error.kind, &*error.message),
        (ErrorKind::Failed, "TypeError: symbol is missing (chart.js:7:35)")
    );
    let error = fixture.call("quote", &json!({"symbol": "NONE"})).await.unwrap_err();
    assert_eq!(error.message, "RangeError: unknown symbol NONE (lib/yahoo-api.js:10:21)");
    assert_eq!(fixture.supervisor.running_count(), 3);
}

#[tokio::test(flavor = "multi_thread")]
async fn changed_skill_gets_a_new_process() {
    let Some(fixture) = HomeFixture::create() else { return };
    let arguments = json!({"symbol": "AAPL"});
    assert!(fixture.call("quote", &arguments).await.unwrap().text.starts_with("189.5\n"));
    let before = fixture.prepare("quote").await.unwrap();
    let data = fixture.skill().join("lib/quotes.json");
    let text = fs::read_to_string(&data).unwrap().replace("189.5,", "190.5,");
    fs::write(&data, text).unwrap();
    // The plan that was approved runs the files that were approved.
    let output = fixture.runtime.call(&before, &arguments.to_string(), &context()).await.unwrap();
    assert!(output.text.starts_with("189.5\n"), "{}", output.text);
    drop(before);
    assert!(fixture.call("quote", &arguments).await.unwrap().text.starts_with("190.5\n"));
    // A tree that is not that of the disk any more is a conflict.
    let mut tree = fixture.tree();
    fs::write(&data, "{}").unwrap();
    tree.root = fixture.skill();
    let mut program = fixture.program("chart");
    program.tree_digest = tree.digest.clone();
    let error = fixture.runtime.prepare(tree, program, None, &context()).await.err().unwrap();
    assert_eq!(error.kind, ErrorKind::Conflict, "{error:?}");
    assert!(error.message.contains("yahoo-finance changed since approval: lib/quotes.json"));
}

#[tokio::test(flavor = "multi_thread")]
async fn program_is_loaded_with_grant_only() {
    let Some(fixture) = HomeFixture::create() else { return };
    let prepare = || fixture.prepare("index");
    let plan = prepare().await.unwrap();
    assert_eq!(*plan.status(), GrantStatus::Missing);
    assert_eq!(fixture.runtime.load(&plan).await.unwrap_err().kind, ErrorKind::Denied);
    assert_eq!(fixture.supervisor.running_count(), 0);
    assert_eq!(fixture.runtime.known_metadata(&fixture.program("index")), None);
    let shown = plan.describe();
    for part in ["the program index.js of the skill yahoo-finance", "isolation: ", "digest sha256:"]
    {
        assert!(shown.contains(part), "{shown}");
    }
    let approver = Approver { by: "tester".into(), surface: ApprovalSurface::Terminal };
    let script = plan.script();
    let policy = script.granted_policy().clone();
    // A grant for scripts under the same policy alone is none for programs.
    let other = GrantedPolicy { digest: "sha256:00".into(), ..policy.clone() };
    let grant = ScriptGrant::new(&fixture.tree(), policy.clone(), other, &approver);
    append(&fixture.home, grant).await;
    assert!(matches!(prepare().await.unwrap().status(), GrantStatus::PolicyChanged(_)));
    let grant = ScriptGrant::new(&fixture.tree(), policy.clone(), policy, &approver);
    append(&fixture.home, grant).await;
    let plan = prepare().await.unwrap();
    assert_eq!(*plan.status(), GrantStatus::Granted);
    let stated = fixture.runtime.load(&plan).await.unwrap();
    assert_eq!(stated.description.as_deref(), Some("Summarizes the price of a share."));
    assert_eq!(stated.schema.as_ref().unwrap()["required"], json!(["symbol"]));
    assert_eq!(fixture.runtime.known_metadata(&fixture.program("index")), Some(stated));
    // Another policy is another plan.
    let settings = "sandbox: {handlers: {limits: {memoryMib: 700}}}\n";
    fs::write(fixture.home.root().join("skillhost.yaml"), settings).unwrap();
    let changed = prepare().await.unwrap();
    let shown = changed.describe();
    assert!(
        shown.starts_with("!!! the policy of yahoo-finance changed since approval: memoryMib ")
    );
    assert!(shown.lines().next().unwrap().ends_with(" → 700"), "{shown}");
}

async fn append(home: &Home, grant: ScriptGrant) {
    let home = home.clone();
    let appending = tokio::task::spawn_blocking(move || ScriptGrants::append(&home, &grant));
    appending.await.unwrap().unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn impossible_calls_are_refused() {
    let Some(fixture) = HomeFixture::create() else { return };
    let kind = async |program: SkillProgram, context: CallContext| {
        fixture.runtime.prepare(fixture.tree(), program, None, &context).await.err().unwrap().kind
    };
    let mcp = CallContext { origin: CallOrigin::Mcp, ..context() };
    assert_eq!(kind(fixture.program("index"), mcp).await, ErrorKind::Denied);
    let entry = |entry: Option<&str>| SkillProgram {
        entry: entry.map(str::to_owned),
        ..fixture.program("index")
    };
    assert_eq!(kind(entry(None), context()).await, ErrorKind::InvalidArgument);
    assert_eq!(kind(entry(Some("missing.js")), context()).await, ErrorKind::NotFound);
    assert_eq!(kind(entry(Some("../x.js")), context()).await, ErrorKind::InvalidArgument);
    let plan = fixture.prepare("quote").await.unwrap();
    for arguments in ["", "[]", "7", "{", "null"] {
        let error = fixture.runtime.call(&plan, arguments, &context()).await.unwrap_err();
        assert_eq!(error.kind, ErrorKind::InvalidArgument, "{arguments}");
    }
    fs::write(fixture.home.root().join("skillhost.yaml"), "sandbox: off\n").unwrap();
    assert_eq!(kind(fixture.program("index"), context()).await, ErrorKind::Unavailable);
}
