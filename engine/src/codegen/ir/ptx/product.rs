//! The product of a warpgroup, which both kinds of tensor cores define.

use crate::ir::DType;
use std::fmt::Write;

/// Name and definition of a function.
pub(super) type Function = (&'static str, &'static str);

/// A product of a warpgroup: 64 rows of the left matrix with some columns of the right one, which is in shared memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct WarpgroupProduct {
    /// Parts of 64 rows; one on tensor cores of warpgroups.
    pub n_parts: usize,
    /// Columns of the result, a multiple of 8 up to 256; of 16 on tensor cores of warps.
    pub columns: usize,
    /// Element type of both matrices.
    pub dtype: DType,
    /// For each matrix, whether neighbours in memory are neighbours along the contracted axis.
    pub is_along: [bool; 2],
    /// Whether the left matrix is in registers, four words of each thread for a step, and not in shared memory.
    pub from_registers: bool,
}

impl WarpgroupProduct {
    /// Name of the function that adds the product of one step to `float (&sum)[columns / 2]`, or to as many for each part.
    pub fn name(&self) -> String {
        let &WarpgroupProduct { n_parts, columns, dtype, .. } = self;
        let [a, b] = self.is_along.map(|is_along| if is_along { "k" } else { "m" });
        let a = if self.from_registers { "r" } else { a };
        let parts = if n_parts == 1 { String::new() } else { format!("x{n_parts}") };
        format!("product_{dtype}_{columns}{parts}_{a}{b}")
    }

    /// Elements of the contracted axis in one step: 32 bytes.
    pub fn step(&self) -> usize {
        32 / self.dtype.size()
    }

    /// Sums of a thread in a part.
    pub(super) fn n_sums(&self) -> usize {
        self.columns / 2
    }

    pub(super) fn signature(&self) -> String {
        let (name, n_sums) = (self.name(), self.n_sums());
        let left = if self.from_registers { "const unsigned int *a" } else { "unsigned long long a" };
        let parts = if self.n_parts == 1 { String::new() } else { format!("[{}]", self.n_parts) };
        format!("void {name}(float (&sum){parts}[{n_sums}], {left}, unsigned long long b, int adds)")
    }

    /// The type of elements in instructions.
    pub(super) fn element(&self) -> String {
        if self.dtype == DType::F32 { "tf32".to_string() } else { self.dtype.to_string() }
    }

    /// The definition for a host. Parts of the left matrix follow each other.
    pub(super) fn on_host(&self) -> String {
        let &WarpgroupProduct { n_parts, columns, dtype, is_along, from_registers } = self;
        let element = match dtype {
            DType::F32 => "float",
            DType::F16 => "__half",
            _ => "__nv_bfloat16",
        };
        let [a, b] = is_along;
        let of_part = |part: usize| match (from_registers, n_parts) {
            (true, _) => format!("reference_product_of_words<{element}, {columns}, {b}>(sum, a, b, adds);"),
            (false, 1) => format!("reference_product<{element}, {columns}, {a}, {b}>(sum, a, b, adds);"),
            (false, _) => format!(
                "reference_product<{element}, {columns}, {a}, {b}>(sum[{part}], a + {}, b, adds);",
                (part * PART_BYTES) >> 4
            ),
        };
        let parts: Vec<String> = (0..n_parts).map(of_part).collect();
        format!("static {} {{ {} }}", self.signature(), parts.join(" "))
    }
}

/// Bytes of 64 lines of a matrix in shared memory.
const PART_BYTES: usize = 64 * 128;

/// Items in a row.
pub(super) fn list(n: usize, item: impl Fn(usize) -> String) -> String {
    let mut text = String::new();
    for i in 0..n {
        let separator = if i == 0 { "" } else { ", " };
        let _ = write!(text, "{separator}{}", item(i));
    }
    text
}
