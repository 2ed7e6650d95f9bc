//! What kernels a device has code for.

/// What the kernels of a device can do; the fuser makes no others. By default what the processor does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Abilities {
    /// Most queries that share the keys of an attention that is one kernel; of more, the library's products are faster.
    pub most_queries: usize,
    /// Most keys of a query in such a kernel, and 0 if the device has none.
    pub most_keys: usize,
    /// Whether such a kernel computes in `f64`, too.
    pub attention_in_f64: bool,
    /// Most rows that a sum by indices into state looks at all by itself, in each block before it writes; of more, a
    /// kernel of its own looks at the indices before.
    pub most_rows_checked: usize,
    /// What can fold rows of a product as they come.
    pub row_folds: RowFolds,
    /// Most tensors of a kernel that takes others in.
    pub most_operands: usize,
}

/// A kernel takes at most this many distinct buffers: more than a GPU's registers and argument space bear.
pub const MAX_OPERANDS: usize = 24;

/// What can fold rows of a product.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RowFolds {
    /// Any row monoid, in the functions that it brings along.
    Any,
    /// What is known to select at most so many elements of a row.
    Selections {
        /// Elements of a row.
        most: usize,
    },
}

impl Default for Abilities {
    fn default() -> Abilities {
        Abilities {
            most_queries: usize::MAX,
            most_keys: usize::MAX,
            attention_in_f64: true,
            most_rows_checked: 0,
            row_folds: RowFolds::Any,
            most_operands: MAX_OPERANDS,
        }
    }
}
