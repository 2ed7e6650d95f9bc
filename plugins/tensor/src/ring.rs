//! A buffer that keeps the last few items.

use engine_core::ir::{Builder, Combine, DType, Dim, E, Type, Value};
use engine_core::op::{Lowering, OpForm, TypeIssue};

/// The buffer with `item` at place `count % n` of its first axis, which overwrites the oldest of n items, and
/// `count + 1`. Places fill up from the first, so the first `min(count, n)` are valid.
pub fn ring_push() -> OpForm {
    OpForm::new("ring_push", "Writes an item over the oldest one of a buffer, and counts it.")
        .input("buffer", "[n, …], the last n items")
        .input("item", "[…], the new item")
        .input("count", "`i32[]`, how many have been written before")
        .results(&["buffer_next", "count_next"])
        .types(|types, _| {
            expect_ring(&types[0], &types[1], &types[2])?;
            Ok(vec![types[0].clone(), types[2].clone()])
        })
        .expand(pushed)
        .example(
            "the fourth item replaces the first",
            "ring_push(a, b, c)",
            &[("f32[3]", &[1., 2., 3.]), ("f32[]", &[4.]), ("i32[]", &[3.])],
            &[("f32[3]", &[4., 2., 3.]), ("i32[]", &[4.])],
        )
        .example(
            "the first of several rows",
            "ring_push(a, b, c)",
            &[("f32[2, 2]", &[0., 0., 0., 0.]), ("f32[2]", &[1., 2.]), ("i32[]", &[0.])],
            &[("f32[2, 2]", &[1., 2., 0., 0.]), ("i32[]", &[1.])],
        )
}

fn expect_ring(buffer: &Type, item: &Type, count: &Type) -> Result<(), TypeIssue> {
    if *count != Type::scalar(DType::I32) {
        return Err(TypeIssue::new(format!("a number of items is i32[], not {count}"))
            .at(2, format!("this is {count}")));
    }
    let places = buffer.shape.first().filter(|dim| **dim != Dim::Fixed(0));
    if places.is_none() || buffer.shape[1..] != item.shape || buffer.dtype != item.dtype {
        return Err(TypeIssue::new(format!("`ring_push` of {item} into {buffer}"))
            .at(1, format!("this is {item}"))
            .help("the buffer holds one or more items of this type along its first axis"));
    }
    Ok(())
}

fn pushed(b: &mut Builder, call: &Lowering) -> Vec<Value> {
    let [buffer, item, count] = [call.inputs[0], call.inputs[1], call.inputs[2]];
    let n_places = b.extents(buffer)[0];
    let place = b.map(&[count], |c| c[0] % E::from(n_places as i64));
    let place = b.reshape(place, &[1]);
    let place = b.check_index(place, n_places);
    let row: Vec<usize> = [1].iter().chain(&b.extents(item)).copied().collect();
    let row = b.reshape(item, &row);
    let next = b.scatter(buffer, place, row, 0, 0, Combine::Set);
    let count = b.map(&[count], |c| c[0] + E::from(1i64));
    vec![next, count]
}
