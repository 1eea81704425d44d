//! Times as text, in UTC.

/// A point in time, divided into the fields of the Gregorian calendar.
struct DateParts {
    year: i64,
    month: i64,
    day: i64,
    hour: i64,
    minute: i64,
    second: i64,
    milli: i64,
}

/// Converts milliseconds since 1970. After the algorithm `civil_from_days` of Howard Hinnant's
/// "chrono-Compatible Low-Level Date Algorithms": years begin in March, so that the leap day is
/// their last.
fn date_parts(ms: i64) -> DateParts {
    // `div_euclid` rounds down also for times before 1970.
    let (days, in_day) = (ms.div_euclid(86_400_000), ms.rem_euclid(86_400_000));
    // Days between 0000-03-01 and 1970-01-01; 146,097 days are the 400 years of a cycle.
    let shifted = days + 719_468;
    let era = shifted.div_euclid(146_097);
    let of_era = shifted.rem_euclid(146_097);
    let year_of_era = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    // Months from March on follow a linear pattern: 153 days in every five of them.
    let shifted_month = (5 * of_year + 2) / 153;
    let month = if shifted_month < 10 { shifted_month + 3 } else { shifted_month - 9 };
    DateParts {
        year: year_of_era + era * 400 + i64::from(month <= 2),
        month,
        day: of_year - (153 * shifted_month + 2) / 5 + 1,
        hour: in_day / 3_600_000,
        minute: in_day / 60_000 % 60,
        second: in_day / 1_000 % 60,
        milli: in_day % 1_000,
    }
}

/// Formats a time, in milliseconds since 1970, as RFC 3339.
#[must_use]
pub fn format_rfc3339(ms: i64) -> String {
    let DateParts { year, month, day, hour, minute, second, milli } = date_parts(ms);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{milli:03}Z")
}

/// Formats a time, in milliseconds since 1970, for use in a file name.
#[must_use]
pub fn format_compact_time(ms: i64) -> String {
    let DateParts { year, month, day, hour, minute, second, milli } = date_parts(ms);
    format!("{year:04}{month:02}{day:02}T{hour:02}{minute:02}{second:02}.{milli:03}Z")
}

/// Formats a time, in milliseconds since 1970, for a table: to the minute.
#[must_use]
pub fn format_minute(ms: i64) -> String {
    let DateParts { year, month, day, hour, minute, .. } = date_parts(ms);
    format!("{year:04}-{month:02}-{day:02} {hour:02}:{minute:02}")
}

/// Formats a time, in milliseconds since 1970, for a table: to the second.
#[must_use]
pub fn format_second(ms: i64) -> String {
    format!("{}:{:02}", format_minute(ms), date_parts(ms).second)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_formatted() {
        for (ms, name) in [
            (0, "1970-01-01T00:00:00.000Z"),
            (951_782_400_000, "2000-02-29T00:00:00.000Z"),
            (1_795_312_696_789, "2026-11-22T01:58:16.789Z"),
            (4_107_542_399_999, "2100-02-28T23:59:59.999Z"),
            (-1, "1969-12-31T23:59:59.999Z"),
        ] {
            assert_eq!(format_rfc3339(ms), name);
        }
        assert_eq!(format_compact_time(1_795_312_696_789), "20261122T015816.789Z");
        assert_eq!(format_minute(1_795_312_696_789), "2026-11-22 01:58");
        assert_eq!(format_second(1_795_312_696_789), "2026-11-22 01:58:16");
    }
}
