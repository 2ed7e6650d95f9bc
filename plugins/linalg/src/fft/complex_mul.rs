//! `complex_mul`.

use super::lines::expect_complex;
use engine_core::ir::{Builder, DType, E, Type, Value, broadcast_shapes};
use engine_core::op::{OpForm, TypeIssue};

/// Products of complex numbers, which are pairs along the last axis. All other axes broadcast.
pub fn complex_mul() -> OpForm {
    OpForm::new("complex_mul", "Multiplies complex numbers, which are pairs along the last axis.")
        .input("a", "[…, 2]")
        .input("b", "[…, 2]; it broadcasts with `a`")
        .types(|types, _| {
            types.iter().try_for_each(|ty| expect_complex("complex_mul", ty))?;
            let shape = broadcast_shapes(types).filter(|_| types[0].dtype == types[1].dtype);
            let issue = || TypeIssue::new(format!("`complex_mul` of {} and {}", types[0], types[1]));
            let shape = shape.ok_or_else(|| issue().at(1, format!("this is {}", types[1])))?;
            Ok(vec![Type { dtype: types[0].dtype, shape }])
        })
        .expand(|b, call| vec![product(b, call.inputs[0], call.inputs[1])])
        .example(
            "each with one",
            "complex_mul(a, b)",
            &[("f32[2, 2]", &[1., 2., 3., -1.]), ("f32[2]", &[0.5, 2.])],
            &[("f32[2, 2]", &[-3.5, 3., 3.5, 5.5])],
        )
}

/// `a·b`: the real part of `a` times b, plus the imaginary part times i·b.
fn product(b: &mut Builder, left: Value, right: Value) -> Value {
    let [re, im] = [0, 1].map(|part| sliced(b, left, part, 1, 1));
    let swapped = sliced(b, right, 1, 2, -1);
    let part = b.iota(0, Type::new(DType::I32, &[2]));
    b.map(&[re, im, right, swapped, part], |v| v[0] * v[2] + v[1] * E::select(v[4].eq(0i64), -v[3], v[3]))
}

/// `count` of the two parts.
fn sliced(b: &mut Builder, x: Value, start: usize, count: usize, step: i64) -> Value {
    let mut extents = b.extents(x);
    let last = extents.len() - 1;
    extents[last] = count;
    let (mut starts, mut steps) = (vec![0; last + 1], vec![1; last + 1]);
    (starts[last], steps[last]) = (start, step);
    b.slice(x, &starts, &extents, &steps)
}
