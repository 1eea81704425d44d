//! Runs of agents: a scripted model, real libraries for tools, checks of every request.

mod consent;
mod declared;
mod delegation;
mod effects;
mod foreign_text;
mod kernel_tools;
mod limits;
mod messages;
mod skills;
mod stage;
mod turns;
