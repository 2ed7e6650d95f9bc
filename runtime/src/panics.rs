//! Drivers and compilers that panic: the panic message becomes an error of the caller.

use std::any::Any;
use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind, set_hook, take_hook};
use std::sync::Once;

thread_local! {
    /// Whether a panic of this thread will be reported as an error of its caller.
    static IS_CAUGHT: Cell<bool> = const { Cell::new(false) };
}

/// The result of `work`, or its panic message. The caller reports the message, so it is not printed as a crash.
///
/// # Errors
/// If it panics.
pub fn caught<T>(work: impl FnOnce() -> T) -> Result<T, String> {
    keep_quiet_where_caught();
    let was_caught = IS_CAUGHT.replace(true);
    let done = catch_unwind(AssertUnwindSafe(work));
    IS_CAUGHT.set(was_caught);
    done.map_err(|panic| said(&*panic))
}

fn keep_quiet_where_caught() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let print = take_hook();
        set_hook(Box::new(move |panic| {
            if !IS_CAUGHT.get() {
                print(panic);
            }
        }));
    });
}

fn said(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    let text = text.or_else(|| panic.downcast_ref::<&str>().copied());
    text.unwrap_or("for no reason that it tells").to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_message_is_returned() {
        assert_eq!(caught(|| 1), Ok(1));
        assert_eq!(caught(|| -> u8 { panic!("no driver") }), Err("no driver".to_string()));
        let number = 2;
        assert_eq!(caught(|| -> u8 { panic!("no driver {number}") }), Err("no driver 2".to_string()));
        let outer = caught(|| caught(|| -> u8 { panic!("inside") }));
        assert_eq!(outer, Ok(Err("inside".to_string())));
        assert!(!IS_CAUGHT.get());
    }
}
