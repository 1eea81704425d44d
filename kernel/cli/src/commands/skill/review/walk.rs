//! Walking through proposals with the keyboard.

use anstyle::{AnsiColor, Style};
use skill_store::{Digest, Ledger, LedgerError, Proposal, ProposalDrift, ProposalState, Snapshot};
use termimad::crossterm::event::KeyCode;

use super::super::desk::{Desk, actor, with_drift};
use super::super::page::{self, Line, Span, wrapped};
use super::editor;
use super::screen::{Input, Screen};
use crate::error::CliError;
use crate::exit;
use crate::output::{BOLD, DIM, Outcome, show};
use crate::session::Session;

const BAR: Style = AnsiColor::Cyan.on_default();

const KEYS: &str = "a approve · r reject · e edit · b rebase · s skip · q quit · ↑↓ space scroll";

/// How the walk goes on.
enum Next {
    Stay,
    /// The proposal is to be read again.
    Again,
    On,
    End(u8),
}

/// A walk over proposals.
struct Walk<'w> {
    desk: &'w Desk,
    screen: Screen,
    /// What the last deed came to.
    message: String,
    /// What was decided and what the ledger said to it, for the end.
    deeds: Vec<String>,
    decided: usize,
}

/// Where a proposal is looked at.
struct View {
    proposal: Proposal,
    drift: ProposalDrift,
    place: String,
    top: usize,
}

pub(super) fn walk(session: &Session, desk: &Desk, ids: &[String]) -> Outcome {
    let screen = Screen::take(session.output.colour())?;
    let mut walk = Walk { desk, screen, message: String::new(), deeds: Vec::new(), decided: 0 };
    let ended = walk.over(ids);
    let Walk { screen, deeds, decided, .. } = walk;
    drop(screen);
    for deed in &deeds {
        session.output.line(show(deed))?;
    }
    let code = ended?;
    if code == exit::OK {
        let left = super::waiting(desk)?.len();
        session.output.line(format!("{decided} decided, {left} wait for a decision"))?;
    }
    Ok(code)
}

impl Walk<'_> {
    fn over(&mut self, ids: &[String]) -> Outcome {
        for (number, id) in ids.iter().enumerate() {
            let place = format!("proposal {} of {}", number + 1, ids.len());
            if let Next::End(code) = self.one(id, &place)? {
                return Ok(code);
            }
        }
        Ok(exit::OK)
    }

    /// Shows a proposal until it is decided or left.
    fn one(&mut self, id: &str, place: &str) -> Result<Next, CliError> {
        let mut top = 0;
        loop {
            self.desk.look_again();
            // Notes would be written over the page; those of reading are said by every command.
            let (proposal, drift) =
                self.desk.quietly(|ledger, skills| with_drift(ledger, skills, id)).0?;
            let mut view = View { proposal, drift, place: place.to_owned(), top };
            loop {
                match self.turn(&mut view)? {
                    Next::Stay => {}
                    Next::Again => break,
                    next => return Ok(next),
                }
            }
            top = view.top;
        }
    }

    /// Draws and obeys one key.
    fn turn(&mut self, view: &mut View) -> Result<Next, CliError> {
        let rows = self.draw(view)?;
        let input = self.screen.input()?;
        let key = match input {
            Input::Key(key) => key,
            Input::Interrupt => return Ok(Next::End(exit::INTERRUPTED)),
            // Nobody decides by pasting.
            Input::Paste(_) | Input::Resized => return Ok(Next::Stay),
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
            KeyCode::Char('s') => return Ok(Next::On),
            KeyCode::Char('q') | KeyCode::Esc => return Ok(Next::End(exit::OK)),
            _ => {}
        }
        Ok(Next::Stay)
    }

    /// Draws the page; returns how many rows of it are seen.
    fn draw(&self, view: &mut View) -> Result<usize, CliError> {
        let keys = vec![Span::new(DIM, KEYS)];
        let message = vec![Span::new(BOLD, &self.message)];
        self.draw_with(view, &[message, keys])
    }

    fn draw_with(&self, view: &mut View, bottom: &[Line]) -> Result<usize, CliError> {
        let (width, height) = self.screen.size();
        let page = page::of(&view.proposal, &view.drift, Some(width));
        let lines: Vec<Line> = page.lines.iter().flat_map(|line| wrapped(line, width)).collect();
        let below: usize = bottom.iter().map(|line| wrapped(line, width).len()).sum();
        let rows = height.saturating_sub(below + 1).max(1);
        view.top = view.top.min(lines.len().saturating_sub(rows));
        let end = (view.top + rows).min(lines.len());
        let bar = format!("{} · lines {} to {end} of {}", view.place, view.top + 1, lines.len());
        let top: Vec<Line> = std::iter::once(vec![Span::new(BAR, &bar)])
            .chain(lines[view.top..end].to_vec())
            .collect();
        self.screen.draw(&top, bottom)?;
        Ok(rows)
    }

    /// Has the ledger do something; what it says is shown with the next page.
    fn deed<T>(
        &mut self,
        work: impl FnOnce(&Ledger, &Snapshot) -> Result<T, LedgerError>,
    ) -> Option<T> {
        let (done, notes) = self.desk.quietly(work);
        let mut said = notes;
        let done = done.map_err(|error| {
            said.insert(0, error.message().to_owned());
            said.extend(error.hints().iter().cloned());
        });
        self.message = said.join(" — ");
        done.ok()
    }

    fn decided(&mut self, deed: String) {
        self.decided += 1;
        self.deeds.push(deed);
        let said = std::mem::take(&mut self.message);
        self.deeds.extend(Some(said).filter(|said| !said.is_empty()));
    }

    fn approve(&mut self, view: &mut View) -> Result<Next, CliError> {
        let summary = &view.proposal.summary;
        let (id, digest): (String, Digest) = (summary.id.clone(), summary.new_digest);
        let (skill, path) = (summary.skill_id.clone(), summary.path.clone());
        let question = format!("approve the text {} for {path} of `{skill}`? y/N", digest.short());
        if !self.confirmed(view, &question)? {
            "not approved".clone_into(&mut self.message);
            return Ok(Next::Stay);
        }
        let applied =
            self.deed(|ledger, skills| ledger.approve(skills, &actor("review"), &id, digest, None));
        let Some(applied) = applied else { return Ok(Next::Again) };
        self.decided(format!(
            "approved {id}: {path} of `{skill}` is written, version {}",
            applied.version
        ));
        Ok(Next::On)
    }

    fn reject(&mut self, view: &mut View) -> Result<Next, CliError> {
        let Some(reason) = self.line(view, "why not? ")? else {
            "not rejected".clone_into(&mut self.message);
            return Ok(Next::Stay);
        };
        let id = view.proposal.summary.id.clone();
        let rejected = self.deed(|ledger, _| ledger.reject(&actor("review"), &id, &reason));
        if rejected.is_none() {
            return Ok(Next::Again);
        }
        self.decided(format!("rejected {id}: {reason}"));
        Ok(Next::On)
    }

    fn edit(&mut self, view: &View) -> Result<Next, CliError> {
        let summary = &view.proposal.summary;
        let Some(text) = view.proposal.new_text.as_deref() else {
            "there is no text left to edit".clone_into(&mut self.message);
            return Ok(Next::Stay);
        };
        if summary.state != ProposalState::Open {
            self.message = format!("it is {}; only an open proposal can be edited", summary.state);
            return Ok(Next::Stay);
        }
        match self.screen.lend(|| editor::edited(text, &summary.path))? {
            Ok(Some(text)) => {
                let amended = self.deed(|ledger, skills| {
                    ledger.amend(skills, &actor("review"), &summary.id, &text)
                });
                if let Some(amended) = amended {
                    let digest = amended.summary.new_digest.short();
                    self.message = format!("edited; the digest is {digest} now");
                }
            }
            Ok(None) => "left as it was".clone_into(&mut self.message),
            Err(error) => error.message().clone_into(&mut self.message),
        }
        Ok(Next::Again)
    }

    fn rebase(&mut self, view: &View) -> Result<Next, CliError> {
        let id = &view.proposal.summary.id;
        let rebased = self.deed(|ledger, skills| ledger.rebase(skills, &actor("review"), id));
        let Some(rebased) = rebased else { return Ok(Next::Again) };
        let lines: Vec<String> =
            rebased.conflicts.iter().map(|conflict| conflict.line.to_string()).collect();
        let state = rebased.proposal.summary.state;
        self.message = match lines.is_empty() {
            false => format!("both sides changed line {}; nothing was done", lines.join(", ")),
            true if state == ProposalState::Superseded => "the file says this already".to_owned(),
            true => "it fits the file as it is now".to_owned(),
        };
        Ok(Next::Again)
    }

    fn confirmed(&mut self, view: &mut View, question: &str) -> Result<bool, CliError> {
        loop {
            self.draw_with(view, &[vec![Span::new(BOLD, question)]])?;
            match self.screen.input()? {
                Input::Key(key) => return Ok(matches!(key, KeyCode::Char('y' | 'Y'))),
                Input::Interrupt => return Ok(false),
                Input::Paste(_) | Input::Resized => {}
            }
        }
    }

    /// Reads a line; nothing if it is given up or empty.
    fn line(&mut self, view: &mut View, prompt: &str) -> Result<Option<String>, CliError> {
        let mut text = String::new();
        loop {
            let line = vec![Span::new(BOLD, prompt), Span::plain(&text), Span::plain("_")];
            let help = vec![Span::new(DIM, "Enter ends it, Esc gives it up")];
            self.draw_with(view, &[line, help])?;
            match self.screen.input()? {
                Input::Key(KeyCode::Enter) => break,
                Input::Key(KeyCode::Esc) | Input::Interrupt => return Ok(None),
                Input::Key(KeyCode::Backspace) => drop(text.pop()),
                Input::Key(KeyCode::Char(character)) => text.push(character),
                Input::Paste(pasted) => text.push_str(pasted.trim()),
                Input::Key(_) | Input::Resized => {}
            }
        }
        let text = text.trim().to_owned();
        Ok(Some(text).filter(|text| !text.is_empty()))
    }
}
