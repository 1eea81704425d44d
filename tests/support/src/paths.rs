//! Unusual paths that every jail has to accept.

/// Returns more than 200 relative paths that look odd but are valid names: as files, in
/// directories, deep, and of the maximum length. `own` is one more name to build them with.
#[must_use]
pub fn legal_paths(own: &str) -> Vec<String> {
    let pieces = [
        "plain",
        "UPPER",
        "with space",
        "ünïcödé",
        "技能",
        "🦀",
        "...",
        "..a",
        "a..",
        ".hidden",
        "%2e%2e",
        "a%2fb",
        "~",
        "$HOME",
        "a:b",
        "-rf",
        "'quoted'",
        "a&b;c",
        "(x)[y]{z}",
        own,
    ];
    let mut paths = Vec::new();
    for (at, first) in pieces.iter().enumerate() {
        paths.push(format!("f-{first}"));
        for second in &pieces[at % 3..at % 3 + 9] {
            paths.push(format!("d-{first}/{second}.md"));
        }
        paths.push(format!("deep/{first}/2/3/4/5/6/7/8/{at}"));
    }
    paths.push("x".repeat(255));
    paths.push("d/".repeat(31) + "file");
    paths
}
