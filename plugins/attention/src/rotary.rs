//! Rotary position embeddings.

use crate::rotation::{attrs, expect_rows, positions, positions_spec, rotated};
use engine_core::ir::{Attrs, Builder, DType, E, Type, Value};
use engine_core::op::{AttrKind, AttrSpec, Lowering, OpForm, TypeIssue};

/// Turns pair i of N in a row at position p by the angle `p·base^(-i/N)`, computed in f32 or wider (Su et al. 2021). The
/// layout `half` pairs element i with i + N, as in GPT-NeoX and Hugging Face's Llama; `interleaved` pairs 2i with 2i + 1,
/// as in the paper. With `dims`, only that many elements of each row turn. An angle in f32 is exact to about `p·2⁻²³`;
/// tables from elsewhere go to `apply_rotary_embedding`.
pub fn rotary() -> OpForm {
    OpForm::new("rotary", "Turns pairs of elements of each row by angles that grow with its position.")
        .follows_operands()
        .input("x", "rows of queries or keys, […, S, D]")
        .inputs([positions_spec()])
        .attrs(attrs())
        .attr(AttrSpec::open("dims", "how many elements of a row turn; all by default", AttrKind::Int))
        .attr(
            AttrSpec::float("base", "how much slower each pair turns than the first", 10000.0).at_least(1.0),
        )
        .types(|types, attrs| {
            let n_dims = n_dims(attrs)?;
            expect_rows("rotary", &types[0], n_dims, types.get(1).map(|ty| (1, ty)))?;
            Ok(vec![types[0].clone()])
        })
        .expand(|b, call| vec![turned(b, call)])
        .example(
            "by the angles 1 and ½",
            "rotary(a, b, base=4.0)",
            &[("f32[1, 4]", &[1., 2., 3., 4.]), ("i32[]", &[1.])],
            &[(
                "f32[1, 4]",
                &[-1.9841106485555495, -0.1625370306360665, 2.4623779024123156, 4.469181324769897],
            )],
        )
}

fn n_dims(attrs: &Attrs) -> Result<Option<usize>, TypeIssue> {
    match attrs.opt_int("dims") {
        Some(n) if n < 0 => Err(TypeIssue::new(format!("`rotary` of {n} elements")).at_setting("dims")),
        given => Ok(given.map(|n| n as usize)),
    }
}

fn turned(b: &mut Builder, call: &Lowering) -> Value {
    let x = b.widen(call.inputs[0]);
    let depth = b.extents(x)[b.ty(x).rank() - 1];
    let n_pairs = call.attrs.opt_int("dims").map_or(depth, |n| n as usize) / 2;
    let at = positions(b, x, call.inputs.get(1).copied());
    let angles = angles(b, at, n_pairs, b.dtype(x), call.attrs.float("base"));
    let tables = [b.map(&[angles], |a| a[0].cos()), b.map(&[angles], |a| a[0].sin())];
    let y = rotated(b, x, tables, call.attrs);
    b.cast(y, b.dtype(call.inputs[0]))
}

/// The angle of each pair at each position.
fn angles(b: &mut Builder, positions: Value, n_pairs: usize, dtype: DType, base: f64) -> Value {
    let mut extents = b.extents(positions);
    extents.push(n_pairs);
    let ty = Type::new(DType::I32, &extents);
    let axes: Vec<usize> = (0..extents.len() - 1).collect();
    let at = b.broadcast_axes(positions, &axes, &ty.shape);
    let pair = b.iota(extents.len() - 1, ty);
    b.map(&[at, pair], |v| {
        let slower = E::from(base).pow(v[1].cast(dtype) * (-1.0 / n_pairs as f64));
        v[0].cast(dtype) * slower
    })
}
