//! Failpoints, by which tests examine the state after a failure.
//!
//! Every write, flush, rename and commit of the ledger passes [`failpoint`] first. Without debug
//! assertions, which no package has, a failpoint compiles to an empty function.

#[cfg(debug_assertions)]
use std::cell::{Cell, RefCell};
use std::io::{self, Write};
#[cfg(debug_assertions)]
use std::sync::OnceLock;
#[cfg(debug_assertions)]
use std::sync::atomic::{AtomicUsize, Ordering};

/// The effect of a failpoint.
#[cfg(debug_assertions)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InjectedFault {
    /// The device fails.
    Io,
    /// The disk is full.
    Full,
    /// Half of the bytes are written, then the disk is full; elsewhere than at a write, it is full.
    Short,
    /// The process ends at once.
    Abort,
}

#[cfg(debug_assertions)]
thread_local! {
    static PLAN: Cell<Option<(usize, InjectedFault)>> = const { Cell::new(None) };
    static STEPS: Cell<usize> = const { Cell::new(0) };
    static HOOK: RefCell<Option<(&'static str, FailpointHook)>> = const { RefCell::new(None) };
}

#[cfg(debug_assertions)]
type FailpointHook = Box<dyn FnOnce()>;

/// Runs a closure right before this thread's next step of a name: a concurrent change at the last
/// moment.
#[cfg(debug_assertions)]
pub fn set_hook(name: &'static str, deed: impl FnOnce() + 'static) {
    HOOK.set(Some((name, Box::new(deed))));
}

#[cfg(debug_assertions)]
fn call_hook(name: &str) {
    let due = HOOK.with_borrow_mut(|hook| hook.take_if(|(at, _)| *at == name));
    if let Some((_, deed)) = due {
        deed();
    }
}

/// Makes the `at`th step of this thread fail, counted from 1 from now on; later steps succeed.
#[cfg(debug_assertions)]
pub fn arm_fault(at: usize, fault: InjectedFault) {
    STEPS.set(0);
    PLAN.set(Some((at, fault)));
}

/// Disables the failure of this thread; returns the number of steps so far.
#[cfg(debug_assertions)]
pub fn disarm_faults() -> usize {
    PLAN.set(None);
    STEPS.replace(0)
}

/// Parses the step and the fault from the environment of the process, in `SKILL_STORE_FAULT_AT` and
/// `SKILL_STORE_FAULT` (`eio`, `enospc`, `short`, otherwise an abort).
#[cfg(debug_assertions)]
fn from_environment() -> Option<(usize, InjectedFault)> {
    static PLANNED: OnceLock<Option<(usize, InjectedFault)>> = OnceLock::new();
    *PLANNED.get_or_init(|| {
        let at = std::env::var("SKILL_STORE_FAULT_AT").ok()?.parse().ok()?;
        let fault = match std::env::var("SKILL_STORE_FAULT").as_deref() {
            Ok("eio") => InjectedFault::Io,
            Ok("enospc") => InjectedFault::Full,
            Ok("short") => InjectedFault::Short,
            _ => InjectedFault::Abort,
        };
        Some((at, fault))
    })
}

#[cfg(debug_assertions)]
fn take_due_fault() -> Option<InjectedFault> {
    static OF_PROCESS: AtomicUsize = AtomicUsize::new(0);
    let here = STEPS.get() + 1;
    STEPS.set(here);
    let everywhere = OF_PROCESS.fetch_add(1, Ordering::Relaxed) + 1;
    let planned = PLAN.get().filter(|(at, _)| *at == here);
    let fault = planned.or_else(|| from_environment().filter(|(at, _)| *at == everywhere))?.1;
    if fault == InjectedFault::Abort {
        std::process::abort();
    }
    Some(fault)
}

#[cfg(debug_assertions)]
fn error(fault: InjectedFault) -> io::Error {
    let kind = match fault {
        InjectedFault::Full | InjectedFault::Short => io::ErrorKind::StorageFull,
        InjectedFault::Io | InjectedFault::Abort => io::ErrorKind::Other,
    };
    io::Error::new(kind, "injected failure")
}

/// Passes, or fails where a test wants it.
pub fn failpoint(name: &'static str) -> io::Result<()> {
    #[cfg(debug_assertions)]
    {
        call_hook(name);
        if let Some(fault) = take_due_fault() {
            return Err(error(fault));
        }
    }
    #[cfg(not(debug_assertions))]
    let _ = name;
    Ok(())
}

/// Writes all bytes, or half of them where a test wants it.
pub fn write_all(file: &mut impl Write, bytes: &[u8]) -> io::Result<()> {
    #[cfg(debug_assertions)]
    if let Some(fault) = take_due_fault() {
        if fault == InjectedFault::Short {
            file.write_all(&bytes[..bytes.len() / 2])?;
        }
        return Err(error(fault));
    }
    file.write_all(bytes)
}
