//! A library that is built for a later contract. Only its version may be read, because its root is
//! not a header.
#![expect(unsafe_code, reason = "exported symbols are unsafe attributes")]

/// Contract 2.0: the major version in the upper 16 bits.
// SAFETY: no other symbol of this library has the name.
#[unsafe(export_name = "skillhost_contract_version")]
pub static VERSION: u32 = 2 << 16;

/// An invalid header.
// SAFETY: as above.
#[unsafe(export_name = "skillhost_extension_root")]
pub static ROOT: u32 = 0;
