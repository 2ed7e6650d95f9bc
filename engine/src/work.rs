//! Counts of work, by which tests tell linear from quadratic growth without a clock.

/// Counts `n` steps of this thread, such as visited characters, nodes or names. Only test builds keep the count.
#[inline(always)]
pub(crate) fn steps(n: usize) {
    #[cfg(test)]
    counted::steps(n);
    #[cfg(not(test))]
    let _ = n;
}

#[cfg(test)]
pub(crate) mod counted {
    use std::alloc::{GlobalAlloc, Layout, System};
    use std::cell::Cell;

    thread_local! {
        static STEPS: Cell<usize> = const { Cell::new(0) };
        static BYTES: Cell<usize> = const { Cell::new(0) };
    }

    pub(super) fn steps(n: usize) {
        STEPS.set(STEPS.get() + n);
    }

    /// The system's allocator, which also counts the bytes that each thread requests.
    struct Counting;

    #[global_allocator]
    static ALLOCATOR: Counting = Counting;

    fn count_bytes(n: usize) {
        // A thread may allocate during its end, after its counters are gone.
        _ = BYTES.try_with(|bytes| bytes.set(bytes.get() + n));
    }

    // SAFETY: every call goes to the system's allocator as it is.
    unsafe impl GlobalAlloc for Counting {
        unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
            count_bytes(layout.size());
            // SAFETY: the caller keeps what `alloc` asks for.
            unsafe { System.alloc(layout) }
        }

        unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
            // SAFETY: the caller keeps what `dealloc` asks for.
            unsafe { System.dealloc(at, layout) }
        }

        unsafe fn realloc(&self, at: *mut u8, layout: Layout, size: usize) -> *mut u8 {
            count_bytes(size);
            // SAFETY: the caller keeps what `realloc` asks for.
            unsafe { System.realloc(at, layout, size) }
        }
    }

    /// The work of a piece of code.
    #[derive(Clone, Copy, Debug, PartialEq)]
    pub(crate) struct Work {
        /// Visited characters, nodes and names, where the code counts them.
        pub(crate) steps: usize,
        /// Bytes requested from the allocator.
        pub(crate) bytes: usize,
    }

    /// The work of `run`.
    pub(crate) fn work_of(run: impl FnOnce()) -> Work {
        let (steps, bytes) = (STEPS.get(), BYTES.get());
        run();
        Work { steps: STEPS.get() - steps, bytes: BYTES.get() - bytes }
    }

    /// Asserts that an input of eight times the size causes at most nine times the work. The surplus allows for
    /// logarithms. `run` gets each input, made beforehand from a size.
    pub(crate) fn assert_linear<T>(what: &str, size: usize, input: impl Fn(usize) -> T, run: impl Fn(&T)) {
        let [small, big] = [size, 8 * size].map(|size| {
            let input = input(size);
            work_of(|| run(&input))
        });
        let few = 10_000;
        let is_linear = |small: usize, big: usize| big <= 9 * small + few;
        assert!(is_linear(small.steps, big.steps), "{what}: {} steps, then {}", small.steps, big.steps);
        assert!(is_linear(small.bytes, big.bytes), "{what}: {} bytes, then {}", small.bytes, big.bytes);
    }

    #[test]
    #[should_panic(expected = "looking up: ")]
    fn quadratic_steps_are_found() {
        assert_linear("looking up", 100, |size| size, |&size| (0..size).for_each(super::steps));
    }

    #[test]
    #[should_panic(expected = "copying: ")]
    fn quadratic_copies_are_found() {
        let copy_all = |&size: &usize| (0..size).for_each(|n| drop(vec![0u64; n]));
        assert_linear("copying", 100, |size| size, copy_all);
    }
}
