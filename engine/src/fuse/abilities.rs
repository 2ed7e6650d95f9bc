//! What kernels a device has code for.

/// What the kernels of a device can do; the fuser makes no others. By default everything.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Abilities {
    /// Most queries that share the keys of an attention that is one kernel; of more, the library's products are faster.
    pub most_queries: usize,
    /// Most keys of a query in such a kernel, and 0 if the device has none.
    pub most_keys: usize,
    /// Whether such a kernel computes in `f64`, too.
    pub attends_doubles: bool,
    /// Whether rows of a product can be folded as they come.
    pub folds_rows: bool,
}

impl Default for Abilities {
    fn default() -> Abilities {
        Abilities { most_queries: usize::MAX, most_keys: usize::MAX, attends_doubles: true, folds_rows: true }
    }
}
