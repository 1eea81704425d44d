//! Tests of `catalog`.

use skill_format::Diagnostic;

use super::*;

fn skill(id: &str, name: &str, requires: &[&str]) -> CatalogSkill {
    CatalogSkill {
        id: id.to_owned(),
        name: Some((name.to_owned(), Span { line: 2, column: 7 })),
        requires: requires.iter().map(|id| (*id).to_owned()).collect(),
        requires_at: Span { line: 4, column: 11 },
        ..CatalogSkill::default()
    }
}

fn findings_of(skills: &[CatalogSkill]) -> Vec<(usize, u32, &'static str, String)> {
    let found = check_catalog(skills).into_iter().map(|(index, finding)| {
        let Diagnostic { line, rule, message, help, .. } = finding.diagnostic;
        (index, line, rule, format!("{message}; {}", help.unwrap_or_default()))
    });
    found.collect()
}

#[test]
fn duplicate_names_ignore_case() {
    let skills = [
        skill("beads", "beads", &[]),
        skill("Beads", "x", &[]),
        skill("jars", "BEADS", &[]),
        skill("beads", "y", &[]),
    ];
    let one_id = "rename one of them; of two skills with one id, the first is loaded";
    let expected = [
        (
            1,
            0,
            "catalog-duplicate",
            format!("the directory differs from `beads` in case only; {one_id}"),
        ),
        (
            2,
            2,
            "catalog-duplicate",
            "the name `BEADS` is also that of `beads`; give each skill a name of its own"
                .to_owned(),
        ),
        (
            3,
            0,
            "catalog-duplicate",
            format!("an earlier skill has the directory name `beads`, too; {one_id}"),
        ),
    ];
    assert_eq!(findings_of(&skills), expected);
    assert_eq!(findings_of(&skills[..1]), []);
}

#[test]
fn missing_required_skill_is_reported() {
    let add = "add the skill, or remove it from `requires`";
    let skills = [
        skill("beads", "beads", &["jars", "Jars", "jars@team", "beads", "zzz"]),
        skill("jars", "jars", &[]),
    ];
    let of = |message: String| (0, 4, "requires-unresolved", message);
    let expected = [
        of("there is no skill `Jars`; did you mean `jars`?".to_owned()),
        of(format!("the skill requires itself; {add}")),
        of(format!("there is no skill `zzz`; {add}")),
    ];
    assert_eq!(findings_of(&skills), expected);
}

#[test]
fn frontmatter_comment_suppresses_findings() {
    let text = "---\n# skillhost: allow(requires-unresolved)\nname: a\ndescription: Counts.\nrequires: [b]\n---\n";
    let input = SkillInput { dir_name: "a", file_name: None, bytes: text.as_bytes(), files: None };
    let mut skills = vec![CatalogSkill::new(&input).unwrap(), skill("c", "c", &[])];
    assert_eq!(skills[0].requires_at, Span { line: 5, column: 11 });
    assert_eq!(findings_of(&skills), []);
    skills[0].allowed.clear();
    assert_eq!(findings_of(&skills).len(), 1);
}
