//! Questions of interactive runs: stored before they are shown, decided once for exactly the stored
//! bytes, on any surface.
//!
//! A run asks, shows the question to its clients and waits until the row is closed: by a client of
//! this kernel, by another process that writes to the same store, or by its expiry. The answer of a
//! client is a [decision](QuestionTable::decide) like any other. A run that stops waiting leaves its
//! question open; asked again about the same bytes, the question has its decision.

mod call_question;
mod live_call;
mod question_table;
mod review_mirror;

pub use call_question::{
    APPROVE, CallSource, ClientChoice, OPERATOR, REFUSE, can_owner_decide, from_approval_decision,
    from_person_reply, from_uncertain_decision, make_build, make_choice, make_consent,
    make_uncertain, message_of_question, name_kernel_operation, to_approval_decision,
    to_person_reply, to_uncertain_decision,
};
pub use live_call::is_live_only;
pub use question_table::{QuestionTable, describe_closure, to_closure};
pub use review_mirror::{ReviewLedger, decide_review, mirror_reviews};
