//! The rows of the table.

/// A row of the table.
pub(super) struct BenchRow {
    pub(super) what: String,
    pub(super) value: String,
    /// The number to reach and whether it was.
    pub(super) goal: Option<(String, bool)>,
}

/// Creates a row with a goal.
pub(super) fn row(what: &str, value: String, wanted: &str, reached: bool) -> BenchRow {
    BenchRow { what: what.to_owned(), value, goal: Some((wanted.to_owned(), reached)) }
}

/// Returns the median.
pub(super) fn median(values: impl Iterator<Item = f64>) -> f64 {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}
