//! How an extension becomes part of a kernel.

/// The code that an extension shares with the kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Linkage {
    /// None: the extension is a library, with its own copies of `tracing` and of the panic hook.
    Library,
    /// All: the extension is part of the program, whose subscriber and panic hook it uses.
    Bundled,
}
