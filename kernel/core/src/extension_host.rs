//! The extension host: the loaded extensions, and the calls into them.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock, Weak};

use arc_swap::ArcSwap;
use futures::future::BoxFuture;
use skillhost_control::{LoadReport, OwnedTool};
use skillhost_events::{EventBus, Journal, topic};
use skillhost_home::{
    DiscoveredManifest, Home, Installation, SecretStore, Settings, suggest_similar,
};
use skillhost_manifest::ExtensionId;
use skillhost_payload::{CallContext, CallError, CallOrigin, ExtensionInit, ToolSpec};
use skillhost_sandbox::{MachineIsolation, SandboxLauncher};
use tokio::sync::MutexGuard;

use crate::blocking::spawn_blocking;
use crate::error::{KernelError, NamedObject};
use crate::foreign_text::sanitize_tool;
use crate::instance::{Instance, PinnedInstance};
use crate::limits::KernelLimits;
use crate::loader::BundledExtension;
use crate::plugin_loader::PluginLoader;
use crate::program_source::ProgramToolSource;
use crate::services::{HostServices, StateObserver};
use crate::state::KernelState;
use crate::tools::{ListedTools, ToolTable};

/// The options of an extension host.
pub struct ExtensionHostOptions {
    /// The home.
    pub home: Home,
    /// The settings in force.
    pub settings: Settings,
    /// The file from which a reload reads the settings again.
    pub settings_file: Option<PathBuf>,
    /// The files that belong to the executable, if they were found.
    pub installation: Option<Installation>,
    /// The extensions that are part of the program, for which no library is required.
    pub bundled: &'static [BundledExtension],
    /// Timeouts for calls into extensions.
    pub limits: KernelLimits,
    /// The loaders of the other kinds of extensions than libraries.
    pub loaders: Vec<Arc<dyn PluginLoader>>,
    /// The secrets of the home.
    pub secrets: SecretStore,
}

/// The loaded extensions of a kernel, and all that their calls need.
///
/// Knows agents as data, and reaches the parts above through two traits.
pub struct ExtensionHost {
    pub(crate) home: Home,
    /// The settings of the start, or of the last reload.
    pub(crate) settings: ArcSwap<Settings>,
    /// The file from which a reload reads the settings again.
    pub(crate) settings_file: Option<PathBuf>,
    pub(crate) installation: Option<Installation>,
    pub(crate) bundled: &'static [BundledExtension],
    pub(crate) limits: KernelLimits,
    pub(crate) loaders: Vec<Arc<dyn PluginLoader>>,
    pub(crate) secrets: SecretStore,
    pub(crate) events: EventBus,
    pub(crate) state: ArcSwap<KernelState>,
    /// Serializes reloads and the shutdown.
    pub(crate) changes: tokio::sync::Mutex<()>,
    /// Services were started, so that a reload starts that of the new build.
    pub(crate) services_run: AtomicBool,
    /// The kernel's own tools.
    builtin_tools: OnceLock<ToolTable>,
    /// The programs of skills.
    pub(crate) program_source: OnceLock<Arc<dyn ProgramToolSource>>,
    services: OnceLock<Weak<dyn HostServices>>,
    observers: OnceLock<Vec<Weak<dyn StateObserver>>>,
    call_ids: AtomicU64,
}

impl ExtensionHost {
    /// Creates a host without extensions.
    pub fn new(options: ExtensionHostOptions) -> Self {
        let events = EventBus::new(Journal::in_directory(&options.home.data_dir("kernel")));
        Self {
            home: options.home,
            settings: ArcSwap::from_pointee(options.settings),
            settings_file: options.settings_file,
            installation: options.installation,
            bundled: options.bundled,
            limits: options.limits,
            loaders: options.loaders,
            secrets: options.secrets,
            events,
            state: ArcSwap::default(),
            changes: tokio::sync::Mutex::default(),
            services_run: AtomicBool::new(false),
            builtin_tools: OnceLock::new(),
            program_source: OnceLock::new(),
            services: OnceLock::new(),
            observers: OnceLock::new(),
            call_ids: AtomicU64::new(1),
        }
    }

    /// Sets the kernel's own tools; called once, before extensions are loaded.
    pub fn set_builtin_tools(&self, tools: ToolTable) {
        let _ = self.builtin_tools.set(tools);
    }

    /// Sets the parts of the kernel that the host calls; called once, before extensions are loaded.
    pub fn connect_parts(
        &self,
        services: Weak<dyn HostServices>,
        observers: Vec<Weak<dyn StateObserver>>,
    ) {
        let _ = self.services.set(services);
        let _ = self.observers.set(observers);
    }

    /// Returns a table with the kernel's own tools.
    pub fn builtin_tools(&self) -> ToolTable {
        self.builtin_tools.get().cloned().unwrap_or_default()
    }

    /// Returns the services of the assembled kernel, or `None` while it shuts down.
    pub fn services(&self) -> Option<Arc<dyn HostServices>> {
        self.services.get().and_then(Weak::upgrade)
    }

    /// Tells every observer about the current state, one after the other.
    pub fn notify_observers(&self) -> BoxFuture<'_, ()> {
        Box::pin(async move {
            let state = self.state.load_full();
            let observers = self.observers.get().into_iter().flatten();
            for observer in observers.filter_map(Weak::upgrade) {
                observer.state_changed(&state).await;
            }
        })
    }

    /// Returns the home of the kernel.
    #[must_use]
    pub fn home(&self) -> &Home {
        &self.home
    }

    /// Returns the report of the start, updated by later reloads.
    #[must_use]
    pub fn report(&self) -> Arc<LoadReport> {
        Arc::clone(&self.state.load().report)
    }

    /// Returns the events of the home.
    #[must_use]
    pub fn events(&self) -> &EventBus {
        &self.events
    }

    /// Returns the time limits.
    #[must_use]
    pub fn limits(&self) -> &KernelLimits {
        &self.limits
    }

    /// Returns the secrets of the home.
    #[must_use]
    pub fn secrets(&self) -> &SecretStore {
        &self.secrets
    }

    /// Returns the files that belong to the executable, if they were found.
    #[must_use]
    pub fn installation(&self) -> Option<&Installation> {
        self.installation.as_ref()
    }

    /// Returns the settings of the start, or of the last reload.
    #[must_use]
    pub fn settings(&self) -> Arc<Settings> {
        self.settings.load_full()
    }

    /// Puts settings in force.
    pub fn replace_settings(&self, settings: Arc<Settings>) {
        self.settings.store(settings);
    }

    /// Returns the file from which a reload reads the settings again.
    #[must_use]
    pub fn settings_file(&self) -> Option<&Path> {
        self.settings_file.as_deref()
    }

    /// Returns the loaded extensions and agents. As long as the caller has them, none of the
    /// extensions ends completely.
    #[must_use]
    pub fn state(&self) -> Arc<KernelState> {
        self.state.load_full()
    }

    /// Replaces the loaded extensions and agents. The caller holds the lock for changes.
    pub fn replace_state(&self, state: KernelState) {
        self.state.store(Arc::new(state));
    }

    /// Waits until no other change of the loaded extensions is in progress, and starts one. It ends
    /// when the guard is dropped.
    pub fn lock_changes(&self) -> BoxFuture<'_, MutexGuard<'_, ()>> {
        Box::pin(async move { self.changes.lock().await })
    }

    /// Selects a pinned part of the current state. `choose` returns `None` if an instance is
    /// already ending, and is then called again with the state that replaced it.
    pub fn pin_state<T>(&self, choose: impl Fn(&Arc<KernelState>) -> Option<T>) -> T {
        loop {
            if let Some(chosen) = choose(&self.state.load()) {
                return chosen;
            }
        }
    }

    /// Pins an extension; `None` if it is not loaded.
    pub fn pin_instance(&self, id: &str) -> Option<PinnedInstance> {
        self.pin_state(|state| match state.instances.get(id) {
            Some(instance) => instance.pin().map(Some),
            None => Some(None),
        })
    }

    /// Returns an id for a call, unique in this process.
    pub fn next_call_id(&self) -> u64 {
        self.call_ids.fetch_add(1, Ordering::Relaxed)
    }

    /// Lists the tools that one caller may see, sorted by name, and the errors of extensions that
    /// failed to list theirs. `wanted` filters by owner and name.
    pub fn list_tools<'a>(
        &'a self,
        context: &'a CallContext,
        wanted: &'a (dyn Fn(&ExtensionId, &str) -> bool + Sync),
    ) -> BoxFuture<'a, ListedTools> {
        Box::pin(async move {
            let is_wanted = |instance: &Instance| {
                instance.specs.iter().any(|spec| wanted(&instance.manifest.id, &spec.name))
            };
            // The state is dropped before the pins.
            let (instances, state) = self.pin_state(|state| {
                let chosen = state.instances.values().filter(|instance| is_wanted(instance));
                let pinned: Option<Vec<_>> = chosen.map(Instance::pin).collect();
                Some((pinned?, Arc::clone(state)))
            });
            let (mut tools, mut failures) = (Vec::new(), Vec::new());
            for instance in &instances {
                let id = &instance.manifest.id;
                let owned = |name: &str| {
                    let found = state.tools.find(name, context.origin).ok();
                    // A later list may contain names that belong to other extensions.
                    found.filter(|entry| entry.owner == *id)
                };
                match instance.tools(context, &self.limits).await {
                    Ok(specs) => tools.extend(
                        specs.into_iter().filter(|spec| wanted(id, &spec.name)).filter_map(
                            |spec| {
                                // The kernel enforces the annotations of the table, so the caller gets the
                                // same ones.
                                let known = &owned(&spec.name)?.spec;
                                let mut spec = ToolSpec {
                                    read_only: known.read_only,
                                    destructive: known.destructive,
                                    needs_approval: known.needs_approval,
                                    audience: known.audience,
                                    changes_skills: known.changes_skills,
                                    effect: known.effect,
                                    task: known.task,
                                    needs: known.needs.clone(),
                                    ..spec
                                };
                                sanitize_tool(&mut spec);
                                Some(OwnedTool { extension: id.clone(), skill: None, spec })
                            },
                        ),
                    ),
                    Err(error) => failures.push((id.clone(), error)),
                }
            }
            let others = state.tools.builtin_entries().filter(|entry| {
                entry.is_offered_to(context.origin) && wanted(&entry.owner, &entry.spec.name)
            });
            tools.extend(others.map(|entry| {
                let mut spec = ToolSpec::clone(&entry.spec);
                // An agent's tool is described by its manifest, which another agent may have written.
                sanitize_tool(&mut spec);
                OwnedTool { extension: entry.owner.clone(), skill: None, spec }
            }));
            // A tool of an extension precedes a program of its name.
            let programs = match self.program_source.get() {
                // Clients of the MCP server are never offered code of skills.
                Some(source) if context.origin != CallOrigin::Mcp => {
                    source.refresh().await;
                    source.list(context).await
                }
                _ => Vec::new(),
            };
            let programs = programs.into_iter().filter(|tool| {
                wanted(&tool.extension, &tool.spec.name)
                    && state.tools.owner(&tool.spec.name).is_none()
            });
            tools.extend(programs.map(|mut tool| {
                sanitize_tool(&mut tool.spec);
                tool
            }));
            tools.sort_by(|a, b| a.spec.name.cmp(&b.spec.name));
            (tools, failures)
        })
    }

    /// Requests the block of a single context provider, as a turn does for each.
    ///
    /// # Errors
    /// [`KernelError::NotFound`] if it is not loaded, [`KernelError::Call`] with its error.
    pub fn context_block<'a>(
        &'a self,
        extension: &'a str,
        context: &'a CallContext,
        prompt: &'a str,
    ) -> BoxFuture<'a, Result<Option<String>, KernelError>> {
        Box::pin(async move {
            let instance = self
                .pin_instance(extension)
                .ok_or_else(|| self.unknown_extension_error(extension))?;
            Ok(instance.get_context(context, prompt, self.limits.context).await?)
        })
    }

    /// Runs the health check of every extension.
    pub fn check_health(&self) -> BoxFuture<'_, Vec<(ExtensionId, Result<(), CallError>)>> {
        Box::pin(async move {
            let instances: Vec<_> =
                self.pin_state(|state| state.instances.values().map(Instance::pin).collect());
            let checks = instances.iter().map(|instance| async move {
                (instance.manifest.id.clone(), instance.health_check(&self.limits).await)
            });
            futures::future::join_all(checks).await
        })
    }

    /// Describes the isolation that this machine offers to foreign code.
    ///
    /// # Errors
    /// [`CallError`] if the task that asks the system fails.
    pub fn describe_isolation(&self) -> BoxFuture<'_, Result<MachineIsolation, CallError>> {
        spawn_blocking(|| SandboxLauncher::default().describe_machine())
    }

    /// Notifies every extension of a changed log filter.
    pub fn log_filter_changed(&self) {
        for instance in self.state.load().instances.values() {
            instance.log_filter_changed();
        }
    }

    /// Returns the arguments of an extension's creation.
    pub(crate) fn build_extension_init(
        &self,
        found: &DiscoveredManifest,
        settings: &Settings,
    ) -> ExtensionInit {
        let manifest = &found.manifest;
        ExtensionInit {
            id: manifest.id.to_string(),
            home: self.home.root().to_owned(),
            data_dir: self.home.data_dir(manifest.id.as_str()),
            share_dir: self.installation.as_ref().and_then(|i| i.share_dir.clone()),
            config: settings.extension_config(manifest),
            depends_on: manifest.depends_on.iter().map(|d| d.id.to_string()).collect(),
        }
    }

    /// Returns the error of an extension that is not loaded, with similar names.
    #[must_use]
    pub fn unknown_extension_error(&self, id: &str) -> KernelError {
        let state = self.state.load();
        let rejected = state.report.rejected.iter().map(|rejection| rejection.id.as_str());
        let known = state.instances.keys().map(ExtensionId::as_str).chain(rejected);
        let similar = suggest_similar(id, known);
        KernelError::NotFound { what: NamedObject::Extension, id: id.to_owned(), similar }
    }

    /// Starts an instance's service; an error at its end is published as an event.
    pub(crate) fn start_service(self: &Arc<Self>, instance: &Arc<Instance>) {
        let (host, id) = (Arc::downgrade(self), instance.manifest.id.clone());
        instance.start_service(move |error| {
            tracing::error!(%id, %error, "the service failed");
            if let Some(host) = host.upgrade() {
                let payload = serde_json::json!({ "id": id.as_str(), "reason": error.message });
                tokio::spawn(async move {
                    host.events.publish_kernel_event(topic::SERVICE_FAILED, &payload).await;
                });
            }
        });
    }

    /// Starts every background service, in load order. Returns false, without an effect, if they
    /// were started before.
    pub fn start_services(self: &Arc<Self>) -> BoxFuture<'_, bool> {
        Box::pin(async move {
            let _guard = self.lock_changes().await;
            if self.services_run.swap(true, Ordering::SeqCst) {
                return false;
            }
            let state = self.state.load();
            for id in &state.order {
                self.start_service(&state.instances[id]);
            }
            true
        })
    }

    /// Shuts every extension down in reverse load order, one after the other: service, calls in
    /// flight, `stop`, runtime. The dependencies of an extension are available until its own end.
    /// Then closes the journal of events.
    pub fn shutdown(&self) -> BoxFuture<'_, ()> {
        Box::pin(async move {
            let _guard = self.lock_changes().await;
            loop {
                let mut next = KernelState::clone(&self.state.load());
                let Some(last) = next.order.last().cloned() else { break };
                let taken = next.remove_instance(&last);
                // Stored before the shutdown, so that no new call finds the extension.
                self.state.store(Arc::new(next));
                if let Some(instance) = taken {
                    instance.shutdown(&self.limits).await;
                }
            }
            self.events.journal().close().await;
        })
    }
}
