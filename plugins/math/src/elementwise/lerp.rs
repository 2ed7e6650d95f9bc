//! `lerp`.

use engine_core::ir::{DType, E};
use engine_core::op::{Example, Grad, GradCheck, InputSpec, Lower, OpForm, Role, TypeRule};

/// `a + w·(b - a)` for w < ½, else `b - (b - a)·(1 - w)`: exact at both ends. The gradients are (1 - w)·g, w·g and
/// g·(b - a).
pub fn lerp() -> OpForm {
    OpForm {
        name: "lerp".into(),
        family: "elementwise".into(),
        summary: "Interpolates linearly between two tensors.".into(),
        inputs: vec![
            InputSpec::required("a", "where the weight is 0"),
            InputSpec::required("b", "where the weight is 1; it broadcasts with the others"),
            InputSpec::required("weight", "a number or a tensor; it broadcasts with the others"),
        ],
        outputs: vec!["y".into()],
        attrs: vec![],
        types: TypeRule::Broadcast { allowed: DType::is_float },
        lower: Lower::map(3, |x| {
            let [a, b, w] = [x[0], x[1], x[2]];
            E::select(w.lt(0.5), a + w * (b - a), b - (b - a) * (1.0 - w))
        }),
        grad: Grad::Derive,
        check: GradCheck::FiniteDifferences { range: (-2.0, 2.0), avoid: &[0.5] },
        examples: vec![Example {
            title: "at the ends, between and beyond",
            call: "lerp(a, b, c)",
            inputs: vec![("f32[]", vec![2.0]), ("f32[]", vec![4.0]), ("f32[4]", vec![0.0, 0.25, 1.0, 1.5])],
            outputs: vec![("f32[4]", vec![2.0, 2.5, 4.0, 5.0])],
        }],
        role: Role::Plain,
    }
}
