//! From kernels to pipelines: CubeCL's WGSL, compiled by wgpu.

use super::context::Context;
use crate::device::DeviceError;
use crate::gpu::parallel::in_parallel;
use crate::panics::caught;
use cubecl_core::WgpuCompilationOptions;
use cubecl_core::ir::AddressType;
use cubecl_core::prelude::ExecutionMode;
use cubecl_runtime::compiler::CubeTask;
use cubecl_runtime::kernel::KernelTask;
use cubecl_wgpu::WgslCompiler;
use dashmap::DashMap;
use engine_core::codegen::{CodegenError, KernelSpec};
use std::borrow::Cow;
use std::sync::Arc;

/// Pipelines by their texts.
pub type Pipelines = DashMap<String, Arc<Pipeline>>;

/// A kernel as WGSL, with what a launch has to know.
#[derive(Clone)]
pub struct Source {
    /// The module.
    pub text: String,
    /// Name of its function.
    pub entry: String,
    /// Buffers that it binds, the one with its scalars not counted.
    pub n_buffers: usize,
    /// Bytes that the threads of a block share.
    pub shared_bytes: usize,
}

/// A kernel that is ready to be dispatched.
pub struct Pipeline {
    pub pipeline: wgpu::ComputePipeline,
    pub layout: wgpu::BindGroupLayout,
}

/// The text of a kernel.
///
/// # Errors
/// If it computes something that its target cannot.
pub fn text(fused: &KernelSpec) -> Result<Source, CodegenError> {
    // `compile` cannot fail gently, so failures are found before.
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
    })
}

/// The text with WGSL's functions where the definition has what it cannot name: a word that is read as two `f32` is two
/// halves.
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

/// The text with element numbers of 32 bits, where a kernel counts in 64: WGSL indexes by no others, and no buffer that it can
/// bind has more elements.
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

/// What stands between brackets; it may hold brackets itself, and the translator of WGSL converts no number that is written out.
fn narrow(number: &str) -> String {
    let constant = number.strip_prefix("u64(").and_then(|rest| rest.strip_suffix(')'));
    let constant = constant.filter(|digits| digits.bytes().all(|digit| digit.is_ascii_digit()));
    constant.map_or_else(|| with_narrow_numbers(number), str::to_string)
}

/// Where a bracket that is open is closed.
fn closing(text: &str) -> usize {
    let mut depth = 0;
    let closes = |sign: char| {
        depth += i32::from(sign == '[') - i32::from(sign == ']');
        depth < 0
    };
    text.find(closes).unwrap_or(text.len())
}

/// The text of a kernel, which asks for no more than the GPU has.
///
/// # Errors
/// If it does, or computes something that the GPU or the compiler cannot.
pub fn source(context: &Context, owner: &str, fused: &KernelSpec) -> Result<Source, DeviceError> {
    let unsupported = |reason: String| DeviceError::unsupported(&context.name, owner, reason);
    // CubeCL panics on what WGSL lacks, such as types that the function of a plugin asks for.
    let made = caught(|| text(fused)).map_err(|said| panicked(owner, &said, ""))?;
    let source = made.map_err(|error| DeviceError::not_emitted(&context.name, owner, &error))?;
    let limits = &context.limits;
    // One is for the scalars.
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

/// The pipelines of these texts, in their order; what is missing is compiled in parallel.
pub fn load(context: &Context, sources: &[(&str, &Source)]) -> Result<Vec<Arc<Pipeline>>, DeviceError> {
    load_by(pipeline, context, sources)
}

/// What compiles a text, for the owner of its kernel.
type Compile = fn(&Context, &str, &Source) -> Result<Pipeline, DeviceError>;

/// The same by another compiler. That it panics is a fault of the kernel that it was given, and told as one.
pub(super) fn load_by(
    compile: Compile,
    context: &Context,
    sources: &[(&str, &Source)],
) -> Result<Vec<Arc<Pipeline>>, DeviceError> {
    let mut missing: Vec<(&str, &Source)> = vec![];
    for &(owner, source) in sources {
        let is_known = context.pipelines.contains_key(&source.text)
            || missing.iter().any(|(_, known)| known.text == source.text);
        if !is_known {
            missing.push((owner, source));
        }
    }
    let compiled = in_parallel(&missing, |&(owner, source)| {
        let compiled = caught(|| compile(context, owner, source));
        let pipeline = compiled.unwrap_or_else(|message| Err(panicked(owner, &message, &source.text)))?;
        context.pipelines.insert(source.text.clone(), Arc::new(pipeline));
        Ok(())
    });
    compiled.into_iter().collect::<Result<(), DeviceError>>()?;
    let found = |text: &str| context.pipelines.get(text).map(|entry| Arc::clone(entry.value()));
    let all = sources.iter().map(|(_, source)| {
        found(&source.text).unwrap_or_else(|| engine_core::bug!("a kernel was not compiled"))
    });
    Ok(all.collect())
}

fn panicked(owner: &str, said: &str, text: &str) -> DeviceError {
    DeviceError::not_compiled(owner, &format!("the compiler panicked: {said}"), text)
}

fn pipeline(context: &Context, owner: &str, source: &Source) -> Result<Pipeline, DeviceError> {
    let known = context.kept.as_ref().map(|kept| kept.open(context, &source.text));
    let failed = |said: String| DeviceError::not_compiled(owner, &said, &source.text);
    let made = context.make(0, failed, || {
        let descriptor = wgpu::ShaderModuleDescriptor {
            label: Some(owner),
            source: wgpu::ShaderSource::Wgsl(Cow::Borrowed(&source.text)),
        };
        // SAFETY: kernels reach only elements of their operands, as on devices that never check, and their loops end.
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
            cache: known.as_ref().map(|known| &known.cache),
        });
        Pipeline { pipeline, layout }
    })?;
    if let (Some(kept), Some(known)) = (&context.kept, known) {
        kept.keep(&source.text, &known);
    }
    Ok(made)
}

/// Buffers that are read and written, then the scalars.
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
    fn element_numbers_become_narrow_wherever_they_stand() {
        let text = "let a = buffer_0[u64(7)] + l[u32(1)];\nb[info.s[2]] = c[d[e]] / info.s[0];";
        let narrowed = with_narrow_numbers(text);
        let expected = "let a = buffer_0[u32(7)] + l[u32(u32(1))];\n\
                        b[u32(info.s[u32(2)])] = c[u32(d[u32(e)])] / info.s[u32(0)];";
        assert_eq!(narrowed, expected);
    }
}
