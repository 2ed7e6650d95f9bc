//! Work on all processors.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

/// The results of `work` on all items, in their order. Each processor works on one item at a time.
pub fn in_parallel<T: Sync, R: Send>(items: &[T], work: impl Fn(&T) -> R + Sync) -> Vec<R> {
    let slots: Vec<Mutex<Option<R>>> = items.iter().map(|_| Mutex::new(None)).collect();
    let next = AtomicUsize::new(0);
    let work = || {
        loop {
            let i = next.fetch_add(1, Ordering::Relaxed);
            let Some(item) = items.get(i) else { break };
            let result = work(item);
            *slots[i].lock().unwrap_or_else(PoisonError::into_inner) = Some(result);
        }
    };
    let n_threads = std::thread::available_parallelism().map_or(1, usize::from).min(items.len());
    std::thread::scope(|scope| (0..n_threads).for_each(|_| drop(scope.spawn(work))));
    let results = slots.into_iter().map(|slot| slot.into_inner().unwrap_or_else(PoisonError::into_inner));
    results.map(|result| result.unwrap_or_else(|| engine_core::bug!("an item without a result"))).collect()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use std::sync::Condvar;
    use std::time::Duration;

    /// The longest time that a thread waits for a second one. The test takes that long only when it fails.
    const PATIENCE: Duration = Duration::from_secs(30);

    /// Work that returns its item, but only after two threads have entered it.
    fn work_in_pairs() -> impl Fn(&usize) -> Option<usize> + Sync {
        let (n_inside, entered) = (Mutex::new(0), Condvar::new());
        move |&item| {
            let mut inside = n_inside.lock().unwrap();
            *inside += 1;
            entered.notify_all();
            // The first two threads wait for each other; later threads do not wait.
            let (_inside, waited) =
                entered.wait_timeout_while(inside, PATIENCE, |inside| *inside < 2).unwrap();
            (!waited.timed_out()).then_some(item)
        }
    }

    #[test]
    fn items_are_worked_on_in_parallel_and_results_are_in_order() {
        if std::thread::available_parallelism().map_or(1, usize::from) < 2 {
            eprintln!("skipped 1 test: there is one processor");
            return;
        }
        assert_eq!(in_parallel(&[0, 1, 2, 3, 4], work_in_pairs()), [0, 1, 2, 3, 4].map(Some));
        assert!(in_parallel(&[], work_in_pairs()).is_empty());
    }
}
