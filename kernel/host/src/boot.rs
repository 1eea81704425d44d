//! The start of a kernel: discovers, plans and loads extensions, resolves agents, starts services.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use skillhost_conversation::{ModelSource, NoModels};
use skillhost_events::topic;
use skillhost_home::{
    ApprovalKind, ApprovalRecord, DiscoveredManifest, DiscoveryResult, Home, Installation,
    LoadPhase, LoadRejection, RESERVED_IDS, SecretStore, Settings, approval_hint, changed_tools,
    library_file_name, retire_installed_record, secure_data_dir,
};
use skillhost_manifest::plan::{self, PlanError, UnmetReason};
use skillhost_manifest::{ExtensionId, ExtensionKind, IntegrationMode};
use skillhost_payload::{CallError, ErrorKind, ExtensionInit, ToolSpec};

use crate::abi;
use crate::agents::{Agent, AgentError, ResolvedInstructions};
use crate::builder::{ExtensionBuilder, NoBuilder};
use crate::callbacks::HostCallbacks;
use crate::context_chain::ContextChain;
use crate::instance::Instance;
use crate::kernel::{Kernel, KernelLimits, KernelShared, KernelState};
use crate::loader;
use crate::process::{NoProcesses, ProcessLauncher};
use crate::report::{LoadReport, LoadedAgent};
use crate::scheduler;
use crate::tools::ToolError;

/// Ids that `uses_tools` reserves for the kernel.

/// The options of a kernel.
#[derive(Clone)]
pub struct BootOptions {
    /// The home. The caller is responsible for its trust.
    pub home: Home,
    /// The settings in force.
    pub settings: Settings,
    /// The file from which a reload reads the settings again; without it they remain.
    pub settings_file: Option<std::path::PathBuf>,
    /// The files that belong to the executable, if they were found.
    pub installation: Option<Installation>,
    /// Timeouts for calls into extensions.
    pub limits: KernelLimits,
    /// The source of agents' models.
    pub models: Arc<dyn ModelSource>,
    /// The launcher of process extensions.
    pub processes: Arc<dyn ProcessLauncher>,
    /// A supervisor restarts the kernel on request.
    pub supervised: bool,
    /// The builder of extensions.
    pub builder: Arc<dyn ExtensionBuilder>,
    /// The home directory of process extensions; if absent, each has its own in the kernel's data.
    pub process_home: Option<std::path::PathBuf>,
}

impl BootOptions {
    /// Creates options for a home with default limits.
    #[must_use]
    pub fn new(home: Home, settings: Settings) -> Self {
        Self {
            home,
            settings,
            settings_file: None,
            installation: Installation::from_current_exe(),
            limits: KernelLimits::default(),
            models: Arc::new(NoModels),
            processes: Arc::new(NoProcesses),
            supervised: false,
            builder: Arc::new(NoBuilder),
            process_home: None,
        }
    }
}

/// An error that prevents the load of one extension.
pub(crate) struct ExtensionLoadError {
    pub(crate) phase: LoadPhase,
    pub(crate) reason: String,
    pub(crate) hint: String,
}

impl ExtensionLoadError {
    pub(crate) fn from_call_error(phase: LoadPhase, error: CallError) -> Self {
        Self { phase, reason: error.message, hint: error.hint }
    }

    pub(crate) fn from_tool_errors(problems: &[ToolError]) -> Self {
        let lines: Vec<_> = problems.iter().map(ToString::to_string).collect();
        let hints = ToolError::hints(problems);
        Self { phase: LoadPhase::Wire, reason: lines.join("\n"), hint: hints }
    }
}

impl Kernel {
    /// Starts a kernel. A failed extension is listed in [`Kernel::report`] and does not stop the
    /// others. Background services wait for [`Kernel::start_services`].
    ///
    /// Must be called on a multi-thread tokio runtime with time enabled.
    pub async fn boot(options: BootOptions) -> Self {
        // Before anything is read: the directory may have been open to other users.
        let repaired = secure_data_dir(&options.home);
        // An interrupted installation must end before discovery reads its files.
        let recovered = options.builder.recover();
        let retired = retire_installed_record(&options.home);
        let (home, installation) = (options.home.clone(), options.installation.clone());
        let shadowing = options.settings.allow_shadowing.clone();
        let discovery_task = spawn_blocking(move || {
            skillhost_home::discover_admitted(&home, installation.as_ref(), &shadowing, None)
        });
        let mut found = discovery_task.await.unwrap_or_else(|error| DiscoveryResult {
            notes: vec![format!("no manifest was read: {error}")],
            ..DiscoveryResult::default()
        });
        found.notes.extend(retired);
        let (secrets, secrets_note) = SecretStore::load(options.home.root());
        found.notes.extend(repaired);
        found.notes.extend(recovered);
        found.notes.extend(secrets_note);
        found.notes.extend(unknown_extension_notes(&options.settings, &found));
        let kernel = Self { shared: Arc::new(KernelShared::new(options, secrets)) };
        kernel.load_all(found).await;
        kernel
    }

    /// Starts every background service, in load order; a second call has no effect. Separate from
    /// the boot, so that the caller can subscribe to [`Kernel::events`] before the first event is
    /// published.
    pub async fn start_services(&self) {
        let _guard = self.shared.changes.lock().await;
        if self.shared.services_run.swap(true, Ordering::SeqCst) {
            return;
        }
        let state = self.shared.state.load();
        for id in &state.order {
            self.start_service(&state.instances[id]);
        }
        self.retry_failed_processes();
    }

    /// Loads every possible extension in dependency order and publishes each as soon as it is
    /// wired: a later extension may call an earlier one during its start.
    async fn load_all(&self, found: DiscoveryResult) {
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
                        Some(known) => format!("see `{}` in: skillhost ext doctor", known.id),
                        None => "correct depends_on in the manifest, or install and enable what \
                                 it names"
                            .to_owned(),
                    },
                },
            ));
        }
        // A disabled extension is a decision of the operator, and the report lists it.
        let unmet = plan.unmet.iter().filter(|unmet| unmet.reason != UnmetReason::Disabled);
        for unmet in unmet {
            report.notes.push(format!("`{}` {unmet}", unmet.id));
        }
        let settings = self.shared.settings.load_full();
        let (added, shipped): (Vec<_>, Vec<_>) =
            manifests.values().partition(|found| found.is_in_sandbox());
        let ids = |found: Vec<&DiscoveredManifest>| {
            Arc::new(found.into_iter().map(|found| found.manifest.id.clone()).collect())
        };
        let mut state =
            KernelState { added: ids(added), shipped: ids(shipped), ..KernelState::default() };
        let mut agents = Vec::new();
        for id in &plan.order {
            let found = &manifests[id];
            let failed = self.failed_dependency(&state, &report, found);
            let reserved = RESERVED_IDS.contains(&id.as_str()).then(|| reserved_id_error(id));
            let outcome = match (reserved.or(failed), &found.manifest.kind) {
                (Some(failure), _) => Err(failure),
                (None, ExtensionKind::Agent(_)) => {
                    agents.push(id);
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
                        report.notes.extend(scheduler::find_unrunnable(&instance));
                        report.notes.extend(instance.unhandled_topics());
                        state.order.push(id.clone());
                        state.instances.insert(id.clone(), Arc::new(instance));
                        state.chain = ContextChain::from_instances(state.instances.values());
                        // Published one by one: the next extension may call this one in its
                        // `start`.
                        self.shared.state.store(Arc::new(state.clone()));
                    }
                    Err(problems) => {
                        report.note_rejected_tools(&instance);
                        // An extension without its tools is not usable; its start is undone.
                        Arc::new(instance).shutdown(&self.shared.limits).await;
                        let failure = ExtensionLoadError::from_tool_errors(&problems);
                        report.rejected.push(to_rejection(&manifests, id, failure));
                    }
                },
                Err(failure) => report.rejected.push(to_rejection(&manifests, id, failure)),
            }
        }
        let agents = self.wire_agents(&mut state, &mut report, &manifests, agents);
        for id in agents {
            self.add_agent(&mut state, &mut report, &manifests[id]).await;
        }
        keep_rejected_agents(&mut state, &report, &manifests);
        report.note_declared_tools(&manifests);
        state.report = Arc::new(report);
        self.shared.state.store(Arc::new(state));
    }

    /// Adds the agents that are tools to the table, before any agent names one. Returns the agents
    /// that can be resolved.
    fn wire_agents<'m>(
        &self,
        state: &mut KernelState,
        report: &mut LoadReport,
        manifests: &'m BTreeMap<ExtensionId, DiscoveredManifest>,
        agents: Vec<&'m ExtensionId>,
    ) -> Vec<&'m ExtensionId> {
        let mut wired = Vec::new();
        for id in agents {
            let found = &manifests[id];
            let agent = found.manifest.agent().expect("only agents are wired here");
            let taken = match agent.integration_mode {
                IntegrationMode::Standalone => Ok(()),
                IntegrationMode::Tool => state.tools.add_agent(&found.manifest),
            };
            match taken {
                Ok(()) => wired.push(id),
                Err(problems) => {
                    let failure = ExtensionLoadError::from_tool_errors(&problems);
                    let (reason, hint) = (failure.reason.clone(), failure.hint.clone());
                    let resolved = ResolvedInstructions::from_error(AgentError { reason, hint });
                    state.agents.insert(id.clone(), Arc::new(Agent::new(found, resolved)));
                    report.rejected.push(to_rejection(manifests, id, failure));
                }
            }
        }
        wired
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
            hint: format!("see `{missing}` in: skillhost ext doctor"),
        })
    }

    /// Probes, opens, creates, starts and describes an extension; the kernel's tables remain
    /// unchanged.
    pub(crate) async fn load(
        &self,
        found: &DiscoveredManifest,
        settings: &Settings,
    ) -> Result<Instance, ExtensionLoadError> {
        if found.path.starts_with(self.shared.home.extensions_dir()) && found.copy.is_none() {
            // Only an admitted extension has a copy; the directory that agents write to is never
            // used. A trial has a home of its own.
            return Err(ExtensionLoadError {
                phase: LoadPhase::Approve,
                reason: "it is not approved".to_owned(),
                hint: approval_hint(found),
            });
        }
        let limits = &self.shared.limits;
        let created = match &found.manifest.kind {
            ExtensionKind::Library { entrypoint } => {
                self.create_library(found, settings, entrypoint).await
            }
            ExtensionKind::Process { command } => {
                self.create_process(found, settings, command).await
            }
            ExtensionKind::Agent(_) => unreachable!("only libraries and processes are loaded"),
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
        let mut instance = created.map_err(setup)?;
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
    }

    /// Finds, checks and opens a library, and creates its extension.
    async fn create_library(
        &self,
        found: &DiscoveredManifest,
        settings: &Settings,
        entrypoint: &str,
    ) -> Result<Instance, ExtensionLoadError> {
        let manifest = &found.manifest;
        let limits = &self.shared.limits;
        let opening = |error: loader::LibraryLoadError| ExtensionLoadError {
            phase: if error.is_before_open() { LoadPhase::Probe } else { LoadPhase::Open },
            reason: error.to_string(),
            hint: error.hint(),
        };
        let original_dir = found.path.parent().unwrap_or(Path::new("."));
        let path = match found.is_in_sandbox() {
            true => loader::find_own_library(entrypoint, found.directory(), original_dir)
                .map_err(opening)?,
            false => loader::find_library(&manifest.id, entrypoint, found.directory())
                .map_err(opening)?,
        };
        // The path that people know, not that of the copy.
        let library = match &found.copy {
            Some(_) => original_dir.join(library_file_name(entrypoint)),
            None => path.clone(),
        };
        let copies = self.shared.home.data_dir("kernel");
        let (known, pin) = (library.clone(), manifest.sha256);
        // Runs the library's constructors, which may never return.
        let open =
            spawn_blocking(move || loader::open_library(&path, &known, &copies, pin.as_ref()));
        let module = match tokio::time::timeout(limits.start, open).await {
            Ok(opened) => opened
                .map_err(|error| ExtensionLoadError::from_call_error(LoadPhase::Open, error))?
                .map_err(opening)?,
            Err(_) => {
                let reason = format!("opening timed out after {} ms", limits.start.as_millis());
                let hint = "do not wait in its constructors".to_owned();
                return Err(ExtensionLoadError { phase: LoadPhase::Open, reason, hint });
            }
        };
        let init = self.build_extension_init(found, settings);
        let callbacks = HostCallbacks::new(manifest, Arc::downgrade(&self.shared));
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
        let plugin = Box::new(created);
        Ok(Instance::new(Arc::clone(manifest), build, library, timings, plugin))
    }

    pub(crate) fn build_extension_init(
        &self,
        found: &DiscoveredManifest,
        settings: &Settings,
    ) -> ExtensionInit {
        let manifest = &found.manifest;
        ExtensionInit {
            id: manifest.id.to_string(),
            home: self.shared.home.root().to_owned(),
            data_dir: self.shared.home.data_dir(manifest.id.as_str()),
            share_dir: self.shared.installation.as_ref().and_then(|i| i.share_dir.clone()),
            config: settings.extension_config(manifest),
            depends_on: manifest.depends_on.iter().map(|d| d.id.to_string()).collect(),
        }
    }

    async fn add_agent(
        &self,
        state: &mut KernelState,
        report: &mut LoadReport,
        found: &DiscoveredManifest,
    ) {
        let manifest = &found.manifest;
        let resolved = self.resolve(state, found).await;
        match &resolved.problem {
            Some(problem) => report.rejected.push(LoadRejection {
                id: manifest.id.to_string(),
                phase: LoadPhase::Resolve,
                reason: problem.reason.clone(),
                hint: problem.hint.clone(),
                manifest: found.path.clone(),
            }),
            None => report
                .agents
                .push(LoadedAgent { id: manifest.id.clone(), name: manifest.name.clone() }),
        }
        let agent = manifest.agent().expect("only agents are added");
        for used in &agent.uses_tools {
            let silent = state.instances.get(used.as_str()).is_some_and(|i| i.specs.is_empty());
            if silent {
                report.notes.push(format!(
                    "{}:{}:{}: uses_tools: the extension `{}` has no tools",
                    found.path.display(),
                    used.line,
                    used.column,
                    used.value
                ));
            }
        }
        state.agents.insert(manifest.id.clone(), Arc::new(Agent::new(found, resolved)));
    }

    /// Starts an instance's service; an error at its end is published as an event.
    pub(crate) fn start_service(&self, instance: &Arc<Instance>) {
        let (kernel, id) = (Arc::downgrade(&self.shared), instance.manifest.id.clone());
        instance.start_service(move |error| {
            tracing::error!(%id, %error, "the service failed");
            if let Some(kernel) = kernel.upgrade() {
                let payload = serde_json::json!({ "id": id.as_str(), "reason": error.message });
                tokio::spawn(async move {
                    kernel.events.publish_kernel_event(topic::SERVICE_FAILED, &payload).await;
                });
            }
        });
    }

    fn missing_secrets_note(&self, found: &DiscoveredManifest) -> Option<String> {
        let missing: Vec<_> = found
            .manifest
            .secrets
            .iter()
            .filter(|name| !found.manifest.optional_secrets.contains(name))
            .filter(|name| self.shared.secrets.get(name).is_none())
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

/// Runs blocking work outside the async workers; a panic becomes an error.
pub(crate) async fn spawn_blocking<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, CallError> {
    tokio::task::spawn_blocking(work)
        .await
        .map_err(|error| CallError::new(ErrorKind::Panicked, error.to_string()))
}

fn to_rejection(
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

/// Keeps agents whose dependencies failed, so that a request for one reports the reason.
fn keep_rejected_agents(
    state: &mut KernelState,
    report: &LoadReport,
    manifests: &BTreeMap<ExtensionId, DiscoveredManifest>,
) {
    for rejection in report.rejected.iter().filter(|r| r.phase == LoadPhase::Plan) {
        let found = manifests.get(rejection.id.as_str());
        if let Some(found) = found.filter(|found| found.manifest.agent().is_some()) {
            let problem =
                AgentError { reason: rejection.reason.clone(), hint: rejection.hint.clone() };
            let agent = Arc::new(Agent::new(found, ResolvedInstructions::from_error(problem)));
            state.agents.insert(found.manifest.id.clone(), agent);
        }
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
    let hint = format!("review and approve it: skillhost ext approve {}", record.id);
    Err(ExtensionLoadError { phase: LoadPhase::Approve, reason, hint })
}

fn reserved_id_error(id: &ExtensionId) -> ExtensionLoadError {
    ExtensionLoadError {
        phase: LoadPhase::Plan,
        reason: format!("the id `{id}` is reserved by the kernel"),
        hint: "choose another id".to_owned(),
    }
}

fn unknown_extension_notes(settings: &Settings, found: &DiscoveryResult) -> Vec<String> {
    let known =
        |id: &str| found.manifests.contains_key(id) || found.rejected.iter().any(|r| r.id == id);
    settings
        .extensions
        .keys()
        .filter(|id| !known(id))
        .map(|id| format!("skillhost.yaml: extensions.{id}: extension not installed"))
        .collect()
}
