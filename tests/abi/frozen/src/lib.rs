//! The stable plugin surface of skillhost.
//!
//! Two sides meet here and nowhere else: extensions (through `skillhost-sdk`) and the kernel
//! (`skillhost-kernel`). The crate holds three things:
//!
//! - [`version`]: the contract's own version and the names of the two symbols a library exports;
//! - [`abi`]: the objects and structs whose memory layout is checked when a library is loaded;
//! - [`payload`]: the shapes of the JSON text that travels inside them.
//!
//! Layouts are frozen within a contract version. New kinds of providers go through
//! [`abi::ExtensionAbi::call`] and new optional payload fields through serde defaults, so that the
//! layouts rarely have to change. See the README for what is deliberately *not* here.

pub mod abi;
pub mod payload;
pub mod version;
