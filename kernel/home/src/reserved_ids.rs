//! Ids that no extension can have.

/// The owner of the kernel's own tools.
pub const KERNEL_OWNER: &str = "kernel";

/// The owner of the kernel's tools for background tasks.
const TASKS_OWNER: &str = "tasks";

/// The name in `uses_tools` for all extensions in `sandbox/extensions`; reserved as an id.
pub const ADDED: &str = "sandbox";

/// The source of events that the operator's clients cause; reserved as an id, so that no extension
/// publishes in the operator's name.
pub const OPERATOR_SOURCE: &str = "operator";

/// The reserved ids.
pub const RESERVED_IDS: [&str; 4] = [KERNEL_OWNER, TASKS_OWNER, ADDED, OPERATOR_SOURCE];
