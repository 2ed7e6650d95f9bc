//! Kernels as WGSL, by CubeCL.

use super::api::GpuState;
use super::source::{Source, panicked};
use crate::device::DeviceError;
use crate::panics::caught;
use cubecl_core::WgpuCompilationOptions;
use cubecl_core::ir::AddressType;
use cubecl_core::prelude::ExecutionMode;
use cubecl_runtime::compiler::CubeTask;
use cubecl_runtime::kernel::KernelTask;
use cubecl_wgpu::WgslCompiler;
use engine_core::codegen::{CodegenError, KernelSpec, with_declarations_in_order};
use engine_core::device_model::DeviceModel;
use engine_core::fusion::Kernel;
use engine_core::program::matrix_units::Block;
use engine_core::program::{MatmulCall, matrix_units_wgsl};

/// The WGSL of a kernel's launches for a typical desktop GPU. Needs no GPU.
///
/// # Errors
/// If the kernel uses an operation that such a GPU or WGSL lacks.
pub fn texts(kernel: &Kernel) -> Result<Vec<String>, CodegenError> {
    KernelSpec::launches(kernel, DeviceModel::DESKTOP)?.iter().map(text).collect()
}

/// The WGSL of a launch for its target GPU. Needs no GPU.
///
/// # Errors
/// If the kernel uses an operation that the target or WGSL lacks.
pub fn text(fused: &KernelSpec) -> Result<String, CodegenError> {
    let made = caught(|| source(fused)).map_err(CodegenError::Compiler)?;
    made.map(|source| source.text)
}

/// The text of a kernel with its properties.
///
/// # Errors
/// If the target of the kernel lacks an operation.
pub fn source(fused: &KernelSpec) -> Result<Source, CodegenError> {
    // `compile` panics on errors, so they are detected first.
    fused.try_define()?;
    let options = WgpuCompilationOptions { supports_u64: fused.device().has_i64, ..Default::default() };
    let task = KernelTask::<WgslCompiler, _>::new(fused.clone());
    let address = fused.address().unsigned_type();
    let compiled = task.compile(&mut WgslCompiler::default(), &options, ExecutionMode::Unchecked, address);
    let compiled = compiled.map_err(|error| CodegenError::Compiler(error.to_string()))?;
    let text = with_declarations_in_order(&with_halves(&compiled.source));
    Ok(Source {
        shared_bytes: compiled.repr.as_ref().map_or(0, |repr| repr.shared_memory_bytes()),
        text: if fused.address() == AddressType::U64 { with_narrow_numbers(&text) } else { text },
        entry: compiled.entrypoint_name,
        n_buffers: fused.arguments().len(),
        maps: vec![],
        threads: [0; 3],
    })
}

/// As [`source`], checked against the limits of a GPU, which need not be those of the kernel's target. `owner` names the
/// kernel in errors.
///
/// # Errors
/// If the kernel exceeds a limit, or uses an operation that the GPU or the compiler lacks.
pub fn source_within_limits<K>(
    gpu: &GpuState<K>,
    owner: &str,
    fused: &KernelSpec,
) -> Result<Source, DeviceError> {
    let GpuState { name, model, .. } = gpu;
    // CubeCL panics on types that WGSL lacks, which a plugin's function may use.
    let made = caught(|| source(fused)).map_err(|message| panicked(owner, &message, ""))?;
    let source = made.map_err(|error| DeviceError::not_emitted(name, owner, &error))?;
    // The error flag and its counter are buffers beside the tensors.
    let (n_buffers, most_buffers) = (source.n_buffers, model.most_tensors.saturating_add(2));
    if n_buffers > most_buffers {
        let reason = format!(
            "it reads and writes {n_buffers} tensors, and at most {most_buffers} can be bound at once"
        );
        return Err(DeviceError::unsupported(name, owner, reason));
    }
    let (shared, most_shared) = (source.shared_bytes, model.shared_bytes);
    if shared > most_shared {
        let reason = format!("its threads share {shared} bytes, and there are {most_shared} for a block");
        return Err(DeviceError::unsupported(name, owner, reason));
    }
    Ok(source)
}

/// A matmul on matrix units with its grid, if WGSL has one for the call.
pub fn matmul(block: &Block, call: &MatmulCall) -> Option<(Source, [usize; 3])> {
    let (text, shared_bytes) = matrix_units_wgsl::text(block, call)?;
    let entry = matrix_units_wgsl::ENTRY.to_string();
    let source = Source { text, entry, n_buffers: 3, shared_bytes, ..Source::default() };
    Some((source, block.grid([call.batch, call.m, call.n])))
}

/// The text with WGSL's functions for packed halves. Kernel definitions cannot name them, and bitcast a word to two `f32`
/// instead.
fn with_halves(text: &str) -> String {
    let mut text = text.replace("bitcast<vec2<f32>>(", "unpack2x16float(");
    if text.contains(PACKED) {
        text = text.replace(PACKED, "packed_halves(");
        text.push_str(PACKED_HALVES);
    }
    text
}

const PACKED: &str = "bitcast<vec2<u32>>(";
const PACKED_HALVES: &str = "
fn packed_halves(x: vec2<f32>) -> vec2<u32> { return vec2<u32>(pack2x16float(x)); }
";

/// The text with 32-bit indices, for kernels that index by 64 bits. WGSL has no 64-bit indices, and no binding has more
/// elements.
fn with_narrow_numbers(text: &str) -> String {
    let mut narrowed = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, behind)) = rest.split_once('[') {
        let (number, behind) = behind.split_at(closing(behind));
        narrowed.extend([before, "[u32(", &narrow(number), ")"]);
        rest = behind;
    }
    narrowed + rest
}

/// An index, which may contain indices itself. A literal loses its `u64`, since naga converts no such literal.
fn narrow(number: &str) -> String {
    let constant = number.strip_prefix("u64(").and_then(|rest| rest.strip_suffix(')'));
    let constant = constant.filter(|digits| digits.bytes().all(|digit| digit.is_ascii_digit()));
    constant.map_or_else(|| with_narrow_numbers(number), str::to_string)
}

/// The position of the bracket that closes an open one.
fn closing(text: &str) -> usize {
    let mut depth = 0;
    let closes = |sign: char| {
        depth += i32::from(sign == '[') - i32::from(sign == ']');
        depth < 0
    };
    text.find(closes).unwrap_or(text.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nested_indices_become_narrow() {
        let text = "let a = buffer_0[u64(7)] + l[u32(1)];\nb[info.s[2]] = c[d[e]] / info.s[0];";
        let narrowed = with_narrow_numbers(text);
        let expected = "let a = buffer_0[u32(7)] + l[u32(u32(1))];\n\
                        b[u32(info.s[u32(2)])] = c[u32(d[u32(e)])] / info.s[u32(0)];";
        assert_eq!(narrowed, expected);
    }
}
