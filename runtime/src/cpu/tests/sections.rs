//! Joined tensors, and rows that run across several bundles of a block.

use super::super::interp::Sharing;
use super::super::launch::sections::SectionLaunch;
use super::*;
use engine_core::fusion::{Kernel, KernelBody};

/// Part `i` of a tensor joined along axis 1 of `[rows, total, width]`, zeros elsewhere; parts have `1 + i % 3` coordinates.
fn padded(b: &mut Builder, dtype: DType, i: usize, [rows, total, width]: [usize; 3]) -> (Value, usize) {
    let (before, extent) = ((0..i).map(|part| 1 + part % 3).sum::<usize>(), 1 + i % 3);
    let part = data(b, &format!("x{i}"), dtype, &[rows, extent, width]);
    let (low, high) = ([0, before, 0], [0, total - before - extent, 0]);
    (b.pad(part, &low, &high, Literal::Int(0)), before)
}

/// Parts joined by position, and their sum, which has to read `y + 0` where nothing else is added.
fn joined(dtype: DType, n_parts: usize, [rows, width]: [usize; 2]) -> Graph {
    let total = (0..n_parts).map(|part| 1 + part % 3).sum::<usize>() + 1;
    graph(|b| {
        let shape = [rows, total, width];
        let whole = ty(dtype, &shape);
        let y = data(b, "y", dtype, &shape);
        let (mut chosen, mut sum) = (y, y);
        for i in 0..n_parts {
            let (part, before) = padded(b, dtype, i, shape);
            sum = b.add(sum, part);
            let position = b.iota(1, whole.with_dtype(DType::I32));
            chosen = b.map(&[position, chosen, part], |v| E::select(v[0].lt(before as i64), v[1], v[2]));
        }
        output(b, "chosen", chosen);
        output(b, "sum", sum);
    })
}

fn n_sectioned(graph: &Graph) -> usize {
    let is_sectioned = |kernel: &Kernel| match &kernel.body {
        KernelBody::Map(body) => {
            let sharing = vec![Sharing::Alone; kernel.operands.len()];
            SectionLaunch::new(body, &sharing).unwrap().is_some()
        }
        _ => false,
    };
    fuse(graph, true).kernels.iter().filter(|kernel| is_sectioned(kernel)).count()
}

#[test]
fn joined_tensors_are_those_of_the_oracle() {
    for dtype in [DType::F32, DType::F64, DType::BF16, DType::I32] {
        for (n_parts, shape) in [(3, [2, 5]), (7, [1, 1]), (12, [9, 130]), (5, [3, 3000]), (2, [4, 6])] {
            let graph = joined(dtype, n_parts, shape);
            assert!(n_sectioned(&graph) > 0, "{n_parts} parts");
            check_given(&graph, if dtype == DType::BF16 { 0.05 } else { 1e-6 }, &[]);
        }
    }
}

/// The sum of -0 and a border of 0 is 0, and the choice of -0 is -0.
#[test]
fn joined_zeros_keep_their_signs() {
    let graph = joined(DType::F32, 6, [2, 3]);
    let zeros = |name: &str, n: usize| (name.to_owned(), vec![-0.0; n]);
    let names = (0..6).map(|i| zeros(&format!("x{i}"), 2 * (1 + i % 3) * 3));
    let given: HashMap<String, Vec<f64>> = names.chain([zeros("y", 2 * 13 * 3)]).collect();
    let mut run = Run::new(&graph, true, 1, &given);
    run.executable.run(0, 1).unwrap();
    let signs = |name: &str| {
        numbers_of(&ty(DType::F32, &[78]), &run.output(name))
            .iter()
            .map(|x| x.is_sign_negative())
            .collect::<Vec<_>>()
    };
    assert_eq!(signs("sum"), [false; 78]);
    // The last part reaches one coordinate from the end, where the choice is its border.
    assert_eq!(signs("chosen").iter().filter(|is_negative| **is_negative).count(), 72);
}

#[test]
fn short_rows_across_several_bundles_are_those_of_the_oracle() {
    for dtype in [DType::F32, DType::F64, DType::I32] {
        for shape in [[70, 4, 25], [3, 9, 7], [1, 4, 144], [90, 1, 3], [5, 2, 700], [33, 17, 100]] {
            let graph = graph(|b| {
                let x = data(b, "x", dtype, &shape);
                for monoid in [Monoid::Sum, Monoid::Max, Monoid::ArgMax, Monoid::ArgMin] {
                    let best = b.reduce(monoid, x, &[1]);
                    output(b, monoid.name(), best);
                    if monoid == Monoid::Max {
                        let repeated = b.unreduce(best, &[1], x);
                        let far = b.sub(x, repeated);
                        output(b, "far", far);
                    }
                }
            });
            check_given(&graph, 1e-5, &[]);
        }
    }
}
