//! Custom kernels: the launches that an op brings along.

use crate::codegen::error::CodegenError;
use crate::codegen::ir::builder::Code;
use crate::codegen::kernel::{KernelCode, KernelSpec, Schedule};
use crate::codegen::operand::OperandForm;
use crate::codegen::schedule::row_fold::fold_rows;
use crate::codegen::schedule::unpack::Copies;
use crate::codegen::types::LARGEST_NARROW;
use crate::device_model::DeviceModel;
use crate::fusion::Kernel;
use crate::op::gpu::{CustomLaunch, GpuArgument, GpuArguments, View};
use crate::op::{GpuForm, KernelCall};

/// The launches of a custom kernel, with copies of its packed operands.
pub fn launches(
    kernel: &Kernel,
    call: &KernelCall,
    device: DeviceModel,
) -> Result<Vec<KernelSpec>, CodegenError> {
    let name = &call.call.form().name;
    let custom = match &call.form().gpu {
        GpuForm::None { why } => return Err(CodegenError::Opaque { op: name.clone(), why }),
        GpuForm::Launches(make_launches) => make_launches(call, &device),
        GpuForm::Rows(block_fold) => {
            let fold = block_fold(call, &device);
            let fold = fold.map_err(|why| CodegenError::Opaque { op: name.clone(), why })?;
            fold_rows(fold, call, &device)
        }
    };
    let forms = OperandForm::of(kernel);
    let viewed = |operand: usize, view: View| {
        let as_bits = view == View::Bits;
        let is_wide = as_bits && kernel.operands[operand].ty.bytes() / 4 > LARGEST_NARROW;
        OperandForm { as_bits, is_wide: is_wide || forms[operand].is_wide, ..forms[operand] }
    };
    let counts: Vec<usize> = kernel.operands.iter().map(|operand| operand.ty.numel()).collect();
    let mut copies = Copies::new(&forms, &counts, device, custom.workspace_bytes);
    let mut operand_in_view = |operand: usize, view: View| match device.lanes(forms[operand].dtype) {
        1 => viewed(operand, view),
        _ if view == View::Stored => forms[operand],
        _ => copies.of(operand, view),
    };
    let launches = custom.launches.into_iter().filter(|launch| launch.cubes > 0).enumerate();
    let fused = launches.map(|(number, launch)| {
        let operands = launch.arguments.iter().map(|argument| match *argument {
            GpuArgument::Input(input, view) => operand_in_view(input, view),
            GpuArgument::Output(output, view) => operand_in_view(call.inputs.len() + output, view),
            GpuArgument::Workspace { start, n_elements, dtype } => {
                OperandForm::workspace(start, n_elements, dtype)
            }
        });
        let identity = format!("{name} {:?} {:?} {:?} {number}", call.attrs(), call.inputs, call.outputs);
        let schedule = Custom(CustomLaunch { identity, launch: launch.clone() });
        KernelSpec::without_body(schedule, operands.collect(), device)
    });
    let own: Vec<KernelSpec> = fused.collect();
    Ok(copies.before().into_iter().chain(own).chain(copies.after()).collect())
}

/// A launch of a custom kernel.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Custom(CustomLaunch);

impl Schedule for Custom {
    fn entry(&self) -> &'static str {
        self.0.launch.name
    }

    fn threads(&self, _: &KernelSpec) -> usize {
        self.0.launch.threads
    }

    fn blocks(&self, _: &KernelSpec, n_blocks: usize) -> usize {
        n_blocks
    }

    fn n_points(&self, _: &KernelSpec) -> usize {
        self.0.launch.cubes
    }

    fn n_scalars(&self) -> usize {
        self.0.launch.scalars.len()
    }

    fn scalars(&self, _: usize) -> Vec<usize> {
        self.0.launch.scalars.clone()
    }

    /// All threads read the same error flag, so they skip the body together and no barrier waits for a missing
    /// thread.
    fn emit(&self, code: &mut Code, kernel: &KernelCode) -> Result<(), CodegenError> {
        kernel.in_grid(code, |code| {
            let (index, device) = (code.index, code.device);
            let (buffers, scalars) = (kernel.buffers.operands.clone(), kernel.scalars.to_vec());
            let arguments = GpuArguments { buffers, scalars, index, device };
            kernel.buffers.unless_failed(code, |code| (self.0.launch.body)(code.scope, &arguments));
            Ok(())
        })
    }
}
