//! Tests of `skillhost skill roles`: roles and their balance.

use test_support::TestHome;

use crate::fixtures::{skill_md, stable_json};

fn skills_in_set(ids: &[&str]) -> TestHome {
    ids.iter().fold(TestHome::new(), |home, id| {
        home.file(format!("set/{id}/SKILL.md"), skill_md("Does its part.", "Do it."))
    })
}

#[test]
fn roles_are_counted_with_suggestion() {
    let home = skills_in_set(&["pdf", "xlsx", "greet", "brew", "people"]);
    insta::assert_snapshot!(home.skillhost(["skill", "triads", "set"]), @"
    exit 0
    --- stdout
    Coordinator (trit 0, #F59E0B): 2 skills
      pdf
      xlsx
    Generator (trit 1, #A855F7): 1 skill
      people
    Verifier (trit 2, #2E5FA3): 2 skills
      brew
      greet
    not balanced: the trits sum to 2 mod 3
    one more Generator balances it, or two more Verifiers
    ");
    insta::assert_snapshot!(stable_json(&home.skillhost(["skill", "triads", "set", "--json"])), @r##"
    {
      "balanced": false,
      "balanced_by": [
        {
          "color": "#A855F7",
          "count": 1,
          "role": "Generator",
          "trit": 1
        },
        {
          "color": "#2E5FA3",
          "count": 2,
          "role": "Verifier",
          "trit": 2
        }
      ],
      "roles": [
        {
          "color": "#F59E0B",
          "count": 2,
          "role": "Coordinator",
          "trit": 0
        },
        {
          "color": "#A855F7",
          "count": 1,
          "role": "Generator",
          "trit": 1
        },
        {
          "color": "#2E5FA3",
          "count": 2,
          "role": "Verifier",
          "trit": 2
        }
      ],
      "schema_version": 1,
      "skills": [
        {
          "color": "#2E5FA3",
          "name": "brew",
          "role": "Verifier",
          "skill_id": "brew",
          "trit": 2
        },
        {
          "color": "#2E5FA3",
          "name": "greet",
          "role": "Verifier",
          "skill_id": "greet",
          "trit": 2
        },
        {
          "color": "#F59E0B",
          "name": "pdf",
          "role": "Coordinator",
          "skill_id": "pdf",
          "trit": 0
        },
        {
          "color": "#A855F7",
          "name": "people",
          "role": "Generator",
          "skill_id": "people",
          "trit": 1
        },
        {
          "color": "#F59E0B",
          "name": "xlsx",
          "role": "Coordinator",
          "skill_id": "xlsx",
          "trit": 0
        }
      ],
      "sum": 2
    }
    "##);
}

#[test]
fn role_follows_skill_name() {
    // The directory `pdf` alone would be a Coordinator; the name of the skill is not.
    let home = skills_in_set(&["brew"]).file(
        "set/pdf/SKILL.md",
        "---\nname: people\ndescription: Knows people.\n---\nKnow them.\n",
    );
    insta::assert_snapshot!(home.skillhost(["skill", "triads", "set"]), @"
    exit 0
    --- stdout
    Coordinator (trit 0, #F59E0B): 0 skills
    Generator (trit 1, #A855F7): 1 skill
      people
    Verifier (trit 2, #2E5FA3): 1 skill
      brew
    balanced: the trits sum to 0 mod 3
    ");
}
