//! The built `skillhost` with its built libraries, each test on a home of its own.
//!
//! One module per area; a file that is not named here is found by tests/tidy.
#![expect(clippy::unwrap_used, reason = "a scene that cannot be set up fails its test")]

mod agent;
mod agents_chat;
mod agents_faults;
mod agents_flows;
mod agents_scene;
mod ask;
mod bad_home;
mod bad_library;
mod bad_manifest;
mod bad_skill;
mod command_line;
mod config;
mod conventions;
mod core_tools;
mod cost;
mod doctor;
mod export;
mod ext;
mod graph;
mod improvement;
mod install;
mod lint_cli;
mod mcp;
mod mcp_client;
mod mcp_hostile;
mod mcp_http;
mod mcp_reload;
mod models;
mod paths;
mod proposals;
mod propose;
mod reference;
mod reload;
mod render;
mod review;
mod reviewer;
mod rules;
mod run;
mod scaffold;
mod scene;
mod scope;
mod search_hostile;
mod skill;
mod skill_doctor;
mod skill_fmt;
mod skill_search;
mod tool;
mod triads;
mod trust;
mod validate;
mod validate_hostile;
