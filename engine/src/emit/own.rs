//! Launches that ops bring along.

use super::code::Code;
use super::repack::Copies;
use super::target::Target;
use super::{Buffers, EmitError, Form, FusedKernel, LARGEST_NARROW, OperandForm, operand_forms};
use crate::fuse::{Domain, Kernel, Tile};
use crate::op::gpu::{GpuArgument, GpuArguments, OwnLaunch, View};
use crate::op::{GpuForm, KernelCall};
use cubecl_core::ir::Variable;

/// The launches that an op brings along.
pub fn own_launches(
    kernel: &Kernel,
    call: &KernelCall,
    target: Target,
) -> Result<Vec<FusedKernel>, EmitError> {
    let name = &call.call.form.name;
    let ready = match &call.form().gpu {
        GpuForm::None { why } => return Err(EmitError::Opaque { op: name.clone(), why }),
        GpuForm::Launches(make_ready) => make_ready(call, &target.limits()),
    };
    let forms = operand_forms(kernel);
    let viewed = |operand: usize, view: View| {
        let as_bits = view == View::Bits;
        let is_wide = as_bits && kernel.operands[operand].ty.bytes() / 4 > LARGEST_NARROW;
        OperandForm { as_bits, is_wide: is_wide || forms[operand].is_wide, ..forms[operand] }
    };
    let counts: Vec<usize> = kernel.operands.iter().map(|operand| operand.ty.numel()).collect();
    let mut copies = Copies::new(&forms, &counts, target, ready.workspace_bytes);
    let mut seen = |operand: usize, view: View| match target.lanes(forms[operand].dtype) {
        1 => viewed(operand, view),
        _ if view == View::Stored => forms[operand],
        _ => copies.of(operand, view),
    };
    let launches = ready.launches.into_iter().filter(|launch| launch.cubes > 0).enumerate();
    let fused = launches.map(|(number, launch)| {
        let operands = launch.arguments.iter().map(|argument| match *argument {
            GpuArgument::Input(input, view) => seen(input, view),
            GpuArgument::Output(output, view) => seen(call.inputs.len() + output, view),
            GpuArgument::Workspace { start, n_words } => OperandForm::words(start, n_words),
        });
        let operands = operands.collect();
        let tile = Tile { domain: Domain { outer: 1, row: 1, inner: 1 }, insts: vec![] };
        let identity = format!("{name} {:?} {:?} {:?} {number}", call.attrs(), call.inputs, call.outputs);
        FusedKernel {
            tile,
            form: Form::Own(OwnLaunch { identity, launch }),
            operands,
            is_guarded: false,
            target,
        }
    });
    let own: Vec<FusedKernel> = fused.collect();
    Ok(copies.before().into_iter().chain(own).chain(copies.after()).collect())
}

/// All threads see the same error flag, so none waits for another that has left.
pub fn own_body(code: &mut Code, own: &OwnLaunch, buffers: &Buffers, scalars: Vec<Variable>) {
    let (index, target) = (code.index, code.target);
    let arguments = GpuArguments { buffers: buffers.operands.clone(), scalars, index, target };
    buffers.unless_raised(code, |code| (own.launch.body)(code.scope, &arguments));
}
