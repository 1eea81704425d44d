//! When something happens: cron patterns, checked and computed.

use std::fmt;

use croner::Cron;
use croner::parser::{CronParser, Seconds, Year};
use jiff::tz::{TimeZone, TimeZoneDatabase};
use jiff::{Timestamp, Zoned, civil};

/// The five fields of a pattern: what they are called, what numbers they take and the largest.
const FIELDS: [(&str, &str, u32); 5] = [
    ("minute", "0-59", 59),
    ("hour", "0-23", 23),
    ("day of the month", "1-31", 31),
    ("month", "1-12 or JAN-DEC", 12),
    ("day of the week", "0-7 or SUN-SAT", 7),
];

/// Patterns are short; this keeps nonsense from the parser and out of messages.
const LONGEST: usize = 256;

/// What is wrong with a cron pattern. Displays as a phrase that follows the pattern.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum CronError {
    /// It does not have five fields.
    Fields {
        /// How many it has.
        found: usize,
    },
    /// One field is not understood.
    Field {
        /// What the field is called.
        name: &'static str,
        /// What stands there.
        text: String,
        /// The numbers it takes.
        range: &'static str,
    },
    /// Each field is right, but no day of any year matches them together.
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
                "cannot be read: `{}` is no {name}; write {range}, `*`, or lists (`1,5`), ranges \
                 (`1-5`) and steps (`*/5`) of them",
                crate::error::display_safe(text),
            ),
            Self::Never => f.write_str("never fires: there is no such day in any year"),
        }
    }
}

/// The times of a cron pattern in a time zone.
///
/// Where the clock is put forward, what falls into the gap happens at its end; where it is put
/// back, a fixed time happens once.
#[derive(Debug, Clone)]
pub struct CronSchedule {
    cron: Cron,
    zone: TimeZone,
}

impl CronSchedule {
    /// Reads a pattern and the name of a time zone; UTC where there is none.
    ///
    /// Returns nothing for what [`parse()`](crate::parse()) refuses, so never for a
    /// [`ScheduleSpec`](crate::ScheduleSpec) that it returned.
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

    /// Writes a time as people in the zone do: `2026-11-22 14:30 CET`.
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

/// Reads a pattern and makes sure that it fires.
pub(crate) fn parse_cron(pattern: &str) -> Result<Cron, CronError> {
    let fields: Vec<&str> = pattern.split_ascii_whitespace().collect();
    if fields.len() != FIELDS.len() || pattern.len() > LONGEST {
        return Err(CronError::Fields { found: fields.len() });
    }
    let parser = CronParser::builder().seconds(Seconds::Disallowed).year(Year::Disallowed).build();
    for (index, (&text, (name, range, largest))) in fields.iter().zip(FIELDS).enumerate() {
        let mut alone = ["*"; FIELDS.len()];
        alone[index] = text;
        if is_unsupported(text, largest) || parser.parse(&alone.join(" ")).is_err() {
            return Err(CronError::Field { name, text: text.to_owned(), range });
        }
    }
    let cron = parser.parse(&fields.join(" ")).map_err(|_| CronError::Never)?;
    // Any start will do: the search sees every kind of year.
    let start = civil::date(2000, 1, 1).at(0, 0, 0, 0);
    cron.find_next_occurrence(&start, true).map_err(|_| CronError::Never)?;
    Ok(cron)
}

/// Finds what the parser would let pass, though it does not mean what it says: nicknames (`@daily`),
/// which stand for whole patterns, gaps in a list, and steps over the end (`*/90` minutes).
fn is_unsupported(field: &str, largest: u32) -> bool {
    let wide = |part: &str| {
        let step = part.split_once('/').map(|(_, step)| step.parse::<u32>());
        matches!(step, Some(Ok(step)) if step > largest)
    };
    field.contains('@') || field.split(',').any(|part| part.is_empty() || wide(part))
}

/// Looks a time zone up in the database that is part of the program.
pub(crate) fn find_time_zone(name: &str) -> Option<TimeZone> {
    TimeZoneDatabase::bundled().get(name).ok()
}

/// Returns the zone whose name is most like `name`, unless none is.
pub(crate) fn nearest_zone(name: &str) -> Option<String> {
    const SIMILAR: f64 = 0.85;
    if name.len() > 64 {
        return None;
    }
    let name = name.to_lowercase().replace(' ', "_");
    let likeness = |zone: &str| {
        let zone = zone.to_lowercase();
        // Most people know the city, not the continent.
        let city = zone.rsplit('/').next().unwrap_or(&zone);
        strsim::jaro_winkler(&name, &zone).max(strsim::jaro_winkler(&name, city))
    };
    let database = TimeZoneDatabase::bundled();
    let zones = database.available().map(|zone| (likeness(zone.as_str()), zone.to_string()));
    let best = zones
        .filter(|(likeness, _)| *likeness >= SIMILAR)
        // Of several that are as like, the first by name, so that the answer is always the same.
        .max_by(|(a, first), (b, second)| a.total_cmp(b).then_with(|| second.cmp(first)));
    best.map(|(_, zone)| zone)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use proptest::test_runner::RngSeed;

    use super::*;

    /// Milliseconds of a time in UTC.
    fn at(time: &str) -> u64 {
        let time: Timestamp = time.parse().unwrap();
        u64::try_from(time.as_millisecond()).unwrap()
    }

    /// The next times of a pattern, as they are in UTC.
    fn next(pattern: &str, zone: Option<&str>, after: &str, count: usize) -> Vec<String> {
        let times = CronSchedule::new(pattern, zone).expect(pattern);
        let found =
            std::iter::successors(times.next_after(at(after)), |&time| times.next_after(time));
        let utc = |ms| Timestamp::from_millisecond(i64::try_from(ms).unwrap()).unwrap().to_string();
        found.take(count).map(utc).collect()
    }

    #[test]
    fn times_follow_the_pattern() {
        assert_eq!(
            next("*/15 9 * * MON-FRI", None, "2026-11-20T09:40:00Z", 3),
            ["2026-11-20T09:45:00Z", "2026-11-23T09:00:00Z", "2026-11-23T09:15:00Z"],
        );
        assert_eq!(next("0 0 29 2 *", None, "2026-01-01T00:00:00Z", 1), ["2028-02-29T00:00:00Z"]);
        // A day of the month or a day of the week, as cron has it.
        assert_eq!(
            next("0 0 30 2 1", None, "2026-02-01T00:00:00Z", 2),
            ["2026-02-02T00:00:00Z", "2026-02-09T00:00:00Z"],
        );
        // The time itself is not after the time.
        assert_eq!(next("0 * * * *", None, "2026-01-01T01:00:00Z", 1), ["2026-01-01T02:00:00Z"]);
    }

    #[test]
    fn clocks_that_are_put_forward_and_back_lose_and_double_nothing() {
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
    fn what_was_missed_is_counted_up_to_a_limit() {
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
    fn patterns_that_cannot_be_used_are_told_apart() {
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
    fn zones_are_suggested_by_city_or_full_name() {
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
        fn whatever_is_accepted_fires_and_goes_on(
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
