//! The arguments of `skillhost model`.

use clap::{Args, Subcommand};

#[derive(Debug, Subcommand)]
pub(crate) enum ModelCommand {
    /// List providers, configured models and the agents that use them
    #[command(visible_alias = "ls")]
    List,
    /// Send a minimal request to each model; exit 1 on a failure
    Check(CheckArgs),
}

#[derive(Debug, Args)]
pub(crate) struct CheckArgs {
    /// Models as PROVIDER/MODEL [default: the models of agents]
    #[arg(value_name = "NAME")]
    pub(crate) names: Vec<String>,
}
