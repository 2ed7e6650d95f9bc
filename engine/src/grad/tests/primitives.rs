//! Gradients of primitives.

use super::*;

#[test]
fn scalar_primitives() {
    check_one(&[5], |b, x| b.map(&[x], |x| x[0].tanh() * x[0].exp() + (x[0] * x[0] + 1.0).log()));
    check_one(&[5], |b, x| b.map(&[x], |x| x[0].abs().sqrt() + x[0].erf() - x[0].sin() / (2.0 + x[0].cos())));
    check(&[(&[2], &[0.5, 1.5]), (&[2], &[1.2, -0.7])], |b, x| b.map(x, |x| x[0].pow(x[1])));
    check_one(&[4], |b, x| {
        let y = b.mul(x, x);
        b.unary(crate::ir::Unary::Exp, y)
    });
}

#[test]
fn broadcasting_is_undone_by_sums() {
    let (a, c) = (numbers(6), numbers(3));
    check(&[(&[2, 3], &a), (&[3], &c)], |b, x| b.map(x, |x| x[0] * x[1] * x[1]));
    check(&[(&[2, 3], &a), (&[1, 3], &c)], |b, x| b.map(x, |x| x[0].exp() * x[1]));
    check(&[(&[2, 1, 3], &a), (&[3, 1], &c)], |b, x| b.mul(x[0], x[1]));
}

#[test]
fn views() {
    let squared = |b: &mut Builder, x: Value| b.mul(x, x);
    check_one(&[2, 3], |b, x| {
        let y = b.reshape(x, &[3, 2]);
        squared(b, y)
    });
    check_one(&[2, 3, 2], |b, x| {
        let y = b.permute(x, &[2, 0, 1]);
        squared(b, y)
    });
    check_one(&[2, 1], |b, x| {
        let y = b.broadcast_axes(x, &[1, 2], &[4.into(), 2.into(), 3.into()]);
        squared(b, y)
    });
    check_one(&[2, 2], |b, x| {
        let y = b.pad(x, &[1, 0], &[0, 2], Literal::Float(3.0));
        squared(b, y)
    });
}

#[test]
fn slices_of_any_stride_and_direction() {
    for (start, count, step) in
        [(0, 7, 1), (2, 3, 1), (1, 3, 2), (0, 3, 3), (6, 7, -1), (5, 3, -2), (3, 1, -4)]
    {
        check_one(&[7, 2], |b, x| {
            let y = b.slice(x, &[start, 1], &[count, 1], &[step, 1]);
            b.mul(y, y)
        });
    }
}

#[test]
fn reductions() {
    for monoid in [Monoid::Sum, Monoid::Prod, Monoid::Max, Monoid::Min] {
        check_one(&[3, 4], |b, x| {
            let y = b.reduce(monoid, x, &[1]);
            b.mul(y, y)
        });
        check_one(&[2, 3, 2], |b, x| b.reduce(monoid, x, &[0, 2]));
    }
}

#[test]
fn products_with_zeros() {
    let x = [2.0, 3.0, 4.0, 2.0, 0.0, 4.0, 0.0, 0.0, 4.0];
    let registry = registry();
    let product = |b: &mut Builder, x: &[Value]| b.reduce(Monoid::Prod, x[0], &[1]);
    check_once(&registry, &graph(&registry, &[(&[3, 3], &x)], &product), &[(&[3, 3], &x)]);
    check_once(
        &registry,
        &graph(&registry, &[(&[3, 3], &x)], &|b, x| {
            let ty = b.ty(x[0]).clone();
            b.push(NodeOp::Scan { monoid: Monoid::Prod, axis: 1 }, vec![x[0]], ty)
        }),
        &[(&[3, 3], &x)],
    );
}

#[test]
fn ties_share_evenly() {
    let registry = registry();
    let x: Operands = &[(&[4], &[1.0, 5.0, 5.0, 5.0])];
    let graph = graph(&registry, x, &|b, x| b.reduce(Monoid::Max, x[0], &[0]));
    let g = run(&registry, &gradient_graph(&registry, &graph), &feed(x));
    let third = 0.7f64.cos() / 3.0;
    assert_close(&g[0], &[0.0, third, third, third], "g");
}

#[test]
fn scans() {
    for monoid in [Monoid::Sum, Monoid::Prod, Monoid::Max, Monoid::Min] {
        for axis in [0, 1] {
            check_one(&[3, 4], |b, x| {
                let ty = b.ty(x).clone();
                let y = b.push(NodeOp::Scan { monoid, axis }, vec![x], ty);
                b.mul(y, y)
            });
        }
    }
}

/// An index tensor: (11·i + 2) mod `bound`, with repetitions.
fn indices(b: &mut Builder, extents: &[usize], bound: usize) -> Value {
    let flat = b.iota(0, Type::new(DType::I32, &[extents.iter().product()]));
    let idx = b.map(&[flat], |x| (x[0] * 11.0 + 2.0) % bound as f64);
    b.reshape(idx, extents)
}

#[test]
fn gathers() {
    check_one(&[2, 5, 3], |b, x| {
        let idx = indices(b, &[2, 4], 5);
        let y = b.gather(x, idx, 1, 0);
        b.mul(y, y)
    });
    check_one(&[2, 3, 5], |b, x| {
        let idx = indices(b, &[2, 4], 5);
        let y = b.gather(x, idx, 2, 1);
        b.mul(y, y)
    });
}

#[test]
fn scatters() {
    let (base, updates) = (numbers(2 * 5 * 3), numbers(2 * 8 * 3));
    for combine in [Combine::Add, Combine::Set] {
        check(&[(&[2, 5, 3], &base), (&[2, 2, 4, 3], &updates)], |b, x| {
            let idx = indices(b, &[2, 4], 5);
            let y = b.scatter(x[0], idx, x[1], 1, 0, combine);
            b.mul(y, y)
        });
        check(&[(&[2, 5, 3], &base), (&[2, 8, 3], &updates)], |b, x| {
            let idx = indices(b, &[2, 8], 5);
            let y = b.scatter(x[0], idx, x[1], 1, 1, combine);
            b.mul(y, y)
        });
    }
}

#[test]
fn matmuls() {
    let (a, c) = (numbers(6), numbers(12));
    check(&[(&[2, 3], &a), (&[3, 4], &c)], |b, x| b.mm(x[0], x[1]));
    let (a, c) = (numbers(2 * 3 * 2 * 4), numbers(4 * 2 * 2 * 2));
    // Axes in every order: lhs [k2, free, batch, k1], rhs [k1, batch, free, k2].
    let spec = MatmulSpec::new(vec![(2, 1)], vec![(3, 0), (0, 3)]);
    check(&[(&[2, 3, 2, 4], &a), (&[4, 2, 2, 2], &c)], |b, x| b.matmul(x[0], x[1], spec.clone()));
}
