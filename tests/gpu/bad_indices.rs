//! Indices out of bounds: the same error on all devices, and state as it was.

use super::*;

#[test]
fn sums_into_state_leave_it_alone_if_an_index_is_out_of_bounds() {
    let (n_rows, n, columns) = (50, 2000, 4);
    let registry = Registry::new();
    let mut builder = Builder::new(Graph::new("case"), &registry);
    let b = &mut builder;
    let table = b.input("table", InputKind::Param, Type::new(DType::F32, &[n_rows, columns]));
    let idx = data(b, "idx", DType::I32, &[n]);
    let updates = data(b, "updates", DType::F32, &[n, columns]);
    let idx = b.check_index(idx, n_rows);
    let next = b.scatter(table, idx, updates, 0, 0, Combine::Add);
    b.graph.state = vec![StateLink { input: table.node, next }];
    let graph = builder.graph.pruned();
    let options = Options { deterministic: true, ..Options::default() };
    let plan = Arc::new(compile(&graph, &registry, &options).plan);
    let zeros = vec![0; 4 * n_rows * columns];
    for device in gpus().iter().cloned().chain([cpu()]) {
        let rows = |bad: i32| -> Vec<u8> {
            (0..n as i32).flat_map(|i| if i == 1777 { bad } else { i % 50 }.to_le_bytes()).collect()
        };
        let (mut executable, buffers) = bound(&*device, &plan, 1, |name| match name {
            "idx" => Some(rows(50)),
            "updates" => Some([0, 0, 128, 63].repeat(n * columns)),
            _ => None,
        })
        .unwrap();
        let error = executable.run(0, 20).unwrap_err().to_string();
        assert!(error.contains("1777") && error.contains("50"), "{error}");
        let mut bytes = zeros.clone();
        device.read(&buffers["table"], 0, &mut bytes).unwrap();
        assert_eq!(bytes, zeros);
        device.write(&buffers["idx"], 0, &rows(27)).unwrap();
        executable.run(0, 20).unwrap();
        device.read(&buffers["table"], 0, &mut bytes).unwrap();
        let forty = 800f32.to_le_bytes();
        assert!(bytes.chunks(4).all(|sum| sum == forty), "forty ones in each of twenty steps");
    }
}

#[test]
fn an_index_out_of_bounds_is_the_same_error_and_leaves_state_alone() {
    let registry = Registry::new();
    let mut builder = Builder::new(Graph::new("case"), &registry);
    let b = &mut builder;
    let table = b.input("table", InputKind::Param, Type::new(DType::F32, &[10]));
    let idx = data(b, "idx", DType::I32, &[10]);
    let checked = b.check_index(idx, 10);
    let taken = b.gather(table, checked, 0, 0);
    let next = b.add(table, taken);
    b.graph.state = vec![StateLink { input: table.node, next }];
    let graph = builder.graph.pruned();
    let plan = Arc::new(compile(&graph, &registry, &Options::default()).plan);
    let mut errors = vec![];
    for device in gpus().iter().cloned().chain([cpu()]) {
        let (mut executable, buffers) = bound(&*device, &plan, 1, |name| {
            let values: Vec<f64> = match name {
                "table" => (0..10).map(f64::from).collect(),
                _ => [0, 1, 2, 3, 4, 5, 6, -7, 8, 9].map(f64::from).to_vec(),
            };
            let ty = Type::new(if name == "table" { DType::F32 } else { DType::I32 }, &[10]);
            Some(tensor(&ty, values.into_iter()))
        })
        .unwrap();
        errors.push(executable.run(0, 40).unwrap_err());
        let mut bytes = vec![0; 40];
        device.read(&buffers["table"], 0, &mut bytes).unwrap();
        assert_eq!(bytes, tensor(&Type::new(DType::F32, &[10]), (0..10).map(f64::from)));
        // The error is reported once. With good indices, the executable continues.
        let good = tensor(&Type::new(DType::I32, &[10]), (0..10).map(f64::from));
        device.write(&buffers["idx"], 0, &good).unwrap();
        executable.run(0, 1).unwrap();
        device.read(&buffers["table"], 0, &mut bytes).unwrap();
        assert_eq!(bytes, tensor(&Type::new(DType::F32, &[10]), (0..10).map(|i| f64::from(2 * i))));
    }
    assert!(errors.iter().all(|error| *error == errors[0]), "{errors:?}");
}

/// The state can be written long before the index is checked, and neither depends on the other.
#[test]
fn a_bad_index_that_no_state_depends_on_leaves_it_alone() {
    let registry = Registry::new();
    let mut builder = Builder::new(Graph::new("case"), &registry);
    let b = &mut builder;
    let weights = b.input("weights", InputKind::Param, Type::new(DType::F32, &[100]));
    let table = data(b, "table", DType::F32, &[100, 100]);
    let next = b.add(weights, weights);
    // Chains of matmuls. The checked indices are the result of the last.
    let squared = b.mm(table, table);
    let squared = b.mm(squared, table);
    let rows = b.reduce(Monoid::Max, squared, &[1]);
    let rows = b.cast(rows, DType::I32);
    let rows = b.check_index(rows, 100);
    let taken = b.gather(table, rows, 0, 0);
    b.graph.outputs = vec![("taken".into(), taken)];
    b.graph.state = vec![StateLink { input: weights.node, next }];
    let graph = builder.graph.pruned();
    let f32s = |n: usize, value: f64| tensor(&Type::new(DType::F32, &[n]), (0..n).map(|_| value));
    for device in gpus().iter().cloned().chain([cpu()]) {
        let options = Options { device: device.model(), ..Options::default() };
        let plan = Arc::new(compile(&graph, &registry, &options).plan);
        let (mut executable, buffers) = bound(&*device, &plan, 1, |name| match name {
            "table" => Some(f32s(10_000, 1.0)),
            _ => Some(f32s(100, 3.0)),
        })
        .unwrap();
        let error = executable.run(0, 20).unwrap_err().to_string();
        assert!(error.contains("10000"), "{error}");
        let mut bytes = vec![0; 400];
        device.read(&buffers["weights"], 0, &mut bytes).unwrap();
        assert!(bytes == f32s(100, 3.0), "{} wrote state", device.info().name);
    }
}

const STATES: [(&str, &[usize]); 3] = [("table", &[1000, 16]), ("w", &[64, 16]), ("sums", &[16])];

/// A matmul, a sum and a scatter that write state, with `n` checked indices.
fn updates_of_all_kinds(registry: &Registry, n: usize) -> Graph {
    let mut builder = Builder::new(Graph::new("case"), registry);
    let b = &mut builder;
    let [table, w, sums] =
        STATES.map(|(name, extents)| b.input(name, InputKind::Param, Type::new(DType::F32, extents)));
    let index = data(b, "index", DType::I32, &[n]);
    let updates = data(b, "updates", DType::F32, &[n, 16]);
    let x = data(b, "x", DType::F32, &[64, n]);
    let checked = b.check_index(index, 1000);
    let taken = b.gather(table, checked, 0, 0);
    let product = b.mm(x, taken);
    let next_w = b.add(w, product);
    let total = b.sum(taken, &[0]);
    let next_sums = b.add(sums, total);
    let next_table = b.call("scatter_add", &[table, index, updates], Attrs::default()).unwrap()[0];
    b.graph.state = [(table, next_table), (w, next_w), (sums, next_sums)]
        .map(|(input, next)| StateLink { input: input.node, next })
        .to_vec();
    builder.graph.pruned()
}

/// The last of many indices is bad. At the same time, a matmul, a sum and a scatter write state, on as many streams as
/// there are.
#[test]
fn a_bad_index_in_the_last_block_leaves_all_state_alone() {
    const N: usize = 50_000;
    let registry = Engine::new().registry;
    let graph = updates_of_all_kinds(&registry, N);
    let initial = |name: &str, n: usize| -> Vec<u8> {
        tensor(&Type::new(DType::F32, &[n]), noise(n, name.len() as u32))
    };
    let indices = |last: f64| {
        let values = (0..N).map(|i| if i + 1 == N { last } else { f64::from(i as u32 * 7919 % 1000) });
        tensor(&Type::new(DType::I32, &[N]), values)
    };
    let mut errors = vec![];
    for device in gpus().iter().cloned().chain([cpu()]) {
        let options = Options { device: device.model(), ..Options::default() };
        let plan = Arc::new(compile(&graph, &registry, &options).plan);
        let (mut executable, buffers) = bound(&*device, &plan, 1, |name| match name {
            "index" => Some(indices(1000.0)),
            _ => {
                let buffer = plan.buffers.iter().find(|buffer| *buffer.name == *name)?;
                Some(initial(name, buffer.ty.numel()))
            }
        })
        .unwrap();
        let read = |name: &str, extents: &[usize]| {
            let mut bytes = vec![0; 4 * extents.iter().product::<usize>()];
            device.read(&buffers[name], 0, &mut bytes).unwrap();
            bytes
        };
        errors.push(executable.run(0, 3).unwrap_err().to_string());
        for (name, extents) in STATES {
            let is_same = read(name, extents) == initial(name, extents.iter().product());
            assert!(is_same, "{name} on {}", device.info().name);
        }
        device.write(&buffers["index"], 0, &indices(999.0)).unwrap();
        executable.run(0, 1).unwrap();
        for (name, extents) in STATES {
            let is_same = read(name, extents) == initial(name, extents.iter().product());
            assert!(!is_same, "{name} on {} does not go on", device.info().name);
        }
    }
    assert!(errors.iter().all(|error| *error == errors[0] && error.contains("1000")), "{errors:?}");
}

/// The errors of each device for three runs of some steps, with kernels fused and unfused.
fn errors_of(
    graph: &Graph,
    n_steps: u32,
    value: impl Fn(&str, &Type) -> Option<Vec<u8>>,
) -> Vec<(String, String)> {
    let registry = Registry::new();
    let mut errors = vec![];
    let ty = |name: &str| {
        let (node, _) = graph.inputs().find(|(node, _)| **graph.nodes[*node].name() == *name).unwrap();
        graph.ty(Value::of(node)).clone()
    };
    for (device, fuse) in
        gpus().iter().cloned().chain([cpu()]).flat_map(|device| [(device.clone(), true), (device, false)])
    {
        let model = device.model();
        let options = Options { fuse, device: model, ..Options::default() };
        let plan = Arc::new(compile(graph, &registry, &options).plan);
        let (mut executable, _) = bound(&*device, &plan, 1, |name| value(name, &ty(name))).unwrap();
        for _ in 0..3 {
            let error = executable.run(0, n_steps).unwrap_err().to_string();
            errors.push((format!("{}, fuse: {fuse}", device.info().name), error));
        }
    }
    errors
}

/// One in eight of the indices in three unrelated tensors is bad, and of the divisors.
#[test]
fn of_many_bad_indices_all_devices_tell_of_the_first() {
    const N: usize = 40_000;
    let registry = Registry::new();
    let mut builder = Builder::new(Graph::new("case"), &registry);
    let b = &mut builder;
    let table = b.input("table", InputKind::Param, Type::new(DType::F32, &[100, 4]));
    let rows = b.input("rows", InputKind::Param, Type::new(DType::F32, &[N]));
    let from = data(b, "from", DType::F32, &[100]);
    let given = b.input("given", InputKind::Data, Type::new(DType::F32, &[N]));
    // One kernel checks and writes state.
    let idx = data(b, "zeroth", DType::I32, &[N]);
    let idx = b.check_index(idx, 100);
    let taken = b.gather(from, idx, 0, 0);
    let taken = b.add(taken, given);
    let next_rows = b.add(rows, taken);
    let mut next = table;
    for name in ["third", "first", "second"] {
        let idx = data(b, name, DType::I32, &[N]);
        let checked = b.check_index(idx, 100);
        let taken = b.gather(table, checked, 0, 0);
        let sums = b.sum(taken, &[0]);
        let sums = b.broadcast_axes(sums, &[1], &[100, 4].map(Dim::Fixed));
        next = b.add(next, sums);
    }
    b.graph.state =
        vec![StateLink { input: table.node, next }, StateLink { input: rows.node, next: next_rows }];
    let graph = builder.graph.pruned();
    let errors = errors_of(&graph, 20, |name, ty| {
        let seed = name.bytes().map(u32::from).sum();
        (ty.dtype == DType::I32)
            .then(|| tensor(ty, noise(ty.numel(), seed).map(|x| (x * 57.0 + 57.0).floor())))
    });
    let (_, expected) = errors.last().unwrap();
    assert!(expected.contains("is not in 0..100"), "{expected}");
    assert!(errors.iter().all(|(_, error)| error == expected), "{errors:#?}");
}

/// Later steps of the same submission have bad indices at lower positions.
#[test]
fn of_many_steps_with_bad_indices_all_devices_tell_of_the_first() {
    const N: usize = 10_000;
    let registry = Registry::new();
    let mut builder = Builder::new(Graph::new("case"), &registry);
    let b = &mut builder;
    let sums = b.input("sums", InputKind::Param, Type::new(DType::F32, &[4]));
    let table = data(b, "table", DType::F32, &[1000, 4]);
    let idx = data(b, "idx", DType::I32, &[N]);
    let step = b.step();
    let step = b.broadcast_axes(step, &[], &[Dim::Fixed(N)]);
    let idx = b.add(idx, step);
    let idx = b.check_index(idx, 1000);
    let taken = b.gather(table, idx, 0, 0);
    let taken = b.sum(taken, &[0]);
    let next = b.add(sums, taken);
    b.graph.state = vec![StateLink { input: sums.node, next }];
    let graph = builder.graph.pruned();
    // In step 7 the index at 8007 is bad, in the next step also the one at 8006, and so on.
    let first_bad = |i: usize| if (7990..8008).contains(&i) { 7 + 8007 - i } else { 900 };
    let errors = errors_of(&graph, 40, |name, ty| {
        (name == "idx").then(|| tensor(ty, (0..N).map(|i| 1000.0 - first_bad(i) as f64)))
    });
    let told = |error: &str| error.ends_with("index 1000 at position 8007 is not in 0..1000");
    assert!(errors.iter().all(|(_, error)| told(error)), "{errors:#?}");
}
