//! The roofline of a kernel: its bytes at the rate of a copy, or its arithmetic at the rate of a matmul.

use std::sync::Arc;

use engine_core::fusion::{Kernel, KernelBody};
use engine_core::ir::DType;
use engine_core::numerics::Precision;
use engine_core::plan::Plan;
use engine_runtime::device::{Device, DeviceKind, RunError};

use super::ceiling::{self, Measured};

/// The ceilings of a device.
pub(super) struct Ceiling {
    /// Bytes per second, by the number of bytes moved. Data that fits into a cache moves faster.
    moved: Vec<Moved>,
    /// Matmul rates by the types of factors. Every kernel has one.
    products: Vec<(Factors, Measured)>,
    /// The precision of `f32` matmuls.
    matmul: Precision,
    /// Kernels that were faster than the measured ceiling.
    raised: Vec<String>,
}

/// A rate at which bytes were moved.
struct Moved {
    bytes: u64,
    rate: f64,
}

/// The types of factors, and their precision.
type Factors = (DType, Precision);

impl Ceiling {
    /// Measures matmuls in the types of the kernels of these plans.
    pub(super) fn measure<'p>(
        device: &Arc<dyn Device>,
        plans: impl Iterator<Item = &'p Plan> + Clone,
    ) -> Result<Ceiling, RunError> {
        let is_tf32 = plans.clone().any(|plan| plan.matmul == Precision::Tf32);
        // Other devices compute them in `f32` anyway.
        let is_tf32 = is_tf32 && device.info().kind == DeviceKind::Cuda;
        let matmul = if is_tf32 { Precision::Tf32 } else { Precision::F32 };
        let moved = ceiling::copies(device)?.into_iter();
        let moved = moved.map(|Measured { rate, size }| Moved { bytes: 8 * size as u64, rate }).collect();
        let mut products: Vec<(Factors, Measured)> = vec![];
        for kernel in plans.flat_map(|plan| &plan.kernels) {
            let factors = factors(kernel, matmul);
            if products.iter().all(|(known, _)| *known != factors) {
                products.push((factors, ceiling::product(device, factors.0, factors.1)?));
            }
        }
        Ok(Ceiling { moved, products, matmul, raised: vec![] })
    }

    /// Raises the ceiling to a kernel that was faster: the device can do at least that.
    pub(super) fn raise(&mut self, kernel: &Kernel, seconds: f64) {
        let seconds = seconds.max(1e-12);
        let (bytes, factors) = (bytes(kernel), factors(kernel, self.matmul));
        let mut is_raised = false;
        if bytes as f64 / self.memory(bytes) > seconds {
            self.moved.push(Moved { bytes, rate: bytes as f64 / seconds });
            is_raised = true;
        }
        if let Some((_, product)) = self.products.iter_mut().find(|(known, _)| *known == factors)
            && kernel.flops as f64 / product.rate > seconds
        {
            product.rate = kernel.flops as f64 / seconds;
            is_raised = true;
        }
        if is_raised && !self.raised.contains(&kernel.name) {
            self.raised.push(kernel.name.clone());
        }
    }

    /// The ceilings in one line.
    pub(super) fn text(&self) -> String {
        let mut moved: Vec<&Moved> = self.moved.iter().collect();
        moved.sort_by_key(|moved| std::cmp::Reverse(moved.bytes));
        let mut text = String::new();
        let mut best = 0.0;
        for Moved { bytes, rate } in moved {
            // Keeps only rates that no larger copy reaches.
            if *rate > best {
                let (shown, size) = (rate * 1e-9, size_text(bytes / 2));
                text.push_str(&match text.is_empty() {
                    true => format!("{shown:.1} GB/s by a copy of {size}"),
                    false => format!(", up to {shown:.1} of {size}"),
                });
                best = *rate;
            }
        }
        for (factors, Measured { rate, size }) in &self.products {
            let factors = match factors {
                (DType::F32, Precision::Tf32) => "tf32".to_string(),
                (dtype, _) => dtype.to_string(),
            };
            let rate = rate * 1e-9;
            text.push_str(&format!(", {rate:.1} GFLOP/s by a product of {size}x{size}x{size} in {factors}"));
        }
        match self.raised.is_empty() {
            true => text,
            false => {
                format!("{text}\nraised to the rates of kernels of this run: {}", self.raised.join(", "))
            }
        }
    }

    /// The maximum bytes per second of a kernel that moves this many bytes. A larger copy shows a rate that a smaller
    /// one can reach as well.
    fn memory(&self, bytes: u64) -> f64 {
        let as_large = self.moved.iter().filter(|moved| moved.bytes >= bytes).map(|moved| moved.rate);
        let largest =
            self.moved.iter().max_by_key(|moved| moved.bytes).map_or(f64::INFINITY, |moved| moved.rate);
        as_large.fold(largest, f64::max)
    }

    /// The maximum operations per second for the factors of a kernel.
    fn arithmetic(&self, kernel: &Kernel) -> f64 {
        let factors = factors(kernel, self.matmul);
        let product = self.products.iter().find(|(known, _)| *known == factors);
        product.map_or(f64::INFINITY, |(_, measured)| measured.rate)
    }

    /// The share of the ceiling that a kernel reaches, and the name of the ceiling.
    pub(super) fn limit(&self, kernel: &Kernel, seconds: f64) -> (f64, &'static str) {
        let bytes = bytes(kernel);
        limit(bytes as f64, kernel.flops as f64, seconds, [self.memory(bytes), self.arithmetic(kernel)])
    }
}

/// Bytes that a kernel reads and writes.
pub(super) fn bytes(kernel: &Kernel) -> u64 {
    kernel.bytes_read + kernel.bytes_written
}

fn size_text(bytes: u64) -> String {
    if bytes >= 1 << 20 { format!("{} MiB", bytes >> 20) } else { format!("{} KiB", bytes.div_ceil(1 << 10)) }
}

/// The factors of a kernel. A kernel without a matmul computes in `f32`, unless its type is `f64`.
fn factors(kernel: &Kernel, matmul: Precision) -> Factors {
    let (dtype, precision) = match &kernel.body {
        KernelBody::Matmul(body) => (body.dtype, body.precision.unwrap_or(matmul)),
        KernelBody::Attention(body) => (body.dtype, matmul),
        _ => return (DType::F32, Precision::F32),
    };
    (dtype, if dtype == DType::F32 { precision } else { Precision::F32 })
}

/// The share of a ceiling, where `most` holds bytes and operations per second.
fn limit(bytes: f64, flops: f64, seconds: f64, most: [f64; 2]) -> (f64, &'static str) {
    let (moving, computing) = (bytes / most[0], flops / most[1]);
    let least = moving.max(computing);
    let reached = least / seconds.max(1e-12);
    let limit = match (reached < 0.1, moving >= computing) {
        (true, _) if least < 5e-6 => "launching: too little work",
        (_, true) => "memory",
        (_, false) => "arithmetic",
    };
    (reached, limit)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use engine_core::compile::{Options, compile};
    use engine_core::ir::{Builder, Graph, InputKind, Type, Unary};
    use engine_core::op::Registry;
    use engine_runtime::cpu::CpuDevice;

    #[test]
    fn the_larger_of_two_times_is_the_limit() {
        let most = [1e9, 1e10];
        assert_eq!(limit(1e6, 1e6, 2e-3, most), (0.5, "memory"));
        assert_eq!(limit(1e6, 1e8, 1e-2, most), (1.0, "arithmetic"));
        assert_eq!(limit(1e2, 0.0, 1e-5, most).1, "launching: too little work");
    }

    /// The kernels of a matmul in a type, and of a map.
    fn multiplied(dtype: DType) -> Plan {
        let registry = Registry::new();
        let mut b = Builder::new(Graph::new("g"), &registry);
        let [x, w] = ["x", "w"].map(|name| b.input(name, InputKind::Data, Type::new(dtype, &[64, 64])));
        let product = b.mm(x, w);
        let map = b.unary(Unary::Exp, x);
        b.graph.outputs.extend([("product".into(), product), ("map".into(), map)]);
        compile(&b.graph, &registry, &Options::default()).plan
    }

    #[test]
    fn each_kernel_is_held_against_products_of_its_own_type() {
        let measured = |rate: f64| Measured { rate, size: 1024 };
        let ceiling = Ceiling {
            moved: vec![
                Moved { bytes: 1 << 27, rate: 1e12 },
                Moved { bytes: 1 << 20, rate: 3e12 },
                Moved { bytes: 1 << 15, rate: 1e11 },
            ],
            products: vec![
                ((DType::F32, Precision::F32), measured(5e13)),
                ((DType::F32, Precision::Tf32), measured(4e14)),
                ((DType::BF16, Precision::F32), measured(8e14)),
            ],
            matmul: Precision::Tf32,
            raised: vec![],
        };
        let text = "1000.0 GB/s by a copy of 64 MiB, up to 3000.0 of 512 KiB, 50000.0 GFLOP/s by a product of 1024x1024x1024 in f32, 400000.0 GFLOP/s \
                    by a product of 1024x1024x1024 in tf32, 800000.0 GFLOP/s by a product of 1024x1024x1024 in bf16";
        assert_eq!(ceiling.text(), text);
        let most = |dtype: DType| {
            let mut most: Vec<f64> =
                multiplied(dtype).kernels.iter().map(|kernel| ceiling.arithmetic(kernel)).collect();
            most.sort_by(f64::total_cmp);
            most
        };
        assert_eq!(most(DType::BF16), [5e13, 8e14]);
        assert_eq!(most(DType::F32), [5e13, 4e14]);
    }

    #[test]
    fn no_kernel_of_a_run_is_faster_than_its_ceiling() {
        let measured = |rate: f64| Measured { rate, size: 64 };
        let mut ceiling = Ceiling {
            moved: vec![Moved { bytes: 1 << 27, rate: 1e9 }, Moved { bytes: 1 << 14, rate: 4e9 }],
            products: vec![((DType::F32, Precision::F32), measured(1e9))],
            matmul: Precision::F32,
            raised: vec![],
        };
        assert_eq!(
            [1 << 10, 1 << 14, 1 << 15, 1 << 30].map(|bytes| ceiling.memory(bytes)),
            [4e9, 4e9, 1e9, 1e9]
        );
        let plan = multiplied(DType::F32);
        let times = [1e-3, 1e-5, 1e-7, 1e-9, 0.0];
        let all =
            || times.iter().flat_map(|&seconds| plan.kernels.iter().map(move |kernel| (kernel, seconds)));
        assert!(all().any(|(kernel, seconds)| ceiling.limit(kernel, seconds).0 > 1.5));
        all().for_each(|(kernel, seconds)| ceiling.raise(kernel, seconds));
        assert!(all().all(|(kernel, seconds)| ceiling.limit(kernel, seconds).0 <= 1.0 + 1e-9));
        assert!(
            ceiling.text().contains("\nraised to the rates of kernels of this run: "),
            "{}",
            ceiling.text()
        );
    }

    #[test]
    fn products_are_measured_in_the_types_that_kernels_have() {
        let device: Arc<dyn Device> = Arc::new(CpuDevice::new(Some(1)).unwrap());
        let plans = [DType::F32, DType::BF16, DType::BF16].map(multiplied);
        let ceiling = Ceiling::measure(&device, plans.iter()).unwrap();
        let mut measured: Vec<Factors> = ceiling.products.iter().map(|&(factors, _)| factors).collect();
        measured.sort_by_key(|(dtype, _)| dtype.to_string());
        assert_eq!(measured, [(DType::BF16, Precision::F32), (DType::F32, Precision::F32)]);
    }
}
