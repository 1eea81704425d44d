//! The arguments of `skillhost service`.

use clap::{Args, Subcommand, ValueEnum};

/// The commands of `skillhost service`.
#[derive(Debug, Subcommand)]
pub enum ServiceCommand {
    /// Print the definition that a service manager needs
    ///
    /// It runs the supervised kernel of the home for the present user. Nothing is installed.
    Install(ServiceInstallArgs),
}

/// The arguments of `skillhost service install`.
#[derive(Debug, Args)]
pub struct ServiceInstallArgs {
    /// Print the definition; by default in the format of this system
    #[arg(long, required = true, value_enum, value_name = "FORMAT")]
    pub(crate) print: Option<Option<ServiceFormat>>,
}

/// A format of service definitions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum ServiceFormat {
    /// A user unit of systemd
    Systemd,
    /// A property list of launchd
    Launchd,
}
