use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use skillhost_tasks::SqliteQueue;

use super::*;

/// A ledger of one proposal, which decides by compare-and-swap.
#[derive(Default)]
struct FakeLedger {
    state: Mutex<ReviewState>,
    executed: AtomicUsize,
}

#[derive(Default)]
struct ReviewState {
    proposal: String,
    content: String,
    outcome: Option<ReviewOutcome>,
}

/// A surface of the ledger; the ledger names it as the decider.
struct Surface(Arc<FakeLedger>, &'static str);

impl FakeLedger {
    fn propose(&self, proposal: &str, content: &str) {
        let (proposal, content) = (proposal.to_owned(), content.to_owned());
        *self.state.lock().unwrap() = ReviewState { proposal, content, outcome: None };
    }
}

#[async_trait]
impl ReviewLedger for Surface {
    async fn list_reviews(&self, known: &[String]) -> Result<Vec<ReviewQuestion>, CallError> {
        let state = self.0.state.lock().unwrap();
        if state.outcome.is_some() && !known.contains(&state.proposal) {
            return Ok(Vec::new());
        }
        let subject = serde_json::json!({
            "proposal": state.proposal, "new_digest": state.content,
        });
        Ok(vec![ReviewQuestion {
            proposal: state.proposal.clone(),
            asker: "gardener".to_owned(),
            title: "change".to_owned(),
            subject: subject.to_string(),
            can_approve: true,
            outcome: state.outcome.clone(),
        }])
    }

    async fn decide_review(&self, decision: ReviewDecision) -> Result<(), CallError> {
        let mut state = self.0.state.lock().unwrap();
        if state.outcome.is_some() || state.content != decision.digest {
            return Err(CallError::new(ErrorKind::Conflict, "decided, or changed"));
        }
        self.0.executed.fetch_add(1, Ordering::SeqCst);
        state.outcome = Some(ReviewOutcome {
            approved: Some(decision.approve),
            by: "person".to_owned(),
            via: self.1.to_owned(),
            reason: None,
        });
        Ok(())
    }
}

/// Opens the questions of a directory as another process does.
fn open_queue(directory: &Path) -> TaskQueue {
    TaskQueue::new(Arc::new(SqliteQueue::in_directory(directory)))
}

async fn only_open(queue: &TaskQueue) -> Question {
    let mut open = list_open(queue).await.unwrap();
    assert_eq!(open.len(), 1, "{open:#?}");
    open.remove(0)
}

fn decision(question: &Question, choice: &str) -> Decision {
    Decision {
        question: question.id.clone(),
        digest: question.digest.clone(),
        choice: choice.to_owned(),
        reason: None,
        decider: Decider { name: "operator".to_owned(), surface: "test".to_owned() },
    }
}

/// The number of races: small in the suite, 200 and more by the variable.
fn races() -> usize {
    std::env::var("SKILLHOST_RACES").ok().and_then(|count| count.parse().ok()).unwrap_or(20)
}

#[tokio::test(flavor = "multi_thread")]
async fn proposal_races_have_one_decision() {
    let directory = tempfile::tempdir().unwrap();
    let queue = open_queue(directory.path());
    let ledger = Arc::new(FakeLedger::default());
    for race in 0..races() {
        ledger.propose(&format!("p{race}"), "one");
        mirror_reviews(&queue, &Surface(Arc::clone(&ledger), "kernel")).await.unwrap();
        let asked = only_open(&queue).await;
        let surfaces = ["inbox", "cli", "socket", "mcp"];
        let deciding = surfaces.into_iter().enumerate().map(|(number, via)| {
            let surface = Surface(Arc::clone(&ledger), via);
            let queue = open_queue(directory.path());
            let choice = if (race + number) % 2 == 0 { APPROVE } else { REFUSE };
            let decision = decision(&asked, choice);
            tokio::spawn(
                async move { (via, decide_review(&queue, &surface, decision).await.unwrap()) },
            )
        });
        let deciding: Vec<_> = deciding.collect();
        let (mut winners, mut others) = (Vec::new(), Vec::new());
        for decided in deciding {
            match decided.await.unwrap() {
                (via, DecisionOutcome::Decided { question }) => winners.push((via, question)),
                (_, DecisionOutcome::Closed { question }) => others.push(question),
                (_, DecisionOutcome::DigestMismatch { question }) => panic!("{question:?}"),
            }
        }
        let [(via, closed)] = winners.as_slice() else { panic!("{winners:#?}") };
        assert_eq!(closed.decider.as_ref().map(|decider| &*decider.surface), Some(*via));
        // The others get to know who decided, where and when.
        assert_eq!(others, vec![closed.clone(); 3]);
        assert!(list_open(&queue).await.unwrap().is_empty());
    }
    assert_eq!(ledger.executed.load(Ordering::SeqCst), races());
}

#[tokio::test(flavor = "multi_thread")]
async fn changed_proposals_are_never_approved() {
    let directory = tempfile::tempdir().unwrap();
    let queue = open_queue(directory.path());
    let ledger = Arc::new(FakeLedger::default());
    let surface = Surface(Arc::clone(&ledger), "inbox");
    for race in 0..races() {
        let proposal = format!("p{race}");
        ledger.propose(&proposal, "one");
        mirror_reviews(&queue, &surface).await.unwrap();
        let shown = only_open(&queue).await;
        ledger.propose(&proposal, "two");
        let outcome = decide_review(&queue, &surface, decision(&shown, APPROVE)).await.unwrap();
        let DecisionOutcome::Closed { question } = outcome else { panic!("{outcome:?}") };
        assert_eq!(question.state, QuestionState::Withdrawn);
        assert_ne!(only_open(&queue).await.digest, shown.digest);
        queue.withdraw(&only_open(&queue).await.id, "next race").await.unwrap();
    }
    assert_eq!(ledger.executed.load(Ordering::SeqCst), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn decision_elsewhere_closes_row() {
    let directory = tempfile::tempdir().unwrap();
    let queue = open_queue(directory.path());
    let ledger = Arc::new(FakeLedger::default());
    let surface = Surface(Arc::clone(&ledger), "mcp");
    ledger.propose("p", "one");
    mirror_reviews(&queue, &surface).await.unwrap();
    let shown = only_open(&queue).await;
    let mut verdict = ReviewDecision {
        context: CallContext::default(),
        proposal: "p".to_owned(),
        digest: "other".to_owned(),
        approve: true,
        reason: String::new(),
        surface: None,
        by: None,
    };
    assert!(surface.decide_review(verdict.clone()).await.is_err());
    verdict.digest = "one".to_owned();
    surface.decide_review(verdict).await.unwrap();
    mirror_reviews(&queue, &surface).await.unwrap();
    let closed = find_row(&queue, &shown.id).await.unwrap();
    let decider = Decider { name: "person".to_owned(), surface: "mcp".to_owned() };
    assert_eq!((closed.choice.as_deref(), closed.decider), (Some(APPROVE), Some(decider)));
}
