//! Scatters: adds of four neighbours, assertions before the first write, and sorted scatters.

use super::assertion::{clear_flag, reported};
use super::*;
use crate::codegen::schedule::radix_sort::RadixSort;

/// `base; out[idx] += 2·updates`, with indices checked by the kernel.
fn checked_sum(n_rows: usize, after: usize) -> Kernel {
    let registry = Registry::new();
    let mut b = Builder::new(Graph::new("sum"), &registry);
    let base = b.input("base", InputKind::Data, TensorType::new(DType::F32, &[10, after]));
    let idx = b.input("idx", InputKind::Data, TensorType::new(DType::I32, &[n_rows]));
    let given = b.input("updates", InputKind::Data, TensorType::new(DType::F32, &[n_rows, after]));
    let idx = b.check_index(idx, 10);
    let updates = b.scale(given, 2.0);
    let out = b.scatter(base, idx, updates, 0, 0, Combine::Add);
    b.graph.outputs = vec![("out".into(), out)];
    let mut kernels = fuse_with(&b.graph, &Settings::default()).kernels;
    assert_eq!(kernels.len(), 1);
    kernels.remove(0)
}

fn text_of_updates([n_rows, after]: [usize; 2], device: DeviceModel) -> String {
    KernelSpec::launches(&checked_sum(n_rows, after), device).unwrap().remove(1).cuda_source().unwrap().text
}

#[test]
fn one_instruction_adds_four_neighbours() {
    let adds = |after: usize, device: DeviceModel| {
        let text = text_of_updates([6, after], device);
        // The error flag counts with integers.
        let adds_floats =
            text.lines().any(|line| line.starts_with("const float") && line.contains("= atomicAdd("));
        [text.contains("add_four("), adds_floats]
    };
    assert_eq!(adds(8, DeviceModel::H200), [true, false]);
    assert_eq!(adds(6, DeviceModel::H200), [false, true]);
    assert_eq!(adds(8, DeviceModel { adds_four: false, ..DeviceModel::H200 }), [false, true]);
    for after in [3, 4, 8, 300] {
        check_scatter([1, 1, 10, 6, after], Combine::Add, false);
        check_scatter([2, 3, 4, 5, after], Combine::Add, false);
    }
    // With many updates, a thread has four rows, and adds up neighbours with equal indices first.
    let n_adds = |n: usize| text_of_updates([n, 1024], DeviceModel::H200).matches("add_four(&").count();
    assert_eq!([1024, 1022, 512].map(n_adds), [4, 1, 1]);
    check_scatter([2, 1, 10, 512, 1024], Combine::Add, false);
    check_scatter([1, 2, 300, 1024, 515], Combine::Add, false);
}

#[test]
fn a_sum_into_state_checks_all_indices_before_it_writes() {
    let kernel = checked_sum(600, 4);
    let updates = KernelSpec::launches(&kernel, DeviceModel::H200).unwrap().remove(1);
    assert!(updates.checks_before_writing());
    let [guarded, checks] = [updates.clone().guarded(), updates.checks_only().unwrap()];
    let run = |fused: &KernelSpec, bad: Option<usize>, raised: u32| {
        summed_by(&kernel, std::slice::from_ref(fused), bad, raised)
    };
    let found = |flag: &[u8]| reported(flag).map(|found| (found.position, found.value));
    let Some((sums, flag)) = run(&guarded, None, 0) else { return };
    assert_eq!((sums, found(&flag)), (vec![120.0; 40], None));
    let (sums, _) = run(&guarded, None, 1).unwrap();
    assert_eq!(sums, vec![0.0; 40], "an error from before is heeded");
    let (_, flag) = run(&guarded, Some(599), 0).unwrap();
    assert_eq!(found(&flag), Some((599, 10)));
    let (sums, flag) = run(&checks, Some(300), 0).unwrap();
    assert_eq!(found(&flag), Some((300, 10)));
    assert_eq!(sums, vec![0.0; 40], "only the flag is written");
}

// ---- Sorted scatters.

/// A scatter of `x + x` along the third of five axes: shared leading axes, free ones, the indexed one and the
/// number of its indices, free ones.
#[derive(Clone, Copy)]
struct Case {
    extents: [usize; 5],
    combine: Combine,
    dtype: DType,
    device: DeviceModel,
    /// Whether updates may be added in any order.
    is_cut: bool,
}

const ADDED: Case = Case {
    extents: [1, 1, 10, 100, 3],
    combine: Combine::Add,
    dtype: DType::F32,
    device: DeviceModel::H200,
    is_cut: false,
};

/// A GPU with packed elements and without warp shuffles.
const WORDS: DeviceModel = DeviceModel { adds_f32: true, most_tensors: 5, ..DeviceModel::WEBGPU };

impl Case {
    fn kernel(&self) -> Kernel {
        let [batch, before, indexed, n_indices, after] = self.extents;
        let registry = Registry::new();
        let mut b = Builder::new(Graph::new("scatter"), &registry);
        let tensor = |extents: &[usize]| TensorType::new(self.dtype, extents);
        let base = b.input("base", InputKind::Data, tensor(&[batch, before, indexed, after]));
        let idx = b.input("idx", InputKind::Data, TensorType::new(DType::I32, &[batch, n_indices]));
        let given = b.input("updates", InputKind::Data, tensor(&[batch, before, n_indices, after]));
        let updates = b.add(given, given);
        let out = b.scatter(base, idx, updates, 2, 1, self.combine);
        b.graph.outputs = vec![("out".into(), out)];
        let settings = Settings { deterministic: !self.is_cut, ..Settings::default() };
        fuse_with(&b.graph, &settings).kernels.remove(0)
    }

    /// An element of a tensor. If the order is free, no order of additions rounds it.
    fn number(&self, i: usize) -> f64 {
        let whole = (i * 7919 % 1009) as f64 - 500.0;
        match self.dtype {
            dtype if dtype.is_int() => self.rounded(whole),
            _ if self.is_cut => whole,
            dtype => self.rounded(whole / if dtype == DType::F16 { 64.0 } else { 252.0 }),
        }
    }

    fn rounded(&self, x: f64) -> f64 {
        match self.dtype {
            DType::F32 => f64::from(x as f32),
            DType::F16 => half::f16::from_f64(x).to_f64(),
            DType::U8 => x.rem_euclid(256.0),
            DType::I8 => f64::from(x as i32 as i8),
            DType::I16 => f64::from(x as i32 as i16),
            DType::U16 => f64::from(x as i32 as u16),
            _ => x,
        }
    }

    fn bytes(&self, numbers: &[f64]) -> Vec<u8> {
        let bytes = |&x: &f64| match self.dtype {
            DType::F32 => (x as f32).to_le_bytes().to_vec(),
            DType::F16 => half::f16::from_f64(x).to_le_bytes().to_vec(),
            dtype => (x as i32).to_le_bytes()[..dtype.size()].to_vec(),
        };
        numbers.iter().flat_map(bytes).collect()
    }

    /// The result of adding the updates in order.
    fn expected(&self, base: &[f64], updates: &[f64], indices: &[i32]) -> Vec<f64> {
        let [_, before, indexed, n_indices, after] = self.extents;
        let mut out = base.to_vec();
        for (at, &update) in updates.iter().enumerate() {
            let (column, i, lead) = (at % after, at / after % n_indices, at / after / n_indices);
            let index = indices[lead / before * n_indices + i];
            if (0..indexed as i32).contains(&index) {
                let out = &mut out[(lead * indexed + index as usize) * after + column];
                let update = self.rounded(update + update);
                *out = if self.combine == Combine::Set { update } else { self.rounded(*out + update) };
            }
        }
        out
    }

    /// Runs the sorted scatter and compares it bit by bit with updates in order.
    fn check(self, index: impl Fn(usize) -> i32) {
        let kernel = self.kernel();
        let KernelBody::Scatter(body) = &kernel.body else { unreachable!() };
        let mut launches = scatter::launches(&kernel, body, self.device);
        launches.truncate(1);
        launches.extend(scatter_sorted::sorted_launches(&kernel, body, self.is_cut, self.device).unwrap());
        self.check_launches(launches, index);
    }

    /// Runs the launches and compares the result bit by bit with updates in order.
    fn check_launches(self, launches: Vec<KernelSpec>, index: impl Fn(usize) -> i32) {
        let [batch, before, indexed, n_indices, after] = self.extents;
        let kernel = self.kernel();
        let numbers =
            |n: usize, from: usize| -> Vec<f64> { (from..from + n).map(|i| self.number(i)).collect() };
        let leads = batch * before;
        let (base, updates) = (numbers(leads * indexed * after, 0), numbers(leads * n_indices * after, 3));
        let indices: Vec<i32> = (0..batch * n_indices).map(index).collect();
        let reads = kernel.operands.iter().filter(|operand| operand.usage == Use::Read);
        let inputs = reads.map(|operand| match operand.ty.numel() {
            _ if operand.ty.dtype == DType::I32 && operand.ty.rank() == 2 => {
                indices.iter().flat_map(|i| i.to_le_bytes()).collect()
            }
            _ if operand.ty.extents()[2] == indexed && operand.value.node == 0 => self.bytes(&base),
            _ => self.bytes(&updates),
        });
        let inputs: Vec<Vec<u8>> = inputs.map(in_words).collect();
        let Some(buffers) = on_host::run_launches(&kernel, &launches, &inputs, 0) else { return };
        let expected = self.bytes(&self.expected(&base, &updates, &indices));
        let found = &buffers[inputs.len()][..expected.len()];
        let size = self.dtype.size();
        let differs =
            found.chunks(size).zip(expected.chunks(size)).position(|(found, expected)| found != expected);
        assert_eq!(differs, None, "{:?} {:?} {}", self.extents, self.combine, self.dtype);
    }
}

/// Bytes up to a whole word.
fn in_words(mut bytes: Vec<u8>) -> Vec<u8> {
    bytes.resize(bytes.len().next_multiple_of(4), 0);
    bytes
}

/// Rows without a pattern, some of them outside.
fn spread(indexed: usize) -> impl Fn(usize) -> i32 {
    move |i| (i * 7919 % (indexed + 2)) as i32 - 1
}

#[test]
fn rows_take_their_updates_in_order() {
    let small = [DType::U8, DType::I8, DType::I16, DType::U16];
    for dtype in [DType::F32, DType::F16].into_iter().chain(small) {
        Case { dtype, ..ADDED }.check(spread(10));
    }
    for dtype in [DType::F32, DType::F16, DType::I32].into_iter().chain(small) {
        Case { dtype, device: WORDS, ..ADDED }.check(spread(10));
    }
    for combine in [Combine::Add, Combine::Set] {
        Case { extents: [2, 3, 7, 64, 4], combine, ..ADDED }.check(spread(7));
    }
    Case { extents: [1, 1, 1, 90, 1], ..ADDED }.check(|_| 0);
    Case { extents: [1, 1, 9, 65, 2], combine: Combine::Set, ..ADDED }.check(|_| 8);
    Case { extents: [1, 2, 9, 65, 2], ..ADDED }.check(|i| if i % 2 == 0 { -1 } else { i32::MAX });
}

#[test]
fn neighbours_in_a_row_are_accessed_as_vectors() {
    for (dtype, device) in [(DType::F32, DeviceModel::H200), (DType::F32, WORDS), (DType::F16, WORDS)] {
        let case = Case { extents: [1, 1, 40, 1000, 264], dtype, device, ..ADDED };
        case.check(|i| (i % 50) as i32);
    }
}

#[test]
fn many_indices_take_a_radix_sort() {
    Case { extents: [1, 1, 70_000, 1600, 1], ..ADDED }.check(spread(70_000));
    Case { extents: [1, 1, 1, 1025, 2], ..ADDED }.check(|_| 0);
    Case { extents: [3, 1, 300, 700, 3], combine: Combine::Set, device: WORDS, ..ADDED }.check(spread(300));
    // More chunks than a block has threads to sum them.
    Case { extents: [1, 1, 500, 140_000, 1], dtype: DType::I32, ..ADDED }.check(spread(500));
}

#[test]
fn pieces_of_long_rows_are_added_in_any_order() {
    let lengths = [1, 63, 64, 65, 3, 127, 128, 129, 200, 2, 256, 190];
    let rows: Vec<i32> = (0..).zip(lengths).flat_map(|(row, n)| vec![row; n]).collect();
    for device in [DeviceModel::H200, WORDS] {
        let case = Case { is_cut: true, device, extents: [1, 1, 12, 1000, 4], ..ADDED };
        case.check(|i| rows[i * 7 % 1000]);
        case.check(|_| 5);
        Case { extents: [1, 1, 12, 1000, 3], dtype: DType::I32, ..case }.check(|i| rows[i * 7 % 1000]);
    }
    let case = Case { is_cut: true, ..ADDED };
    Case { extents: [1, 1, 12, 1000, 144], ..case }.check(|i| rows[i * 7 % 1000]);
}

#[test]
fn blocks_add_long_rows_in_order() {
    let lengths = [1, 127, 128, 2, 257, 140];
    let rows: Vec<i32> = (0..).zip(lengths).flat_map(|(row, n)| vec![row; n]).collect();
    let n = rows.len();
    let case = Case { extents: [1, 1, 7, n, 33], ..ADDED };
    case.check(|i| rows[i * 7 % n]);
    // The last row is outside.
    Case { extents: [1, 1, 5, n, 24], device: WORDS, ..case }.check(|i| rows[i * 7 % n]);
    Case { extents: [1, 1, 1, n, 4], dtype: DType::F16, ..case }.check(|_| 0);
}

/// The launches of a scatter whose blocks add in shared memory.
fn shared_launches(kernel: &Kernel, device: DeviceModel) -> Vec<KernelSpec> {
    let launches = KernelSpec::launches(kernel, device).unwrap();
    assert_eq!(launches.iter().map(KernelSpec::entry).collect::<Vec<_>>(), ["map", "scatter_shared"]);
    launches
}

#[test]
fn blocks_add_many_updates_to_few_elements() {
    let few = DeviceModel { n_processors: 1, ..DeviceModel::H200 };
    for (device, dtype, extents) in [
        (DeviceModel::H200, DType::I32, [2, 1, 7, 11_000, 3]),
        (WORDS, DType::I32, [2, 1, 7, 11_000, 3]),
        (DeviceModel::H200, DType::U32, [2, 1, 7, 11_000, 3]),
        (few, DType::F32, [2, 1, 7, 11_000, 3]),
        (few, DType::F32, [1, 1, 7, 11_000, 12]),
        // Two groups with tiles of half of the columns.
        (few, DType::F32, [2, 1, 260, 8_400, 32]),
    ] {
        let case = Case { device, dtype, extents, is_cut: true, ..ADDED };
        case.check_launches(shared_launches(&case.kernel(), device), spread(extents[2]));
    }
    // Without enough blocks, floats are added in memory, unless an element has many updates.
    let entries = |n_rows: usize| -> Vec<&str> {
        let launches = KernelSpec::launches(&checked_sum(n_rows, 12), DeviceModel::H200).unwrap();
        launches.iter().map(KernelSpec::entry).collect()
    };
    assert_eq!(entries(9_000), ["map", "scatter"]);
    assert_eq!(entries(11_000), ["map", "scatter_shared"]);
}

#[test]
fn updates_are_sorted_where_that_is_faster() {
    let launches_on = |device: DeviceModel, extents: [usize; 5], dtype: DType, deterministic: bool| {
        let case = Case { extents, dtype, ..ADDED };
        let mut kernel = case.kernel();
        let KernelBody::Scatter(body) = &mut kernel.body else { unreachable!() };
        body.in_order = deterministic;
        let launches = KernelSpec::launches(&kernel, device).unwrap();
        launches.iter().map(KernelSpec::entry).collect::<Vec<_>>()
    };
    let launches = |extents, dtype, in_order| launches_on(DeviceModel::H200, extents, dtype, in_order);
    let [in_place, by_block] =
        [vec!["map", "scatter"], vec!["map", "scatter_keys", "sort_keys", "scatter_rows"]];
    assert_eq!(launches([1, 1, 100, 63, 8], DType::F32, true), in_place);
    assert_eq!(launches([1, 1, 100, 64, 8], DType::F32, true), by_block);
    assert_eq!(launches([1, 1, 100, 64, 8], DType::F32, false), in_place);
    assert_eq!(launches([1, 1, 100, 64, 8], DType::I32, true), in_place, "in any order the same");
    assert_eq!(launches([1, 1, 100, 64, 8], DType::F16, false), by_block, "not added at once");
    let digit = ["count_digits", "sum_counts", "place_keys"];
    let many = |n_digits: usize, is_cut: bool| -> Vec<&str> {
        let of_long = if is_cut { "scatter_pieces" } else { "scatter_long" };
        [&["map", "scatter_keys"], &digit.repeat(n_digits)[..], &["scatter_rows", of_long]].concat()
    };
    assert_eq!(launches([1, 1, 255, 5000, 1], DType::F32, true), many(1, false));
    assert_eq!(launches([1, 1, 256, 5000, 1], DType::F32, true), many(2, false));
    let large = [1, 1, 1 << 20, 1 << 18, 256];
    assert_eq!(launches(large, DType::F32, true), many(3, false));
    assert_eq!(launches(large, DType::F32, false), in_place);
    assert_eq!(launches_on(WORDS, large, DType::F32, false), many(3, true));
    assert_eq!(launches_on(WORDS, [1, 1, 1 << 20, 1 << 18, 96], DType::F32, false), in_place);
}

/// The table and the error flag after a sum of ones into the table, given the flag before.
fn summed_by_sorted_scatter(bad: Option<usize>, raised: u32) -> Option<(Vec<f32>, Vec<u8>)> {
    let mut kernel = checked_sum(600, 4);
    let KernelBody::Scatter(body) = &mut kernel.body else { unreachable!() };
    body.in_order = true;
    let mut launches = KernelSpec::launches(&kernel, DeviceModel::H200).unwrap();
    launches.remove(0);
    assert!(launches.iter().all(|fused| fused.checks_only().is_none()), "the first one checks");
    let launches: Vec<KernelSpec> = launches.into_iter().map(KernelSpec::guarded).collect();
    summed_by(&kernel, &launches, bad, raised)
}

/// The table and the error flag after these launches of a [`checked_sum`] of ones.
fn summed_by(
    kernel: &Kernel,
    launches: &[KernelSpec],
    bad: Option<usize>,
    raised: u32,
) -> Option<(Vec<f32>, Vec<u8>)> {
    let indices = |n: usize| {
        let mut idx: Vec<i32> = (0..n as i32).map(|i| i % 10).collect();
        if let Some(bad) = bad {
            idx[bad] = 10;
        }
        idx.iter().flat_map(|i| i.to_le_bytes()).collect()
    };
    let reads = kernel.operands.iter().filter(|operand| operand.usage == Use::Read);
    let inputs = reads.map(|operand| match operand.ty.dtype {
        DType::I32 => indices(operand.ty.numel()),
        _ => bytes(&vec![1.0; operand.ty.numel()]),
    });
    let inputs: Vec<Vec<u8>> = inputs.collect();
    let mut memory = on_host::HostMemory::new(kernel, &inputs);
    memory.operands[inputs.len()].fill(0);
    let mut flag = clear_flag(kernel);
    flag[..4].copy_from_slice(&raised.to_le_bytes());
    memory.flag = Some(flag);
    for fused in launches {
        let source = fused.cuda_source().unwrap();
        let (n_blocks, info) = (source.blocks_for(source.points), source.info(source.points, 0));
        memory.launch(&source, n_blocks, &info)?;
    }
    Some((f32s(&memory.operands[inputs.len()]), memory.flag.unwrap()))
}

#[test]
fn the_text_of_a_row_of_a_sorted_scatter() {
    let kernel = Case { extents: [1, 1, 10, 64, 3], ..ADDED }.kernel();
    let rows = KernelSpec::launches(&kernel, DeviceModel::H200).unwrap().pop().unwrap();
    expect_file!["../../../../tests/golden/scatter.cu"].assert_eq(&kernel_text(&rows));
}

/// The launch of the second of two digits; the first one makes up the numbers of the keys.
#[test]
fn the_texts_of_a_radix_sort() {
    let kernel = Case { extents: [1, 1, 300, 1100, 3], ..ADDED }.kernel();
    let launches = KernelSpec::launches(&kernel, DeviceModel::H200).unwrap();
    let of_sort = launches.iter().filter(|fused| fused.schedule.as_any().is::<RadixSort>());
    let texts: Vec<String> = of_sort.map(kernel_text).collect();
    let [first, second] = [&texts[..3], &texts[3..]];
    assert_eq!(first[..2], second[..2], "counted and summed up as the second is");
    let text = second.join("\n// ---- The next launch.\n\n");
    expect_file!["../../../../tests/golden/digits.cu"].assert_eq(&text);
}

#[test]
fn a_bad_index_leaves_sums_of_blocks_unchanged() {
    let kernel = checked_sum(11_000, 12);
    let mut launches = shared_launches(&kernel, DeviceModel::H200);
    let shared = launches.remove(1);
    let launches = [shared.checks_only().unwrap(), shared.guarded()];
    let Some((sums, flag)) = summed_by(&kernel, &launches, None, 0) else { return };
    assert_eq!((sums, reported(&flag)), (vec![2200.0; 120], None));
    let (sums, flag) = summed_by(&kernel, &launches, Some(10_999), 0).unwrap();
    let found = reported(&flag).unwrap();
    assert_eq!((sums, found.position, found.value), (vec![0.0; 120], 10_999, 10));
}

#[test]
fn a_bad_index_leaves_state_unchanged() {
    let Some((sums, flag)) = summed_by_sorted_scatter(None, 0) else { return };
    assert_eq!((sums, reported(&flag)), (vec![120.0; 40], None));
    let (sums, flag) = summed_by_sorted_scatter(Some(599), 0).unwrap();
    let found = reported(&flag).unwrap();
    assert_eq!((sums, found.position, found.value), (vec![0.0; 40], 599, 10));
    let (sums, _) = summed_by_sorted_scatter(None, 1).unwrap();
    assert_eq!(sums, vec![0.0; 40], "an error from before is heeded");
}

/// `base; out[…, idx, …] combine= 2·updates` as the fuser makes it, on generated data, with the result.
fn check_scatter(
    [batch, before, indexed, n_indices, after]: [usize; 5],
    combine: Combine,
    deterministic: bool,
) {
    let registry = Registry::new();
    let mut b = Builder::new(Graph::new("scatter"), &registry);
    let f32s = |extents: &[usize]| TensorType::new(DType::F32, extents);
    let base = b.input("base", InputKind::Data, f32s(&[batch, before, indexed, after]));
    let idx = b.input("idx", InputKind::Data, TensorType::new(DType::I32, &[batch, n_indices]));
    let given = b.input("updates", InputKind::Data, f32s(&[batch, before, n_indices, after]));
    let updates = b.scale(given, 2.0);
    let out = b.scatter(base, idx, updates, 2, 1, combine);
    b.graph.outputs = vec![("out".into(), out)];
    let settings = Settings { deterministic, ..Settings::default() };
    let kernel = fuse_with(&b.graph, &settings).kernels.remove(0);

    let (n_out, n_updates) = (b.ty(out).numel(), b.ty(updates).numel());
    let (before_it, updates) = (numbers(n_out), numbers(n_updates + 3)[3..].to_vec());
    // Some indices are out of range, and some neighbours are equal.
    let drawn = |i: usize| (if i % 5 < 2 { i } else { i / 5 * 5 + 2 }) * 7 % (indexed + 2);
    let indices: Vec<i32> = (0..batch * n_indices).map(|i| drawn(i) as i32 - 1).collect();
    let index_bytes: Vec<u8> = indices.iter().flat_map(|i| i.to_le_bytes()).collect();
    let reads = kernel.operands.iter().filter(|operand| operand.usage == Use::Read);
    let inputs: Vec<Vec<u8>> = reads
        .map(|operand| match operand.value {
            value if value == base => bytes(&before_it),
            value if value == idx => index_bytes.clone(),
            _ => bytes(&updates),
        })
        .collect();
    let Some(buffers) = on_host::run(&kernel, &inputs, 0) else { return };
    let mut expected: Vec<f64> = before_it.iter().map(|&x| f64::from(x)).collect();
    for (at, &update) in updates.iter().enumerate() {
        let (column, i, lead) = (at % after, at / after % n_indices, at / after / n_indices);
        let index = indices[lead / before * n_indices + i];
        if (0..indexed as i32).contains(&index) {
            let out = &mut expected[(lead * indexed + index as usize) * after + column];
            let update = 2.0 * f64::from(update);
            *out = if combine == Combine::Set { update } else { *out + update };
        }
    }
    assert_close(&self::f32s(&buffers[inputs.len()]), expected);
}

#[test]
fn scatters_combine_updates_and_skip_indices_out_of_range() {
    for (combine, deterministic) in [(Combine::Add, false), (Combine::Add, true), (Combine::Set, false)] {
        check_scatter([1, 1, 10, 6, 3], combine, deterministic);
        check_scatter([2, 3, 4, 5, 1], combine, deterministic);
        check_scatter([1, 2, 1, 3, 300], combine, deterministic);
    }
}

/// The gradient of a lookup: the thread that adds an update computes it.
#[test]
fn updates_are_computed_by_the_thread_that_adds_them() {
    let registry = Registry::new();
    let mut b = Builder::new(Graph::new("lookup"), &registry);
    let table = b.input("table", InputKind::Param, TensorType::new(DType::F32, &[100, 64]));
    let device = b.input("device", InputKind::Data, TensorType::new(DType::F32, &[32, 64]));
    let idx = b.input("idx", InputKind::Data, TensorType::new(DType::I32, &[32]));
    let idx = b.check_index(idx, 100);
    let row = b.gather(table, idx, 0, 0);
    let off = b.sub(row, device);
    let updates = b.scale(off, 2.0);
    let zeros = b.full_like(table, 0.0);
    let gradient = b.scatter(zeros, idx, updates, 0, 0, Combine::Add);
    b.graph.outputs = vec![("gradient".into(), gradient)];
    let kernels = fuse_with(&b.graph, &Settings::default()).kernels;
    let [kernel] = &kernels[..] else { panic!("{} kernels", kernels.len()) };
    let sources: Vec<String> = cuda_sources(kernel).unwrap().into_iter().map(|source| source.text).collect();
    // The row, the difference, its double and the sum; no other float is loaded or stored.
    let lines: Vec<&str> = sources[1].lines().map(str::trim).collect();
    let count = |part: &str| lines.iter().filter(|line| line.contains(part)).count();
    let read = lines.iter().filter(|line| line.starts_with("const float_4 l_") && line.contains("= _tmp_"));
    let sums = lines.iter().filter(|line| line.starts_with("add_four("));
    assert_eq!([read.count(), count(" * float(2.0)"), sums.count()], [2, 4, 1], "{}", sources[1]);
}
