//! Caches of keys and values.

use engine_core::ir::{Builder, Combine, DType, Dim, Type, Value};
use engine_core::op::{AttrSpec, Lowering, OpForm, TypeIssue, checked};

/// The cache with `rows` at places `position`, `position + 1`, … of an axis. Rows that would not all lie within the cache
/// are an index error, and the cache stays as it is.
pub fn kv_insert() -> OpForm {
    OpForm::new("kv_insert", "Writes rows into a cache from a position on.")
        .input("cache", "[…, T, D], room for T rows")
        .input("rows", "[…, S, D], the new rows, of the same element type")
        .input(
            "position",
            "the place of the first new row: `[]`, or `[B]` for each of B caches along the first axis",
        )
        .results(&["cache_next"])
        .attr(AttrSpec::int("axis", "axis of the rows, negative from the end", -2))
        .types(|types, attrs| {
            let axis = types[0].axis(attrs.int("axis"))?;
            expect_rows(&types[0], &types[1], axis)?;
            expect_position(&types[0], &types[2], axis)?;
            Ok(vec![types[0].clone()])
        })
        .expand(|b, call| vec![inserted(b, call)])
        .example(
            "two rows after the first",
            "kv_insert(a, b, c)",
            &[("f32[4, 1]", &[1., 0., 0., 0.]), ("f32[2, 1]", &[2., 3.]), ("i32[]", &[1.])],
            &[("f32[4, 1]", &[1., 2., 3., 0.])],
        )
        .example(
            "a row in each of two caches",
            "kv_insert(a, b, c)",
            &[("f32[2, 2, 1]", &[1., 0., 3., 4.]), ("f32[2, 1, 1]", &[2., 5.]), ("i32[2]", &[1., 0.])],
            &[("f32[2, 2, 1]", &[1., 2., 5., 4.])],
        )
}

fn expect_rows(cache: &Type, rows: &Type, axis: usize) -> Result<(), TypeIssue> {
    let alike = |other: usize| other == axis || cache.shape[other] == rows.shape[other];
    let fits = cache.dtype == rows.dtype && cache.rank() == rows.rank() && (0..cache.rank()).all(alike);
    let issue =
        |message, help: String| Err(TypeIssue::new(message).at(1, format!("this is {rows}")).help(help));
    if !fits {
        let help = format!("rows have the cache's type, except along axis {axis}");
        return issue(format!("`kv_insert` of {rows} into {cache}"), help);
    }
    match (rows.shape[axis].fixed(), cache.shape[axis].fixed()) {
        (Some(n), Some(room)) if n > room => {
            issue(format!("{n} rows do not fit a cache of {room}"), "make the cache longer".to_owned())
        }
        _ => Ok(()),
    }
}

fn expect_position(cache: &Type, position: &Type, axis: usize) -> Result<(), TypeIssue> {
    position.expect_dtype("kv_insert", 2, |dtype| matches!(dtype, DType::I32 | DType::I64), "i32 or i64")?;
    let fits = match &position.shape[..] {
        [] => true,
        [n] => axis > 0 && *n == cache.shape[0],
        _ => false,
    };
    if fits {
        return Ok(());
    }
    Err(TypeIssue::new(format!("`kv_insert` into {cache} at {position}"))
        .at(2, format!("this is {position}"))
        .help("the position is a scalar, or one number for each cache along the first axis"))
}

fn inserted(b: &mut Builder, call: &Lowering) -> Value {
    let [cache, rows, position] = [0, 1, 2].map(|operand| call.inputs[operand]);
    let axis = checked(b.ty(cache).axis(call.attrs.int("axis")));
    let (room, n_rows) = (b.extents(cache)[axis], b.extents(rows)[axis]);
    // The last row lies within the cache if the first is among the first `room - n_rows + 1` places.
    let first = b.check_index(position, room - n_rows + 1);
    let shape: Vec<Dim> = b.ty(first).shape.iter().cloned().chain([Dim::Fixed(n_rows)]).collect();
    let batch = shape.len() - 1;
    let first = b.broadcast_axes(first, &(0..batch).collect::<Vec<_>>(), &shape);
    let row = b.iota(batch, b.ty(first).clone());
    let at = b.add(first, row);
    b.scatter(cache, at, rows, axis, batch, Combine::Set)
}
