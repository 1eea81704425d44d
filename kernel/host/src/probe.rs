//! The trial of one extension in a process of its own.

use std::path::Path;

use futures::future::BoxFuture;
use skillhost_core::{ProbeError, ProbeReport};
use skillhost_home::SecretStore;

use crate::kernel::Kernel;
use crate::options::BootOptions;

/// Loads the extension of one manifest as a kernel would, lists its tools and shuts it down. The
/// extension's code runs in the caller's process, which should have no other purpose.
///
/// The home of the options contains the extension's data directory, and is not used otherwise.
///
/// # Errors
/// [`ProbeError`] with the phase in which a kernel would have rejected it.
pub fn probe_extension(
    options: BootOptions,
    manifest: &Path,
) -> BoxFuture<'_, Result<ProbeReport, ProbeError>> {
    Box::pin(async move {
        let kernel = Kernel::assemble(options, SecretStore::default());
        skillhost_core::probe_extension(kernel.extensions(), manifest).await
    })
}
