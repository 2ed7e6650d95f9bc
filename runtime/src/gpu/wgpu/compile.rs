//! From kernels to pipelines: WGSL by CubeCL, compiled by wgpu.

use super::context::Context;
use super::pipeline::Pipeline;
use crate::device::DeviceError;
use crate::gpu::source::{Source, panicked};
use crate::panics::caught;
use cubecl_core::WgpuCompilationOptions;
use cubecl_core::ir::AddressType;
use cubecl_core::prelude::ExecutionMode;
use cubecl_runtime::compiler::CubeTask;
use cubecl_runtime::kernel::KernelTask;
use cubecl_wgpu::WgslCompiler;
use engine_core::codegen::{CodegenError, KernelSpec};
use std::borrow::Cow;

/// The text of a kernel.
///
/// # Errors
/// If the target of the kernel lacks an operation.
pub fn text(fused: &KernelSpec) -> Result<Source, CodegenError> {
    // `compile` panics on errors, so they are detected first.
    fused.try_define()?;
    let options = WgpuCompilationOptions { supports_u64: fused.device().has_i64, ..Default::default() };
    let task = KernelTask::<WgslCompiler, _>::new(fused.clone());
    let address = fused.address().unsigned_type();
    let compiled = task.compile(&mut WgslCompiler::default(), &options, ExecutionMode::Unchecked, address);
    let compiled = compiled.map_err(|error| CodegenError::Compiler(error.to_string()))?;
    let text = with_halves(&compiled.source);
    Ok(Source {
        shared_bytes: compiled.repr.as_ref().map_or(0, |repr| repr.shared_memory_bytes()),
        text: if fused.address() == AddressType::U64 { with_narrow_numbers(&text) } else { text },
        entry: compiled.entrypoint_name,
        n_buffers: fused.arguments().len(),
        maps: vec![],
        threads: [0; 3],
    })
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

/// The text of a kernel, checked against the limits of the GPU.
///
/// # Errors
/// If the kernel exceeds a limit, or uses an operation that the GPU or the compiler lacks.
pub fn source(context: &Context, owner: &str, fused: &KernelSpec) -> Result<Source, DeviceError> {
    let unsupported = |reason: String| DeviceError::unsupported(&context.state.name, owner, reason);
    // CubeCL panics on types that WGSL lacks, which a plugin's function may use.
    let made = caught(|| text(fused)).map_err(|message| panicked(owner, &message, ""))?;
    let source = made.map_err(|error| DeviceError::not_emitted(&context.state.name, owner, &error))?;
    let limits = &context.limits;
    // One binding is for the scalars.
    let most_buffers = limits.max_storage_buffers_per_shader_stage as usize - 1;
    if source.n_buffers > most_buffers {
        let n_buffers = source.n_buffers;
        return Err(unsupported(format!(
            "it reads and writes {n_buffers} tensors, and at most {most_buffers} can be bound at once"
        )));
    }
    let most_shared = limits.max_compute_workgroup_storage_size as usize;
    if source.shared_bytes > most_shared {
        let shared = source.shared_bytes;
        return Err(unsupported(format!(
            "its threads share {shared} bytes, and there are {most_shared} for a block"
        )));
    }
    Ok(source)
}

/// Compiles a kernel; `owner` names it in errors.
pub fn pipeline(context: &Context, owner: &str, source: &Source) -> Result<Pipeline, DeviceError> {
    let files = context.pipeline_files.as_ref();
    let cached = files.map(|files| files.open(&context.device, &source.text));
    let failed = |log: String| DeviceError::not_compiled(owner, &log, &source.text);
    let made = context.make(0, failed, || {
        let descriptor = wgpu::ShaderModuleDescriptor {
            label: Some(owner),
            source: wgpu::ShaderSource::Wgsl(Cow::Borrowed(&source.text)),
        };
        // SAFETY: kernels access only elements of their operands, and their loops terminate.
        let module = unsafe {
            context.device.create_shader_module_trusted(descriptor, wgpu::ShaderRuntimeChecks::unchecked())
        };
        let layout = layout(&context.device, source.n_buffers);
        let pipeline_layout = context.device.create_pipeline_layout(&wgpu::PipelineLayoutDescriptor {
            label: None,
            bind_group_layouts: &[Some(&layout)],
            immediate_size: 0,
        });
        let pipeline = context.device.create_compute_pipeline(&wgpu::ComputePipelineDescriptor {
            label: Some(owner),
            layout: Some(&pipeline_layout),
            module: &module,
            entry_point: Some(&source.entry),
            compilation_options: wgpu::PipelineCompilationOptions {
                zero_initialize_workgroup_memory: false,
                ..Default::default()
            },
            cache: cached.as_ref().map(|cached| &cached.cache),
        });
        Pipeline { pipeline, layout }
    })?;
    if let (Some(files), Some(cached)) = (files, cached) {
        files.store(&source.text, &cached);
    }
    Ok(made)
}

/// The layout of read-write buffers, followed by the scalars.
fn layout(device: &wgpu::Device, n_buffers: usize) -> wgpu::BindGroupLayout {
    let entry = |binding: usize, read_only: bool| wgpu::BindGroupLayoutEntry {
        binding: binding as u32,
        visibility: wgpu::ShaderStages::COMPUTE,
        ty: wgpu::BindingType::Buffer {
            ty: wgpu::BufferBindingType::Storage { read_only },
            has_dynamic_offset: false,
            min_binding_size: None,
        },
        count: None,
    };
    let buffers = (0..n_buffers).map(|binding| entry(binding, false));
    let entries: Vec<_> = buffers.chain([entry(n_buffers, true)]).collect();
    device.create_bind_group_layout(&wgpu::BindGroupLayoutDescriptor { label: None, entries: &entries })
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
