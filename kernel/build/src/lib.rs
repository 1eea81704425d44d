//! Checks, builds and installs extensions that agents or operators write.
