//! Signals that ask a run to end.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use super::output::remark;

/// The flag that asks the present session to stop.
static CURRENT: Mutex<Option<Arc<AtomicBool>>> = Mutex::new(None);

/// The first Ctrl-C, `SIGTERM` or `SIGHUP` asks the session to stop after its step. A second one ends the program at
/// once.
pub(super) fn interrupt_by(flag: Arc<AtomicBool>) {
    let is_first = CURRENT.lock().unwrap_or_else(PoisonError::into_inner).replace(flag).is_none();
    if !is_first {
        return;
    }
    let handler = || {
        let current = CURRENT.lock().unwrap_or_else(PoisonError::into_inner);
        if current.as_ref().is_some_and(|flag| flag.swap(true, Ordering::Relaxed)) {
            std::process::exit(130);
        }
        remark("stopping after this step; a second signal stops at once");
    };
    if let Err(error) = keeping_hangups_ignored(|| ctrlc::set_handler(handler)) {
        remark(format!("note: Ctrl-C will stop the program at once: {error}"));
    }
}

/// The next signal ends the program at once, since no step is left to wait for.
pub(super) fn end_at_once() {
    if let Some(flag) = &*CURRENT.lock().unwrap_or_else(PoisonError::into_inner) {
        flag.store(true, Ordering::Relaxed);
    }
}

/// Sets a handler. `SIGHUP` stays ignored if it was, as under `nohup`.
#[cfg(unix)]
fn keeping_hangups_ignored<T>(set: impl FnOnce() -> T) -> T {
    use nix::sys::signal::{SaFlags, SigAction, SigHandler, SigSet, Signal, sigaction};

    let ignore = SigAction::new(SigHandler::SigIgn, SaFlags::empty(), SigSet::empty());
    // SAFETY: an ignored signal runs no code.
    let before = unsafe { sigaction(Signal::SIGHUP, &ignore) };
    let done = set();
    if before.is_ok_and(|before| matches!(before.handler(), SigHandler::SigIgn)) {
        // SAFETY: as above.
        let _ = unsafe { sigaction(Signal::SIGHUP, &ignore) };
    }
    done
}

#[cfg(not(unix))]
fn keeping_hangups_ignored<T>(set: impl FnOnce() -> T) -> T {
    set()
}
