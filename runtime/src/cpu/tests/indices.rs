//! Gathers, scatters, scans and assertions.

use super::*;

#[test]
fn gathers_of_rows_and_of_elements() {
    for width in [1, 10, 300] {
        check(1e-6, |b| {
            let source = f32s(b, "source", &[7, width]);
            let idx = data(b, "idx", DType::I32, &[90]);
            let idx = b.check_index(idx, 7);
            let rows = b.gather(source, idx, 0, 0);
            let rows = b.unary(Unary::Exp, rows);
            output(b, "rows", rows);
        });
    }
    check(1e-6, |b| {
        let source = f32s(b, "source", &[20, 7]);
        let idx = data(b, "idx", DType::I64, &[20, 3]);
        let picked = b.gather(source, idx, 1, 1);
        let picked = b.add(picked, picked);
        output(b, "picked", picked);
        let across = data(b, "across", DType::U8, &[5]);
        let columns = b.gather(source, across, 1, 0);
        let total = b.sum(columns, &[1]);
        output(b, "total", total);
    });
}

#[test]
fn scatters_in_the_order_of_indices() {
    for (combine, extents) in [(Combine::Add, [7, 300]), (Combine::Add, [20, 1]), (Combine::Set, [9, 5])] {
        for dtype in [DType::F32, DType::I32, DType::F16] {
            check(1e-2, |b| {
                let base = data(b, "base", dtype, &extents);
                let idx = data(b, "idx", DType::I32, &[60]);
                let updates = data(b, "updates", dtype, &[60, extents[1]]);
                let out = b.scatter(base, idx, updates, 0, 0, combine);
                output(b, "out", out);
            });
        }
    }
    check(1e-6, |b| {
        let base = f32s(b, "base", &[3, 4, 8]);
        let idx = data(b, "idx", DType::I32, &[3, 5]);
        let updates = f32s(b, "updates", &[3, 4, 5]);
        let out = b.scatter(base, idx, updates, 2, 1, Combine::Add);
        output(b, "out", out);
    });
}

#[test]
fn scans_along_any_axis() {
    for (axis, monoid) in [(0, Monoid::Sum), (1, Monoid::Prod), (2, Monoid::Max), (1, Monoid::Min)] {
        check(1e-5, |b| {
            let x = f32s(b, "x", &[6, 8, 300]);
            let extents = ty(DType::F32, &[6, 8, 300]);
            let y = b.push(NodeOp::Scan { monoid, axis }, vec![x], extents);
            output(b, "y", y);
        });
    }
}

/// The oracle's error for a graph's data.
fn violation(graph: &Graph, given: &[(&str, Vec<f64>)]) -> String {
    let registry = Registry::new();
    let mut inputs: HashMap<String, OracleTensor> = HashMap::new();
    for (node, _) in graph.inputs().filter(|(_, kind)| *kind != InputKind::Step) {
        let (name, ty) = (graph.nodes[node].name(), graph.ty(Value::of(node)));
        let given = given.iter().find(|(known, _)| *known == &**name).map(|(_, numbers)| numbers.clone());
        let numbers = given.unwrap_or_else(|| numbers(name, ty));
        inputs.insert(name.to_string(), OracleTensor::new(ty.dtype, &ty.extents(), &numbers));
    }
    Oracle::new(&registry).run(graph, &inputs, SEED, 0).unwrap_err().to_string()
}

/// The position is that in the index tensor, in every kernel: a gather of whole rows, a transposition, a reversal.
#[test]
fn the_position_of_a_bad_index_is_that_in_its_tensor() {
    let graph = graph(|b| {
        let table = f32s(b, "table", &[7, 4]);
        let idx = data(b, "idx", DType::I32, &[6, 5]);
        let checked = b.check_index(idx, 7);
        let turned = b.permute(checked, &[1, 0]);
        let rows = b.gather(table, turned, 0, 0);
        let doubled = b.add(rows, rows);
        output(b, "doubled", doubled);
    });
    let mut idx = vec![3.0; 30];
    (idx[29], idx[13]) = (9.0, 7.0);
    let expected = violation(&graph, &[("idx", idx.clone())]);
    assert!(expected.ends_with("`: index 7 at position 13 is not in 0..7"), "{expected}");
    let given = HashMap::from([("idx".to_string(), idx)]);
    for (fused, n_threads) in [(true, 1), (true, 3), (false, 2)] {
        let mut run = Run::new(&graph, fused, n_threads, &given);
        assert_eq!(run.executable.run(0, 1).unwrap_err().to_string(), expected, "fused: {fused}");
    }
}

#[test]
fn integer_division_by_zero_is_an_error_and_float_division_is_not() {
    let graph = graph(|b| {
        let a = data(b, "a", DType::I32, &[300]);
        let d = data(b, "d", DType::I32, &[300]);
        let quotient = b.div(a, d);
        let three = b.full_like(a, 3.0);
        let rest = b.binary(Binary::Rem, quotient, three);
        output(b, "rest", rest);
        let x = f32s(b, "x", &[300]);
        let zero = b.full_like(x, 0.0);
        let infinite = b.div(x, zero);
        output(b, "infinite", infinite);
    });
    let mut d = vec![2.0; 300];
    let run = |fused, d: &[f64]| {
        let given = HashMap::from([("d".to_string(), d.to_vec())]);
        Run::new(&graph, fused, 2, &given).executable.run(0, 1)
    };
    assert_eq!((run(true, &d), run(false, &d)), (Ok(()), Ok(())));
    (d[290], d[41]) = (0.0, 0.0);
    let expected = violation(&graph, &[("d", d.clone())]);
    assert!(expected.ends_with("`: the divisor at position 41 is 0"), "{expected}");
    for fused in [true, false] {
        assert_eq!(run(fused, &d).unwrap_err().to_string(), expected);
    }
}

#[test]
fn an_index_out_of_range_is_an_error_and_no_state_is_written() {
    let graph = graph(|b| {
        let table = b.input("table", InputKind::Param, ty(DType::F32, &[7, 4]));
        let idx = data(b, "idx", DType::I32, &[50]);
        let checked = b.check_index(idx, 7);
        let rows = b.gather(table, checked, 0, 0);
        let total = b.sum(rows, &[0]);
        let total = b.broadcast_dims(total, &[7usize.into(), 4usize.into()]);
        let next = b.add(table, total);
        output(b, "rows", rows);
        b.graph.state.push(StateLink { input: table.node, next });
        let weights = b.input("weights", InputKind::State, ty(DType::F32, &[50]));
        let picked = b.cast(checked, DType::F32);
        let next = b.add(weights, picked);
        b.graph.state.push(StateLink { input: weights.node, next });
    });
    let mut idx = vec![3.0; 50];
    (idx[41], idx[12]) = (9.0, -2.0);
    let expected = violation(&graph, &[("idx", idx.clone())]);
    assert!(expected.ends_with("`: index -2 at position 12 is not in 0..7"), "{expected}");
    let given = HashMap::from([("idx".to_string(), idx)]);
    for (fused, n_threads) in [(true, 1), (true, 2), (false, 2)] {
        let mut run = Run::new(&graph, fused, n_threads, &given);
        let (table, weights) = (run.state("table"), run.state("weights"));
        let error = run.executable.run(0, 3).unwrap_err();
        assert_eq!(error.to_string(), expected);
        assert!(run.state("table") == table && run.state("weights") == weights, "state was written");
    }
}
