//! Similar names, for hints.

/// Returns at most three candidates that are similar to `wanted`, best first.
#[must_use]
pub fn suggest_similar<'a>(
    wanted: &str,
    candidates: impl IntoIterator<Item = &'a str>,
) -> Vec<String> {
    let mut scored: Vec<(f64, &str)> = candidates
        .into_iter()
        .map(|candidate| (strsim::jaro_winkler(wanted, candidate), candidate))
        // Names below this score share only a few letters.
        .filter(|(score, _)| *score >= 0.75)
        .collect();
    scored.sort_by(|a, b| b.0.total_cmp(&a.0).then_with(|| a.1.cmp(b.1)));
    scored.into_iter().take(3).map(|(_, name)| name.to_owned()).collect()
}

#[cfg(test)]
mod tests {
    use super::suggest_similar;

    #[test]
    fn nearest_names_come_first() {
        let names = ["read_skill", "read_skill_resource", "list_skills", "echo"];
        assert_eq!(suggest_similar("read_skil", names), ["read_skill", "read_skill_resource"]);
        assert_eq!(suggest_similar("zzz", names), Vec::<String>::new());
    }
}
