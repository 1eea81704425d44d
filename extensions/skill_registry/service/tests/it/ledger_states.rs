//! Every operation on a proposal in every state.

use skill_format::Digest;
use skill_ledger::{LedgerErrorKind, ProposalState};

use crate::desk::{Desk, person, text, wish};
use crate::scene::id;

/// Creates a proposal in a state; returns its id and digest.
fn proposal_in(desk: &Desk, state: ProposalState) -> (String, Digest) {
    let (id_of, digest) = desk.propose("beads", "ONE\ntwo\nthree");
    match state {
        ProposalState::Open => {}
        ProposalState::Applied => {
            desk.approve(&id_of, digest).unwrap();
        }
        ProposalState::Rejected => {
            desk.ledger.reject(&person(), &id_of, "no").unwrap();
        }
        ProposalState::Stale | ProposalState::Superseded => {
            let body =
                if state == ProposalState::Stale { "one\ntwo\n3" } else { "ONE\ntwo\nthree" };
            desk.write("beads", &text("beads", body));
            desk.ledger.record_direct_edits(&desk.snapshot(), &[id("beads")]).unwrap();
        }
        ProposalState::Approved | ProposalState::Failed => unreachable!("made by faults only"),
    }
    assert_eq!(desk.ledger.proposal(&id_of).unwrap().summary.state, state);
    (id_of, digest)
}

#[test]
fn operations_depend_on_state() {
    use ProposalState::{Applied, Open, Rejected, Stale, Superseded};
    type Deed = fn(&Desk, &str, Digest) -> Result<(), LedgerErrorKind>;
    let deeds: [(&str, Deed); 5] = [
        ("approve", |desk, id, digest| {
            desk.approve(id, digest).map(|_| ()).map_err(|error| error.reason())
        }),
        ("reject", |desk, id, _| {
            desk.ledger.reject(&person(), id, "no").map(|_| ()).map_err(|error| error.reason())
        }),
        ("amend", |desk, id, _| {
            let amended =
                desk.ledger.amend(&desk.snapshot(), &person(), id, &text("beads", "amended"));
            amended.map(|_| ()).map_err(|error| error.reason())
        }),
        ("rebase", |desk, id, _| {
            let rebased = desk.ledger.rebase(&desk.snapshot(), &person(), id);
            rebased.map(|_| ()).map_err(|error| error.reason())
        }),
        ("propose again", |desk, _, _| {
            desk.ask(&wish("beads", "ONE\ntwo\nthree")).map(|_| ()).map_err(|e| e.reason())
        }),
    ];
    let (state, stale) = (Err(LedgerErrorKind::State), Err(LedgerErrorKind::Stale));
    let same = Err(LedgerErrorKind::Argument);
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
                (Ok(()), Rejected),
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
            let desk = Desk::new();
            let (id, digest) = proposal_in(&desk, state);
            let file = desk.file("beads/SKILL.md");
            assert_eq!(deed(&desk, &id, digest), answer, "{name} of a proposal that is {state}");
            let now = desk.ledger.proposal(&id).unwrap().summary.state;
            assert_eq!(now, after, "after {name} of a proposal that is {state}");
            let changes_file = *name == "approve" && state == Open;
            assert_eq!(desk.file("beads/SKILL.md") == file, !changes_file, "{name} {state}");
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
    let desk = Desk::new();
    let (first, _) = desk.propose("beads", "1");
    let (second, _) = desk.propose("beads", "2");
    let error = |id: &str| {
        let error = desk.ledger.proposal(id).unwrap_err();
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
