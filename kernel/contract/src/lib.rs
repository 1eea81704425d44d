//! The stable plugin interface of skillhost.
//!
//! It is the only interface between extensions (through `skillhost-sdk`) and the kernel
//! (`skillhost-core`). The crate has two modules:
//!
//! - [`version`]: the contract's own version and the names of the two symbols a library exports;
//! - [`abi`]: the objects and structs whose memory layout is checked when a library is loaded.
//!
//! `skillhost-payload` has the types of the JSON text that crosses the boundary inside them.
//!
//! Layouts are frozen within a contract version. New kinds of providers go through
//! [`abi::ExtensionAbi::call`] and new optional payload fields through serde defaults, so that the
//! layouts rarely have to change. The README lists what is deliberately *not* here.

pub mod abi;
pub mod version;
