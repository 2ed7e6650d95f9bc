//! Scatters: producers that are fused, duplicated or stored.

use super::*;

fn lookup(b: &mut Builder) -> [Value; 3] {
    let table = b.input("table", InputKind::Param, f32s(&[1000, 64]));
    let idx = b.input("idx", InputKind::Data, Type::new(DType::I32, &[2000]));
    let idx = b.check_index(idx, 1000);
    [table, idx, b.gather(table, idx, 0, 0)]
}

fn added(b: &mut Builder, table: Value, idx: Value, updates: Value) -> Value {
    let zeros = b.full_like(table, 0.0);
    b.scatter(zeros, idx, updates, 0, 0, Combine::Add)
}

#[test]
fn producers_without_other_users_are_fused() {
    let graph = with_builder(|b| {
        let [table, idx, row] = lookup(b);
        let target = b.input("target", InputKind::Data, f32s(&[2000, 64]));
        let off = b.sub(row, target);
        let slope = b.unary(Unary::Tanh, off);
        let gradient = added(b, table, idx, slope);
        output(b, "gradient", gradient);
    });
    let kernels = fuse(&graph, true).kernels;
    expect![[r#"
        scatter t.6  # gather sub tanh scatter
          reads 776000 B, writes 256000 B, 384000 flop
          read @0 idx: i32[2000]
          read @1 table: f32[1000, 64]
          read @2 target: f32[2000, 64]
          write @3 t.6: f32[1000, 64]
          Add over [1, 1, 1000, 2000, 64]
          base
            points [1000, 64, 1]
            %0: f32 uniform = 0.0
            @3[64000:1] = %0
          update %5 at %1
            points [2000, 64, 1]
            %0: i32 row = @0[2000:1]
            %1: i32 row = check(%0, bound=1000)
            %2: f32 element = @1[2000:0, 64:1] + %1*64
            %3: f32 element = @2[128000:1]
            %4: f32 element = sub(%2, %3)
            %5: f32 element = tanh(%4)
    "#]]
    .assert_eq(&kernels[0].describe(&graph));
    assert_eq!(kernels.len(), 1);
}

#[test]
fn without_fusion_it_reads_its_updates() {
    let graph = with_builder(|b| {
        let [table, idx, row] = lookup(b);
        let doubled = b.scale(row, 2.0);
        let sums = added(b, table, idx, doubled);
        output(b, "sums", sums);
    });
    let kinds: Vec<&str> = fuse(&graph, false).kernels.iter().map(Kernel::kind).collect();
    assert_eq!(kinds, ["map", "map", "map", "scatter"]);
    check(
        graph,
        expect![[r#"
        scatter: idx table -> t.6
    "#]],
    );
}

/// The gradient of Σ (row - target)²: the forward pass and the scatter both compute the difference, which is never
/// stored.
#[test]
fn a_producer_with_other_users_is_duplicated_if_that_reads_less() {
    let graph = with_builder(|b| {
        let [table, idx, row] = lookup(b);
        let bytes = b.input("target", InputKind::Data, Type::new(DType::U8, &[2000, 64]));
        let target = b.cast(bytes, DType::F32);
        let off = b.sub(row, target);
        let squares = b.mul(off, off);
        let loss = b.sum(squares, &[0, 1]);
        let slope = b.scale(off, 2.0);
        let gradient = added(b, table, idx, slope);
        output(b, "loss", loss);
        output(b, "gradient", gradient);
    });
    check(
        graph,
        expect![[r#"
        row: idx table target -> t.6
        scatter: idx table target -> t.10
    "#]],
    );
}

/// The gradient of normalised rows: duplicating it would read as many bytes as it would save.
#[test]
fn a_producer_whose_duplicate_reads_as_much_is_stored() {
    let graph = with_builder(|b| {
        let [table, idx, row] = lookup(b);
        let upstream = b.input("upstream", InputKind::Data, f32s(&[2000, 64]));
        let products = b.mul(row, upstream);
        let total = b.sum(products, &[1]);
        let total = b.unreduce(total, &[1], row);
        let scaled = b.mul(row, total);
        let updates = b.sub(upstream, scaled);
        let gradient = added(b, table, idx, updates);
        output(b, "gradient", gradient);
    });
    check(
        graph,
        expect![[r#"
            row: upstream idx table -> t.7
            scatter: idx t.7 -> t.9
        "#]],
    );
}

/// A scatter updates state in place and has no assertions.
#[test]
fn a_scatter_into_state_reads_checked_indices() {
    let graph = with_builder(|b| {
        let state = b.input("state", InputKind::State, f32s(&[100, 8]));
        let idx = b.input("idx", InputKind::Data, Type::new(DType::I32, &[64]));
        let idx = b.check_index(idx, 100);
        let updates = b.input("updates", InputKind::Data, f32s(&[64, 8]));
        let updates = b.scale(updates, 2.0);
        let next = b.scatter(state, idx, updates, 0, 0, Combine::Set);
        b.graph.state.push(StateLink { input: state.node, next });
    });
    check(
        graph.clone(),
        expect![[r#"
        map: idx -> t.1
        map: updates -> t.3
        scatter: t.1 t.3 state -> t.4
    "#]],
    );
    let graph = graph.pruned();
    let plan = crate::plan::plan(&graph, fuse(&graph, true).kernels, 1);
    assert!(plan.kernels.iter().all(|kernel| kernel.ops != ["copy"]), "{plan}");
}

#[test]
fn a_producer_that_is_never_fused_is_stored() {
    let graph = with_builder(|b| {
        let [table, idx, row] = lookup(b);
        b.set_no_fuse(Some("row.2".into()));
        let doubled = b.scale(row, 2.0);
        b.set_no_fuse(None);
        let sums = added(b, table, idx, doubled);
        output(b, "sums", sums);
    });
    check(
        graph,
        expect![[r#"
        map: idx table -> t.2
        map: t.2 -> t.4
        scatter: idx t.4 -> t.6
    "#]],
    );
}

/// A running product by doubled steps. Taken in, its first link would be computed 2^10 times for each update.
#[test]
fn a_chain_of_shifted_maps_stays_outside() {
    let graph = with_builder(|b| {
        let base = b.input("base", InputKind::Data, f32s(&[10]));
        let idx = b.input("idx", InputKind::Data, Type::new(DType::I32, &[1024]));
        let idx = b.check_index(idx, 10);
        let mut x = b.input("x", InputKind::Data, f32s(&[1024]));
        for step in (0..10).map(|level| 1 << level) {
            let padded = b.pad(x, &[step], &[0], Literal::Float(1.0));
            let shifted = b.slice(padded, &[0], &[1024], &[1]);
            x = b.mul(x, shifted);
        }
        let out = b.scatter(base, idx, x, 0, 0, Combine::Add);
        output(b, "out", out);
    });
    let kernels = fuse(&graph, true).kernels;
    let longest = kernels.iter().map(|kernel| kernel.ops.len()).max().unwrap();
    assert!(kernels.len() > 1 && longest < 80, "{} kernels, {longest} ops in one", kernels.len());
}
