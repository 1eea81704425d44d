//! Every operation on a proposal in every state.

use skill_format::Digest;
use skill_ledger::{LedgerErrorKind, ProposalState};

use crate::fixture::id;
use crate::scenario::{ReviewScenario, person, text, wish};

/// Creates a proposal in a state; returns its id and digest.
fn proposal_in(scenario: &ReviewScenario, state: ProposalState) -> (String, Digest) {
    let (id_of, digest) = scenario.propose("beads", "ONE\ntwo\nthree");
    match state {
        ProposalState::Open => {}
        ProposalState::Applied => {
            scenario.approve(&id_of, digest).unwrap();
        }
        ProposalState::Rejected => {
            scenario.ledger.reject(&person(), &id_of, "no").unwrap();
        }
        ProposalState::Stale | ProposalState::Superseded => {
            let body =
                if state == ProposalState::Stale { "one\ntwo\n3" } else { "ONE\ntwo\nthree" };
            scenario.write("beads", &text("beads", body));
            scenario.ledger.record_direct_edits(&scenario.snapshot(), &[id("beads")]).unwrap();
        }
        ProposalState::Approved | ProposalState::Failed => unreachable!("made by faults only"),
    }
    assert_eq!(scenario.ledger.proposal(&id_of).unwrap().summary.state, state);
    (id_of, digest)
}

#[test]
fn operations_depend_on_state() {
    use ProposalState::{Applied, Open, Rejected, Stale, Superseded};
    type Deed = fn(&ReviewScenario, &str, Digest) -> Result<(), LedgerErrorKind>;
    let deeds: [(&str, Deed); 5] = [
        ("approve", |scenario, id, digest| {
            scenario.approve(id, digest).map(|_| ()).map_err(|error| error.reason())
        }),
        ("reject", |scenario, id, _| {
            scenario.ledger.reject(&person(), id, "no").map(|_| ()).map_err(|error| error.reason())
        }),
        ("amend", |scenario, id, _| {
            let amended = scenario.ledger.amend(
                &scenario.snapshot(),
                &person(),
                id,
                &text("beads", "amended"),
            );
            amended.map(|_| ()).map_err(|error| error.reason())
        }),
        ("rebase", |scenario, id, _| {
            let rebased = scenario.ledger.rebase(&scenario.snapshot(), &person(), id);
            rebased.map(|_| ()).map_err(|error| error.reason())
        }),
        ("propose again", |scenario, _, _| {
            scenario.ask(&wish("beads", "ONE\ntwo\nthree")).map(|_| ()).map_err(|e| e.reason())
        }),
    ];
    let (state, stale) = (Err(LedgerErrorKind::State), Err(LedgerErrorKind::Stale));
    // An agent makes neither an empty change nor one that was rejected.
    let same = Err(LedgerErrorKind::Refused);
    // The result of each operation, and the state of the proposal afterwards.
    let table = [
        (
            Open,
            [(Ok(()), Applied), (Ok(()), Rejected), (Ok(()), Open), (Ok(()), Open), (Ok(()), Open)],
        ),
        (
            Stale,
            [(stale, Stale), (Ok(()), Rejected), (stale, Stale), (Ok(()), Open), (Ok(()), Stale)],
        ),
        (
            Applied,
            [
                (state, Applied),
                (state, Applied),
                (state, Applied),
                (state, Applied),
                (same, Applied),
            ],
        ),
        (
            Rejected,
            [
                (state, Rejected),
                (state, Rejected),
                (state, Rejected),
                (state, Rejected),
                (same, Rejected),
            ],
        ),
        (
            Superseded,
            [
                (state, Superseded),
                (state, Superseded),
                (state, Superseded),
                (state, Superseded),
                (same, Superseded),
            ],
        ),
    ];
    for (state, answers) in table {
        for ((name, deed), (answer, after)) in deeds.iter().zip(answers) {
            let scenario = ReviewScenario::new();
            let (id, digest) = proposal_in(&scenario, state);
            let file = scenario.file("beads/SKILL.md");
            assert_eq!(
                deed(&scenario, &id, digest),
                answer,
                "{name} of a proposal that is {state}"
            );
            let now = scenario.ledger.proposal(&id).unwrap().summary.state;
            assert_eq!(now, after, "after {name} of a proposal that is {state}");
            let changes_file = *name == "approve" && state == Open;
            assert_eq!(scenario.file("beads/SKILL.md") == file, !changes_file, "{name} {state}");
        }
    }
}

#[test]
fn state_names_round_trip() {
    for state in ProposalState::ALL {
        assert_eq!(ProposalState::from_name(state.as_str()), Some(state));
        assert_eq!(serde_json::to_value(state).unwrap(), state.as_str());
    }
    assert_eq!(ProposalState::from_name("Open"), None);
}

#[test]
fn ambiguous_ids_are_rejected() {
    let scenario = ReviewScenario::new();
    let (first, _) = scenario.propose("beads", "1");
    let (second, _) = scenario.propose("beads", "2");
    let error = |id: &str| {
        let error = scenario.ledger.proposal(id).unwrap_err();
        (error.reason(), error.to_string(), error.similar().to_vec())
    };
    let (kind, message, similar) = error(&first[..6]);
    assert_eq!((kind, similar), (LedgerErrorKind::Ambiguous, vec![second, first.clone()]));
    assert_eq!(message, format!("`{}` matches the ids of several proposals", &first[..6]));
    assert_eq!(error("01abc").0, LedgerErrorKind::Argument);
    for id in
        ["../../etc/passwd", "99", "%%%%%%", "______", "", "'; DROP TABLE x", &"x".repeat(999)]
    {
        let (kind, message, _) = error(id);
        let expected =
            if id.is_empty() { LedgerErrorKind::Argument } else { LedgerErrorKind::NotFound };
        assert_eq!(kind, expected, "{id}");
        assert!(message.len() < 120, "{message}");
    }
}
