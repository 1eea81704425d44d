//! Times and budgets on the command line.

use std::time::Duration;

use jiff::Timestamp;
use jiff::civil::DateTime;
use jiff::tz::TimeZone;
use skillhost_tasks::TaskBudget;

/// Units of durations, in milliseconds; a unit follows those that end like it.
const UNITS: [(&str, u64); 5] =
    [("ms", 1), ("s", 1000), ("m", 60_000), ("h", 3_600_000), ("d", 86_400_000)];

/// The value of `--at` and `--deadline`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TimeArg {
    /// Milliseconds since 1970.
    Absolute(u64),
    /// From now.
    Relative(Duration),
}

impl TimeArg {
    /// Returns the time in milliseconds since 1970.
    pub(crate) fn to_ms(self, now_ms: u64) -> u64 {
        match self {
            Self::Absolute(ms) => ms,
            Self::Relative(from_now) => {
                now_ms.saturating_add(u64::try_from(from_now.as_millis()).unwrap_or(u64::MAX))
            }
        }
    }
}

/// Parses an RFC 3339 time, a date with or without a time in UTC, or a duration from now.
pub(super) fn parse_time(text: &str) -> Result<TimeArg, String> {
    if let Some(ms) = parse_duration(text.strip_prefix('+').unwrap_or(text)) {
        return Ok(TimeArg::Relative(Duration::from_millis(ms)));
    }
    // Without an offset, like all printed times.
    let in_utc = || text.parse::<DateTime>().and_then(|time| time.to_zoned(TimeZone::UTC));
    let time = match text.parse::<Timestamp>() {
        Ok(time) => Some(time),
        Err(_) => in_utc().ok().map(|zoned| zoned.timestamp()),
    };
    time.and_then(|time| u64::try_from(time.as_millisecond()).ok())
        .map(TimeArg::Absolute)
        .ok_or_else(|| {
            "expected a time such as 2026-02-28T09:00:00Z, or one from now, such as 90s, 15m, 2h \
             or 1d"
                .to_owned()
        })
}

/// Parses a whole number with a unit, to milliseconds.
fn parse_duration(text: &str) -> Option<u64> {
    // A number alone has no unit, which could be any.
    let at = text.find(|c: char| !c.is_ascii_digit())?;
    let (number, unit) = text.split_at(at);
    let (_, ms) = UNITS.iter().find(|(name, _)| *name == unit)?;
    number.parse::<u64>().ok()?.checked_mul(*ms)
}

/// Parses limits such as `tokens=200000,turns=30,time=15m,cost=0.50`.
pub(super) fn parse_budget(text: &str) -> Result<TaskBudget, String> {
    let mut budget = TaskBudget::default();
    for part in text.split(',') {
        let (name, value) = part.split_once('=').unwrap_or((part, ""));
        let whole = || value.parse::<u64>().ok();
        let (limit, parsed, expected) = match name {
            "turns" => (&mut budget.turns, whole(), "a whole number"),
            "tokens" => (&mut budget.tokens, whole(), "a whole number"),
            "time" => (&mut budget.time_ms, parse_duration(value), "a duration such as 90s or 15m"),
            "cost" => (&mut budget.cost, parse_dollars(value), "dollars such as 0.50"),
            _ => return Err("expected turns=, tokens=, time= or cost=".to_owned()),
        };
        // One of two limits would be ignored.
        if limit.is_some() {
            return Err(format!("`{name}` is given twice"));
        }
        *limit = Some(parsed.ok_or_else(|| format!("`{name}` requires {expected}"))?);
    }
    Ok(budget)
}

/// Parses dollars with at most six decimals, to millionths. Not as a float: 0.1 would be inexact.
fn parse_dollars(text: &str) -> Option<u64> {
    let (whole, decimals) = text.split_once('.').unwrap_or((text, ""));
    let is_number = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    if whole.is_empty() || !is_number(whole) || !is_number(decimals) || decimals.len() > 6 {
        return None;
    }
    // Filled up to six digits, so that 0.5 and 0.500000 are equal.
    let millionths = format!("{decimals:0<6}").parse::<u64>().ok()?;
    whole.parse::<u64>().ok()?.checked_mul(1_000_000)?.checked_add(millionths)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn budget_has_units() {
        let budget = parse_budget("tokens=200000,turns=30,time=15m,cost=0.50").unwrap();
        let expected = TaskBudget {
            turns: Some(30),
            tokens: Some(200_000),
            time_ms: Some(900_000),
            cost: Some(500_000),
        };
        assert_eq!(budget, expected);
        assert_eq!(parse_dollars("18446744073709.551616"), None);
        for (text, error) in [
            ("", "expected turns=, tokens=, time= or cost="),
            ("turns=-1", "`turns` requires a whole number"),
            ("time=15", "`time` requires a duration such as 90s or 15m"),
            ("cost=.5", "`cost` requires dollars such as 0.50"),
            ("cost=0.0000001", "`cost` requires dollars such as 0.50"),
            ("turns=1,turns=2", "`turns` is given twice"),
        ] {
            assert_eq!(parse_budget(text).unwrap_err(), error, "{text}");
        }
    }

    #[test]
    fn times_are_absolute_or_relative() {
        let ms = |text: &str| parse_time(text).map(|time| time.to_ms(1000));
        assert_eq!(ms("90s"), Ok(91_000));
        assert_eq!(ms("+1d"), Ok(86_401_000));
        assert_eq!(ms("1970-01-02T00:00:00+01:00"), Ok(82_800_000));
        assert_eq!(ms("1970-01-02"), Ok(86_400_000));
        assert_eq!(ms("1970-01-01T00:01"), Ok(60_000));
        for text in ["", "5", "m", "1w", "1969-12-31T00:00:00Z", "99999999999999999999h"] {
            assert!(ms(text).is_err(), "{text}");
        }
    }
}
