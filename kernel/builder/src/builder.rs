//! The implementation of the kernel's builder.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use serde_json::json;
use skillhost_control::RollbackOutcome;
use skillhost_core::{BuildCandidate, BuildPlan, ExtensionBuilder, ProbeReport};
use skillhost_files::{TreeFile, files_digest, prefixed_digest, sha256_hex, write_atomically};
use skillhost_home::{
    ApprovalRecord, Approvals, Approver, BuildSettings, Home, Installation, LoadPhase, SecretStore,
    Settings, library_file_name, pin_digest,
};
use skillhost_manifest::{ExtensionId, ExtensionKind, Manifest};
use skillhost_payload::{CallError, ErrorKind};
use skillhost_sandbox::IsolationReport;

use crate::build_paths::{BuildLock, BuildPaths, built_ids, remove_directory, write_files};
use crate::changes::keep_approved_texts;
use crate::compile::compile_crate;
use crate::containment::{BuildContainment, describe_isolation};
use crate::details::write_details;
use crate::error::BuildError;
use crate::files;
use crate::install::{self, NewBuild, RecoveryOutcome};
use crate::installed::{installed_files, with_manifest};
use crate::manifest::parse_manifest_of;
use crate::pin::set_pin;
use crate::policy;
use crate::trial::{self, ProcessTrial};

/// A builder of the extensions of one home, with cargo and the SDK of the installation.
pub struct CargoExtensionBuilder {
    pub(crate) home: Home,
    pub(crate) settings: BuildSettings,
    sdk: Option<PathBuf>,
    pub(crate) program: PathBuf,
    /// A lock that serializes the builds of this process.
    pub(crate) turn: tokio::sync::Mutex<()>,
}

impl CargoExtensionBuilder {
    /// Creates a builder for a home.
    ///
    /// Trials run the current executable, which must have the command `ext probe`.
    #[must_use]
    pub fn new(home: &Home, settings: BuildSettings, installation: Option<&Installation>) -> Self {
        let named = settings.sdk.as_ref().map(|sdk| home.root().join(sdk));
        Self {
            home: home.clone(),
            settings,
            sdk: named.or_else(|| installation.map(|installation| installation.sdk.clone())),
            program: trial::this_program(),
            turn: tokio::sync::Mutex::default(),
        }
    }

    /// Returns the environment for the trial of a process extension, the same as for its later
    /// start.
    pub(crate) fn process_trial(
        &self,
        manifest: &Manifest,
    ) -> Result<Option<ProcessTrial>, BuildError> {
        if manifest.command().is_none() {
            return Ok(None);
        }
        let settings =
            Settings::load_home(&self.home).map_err(|error| BuildError::settings(&error))?.settings;
        let settings = settings_for_trial(&self.home, settings);
        let (secrets, _) = SecretStore::load(self.home.root());
        let named = manifest.secrets.iter();
        Ok(Some(ProcessTrial {
            settings,
            secrets: named.filter_map(|name| Some((name.clone(), secrets.get(name)?))).collect(),
            home: self.home.process_home(manifest.id.as_str()),
            start: Duration::from_millis(manifest.start_timeout_ms.unwrap_or_default()),
        }))
    }

    /// Builds the library, or copies the files, into the directory of the trial.
    async fn build_artifact(
        &self,
        place: &BuildPaths,
        plan: &BuildPlan,
        containment: &BuildContainment,
    ) -> Result<BuiltArtifact, CallError> {
        remove_older_sources(place, &plan.sha256)?;
        let directory = place.sources(&plan.sha256);
        let Some(entrypoint) = plan.manifest.entrypoint() else {
            write_files(&directory, &plan.files)?;
            // The digest is that of the installed files: their manifest has the line of the pin,
            // whose value does not enter the digest.
            let pinned = set_pin(manifest_text(plan), &sha256_hex(b""))?;
            return Ok(BuiltArtifact {
                sha256: pin_digest(&with_manifest(&plan.files, pinned)),
                warnings: String::new(),
                directory,
                staged: None,
                isolation: None,
            });
        };
        let sdk = self.sdk.as_deref().and_then(|sdk| fs::canonicalize(sdk).ok());
        let sdk = sdk.ok_or(BuildError::NoSdk)?;
        let recipe = policy::check_crate(&plan.files, entrypoint, &self.settings.allow)?;
        let (files, settings) = ((&*plan.files, &*plan.sha256), (&self.settings, containment));
        let compiled = compile_crate(place, files, &recipe, &sdk, settings).await?;
        let staged = directory.join(library_file_name(entrypoint));
        // Copied at once, because the next build may overwrite it: all extensions of the home share
        // cargo's target directory.
        let bytes = fs::read(&compiled.library).map_err(BuildError::io(&compiled.library))?;
        let (sha256, warnings) = (sha256_hex(&bytes), compiled.warnings);
        write_file(&staged, bytes).await?;
        let isolation = Some(compiled.isolation);
        Ok(BuiltArtifact { sha256, warnings, directory, staged: Some(staged), isolation })
    }
}

/// Returns the settings of a trial, which has another home, as JSON.
fn settings_for_trial(home: &Home, settings: Settings) -> String {
    let mut sandbox = settings.sandbox;
    // Relative to the home.
    sandbox.policy_file = sandbox.policy_file.map(|file| match file.starts_with("~") {
        true => file,
        false => home.root().join(file),
    });
    let sandbox = match sandbox.is_off {
        true => json!("off"),
        false => serde_json::to_value(&sandbox).unwrap_or_default(),
    };
    json!({ "sandbox": sandbox, "processes": settings.processes }).to_string()
}

async fn write_file(path: &Path, bytes: Vec<u8>) -> Result<(), CallError> {
    let path = path.to_owned();
    run_blocking(move || write_atomically(&path, &bytes).map_err(BuildError::io(&path))).await
}

/// A built library or copied files, before their trial.
struct BuiltArtifact {
    sha256: String,
    warnings: String,
    directory: PathBuf,
    staged: Option<PathBuf>,
    /// The isolation of the compiler.
    isolation: Option<IsolationReport>,
}

#[async_trait]
impl ExtensionBuilder for CargoExtensionBuilder {
    fn recover(&self) -> Vec<String> {
        let mut notes = Vec::new();
        let ids = built_ids(&self.home);
        if ids.is_empty() {
            return notes;
        }
        // The process that holds the lock completes or recovers its installation itself.
        let Ok(_alone) = BuildLock::acquire(&self.home) else { return notes };
        for id in ids.iter().filter(|id| ExtensionId::new(id).is_ok()) {
            match install::recover_install(&BuildPaths::new(&self.home, id)) {
                Ok(None) => {}
                Ok(Some(RecoveryOutcome::Finished)) => {
                    notes.push(format!("interrupted installation of `{id}` was finished"));
                }
                Ok(Some(RecoveryOutcome::Undone)) => {
                    notes.push(format!("failed installation of `{id}` was undone"));
                }
                Err(error) => notes.push(format!(
                    "interrupted installation of `{id}` cannot be finished: {error}"
                )),
            }
        }
        notes
    }

    async fn plan_build(&self, id: &ExtensionId) -> Result<BuildPlan, CallError> {
        let (home, id, allow) = (self.home.clone(), id.clone(), self.settings.allow.clone());
        run_blocking(move || plan_build(&home, &id, &allow)).await
    }

    async fn build(&self, plan: &BuildPlan) -> Result<BuildCandidate, CallError> {
        if plan.manifest.agent().is_some() {
            // An agent has no code, so its files are its build.
            return Ok(BuildCandidate {
                tools: Vec::new(),
                unasked: false,
                version: plan.manifest.version.clone().unwrap_or_default(),
                sha256: files_digest(&plan.files),
                warnings: String::new(),
                staged: PathBuf::new(),
                isolation: None,
            });
        }
        // Builds of this process wait for each other, while a build of another process is an error.
        let _turn = self.turn.lock().await;
        let _alone = BuildLock::acquire(&self.home)?;
        let place = BuildPaths::new(&self.home, plan.manifest.id.as_str());
        let containment = BuildContainment::load(&self.home, &place.id)?;
        let made = self.build_artifact(&place, plan, &containment).await?;
        // The trial loads exactly the files that would be installed, with their pin.
        let manifest = made.directory.join("manifest.yaml");
        let text = set_pin(manifest_text(plan), &made.sha256)?;
        write_file(&manifest, text.into_bytes()).await?;
        let process = self.process_trial(&plan.manifest)?;
        let limits = (self.settings.memory_limit(), &containment);
        let tried =
            trial::run_trial(&self.program, &place, &manifest, process.as_ref(), limits).await?;
        let tried = require_tool_list(&plan.manifest, tried)?;
        let mut warnings = made.warnings;
        let unasked = tried.unasked.is_some();
        if let Some(reason) = tried.unasked {
            warnings.push_str(&format!(
                "\ntools were not listed, because it requires other extensions: {reason}"
            ));
        }
        // Of the compiler and the trial, the weaker one counts.
        let isolation =
            made.isolation.into_iter().chain(tried.isolation).min_by_key(|one| one.level);
        Ok(BuildCandidate {
            isolation,
            tools: tried.tools,
            unasked,
            version: tried.version,
            sha256: made.sha256,
            warnings: warnings.trim().to_owned(),
            staged: made.staged.unwrap_or(made.directory),
        })
    }

    async fn install(
        &self,
        plan: &BuildPlan,
        made: &BuildCandidate,
        approver: &Approver,
    ) -> Result<(), CallError> {
        let _turn = self.turn.lock().await;
        let home = self.home.clone();
        let (plan, made, approver) = (plan.clone(), made.clone(), approver.clone());
        run_blocking(move || {
            let _alone = BuildLock::acquire(&home)?;
            let id = plan.manifest.id.as_str();
            let place = BuildPaths::new(&home, id);
            // The author may have edited the files during the review.
            if read_files(&home, &plan.manifest)? != plan.files {
                return Err(BuildError::Changed { id: id.to_owned() });
            }
            let earlier = Approvals::load(&home)?.approval(id).cloned();
            if plan.manifest.agent().is_some() {
                let record = ApprovalRecord::approve(&plan.manifest, &plan.files, None, &approver);
                Approvals::append(&home, &record)?;
                keep_approved_texts(&place, earlier.as_ref(), &plan.files);
                return Ok(());
            }
            let bytes = match plan.manifest.entrypoint() {
                Some(_) => fs::read(&made.staged).map_err(BuildError::io(&made.staged))?,
                None => Vec::new(),
            };
            // The approval is for the digest that the reviewer has seen.
            if plan.manifest.entrypoint().is_some() && sha256_hex(&bytes) != made.sha256 {
                return Err(BuildError::Changed { id: id.to_owned() });
            }
            let library = plan.manifest.entrypoint().map(|entrypoint| (entrypoint, &*bytes));
            let text = set_pin(manifest_text(&plan), &made.sha256)?;
            let files = installed_files(&plan.files, text, library);
            let tools = (!made.unasked).then(|| made.tools.clone());
            let mut record = ApprovalRecord::approve(&plan.manifest, &files, tools, &approver);
            record.isolation = made.isolation.as_ref().map(|report| report.level);
            let new = NewBuild { library, sha256: &made.sha256, record: Some(record) };
            install::install_build(&place, manifest_text(&plan), &new)?;
            keep_approved_texts(&place, earlier.as_ref(), &files);
            Ok(())
        })
        .await
    }

    async fn rollback(
        &self,
        id: &ExtensionId,
        approver: &Approver,
    ) -> Result<RollbackOutcome, CallError> {
        let _turn = self.turn.lock().await;
        let (home, id, approver) = (self.home.clone(), id.clone(), approver.clone());
        run_blocking(move || {
            let _alone = BuildLock::acquire(&home)?;
            let done = install::rollback(&BuildPaths::new(&home, id.as_str()), &approver)?;
            let install::RollbackResult { from, to, approved } = done;
            Ok(RollbackOutcome { id, from, to, approved, active: false })
        })
        .await
    }
}

/// Rejects the trial of a process extension that could not list its tools.
pub(crate) fn require_tool_list(
    manifest: &Manifest,
    tried: ProbeReport,
) -> Result<ProbeReport, BuildError> {
    match &tried.unasked {
        Some(reason) if manifest.command().is_some() => Err(BuildError::Rejected {
            phase: LoadPhase::Start,
            reason: reason.clone(),
            hint: String::new(),
        }),
        _ => Ok(tried),
    }
}

/// Runs file operations on a thread that may block; a panic becomes an error.
pub(crate) async fn run_blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, BuildError> + Send + 'static,
) -> Result<T, CallError> {
    match tokio::task::spawn_blocking(work).await {
        Ok(result) => Ok(result?),
        Err(error) => Err(CallError {
            kind: ErrorKind::Panicked,
            message: error.to_string(),
            hint: String::new(),
        }),
    }
}

/// Reads and checks all files of a build.
fn plan_build(home: &Home, id: &ExtensionId, allow: &[String]) -> Result<BuildPlan, BuildError> {
    let place = BuildPaths::new(home, id.as_str());
    let path = place.manifest();
    let text = fs::read_to_string(&path).map_err(BuildError::io(&path))?;
    let manifest = parse_manifest_of(id, &text)?;
    let files = read_files(home, &manifest)?;
    // The manifest was read twice; the checks above are valid only for the same text.
    if files::file_text(&files, "manifest.yaml") != Some(&text) {
        return Err(BuildError::Changed { id: id.to_string() });
    }
    if manifest.agent().is_none() {
        // Checked now, since a manifest without room for a pin would fail only after the build.
        set_pin(&text, &sha256_hex(b""))?;
    }
    let recipe = match &manifest.kind {
        ExtensionKind::Library { entrypoint } => {
            Some(policy::check_crate(&files, entrypoint, allow)?)
        }
        ExtensionKind::Process { .. } | ExtensionKind::Agent(_) => None,
    };
    let notes = describe_isolation(home, &manifest);
    let details = write_details(&place, &manifest, &files, (recipe.as_ref(), notes))?;
    let sha256 = prefixed_digest(b"", &files);
    Ok(BuildPlan { manifest: Arc::new(manifest), sha256, files, details })
}

/// Reads the directory of an extension without generated files.
fn read_files(home: &Home, manifest: &Manifest) -> Result<Vec<TreeFile>, BuildError> {
    let library = manifest.entrypoint().map(library_file_name);
    let is_generated = |name: &str| match &library {
        Some(library) => name == library.as_str() || name == "Cargo.lock",
        None => false,
    };
    files::read_source_tree(&home.extensions_dir(), manifest.id.as_str(), is_generated)
}

fn manifest_text(plan: &BuildPlan) -> &str {
    files::file_text(&plan.files, "manifest.yaml").unwrap_or_default()
}

/// Removes the source copies of earlier plans.
pub(crate) fn remove_older_sources(place: &BuildPaths, digest: &str) -> Result<(), BuildError> {
    place.create_private_dir()?;
    let current = place.sources(digest);
    let own = place.private_dir();
    let entries = fs::read_dir(&own).map_err(BuildError::io(&own))?;
    let is_copy = |path: &Path| {
        path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("src-"))
    };
    entries
        .flatten()
        .map(|entry| entry.path())
        .filter(|path| is_copy(path) && *path != current)
        .try_for_each(|path| remove_directory(&path))
}
