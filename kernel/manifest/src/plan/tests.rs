use std::fmt::Write;

use super::*;
use crate::parse_manifest;

/// Plans manifests from lines such as `a: b, c?, d` (`?` is optional, `!a` is disabled) in both
/// directions.
fn plan(lines: &[&str]) -> LoadPlan {
    let manifests: Vec<Manifest> = lines
        .iter()
        .map(|line| {
            let (id, dependencies) = line.split_once(':').unwrap();
            let mut text = format!("id: {}\nname: N\nagent: {{}}\n", id.trim_start_matches('!'));
            if id.starts_with('!') {
                text.push_str("enabled: false\n");
            }
            text.push_str("depends_on:\n  []\n");
            if !dependencies.trim().is_empty() {
                text.truncate(text.len() - "  []\n".len());
            }
            for dependency in dependencies.split(',').map(str::trim).filter(|d| !d.is_empty()) {
                let id = dependency.trim_end_matches('?');
                let optional = dependency.ends_with('?');
                writeln!(text, "  - {{id: {id}, optional: {optional}}}").unwrap();
            }
            parse_manifest(&text).unwrap()
        })
        .collect();
    let forward: Vec<&Manifest> = manifests.iter().collect();
    let backward: Vec<&Manifest> = manifests.iter().rev().collect();
    let plan = plan_load_order(&forward);
    assert_eq!(plan_load_order(&backward), plan, "the order of the manifests does not matter");
    plan
}

/// Formats a plan as one line per fact.
fn format_plan(plan: &LoadPlan) -> String {
    let mut text = format!(
        "order {}\n",
        plan.order.iter().map(ExtensionId::as_str).collect::<Vec<_>>().join(" ")
    );
    for (id, problems) in &plan.rejected {
        for problem in problems {
            writeln!(text, "{id} {problem}").unwrap();
        }
    }
    for id in &plan.disabled {
        writeln!(text, "{id} is disabled").unwrap();
    }
    for unmet in &plan.unmet {
        writeln!(text, "{} {unmet}", unmet.id).unwrap();
    }
    text
}

#[test]
fn precedence_decides_among_equals() {
    let texts = [
        "id: aaa\nname: N\nagent: {}\n",
        "id: bbb\nname: N\nagent: {}\ndepends_on: [zzz]\n",
        "id: needed\nname: N\nagent: {}\n",
        "id: own\nname: N\nagent: {}\ndepends_on: [{id: needed, optional: true}]\n",
        "id: zzz\nname: N\nagent: {}\n",
    ];
    let manifests = texts.map(|text| parse_manifest(text).unwrap());
    let manifests: Vec<&Manifest> = manifests.iter().collect();
    let plan = order_with_precedence(&manifests, |id| ["own", "zzz"].contains(&id.as_str()));
    let order: Vec<_> = plan.order.iter().map(ExtensionId::as_str).collect();
    assert_eq!(order, ["zzz", "needed", "own", "aaa", "bbb"]);
}

fn check(lines: &[&str], expected: &str) {
    assert_eq!(format_plan(&plan(lines)), expected);
}

#[test]
fn dependencies_precede_dependents() {
    check(&[], "order \n");
    check(&["c:", "a:", "b:"], "order a b c\n");
    check(&["a: z", "b:", "z: m", "m:"], "order b m z a\n");
    check(&["a: b, c", "b: d", "c: d", "d:"], "order d b c a\n");
}

#[test]
fn plan_errors_carry_data() {
    let id = |text: &str| ExtensionId::new(text).unwrap();
    assert_eq!(
        plan(&["a: b", "b: kv", "!kv2:", "!d: nothing"]),
        LoadPlan {
            order: Vec::new(),
            rejected: vec![
                (
                    id("a"),
                    vec![PlanError::DependencyRejected {
                        id: id("b"),
                        chain: vec![id("b")],
                        line: 5
                    }]
                ),
                (
                    id("b"),
                    vec![PlanError::Missing { id: id("kv"), nearest: Some(id("kv2")), line: 5 }]
                ),
            ],
            disabled: vec![id("d"), id("kv2")],
            unmet: Vec::new(),
        }
    );
}

#[test]
fn all_plan_errors_are_reported_together() {
    check(
        &[
            "a: b, skil_registry",
            "b: a, off",
            "!off:",
            "good:",
            "skill_registry:",
            "c: c2",
            "c2: c3",
            "c3: c2",
        ],
        "\
order good skill_registry
a depends on itself: a → b → a
a depends on `skil_registry` (line 6), which does not exist; did you mean `skill_registry`?
b depends on itself: b → a → b
b depends on `off` (line 6), which is disabled
c depends on `c2` (line 5), which cannot be loaded
c2 depends on itself: c2 → c3 → c2
c3 depends on itself: c3 → c2 → c3
off is disabled
",
    );
}

#[test]
fn shortest_cycle_is_reported() {
    check(
        &["a: b, c", "b: d", "c: a", "d: a"],
        "\
order 
a depends on itself: a → c → a
b depends on itself: b → d → a → b
c depends on itself: c → a → c
d depends on itself: d → a → b → d
",
    );
}

#[test]
fn rejection_chain_ends_at_root_cause() {
    check(
        &["a: b, x", "b: c", "c: nowhere", "d: e?", "e: b", "x:"],
        "\
order d x
a depends on `b` (line 5), which cannot be loaded (b → c)
b depends on `c` (line 5), which cannot be loaded
c depends on `nowhere` (line 5), which does not exist
e depends on `b` (line 5), which cannot be loaded (b → c)
d optionally depends on `e`, which cannot be loaded
",
    );
}

#[test]
fn optional_dependencies_affect_only_order() {
    check(&["a: z?", "z:"], "order z a\n");
    check(
        &["a: nowhere?, off?", "!off:"],
        "\
order a
off is disabled
a optionally depends on `nowhere`, which does not exist
a optionally depends on `off`, which is disabled
",
    );
}

#[test]
fn optional_dependency_breaks_cycle() {
    check(
        &["a: b", "b: a?", "x: b?"],
        "order b a x\nb optionally depends on `a`, which is loaded later, because it needs this one\n",
    );
    check(
        &["a: c?", "b: c?", "c: b?, d", "d:"],
        "order d b c a\nb optionally depends on `c`, which is loaded later, because it needs this one\n",
    );
}

#[test]
fn disabled_manifest_is_not_planned() {
    check(&["!a: b, nowhere", "b:"], "order b\na is disabled\n");
}

#[test]
fn duplicate_enabled_id_is_rejected() {
    check(&["a:", "!a:", "b: a"], "order a b\n");
    let twice = ["a:", "a:", "b: a"];
    check(
        &twice,
        "order \na has more than one manifest\nb depends on `a` (line 5), which cannot be loaded\n",
    );
}

#[test]
fn large_sets_need_no_recursion() {
    let name = |number: usize| format!("n{number:03}");
    let chain: Vec<String> =
        (0..300).map(|number| format!("{}: {}", name(number), name(number + 1))).collect();
    let lines: Vec<&str> = chain.iter().map(String::as_str).collect();
    let plan = plan(&lines);
    assert_eq!(plan.order, [] as [ExtensionId; 0]);
    assert_eq!(plan.rejected.len(), 300);
    let (_, problems) = &plan.rejected[0];
    let PlanError::DependencyRejected { chain, .. } = &problems[0] else {
        panic!("n000 inherits its error, has {problems:?}");
    };
    assert_eq!(chain.len(), 299);
}
