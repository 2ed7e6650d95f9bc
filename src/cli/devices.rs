//! `engine devices`.

use std::sync::Arc;

use engine_core::device_model::DeviceModel;
use engine_core::ir::DType;
use engine_core::numerics::Precision;
use engine_runtime::device::{Device, DeviceKind};
use indexmap::IndexMap;
use ron::ser::{PrettyConfig, to_string_pretty};

use super::args::DevicesArgs;
use super::ceiling::{self, Measured};
use super::output::{Failure, print};
use crate::devices::{OpenError, all};

pub(super) fn devices(args: &DevicesArgs) -> Result<(), Failure> {
    if args.models {
        let usable = all().into_iter().filter_map(|(choice, device)| Some((choice, device.ok()?)));
        let models: IndexMap<String, DeviceModel> =
            usable.map(|(choice, device)| (choice.to_string(), device.model())).collect();
        print(to_string_pretty(&models, PrettyConfig::default()).map_err(Failure::machine)?);
        return Ok(());
    }
    for (choice, device) in all() {
        let device = match device {
            Ok(device) => device,
            Err(OpenError::NoDriver(_)) => {
                print(format!("{choice}: not usable: this build has no driver for it"));
                continue;
            }
            Err(OpenError::Failed { source, .. }) => {
                print(format!("{choice}: not usable: {source}"));
                continue;
            }
        };
        let info = device.info();
        print(format!("{choice}: {}, {}", info.name, memory_text(info.memory_bytes)));
        for (name, value) in &info.details {
            print(format!("  {name}: {value}"));
        }
        if args.measure {
            measure(&device);
        }
    }
    Ok(())
}

/// Prints a line for each figure, or the reason why it cannot be measured.
fn measure(device: &Arc<dyn Device>) {
    let line = |name: &str, text: Result<String, _>| match text {
        Ok(text) => print(format!("  {name}: {text}")),
        Err::<_, engine_runtime::device::RunError>(error) => {
            print(format!("  {name}: not measured: {error}"));
        }
    };
    line("copy", ceiling::copy(device).map(|measured| copy_text(&measured)));
    let products: &[(&str, DType, Precision)] = match device.info().kind {
        DeviceKind::Cuda => &[
            ("product in f32", DType::F32, Precision::F32),
            ("product in tf32", DType::F32, Precision::Tf32),
            ("product in bf16", DType::BF16, Precision::F32),
        ],
        DeviceKind::Wgpu => {
            &[("product in f32", DType::F32, Precision::F32), ("product in f16", DType::F16, Precision::F32)]
        }
        DeviceKind::Cpu => &[("product in f32", DType::F32, Precision::F32)],
    };
    for &(name, dtype, precision) in products {
        line(name, ceiling::product(device, dtype, precision).map(|measured| product_text(&measured)));
    }
}

fn copy_text(&Measured { rate, size }: &Measured) -> String {
    format!("{:.1} GB/s, read and written, of {} MiB", rate * 1e-9, (4 * size) >> 20)
}

fn product_text(&Measured { rate, size }: &Measured) -> String {
    let rate = match rate {
        1e12.. => format!("{:.2} TFLOP/s", rate * 1e-12),
        1e10.. => format!("{:.1} GFLOP/s", rate * 1e-9),
        _ => format!("{:.3} GFLOP/s", rate * 1e-9),
    };
    format!("{rate}, {size} x {size} x {size}")
}

fn memory_text(bytes: u64) -> String {
    match bytes {
        0 => "memory not known".to_string(),
        bytes => format!("{:.1} GiB of memory", bytes as f64 / f64::from(1 << 30)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slow_products_have_digits_too() {
        let text = |rate| product_text(&Measured { rate, size: 8 });
        assert_eq!(text(51.234e12), "51.23 TFLOP/s, 8 x 8 x 8");
        assert_eq!(text(123.45e9), "123.5 GFLOP/s, 8 x 8 x 8");
        assert_eq!(text(0.0612e9), "0.061 GFLOP/s, 8 x 8 x 8");
    }
}
