//! What `skillhost models` does, as clap reads it.

use clap::{Args, Subcommand};

#[derive(Debug, Subcommand)]
pub(crate) enum ModelsCommand {
    /// List providers, the models that settings know, and which agent runs on which
    List,
    /// Send one tiny request to each model; exit 1 when one does not answer
    Check(CheckArgs),
}

#[derive(Debug, Args)]
pub(crate) struct CheckArgs {
    /// Models as provider/model [default: those that agents run on]
    #[arg(value_name = "NAME")]
    pub(crate) names: Vec<String>,
}
