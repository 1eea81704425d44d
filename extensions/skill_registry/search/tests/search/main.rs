//! Tests of the ranking against its formula, and of the index against a new one.

mod catalog;
mod changes;
mod examples;
mod formula;
mod hostile;
mod meaning;
mod naive;
