//! Diffs as models write them, real ones, and those that nobody should apply.

// `cfg(test)` tells clippy that the helpers beside the tests are tests, too.
#[cfg(test)]
mod corpus;
#[cfg(test)]
mod properties;
#[cfg(test)]
mod refusals;
