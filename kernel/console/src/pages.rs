//! The pages, one module each.

pub(crate) mod channels;
pub(crate) mod events;
pub(crate) mod extensions;
pub(crate) mod inbox;
pub(crate) mod login;
pub(crate) mod overview;
pub(crate) mod proposals;
pub(crate) mod schedules;
pub(crate) mod settings;
pub(crate) mod skill;
pub(crate) mod skill_editor;
pub(crate) mod skill_versions;
pub(crate) mod skills;
pub(crate) mod task;
pub(crate) mod tasks;
pub(crate) mod thread;
pub(crate) mod thread_api;
pub(crate) mod threads;
