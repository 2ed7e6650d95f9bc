#![allow(clippy::unwrap_used)]
//! Plans of random graphs: live buffers do not overlap, every read comes after its write, and states are overwritten
//! only after all reads and checks.

use super::{Launch, Place, Plan, plan, separate_states};
use crate::device_model::{DeviceModel, KernelLimits};
use crate::fusion::{KernelBody, Settings, Use, fuse, fuse_with, verify};
use crate::ir::{Binary, Builder, DType, Graph, InputKind, Monoid, NodeOp, StateLink, Type, Unary, Value};
use crate::op::Registry;
use proptest::prelude::*;
use std::collections::{HashMap, HashSet};

/// A graph of square tensors that grows by one random node per entry: (operation, two operands).
fn grown(steps: &[(u8, u16, u16)], n_states: usize, extent: usize) -> Graph {
    let registry = Registry::new();
    let mut b = Builder::new(Graph::new("random"), &registry);
    let ty = Type::new(DType::F32, &[extent, extent]);
    let mut values = vec![b.input("x", InputKind::Data, ty.clone())];
    let states: Vec<Value> =
        (0..n_states).map(|i| b.input(&format!("s{i}"), InputKind::State, ty.clone())).collect();
    values.extend(&states);
    for &(op, a, c) in steps {
        let (a, c) = (values[a as usize % values.len()], values[c as usize % values.len()]);
        values.push(grow(&mut b, op, a, c));
    }
    let last = *values.last().unwrap();
    b.graph.outputs.push(("last".into(), last));
    for (i, state) in states.into_iter().enumerate() {
        let next = values[(i * 7 + 3) % values.len()];
        b.graph.state.push(StateLink { input: state.node, next });
    }
    separate_states(&b.graph.pruned())
}

fn grow(b: &mut Builder, op: u8, a: Value, c: Value) -> Value {
    match op % 7 {
        0 => b.add(a, c),
        1 => b.unary(Unary::Tanh, a),
        2 => b.mm(a, c),
        3 => {
            let m = b.reduce(Monoid::Max, a, &[1]);
            let m = b.unreduce(m, &[1], a);
            b.sub(c, m)
        }
        4 => {
            let t = b.permute(a, &[1, 0]);
            b.binary(Binary::Mul, t, c)
        }
        5 => {
            let extent = b.graph.ty(a).extents()[0];
            let idx = b.cast(c, DType::I32);
            let idx = b.reduce(Monoid::Max, idx, &[1]);
            let idx = b.check_index(idx, extent);
            b.gather(a, idx, 0, 0)
        }
        _ => {
            let s = b.sum(a, &[0]);
            let s = b.broadcast_like(s, c);
            b.add(s, c)
        }
    }
}

/// Whether launch `i` has finished before launch `j` starts, derived from streams and waits alone.
fn precedes(launches: &[Launch]) -> Vec<Vec<bool>> {
    let n = launches.len();
    let mut precedes = vec![vec![false; n]; n];
    for j in 0..n {
        for i in 0..j {
            let direct = launches[i].stream == launches[j].stream || launches[j].waits.contains(&i);
            let through = (i + 1..j).any(|k| {
                precedes[i][k] && (launches[k].stream == launches[j].stream || launches[j].waits.contains(&k))
            });
            precedes[i][j] = direct || through;
        }
    }
    precedes
}

fn users(plan: &Plan, buffer: usize) -> Vec<usize> {
    (0..plan.launches.len()).filter(|&at| plan.launches[at].buffers.contains(&buffer)).collect()
}

fn check_memory(plan: &Plan) {
    let precedes = precedes(&plan.launches);
    let is_output = |buffer: usize| plan.outputs.iter().any(|(_, id)| *id == buffer);
    for a in 0..plan.buffers.len() {
        for b in 0..a {
            let (Place::Arena(x), Place::Arena(y)) = (&plan.buffers[a].place, &plan.buffers[b].place) else {
                continue;
            };
            let (x_end, y_end) = (x + plan.buffers[a].ty.bytes(), y + plan.buffers[b].ty.bytes());
            assert!(x_end <= plan.arena_bytes && y_end <= plan.arena_bytes);
            if *x >= y_end || *y >= x_end || users(plan, a).is_empty() || users(plan, b).is_empty() {
                continue;
            }
            let over = |one: usize, other: usize| {
                !is_output(one)
                    && users(plan, one).iter().all(|&u| users(plan, other).iter().all(|&v| precedes[u][v]))
            };
            assert!(
                over(a, b) || over(b, a),
                "{} and {} overlap\n{plan}",
                plan.buffers[a].name,
                plan.buffers[b].name
            );
        }
    }
}

/// Simulates the plan: which value does each buffer hold when a launch reads it?
fn check_contents(plan: &Plan, graph: &Graph) {
    let precedes = precedes(&plan.launches);
    let mut writer: HashMap<Value, usize> = HashMap::new();
    for (at, launch) in plan.launches.iter().enumerate() {
        for operand in
            plan.kernels[launch.kernel].operands.iter().filter(|operand| operand.usage == Use::Write)
        {
            writer.insert(operand.value, at);
        }
    }
    for (at, launch) in plan.launches.iter().enumerate() {
        for (operand, &buffer) in plan.kernels[launch.kernel].operands.iter().zip(&launch.buffers) {
            if operand.usage != Use::Read {
                continue;
            }
            let is_input = matches!(graph.nodes[operand.value.node].op, NodeOp::Input(_));
            if !is_input {
                assert!(precedes[writer[&operand.value]][at], "read before write\n{plan}");
            }
            // No launch may have overwritten the value before the read, and none may overwrite it during the read.
            for (other, writing) in plan.launches.iter().enumerate() {
                for (written, &target) in plan.kernels[writing.kernel].operands.iter().zip(&writing.buffers) {
                    if written.usage == Use::Write
                        && target == buffer
                        && written.value != operand.value
                        && other != at
                    {
                        let before_write = !is_input && precedes[other][writer[&operand.value]];
                        assert!(
                            before_write || precedes[at][other],
                            "{} is overwritten\n{plan}",
                            graph.name_of(operand.value)
                        );
                    }
                }
            }
        }
    }
}

/// After the last launch, the buffer of every state holds its next value, and the buffer of every output holds the
/// output.
fn check_results(plan: &Plan, graph: &Graph) {
    let last_into = |buffer: usize| {
        plan.launches.iter().rev().find_map(|launch| {
            let kernel = &plan.kernels[launch.kernel];
            let hit = kernel
                .operands
                .iter()
                .zip(&launch.buffers)
                .find(|(o, b)| o.usage == Use::Write && **b == buffer);
            hit.map(|(operand, _)| (operand.value, kernel))
        })
    };
    for link in graph.state.iter().filter(|link| link.next != Value::of(link.input)) {
        let name = graph.nodes[link.input].name();
        let buffer = plan.buffers.iter().position(|buffer| buffer.name == *name).unwrap();
        let (value, kernel) = last_into(buffer).unwrap_or_else(|| panic!("nobody writes {name}\n{plan}"));
        let copied = value == Value::of(link.input) && kernel.operands[0].value == link.next;
        assert!(value == link.next || copied, "{name} ends as something else\n{plan}");
    }
}

/// Launches that may end the run come before all launches that write state. Some other launch may run the same check before.
fn check_checks(plan: &Plan) {
    let precedes = precedes(&plan.launches);
    let launches = || plan.launches.iter().enumerate();
    let checks = |launch: &Launch| plan.kernels[launch.kernel].assertions().collect::<Vec<_>>();
    for (writer, _) in launches().filter(|(_, launch)| plan.writes_state(launch)) {
        let is_before = |checker: usize| checker == writer || precedes[checker][writer];
        for site in launches().flat_map(|(_, launch)| checks(launch)) {
            let mut checkers = launches().filter(|(_, launch)| checks(launch).contains(&site));
            assert!(checkers.any(|(checker, _)| is_before(checker)), "{site} is checked too late\n{plan}");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]
    #[test]
    fn plans_of_random_graphs_are_sound(
        steps in prop::collection::vec((any::<u8>(), any::<u16>(), any::<u16>()), 1..24),
        n_states in 0usize..3,
        n_streams in 1usize..4,
        fused in any::<bool>(),
    ) {
        let graph = grown(&steps, n_states, 300);
        let plan = plan(&graph, fuse(&graph, fused).kernels, n_streams);
        check_memory(&plan);
        check_contents(&plan, &graph);
        check_results(&plan, &graph);
        check_checks(&plan);
    }

    #[test]
    fn no_kernel_takes_more_tensors_than_the_device_lets_one(
        steps in prop::collection::vec((any::<u8>(), any::<u16>(), any::<u16>()), 1..40),
        n_states in 0usize..8,
        // Tensors of the smaller extent are recomputed by every kernel that uses them.
        extent in prop_oneof![Just(4usize), Just(300)],
        most_operands in 4usize..8,
    ) {
        let graph = grown(&steps, n_states, extent);
        let settings = Settings { device: DeviceModel { kernels: KernelLimits { most_operands, ..Default::default() }, ..DeviceModel::CPU }, ..Default::default() };
        let fused = fuse_with(&graph, &settings);
        prop_assert_eq!(verify(&graph, &fused.kernels), Vec::<String>::new());
        for kernel in fused.kernels.iter().filter(|kernel| !matches!(kernel.body, KernelBody::Segmented(_))) {
            prop_assert!(kernel.operands.len() <= most_operands, "{}: {:?}\n{graph}", kernel.label(), kernel.operands);
        }
    }
}

#[test]
fn later_buffers_reuse_the_arena() {
    let registry = Registry::new();
    let mut b = Builder::new(Graph::new("chain"), &registry);
    let mut x = b.input("x", InputKind::Data, Type::new(DType::F32, &[256, 256]));
    for _ in 0..10 {
        x = b.mm(x, x);
    }
    b.graph.outputs.push(("y".into(), x));
    let plan = plan(&b.graph, fuse(&b.graph, true).kernels, 1);
    assert_eq!(plan.arena_bytes, 2 * 256 * 256 * 4, "{plan}");
}

#[test]
fn a_segment_does_not_overwrite_the_operand_of_another() {
    let registry = Registry::new();
    let mut b = Builder::new(Graph::new("segments"), &registry);
    let ty = Type::new(DType::F32, &[300, 300]);
    let x = b.input("x", InputKind::Data, ty.clone());
    let sums = b.push(NodeOp::Scan { monoid: Monoid::Sum, axis: 1 }, vec![x], ty);
    let [first, second] = [x, sums].map(|x| b.unary(Unary::Tanh, x));
    b.graph.outputs = vec![("first".into(), first), ("second".into(), second)];
    let plan = plan(&b.graph, fuse(&b.graph, true).kernels, 1);
    let launch = plan.launches.last().unwrap();
    let kernel = &plan.kernels[launch.kernel];
    assert_eq!(kernel.kind(), "segmented map");
    let buffer = |value: Value| {
        let at = kernel.operands.iter().position(|operand| operand.value == value).unwrap();
        launch.buffers[at]
    };
    assert_ne!(buffer(first), buffer(sums));
}

/// All points read the first sum, and one of them would write over it.
#[test]
fn an_element_that_all_points_read_is_not_overwritten() {
    let registry = Registry::new();
    let mut b = Builder::new(Graph::new("first"), &registry);
    let ty = Type::new(DType::F32, &[300]);
    let x = b.input("x", InputKind::Data, ty.clone());
    let sums = b.push(NodeOp::Scan { monoid: Monoid::Sum, axis: 0 }, vec![x], ty);
    let first = b.slice(sums, &[0], &[1], &[1]);
    let first = b.broadcast_axes(first, &[0], &b.ty(x).shape.clone());
    let y = b.sub(x, first);
    b.graph.outputs = vec![("y".into(), y)];
    let plan = plan(&b.graph, fuse(&b.graph, true).kernels, 1);
    let launch = plan.launches.last().unwrap();
    let operands = plan.kernels[launch.kernel].operands.iter().zip(&launch.buffers);
    let buffers: HashSet<usize> = operands.map(|(_, &buffer)| buffer).collect();
    assert_eq!(buffers.len(), 3, "x, sums and y: {plan}");
}

/// The threads of a row's block check an index, so the row's result does not take its place.
#[test]
fn a_checked_index_is_not_overwritten_by_its_row() {
    let registry = Registry::new();
    let mut b = Builder::new(Graph::new("index"), &registry);
    let x = b.input("x", InputKind::Data, Type::new(DType::F32, &[300]));
    let given = b.input("given", InputKind::Data, Type::new(DType::F32, &[300, 300]));
    let last = b.reduce(Monoid::ArgMax, given, &[0, 1]);
    let index = b.reshape(last, &[1]);
    let index = b.check_index(index, 300);
    let row = b.gather(x, index, 0, 0);
    let row = b.broadcast_axes(row, &[0], &Type::new(DType::F32, &[1, 300]).shape);
    let sums =
        b.push(NodeOp::Scan { monoid: Monoid::Sum, axis: 1 }, vec![row], Type::new(DType::F32, &[1, 300]));
    b.graph.outputs = vec![("sums".into(), sums)];
    let plan = plan(&b.graph, fuse(&b.graph, true).kernels, 1);
    for launch in &plan.launches {
        let kernel = &plan.kernels[launch.kernel];
        let is_index = |at: usize| kernel.operands[at].ty.dtype == DType::I32;
        let (indices, others): (Vec<usize>, Vec<usize>) =
            (0..kernel.operands.len()).partition(|&at| is_index(at));
        let buffers = |all: &[usize]| all.iter().map(|&at| launch.buffers[at]).collect::<HashSet<_>>();
        assert!(buffers(&indices).is_disjoint(&buffers(&others)), "{plan}");
    }
}

/// The plan of `s.next = s + x·w`, where `s` may be the right matrix itself, and an index may be checked beside it.
fn added_to_state(is_factor: bool, checks: bool) -> (Graph, Plan) {
    let registry = Registry::new();
    let mut b = Builder::new(Graph::new("added"), &registry);
    let ty = Type::new(DType::F32, &[4, 4]);
    let [x, w] = ["x", "w"].map(|name| b.input(name, InputKind::Data, ty.clone()));
    let s = b.input("s", InputKind::State, ty.clone());
    let product = b.mm(x, if is_factor { s } else { w });
    let next = b.add(s, product);
    b.graph.state.push(StateLink { input: s.node, next });
    if checks {
        let row = b.input("row", InputKind::Data, Type::new(DType::I32, &[2]));
        let row = b.check_index(row, 4);
        let rows = b.gather(x, row, 0, 0);
        b.graph.outputs.push(("rows".into(), rows));
    }
    let graph = separate_states(&b.graph.pruned());
    let plan = plan(&graph, fuse(&graph, true).kernels, 1);
    check_memory(&plan);
    check_contents(&plan, &graph);
    (graph, plan)
}

#[test]
fn a_product_is_added_to_a_state_by_its_own_kernel() {
    let (_, alone) = added_to_state(false, false);
    assert_eq!(alone.launches.len(), 1, "{alone}");
    // The product reads all of the state, so its result lies elsewhere at first.
    assert_eq!(added_to_state(true, false).1.launches.len(), 2);
    // A state is written after the check.
    let (_, checked) = added_to_state(false, true);
    let is_matmul = |launch: &&Launch| matches!(checked.kernels[launch.kernel].body, KernelBody::Matmul(_));
    let product = checked.launches.iter().find(is_matmul).unwrap();
    assert!(!checked.writes_state(product), "{checked}");
}
