//! The contract version and the symbols a library exports.

use std::fmt;

/// A contract version: equal majors and `extension.minor >= kernel.minor` may meet.
///
/// The rule is one-way because a prefix type may grow: a library built against a newer minor has
/// every field an older kernel asks for, the reverse does not hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ContractVersion {
    /// Incremented by every incompatible change.
    pub major: u16,
    /// Incremented by every field added at the end of a prefix type.
    pub minor: u16,
}

/// The version this crate describes; it is the crate's own version.
pub const CONTRACT: ContractVersion = ContractVersion { major: 1, minor: 0 };

/// Name of the `u32` static every library exports, readable before any layout is trusted.
pub const VERSION_SYMBOL: &str = "skillhost_contract_version";

/// Name of the `abi_stable` library header every library exports.
pub const ROOT_SYMBOL: &str = "skillhost_extension_root";

impl ContractVersion {
    /// Packs the version into the value of [`VERSION_SYMBOL`]: major in the upper 16 bits.
    #[must_use]
    pub const fn pack(self) -> u32 {
        (self.major as u32) << 16 | self.minor as u32
    }

    /// Reads a value of [`VERSION_SYMBOL`].
    #[must_use]
    pub const fn unpack(packed: u32) -> Self {
        Self { major: (packed >> 16) as u16, minor: (packed & 0xffff) as u16 }
    }

    /// Tells whether a library built for `self` may be loaded by a kernel that speaks `kernel`.
    #[must_use]
    pub const fn loads_in(self, kernel: Self) -> bool {
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
    fn pack_and_unpack_are_inverse() {
        let version = ContractVersion { major: 3, minor: 7 };
        assert_eq!(version.pack(), 0x0003_0007);
        assert_eq!(ContractVersion::unpack(version.pack()), version);
    }

    #[test]
    fn compatibility_runs_one_way() {
        let v = |major, minor| ContractVersion { major, minor };
        assert!(v(1, 2).loads_in(v(1, 2)));
        assert!(v(1, 3).loads_in(v(1, 2)));
        assert!(!v(1, 1).loads_in(v(1, 2)));
        assert!(!v(2, 2).loads_in(v(1, 2)));
    }

    #[test]
    fn the_constant_is_the_crate_version() {
        assert!(env!("CARGO_PKG_VERSION").starts_with(&format!("{CONTRACT}.")));
    }
}
