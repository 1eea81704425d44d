//! The builder that the kernel is given.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use skillhost_kernel::{
    BuildPlan, BuildSettings, CallError, Candidate, ErrorKind, ExtensionBuilder, Home,
    Installation, PlannedFile, RolledBack, Secrets, digest_of, process_home, write_atomically,
};
use skillhost_manifest::{ExtensionId, Kind, Manifest};

use crate::compile::compile;
use crate::details;
use crate::error::{BuildError, Refusal};
use crate::files;
use crate::install::{self, New};
use crate::pin::pinned;
use crate::place::{Alone, Place, built_ids, library_name, remove_folder, write_all};
use crate::policy;
use crate::trial::{self, ProcessTrial};

/// Builds the extensions of one home with cargo, against the SDK of the installation.
pub struct Builder {
    home: Home,
    settings: BuildSettings,
    sdk: Option<PathBuf>,
    program: PathBuf,
    /// One build at a time in this process.
    turn: tokio::sync::Mutex<()>,
}

impl Builder {
    /// A builder for a home. What is built is tried with the program that runs now, which has to
    /// know `ext probe`.
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

    /// What the process of a plan is tried with: what it is started with later.
    fn process_trial(&self, plan: &BuildPlan, sha256: &str) -> ProcessTrial {
        let manifest = &plan.manifest;
        let (secrets, _) = Secrets::read(self.home.root());
        let named = manifest.secrets.iter();
        ProcessTrial {
            approved: sha256.to_owned(),
            secrets: named.filter_map(|name| Some((name.clone(), secrets.get(name)?))).collect(),
            home: process_home(&self.home, manifest.id.as_str()),
            start: Duration::from_millis(manifest.start_timeout_ms.unwrap_or_default()),
        }
    }

    /// Builds the code and puts it where it is tried: the library, or the files.
    async fn built(&self, place: &Place, plan: &BuildPlan) -> Result<Made, BuildError> {
        remove_older(place, &plan.sha256)?;
        let folder = place.sources(&plan.sha256);
        let Some(entrypoint) = plan.manifest.entrypoint() else {
            write_all(&folder, &plan.files)?;
            // As it will be once it is installed: the pin's line is there, its value counts not.
            let (path, none) = (folder.join("manifest.yaml"), files::sha256(b""));
            write(&path, pinned(manifest_text(plan), &none)?.as_bytes())?;
            let digest = digest_of(&folder).map_err(|error| {
                BuildError::io(&folder)(std::io::Error::other(error.to_string()))
            })?;
            return Ok(Made {
                sha256: digest.sha256,
                warnings: String::new(),
                folder,
                staged: None,
            });
        };
        let sdk = self.sdk.as_deref().and_then(|sdk| fs::canonicalize(sdk).ok());
        let sdk = sdk.ok_or(BuildError::NoSdk)?;
        let recipe = policy::check(&plan.files, entrypoint, &self.settings.allow)?;
        let (files, settings) = ((&*plan.files, &*plan.sha256), &self.settings);
        let compiled = compile(place, files, &recipe, &sdk, settings).await?;
        let staged = folder.join(library_name(entrypoint));
        // The folder that cargo builds into is shared by all extensions of the home.
        let bytes = fs::read(&compiled.library).map_err(BuildError::io(&compiled.library))?;
        write(&staged, &bytes)?;
        let (sha256, warnings) = (files::sha256(&bytes), compiled.warnings);
        Ok(Made { sha256, warnings, folder, staged: Some(staged) })
    }
}

fn write(path: &Path, bytes: &[u8]) -> Result<(), BuildError> {
    write_atomically(path, bytes).map_err(BuildError::io(path))
}

/// What was built, before it is tried.
struct Made {
    sha256: String,
    warnings: String,
    folder: PathBuf,
    staged: Option<PathBuf>,
}

#[async_trait]
impl ExtensionBuilder for Builder {
    fn recover(&self) -> Vec<String> {
        let mut notes = Vec::new();
        let ids = built_ids(&self.home);
        if ids.is_empty() {
            return notes;
        }
        // Who holds it is about to finish what this would.
        let Ok(_alone) = Alone::in_home(&self.home) else { return notes };
        for id in ids.iter().filter(|id| ExtensionId::new(id).is_ok()) {
            match install::recover(&Place::new(&self.home, id)) {
                Ok(false) => {}
                Ok(true) => notes.push(format!(
                    "the installation of `{id}`, which was interrupted, was finished"
                )),
                Err(error) => notes.push(format!(
                    "the installation of `{id}` was interrupted and cannot be finished: {error}"
                )),
            }
        }
        notes
    }

    async fn inspect(&self, id: &ExtensionId) -> Result<BuildPlan, CallError> {
        let (home, id, allow) = (self.home.clone(), id.clone(), self.settings.allow.clone());
        blocking(move || inspect(&home, &id, &allow)).await
    }

    async fn make(&self, plan: &BuildPlan) -> Result<Candidate, CallError> {
        let _turn = self.turn.lock().await;
        let _alone = Alone::in_home(&self.home)?;
        let place = Place::new(&self.home, plan.manifest.id.as_str());
        let made = self.built(&place, plan).await?;
        // What is tried is what would be installed, with its pin.
        let manifest = made.folder.join("manifest.yaml");
        let text = pinned(manifest_text(plan), &made.sha256)?;
        write(&manifest, text.as_bytes())?;
        let process = made.staged.is_none().then(|| self.process_trial(plan, &made.sha256));
        let memory = self.settings.memory_limit();
        let tried =
            trial::attempt(&self.program, &place, &manifest, process.as_ref(), memory).await?;
        let mut warnings = made.warnings;
        if let Some(reason) = tried.unasked {
            warnings.push_str(&format!(
                "\nit was not asked for its tools, as it waits for others: {reason}"
            ));
        }
        Ok(Candidate {
            tools: tried.tools,
            version: tried.version,
            sha256: made.sha256,
            warnings: warnings.trim().to_owned(),
            staged: made.staged.unwrap_or(made.folder),
        })
    }

    async fn install(&self, plan: &BuildPlan, made: &Candidate, by: &str) -> Result<(), CallError> {
        let _turn = self.turn.lock().await;
        let home = self.home.clone();
        let (plan, made, by) = (plan.clone(), made.clone(), by.to_owned());
        blocking(move || {
            let _alone = Alone::in_home(&home)?;
            let id = plan.manifest.id.as_str();
            let place = Place::new(&home, id);
            if read_files(&home, &plan.manifest)? != plan.files {
                return Err(BuildError::Changed { id: id.to_owned() });
            }
            let bytes = match plan.manifest.entrypoint() {
                Some(_) => fs::read(&made.staged).map_err(BuildError::io(&made.staged))?,
                None => Vec::new(),
            };
            let library = plan.manifest.entrypoint().map(|entrypoint| (entrypoint, &*bytes));
            let new = New { library, sha256: &made.sha256, by: &by };
            install::install(&place, manifest_text(&plan), &new)
        })
        .await
    }

    async fn roll_back(&self, id: &ExtensionId, by: &str) -> Result<RolledBack, CallError> {
        let _turn = self.turn.lock().await;
        let (home, id, by) = (self.home.clone(), id.clone(), by.to_owned());
        blocking(move || {
            let _alone = Alone::in_home(&home)?;
            let (from, to) = install::roll_back(&Place::new(&home, id.as_str()), &by)?;
            Ok(RolledBack { id, from, to, active: false })
        })
        .await
    }
}

async fn blocking<T: Send + 'static>(
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

/// Reads and checks everything that would be built.
fn inspect(home: &Home, id: &ExtensionId, allow: &[String]) -> Result<BuildPlan, BuildError> {
    let refused = |what: String, remedy: &str| {
        BuildError::Refused(vec![Refusal {
            file: "manifest.yaml".to_owned(),
            line: None,
            what,
            remedy: remedy.to_owned(),
        }])
    };
    let path = Place::new(home, id.as_str()).manifest();
    let text = fs::read_to_string(&path).map_err(BuildError::io(&path))?;
    let manifest = skillhost_manifest::parse(&text).map_err(|errors| {
        refused(errors.to_string(), "skillhost schema manifest prints its schema")
    })?;
    if manifest.id != *id {
        let what = format!("its id is `{}`, and its folder `{id}`", manifest.id);
        return Err(refused(what, "give both the same name"));
    }
    if manifest.agent().is_some() {
        return Err(refused(
            "an agent has nothing to build".to_owned(),
            "it is in use from the next start of the kernel on",
        ));
    }
    let files = read_files(home, &manifest)?;
    if files::text(&files, "manifest.yaml") != Some(&text) {
        return Err(BuildError::Changed { id: id.to_string() });
    }
    pinned(&text, &files::sha256(b""))?;
    let recipe = match &manifest.kind {
        Kind::Library { entrypoint } => Some(policy::check(&files, entrypoint, allow)?),
        Kind::Process { .. } | Kind::Agent(_) => None,
    };
    let details = details::write(&manifest, &files, recipe.as_ref());
    let sha256 = files::digest(&files);
    Ok(BuildPlan { manifest: Arc::new(manifest), sha256, files, details })
}

/// Everything in the folder but what is made from the rest.
fn read_files(home: &Home, manifest: &Manifest) -> Result<Vec<PlannedFile>, BuildError> {
    let library = manifest.entrypoint().map(library_name);
    let made = |name: &str| match &library {
        Some(library) => name == library.as_str() || name == "Cargo.lock",
        None => false,
    };
    files::read(&home.extensions(), manifest.id.as_str(), made)
}

fn manifest_text(plan: &BuildPlan) -> &str {
    files::text(&plan.files, "manifest.yaml").unwrap_or_default()
}

/// Removes the copies that earlier plans were built from.
fn remove_older(place: &Place, digest: &str) -> Result<(), BuildError> {
    place.make()?;
    let current = place.sources(digest);
    let own = place.own();
    let entries = fs::read_dir(&own).map_err(BuildError::io(&own))?;
    let is_copy = |path: &Path| {
        path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("src-"))
    };
    entries
        .flatten()
        .map(|entry| entry.path())
        .filter(|path| is_copy(path) && *path != current)
        .try_for_each(|path| remove_folder(&path))
}
