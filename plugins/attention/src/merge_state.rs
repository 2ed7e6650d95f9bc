//! `merge_state`.

use engine_core::ir::{Builder, DType, E, Type, Value};
use engine_core::op::{Example, OpForm, TypeIssue};

/// Attention to two sets of keys from attention to each. With `m` the larger of `lse` and `lse2`,
/// `lse' = m + ln(exp(lse - m) + exp(lse2 - m))` and `y' = exp(lse - lse')·y + exp(lse2 - lse')·y2`. It is associative,
/// so any number of parts may be merged in any grouping. A part without keys (-inf) changes nothing.
pub fn merge_state() -> OpForm {
    OpForm::new("merge_state", "Merges the results of attention to two sets of keys.")
        .input("y", "results of the first set, […, width]")
        .input("lse", "logarithms of its sums, […]")
        .input("y2", "results of the second set")
        .input("lse2", "logarithms of its sums")
        .results(&["y", "lse"])
        .types(|types, _| {
            types[0].expect_dtype("merge_state", 0, DType::is_float, "floats")?;
            expect_pair(types, 0)?;
            expect_pair(types, 2)?;
            Ok(types[..2].to_vec())
        })
        .expand(|b, call| merged(b, call.inputs))
        .examples(examples())
}

fn examples() -> Vec<Example> {
    vec![
        Example::new(
            "parts that weigh alike",
            "merge_state(a, b, c, d)",
            &[("f32[1, 2]", &[1., 2.]), ("f32[1]", &[0.]), ("f32[1, 2]", &[3., 6.]), ("f32[1]", &[0.])],
            &[("f32[1, 2]", &[2., 4.]), ("f32[1]", &[std::f64::consts::LN_2])],
        ),
        Example::new(
            "a part without visible keys",
            "merge_state(a, b, c, d)",
            &[
                ("f32[1, 1]", &[0.]),
                ("f32[1]", &[f64::NEG_INFINITY]),
                ("f32[1, 1]", &[3.]),
                ("f32[1]", &[-2.]),
            ],
            &[("f32[1, 1]", &[3.]), ("f32[1]", &[-2.])],
        ),
        Example::new(
            "three parts in four for the first; both so large that their exponentials overflow",
            "merge_state(a, b, c, d)",
            &[
                ("f32[2, 1]", &[4., 4.]),
                ("f32[2]", &[1.098_612_288_668_109_8, 200.]),
                ("f32[2, 1]", &[8., 8.]),
                ("f32[2]", &[0., 200.]),
            ],
            &[("f32[2, 1]", &[5., 6.]), ("f32[2]", &[1.386_294_361_119_890_6, 200.693_147_180_559_95])],
        ),
        Example::new(
            "two parts without visible keys",
            "merge_state(a, b, c, d)",
            &[
                ("f32[1, 1]", &[0.]),
                ("f32[1]", &[f64::NEG_INFINITY]),
                ("f32[1, 1]", &[0.]),
                ("f32[1]", &[f64::NEG_INFINITY]),
            ],
            &[("f32[1, 1]", &[0.]), ("f32[1]", &[f64::NEG_INFINITY])],
        ),
    ]
}

/// Checks that operands `first` and the next one are results of the same queries as the first two.
fn expect_pair(types: &[Type], first: usize) -> Result<(), TypeIssue> {
    let (y, lse) = (&types[first], &types[first + 1]);
    let fits = *y == types[0]
        && y.rank() > 0
        && lse.shape == types[0].shape[..y.rank() - 1]
        && lse.dtype == y.dtype.accumulator();
    if fits {
        return Ok(());
    }
    Err(TypeIssue::new(format!("`merge_state` of {} with {y} and {lse}", types[0]))
        .at(first, format!("this is {y}"))
        .help("both parts are [\u{2026}, width], each with a number, in f32 or wider, for each row"))
}

fn merged(b: &mut Builder, inputs: &[Value]) -> Vec<Value> {
    let [y1, lse1, y2, lse2] = inputs[..] else { engine_core::bug!("`merge_state` takes four operands") };
    let larger = b.map(&[lse1, lse2], |l| {
        let m = l[0].max(l[1]);
        E::select(m.eq(f64::NEG_INFINITY), 0.0, m)
    });
    let lse = b.map(&[lse1, lse2, larger], |l| ((l[0] - l[2]).exp() + (l[1] - l[2]).exp()).log() + l[2]);
    let share = |b: &mut Builder, part: Value| {
        b.map(&[part, lse], |l| {
            let whole = E::select(l[1].eq(f64::NEG_INFINITY), 0.0, l[1]);
            (l[0] - whole).exp()
        })
    };
    let (w1, w2) = (share(b, lse1), share(b, lse2));
    let last = b.ty(y1).rank() - 1;
    let (w1, w2) = (b.unreduce(w1, &[last], y1), b.unreduce(w2, &[last], y1));
    let wide = b.dtype(lse);
    let (wide1, wide2) = (b.cast(y1, wide), b.cast(y2, wide));
    let y = b.map(&[w1, wide1, w2, wide2], |v| v[0] * v[1] + v[2] * v[3]);
    vec![b.cast(y, b.dtype(y1)), lse]
}
