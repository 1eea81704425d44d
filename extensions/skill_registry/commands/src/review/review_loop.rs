//! The interactive review of proposals with the keyboard.

use anstyle::{AnsiColor, Style};
use skill_catalog::Snapshot;
use skill_format::Digest;
use skill_ledger::{Ledger, LedgerError, Proposal, ProposalDrift, ProposalState};
use skillhost_terminal::{BOLD, CliContext, CliError, CommandResult, DIM, display_safe, exit};
use termimad::crossterm::event::KeyCode;

use super::super::page::{self, StyledLine, StyledSpan, wrap_line};
use super::super::review_context::{ReviewContext, current_actor, load_with_drift};
use super::editor;
use super::screen::{RawTerminal, ScreenInput};

const BAR: Style = AnsiColor::Cyan.on_default();

const KEYS: &str = "a approve · r reject · e edit · b rebase · s skip · q quit · ↑↓ space scroll";

/// The next step of the review.
enum ReviewAction {
    Stay,
    /// Load the proposal again.
    Again,
    On,
    End(u8),
}

/// A review of several proposals.
struct ReviewLoop<'w> {
    context: &'w ReviewContext,
    screen: RawTerminal,
    /// The outcome of the last action.
    message: String,
    /// The decisions and the ledger's notes, printed at the end.
    deeds: Vec<String>,
    decided: usize,
}

/// The view of one proposal.
struct ProposalView {
    proposal: Proposal,
    drift: ProposalDrift,
    place: String,
    top: usize,
}

pub(super) fn review_interactively(
    session: &CliContext,
    context: &ReviewContext,
    ids: &[String],
) -> CommandResult {
    let screen = RawTerminal::enter(session)?;
    let mut walk =
        ReviewLoop { context, screen, message: String::new(), deeds: Vec::new(), decided: 0 };
    let ended = walk.review_all(ids);
    let ReviewLoop { screen, deeds, decided, .. } = walk;
    drop(screen);
    for deed in &deeds {
        session.output.print_line(display_safe(deed))?;
    }
    let code = ended?;
    if code == exit::OK {
        let pending = super::pending_proposal_ids(context)?.len();
        session.output.print_line(format!("{decided} decided, {pending} wait for a decision"))?;
    }
    Ok(code)
}

impl ReviewLoop<'_> {
    fn review_all(&mut self, ids: &[String]) -> CommandResult {
        for (number, id) in ids.iter().enumerate() {
            let place = format!("proposal {} of {}", number + 1, ids.len());
            if let ReviewAction::End(code) = self.review_proposal(id, &place)? {
                return Ok(code);
            }
        }
        Ok(exit::OK)
    }

    /// Shows a proposal until it is decided or left.
    fn review_proposal(&mut self, id: &str, place: &str) -> Result<ReviewAction, CliError> {
        let mut top = 0;
        loop {
            self.context.refresh();
            // Notes would overwrite the page, and other commands print the notes of loading anyway.
            let (proposal, drift) = self
                .context
                .with_ledger_quiet(|ledger, skills| load_with_drift(ledger, skills, id))
                .0?;
            let mut view = ProposalView { proposal, drift, place: place.to_owned(), top };
            loop {
                match self.handle_key(&mut view)? {
                    ReviewAction::Stay => {}
                    ReviewAction::Again => break,
                    next => return Ok(next),
                }
            }
            top = view.top;
        }
    }

    /// Draws the page and handles one key.
    fn handle_key(&mut self, view: &mut ProposalView) -> Result<ReviewAction, CliError> {
        let rows = self.draw(view)?;
        let input = self.screen.input()?;
        let key = match input {
            ScreenInput::Key(key) => key,
            ScreenInput::Interrupt => return Ok(ReviewAction::End(exit::INTERRUPTED)),
            // A paste must not trigger a decision.
            ScreenInput::Paste(_) | ScreenInput::Resized => return Ok(ReviewAction::Stay),
        };
        self.message.clear();
        match key {
            KeyCode::Up | KeyCode::Char('k') => view.top = view.top.saturating_sub(1),
            KeyCode::Down | KeyCode::Char('j') => view.top += 1,
            KeyCode::PageUp => view.top = view.top.saturating_sub(rows),
            KeyCode::PageDown | KeyCode::Char(' ') => view.top += rows,
            KeyCode::Home | KeyCode::Char('g') => view.top = 0,
            KeyCode::End | KeyCode::Char('G') => view.top = usize::MAX,
            KeyCode::Char('a') => return self.approve(view),
            KeyCode::Char('r') => return self.reject(view),
            KeyCode::Char('e') => return self.edit(view),
            KeyCode::Char('b') => return self.rebase(view),
            KeyCode::Char('s') => return Ok(ReviewAction::On),
            KeyCode::Char('q') | KeyCode::Esc => return Ok(ReviewAction::End(exit::OK)),
            _ => {}
        }
        Ok(ReviewAction::Stay)
    }

    /// Draws the page; returns the number of visible rows.
    fn draw(&self, view: &mut ProposalView) -> Result<usize, CliError> {
        let keys = vec![StyledSpan::new(DIM, KEYS)];
        let message = vec![StyledSpan::new(BOLD, &self.message)];
        self.draw_with(view, &[message, keys])
    }

    fn draw_with(&self, view: &mut ProposalView, bottom: &[StyledLine]) -> Result<usize, CliError> {
        let (width, height) = self.screen.size();
        let page = page::proposal_page(&view.proposal, &view.drift, Some(width));
        let lines: Vec<StyledLine> =
            page.lines.iter().flat_map(|line| wrap_line(line, width)).collect();
        let below: usize = bottom.iter().map(|line| wrap_line(line, width).len()).sum();
        let rows = height.saturating_sub(below + 1).max(1);
        view.top = view.top.min(lines.len().saturating_sub(rows));
        let end = (view.top + rows).min(lines.len());
        let bar = format!("{} · lines {} to {end} of {}", view.place, view.top + 1, lines.len());
        let top: Vec<StyledLine> = std::iter::once(vec![StyledSpan::new(BAR, &bar)])
            .chain(lines[view.top..end].to_vec())
            .collect();
        self.screen.draw(&top, bottom)?;
        Ok(rows)
    }

    /// Runs an operation on the ledger; its notes appear on the next page.
    fn run_action<T>(
        &mut self,
        work: impl FnOnce(&Ledger, &Snapshot) -> Result<T, LedgerError>,
    ) -> Option<T> {
        let (done, notes) = self.context.with_ledger_quiet(work);
        let mut said = notes;
        let done = done.map_err(|error| {
            said.insert(0, error.message().to_owned());
            said.extend(error.hints().iter().cloned());
        });
        self.message = said.join(" — ");
        done.ok()
    }

    fn record_decision(&mut self, deed: String) {
        self.decided += 1;
        self.deeds.push(deed);
        let said = std::mem::take(&mut self.message);
        self.deeds.extend(Some(said).filter(|said| !said.is_empty()));
    }

    fn approve(&mut self, view: &mut ProposalView) -> Result<ReviewAction, CliError> {
        let summary = &view.proposal.summary;
        let (id, digest): (String, Digest) = (summary.id.clone(), summary.review_digest());
        let (skill, path) = (summary.skill_id.clone(), summary.path.clone());
        let question = format!("approve the text {} for {path} of `{skill}`? y/N", digest.short());
        if !self.confirm(view, &question)? {
            "not approved".clone_into(&mut self.message);
            return Ok(ReviewAction::Stay);
        }
        let applied = self.run_action(|ledger, skills| {
            ledger.approve(skills, &current_actor("review"), &id, digest, None)
        });
        let Some(applied) = applied else { return Ok(ReviewAction::Again) };
        self.record_decision(format!(
            "approved {id}: {path} of `{skill}` is written, version {}",
            applied.version
        ));
        Ok(ReviewAction::On)
    }

    fn reject(&mut self, view: &mut ProposalView) -> Result<ReviewAction, CliError> {
        let Some(reason) = self.read_line(view, "why not? ")? else {
            "not rejected".clone_into(&mut self.message);
            return Ok(ReviewAction::Stay);
        };
        let id = view.proposal.summary.id.clone();
        let rejected =
            self.run_action(|ledger, _| ledger.reject(&current_actor("review"), &id, &reason));
        if rejected.is_none() {
            return Ok(ReviewAction::Again);
        }
        self.record_decision(format!("rejected {id}: {reason}"));
        Ok(ReviewAction::On)
    }

    fn edit(&mut self, view: &ProposalView) -> Result<ReviewAction, CliError> {
        let summary = &view.proposal.summary;
        let Some(text) = view.proposal.new_text.as_deref() else {
            "the proposal has no text to edit".clone_into(&mut self.message);
            return Ok(ReviewAction::Stay);
        };
        if summary.state != ProposalState::Open {
            self.message = format!("it is {}; only an open proposal can be edited", summary.state);
            return Ok(ReviewAction::Stay);
        }
        match self.screen.suspend(|| editor::edit_text(text, &summary.path))? {
            Ok(Some(text)) => {
                let amended = self.run_action(|ledger, skills| {
                    ledger.amend(skills, &current_actor("review"), &summary.id, &text)
                });
                if let Some(amended) = amended {
                    let digest = amended.summary.review_digest().short();
                    self.message = format!("edited; the digest is {digest} now");
                }
            }
            Ok(None) => "left as it was".clone_into(&mut self.message),
            Err(error) => error.message().clone_into(&mut self.message),
        }
        Ok(ReviewAction::Again)
    }

    fn rebase(&mut self, view: &ProposalView) -> Result<ReviewAction, CliError> {
        let id = &view.proposal.summary.id;
        let rebased =
            self.run_action(|ledger, skills| ledger.rebase(skills, &current_actor("review"), id));
        let Some(rebased) = rebased else { return Ok(ReviewAction::Again) };
        let lines: Vec<String> =
            rebased.conflicts.iter().map(|conflict| conflict.line.to_string()).collect();
        let state = rebased.proposal.summary.state;
        self.message = match lines.is_empty() {
            false => format!("both sides changed line {}; nothing was done", lines.join(", ")),
            true if state == ProposalState::Superseded => {
                "the file already has this text".to_owned()
            }
            true => "it fits the file as it is now".to_owned(),
        };
        Ok(ReviewAction::Again)
    }

    fn confirm(&mut self, view: &mut ProposalView, question: &str) -> Result<bool, CliError> {
        loop {
            self.draw_with(view, &[vec![StyledSpan::new(BOLD, question)]])?;
            match self.screen.input()? {
                ScreenInput::Key(key) => return Ok(matches!(key, KeyCode::Char('y' | 'Y'))),
                ScreenInput::Interrupt => return Ok(false),
                ScreenInput::Paste(_) | ScreenInput::Resized => {}
            }
        }
    }

    /// Reads a line; returns `None` if it is canceled or empty.
    fn read_line(
        &mut self,
        view: &mut ProposalView,
        prompt: &str,
    ) -> Result<Option<String>, CliError> {
        let mut text = String::new();
        loop {
            let line = vec![
                StyledSpan::new(BOLD, prompt),
                StyledSpan::plain(&text),
                StyledSpan::plain("_"),
            ];
            let help = vec![StyledSpan::new(DIM, "Enter submits it, Esc discards it")];
            self.draw_with(view, &[line, help])?;
            match self.screen.input()? {
                ScreenInput::Key(KeyCode::Enter) => break,
                ScreenInput::Key(KeyCode::Esc) | ScreenInput::Interrupt => return Ok(None),
                ScreenInput::Key(KeyCode::Backspace) => drop(text.pop()),
                ScreenInput::Key(KeyCode::Char(character)) => text.push(character),
                ScreenInput::Paste(pasted) => text.push_str(pasted.trim()),
                ScreenInput::Key(_) | ScreenInput::Resized => {}
            }
        }
        let text = text.trim().to_owned();
        Ok(Some(text).filter(|text| !text.is_empty()))
    }
}
