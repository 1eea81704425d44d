//! Injected disk failures for tests of installations.

use std::cell::Cell;
use std::io;

use crate::error::BuildError;

/// A failure of one change of the disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Fault {
    /// The number of the change, counted from 0.
    pub(super) at: usize,
    /// `true` if the change takes effect before it fails, like a failed flush.
    pub(super) after: bool,
    /// `true` if all later changes fail, too.
    pub(super) lasting: bool,
}

thread_local! {
    static FAULT: Cell<Option<Fault>> = const { Cell::new(None) };
    static CHANGES: Cell<usize> = const { Cell::new(0) };
}

/// Runs work with a fault; returns its result and the number of attempted changes.
pub(super) fn with_fault<T>(fault: Option<Fault>, work: impl FnOnce() -> T) -> (T, usize) {
    FAULT.set(fault);
    CHANGES.set(0);
    let result = work();
    FAULT.set(None);
    (result, CHANGES.get())
}

/// Runs one change, or fails as the current fault requires.
pub(super) fn inject(work: impl FnOnce() -> Result<(), BuildError>) -> Result<(), BuildError> {
    let number = CHANGES.get();
    CHANGES.set(number + 1);
    let hit = |fault: &Fault| number == fault.at || (fault.lasting && number > fault.at);
    match FAULT.get().filter(hit) {
        None => work(),
        Some(fault) => {
            if fault.after {
                work()?;
            }
            let source = io::Error::from_raw_os_error(5);
            Err(BuildError::Io { path: "injected".into(), source })
        }
    }
}
