//! Kernels in the languages of Metal and DX12, by the translator of wgpu. Invalid WGSL would otherwise fail only on
//! those systems, where no test runs.

use super::*;
use engine::runtime::gpu::wgpu::text;
use naga::back::{hlsl, msl};
use naga::proc::{BoundsCheckPolicies, BoundsCheckPolicy};
use naga::valid::{Capabilities, ModuleInfo, ShaderStages, SubgroupOperationSet, ValidationFlags, Validator};
use std::collections::HashSet;

/// A Mac: it has atomic addition of `f32` and no doubles, and wgpu does not report the subgroup size.
const METAL: DeviceModel = DeviceModel { has_i64: true, adds_f32: true, ..HALVES };
/// DX12 with Microsoft's new compiler, on a GPU with subgroups of 32.
const DX12: DeviceModel = DeviceModel { has_i64: true, plane: 32, ..HALVES };
/// Halves in words are read and written at once, as probes find on most GPUs.
const HALVES: DeviceModel = DeviceModel { reads_halves: true, writes_halves: true, ..DeviceModel::WEBGPU };

/// The capabilities that wgpu reports for every GPU through Metal and DX12: halves in words.
const ALWAYS: Capabilities = Capabilities::SHADER_FLOAT16_IN_FLOAT32;

/// Translates a module, or fails.
type Translate = fn(&naga::Module, &ModuleInfo) -> Result<String, String>;

#[test]
fn kernels_translate_for_metal() {
    check(METAL, Capabilities::SHADER_INT64 | Capabilities::SHADER_FLOAT32_ATOMIC, metal);
}

#[test]
fn kernels_translate_for_dx12() {
    check(DX12, Capabilities::SHADER_INT64 | Capabilities::SUBGROUP, |module, info| {
        direct(module, info, hlsl::ShaderModel::V6_0)
    });
}

/// Older Macs have no 64-bit integers, and add atomically in a loop. So do GPUs through DX12's old compiler.
#[test]
fn kernels_without_features_translate_for_both() {
    check(DeviceModel::WEBGPU, Capabilities::empty(), |module, info| {
        direct(module, info, hlsl::ShaderModel::V5_1)?;
        metal(module, info)
    });
}

/// Kernels of more than 2³² points on tensors that any GPU can hold. Points are counted in 64 bits, and addresses have
/// 32.
const WIDE: &str = r#"(
    name: "wide",
    dims: {"N": 70000},
    params: {"x": (type: "f32[N, 4]", state: true)},
    nodes: {
        "first": "slice(x, axis=1, start=0, stop=1)",
        "pairs": "sum(abs(first - reshape(first, shape=[1, N])), axis=1)",
        "drawn": "max(uniform(shape=[N, N]) * first, axis=1)",
        "best": "topk(x @ transpose(x) + uniform(shape=[N, N]), k=3)",
    },
    stages: {"all": Run(outputs: ["pairs", "drawn", "best"])},
)"#;

#[test]
fn wide_kernels_translate_where_there_are_64_bits_and_are_refused_elsewhere() {
    let mut n_wide = 0;
    let capabilities =
        Capabilities::SHADER_INT64 | Capabilities::SHADER_FLOAT32_ATOMIC | Capabilities::SUBGROUP;
    for target in [METAL, DX12] {
        // The texts must not contain functions that DX12 lacks.
        let translate: Translate = match target.adds_f32 {
            true => metal,
            false => |module, info| direct(module, info, hlsl::ShaderModel::V6_0),
        };
        each_form_of("wide.ron", WIDE, target, |name, fused| {
            let text = text(fused).unwrap_or_else(|error| panic!("{name}: {error}"));
            n_wide += usize::from(text.contains("u64"));
            translated(&text, capabilities, translate)
                .unwrap_or_else(|fault| panic!("{name}: {fault}\n{text}"));
        });
    }
    assert!(n_wide >= 6, "{n_wide} kernels count in 64 bits");
    let mut n_refused = 0;
    each_form_of("wide.ron", WIDE, DeviceModel::WEBGPU, |_, fused| {
        n_refused += usize::from(text(fused) == Err(CodegenError::Wide));
    });
    assert!(2 * n_refused >= n_wide, "{n_refused} kernels are refused");
}

/// Checks that every kernel is valid with these abilities, and translates.
fn check(target: DeviceModel, capabilities: Capabilities, translate: Translate) {
    let mut known = HashSet::new();
    let mut faults = vec![];
    each_form(target, |name, fused| {
        let text = text(fused).unwrap_or_else(|error| panic!("{name}: {error}"));
        if !known.insert(text.clone()) {
            return;
        }
        if let Err(fault) = translated(&text, capabilities, translate) {
            faults.push(format!("{name}: {fault}"));
        }
    });
    assert!(known.len() > 400, "{} texts", known.len());
    assert!(faults.is_empty(), "{} of {}: {faults:#?}", faults.len(), known.len());
}

fn translated(text: &str, capabilities: Capabilities, translate: Translate) -> Result<String, String> {
    let capabilities = capabilities | ALWAYS;
    let options = naga::front::wgsl::Options { parse_doc_comments: false, capabilities };
    let module = naga::front::wgsl::Frontend::new_with_options(options).parse(text);
    let module = module.map_err(|error| error.emit_to_string(text))?;
    let mut validator = Validator::new(ValidationFlags::all(), capabilities);
    validator.subgroup_stages(ShaderStages::COMPUTE).subgroup_operations(SubgroupOperationSet::all());
    let info = validator.validate(&module).map_err(|error| error.emit_to_string(text))?;
    translate(&module, &info)
}

/// Translates to Metal like wgpu does for trusted kernels.
fn metal(module: &naga::Module, info: &ModuleInfo) -> Result<String, String> {
    let unchecked = BoundsCheckPolicy::Unchecked;
    let options = msl::Options {
        lang_version: (3, 0),
        bounds_check_policies: BoundsCheckPolicies {
            index: unchecked,
            buffer: unchecked,
            image_load: unchecked,
            binding_array: unchecked,
        },
        zero_initialize_workgroup_memory: false,
        force_loop_bounding: false,
        ..msl::Options::default()
    };
    let written = msl::write_string(module, info, &options, &msl::PipelineOptions::default());
    let (text, translation) = written.map_err(|error| error.to_string())?;
    translation
        .entry_point_names
        .into_iter()
        .collect::<Result<Vec<_>, _>>()
        .map_err(|error| error.to_string())?;
    Ok(text)
}

/// Translates to HLSL like wgpu does for trusted kernels.
fn direct(
    module: &naga::Module,
    info: &ModuleInfo,
    shader_model: hlsl::ShaderModel,
) -> Result<String, String> {
    let options = hlsl::Options {
        shader_model,
        zero_initialize_workgroup_memory: false,
        restrict_indexing: false,
        force_loop_bounding: false,
        ..hlsl::Options::default()
    };
    let (mut text, of_pipeline) = (String::new(), hlsl::PipelineOptions::default());
    let mut writer = hlsl::Writer::new(&mut text, &options, &of_pipeline);
    let written = writer.write(module, info, None).map_err(|error| error.to_string())?;
    written
        .entry_point_names
        .into_iter()
        .collect::<Result<Vec<_>, _>>()
        .map_err(|error| error.to_string())?;
    Ok(text)
}
