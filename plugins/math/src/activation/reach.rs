//! A shared bound of activations.

use engine_core::ir::E;

/// Beyond ±800, e^-|x| is 0 in every type.
const REACH: f64 = 800.0;

/// For functions x·s(x) where s tends to 0 on the left and to 1 on the right, as fast as e^-|x| or faster. The results
/// replace the factor x and the operand of s. So neither the value nor the derivative has a product of 0 and infinity.
pub fn within_reach(x: E) -> (E, E) {
    let left = x.max(-REACH);
    (left, left.min(REACH))
}
