//! Products of a few rows with overlapping windows, such as depthwise convolutions. A copy of the windows would be many times
//! the image, and each element of it would be used a few times.

use super::access::Axis;
use super::kernel::matmul::UnevenAxes;

/// The most rows of the left matrix.
const MOST_ROWS: usize = 4;
/// The most parts of a window.
const MOST_PARTS: usize = 64;

/// A product whose right matrix consists of overlapping windows, and whose left one has a few rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FewWindows {
    n_parts: usize,
}

impl FewWindows {
    /// The product of a left and a right matrix with these axes; none of others.
    pub fn of_axes([lhs, rhs]: [&UnevenAxes; 2]) -> Option<FewWindows> {
        let numel = |axes: &[Axis]| axes.iter().map(|axis| axis.extent).product::<usize>();
        let reach = |axis: &Axis| (axis.extent.saturating_sub(1)) * axis.stride.unsigned_abs() as usize;
        let n_between = 1 + rhs.rows.iter().chain(&rhs.columns).map(reach).sum::<usize>();
        let n_elements = numel(&rhs.rows) * numel(&rhs.columns);
        let is_one = rhs.rows.len() <= 1 && rhs.columns.len() <= 1;
        let fits = numel(&lhs.rows) <= MOST_ROWS && n_elements > 2 * n_between && !is_one;
        fits.then(|| FewWindows { n_parts: numel(&rhs.rows) })
    }

    /// Whether a thread can sum all products of a point.
    pub fn is_short(self) -> bool {
        self.n_parts <= MOST_PARTS
    }
}
