//! Cron patterns: validation and computation of times.

use std::fmt;

use croner::Cron;
use croner::parser::{CronParser, Seconds, Year};
use jiff::tz::{TimeZone, TimeZoneDatabase};
use jiff::{Timestamp, Zoned, civil};

/// The five fields of a pattern: name, range and maximum.
const FIELDS: [(&str, &str, u32); 5] = [
    ("minute", "0-59", 59),
    ("hour", "0-23", 23),
    ("day of the month", "1-31", 31),
    ("month", "1-12 or JAN-DEC", 12),
    ("day of the week", "0-7 or SUN-SAT", 7),
];

/// The maximum length of a pattern, in bytes.
// Patterns are short; longer text never reaches the parser.
const MAX_PATTERN_LEN: usize = 256;

/// An error in a cron pattern. Displays as a phrase that follows the pattern.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum CronError {
    /// The number of fields is not five.
    Fields {
        /// The number of fields.
        found: usize,
    },
    /// A field is not valid.
    Field {
        /// The name of the field.
        name: &'static str,
        /// The text of the field.
        text: String,
        /// The range of its numbers.
        range: &'static str,
    },
    /// Each field is valid, but no day of any year matches all of them.
    Never,
}

impl fmt::Display for CronError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const FIVE: &str = "minute, hour, day of the month, month, day of the week";
        match self {
            Self::Fields { found: 6 | 7 } => {
                write!(f, "has seconds or years; a pattern has five fields: {FIVE}")
            }
            Self::Fields { found } => {
                let fields = if *found == 1 { "field" } else { "fields" };
                write!(f, "has {found} {fields}; a pattern has five: {FIVE}")
            }
            Self::Field { name, text, range } => write!(
                f,
                "is not valid: `{}` is not a valid {name}; write {range}, `*`, or lists (`1,5`), \
                 ranges (`1-5`) and steps (`*/5`) of them",
                crate::error::display_safe(text),
            ),
            Self::Never => f.write_str("never fires: the day exists in no year"),
        }
    }
}

/// A cron pattern in a time zone.
///
/// If the clock is set forward, a time in the gap fires at the end of the gap; when it is set
/// back, a fixed time fires once.
#[derive(Debug, Clone)]
pub struct CronSchedule {
    cron: Cron,
    zone: TimeZone,
}

impl CronSchedule {
    /// Parses a pattern and the name of a time zone, which defaults to UTC.
    ///
    /// Returns `None` for patterns and zones that [`parse_manifest`](crate::parse_manifest)
    /// rejects, so never for a [`ScheduleSpec`](crate::ScheduleSpec) that it returned.
    #[must_use]
    pub fn new(pattern: &str, timezone: Option<&str>) -> Option<Self> {
        let zone = match timezone {
            Some(name) => find_time_zone(name)?,
            None => TimeZone::UTC,
        };
        Some(Self { cron: parse_cron(pattern).ok()?, zone })
    }

    /// Returns the first time after `after`; both in milliseconds since 1970.
    #[must_use]
    pub fn next_after(&self, after_ms: u64) -> Option<u64> {
        let next = self.cron.find_next_occurrence(&self.zoned(after_ms)?, false).ok()?;
        u64::try_from(next.timestamp().as_millisecond()).ok()
    }

    /// Returns the last time before or at `at`; both in milliseconds since 1970.
    #[must_use]
    pub fn last_before(&self, at_ms: u64) -> Option<u64> {
        let last = self.cron.find_previous_occurrence(&self.zoned(at_ms)?, true).ok()?;
        u64::try_from(last.timestamp().as_millisecond()).ok()
    }

    /// Counts the times after `after` up to and including `until`, up to `limit` of them.
    #[must_use]
    pub fn count_between(&self, after_ms: u64, until_ms: u64, limit: usize) -> usize {
        let times = std::iter::successors(self.next_after(after_ms), |&time| self.next_after(time));
        times.take_while(|&time| time <= until_ms).take(limit).count()
    }

    /// Formats a time in the zone: `2026-11-22 14:30 CET`.
    #[must_use]
    pub fn format_local(&self, at_ms: u64) -> String {
        self.zoned(at_ms)
            .map_or_else(String::new, |time| time.strftime("%Y-%m-%d %H:%M %Z").to_string())
    }

    fn zoned(&self, ms: u64) -> Option<Zoned> {
        let time = Timestamp::from_millisecond(i64::try_from(ms).ok()?).ok()?;
        Some(time.to_zoned(self.zone.clone()))
    }
}

/// Parses a pattern and verifies that it fires.
pub(crate) fn parse_cron(pattern: &str) -> Result<Cron, CronError> {
    let fields: Vec<&str> = pattern.split_ascii_whitespace().collect();
    if fields.len() != FIELDS.len() || pattern.len() > MAX_PATTERN_LEN {
        return Err(CronError::Fields { found: fields.len() });
    }
    let parser = CronParser::builder().seconds(Seconds::Disallowed).year(Year::Disallowed).build();
    for (index, (&text, (name, range, largest))) in fields.iter().zip(FIELDS).enumerate() {
        // Each field on its own, because the parser does not report the field of an error.
        let mut single = ["*"; FIELDS.len()];
        single[index] = text;
        if is_unsupported(text, largest) || parser.parse(&single.join(" ")).is_err() {
            return Err(CronError::Field { name, text: text.to_owned(), range });
        }
    }
    let cron = parser.parse(&fields.join(" ")).map_err(|_| CronError::Never)?;
    // The start is arbitrary: the search covers leap years and all weekdays.
    let start = civil::date(2000, 1, 1).at(0, 0, 0, 0);
    cron.find_next_occurrence(&start, true).map_err(|_| CronError::Never)?;
    Ok(cron)
}

/// Returns whether the parser would accept a misleading field.
///
/// These are nicknames (`@daily`), which replace a complete pattern, empty list entries, and steps
/// beyond the maximum (`*/90` minutes).
fn is_unsupported(field: &str, largest: u32) -> bool {
    let wide = |part: &str| {
        let step = part.split_once('/').map(|(_, step)| step.parse::<u32>());
        matches!(step, Some(Ok(step)) if step > largest)
    };
    field.contains('@') || field.split(',').any(|part| part.is_empty() || wide(part))
}

/// Looks a time zone up in the bundled database.
pub(crate) fn find_time_zone(name: &str) -> Option<TimeZone> {
    // Not the system's database: a manifest must be valid on every machine or on none.
    TimeZoneDatabase::bundled().get(name).ok()
}

/// Returns the zone whose name is most similar to `name`, or `None` if no zone is similar.
pub(crate) fn nearest_zone(name: &str) -> Option<String> {
    const SIMILAR: f64 = 0.85;
    // The comparison is quadratic in the length, and no zone has such a name.
    if name.len() > 64 {
        return None;
    }
    let name = name.to_lowercase().replace(' ', "_");
    let likeness = |zone: &str| {
        let zone = zone.to_lowercase();
        // Authors often write the city without the continent.
        let city = zone.rsplit('/').next().unwrap_or(&zone);
        strsim::jaro_winkler(&name, &zone).max(strsim::jaro_winkler(&name, city))
    };
    let database = TimeZoneDatabase::bundled();
    let zones = database.available().map(|zone| (likeness(zone.as_str()), zone.to_string()));
    let best = zones
        .filter(|(likeness, _)| *likeness >= SIMILAR)
        // Of several equally similar zones the first by name, so that the result is deterministic.
        .max_by(|(a, first), (b, second)| a.total_cmp(b).then_with(|| second.cmp(first)));
    best.map(|(_, zone)| zone)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use proptest::test_runner::RngSeed;

    use super::*;

    /// Parses a time in UTC into milliseconds.
    fn at(time: &str) -> u64 {
        let time: Timestamp = time.parse().unwrap();
        u64::try_from(time.as_millisecond()).unwrap()
    }

    /// Returns the next times of a pattern, in UTC.
    fn next(pattern: &str, zone: Option<&str>, after: &str, count: usize) -> Vec<String> {
        let times = CronSchedule::new(pattern, zone).expect(pattern);
        let found =
            std::iter::successors(times.next_after(at(after)), |&time| times.next_after(time));
        let utc = |ms| Timestamp::from_millisecond(i64::try_from(ms).unwrap()).unwrap().to_string();
        found.take(count).map(utc).collect()
    }

    #[test]
    fn times_follow_pattern() {
        assert_eq!(
            next("*/15 9 * * MON-FRI", None, "2026-11-20T09:40:00Z", 3),
            ["2026-11-20T09:45:00Z", "2026-11-23T09:00:00Z", "2026-11-23T09:15:00Z"],
        );
        assert_eq!(next("0 0 29 2 *", None, "2026-01-01T00:00:00Z", 1), ["2028-02-29T00:00:00Z"]);
        // Cron combines the day of the month and the day of the week with "or".
        assert_eq!(
            next("0 0 30 2 1", None, "2026-02-01T00:00:00Z", 2),
            ["2026-02-02T00:00:00Z", "2026-02-09T00:00:00Z"],
        );
        // The time itself is not after the time.
        assert_eq!(next("0 * * * *", None, "2026-01-01T01:00:00Z", 1), ["2026-01-01T02:00:00Z"]);
    }

    #[test]
    fn daylight_saving_fires_once_per_day() {
        let berlin = Some("Europe/Berlin");
        assert_eq!(
            next("30 2 * * *", berlin, "2026-03-28T12:00:00Z", 2),
            ["2026-03-29T01:00:00Z", "2026-03-30T00:30:00Z"],
            "half past two does not exist on that day",
        );
        assert_eq!(
            next("30 2 * * *", berlin, "2026-10-24T12:00:00Z", 2),
            ["2026-10-25T00:30:00Z", "2026-10-26T01:30:00Z"],
            "half past two comes twice on that day",
        );
    }

    #[test]
    fn missed_times_are_counted_to_limit() {
        let times = CronSchedule::new("0 * * * *", None).unwrap();
        let (after, until) = (at("2026-01-01T00:00:00Z"), at("2026-01-01T05:00:00Z"));
        assert_eq!(times.count_between(after, until, 100), 5);
        assert_eq!(times.count_between(after, until, 3), 3);
        assert_eq!(times.count_between(until, after, 100), 0);
        assert_eq!(times.last_before(at("2026-01-01T05:59:59Z")), Some(until));
        assert_eq!(times.last_before(until), Some(until));
        assert_eq!(times.format_local(until), "2026-01-01 05:00 UTC");
        let berlin = CronSchedule::new("0 * * * *", Some("Europe/Berlin")).unwrap();
        assert_eq!(berlin.format_local(until), "2026-01-01 06:00 CET");
    }

    #[test]
    fn invalid_patterns_have_distinct_errors() {
        let problem = |pattern: &str| parse_cron(pattern).map(drop).expect_err(pattern);
        for (pattern, found) in [("", 0), ("@daily", 1), ("* * * *", 4), ("* * * * * *", 6)] {
            assert_eq!(problem(pattern), CronError::Fields { found }, "{pattern}");
        }
        for pattern in ["0 0 30 2 *", "0 0 31 2,4,6,9,11 *", "0 0 31 4-4 *"] {
            assert_eq!(problem(pattern), CronError::Never, "{pattern}");
        }
        let cases = [
            ("60 * * * *", "minute", "60"),
            ("* 24 * * *", "hour", "24"),
            ("* * 0 * *", "day of the month", "0"),
            ("* * * FOO *", "month", "FOO"),
            ("* * * * 8", "day of the week", "8"),
            ("*/0 * * * *", "minute", "*/0"),
            ("*/61 * * * *", "minute", "*/61"),
            ("5-1 * * * *", "minute", "5-1"),
            ("- * * * *", "minute", "-"),
            ("1,,2 * * * *", "minute", "1,,2"),
            ("@daily * * * *", "minute", "@daily"),
        ];
        for (pattern, field, bad) in cases {
            match problem(pattern) {
                CronError::Field { name, text, .. } => assert_eq!((name, &*text), (field, bad)),
                other => panic!("{pattern}: {other:?}"),
            }
        }
    }

    #[test]
    fn zones_are_suggested_by_city_or_name() {
        assert_eq!(nearest_zone("Europe/Berln").as_deref(), Some("Europe/Berlin"));
        assert_eq!(nearest_zone("Berlin").as_deref(), Some("Europe/Berlin"));
        assert_eq!(nearest_zone("new york").as_deref(), Some("America/New_York"));
        assert_eq!(nearest_zone("zzzzzz"), None);
    }

    proptest! {
        #![proptest_config(ProptestConfig {
            rng_seed: RngSeed::Fixed(5),
            failure_persistence: None,
            ..ProptestConfig::with_cases(400)
        })]

        #[test]
        fn accepted_patterns_keep_firing(
            pattern in "[0-9*/,?LW#+A-Z@-]{1,4}( ([0-9]{1,2}|\\*|[0-9*/,?LW#+A-Z-]{1,4})){4}",
            after in 0_u64..4_000_000_000_000,
        ) {
            if let Some(times) = CronSchedule::new(&pattern, Some("America/New_York")) {
                let next = times.next_after(after).expect("it fires");
                prop_assert!(next > after && next.is_multiple_of(60_000));
                prop_assert!(times.next_after(next).is_some_and(|following| following > next));
                prop_assert!(times.last_before(next).is_some_and(|last| last == next));
            }
        }
    }
}
