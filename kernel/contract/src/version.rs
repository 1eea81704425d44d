//! The contract version and the symbols that a library exports.

use std::fmt;

/// A contract version; compatible if majors are equal and `extension.minor >= kernel.minor`.
///
/// The rule is one-way because a prefix type may grow: a library built against a newer minor has
/// every field that an older kernel reads, the reverse does not hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ContractVersion {
    /// Incremented by every incompatible change.
    pub major: u16,
    /// Incremented by every field added at the end of a prefix type.
    pub minor: u16,
}

/// The version that this crate describes; equal to the crate's own version.
pub const CONTRACT: ContractVersion = ContractVersion { major: 1, minor: 0 };

/// Name of the `u32` static that every library exports, readable before any layout is trusted.
pub const VERSION_SYMBOL: &str = "skillhost_contract_version";

/// Name of the `abi_stable` library header that every library exports.
pub const ROOT_SYMBOL: &str = "skillhost_extension_root";

impl ContractVersion {
    /// Packs the version into the value of [`VERSION_SYMBOL`]: major in the upper 16 bits.
    #[must_use]
    pub const fn pack(self) -> u32 {
        // `u32::from` is not const.
        (self.major as u32) << 16 | self.minor as u32
    }

    /// Unpacks a value of [`VERSION_SYMBOL`].
    #[must_use]
    pub const fn unpack(packed: u32) -> Self {
        Self { major: (packed >> 16) as u16, minor: (packed & 0xffff) as u16 }
    }

    /// Returns whether a kernel of version `kernel` may load a library built for `self`.
    #[must_use]
    pub const fn is_loadable_by(self, kernel: Self) -> bool {
        // One-way: an older library lacks fields at the end of prefix types that this kernel reads.
        self.major == kernel.major && self.minor >= kernel.minor
    }
}

impl fmt::Display for ContractVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.major, self.minor)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pack_unpack_round_trip() {
        let version = ContractVersion { major: 3, minor: 7 };
        assert_eq!(version.pack(), 0x0003_0007);
        assert_eq!(ContractVersion::unpack(version.pack()), version);
    }

    #[test]
    fn compatibility_is_one_way() {
        let v = |major, minor| ContractVersion { major, minor };
        assert!(v(1, 2).is_loadable_by(v(1, 2)));
        assert!(v(1, 3).is_loadable_by(v(1, 2)));
        assert!(!v(1, 1).is_loadable_by(v(1, 2)));
        assert!(!v(2, 2).is_loadable_by(v(1, 2)));
    }

    #[test]
    fn constant_equals_crate_version() {
        assert!(env!("CARGO_PKG_VERSION").starts_with(&format!("{CONTRACT}.")));
    }
}
