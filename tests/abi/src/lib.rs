//! Misbehaving libraries against the real loader.
