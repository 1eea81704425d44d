//! A library built for a contract of the future. Nothing of it but the version may be touched: the
//! root is no header at all.
#![expect(unsafe_code, reason = "exported symbols are unsafe attributes")]

/// Contract 2.0: the major version in the upper 16 bits.
// SAFETY: nothing else in this library has the name.
#[unsafe(export_name = "skillhost_contract_version")]
pub static VERSION: u32 = 2 << 16;

/// Not a header.
// SAFETY: as above.
#[unsafe(export_name = "skillhost_extension_root")]
pub static ROOT: u32 = 0;
