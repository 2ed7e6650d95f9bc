//! Sequences kept in pages, such as the keys and values of a decoder.

use crate::indices::{Indices, expect_index, linear, masked};
use engine_core::ir::{Builder, Combine, DType, Dim, E, Type, Value};
use engine_core::op::{Lowering, OpForm, TypeIssue};

/// `y[b, t, …] = pages[table[b, t / S], t % S, …]` for pages [P, S, …] and a table [B, N]: each row's contiguous
/// sequence, [B, N·S, …]. Positions from `lengths[b]` on are 0, and their entries in the table are ignored.
pub fn paged_gather() -> OpForm {
    OpForm::new("paged_gather", "Packs sequences that are kept in pages.")
        .follows_operands()
        .input("pages", "[P, S, …], pages of S positions")
        .input("table", "[B, N], the pages of each sequence, in order")
        .input("lengths", "[B], how many positions of each sequence are filled")
        .types(|types, _| {
            expect_pages("paged_gather", types)?;
            let (pages, table) = (&types[0], &types[1]);
            let Some(longest) = table.shape[1].fixed().zip(pages.shape[1].fixed()).map(|(n, s)| n * s) else {
                return Err(TypeIssue::new("the number of pages of a sequence must be known")
                    .at(1, format!("this is {table}")));
            };
            let shape = [table.shape[0].clone(), Dim::Fixed(longest)];
            let shape = shape.into_iter().chain(pages.shape[2..].iter().cloned()).collect();
            Ok(vec![Type { dtype: pages.dtype, shape }])
        })
        .expand(|b, call| vec![packed(b, call)])
        .example(
            "three positions on the last page and the first",
            "paged_gather(a, b, c)",
            &[("f32[3, 2, 1]", &[1., 2., 3., 4., 5., 6.]), ("i32[1, 2]", &[2., 0.]), ("i32[1]", &[3.])],
            &[("f32[1, 4, 1]", &[5., 6., 1., 0.])],
        )
}

/// The pages with `values[b, …]` at position `positions[b]` of sequence b: `pages[table[b, p / S], p % S, …]`. A position
/// beyond the sequence's pages is an index error.
pub fn paged_scatter() -> OpForm {
    OpForm::new("paged_scatter", "Writes one position of each sequence that is kept in pages.")
        .input("pages", "[P, S, …], pages of S positions")
        .input("table", "[B, N], the pages of each sequence, in order")
        .input("positions", "[B], where each sequence is written")
        .input("values", "[B, …], the new values")
        .results(&["pages_next"])
        .types(|types, _| {
            expect_pages("paged_scatter", types)?;
            let (pages, values) = (&types[0], &types[3]);
            let shape = types[1].shape[..1].iter().chain(&pages.shape[2..]).cloned().collect();
            let wanted = Type { dtype: pages.dtype, shape };
            match *values == wanted {
                true => Ok(vec![pages.clone()]),
                false => Err(TypeIssue::new(format!("`paged_scatter` of {values} to {pages}"))
                    .at(3, format!("this is {values}"))
                    .help(format!("there is one value for each sequence: {wanted}"))),
            }
        })
        .expand(|b, call| vec![written(b, call)])
        .example(
            "the third position, on the sequence's second page",
            "paged_scatter(a, b, c, d)",
            &[
                ("f32[3, 2, 1]", &[1., 2., 3., 4., 5., 6.]),
                ("i32[1, 2]", &[2., 0.]),
                ("i32[1]", &[2.]),
                ("f32[1, 1]", &[9.]),
            ],
            &[("f32[3, 2, 1]", &[9., 2., 3., 4., 5., 6.])],
        )
}

/// Checks pages, a table and a number for each sequence.
fn expect_pages(op: &str, types: &[Type]) -> Result<(), TypeIssue> {
    let (pages, table, per_sequence) = (&types[0], &types[1], &types[2]);
    expect_index(op, 1, table)?;
    expect_index(op, 2, per_sequence)?;
    if pages.rank() >= 2 && table.rank() == 2 && per_sequence.shape == table.shape[..1] {
        return Ok(());
    }
    Err(TypeIssue::new(format!("`{op}` of {pages} by {table} and {per_sequence}"))
        .at(1, format!("this is {table}"))
        .help("it takes [P, S, …], [B, N] and [B]"))
}

/// All positions of all pages in one row.
fn positions(b: &mut Builder, pages: Value) -> Value {
    let extents = b.extents(pages);
    let lines: Vec<usize> = [extents[0] * extents[1]].iter().chain(&extents[2..]).copied().collect();
    b.reshape(pages, &lines)
}

fn packed(b: &mut Builder, call: &Lowering) -> Value {
    let [pages, table, lengths] = [call.inputs[0], call.inputs[1], call.inputs[2]];
    let [table, lengths] = [table, lengths].map(|x| b.cast(x, DType::I32));
    let (extents, sequences) = (b.extents(pages), b.extents(table));
    let (n_pages, page) = (extents[0], extents[1]);
    let longest = sequences[1] * page;
    let ty = Type::new(DType::I32, &[sequences[0], sequences[1], page]);
    let (nth, within) = (b.iota(1, ty.clone()), b.iota(2, ty.clone()));
    let lengths = b.check_index(lengths, longest + 1);
    let lengths = b.broadcast_axes(lengths, &[0], &ty.shape);
    let size = page as i64;
    let counts = b.map(&[nth, within, lengths], |v| (v[0] * E::from(size) + v[1]).lt(v[2]));
    let number = b.broadcast_axes(table, &[0, 1], &ty.shape);
    let number = b.map(&[counts, number], |v| E::select(v[0], v[1], 0i64));
    let number = Indices { at: b.check_index(number, n_pages), counts: Some(counts) };
    let idx = linear(b, vec![number, Indices { at: within, counts: None }], &extents[..2]);
    let lines = positions(b, pages);
    let y = b.gather(lines, idx.at, 0, 0);
    let y = masked(b, y, idx.counts, &[0, 1, 2]);
    let packed: Vec<usize> = [sequences[0], longest].iter().chain(&extents[2..]).copied().collect();
    b.reshape(y, &packed)
}

fn written(b: &mut Builder, call: &Lowering) -> Value {
    let [pages, table, at, values] = [0, 1, 2, 3].map(|operand| call.inputs[operand]);
    let [table, at] = [table, at].map(|x| b.cast(x, DType::I32));
    let (extents, sequences) = (b.extents(pages), b.extents(table));
    let size = extents[1].max(1) as i64;
    let at = b.check_index(at, sequences[1] * extents[1]);
    let nth = b.map(&[at], |p| p[0] / E::from(size));
    let within = b.map(&[at], |p| p[0] % E::from(size));
    let nth = b.reshape(nth, &[sequences[0], 1]);
    let number = b.gather(table, nth, 1, 1);
    let number = b.reshape(number, &sequences[..1]);
    let number = b.check_index(number, extents[0]);
    let whole = |at| Indices { at, counts: None };
    let idx = linear(b, vec![whole(number), whole(within)], &extents[..2]);
    let lines = positions(b, pages);
    let y = b.scatter(lines, idx.at, values, 0, 0, Combine::Set);
    b.reshape(y, &extents)
}
