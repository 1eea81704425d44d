//! Agents that run: a scripted model, real libraries for tools, every request looked at.

mod consent;
mod delegation;
mod foreign_text;
mod kernel_tools;
mod limits;
mod messages;
mod skills;
mod stage;
mod turns;
