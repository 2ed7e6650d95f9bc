//! A compiler that does not know the GPU, like an older one. It compiles to PTX for the latest GPU that it knows, and
//! the driver makes machine code of that. The text must not use features of later chips.

use super::*;

/// The NVIDIA GPU, through PTX.
fn gpu_through_ptx() -> Option<Arc<dyn Device>> {
    let gpu = CudaDevice::through_ptx(0).map(|device| Arc::new(device) as Arc<dyn Device>);
    let gpu = usable("cuda", gpu)?;
    let details = gpu.info().details;
    let is_unknown = details.iter().any(|(_, value)| value.contains("does not know this GPU"));
    assert!(is_unknown, "the compiler knows no GPU before this one: {details:?}");
    Some(gpu)
}

#[test]
fn rows_and_products_through_ptx_agree() {
    let Some(gpu) = gpu_through_ptx() else { return };
    rows_of_all_lengths(|case, bounds| case.check_within([&gpu].into_iter(), bounds));
    // Halves need the toolkit's headers.
    for dtype in [DType::F32, DType::BF16] {
        let shape = [128, 96, 40];
        let bounds = bounds_of_epilogues(dtype, shape);
        epilogues_and_side_sums(dtype, shape).check_within([&gpu].into_iter(), &bounds);
    }
}

/// Only chips from Hopper on add four adjacent numbers to memory at once.
#[test]
fn sums_by_indices_through_ptx_agree() {
    let Some(gpu) = gpu_through_ptx() else { return };
    let (n_rows, n, columns) = (10, 3000, 8);
    Case::new(|b| {
        let base = data(b, "base", DType::F32, &[n_rows, columns]);
        let updates = data(b, "updates", DType::F32, &[n, columns]);
        let idx = data(b, "idx", DType::I32, &[n]);
        vec![b.scatter(base, idx, updates, 0, 0, Combine::Add)]
    })
    .check_within([&gpu].into_iter(), &[Closeness::of_sum(n)]);
}
