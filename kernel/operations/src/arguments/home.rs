//! The arguments of `skillhost init` and `skillhost trust`.

use std::path::PathBuf;

use clap::Args;

/// The arguments of `skillhost init`.
#[derive(Debug, Args)]
pub struct InitArgs {
    /// Directory of the home; created if it does not exist
    #[arg(value_name = "DIR")]
    pub(crate) dir: PathBuf,
}

/// The arguments of `skillhost trust`.
#[derive(Debug, Args)]
pub struct TrustArgs {
    /// Home directory [default: the home of the working directory]
    #[arg(value_name = "DIR")]
    pub(crate) dir: Option<PathBuf>,
    /// List the trusted homes
    #[arg(long, conflicts_with = "dir")]
    pub(crate) list: bool,
    /// Remove the trust of a home
    #[arg(long, conflicts_with = "list")]
    pub(crate) remove: bool,
}
