//! Statistics of a buffer.

use engine_core::ir::{Builder, DType, E, Monoid, Type, Value};
use engine_core::op::{Lowering, OpForm, TypeIssue};

/// Mean, standard deviation of the population, smallest and largest of all elements, or of the first `count` in
/// row-major order. All are 0 if there are no elements.
pub fn statistics() -> OpForm {
    OpForm::new(
        "statistics",
        "Computes mean, standard deviation, smallest and largest of all elements; zeros for none.",
    )
    .input("x", "a buffer, of any shape")
    .optional("count", "`i32[]`, how many elements count; those behind them do not")
    .results(&["mean", "std", "min", "max"])
    .types(|types, _| {
        types[0].expect_dtype("statistics", 0, DType::is_float, "floats")?;
        match types.get(1) {
            Some(count) if *count != Type::scalar(DType::I32) => {
                Err(TypeIssue::new(format!("a number of elements is i32[], not {count}"))
                    .at(1, format!("this is {count}")))
            }
            _ => Ok(vec![Type::scalar(types[0].dtype); 4]),
        }
    })
    .expand(all_four)
    .no_grad("statistics describe a buffer; use `mean`, `std`, `amin` and `amax` to train")
    .example(
        "of four numbers",
        "statistics(a)",
        &[("f32[4]", &[1., 3., 5., 7.])],
        &[("f32[]", &[4.]), ("f32[]", &[2.236068]), ("f32[]", &[1.]), ("f32[]", &[7.])],
    )
    .example(
        "of the first two",
        "statistics(a, b)",
        &[("f32[4]", &[1., 3., 5., f64::NAN]), ("i32[]", &[2.])],
        &[("f32[]", &[2.]), ("f32[]", &[1.]), ("f32[]", &[1.]), ("f32[]", &[3.])],
    )
    .example(
        "of none",
        "statistics(a)",
        &[("f32[0]", &[])],
        &[("f32[]", &[0.]), ("f32[]", &[0.]), ("f32[]", &[0.]), ("f32[]", &[0.])],
    )
    .example(
        "of the first none",
        "statistics(a, b)",
        &[("f32[2]", &[5., 7.]), ("i32[]", &[0.])],
        &[("f32[]", &[0.]), ("f32[]", &[0.]), ("f32[]", &[0.]), ("f32[]", &[0.])],
    )
}

fn all_four(b: &mut Builder, call: &Lowering) -> Vec<Value> {
    let given = call.inputs[0];
    let (dtype, n_elements) = (b.dtype(given), b.ty(given).numel());
    if n_elements == 0 {
        let zero = b.constant(0.0, dtype);
        return vec![zero; 4];
    }
    let x = b.widen(given);
    let x = b.reshape(x, &[n_elements]);
    let number = b.iota(0, Type::new(DType::I32, &[n_elements]));
    let count = match call.inputs.get(1) {
        Some(&count) => b.map(&[count], |c| c[0].max(0i64).min(n_elements as i64)),
        None => b.constant(n_elements as f64, DType::I32),
    };
    let counts = b.map(&[number, count], |v| v[0].lt(v[1]));
    let divisor = b.cast(count, b.dtype(x));
    let fold = |b: &mut Builder, monoid: Monoid, x: Value, neutral: f64| {
        let some = b.map(&[counts, x], |v| E::select(v[0], v[1], neutral));
        b.reduce(monoid, some, &[0])
    };
    let ratio = |b: &mut Builder, total: Value| b.map(&[total, divisor], |v| v[0] / v[1].max(1.0));
    let total = fold(b, Monoid::Sum, x, 0.0);
    let mean = ratio(b, total);
    let squares = b.map(&[x, mean], |v| (v[0] - v[1]) * (v[0] - v[1]));
    let squares = fold(b, Monoid::Sum, squares, 0.0);
    let variance = ratio(b, squares);
    let deviation = b.map(&[variance], |v| v[0].sqrt());
    let smallest = fold(b, Monoid::Min, x, f64::INFINITY);
    let largest = fold(b, Monoid::Max, x, f64::NEG_INFINITY);
    let [smallest, largest] =
        [smallest, largest].map(|y| b.map(&[divisor, y], |v| E::select(v[0].eq(0.0), 0.0, v[1])));
    [mean, deviation, smallest, largest].map(|y| b.cast(y, dtype)).to_vec()
}
