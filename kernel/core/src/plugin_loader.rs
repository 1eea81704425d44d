//! The interface by which extensions of one kind are created.

use async_trait::async_trait;
use skillhost_home::{DiscoveredManifest, Home, SecretStore, Settings};
use skillhost_manifest::ExtensionKind;
use skillhost_payload::ExtensionInit;

use crate::extension_calls::ExtensionCalls;
use crate::limits::KernelLimits;
use crate::load_error::ExtensionLoadError;
use crate::plugin::LoadedPlugin;

/// A loader of the extensions of one kind. The extension host itself loads libraries.
#[async_trait]
pub trait PluginLoader: Send + Sync {
    /// Returns whether it loads extensions of a kind.
    fn loads(&self, kind: &ExtensionKind) -> bool;

    /// Finds, checks and creates an extension, which is not started yet.
    ///
    /// # Errors
    /// [`ExtensionLoadError`]; then no code of the extension runs.
    async fn load(&self, context: &LoadContext<'_>) -> Result<LoadedPlugin, ExtensionLoadError>;
}

/// An extension to load, and what its loader may know of the kernel.
pub struct LoadContext<'a> {
    /// The manifest and its files.
    pub found: &'a DiscoveredManifest,
    /// The settings in force.
    pub settings: &'a Settings,
    /// The home of the kernel.
    pub home: &'a Home,
    /// The secrets of the home.
    pub secrets: &'a SecretStore,
    /// Timeouts for calls into extensions.
    pub limits: &'a KernelLimits,
    /// The arguments of its creation.
    pub init: ExtensionInit,
    /// The calls that the extension may make.
    pub calls: ExtensionCalls,
}
