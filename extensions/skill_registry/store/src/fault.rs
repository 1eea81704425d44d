//! Steps that can be made to fail, so that tests can see what a failure leaves behind.
//!
//! Every write, flush, rename and commit of the ledger passes [`step`] first. Without the feature
//! `failpoints`, which no product build has, a step is nothing.

#[cfg(feature = "failpoints")]
use std::cell::{Cell, RefCell};
use std::io::{self, Write};
#[cfg(feature = "failpoints")]
use std::sync::OnceLock;
#[cfg(feature = "failpoints")]
use std::sync::atomic::{AtomicUsize, Ordering};

/// What happens at a step.
#[cfg(feature = "failpoints")]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The device fails.
    Io,
    /// The disk is full.
    Full,
    /// Half of the bytes are written, then the disk is full; elsewhere than at a write, it is full.
    Short,
    /// The process ends at once.
    Abort,
}

#[cfg(feature = "failpoints")]
thread_local! {
    static PLAN: Cell<Option<(usize, Fault)>> = const { Cell::new(None) };
    static STEPS: Cell<usize> = const { Cell::new(0) };
    static HOOK: RefCell<Option<(&'static str, Hook)>> = const { RefCell::new(None) };
}

#[cfg(feature = "failpoints")]
type Hook = Box<dyn FnOnce()>;

/// Does something right before this thread's next step of a name: what somebody else may do in the
/// last moment.
#[cfg(feature = "failpoints")]
pub fn before(name: &'static str, deed: impl FnOnce() + 'static) {
    HOOK.set(Some((name, Box::new(deed))));
}

#[cfg(feature = "failpoints")]
fn call_hook(name: &str) {
    let due = HOOK.with_borrow_mut(|hook| hook.take_if(|(at, _)| *at == name));
    if let Some((_, deed)) = due {
        deed();
    }
}

/// Lets the `at`th step of this thread fail, counted from 1 from now on; the steps after it succeed.
#[cfg(feature = "failpoints")]
pub fn arm(at: usize, fault: Fault) {
    STEPS.set(0);
    PLAN.set(Some((at, fault)));
}

/// Lets no step of this thread fail any more; returns how many there were.
#[cfg(feature = "failpoints")]
pub fn disarm() -> usize {
    PLAN.set(None);
    STEPS.replace(0)
}

/// The step and the fault that the environment asks of the whole process, in `SKILL_STORE_FAULT_AT`
/// and `SKILL_STORE_FAULT` (`eio`, `enospc`, `short`, otherwise an abort).
#[cfg(feature = "failpoints")]
fn of_environment() -> Option<(usize, Fault)> {
    static PLANNED: OnceLock<Option<(usize, Fault)>> = OnceLock::new();
    *PLANNED.get_or_init(|| {
        let at = std::env::var("SKILL_STORE_FAULT_AT").ok()?.parse().ok()?;
        let fault = match std::env::var("SKILL_STORE_FAULT").as_deref() {
            Ok("eio") => Fault::Io,
            Ok("enospc") => Fault::Full,
            Ok("short") => Fault::Short,
            _ => Fault::Abort,
        };
        Some((at, fault))
    })
}

#[cfg(feature = "failpoints")]
fn due() -> Option<Fault> {
    static OF_PROCESS: AtomicUsize = AtomicUsize::new(0);
    let here = STEPS.get() + 1;
    STEPS.set(here);
    let everywhere = OF_PROCESS.fetch_add(1, Ordering::Relaxed) + 1;
    let planned = PLAN.get().filter(|(at, _)| *at == here);
    let fault = planned.or_else(|| of_environment().filter(|(at, _)| *at == everywhere))?.1;
    if fault == Fault::Abort {
        std::process::abort();
    }
    Some(fault)
}

#[cfg(feature = "failpoints")]
fn error(fault: Fault) -> io::Error {
    let kind = match fault {
        Fault::Full | Fault::Short => io::ErrorKind::StorageFull,
        Fault::Io | Fault::Abort => io::ErrorKind::Other,
    };
    io::Error::new(kind, "injected failure")
}

/// Passes, or fails where a test wants it.
pub(crate) fn step(name: &'static str) -> io::Result<()> {
    #[cfg(feature = "failpoints")]
    {
        call_hook(name);
        if let Some(fault) = due() {
            return Err(error(fault));
        }
    }
    #[cfg(not(feature = "failpoints"))]
    let _ = name;
    Ok(())
}

/// Writes all bytes, or half of them where a test wants it.
pub(crate) fn write_all(file: &mut impl Write, bytes: &[u8]) -> io::Result<()> {
    #[cfg(feature = "failpoints")]
    if let Some(fault) = due() {
        if fault == Fault::Short {
            file.write_all(&bytes[..bytes.len() / 2])?;
        }
        return Err(error(fault));
    }
    file.write_all(bytes)
}
