//! Sorting, selection and search with GPU kernels: their CUDA texts, run on the host.

use super::bytes_of;
use engine::Engine;
use engine::core::codegen::{
    Argument, KernelSource, KernelSpec, PANEL_BYTES, PanelCut, PanelFold, ResultTile, TensorMap,
    assertion_words,
};
use engine::core::compile::{Options, compile};
use engine::core::device_model::{DeviceModel, KernelLimits, RowFolds};
use engine::core::fusion::{Kernel, KernelBody, MatmulBody, RowConsumer, Use};
use engine::core::ir::{DType, Graph, parse};
use engine::core::numerics::Precision;
use engine::core::op::{GpuForm, Registry, TypeRule};
use engine::core::oracle::{Oracle, OracleTensor};
use engine::core::plan::Place;
use engine::core::testing;
use engine::runtime::tensor::HostTensor;
use expect_test::expect_file;
use on_host::HostMemory;
use std::collections::HashMap;

#[path = "../../examples/plugin/src/running_median.rs"]
mod running_median;

#[path = "../../engine/src/codegen/tests/on_host.rs"]
#[allow(dead_code, reason = "the tests of the core use the rest")]
mod on_host;

/// The variants of matmuls whose rows are folded.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum Products {
    /// Computed by the kernel itself.
    Own,
    /// Computed by the kernel itself, on a GPU as [`poor`] with so many KiB of shared memory.
    Poor(usize),
    /// Computed by a library, in panels of `0` bytes.
    Panels(usize),
    /// On tensor cores of so many processors.
    TensorCores(usize),
}

/// The outputs of a graph. `None` without a C++ compiler.
fn run(
    graph: &Graph,
    registry: &Registry,
    inputs: &HashMap<String, OracleTensor>,
    products: Products,
) -> Option<HashMap<String, Vec<f64>>> {
    let target = if let Products::Poor(kib) = products { poor(kib) } else { DeviceModel::H200 };
    let kernels = KernelLimits { row_folds: RowFolds::Blocks, ..KernelLimits::default() };
    let device = DeviceModel { kernels, shared_bytes: target.shared_bytes, ..DeviceModel::CPU };
    let compiled = compile(graph, registry, &Options { device, ..Options::default() });
    let plan = &compiled.plan;
    let mut memory: Vec<Vec<u8>> = vec![];
    for buffer in &plan.buffers {
        memory.push(match buffer.place {
            Place::Input(_) => bytes_of(&inputs[&*buffer.name]),
            Place::Arena(_) => vec![],
        });
    }
    for launch in &plan.launches {
        let kernel = &plan.kernels[launch.kernel];
        let operands = || kernel.operands.iter().zip(&launch.buffers);
        let reads = operands().filter(|(operand, _)| operand.usage == Use::Read);
        let given: Vec<Vec<u8>> =
            reads.map(|(operand, &buffer)| memory[buffer][..operand.ty.bytes()].to_vec()).collect();
        let after = match (&kernel.body, products) {
            (KernelBody::Matmul(body), Products::Panels(bytes)) if body.rows.is_some() => {
                run_panels(kernel, body, &given, bytes)?
            }
            (KernelBody::Matmul(body), Products::TensorCores(n_processors)) if body.rows.is_some() => {
                let (tile, device) = (ResultTile::ALL[2], DeviceModel { n_processors, ..target });
                let launches = KernelSpec::fold_on_tensor_cores(kernel, Precision::Tf32, tile, device);
                on_host::run_launches(kernel, &launches.unwrap(), &given, 0)?
            }
            _ => on_host::run_launches(kernel, &launches(kernel, target), &given, 0)?,
        };
        let written = operands().zip(after).filter(|((operand, _), _)| operand.usage == Use::Write);
        written.for_each(|((_, &buffer), bytes)| memory[buffer] = bytes);
    }
    let outputs = plan.outputs.iter().map(|(name, buffer)| {
        let (_, value) = graph.outputs.iter().find(|(output, _)| output == name).unwrap();
        let ty = graph.ty(*value);
        let tensor = HostTensor::from_bytes(ty.dtype, &ty.extents(), &memory[*buffer][..ty.bytes()]);
        (name.to_string(), tensor.unwrap().to_f64())
    });
    Some(outputs.collect())
}

/// The launches of a kernel. None may exceed the shared memory of a block.
fn launches(kernel: &Kernel, target: DeviceModel) -> Vec<KernelSpec> {
    let launches = KernelSpec::launches(kernel, target).unwrap();
    for launch in &launches {
        let shared_bytes = launch.cuda_source().unwrap().shared_bytes;
        assert!(shared_bytes <= target.shared_bytes, "{shared_bytes} of {} bytes", target.shared_bytes);
    }
    launches
}

/// A matmul fold, panel by panel.
fn run_panels(kernel: &Kernel, body: &MatmulBody, given: &[Vec<u8>], bytes: usize) -> Option<Vec<Vec<u8>>> {
    let rows = body.rows.as_ref().unwrap();
    let fold =
        KernelSpec::panel_fold(kernel, body, rows, &DeviceModel::H200, PanelCut::Bytes(bytes)).unwrap();
    let PanelFold { ref panels, ref step, ref finish, state_bytes, .. } = fold;
    let factors = [body.lhs.operand, body.rhs.operand].map(|operand| {
        let floats = given[operand].chunks_exact(4).map(|x| f32::from_le_bytes(x.try_into().unwrap()));
        floats.collect::<Vec<f32>>()
    });
    let mut memory = HostMemory::new(kernel, given);
    let source = step.cuda_source().unwrap();
    for panel in panels {
        let mut product = vec![];
        for row in panel.rows[0]..panel.rows[0] + panel.rows[1] {
            for column in panel.columns[0]..panel.columns[0] + panel.columns[1] {
                let at = |matrix: engine::core::fusion::MatrixOperand, row: usize, col: usize| {
                    let steps = [(panel.batch, matrix.batch), (row, matrix.row), (col, matrix.col)];
                    steps.iter().map(|&(i, stride)| i as i64 * stride).sum::<i64>() + matrix.offset
                };
                let terms = (0..body.k).map(|i| {
                    factors[0][at(body.lhs, row, i) as usize] * factors[1][at(body.rhs, i, column) as usize]
                });
                product.extend(terms.sum::<f32>().to_le_bytes());
            }
        }
        memory.workspace.resize(memory.workspace.len().max(state_bytes + product.len()), 0xAA);
        memory.workspace[state_bytes..state_bytes + product.len()].copy_from_slice(&product);
        let (n_blocks, scalars) = fold.launch(body, panel);
        let info = step.info_of(&scalars, 0);
        memory.launch(&source, n_blocks, &info)?;
    }
    if let Some(finish) = finish {
        let source = finish.cuda_source().unwrap();
        memory.launch(&source, source.blocks_for(source.points), &source.info(source.points, 0))?;
    }
    Some(memory.operands)
}

pub(super) fn check_graph(nodes: &str, inputs: &HashMap<String, OracleTensor>, products: Products) {
    let registry = Engine::new().registry;
    let graph = parse(&format!("graph test {{\n{nodes}\n}}\n"), &registry).unwrap();
    check(&graph, &registry, inputs, products, nodes);
}

pub(super) fn check(
    graph: &Graph,
    registry: &Registry,
    inputs: &HashMap<String, OracleTensor>,
    products: Products,
    what: &str,
) {
    let expected = Oracle::rounded(registry).run(graph, inputs, 0, 0).unwrap();
    let Some(found) = run(graph, registry, inputs, products) else { return };
    for (name, expected) in &expected.outputs {
        let tolerance = if graph.ty(output(graph, name)).dtype == DType::F32 { 1e-5 } else { 0.0 };
        for (i, (a, b)) in found[&**name].iter().zip(expected.to_f64()).enumerate() {
            let is_equal = *a == b || (a.is_nan() && b.is_nan()) || (a - b).abs() <= tolerance * b.abs();
            assert!(is_equal, "{what}: {name}[{i}] is {a} instead of {b}");
        }
    }
}

fn output(graph: &Graph, name: &str) -> engine::core::ir::Value {
    graph.outputs.iter().find(|(output, _)| **output == *name).unwrap().1
}

/// Numbers of both signs with many equal ones.
pub(super) fn numbers(n: usize, n_kinds: u32) -> Vec<f64> {
    let mixed = (0..n as u32).map(|i| (i.wrapping_add(7).wrapping_mul(2_654_435_761) >> 7) % n_kinds);
    mixed.map(|x| f64::from(x) - f64::from(n_kinds / 2)).collect()
}

/// Numbers with NaN, infinities and zeros of both signs among them, as far as the type has them.
fn special(dtype: DType, n: usize) -> Vec<f64> {
    let mut numbers = numbers(n, 40);
    if dtype.is_float() {
        let odd = [f64::NAN, f64::INFINITY, -0.0, 0.0, f64::NEG_INFINITY, f64::NAN, 0.0, -0.0];
        numbers.iter_mut().step_by(3).zip(odd.iter().cycle()).for_each(|(x, &odd)| *x = odd);
    } else if !dtype.is_signed_int() {
        numbers.iter_mut().for_each(|x| *x += 20.0);
    } else if n > 2 {
        let (low, high) = if dtype == DType::I64 { (-9e18, 9e18) } else { ends(dtype) };
        (numbers[0], numbers[2]) = (high, low);
    }
    if dtype == DType::Bool {
        numbers.iter_mut().for_each(|x| *x = f64::from(*x > 18.0));
    }
    numbers
}

/// The smallest and the largest number of a type of integers.
fn ends(dtype: DType) -> (f64, f64) {
    let (low, high) = dtype.int_range().unwrap();
    (low as f64, high as f64)
}

const DTYPES: [DType; 10] = [
    DType::F32,
    DType::F64,
    DType::F16,
    DType::BF16,
    DType::I32,
    DType::I64,
    DType::U32,
    DType::U8,
    DType::I8,
    DType::I16,
];

/// Checks a call on rows of one type, whose results are those of the rows.
fn check_rows(call: &str, dtype: DType, rows: [usize; 2], count: usize, elements: Vec<f64>) {
    check_rows_by(Products::Own, call, dtype, rows, count, elements);
}

fn check_rows_by(
    products: Products,
    call: &str,
    dtype: DType,
    rows: [usize; 2],
    count: usize,
    elements: Vec<f64>,
) {
    let [n_rows, n] = rows;
    let nodes = format!(
        "input x: {dtype}[{n_rows}, {n}]\n(v: {dtype}[{n_rows}, {count}], i: i32[{n_rows}, {count}]) = {call}\n\
         output v = v\noutput i = i"
    );
    let inputs = HashMap::from([("x".to_string(), OracleTensor::new(dtype, &rows, &elements))]);
    check_graph(&nodes, &inputs, products);
}

/// CUDA C++ limited to features of WGSL, with `shared_kib` KiB of shared memory.
fn poor(shared_kib: usize) -> DeviceModel {
    DeviceModel {
        has_narrow: false,
        plane: 1,
        has_exact_functions: false,
        library: None,
        has_extremes: false,
        double_buffer_bytes: 0,
        adds_four: false,
        has_exact_grid: false,
        most_threads: 256,
        shared_bytes: shared_kib << 10,
        ..DeviceModel::H200
    }
}

#[test]
fn rows_of_all_types_are_sorted_and_selected_where_narrow_ones_lie_in_words() {
    for (i, dtype) in DTYPES.into_iter().enumerate() {
        let falls = i % 2 == 1;
        let check = |call: &str, [n_rows, n]: [usize; 2], count: usize| {
            check_rows_by(Products::Poor(16), call, dtype, [n_rows, n], count, special(dtype, n_rows * n));
        };
        check(&format!("sort_rows(x, descending={falls})"), [3, 37], 37);
        check(&format!("topk_rows(x, k=5, largest={falls})"), [3, 301], 5);
        check(&format!("topk_rows(x, k=12, largest={falls}, pad=true)"), [2, 9], 12);
    }
    check_rows_by(Products::Poor(16), "sort_rows(x)", DType::Bool, [3, 70], 70, special(DType::Bool, 210));
    check_rows_by(Products::Poor(16), "topk_rows(x, k=2, pad=true)", DType::F16, [3, 0], 2, vec![]);
    check_rows_by(Products::Poor(32), "sort_rows(x)", DType::F16, [1, 9001], 9001, special(DType::F16, 9001));
    let bytes = numbers(40001, 250).into_iter().map(|x| x + 125.0).collect();
    check_rows_by(Products::Poor(32), "topk_rows(x, k=10)", DType::U8, [1, 40001], 10, bytes);
}

/// Whether blocks of a device select the first `k` of rows of every type, alone and behind a matmul.
fn is_selected(k: usize, target: &DeviceModel) -> bool {
    let registry = Engine::new().registry;
    [DType::F32, DType::F64].into_iter().all(|dtype| {
        let nodes =
            format!("input x: {dtype}[1, 20000]\n(v: {dtype}[1, {k}], i: i32[1, {k}]) = topk_rows(x, k={k})");
        let graph = parse(&format!("graph test {{\n{nodes}\noutput v = v\n}}\n"), &registry).unwrap();
        let calls = (0..graph.nodes.len()).filter_map(|node| RowConsumer::of(&graph, node));
        calls.map(|call| call.has_block_fold(target)).eq([true])
    })
}

#[test]
fn selections_take_no_more_memory_than_a_block_has() {
    for (kib, k) in [(32, 1024), (16, 768), (16, 1024)] {
        for dtype in [DType::F32, DType::F64, DType::BF16] {
            let call = format!("topk_rows(x, k={k})");
            check_rows_by(Products::Poor(kib), &call, dtype, [1, 3000], k, numbers(3000, 5000));
        }
    }
    for (kib, most) in [(16, 768), (32, 1792), (48, 1856)] {
        let target = poor(kib);
        assert!(is_selected(most, &target) && !is_selected(most + 1, &target), "{kib} KiB");
    }
}

/// A body that takes elements sees halves as 32-bit numbers.
#[test]
fn an_op_of_f32_runs_on_halves_that_lie_in_words() {
    let mut form = running_median::running_median();
    form.types = TypeRule::custom(|inputs, _| Ok(vec![inputs[0].clone(), inputs[0].with_dtype(DType::I32)]));
    let mut registry = Engine::new().registry;
    registry.add(form);
    let nodes =
        "input x: f16[1, 5]\n(v: f16[1, 5], i: i32[1, 5]) = running_median(x)\noutput v = v\noutput i = i";
    let graph = parse(&format!("graph test {{\n{nodes}\n}}\n"), &registry).unwrap();
    let x = OracleTensor::new(DType::F16, &[1, 5], &[1.5, 9.0, -2.0, 3.0, 4.0]);
    let inputs = HashMap::from([("x".to_string(), x)]);
    let Some(found) = run(&graph, &registry, &inputs, Products::Poor(16)) else { return };
    assert_eq!(found["v"], [1.5, 1.5, 3.0, 3.0, 4.0]);
    assert_eq!(found["i"], [0.0, 0.0, 3.0, 3.0, 4.0]);
}

#[test]
fn rows_of_all_types_are_sorted_with_ties_and_nan() {
    for (i, dtype) in DTYPES.into_iter().enumerate() {
        let call = format!("sort_rows(x, descending={})", i % 2 == 1);
        check_rows(&call, dtype, [3, 37], 37, special(dtype, 3 * 37));
    }
    for call in ["sort_rows(x)", "sort_rows(x, descending=true)"] {
        for n in [0, 1, 2, 700] {
            check_rows(call, DType::F32, [5, n], n, special(DType::F32, 5 * n));
        }
    }
    check_rows("sort_rows(x)", DType::Bool, [3, 70], 70, special(DType::Bool, 210));
}

#[test]
fn rows_longer_than_a_block_holds_are_merged() {
    check_rows("sort_rows(x)", DType::F32, [1, 4096], 4096, special(DType::F32, 4096));
    check_rows("sort_rows(x, descending=true)", DType::F32, [2, 4097], 4097, special(DType::F32, 2 * 4097));
    check_rows("sort_rows(x)", DType::F16, [1, 17000], 17000, special(DType::F16, 17000));
    check_rows("sort_rows(x, descending=true)", DType::I64, [2, 6500], 6500, special(DType::I64, 13000));
}

#[test]
fn the_first_of_rows_of_all_types_are_selected() {
    for (i, dtype) in DTYPES.into_iter().enumerate() {
        let call = format!("topk_rows(x, k=5, largest={})", i % 2 == 0);
        check_rows(&call, dtype, [3, 301], 5, special(dtype, 3 * 301));
        let call = format!("topk_rows(x, k=12, largest={}, pad=true)", i % 2 == 1);
        check_rows(&call, dtype, [2, 9], 12, special(dtype, 18));
    }
}

#[test]
fn selections_of_one_and_of_all_and_from_long_rows() {
    let f32 = DType::F32;
    check_rows("topk_rows(x, k=1)", f32, [4, 1], 1, special(f32, 4));
    check_rows("topk_rows(x, k=2, pad=true)", f32, [3, 0], 2, vec![]);
    check_rows("topk_rows(x, k=1, largest=false)", f32, [1, 3000], 1, numbers(3000, 1 << 20));
    check_rows("topk_rows(x, k=300)", f32, [2, 300], 300, special(f32, 600));
    check_rows("topk_rows(x, k=64)", f32, [2, 6001], 64, numbers(12002, 1 << 20));
    check_rows("topk_rows(x, k=64)", f32, [2, 6000], 64, numbers(12000, 3000));
    // Rising rows: every element comes before all earlier ones.
    let rising = (0..5000).map(f64::from).collect();
    check_rows("topk_rows(x, k=1024)", f32, [1, 5000], 1024, rising);
    check_rows("topk_rows(x, k=1000, largest=false)", DType::F64, [1, 4000], 1000, numbers(4000, 5000));
    check_rows("topk_rows(x, k=10)", DType::I32, [1, 40000], 10, numbers(40000, 50));
    check_rows("topk_rows(x, k=1500)", f32, [2, 2500], 1500, special(f32, 5000));
    check_rows("topk_rows(x, k=5000, pad=true)", f32, [1, 4500], 5000, special(f32, 4500));
}

pub(super) fn matrices(m: usize, n: usize, k: usize) -> HashMap<String, OracleTensor> {
    // Small integers, so that all sums are exact, and many are equal.
    let matrix = |rows: usize, seed: usize| {
        let elements: Vec<f64> = numbers(rows * k + seed, 9)[seed..].to_vec();
        OracleTensor::new(DType::F32, &[rows, k], &elements)
    };
    HashMap::from([("q".to_string(), matrix(m, 0)), ("b".to_string(), matrix(n, 5))])
}

/// Checks a matmul of `[m, 8]` and `[n, 8]` with a fold of its rows.
fn check_fold([m, n]: [usize; 2], results: &str, call: &str, outputs: &str, products: Products) {
    let nodes = format!(
        "input q: f32[{m}, 8]\ninput b: f32[{n}, 8]\nt: f32[8, {n}] = transpose(b)\np: f32[{m}, {n}] = matmul(q, t)\n\
         {results} = {call}\n{outputs}"
    );
    check_graph(&nodes, &matrices(m, n, 8), products);
}

#[test]
fn rows_of_a_product_are_selected_from_as_they_come() {
    let both = |m: usize, k: usize| format!("(v: f32[{m}, {k}], i: i32[{m}, {k}])");
    let outputs = "output v = v\noutput i = i";
    for products in [Products::Own, Products::Panels(64 * 128 * 4), Products::Panels(1 << 20)] {
        check_fold([70, 500], &both(70, 7), "topk_rows(p, k=7)", outputs, products);
        check_fold([3, 301], &both(3, 20), "topk_rows(p, k=20, largest=false)", outputs, products);
        check_fold([5, 300], "i: i32[5]", "argmax(p, axis=1)", "output i = i", products);
    }
    check_fold([1, 40000], &both(1, 10), "topk_rows(p, k=10)", outputs, Products::Panels(1 << 20));
    check_fold([1, 40000], &both(1, 10), "topk_rows(p, k=10)", outputs, Products::Own);
}

#[test]
fn search_finds_the_nearest_rows() {
    for (products, metric) in
        [(Products::Own, "l2"), (Products::Panels(1 << 16), "l2"), (Products::Panels(1 << 16), "ip")]
    {
        let nodes = format!(
            "input q: f32[20, 8]\ninput b: f32[600, 8]\n\
             (v: f32[20, 5], i: i32[20, 5], c: bool[20]) = nearest(q, b, k=5, metric=\"{metric}\", exact=false)\n\
             output v = v\noutput i = i"
        );
        check_graph(&nodes, &matrices(20, 600, 8), products);
    }
}

#[test]
fn examples_of_ops_that_bring_kernels_along_hold_in_their_cuda_texts() {
    let mut registry = Engine::new().registry;
    registry.add(running_median::running_median());
    // An op without kernels for a GPU is one that expansions choose for a CPU alone.
    let has_gpu = |body: &KernelBody| match body {
        KernelBody::Opaque(body) => !matches!(body.call.form().gpu, GpuForm::None { .. }),
        _ => false,
    };
    let is_opaque = |graph: &Graph| {
        let compiled = compile(graph, &registry, &Options::default());
        compiled.plan.kernels.iter().any(|kernel| has_gpu(&kernel.body))
    };
    let examples = registry.ops().flat_map(|form| form.examples.clone());
    let mut n_checked = 0;
    for example in examples {
        let case = testing::case(&example, &registry).unwrap();
        if is_opaque(&case.graph) {
            check(&case.graph, &registry, &case.inputs, Products::Own, example.call);
            n_checked += 1;
        }
    }
    assert!(n_checked >= 10, "{n_checked} examples");
}

// ---- Texts.

/// The CUDA text of the first launch of the only opaque kernel or matmul fold, from its parameters on.
fn text(nodes: &str, products: Products) -> String {
    let registry = Engine::new().registry;
    let graph = parse(&format!("graph test {{\n{nodes}\n}}\n"), &registry).unwrap();
    let compiled = compile(&graph, &registry, &Options::default());
    let step = compiled.plan.kernels.iter().find_map(|kernel| match (&kernel.body, products) {
        (KernelBody::Opaque(_), _) => {
            Some(KernelSpec::launches(kernel, DeviceModel::H200).unwrap().remove(0))
        }
        (KernelBody::Matmul(body), Products::Panels(bytes)) => {
            let rows = body.rows.as_ref()?;
            Some(
                KernelSpec::panel_fold(kernel, body, rows, &DeviceModel::H200, PanelCut::Bytes(bytes))
                    .unwrap()
                    .step,
            )
        }
        _ => None,
    });
    let step = step.unwrap();
    let source = step.cuda_source().unwrap();
    let again = step.clone().cuda_source().unwrap();
    assert!(source.text == again.text, "equal kernels have equal texts");
    source.text[source.text.find("extern \"C\"").unwrap()..].to_string()
}

#[test]
fn texts_of_a_sort_a_selection_and_a_fold() {
    let sort =
        "input x: f32[6, 200]\n(v: f32[6, 200], i: i32[6, 200]) = sort_rows(x)\noutput v = v\noutput i = i";
    expect_file!["../golden/sort.cu"].assert_eq(&text(sort, Products::Own));
    let select = "input x: f32[9, 8192]\n(v: f32[9, 64], i: i32[9, 64]) = topk_rows(x, k=64)\noutput v = v\noutput i = i";
    expect_file!["../golden/topk.cu"].assert_eq(&text(select, Products::Own));
    let fold = "input q: f32[5000, 128]\ninput b: f32[128, 100000]\ninput s: f32[100000]\n\
        p: f32[5000, 100000] = matmul(q, b)\nd: f32[5000, 100000] = map(p, s) |p, s| s - 2.0 * p\n\
        (v: f32[5000, 10], i: i32[5000, 10]) = topk_rows(d, k=10, largest=false)\noutput v = v\noutput i = i";
    expect_file!["../golden/matmul_fold.cu"].assert_eq(&text(fold, Products::Panels(PANEL_BYTES)));
}
