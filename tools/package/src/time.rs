//! Times in the formats of packages.

use time::OffsetDateTime;
use time::format_description::well_known::{Rfc2822, Rfc3339};

use crate::Result;

/// Formats seconds since 1970 for Debian's changelog, such as `Thu, 01 Jan 1970 00:00:00 +0000`.
///
/// # Errors
/// The time is after the year 9999.
pub fn format_rfc2822(time: u64) -> Result<String> {
    Ok(OffsetDateTime::from_unix_timestamp(time.try_into()?)?.format(&Rfc2822)?)
}

/// Formats seconds since 1970 for images and bills of materials, such as `1970-01-01T00:00:00Z`.
///
/// # Errors
/// The time is after the year 9999.
pub fn format_rfc3339(time: u64) -> Result<String> {
    Ok(OffsetDateTime::from_unix_timestamp(time.try_into()?)?.format(&Rfc3339)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_formats_of_packages() {
        assert_eq!(format_rfc2822(951_782_400).unwrap(), "Tue, 29 Feb 2000 00:00:00 +0000");
        assert_eq!(format_rfc3339(1_700_000_000).unwrap(), "2023-11-14T22:13:20Z");
        format_rfc3339(u64::MAX).unwrap_err();
    }
}
