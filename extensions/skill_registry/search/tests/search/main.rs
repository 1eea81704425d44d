//! The ranking against its formula, and the index against itself.

mod catalog;
mod changes;
mod examples;
mod formula;
mod hostile;
mod meaning;
mod naive;
