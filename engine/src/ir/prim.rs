//! The primitive tensor operations, which the fuser, the oracle and the devices implement.

use super::{Dim, Literal, Type};
use crate::numerics::Precision;

/// A change of index: every result element is one operand element, or a fill value.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum View {
    /// The elements in row-major order under another shape (the node's type).
    Reshape,
    /// Result axis `i` is operand axis `perm[i]`.
    Permute {
        /// Operand axis of each result axis.
        perm: Vec<usize>,
    },
    /// Operand axis `i` becomes result axis `axes[i]` (ascending). The extents agree, or the operand's is 1. All other
    /// result axes repeat.
    Broadcast {
        /// Result axis of each operand axis.
        axes: Vec<usize>,
    },
    /// Result index `j` on axis `i` reads operand index `start[i] + j·step[i]`.
    Slice {
        /// First operand index by axis.
        start: Vec<usize>,
        /// Stride by axis. A negative stride walks backwards.
        step: Vec<i64>,
    },
    /// Pads the operand with a fill value.
    Pad {
        /// Elements before, by axis.
        low: Vec<usize>,
        /// Elements after, by axis.
        high: Vec<usize>,
        /// The value of the new elements.
        fill: Literal,
    },
    /// Windows on an axis, which becomes two: result index `j` there and `r` on the axis behind read operand index
    /// `j·step + r·dilation`. Windows may overlap.
    Window {
        /// The axis; the axis behind it is the place in a window.
        axis: usize,
        /// Distance of the starts of neighbours.
        step: usize,
        /// Distance of neighbours within a window.
        dilation: usize,
    },
}

/// A condition that a check imposes on integers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Requirement {
    /// An index lies in `0..bound`.
    Index {
        /// Exclusive upper bound.
        bound: usize,
    },
    /// A divisor is not zero.
    Divisor,
    /// A number of results is at most the room for them.
    Capacity {
        /// The most results.
        room: usize,
    },
    /// The sign of a distance, or of its square, is not negative.
    Distance,
    /// A condition of the graph's author holds: it is not 0.
    Condition,
}

impl Requirement {
    /// Whether a value meets the requirement.
    pub const fn holds(self, value: i64) -> bool {
        match self {
            Requirement::Index { bound } => value >= 0 && (value as u64) < bound as u64,
            Requirement::Divisor | Requirement::Condition => value != 0,
            Requirement::Capacity { room } => value >= 0 && value as u64 <= room as u64,
            Requirement::Distance => value >= 0,
        }
    }

    /// The value that replaces one that violates the requirement.
    pub const fn fallback(self) -> i64 {
        match self {
            Requirement::Index { .. } | Requirement::Capacity { .. } | Requirement::Distance => 0,
            Requirement::Divisor | Requirement::Condition => 1,
        }
    }

    /// The fact for the error message: the fault of `value` at row-major `position` of its tensor.
    pub fn fault(self, value: i64, position: u64) -> String {
        match self {
            Requirement::Index { bound } => {
                format!("index {value} at position {position} is not in 0..{bound}")
            }
            Requirement::Divisor => format!("the divisor at position {position} is 0"),
            Requirement::Capacity { room } => {
                let [needed, room] = [value, room as i64].map(in_groups);
                format!("it needs room for {needed} results and has room for {room}")
            }
            Requirement::Distance => format!("the distance at position {position} is negative"),
            Requirement::Condition => format!("the condition at position {position} does not hold"),
        }
    }
}

/// A number with a comma before every three digits: `9,412,077`.
fn in_groups(number: i64) -> String {
    let digits = number.unsigned_abs().to_string();
    let sign = if number < 0 { "-" } else { "" };
    let starts_group = |at: usize| at > 0 && (digits.len() - at).is_multiple_of(3);
    let parts = digits.char_indices().map(|(at, digit)| match starts_group(at) {
        true => format!(",{digit}"),
        false => digit.to_string(),
    });
    format!("{sign}{}", parts.collect::<String>())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fault_of_a_capacity_states_both_numbers() {
        let fault = |value, room| Requirement::Capacity { room }.fault(value, 0);
        assert_eq!(
            fault(9_412_077, 4_194_304),
            "it needs room for 9,412,077 results and has room for 4,194,304"
        );
        assert_eq!(fault(1_000, 999), "it needs room for 1,000 results and has room for 999");
        assert!(Requirement::Capacity { room: 3 }.holds(3) && !Requirement::Capacity { room: 3 }.holds(4));
    }
}

/// The combining operation of a reduction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Monoid {
    /// Sum; 0 when empty.
    Sum,
    /// Product; 1 when empty.
    Prod,
    /// Largest; NaN if any element is NaN. The type rule refuses empty axes.
    Max,
    /// Smallest; NaN if any element is NaN.
    Min,
    /// Index of the largest along the axis as `i32`. NaN counts as largest, and the first of equals wins. Exactly one
    /// axis.
    ArgMax,
    /// Index of the smallest. NaN counts as smallest, and the first of equals wins. Exactly one axis.
    ArgMin,
}

impl Monoid {
    /// All monoids.
    pub const ALL: [Monoid; 6] =
        [Monoid::Sum, Monoid::Prod, Monoid::Max, Monoid::Min, Monoid::ArgMax, Monoid::ArgMin];

    /// The name in the text form.
    pub const fn name(self) -> &'static str {
        match self {
            Monoid::Sum => "sum",
            Monoid::Prod => "prod",
            Monoid::Max => "max",
            Monoid::Min => "min",
            Monoid::ArgMax => "argmax",
            Monoid::ArgMin => "argmin",
        }
    }

    /// Whether the result is an index rather than a value.
    pub const fn is_index(self) -> bool {
        matches!(self, Monoid::ArgMax | Monoid::ArgMin)
    }

    /// For an index monoid: the monoid of the value at that index.
    pub const fn of_value(self) -> Option<Monoid> {
        match self {
            Monoid::ArgMax => Some(Monoid::Max),
            Monoid::ArgMin => Some(Monoid::Min),
            _ => None,
        }
    }
}

/// How a scatter combines updates of one element.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Combine {
    /// Sum, in the order of the indices.
    Add,
    /// The last one in the order of the indices wins.
    Set,
}

/// The axes of a matmul (a general dot product) and its precision. Result axes: batch, free axes of the left, free axes
/// of the right; each in operand order.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct MatmulSpec {
    /// Pairs (left axis, right axis) of batch axes.
    pub batch: Vec<(usize, usize)>,
    /// Pairs (left axis, right axis) of contracted axes.
    pub contracted: Vec<(usize, usize)>,
    /// The precision of a product of `f32`; `None` is that of the plan.
    pub precision: Option<Precision>,
}

impl MatmulSpec {
    /// A product in the precision of the plan, given its pairs (left axis, right axis).
    pub fn new(batch: Vec<(usize, usize)>, contracted: Vec<(usize, usize)>) -> MatmulSpec {
        MatmulSpec { batch, contracted, precision: None }
    }

    /// The product in this precision, in every plan.
    pub fn with_precision(self, precision: Option<Precision>) -> MatmulSpec {
        MatmulSpec { precision, ..self }
    }

    /// `[m, k] · [k, n]`.
    pub fn of_matrices() -> MatmulSpec {
        MatmulSpec::new(vec![], vec![(1, 0)])
    }

    /// Axes of the left operand that are neither batch nor contracted.
    pub fn lhs_free(&self, rank: usize) -> Vec<usize> {
        (0..rank).filter(|&a| !self.batch.iter().chain(&self.contracted).any(|&(l, _)| l == a)).collect()
    }

    /// Axes of the right operand that are neither batch nor contracted.
    pub fn rhs_free(&self, rank: usize) -> Vec<usize> {
        (0..rank).filter(|&a| !self.batch.iter().chain(&self.contracted).any(|&(_, r)| r == a)).collect()
    }

    /// Shape of the result.
    pub fn shape(&self, lhs: &Type, rhs: &Type) -> Vec<Dim> {
        let batch = self.batch.iter().map(|&(l, _)| lhs.shape[l].clone());
        let left = self.lhs_free(lhs.rank()).into_iter().map(|a| lhs.shape[a].clone());
        let right = self.rhs_free(rhs.rank()).into_iter().map(|a| rhs.shape[a].clone());
        batch.chain(left).chain(right).collect()
    }
}
