//! Differences between texts: applied, made, merged.
