//! The unit tests of the service template; a program of its own, because each exports the same symbols.

#[path = "../../../sandbox/skills/extension-development/templates/service-provider/src/lib.rs"]
mod template;
