//! Tests of the stores through their public interface.

#[path = "it/sqlite_file.rs"]
mod sqlite_file;
