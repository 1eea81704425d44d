//! The unit tests of the tool template; a program of its own, because each exports the same symbols.

#[path = "../../../sandbox/skills/extension-development/templates/tool-provider/src/lib.rs"]
mod template;
