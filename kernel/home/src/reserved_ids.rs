//! Ids that no extension can have.

/// The owner of the kernel's own tools.
pub const KERNEL_OWNER: &str = "kernel";

/// The name in `uses_tools` for all extensions in `sandbox/extensions`; reserved as an id.
pub const ADDED: &str = "sandbox";

/// The reserved ids.
pub const RESERVED_IDS: [&str; 2] = [KERNEL_OWNER, ADDED];
