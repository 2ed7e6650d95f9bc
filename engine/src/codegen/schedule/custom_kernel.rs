//! Launches that ops bring along.

use crate::codegen::ir::builder::Code;
use crate::codegen::schedule::unpack::Copies;
use crate::codegen::target::Target;
use crate::codegen::{Buffers, CodegenError, Form, KernelSpec, LARGEST_NARROW, OperandForm, operand_forms};
use crate::fusion::{Domain, FusedBody, Kernel};
use crate::op::gpu::{CustomLaunch, GpuArgument, GpuArguments, View};
use crate::op::{GpuForm, KernelCall};
use cubecl_core::ir::Variable;

/// The launches that an op brings along.
pub fn custom_launches(
    kernel: &Kernel,
    call: &KernelCall,
    target: Target,
) -> Result<Vec<KernelSpec>, CodegenError> {
    let name = &call.call.form.name;
    let ready = match &call.form().gpu {
        GpuForm::None { why } => return Err(CodegenError::Opaque { op: name.clone(), why }),
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
        let tile = FusedBody { domain: Domain { outer: 1, row: 1, inner: 1 }, insts: vec![] };
        let identity = format!("{name} {:?} {:?} {:?} {number}", call.attrs(), call.inputs, call.outputs);
        KernelSpec {
            tile,
            form: Form::Custom(CustomLaunch { identity, launch }),
            operands,
            is_guarded: false,
            target,
        }
    });
    let own: Vec<KernelSpec> = fused.collect();
    Ok(copies.before().into_iter().chain(own).chain(copies.after()).collect())
}

/// All threads see the same error flag, so none waits for another that has left.
pub fn custom_body(code: &mut Code, own: &CustomLaunch, buffers: &Buffers, scalars: Vec<Variable>) {
    let (index, target) = (code.index, code.target);
    let arguments = GpuArguments { buffers: buffers.operands.clone(), scalars, index, target };
    buffers.unless_raised(code, |code| (own.launch.body)(code.scope, &arguments));
}
