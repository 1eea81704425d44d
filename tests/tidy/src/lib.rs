//! Checks of the invariants in ARCHITECTURE.md.
