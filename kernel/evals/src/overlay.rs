//! The homes of runs: the settings and agents of a home with another version of one skill.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde_json::{Map, json};
use skill_catalog::{SkillRoot, TrustLevel};
use skill_evals::{SuiteSettings, ToolStub};
use skillhost_agents::ToolStubs;
use skillhost_conversation::ModelSource;
use skillhost_files::{RunDirectory, TreeFile, read_tree, write_tree};
use skillhost_home::{Home, HomeSource, Settings};
use skillhost_kernel::{BootOptions, Kernel};

use crate::error::EvalError;
use crate::watched_model::{WatchedModels, WatchedSource};

/// The extension that provides skills; its tools are always called.
const REGISTRY: &str = "skill_registry";

/// The label of the root with the tested version.
const CANDIDATES: &str = "tested-version";

/// The file with the approvals of a home's extensions.
const APPROVALS: &str = "sandbox/data/kernel/approvals.jsonl";

/// The home whose agents are tested, and the way to start a kernel.
pub struct EvalEnvironment<'a> {
    /// The home.
    pub home: Home,
    /// Its settings.
    pub settings: Settings,
    /// The models of the home.
    pub models: Arc<dyn ModelSource>,
    /// Returns the options of a kernel for a home, without models.
    pub options: &'a dyn Fn(Home, Settings) -> BootOptions,
}

/// The skill of a home of runs.
pub(crate) struct OverlaySkill<'a> {
    pub(crate) id: &'a str,
    /// Its files; `None` for a home without it.
    pub(crate) files: Option<&'a [TreeFile]>,
    /// The roots of the other skills.
    pub(crate) roots: &'a [SkillRoot],
}

/// A kernel in a home of runs. It is not the kernel of the tested home: it delivers no event, starts
/// no service and has no channel.
pub(crate) struct OverlayKernel {
    pub(crate) kernel: Kernel,
    pub(crate) models: Arc<WatchedModels>,
    directory: RunDirectory,
}

impl EvalEnvironment<'_> {
    /// Starts a kernel in a new home.
    pub(crate) async fn boot_overlay(
        &self,
        skill: OverlaySkill<'_>,
        suite: &SuiteSettings,
        models: Arc<WatchedModels>,
    ) -> Result<OverlayKernel, EvalError> {
        let directory = RunDirectory::create().map_err(EvalError::io(Path::new("a new home")))?;
        let root = directory.path().join("home");
        self.copy_home(&root)?;
        let candidates = root.join("candidates");
        fs::create_dir(&candidates).map_err(EvalError::io(&candidates))?;
        if let Some(files) = skill.files {
            write_tree(files, &candidates.join(skill.id))?;
        }
        let home = Home::open(&root, HomeSource::Argument)?;
        let settings = self.overlay_settings(&skill, candidates);
        // Neither supervised nor followed: the kernel lives as long as the runs.
        let options = BootOptions {
            models: Arc::new(WatchedSource(Arc::clone(&models))),
            // The settings of the tested home are not followed.
            settings_file: None,
            supervised: false,
            ..(self.options)(home, settings)
        };
        let kernel = Kernel::boot(options).await;
        kernel.agents().set_tool_stubs(to_stubs(suite));
        Ok(OverlayKernel { kernel, models, directory })
    }

    /// Creates the directories of a home. Manifests are those of the tested home; extensions in its
    /// sandbox are copied, because their approvals are for exact files.
    fn copy_home(&self, root: &Path) -> Result<(), EvalError> {
        let data = root.join("sandbox/data/kernel");
        fs::create_dir_all(&data).map_err(EvalError::io(&data))?;
        let manifests = self.home.manifests_dir();
        // A link suffices: manifests are only read, and their libraries are opened from private copies.
        if manifests.is_dir() {
            symlink(&manifests, root.join("manifests")).map_err(EvalError::io(root))?;
        }
        let extensions = self.home.extensions_dir();
        if extensions.is_dir() {
            write_tree(&read_tree(&extensions)?, &root.join("sandbox/extensions"))?;
        }
        let (from, to) = (self.home.root().join(APPROVALS), root.join(APPROVALS));
        match fs::copy(&from, &to) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                Err(EvalError::io(&from)(error))
            }
            _ => Ok(()),
        }
    }

    /// Returns the settings of a home of runs: the tested version goes first, and nothing outside of
    /// the home is reached.
    fn overlay_settings(&self, skill: &OverlaySkill<'_>, candidates: PathBuf) -> Settings {
        let defaults = Settings::default();
        let mut settings = Settings {
            workspaces: Vec::new(),
            channels: defaults.channels,
            tasks: defaults.tasks,
            console: defaults.console,
            ..self.settings.clone()
        };
        let registry: &mut Map<_, _> = settings.extensions.entry(REGISTRY.to_owned()).or_default();
        let first = SkillRoot {
            label: CANDIDATES.to_owned(),
            path: candidates,
            trust: TrustLevel::Operator,
        };
        let roots: Vec<&SkillRoot> = std::iter::once(&first).chain(skill.roots).collect();
        registry.insert("roots".to_owned(), json!(roots));
        // The files of a home of runs do not change.
        registry.insert("poll_interval_ms".to_owned(), json!(0));
        if skill.files.is_none() {
            let states = registry.entry("skills").or_insert_with(|| json!({}));
            states[skill.id] = json!("off");
        }
        settings
    }
}

/// Returns the stubs of the tools that a suite does not call.
fn to_stubs(suite: &SuiteSettings) -> ToolStubs {
    let mut stubs = ToolStubs::default();
    // The texts about skills are the subject of the test.
    stubs.real_extensions.insert(REGISTRY.to_owned());
    for (tool, stub) in &suite.tools {
        match stub {
            ToolStub::Real => {
                stubs.real_tools.insert(tool.clone());
            }
            ToolStub::Stub => {}
            ToolStub::Say(text) => {
                stubs.answers.insert(tool.clone(), text.clone());
            }
        }
    }
    stubs
}

impl OverlayKernel {
    /// Returns a path for the workspace of a run, outside of the home.
    pub(crate) fn workspace_path(&self, number: u64) -> PathBuf {
        self.directory.path().join(format!("work-{number}"))
    }

    /// Stops the kernel and removes the home.
    pub(crate) async fn shut_down(self) {
        self.kernel.shutdown().await;
    }
}
