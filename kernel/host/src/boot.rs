//! The start of a kernel: discovers, plans and loads extensions, resolves agents, starts services.

use futures::future::BoxFuture;
use skillhost_core::spawn_blocking;
use skillhost_home::{
    DiscoveryResult, Home, SecretStore, Settings, load_operator_policy, retire_installed_record,
    secure_data_dir,
};

use crate::kernel::Kernel;
use crate::options::BootOptions;
use crate::retry::retry_failed_processes;

impl Kernel {
    /// Starts a kernel. A failed extension is listed in [`Kernel::report`] and does not stop the
    /// others. Background services wait for [`Kernel::start_services`].
    ///
    /// Must be called on a multi-thread tokio runtime with time enabled.
    pub fn boot(options: BootOptions) -> BoxFuture<'static, Self> {
        Box::pin(async move {
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
            found.notes.extend(containment_notes(&options.home, &options.settings));
            let kernel = Self::assemble(options, secrets);
            kernel.agents().load_all(found).await;
            kernel
        })
    }

    /// Starts every background service, in load order; a second call has no effect. Separate from
    /// the boot, so that the caller can subscribe to [`Kernel::events`] before the first event is
    /// published.
    pub fn start_services(&self) -> BoxFuture<'_, ()> {
        Box::pin(async move {
            if self.extensions().start_services().await {
                retry_failed_processes(self.agents(), self.stop_token());
            }
        })
    }
}

fn unknown_extension_notes(settings: &Settings, found: &DiscoveryResult) -> Vec<String> {
    let known =
        |id: &str| found.manifests.contains_key(id) || found.rejected.iter().any(|r| r.id == id);
    let sandbox = &settings.sandbox;
    let plain = settings.extensions.keys().map(|id| ("extensions.", id));
    let contained = sandbox.extensions.keys().map(|id| ("sandbox.extensions.", id));
    let listed = sandbox.unsandboxed.iter().map(|id| ("sandbox.unsandboxed: ", id));
    plain
        .chain(contained)
        .chain(listed)
        .filter(|(_, id)| !known(id))
        .map(|(key, id)| format!("skillhost.yaml: {key}{id}: extension not installed"))
        .collect()
}

/// Returns what the operator has exempted from containment, and remarks on the policy file.
fn containment_notes(home: &Home, settings: &Settings) -> Vec<String> {
    let mut notes = settings.sandbox.describe_exceptions();
    // An error is not a remark: the diagnosis has it, with what has changed since.
    notes.extend(load_operator_policy(home).into_iter().flat_map(|operator| operator.notes));
    notes
}
