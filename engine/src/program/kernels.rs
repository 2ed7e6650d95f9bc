//! Steps that launch kernels: guards, checks before writes, and grids.

use super::site::Site;
use super::{Action, KernelStep, Place, Program};
use crate::codegen::{Argument, CodegenError, KernelSpec};
use crate::device_model::DeviceModel;
use std::sync::Arc;

/// The program without a library.
pub fn own_kernels(site: &Site) -> Result<Program, CodegenError> {
    let mut launches = KernelSpec::launches(site.kernel, site.device)?;
    if site.is_in_place {
        launches.remove(0);
    }
    let mut program = Program::default();
    kernels(site, &mut program, launches, None);
    Ok(program)
}

/// Appends launches, which read a matmul's result from `product`. Where the launch is guarded, checks come first and no
/// kernel writes after a failed assertion.
pub fn kernels(site: &Site, program: &mut Program, launches: Vec<KernelSpec>, product: Option<Place>) {
    if !site.is_guarded {
        return launches.into_iter().for_each(|kernel| push(site, program, kernel, product));
    }
    let checks_itself = site.device.kernels.most_rows_checked > 0
        && matches!(&launches[..], [only] if only.checks_before_writing());
    if !checks_itself {
        for checks in launches.iter().filter_map(KernelSpec::checks_only) {
            push(site, program, checks, product);
        }
    }
    launches.into_iter().for_each(|kernel| push(site, program, kernel.guarded(), product));
}

/// Appends a launch, unless it has no blocks.
fn push(site: &Site, program: &mut Program, kernel: KernelSpec, product: Option<Place>) {
    let kernel = kernel.on(site.device);
    let n_points = kernel.n_points();
    let Some(grid) = grid(kernel.blocks_for(n_points), &site.device) else { return };
    let (arguments, scalars) = (arguments(&kernel, product), kernel.schedule.scalars(n_points));
    program.workspace_bytes = program.workspace_bytes.max(kernel.workspace_bytes());
    program.push(Action::Kernel(KernelStep { kernel: Arc::new(kernel), arguments, grid, scalars }));
}

/// The places of a kernel's arguments.
pub fn arguments(kernel: &KernelSpec, product: Option<Place>) -> Vec<Place> {
    let arguments = kernel.arguments().into_iter();
    let places = arguments.map(|argument| match argument {
        Argument::Operand(operand) => Place::operand(operand),
        Argument::Workspace { start, bytes } => Place::Workspace { start, bytes },
        Argument::Product => product.unwrap_or_else(|| crate::bug!("an epilogue without its product")),
        Argument::Flag | Argument::Guard => Place::Assertions,
    });
    places.collect()
}

/// Blocks along each axis, so many or a few more; none if there are none.
pub fn grid(n_blocks: usize, device: &DeviceModel) -> Option<[usize; 3]> {
    if device.has_exact_grid {
        return (n_blocks > 0).then_some([n_blocks, 1, 1]);
    }
    let rows = n_blocks.div_ceil(device.most_blocks);
    let layers = rows.div_ceil(device.most_blocks);
    let rows = rows.div_ceil(layers.max(1));
    let columns = n_blocks.div_ceil((rows * layers).max(1));
    (n_blocks > 0).then_some([columns, rows, layers])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn grids_cover_all_blocks_within_the_limits() {
        let device = DeviceModel { most_blocks: 100, ..DeviceModel::WEBGPU };
        assert_eq!(grid(0, &device), None);
        assert_eq!(grid(7, &device), Some([7, 1, 1]));
        for n_blocks in [100, 101, 9_999, 10_000, 10_001, 999_999] {
            let [columns, rows, layers] = grid(n_blocks, &device).unwrap_or_default();
            assert!([columns, rows, layers].iter().all(|n| (1..=100).contains(n)), "{n_blocks}");
            let n = columns * rows * layers;
            assert!((n_blocks..n_blocks + rows * layers + 100).contains(&n), "{n_blocks}: {n}");
        }
    }
}
