//! Places in sorted rows: `searchsorted` and `bucketize`.

use engine_core::ir::{Builder, DType, E, Literal, Type, Value};
use engine_core::op::{AttrSpec, Lowering, OpForm, TypeIssue};

/// How many elements of an ascending row are less than each value, or not greater if `right`: where the value is to be
/// inserted. One row serves all values, or each row of values has its own. NaN is larger than every number. Rows that do
/// not ascend have no defined result.
pub fn searchsorted() -> OpForm {
    OpForm::new("searchsorted", "Finds where values are to be inserted into sorted rows.")
        .input("sorted", "`[n]`, or `[…, n]` with the leading axes of the values; ascending")
        .input("values", "numbers of the same type")
        .results(&["indices"])
        .attr(right())
        .types(|types, _| Ok(vec![places("searchsorted", &types[0], &types[1], 1)?]))
        .expand(|b, call| vec![searched(b, call.inputs[0], call.inputs[1], call)])
        .no_grad(WHY)
        .example(
            "before equal elements",
            "searchsorted(a, b)",
            &[("f32[4]", &[1., 3., 3., 5.]), ("f32[4]", &[0., 3., 4., 9.])],
            &[("i32[4]", &[0., 1., 3., 4.])],
        )
        .example(
            "behind equal elements, in a row for each row",
            "searchsorted(a, b, right=true)",
            &[("i32[2, 3]", &[1., 3., 5., 2., 2., 2.]), ("i32[2, 2]", &[3., 6., 1., 2.])],
            &[("i32[2, 2]", &[2., 3., 0., 3.])],
        )
}

/// The bucket of each value: how many boundaries are less than it, or not greater if `right`. NaN is in the last bucket.
pub fn bucketize() -> OpForm {
    OpForm::new("bucketize", "Finds the bucket of each value between ascending boundaries.")
        .input("values", "numbers of any shape")
        .input("boundaries", "`[n]`, of the same type; ascending")
        .results(&["indices"])
        .attr(right())
        .types(|types, _| match types[1].rank() {
            1 => Ok(vec![places("bucketize", &types[1], &types[0], 0)?]),
            _ => Err(TypeIssue::new(format!("boundaries are a vector, not {}", types[1]))
                .at(1, format!("this is {}", types[1]))),
        })
        .expand(|b, call| vec![searched(b, call.inputs[1], call.inputs[0], call)])
        .no_grad(WHY)
        .example(
            "three buckets",
            "bucketize(a, b)",
            &[("f32[2, 2]", &[0.5, 1., 1.5, f64::NAN]), ("f32[2]", &[1., 2.])],
            &[("i32[2, 2]", &[0., 0., 1., 2.])],
        )
}

const WHY: &str = "an index is piecewise constant";

fn right() -> AttrSpec {
    AttrSpec::flag("right", "whether equal elements come before the place", false)
}

/// The type of the places; `operand` is the one that does not fit.
fn places(op: &str, sorted: &Type, values: &Type, operand: usize) -> Result<Type, TypeIssue> {
    let lead = sorted.rank().saturating_sub(1);
    let is_own = sorted.rank() == values.rank() && sorted.shape[..lead] == values.shape[..lead];
    let fits = sorted.rank() == 1 || sorted.rank() > 1 && is_own;
    if fits && sorted.dtype == values.dtype && sorted.dtype != DType::Bool {
        return Ok(values.with_dtype(DType::I32));
    }
    Err(TypeIssue::new(format!("`{op}` of values {values} in {sorted}"))
        .at(operand, format!("this is {values}"))
        .help(
            "both are numbers of one type; the sorted row is a vector, or has the leading axes of the values",
        ))
}

/// A binary search: the count grows by falling powers of 2 while elements come before the value.
fn searched(b: &mut Builder, sorted: Value, values: Value, call: &Lowering) -> Value {
    let rank = b.ty(sorted).rank();
    let n = b.extents(sorted)[rank - 1];
    let (right, is_float) = (call.attrs.bool("right"), b.dtype(values).is_float());
    let mut count = b.full(Literal::Int(0), b.ty(values).with_dtype(DType::I32));
    let mut step = if n == 0 { 0 } else { 1 << n.ilog2() };
    while step > 0 {
        let at = b.map(&[count], |c| (c[0] + E::from(step as i64)).min(n as i64) - E::from(1i64));
        let element = b.gather(sorted, at, rank - 1, rank - 1);
        count = b.map(&[count, element, values], |v| {
            let [count, element, value] = [v[0], v[1], v[2]];
            let next = count + E::from(step as i64);
            let is_before = if right { element.le(value) } else { element.lt(value) };
            let is_before = match (is_float, right) {
                (false, _) => is_before,
                (true, true) => is_before | value.is_nan(),
                (true, false) => is_before | (value.is_nan() & !element.is_nan()),
            };
            E::select(next.le(n as i64) & is_before, next, count)
        });
        step /= 2;
    }
    count
}
