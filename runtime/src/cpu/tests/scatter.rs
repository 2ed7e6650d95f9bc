//! Scatters with computed updates and indices.

use super::*;
use proptest::prelude::*;

fn zeros(b: &mut Builder, dtype: DType, extents: &[usize]) -> Value {
    b.full(Literal::Float(0.0), ty(dtype, extents))
}

#[test]
fn updates_are_computed_in_rows_of_all_lengths() {
    for width in [1, 5, 64, 300, 5000] {
        for (combine, dtype) in
            [(Combine::Add, DType::F32), (Combine::Set, DType::F32), (Combine::Add, DType::F16)]
        {
            check(2e-2, |b| {
                let base = zeros(b, dtype, &[9, width]);
                let idx = data(b, "idx", DType::I32, &[60]);
                let updates = data(b, "updates", dtype, &[60, width]);
                let scale = data(b, "scale", dtype, &[60, 1]);
                let updates = b.mul(updates, scale);
                let out = b.scatter(base, idx, updates, 0, 0, combine);
                output(b, "out", out);
            });
        }
    }
}

#[test]
fn the_gradient_of_a_lookup_is_that_of_the_oracle() {
    check(1e-5, |b| {
        let table = f32s(b, "table", &[7, 70]);
        let idx = data(b, "idx", DType::I32, &[3000]);
        let idx = b.check_index(idx, 7);
        let target = data(b, "target", DType::U8, &[3000, 70]);
        let target = b.cast(target, DType::F32);
        let row = b.gather(table, idx, 0, 0);
        let off = b.sub(row, target);
        let squares = b.mul(off, off);
        let loss = b.mean(squares, &[0, 1]);
        let slope = b.scale(off, 2.0 / 210_000.0);
        let base = zeros(b, DType::F32, &[7, 70]);
        let gradient = b.scatter(base, idx, slope, 0, 0, Combine::Add);
        output(b, "loss", loss);
        output(b, "gradient", gradient);
    });
}

#[test]
fn a_state_is_updated_in_place() {
    check(1e-6, |b| {
        let state = b.input("state", InputKind::State, ty(DType::F32, &[20, 6]));
        let idx = data(b, "idx", DType::I32, &[50]);
        let idx = b.check_index(idx, 20);
        let updates = f32s(b, "updates", &[50, 6]);
        let updates = b.scale(updates, 0.5);
        let next = b.scatter(state, idx, updates, 0, 0, Combine::Add);
        b.graph.state.push(StateLink { input: state.node, next });
    });
}

/// Random shapes, some of them empty: leading axes, axes before, the indexed axis, indices, axes after.
fn check_shape([batch, before, indexed, n, after]: [usize; 5], is_set: bool, base_is_read: bool) {
    let combine = if is_set { Combine::Set } else { Combine::Add };
    check(1e-5, |b| {
        let extents = [batch, before, indexed, after];
        let base = if base_is_read { f32s(b, "base", &extents) } else { zeros(b, DType::F32, &extents) };
        let idx = data(b, "idx", DType::I64, &[batch, n]);
        let bound = b.full_like(idx, indexed as f64);
        let idx = b.binary(Binary::Rem, idx, bound);
        let updates = f32s(b, "updates", &[batch, after, n, before]);
        let updates = b.permute(updates, &[0, 3, 2, 1]);
        let updates = b.unary(Unary::Tanh, updates);
        let out = b.scatter(base, idx, updates, 2, 1, combine);
        output(b, "out", out);
    });
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]
    #[test]
    fn any_shape_gives_what_the_oracle_gives(
        shape in (0..4usize, 0..4usize, 1..9usize, 0..20usize, 0..20usize),
        is_set: bool,
        base_is_read: bool,
    ) {
        let (batch, before, indexed, n, after) = shape;
        check_shape([batch, before, indexed, n, after], is_set, base_is_read);
    }
}
