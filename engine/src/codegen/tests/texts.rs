//! Texts of maps and rows.

use super::*;
use crate::ir::Scalar;
use cubecl_core as cubecl;
use cubecl_core::prelude::*;
use expect_test::expect;

/// The text of a kernel's only launch. Equal kernels have equal texts.
fn text_of(kernel: &Kernel) -> String {
    let source = only_source(kernel);
    assert_eq!(source.text.matches('{').count(), source.text.matches('}').count());
    assert_eq!(source.text, only_source(&kernel.clone()).text, "equal kernels have equal texts");
    let at = source.text.find("extern \"C\"").unwrap();
    format!("{}\n", &source.text[at..])
}

#[test]
fn a_map_is_one_guarded_straight_line() {
    expect![[r#"
        extern "C" __global__ void __launch_bounds__(256)map (
            float* buffer_0, const float* __restrict__ buffer_1, const float* __restrict__ buffer_2, float* buffer_3, const __grid_constant__ info_st info
        ) {
        await_kernel_before();
        uint3 absoluteIdx = make_uint3(
            blockIdx.x * blockDim.x + threadIdx.x,
            blockIdx.y * blockDim.y + threadIdx.y,
            blockIdx.z * blockDim.z + threadIdx.z
        );
        uint32 idxGlobal = (
                        absoluteIdx.z * gridDim.x * blockDim.x * gridDim.y * blockDim.y)
                        + (absoluteIdx.y * gridDim.x * blockDim.x)
                        + absoluteIdx.x;
        const bool l_0 = idxGlobal < info.scalars_uint32[0];
        if (l_0) {
        const float l_1 = buffer_0[idxGlobal];
        const float l_2 = buffer_1[uint32(0)];
        const uint32 l_3 = idxGlobal % uint32(10);
        const float l_4 = buffer_2[l_3];
        const float l_5 = fma(l_1, l_2, l_4);
        const float l_6 = float(0.0);
        const float l_7 = largest(l_5, l_6);
        buffer_3[idxGlobal] = l_7;
        }

        }
    "#]].assert_eq(&text_of(&scale_shift_relu(128, 10)));
}

/// NVRTC 13.0 reads elsewhere if a factor of an index is a negative number modulo 2^32, and several loads share its terms.
#[test]
fn reversed_axes_have_no_negative_factors() {
    let registry = crate::op::Registry::new();
    let mut b = Builder::new(Graph::new("reversed"), &registry);
    let x = b.input("x", InputKind::Data, TensorType::new(DType::F32, &[6, 5]));
    let reversed = b.slice(x, &[5, 4], &[6, 5], &[-1, -1]);
    let y = b.scale(reversed, 2.0);
    b.graph.outputs = vec![("y".into(), y)];
    let kernel = &fuse_with(&b.graph, &Settings::default()).kernels[0];
    let text = text_of(kernel);
    assert!(!text.contains("uint32(42949"), "{text}");
    let numbers: Vec<f32> = (0..30).map(|i| i as f32).collect();
    let Some(buffers) = on_host::run(kernel, &[bytes(&numbers)], 0) else { return };
    assert_close(&f32s(&buffers[1]), (0..30).rev().map(|i| 2.0 * f64::from(i)));
}

#[test]
fn the_batch_size_is_not_part_of_the_text() {
    let text = |kernel: &Kernel| only_source(kernel).text;
    assert_eq!(text(&scale_shift_relu(128, 10)), text(&scale_shift_relu(77, 10)));
    assert_eq!(text(&cross_entropy(128, 10)), text(&cross_entropy(77, 10)));
    assert_ne!(text(&cross_entropy(128, 10)), text(&cross_entropy(128, 11)));
}

#[test]
fn a_short_row_is_shared_by_part_of_a_warp() {
    expect_file!["../../../../tests/golden/row_short.cu"].assert_eq(&text_of(&softmax(DType::F32, 128, 4)));
}

#[test]
fn a_long_row_is_read_again_in_each_pass() {
    expect_file!["../../../../tests/golden/row_long.cu"].assert_eq(&text_of(&softmax(
        DType::BF16,
        2,
        40_001,
    )));
}

#[test]
fn a_cross_entropy_row_checks_its_labels() {
    expect_file!["../../../../tests/golden/row_checked.cu"].assert_eq(&text_of(&cross_entropy(128, 2)));
}

#[test]
fn a_primitive_without_gpu_code_is_an_error() {
    let mut s = Sketch::new(1, 2, 1);
    let x = s.input(DType::I32, Class::Element);
    let y = s.unary(Unary::Exp, x);
    s.store(y);
    assert_eq!(cuda_sources(&s.map()).unwrap_err().to_string(), "`exp` of i32 has no cube form");
}

#[cube]
fn double_then_halve_twice(x: f32) -> f32 {
    x * 2.0f32 / 4.0f32
}

#[test]
fn a_plugins_function_is_part_of_the_text() {
    let foreign = Foreign {
        key: "test.halve@1".into(),
        arity: 1,
        f64: |x| x[0] / 2.0,
        f32_slice: |x, out| out.iter_mut().zip(x[0]).for_each(|(out, x)| *out = x / 2.0),
        partials: |x| vec![x[0] * 0.0 + 0.5],
        cube: |scope, args| double_then_halve_twice::expand(scope, args[0].clone()),
    };
    check_scalars(&[(Scalar::Foreign(foreign.into()), &|x| x[0] / 2.0)], &[&SPECIAL]);
}

#[test]
fn vector_types_are_printed_in_one_order() {
    let vector = |bytes, name: &str| format!("\nstruct __align__({bytes}) {name} {{\n    {name} i_0;\n}};");
    let text =
        |vectors: [String; 3]| format!("typedef int int32;\n{}\nstruct info_st {{\n}};\n", vectors.concat());
    let [bytes, floats, words] = [vector(4, "uint8_4"), vector(16, "float_4"), vector(16, "uint32_4")];
    let sorted = text([floats.clone(), words.clone(), bytes.clone()]);
    assert_eq!(with_vectors_in_order(&text([bytes.clone(), floats.clone(), words.clone()])), sorted);
    assert_eq!(with_vectors_in_order(&text([words, floats, bytes])), sorted);
    assert_eq!(with_vectors_in_order("no vectors"), "no vectors");
}
