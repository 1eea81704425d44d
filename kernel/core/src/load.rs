//! The load of extensions: in dependency order, each probed, opened, created, started and described.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use futures::future::BoxFuture;
use skillhost_control::LoadReport;
use skillhost_home::{
    ApprovalKind, ApprovalRecord, DiscoveredManifest, DiscoveryResult, LoadPhase, LoadRejection,
    RESERVED_IDS, Settings, approval_hint, changed_tools, library_file_name,
};
use skillhost_manifest::plan::{self, PlanError, UnmetReason};
use skillhost_manifest::{ExtensionId, ExtensionKind, Manifest};
use skillhost_payload::{OperatorCommand, ToolSpec};

use crate::abi;
use crate::blocking::spawn_blocking;
use crate::callbacks::HostCallbacks;
use crate::context_chain::ContextChain;
use crate::extension_calls::ExtensionCalls;
use crate::extension_host::ExtensionHost;
use crate::instance::Instance;
use crate::load_error::ExtensionLoadError;
use crate::loader::{self, LibraryModule};
use crate::plugin::LoadedPlugin;
use crate::plugin_loader::LoadContext;
use crate::skill_provider::unknown_skill_notes;
use crate::state::KernelState;

/// The manifests of a start, with their loaded extensions. Agents follow.
pub struct LoadedManifests {
    /// Every manifest that was found and is valid.
    pub manifests: BTreeMap<ExtensionId, DiscoveredManifest>,
    /// The extensions that are loaded.
    pub state: KernelState,
    /// The report until now.
    pub report: LoadReport,
    /// The agents in dependency order.
    pub agents: Vec<ExtensionId>,
}

impl ExtensionHost {
    /// Loads every possible extension in dependency order, without agents, and publishes each as soon as it is
    /// wired: a later extension may call an earlier one during its start.
    pub fn load_all(self: &Arc<Self>, found: DiscoveryResult) -> BoxFuture<'_, LoadedManifests> {
        Box::pin(async move {
            let DiscoveryResult { manifests, rejected, notes, unapproved: _ } = found;
            let all: Vec<_> = manifests.values().map(|found| &*found.manifest).collect();
            // An extension that agents write never takes a name from an installed one.
            let plan = plan::order_with_precedence(&all, |id| !manifests[id].is_in_sandbox());
            let mut report =
                LoadReport { rejected, disabled: plan.disabled, notes, ..LoadReport::default() };
            for (id, problems) in &plan.rejected {
                let lines: Vec<_> =
                    problems.iter().map(|problem| format!("`{id}` {problem}")).collect();
                let known = problems.iter().find_map(|problem| match problem {
                    PlanError::Missing { id, .. } => {
                        report.rejected.iter().find(|rejection| rejection.id == id.as_str())
                    }
                    _ => None,
                });
                report.rejected.push(to_rejection(
                    &manifests,
                    id,
                    ExtensionLoadError {
                        phase: LoadPhase::Plan,
                        reason: lines.join("\n"),
                        hint: match known {
                            Some(known) => {
                                format!(
                                    "see `{}` in: {}",
                                    known.id,
                                    OperatorCommand::CheckExtensions
                                )
                            }
                            None => {
                                "correct depends_on in the manifest, or install and enable what \
                                 it names"
                                    .to_owned()
                            }
                        },
                    },
                ));
            }
            // A disabled extension is a decision of the operator, and the report lists it.
            let unmet = plan.unmet.iter().filter(|unmet| unmet.reason != UnmetReason::Disabled);
            for unmet in unmet {
                report.notes.push(format!("`{}` {unmet}", unmet.id));
            }
            let settings = self.settings.load_full();
            let (added, shipped): (Vec<_>, Vec<_>) =
                manifests.values().partition(|found| found.is_in_sandbox());
            let ids = |found: Vec<&DiscoveredManifest>| {
                Arc::new(found.into_iter().map(|found| found.manifest.id.clone()).collect())
            };
            let mut state = KernelState {
                added: ids(added),
                shipped: ids(shipped),
                tools: self.builtin_tools(),
                ..KernelState::default()
            };
            let mut agents = Vec::new();
            for id in &plan.order {
                let found = &manifests[id];
                let failed = self.failed_dependency(&state, &report, found);
                let reserved = RESERVED_IDS.contains(&id.as_str()).then(|| reserved_id_error(id));
                let outcome = match (reserved.or(failed), &found.manifest.kind) {
                    (Some(failure), _) => Err(failure),
                    (None, ExtensionKind::Agent(_)) => {
                        agents.push(id.clone());
                        continue;
                    }
                    (None, ExtensionKind::Library { .. } | ExtensionKind::Process { .. }) => {
                        self.load(found, &settings).await
                    }
                };
                match outcome {
                    Ok(instance) => match state.add_tools(&instance) {
                        Ok(()) => {
                            report.loaded.push(instance.to_report());
                            report.notes.extend(self.missing_secrets_note(found));
                            report.notes.extend(instance.unknown_exports());
                            report.notes.extend(instance.unrunnable_schedules());
                            report.notes.extend(instance.unhandled_topics());
                            let ids = settings.sandbox.skills.keys();
                            let unknown = unknown_skill_notes(&instance, ids, self.limits.tool);
                            report.notes.extend(unknown.await);
                            state.order.push(id.clone());
                            state.instances.insert(id.clone(), Arc::new(instance));
                            state.chain = ContextChain::from_instances(state.instances.values());
                            // Published one by one: the next extension may call this one in its
                            // `start`.
                            self.state.store(Arc::new(state.clone()));
                        }
                        Err(problems) => {
                            report.note_rejected_tools(id, &instance.specs);
                            // An extension without its tools is not usable; its start is undone.
                            Arc::new(instance).shutdown(&self.limits).await;
                            let failure = ExtensionLoadError::from_tool_errors(&problems);
                            report.rejected.push(to_rejection(&manifests, id, failure));
                        }
                    },
                    Err(failure) => report.rejected.push(to_rejection(&manifests, id, failure)),
                }
            }
            LoadedManifests { manifests, state, report, agents }
        })
    }

    /// Returns the error of an extension whose required dependency failed.
    fn failed_dependency(
        &self,
        state: &KernelState,
        report: &LoadReport,
        found: &DiscoveredManifest,
    ) -> Option<ExtensionLoadError> {
        let failed = |id: &ExtensionId| report.rejected.iter().any(|r| r.id == id.as_str());
        let needed = found.manifest.depends_on.iter().filter(|needed| !needed.optional);
        let missing = needed
            .map(|needed| &needed.id)
            .find(|id| !state.instances.contains_key(*id) && failed(id))?;
        Some(ExtensionLoadError {
            phase: LoadPhase::Plan,
            reason: format!("depends on `{missing}`, which could not be loaded"),
            hint: format!("see `{missing}` in: {}", OperatorCommand::CheckExtensions),
        })
    }

    /// Probes, opens, creates, starts and describes an extension; the kernel's tables remain
    /// unchanged.
    pub fn load<'a>(
        self: &'a Arc<Self>,
        found: &'a DiscoveredManifest,
        settings: &'a Settings,
    ) -> BoxFuture<'a, Result<Instance, ExtensionLoadError>> {
        Box::pin(async move {
            if found.path.starts_with(self.home.extensions_dir()) && found.copy.is_none() {
                // Only an admitted extension has a copy; the directory that agents write to is never
                // used. A trial has a home of its own.
                return Err(ExtensionLoadError {
                    phase: LoadPhase::Approve,
                    reason: "it is not approved".to_owned(),
                    hint: approval_hint(found),
                });
            }
            let limits = &self.limits;
            let kind = &found.manifest.kind;
            let created = match (kind, self.loaders.iter().find(|loader| loader.loads(kind))) {
                (ExtensionKind::Library { entrypoint }, _) => {
                    self.load_library(found, settings, entrypoint).await
                }
                (_, Some(loader)) => loader.load(&self.load_context(found, settings)).await,
                (_, None) => Err(no_loader_error()),
            };
            let setup = |mut failure: ExtensionLoadError| {
                // Code of the extension has run, and an unfinished setup may be the cause.
                if failure.phase >= LoadPhase::New
                    && let Some(instructions) = &found.manifest.setup_instructions
                {
                    failure.hint = format!("{}\nsetup: {}", failure.hint, instructions.trim_end());
                }
                failure
            };
            let created = created.map_err(setup)?;
            let mut instance = Instance::new(found, created);
            let call = |phase| move |error| ExtensionLoadError::from_call_error(phase, error);
            let described = match instance.start(limits).await {
                Ok(()) => instance.load_metadata(limits).await.map_err(call(LoadPhase::Wire)),
                Err(error) => Err(call(LoadPhase::Start)(error)),
            };
            let described = described.and_then(|()| match &found.approval {
                Some(record) => check_approved_tools(record, &instance.specs),
                None => Ok(()),
            });
            match described {
                Ok(()) => Ok(instance),
                Err(failure) => {
                    Arc::new(instance).shutdown(limits).await;
                    Err(setup(failure))
                }
            }
        })
    }

    /// Finds, checks and opens a library, and creates its extension. A library that is missing may
    /// be part of the program.
    async fn load_library(
        self: &Arc<Self>,
        found: &DiscoveredManifest,
        settings: &Settings,
        entrypoint: &str,
    ) -> Result<LoadedPlugin, ExtensionLoadError> {
        let manifest = &found.manifest;
        let limits = &self.limits;
        let original_dir = found.path.parent().unwrap_or(Path::new("."));
        let library = match found.is_in_sandbox() {
            true => loader::find_own_library(entrypoint, found.directory(), original_dir),
            false => loader::find_library(&manifest.id, entrypoint, found.directory()),
        };
        let (module, library, bundled) = match library {
            Ok(path) => {
                // The path that people know, not that of the copy.
                let known = match &found.copy {
                    Some(_) => original_dir.join(library_file_name(entrypoint)),
                    None => path.clone(),
                };
                (self.open_library(manifest, path, &known).await?, known, false)
            }
            Err(error @ loader::LibraryLoadError::Missing { .. }) => {
                let bundled = loader::find_bundled(self.bundled, manifest, entrypoint)
                    .ok_or_else(|| opening_error(&error))?;
                let program = std::env::current_exe().unwrap_or_default();
                let module = LibraryModule::from_bundled(bundled, &program);
                (module.map_err(|error| opening_error(&error))?, program, true)
            }
            Err(error) => return Err(opening_error(&error)),
        };
        let init = self.build_extension_init(found, settings);
        let callbacks = HostCallbacks::new(manifest, Arc::downgrade(self));
        let runtime = tokio::runtime::Handle::current();
        let (build, timings) = (module.build.clone(), module.timings);
        // The extension's `new` blocks, possibly forever.
        let creating = spawn_blocking(move || {
            abi::LibraryExtension::create(&module, callbacks, runtime, &init)
        });
        let created = match tokio::time::timeout(limits.start, creating).await {
            Ok(Ok(Ok(created))) => created,
            Ok(Ok(Err(error)) | Err(error)) => {
                return Err(ExtensionLoadError::from_call_error(LoadPhase::New, error));
            }
            Err(_) => {
                let reason = format!("creation timed out after {} ms", limits.start.as_millis());
                let hint = "move long work from `new` to `start` or the service".to_owned();
                return Err(ExtensionLoadError { phase: LoadPhase::New, reason, hint });
            }
        };
        Ok(LoadedPlugin {
            plugin: Box::new(created),
            build,
            file: library,
            timings,
            bundled,
            isolation: None,
        })
    }

    /// Opens a private copy of a library; errors name the file `known`.
    async fn open_library(
        &self,
        manifest: &Manifest,
        path: PathBuf,
        known: &Path,
    ) -> Result<LibraryModule, ExtensionLoadError> {
        let copies = self.home.data_dir("kernel");
        let (known, pin) = (known.to_owned(), manifest.sha256);
        // Runs the library's constructors, which may never return.
        let open =
            spawn_blocking(move || loader::open_library(&path, &known, &copies, pin.as_ref()));
        match tokio::time::timeout(self.limits.start, open).await {
            Ok(opened) => opened
                .map_err(|error| ExtensionLoadError::from_call_error(LoadPhase::Open, error))?
                .map_err(|error| opening_error(&error)),
            Err(_) => {
                let waited = self.limits.start.as_millis();
                let reason = format!("opening timed out after {waited} ms");
                let hint = "do not wait in its constructors".to_owned();
                Err(ExtensionLoadError { phase: LoadPhase::Open, reason, hint })
            }
        }
    }

    fn load_context<'a>(
        self: &'a Arc<Self>,
        found: &'a DiscoveredManifest,
        settings: &'a Settings,
    ) -> LoadContext<'a> {
        LoadContext {
            found,
            settings,
            home: &self.home,
            secrets: &self.secrets,
            limits: &self.limits,
            init: self.build_extension_init(found, settings),
            calls: ExtensionCalls::new(Arc::new(HostCallbacks::new(
                &found.manifest,
                Arc::downgrade(self),
            ))),
        }
    }

    fn missing_secrets_note(&self, found: &DiscoveredManifest) -> Option<String> {
        let missing: Vec<_> = found
            .manifest
            .secrets
            .iter()
            .filter(|name| !found.manifest.optional_secrets.contains(name))
            .filter(|name| self.secrets.get(name).is_none())
            .map(String::as_str)
            .collect();
        let setup = found.manifest.setup_instructions.as_deref().unwrap_or_default().trim_end();
        (!missing.is_empty()).then(|| {
            format!(
                "`{}` lacks the secrets {} (set them in the environment or in .env) {setup}",
                found.manifest.id,
                missing.join(", ")
            )
            .trim_end()
            .to_owned()
        })
    }
}

fn opening_error(error: &loader::LibraryLoadError) -> ExtensionLoadError {
    ExtensionLoadError {
        phase: if error.is_before_open() { LoadPhase::Probe } else { LoadPhase::Open },
        reason: error.to_string(),
        hint: error.hint(),
    }
}

/// Returns the entry of the report for a rejected extension.
pub fn to_rejection(
    manifests: &BTreeMap<ExtensionId, DiscoveredManifest>,
    id: &ExtensionId,
    failure: ExtensionLoadError,
) -> LoadRejection {
    LoadRejection {
        id: id.to_string(),
        phase: failure.phase,
        reason: failure.reason,
        hint: failure.hint,
        manifest: manifests.get(id).map(|found| found.path.clone()).unwrap_or_default(),
    }
}

/// Compares the tools that an extension lists with those that were approved with its files.
fn check_approved_tools(
    record: &ApprovalRecord,
    tools: &[ToolSpec],
) -> Result<(), ExtensionLoadError> {
    let reason = match (&record.tools, record.kind) {
        // The tools of a process are known only from its trial, so an approval without them is
        // incomplete.
        (None, ApprovalKind::Process) => "its tools were not approved with its files".to_owned(),
        _ => match changed_tools(record, tools) {
            changes if changes.is_empty() => return Ok(()),
            changes => format!("its tools have changed since they were approved: {changes}"),
        },
    };
    let approve = OperatorCommand::ApproveExtension { id: &record.id };
    let hint = format!("review and approve it: {approve}");
    Err(ExtensionLoadError { phase: LoadPhase::Approve, reason, hint })
}

fn no_loader_error() -> ExtensionLoadError {
    ExtensionLoadError {
        phase: LoadPhase::Start,
        reason: "this kernel cannot start processes".to_owned(),
        hint: String::new(),
    }
}

fn reserved_id_error(id: &ExtensionId) -> ExtensionLoadError {
    ExtensionLoadError {
        phase: LoadPhase::Plan,
        reason: format!("the id `{id}` is reserved by the kernel"),
        hint: "choose another id".to_owned(),
    }
}
