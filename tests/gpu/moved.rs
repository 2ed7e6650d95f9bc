//! Maps that a kernel computes where another map reads them in another order.

use super::*;

/// Pairs of columns turned as in the gradient of rotary positions, beside other tensors: `[rows, width]` each.
fn side_by_side(dtype: DType, [rows, width, other]: [usize; 3]) -> Case {
    Case::new(|b| {
        let [x, y] = ["x", "y"].map(|name| data(b, name, dtype, &[rows, 2, width / 2]));
        let [cos, sin] = ["cos", "sin"].map(|name| data(b, name, DType::F32, &[width / 2]));
        let z = data(b, "z", dtype, &[rows, other]);
        let turned = [x, y].map(|x| {
            let wide = b.cast(x, DType::F32);
            let [cos, sin] = [cos, sin].map(|factor| b.broadcast_like(factor, wide));
            let straight = b.mul(wide, cos);
            let crossed = b.mul(wide, sin);
            let crossed = b.slice(crossed, &[0, 1, 0], &[rows, 2, width / 2], &[1, -1, 1]);
            let sum = b.add(straight, crossed);
            let narrow = b.cast(sum, dtype);
            b.reshape(narrow, &[rows, width])
        });
        let length = 2 * width + other;
        let mut at = 0;
        let mut all: Option<Value> = None;
        for (part, extent) in [(turned[0], width), (z, other), (turned[1], width)] {
            let padded = b.pad(part, &[0, at], &[0, length - at - extent], Literal::Float(0.0));
            at += extent;
            all = Some(all.map_or(padded, |all| b.add(all, padded)));
        }
        vec![all.unwrap()]
    })
}

/// With bounds at multiples of a vector, and between them. A device whose kernels take so many buffers has one kernel.
#[test]
fn maps_are_computed_where_they_are_read_in_another_order() {
    for (shape, dtype) in [
        ([1100, 64, 32], DType::F32),
        ([1100, 64, 32], DType::BF16),
        ([1100, 64, 32], DType::F16),
        ([1000, 54, 35], DType::F32),
        ([1000, 54, 35], DType::BF16),
    ] {
        let case = side_by_side(dtype, shape);
        for gpu in gpus().iter().filter(|gpu| gpu.model().kernels.most_operands > 6) {
            assert_eq!(case.plan(&**gpu, true).kernels.len(), 1, "{dtype} {shape:?} on {}", gpu.info().name);
        }
        case.check(if dtype == DType::F32 { 1e-6 } else { 0.01 });
    }
}

/// A computed value outside of its pad is no function of the fill.
#[test]
fn pads_of_moved_maps_hold_their_fill() {
    let case = Case::new(|b| {
        let [x, y] = ["x", "y"].map(|name| data(b, name, DType::F32, &[900, 48]));
        let one = b.full(Literal::Float(1.0), Type::new(DType::F32, &[900, 48]));
        let shifted = b.add(x, one);
        let shifted = b.unary(Unary::Neg, shifted);
        let moved = b.pad(shifted, &[0, 8], &[0, 40], Literal::Float(-7.5));
        let beside = b.pad(y, &[0, 44], &[0, 4], Literal::Float(0.25));
        vec![b.mul(moved, beside)]
    });
    case.check(1e-6);
}
