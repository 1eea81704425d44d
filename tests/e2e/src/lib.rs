//! End-to-end tests of the built binary and libraries.
