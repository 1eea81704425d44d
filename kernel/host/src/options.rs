//! The options of a kernel.

use std::path::PathBuf;
use std::sync::Arc;

use skillhost_conversation::{ModelSource, NoModels};
use skillhost_core::{BundledExtension, ExtensionBuilder, KernelLimits, NoBuilder, PluginLoader};
use skillhost_home::{Home, Installation, Settings};

/// The options of a kernel.
#[derive(Clone)]
pub struct BootOptions {
    /// The home. The caller is responsible for its trust.
    pub home: Home,
    /// The settings in force.
    pub settings: Settings,
    /// The file from which a reload reads the settings again; without it they remain.
    pub settings_file: Option<PathBuf>,
    /// The files that belong to the executable, if they were found.
    pub installation: Option<Installation>,
    /// The extensions that are part of the program, for which no library is required.
    pub bundled: &'static [BundledExtension],
    /// Timeouts for calls into extensions.
    pub limits: KernelLimits,
    /// The source of agents' models.
    pub models: Arc<dyn ModelSource>,
    /// The loaders of the other kinds of extensions than libraries.
    pub loaders: Vec<Arc<dyn PluginLoader>>,
    /// A supervisor restarts the kernel on request.
    pub supervised: bool,
    /// The builder of extensions.
    pub builder: Arc<dyn ExtensionBuilder>,
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
            bundled: &[],
            limits: KernelLimits::default(),
            models: Arc::new(NoModels),
            loaders: Vec::new(),
            supervised: false,
            builder: Arc::new(NoBuilder),
        }
    }
}
