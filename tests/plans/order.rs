//! Sorting and selecting on the CPU compared with the oracle, also as a fold of a matmul.

use engine::Engine;
use engine::core::compile::{Compiled, Options, compile};
use engine::core::ir::{Graph, Type, Value, parse};
use engine::core::oracle::{Oracle, OracleTensor};
use engine::core::plan::Place;
use engine::runtime::cpu::CpuDevice;
use engine::runtime::data::source::LoadContext;
use engine::runtime::device::Device;
use engine::runtime::tensor::HostTensor;
use std::collections::HashMap;
use std::sync::Arc;

/// Integers from -50 to 50 without a visible pattern, many of them equal. `holes` makes some of them NaN.
fn numbers(ty: &Type, salt: u64, holes: bool) -> Vec<f64> {
    let number = |i: usize| {
        let mixed = (i as u64 + salt).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 33;
        if holes && mixed.is_multiple_of(11) { f64::NAN } else { (mixed % 101) as f64 - 50.0 }
    };
    (0..ty.numel()).map(number).collect()
}

fn host(tensor: &OracleTensor) -> HostTensor {
    let floats = HostTensor::from_slice(&tensor.extents, &tensor.to_f64()).unwrap();
    floats.cast(tensor.dtype).unwrap()
}

/// Runs a graph fused and unfused on one to three threads. All outputs must equal the oracle's exactly.
fn check(text: &str, holes: bool) -> Compiled {
    let registry = Engine::new().registry;
    let graph: Graph = parse(text, &registry).unwrap();
    let inputs: HashMap<String, OracleTensor> = graph
        .inputs()
        .map(|(id, _)| {
            let ty = graph.ty(Value::of(id));
            let holes = holes && ty.dtype.is_float();
            let tensor = OracleTensor::new(ty.dtype, &ty.extents(), &numbers(ty, id as u64 * 977, holes));
            (graph.nodes[id].name().to_string(), tensor)
        })
        .collect();
    let exact = Oracle::rounded(&registry).run(&graph, &inputs, 0, 0).unwrap();
    let mut fused = None;
    for fuse in [false, true] {
        let compiled = compile(&graph, &registry, &Options { fuse, ..Options::default() });
        for n_threads in [1, 2, 3] {
            let device = CpuDevice::new(Some(n_threads)).unwrap();
            let mut executable = device.prepare(Arc::new(compiled.plan.clone()), 0).unwrap();
            for buffer in &compiled.plan.buffers {
                if let (Place::Input(_), Some(tensor)) = (&buffer.place, inputs.get(&*buffer.name)) {
                    let memory = device.allocate(buffer.ty.bytes()).unwrap();
                    device.write(&memory, 0, host(tensor).bytes()).unwrap();
                    executable.bind(&buffer.name, &memory).unwrap();
                }
            }
            executable.run(0, 2).unwrap();
            for (name, tensor) in &exact.outputs {
                let mut found = HostTensor::zeros(tensor.dtype, &tensor.extents).unwrap();
                executable.read_output(name, found.bytes_mut()).unwrap();
                for (i, (x, y)) in found.to_f64().into_iter().zip(tensor.to_f64()).enumerate() {
                    let is_equal = x == y || x.is_nan() && y.is_nan();
                    assert!(
                        is_equal,
                        "{name}[{i}] is {x} instead of {y}, fuse: {fuse}, {n_threads} threads\n{text}"
                    );
                }
            }
        }
        fused = Some(compiled);
    }
    fused.unwrap()
}

fn kinds(compiled: &Compiled) -> Vec<&'static str> {
    compiled.plan.launches.iter().map(|launch| compiled.plan.kernels[launch.kernel].kind()).collect()
}

#[test]
fn sorting_and_selecting_equal_the_oracle() {
    for dtype in ["f32", "f64", "i32", "i64", "u8", "i8", "i16", "u16"] {
        for extents in ["7", "3, 1", "5, 40", "0, 3", "2, 3, 33", "70, 300"] {
            for call in [
                "sort(x)",
                "sort(x, axis=0, descending=true)",
                "topk(x, k=3, pad=true)",
                "topk(x, k=40, largest=false, pad=true, axis=0)",
            ] {
                let probe = format!("graph g {{\n input x: {dtype}[{extents}]\n");
                let ty = parse(&format!("{probe} output x = x\n}}"), &Engine::new().registry).unwrap();
                let x = ty.ty(ty.outputs[0].1).clone();
                let result = result_type(&x, call);
                let text = format!(
                    "{probe} (v: {dtype}[{result}], i: i32[{result}]) = {call}\n output v = v\n output i = i\n}}"
                );
                check(&text, true);
            }
        }
    }
}

fn result_type(x: &Type, call: &str) -> String {
    let mut extents = x.extents();
    let axis = if call.contains("axis=0") { 0 } else { extents.len() - 1 };
    for k in [3, 40] {
        if call.contains(&format!("k={k}")) {
            extents[axis] = k;
        }
    }
    extents.iter().map(usize::to_string).collect::<Vec<_>>().join(", ")
}

#[test]
fn a_few_long_rows_are_selected_from_in_pieces() {
    check(
        "graph g {\n input x: f32[2, 300000]\n (v: f32[2, 100], i: i32[2, 100]) = topk(x, k=100)\n output v = v\n output i = i\n}",
        true,
    );
}

#[test]
fn the_first_of_a_product_are_selected_without_storing_it() {
    let compiled = check(
        "graph g {
           input q: f32[130, 24]
           input x: f32[5000, 24]
           t: f32[24, 5000] = .permute(x, perm=[1, 0])
           y: f32[130, 5000] = matmul(q, t)
           (v: f32[130, 10], i: i32[130, 10]) = topk(y, k=10)
           output v = v
           output i = i
         }",
        false,
    );
    assert_eq!(kinds(&compiled), ["matmul"]);
    let kernel = &compiled.plan.kernels[compiled.plan.launches[0].kernel];
    assert_eq!(kernel.bytes_written, 130 * 10 * 8);
    assert!(compiled.plan.arena_bytes < 130 * 5000, "{}", compiled.plan);
}

// ---- Searching.

fn searched(dir: &std::path::Path, more: &str) -> engine::runtime::session::Report {
    let graph = std::fs::read_to_string(format!("{}/graphs/search.ron", env!("CARGO_MANIFEST_DIR"))).unwrap();
    let graph = graph.replace("distances: \"found\"", &format!("distances: \"found\"{more}"));
    let engine = Engine::new();
    let pipeline = engine.read("search.ron", &graph).unwrap();
    let device = Arc::new(CpuDevice::new(Some(2)).unwrap());
    let data = LoadContext::offline_in(dir);
    let mut session = engine.session(pipeline, device, &data, Options::default(), &mut |_| {}).unwrap();
    session.run_stages(None, &mut |_| {}).unwrap()
}

#[test]
fn the_search_graph_finds_all_true_neighbours() {
    let dir = tempfile::tempdir().unwrap();
    let ids = dir.path().join("ids.ivecs");
    let report = searched(dir.path(), &format!(", write: (ids: {ids:?})"));
    let metrics: Vec<(&str, f64)> =
        report.stages[0].metrics.iter().map(|(name, value)| (name.as_str(), *value)).collect();
    assert_eq!(metrics, [("certified", 1.0), ("recall@1", 1.0), ("recall@10", 1.0), ("recall@100", 1.0)]);
    assert_eq!(engine::runtime::data::vecs::read(&ids).unwrap().shape(), [100, 100]);
}

#[test]
fn batches_do_not_change_the_results_of_a_search() {
    let dir = tempfile::tempdir().unwrap();
    let file = |batch: usize| {
        let path = dir.path().join(format!("{batch}.npy"));
        searched(dir.path(), &format!(", batch: {batch}, write: (distances: {path:?})"));
        std::fs::read(path).unwrap()
    };
    let whole = file(100);
    assert!(file(33) == whole && file(1000) == whole);
}

#[test]
fn a_search_is_a_product_that_is_never_stored() {
    let text = "graph g {
       input q: f32[1000, 64]
       input x: f32[20000, 64]
       (d: f32[1000, 10], i: i32[1000, 10]) = nearest(q, x, k=10)
       output d = d
       output i = i
     }";
    let registry = Engine::new().registry;
    let compiled = compile(&parse(text, &registry).unwrap(), &registry, &Options::default());
    // Squared norms, and the matmul with the least score of each block of rows.
    assert_eq!(kinds(&compiled)[..2], ["row", "matmul"]);
    let made = compiled.plan.buffers.iter().filter(|buffer| matches!(buffer.place, Place::Arena(_)));
    let most = made.map(|buffer| buffer.ty.numel()).max();
    assert!(most <= Some(1000 * 20_000 / 16), "{}", compiled.plan);
    assert!(compiled.plan.arena_bytes < 1000 * 20_000, "{}", compiled.plan);
}
