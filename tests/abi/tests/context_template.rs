//! The unit tests of the context template; a program of its own, because each exports the same symbols.

#[path = "../../../sandbox/skills/extension-development/templates/context-provider/src/lib.rs"]
mod template;
