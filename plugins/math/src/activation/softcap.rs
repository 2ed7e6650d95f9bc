//! `softcap_tanh_projection`.

use engine_core::ir::{Body, DType};
use engine_core::op::{Lower, OpForm, TypeIssue};
use std::sync::Arc;

/// With p = x·weight by element: p/(1 + |p|) and tanh p. `weight` has the extent of the last axis of `x` and repeats
/// along the others, so that its gradient is a sum over these.
pub fn softcap_tanh_projection() -> OpForm {
    OpForm::new(
        "softcap_tanh_projection",
        "Scales the last axis and caps the result in two ways, rationally and by a hyperbolic tangent.",
    )
    .input("x", "[..., n]")
    .input("weight", "[n], a factor for each element of the last axis")
    .results(&["softcap", "tanh"])
    .types(|inputs, _| {
        let (x, weight) = (&inputs[0], &inputs[1]);
        x.expect_dtype("softcap_tanh_projection", 0, DType::is_float, "floats")?;
        if weight.dtype != x.dtype || weight.rank() != 1 || x.shape.last() != weight.shape.last() {
            return Err(TypeIssue::new(format!("`softcap_tanh_projection` of {x} by {weight}"))
                .at(1, format!("this is {weight}"))
                .help("it must have the type of `x` and only its last axis"));
        }
        Ok(vec![x.clone(), x.clone()])
    })
    .lower(Lower::Map(Arc::new(|_| {
        Body::new(2, |x| {
            let p = x[0] * x[1];
            vec![p / (1.0 + p.abs()), p.tanh()]
        })
    })))
    .example(
        "two rows",
        "softcap_tanh_projection(a, b)",
        &[("f32[2, 2]", &[0.5, -1.0, 2.0, 3.0]), ("f32[2]", &[2.0, 0.5])],
        &[
            ("f32[2, 2]", &[0.5, -0.3333333333333333, 0.8, 0.6]),
            ("f32[2, 2]", &[0.7615941559557649, -0.46211715726000974, 0.999329299739067, 0.9051482536448664]),
        ],
    )
}
