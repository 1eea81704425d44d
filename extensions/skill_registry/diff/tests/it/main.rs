//! Tests with diffs as models write them, real ones, and those that must be rejected.

// With `cfg(test)`, clippy treats the helper functions as tests, too.
#[cfg(test)]
mod corpus;
#[cfg(test)]
mod properties;
#[cfg(test)]
mod refusals;
