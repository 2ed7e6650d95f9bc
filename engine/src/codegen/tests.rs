#![allow(clippy::unwrap_used)]
//! Texts of hand-built kernels, and their results when a C++ compiler stands in for the GPU.

use super::*;
use crate::codegen::render::ordered::with_vectors_in_order;
use crate::codegen::schedule::{row_plan, scatter, scatter_sorted};
use crate::device_model::DeviceModel;
use crate::fusion::{
    Access, Class, Domain, FusedBody, FusedInst, FusedOp, Kernel, KernelBody, Operand, Segment, Settings,
    Use, fuse_with,
};
use crate::ir::{
    Binary, Builder, Combine, DType, Foreign, Graph, InputKind, Literal, Monoid, Requirement, Scalar,
    Type as TensorType, Unary, Value, View,
};
use crate::op::Registry;
use assertion::reported;
use cubecl_core as cubecl;
use cubecl_core::prelude::*;
use expect_test::{Expect, expect, expect_file};

mod assertion;
mod attention;
mod nan;
mod on_host;
mod products;
mod rows;
mod scatters;
mod targets;
mod vector_groups;

/// A body under construction, with its operands.
struct Sketch {
    body: FusedBody,
    operands: Vec<Operand>,
}

impl Sketch {
    fn new(outer: usize, row: usize, inner: usize) -> Sketch {
        Sketch { body: FusedBody { domain: Domain { outer, row, inner }, insts: vec![] }, operands: vec![] }
    }

    fn push(&mut self, op: FusedOp, dtype: DType, class: Class) -> usize {
        self.body.insts.push(FusedInst { op, dtype, class });
        self.body.insts.len() - 1
    }

    fn operand(&mut self, dtype: DType, n: usize, usage: Use) -> usize {
        let value = Value { node: self.operands.len(), port: 0 };
        self.operands.push(Operand { value, ty: TensorType::new(dtype, &[n]), usage });
        self.operands.len() - 1
    }

    fn load(&mut self, dtype: DType, n: usize, access: Access, class: Class) -> usize {
        let operand = self.operand(dtype, n, Use::Read);
        self.push(FusedOp::Load { operand, access, index: None }, dtype, class)
    }

    /// A dense operand of one element per point of the class.
    fn input(&mut self, dtype: DType, class: Class) -> usize {
        let n = self.body.domain.points(class);
        self.load(dtype, n, Access::dense(&[n]), class)
    }

    fn constant(&mut self, dtype: DType, value: f64) -> usize {
        self.push(FusedOp::Const(Literal::Float(value).cast(dtype)), dtype, Class::Uniform)
    }

    fn scalar(&mut self, op: Scalar, args: &[usize]) -> usize {
        let dtypes: Vec<DType> = args.iter().map(|&arg| self.body.insts[arg].dtype).collect();
        let class = args.iter().map(|&arg| self.body.insts[arg].class).max().unwrap();
        let dtype = op.result(&dtypes);
        self.push(FusedOp::Scalar(op, args.to_vec()), dtype, class)
    }

    fn unary(&mut self, op: Unary, x: usize) -> usize {
        self.scalar(Scalar::Unary(op), &[x])
    }

    fn binary(&mut self, op: Binary, a: usize, b: usize) -> usize {
        self.scalar(Scalar::Binary(op), &[a, b])
    }

    fn reduce(&mut self, monoid: Monoid, value: usize) -> usize {
        let dtype = if monoid.is_index() { DType::I32 } else { self.body.insts[value].dtype };
        self.push(FusedOp::Reduce { monoid, value }, dtype, Class::Row)
    }

    fn store(&mut self, value: usize) {
        let FusedInst { dtype, class, .. } = self.body.insts[value];
        let n = self.body.domain.points(class);
        let operand = self.operand(dtype, n, Use::Write);
        self.push(FusedOp::Store { operand, access: Access::dense(&[n]), value }, dtype, class);
    }

    fn map(self) -> Kernel {
        kernel(KernelBody::Map(self.body), self.operands)
    }

    fn row(self) -> Kernel {
        kernel(KernelBody::Row(self.body), self.operands)
    }
}

fn kernel(body: KernelBody, operands: Vec<Operand>) -> Kernel {
    let (nodes, ops) = Default::default();
    Kernel { name: "y".into(), body, operands, nodes, ops, bytes_read: 0, bytes_written: 0, flops: 0 }
}

/// `relu(x·a + b)` with one a for all and a b per column.
fn scale_shift_relu(rows: usize, columns: usize) -> Kernel {
    let mut s = Sketch::new(1, rows * columns, 1);
    let x = s.input(DType::F32, Class::Element);
    let a = s.load(DType::F32, 1, Access::dense(&[1]), Class::Uniform);
    let b = s.load(DType::F32, columns, Access::strided(&[rows, columns], &[0, 1]), Class::Element);
    let y = s.scalar(Scalar::MulAdd, &[x, a, b]);
    let zero = s.constant(DType::F32, 0.0);
    let y = s.binary(Binary::Max, y, zero);
    s.store(y);
    s.map()
}

fn softmax(dtype: DType, rows: usize, columns: usize) -> Kernel {
    let mut s = Sketch::new(rows, columns, 1);
    let x = s.input(dtype, Class::Element);
    let m = s.reduce(Monoid::Max, x);
    let shifted = s.binary(Binary::Sub, x, m);
    let e = s.unary(Unary::Exp, shifted);
    let sum = s.reduce(Monoid::Sum, e);
    let y = s.binary(Binary::Div, e, sum);
    s.store(y);
    s.row()
}

/// `-log softmax(x)[label]`, the row's most probable class, and the gradient `softmax(x) - onehot(label)`.
fn cross_entropy(rows: usize, classes: usize) -> Kernel {
    let mut s = Sketch::new(rows, classes, 1);
    let x = s.input(DType::F32, Class::Element);
    let label = s.input(DType::U8, Class::Row);
    let label = s.scalar(Scalar::Cast(DType::I32), &[label]);
    let requirement = Requirement::Index { bound: classes };
    let access = Access::dense(&[rows]);
    let check = FusedOp::Check { value: label, requirement, site: 41, access };
    let label = s.push(check, DType::I32, Class::Row);
    let m = s.reduce(Monoid::Max, x);
    let shifted = s.binary(Binary::Sub, x, m);
    let e = s.unary(Unary::Exp, shifted);
    let sum = s.reduce(Monoid::Sum, e);
    let log_sum = s.unary(Unary::Log, sum);
    let log_sum = s.binary(Binary::Add, log_sum, m);
    let first_of_row = Access::strided(&[rows], &[classes as i64]);
    let picked = FusedOp::Load { operand: 0, access: first_of_row, index: Some((label, 1)) };
    let picked = s.push(picked, DType::F32, Class::Row);
    let loss = s.binary(Binary::Sub, log_sum, picked);
    let best = s.reduce(Monoid::ArgMax, x);
    let class =
        s.push(FusedOp::Coord(Access::strided(&[rows, classes], &[0, 1])), DType::I32, Class::Element);
    let is_label = s.binary(Binary::Eq, class, label);
    let onehot = s.scalar(Scalar::Cast(DType::F32), &[is_label]);
    let p = s.binary(Binary::Div, e, sum);
    let gradient = s.binary(Binary::Sub, p, onehot);
    s.store(loss);
    s.store(best);
    s.store(gradient);
    s.row()
}

// ---- Texts.

/// The only launch of a kernel.
fn only_source(kernel: &Kernel) -> KernelSource {
    let mut sources = cuda_sources(kernel).unwrap();
    assert_eq!(sources.len(), 1);
    sources.remove(0)
}

/// The text of a launch from its function's parameters on.
fn kernel_text(fused: &KernelSpec) -> String {
    let text = fused.clone().cuda_source().unwrap().text;
    text[text.find("extern \"C\"").unwrap()..].to_string()
}

fn check_text(kernel: &Kernel, expected: Expect) {
    let source = only_source(kernel);
    assert_eq!(source.text.matches('{').count(), source.text.matches('}').count());
    assert_eq!(source.text, only_source(&kernel.clone()).text, "equal kernels have equal texts");
    let at = source.text.find("extern \"C\"").unwrap();
    expected.assert_eq(&format!("{}\n", &source.text[at..]));
}

#[test]
fn a_map_is_one_guarded_straight_line() {
    check_text(
        &scale_shift_relu(128, 10),
        expect![[r#"
            extern "C" __global__ void __launch_bounds__(256)map (
                float* buffer_0, const float* __restrict__ buffer_1, const float* __restrict__ buffer_2, float* buffer_3, const __grid_constant__ info_st info
            ) {
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
        "#]],
    );
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
    check_text(
        &softmax(DType::F32, 128, 4),
        expect![[r#"
            extern "C" __global__ void __launch_bounds__(32)row (
                float* buffer_0, float* buffer_1, const __grid_constant__ info_st info
            ) {
            uint32 blockIdxGlobal = (blockIdx.z * gridDim.y * gridDim.x) + (blockIdx.y * gridDim.x) + blockIdx.x;
            const uint32 l_0 = blockIdxGlobal * uint32(32);
            const uint32 l_1 = l_0 + threadIdx.x;
            const bool l_2 = l_1 < info.scalars_uint32[0];
            const uint32 l_3 = info.scalars_uint32[0] - uint32(1);
            const uint32 l_4 = (l_2) ? l_1 : l_3;
            const uint32 l_5 = l_4 * uint32(4);
            const uint32 l_6 = l_5 + uint32(1);
            const uint32 l_7 = l_5 + uint32(2);
            const uint32 l_8 = l_5 + uint32(3);
             float_4 *_tmp_0 = reinterpret_cast< float_4*>(buffer_0);
            const float_4 l_9 = _tmp_0[l_4];
            const float l_10 = l_9.i_0;
            const float l_11 = l_9.i_1;
            const float l_12 = l_9.i_2;
            const float l_13 = l_9.i_3;
            const uint32 l_14 = uint32(4286578688);
            const float l_15 = reinterpret_cast<float const&>(l_14);
            const float l_16 = largest(l_10, l_11);
            const float l_17 = largest(l_16, l_12);
            const float l_18 = largest(l_17, l_13);
            const float l_19 = l_10 - l_18;
            const float l_20 = l_11 - l_18;
            const float l_21 = l_12 - l_18;
            const float l_22 = l_13 - l_18;
            const float l_23 = exp(l_19);
            const float l_24 = exp(l_20);
            const float l_25 = exp(l_21);
            const float l_26 = exp(l_22);
            const float l_27 = l_23 + l_24;
            const float l_28 = l_27 + l_25;
            const float l_29 = l_28 + l_26;
            const float l_30 = abs(l_29);
            const bool l_31 = l_30 < float(7.888609052210118e-31);
            const bool l_32 = float(1.2676506002282294e30) < l_30;
            const float l_33 = (l_32) ? float(5.421010862427522e-20) : float(1.0);
            const float l_34 = (l_31) ? float(1.8446744073709552e19) : l_33;
            const float l_35 = l_29 * l_34;
            const float l_36 = float(1.0) / l_35;
            const float l_37 = l_23 * l_36;
            const float l_38 = l_37 * l_34;
            const float l_39 = abs(l_29);
            const bool l_40 = l_39 < float(7.888609052210118e-31);
            const bool l_41 = float(1.2676506002282294e30) < l_39;
            const float l_42 = (l_41) ? float(5.421010862427522e-20) : float(1.0);
            const float l_43 = (l_40) ? float(1.8446744073709552e19) : l_42;
            const float l_44 = l_29 * l_43;
            const float l_45 = float(1.0) / l_44;
            const float l_46 = l_24 * l_45;
            const float l_47 = l_46 * l_43;
            const float l_48 = abs(l_29);
            const bool l_49 = l_48 < float(7.888609052210118e-31);
            const bool l_50 = float(1.2676506002282294e30) < l_48;
            const float l_51 = (l_50) ? float(5.421010862427522e-20) : float(1.0);
            const float l_52 = (l_49) ? float(1.8446744073709552e19) : l_51;
            const float l_53 = l_29 * l_52;
            const float l_54 = float(1.0) / l_53;
            const float l_55 = l_25 * l_54;
            const float l_56 = l_55 * l_52;
            const float l_57 = abs(l_29);
            const bool l_58 = l_57 < float(7.888609052210118e-31);
            const bool l_59 = float(1.2676506002282294e30) < l_57;
            const float l_60 = (l_59) ? float(5.421010862427522e-20) : float(1.0);
            const float l_61 = (l_58) ? float(1.8446744073709552e19) : l_60;
            const float l_62 = l_29 * l_61;
            const float l_63 = float(1.0) / l_62;
            const float l_64 = l_26 * l_63;
            const float l_65 = l_64 * l_61;
            if (l_2) {
            const float_4 l_66 = float_4{l_38,l_47,l_56,l_65};
             float_4 *_tmp_1 = reinterpret_cast< float_4*>(buffer_1);
            _tmp_1[l_4] = reinterpret_cast< float_4 const&>(l_66);
            }

            }
        "#]],
    );
}

#[test]
fn a_long_row_is_read_again_in_each_pass() {
    check_text(
        &softmax(DType::BF16, 2, 40_001),
        expect![[r#"
            extern "C" __global__ void __launch_bounds__(1024)row (
                __nv_bfloat16* buffer_0, __nv_bfloat16* buffer_1, const __grid_constant__ info_st info
            ) {
            uint32 blockIdxGlobal = (blockIdx.z * gridDim.y * gridDim.x) + (blockIdx.y * gridDim.x) + blockIdx.x;
            uint32 warpSizeChecked = min(warpSize, blockDim.x * blockDim.y * blockDim.z);
            extern __shared__ __align__(4) uint8 dynamic_shared_mem[];
            // Shared array size: 32, 128 bytes
            uint32 *shared_memory_0 = reinterpret_cast<uint32*>(&dynamic_shared_mem[0]);
            float l_mut_4;
            float l_mut_38;
            const uint32 l_1 = blockIdxGlobal * uint32(40001);
            const uint32 l_2 = uint32(4286578688);
            const float l_3 = reinterpret_cast<float const&>(l_2);
            l_mut_4 = l_3;

            for (uint32 l_mut_5 = threadIdx.x; l_mut_5 < uint32(40001); l_mut_5 += uint32(1024)) {
            const uint32 l_6 = l_1 + l_mut_5;
            const __nv_bfloat16 l_7 = buffer_0[l_6];
            const float l_8 = float(l_7);
            const float l_9 = largest(l_mut_4, l_8);
            l_mut_4 = l_9;
            }
            const float l_10 = l_mut_4;
            const float l_11 = { __shfl_xor_sync(-1, l_10, uint32(16)) };
            const float l_12 = largest(l_10, l_11);
            const float l_13 = { __shfl_xor_sync(-1, l_12, uint32(8)) };
            const float l_14 = largest(l_12, l_13);
            const float l_15 = { __shfl_xor_sync(-1, l_14, uint32(4)) };
            const float l_16 = largest(l_14, l_15);
            const float l_17 = { __shfl_xor_sync(-1, l_16, uint32(2)) };
            const float l_18 = largest(l_16, l_17);
            const float l_19 = { __shfl_xor_sync(-1, l_18, uint32(1)) };
            const float l_20 = largest(l_18, l_19);
            const uint32 l_21 = threadIdx.x / uint32(32);
            const uint32 l_22 = threadIdx.x % uint32(32);
            const bool l_23 = l_22 == uint32(0);
            if (l_23) {
            const uint32 l_24 = reinterpret_cast<uint32 const&>(l_20);
            shared_memory_0[l_21] = l_24;
            }
            __syncthreads();

            const uint32 l_25 = l_22 % uint32(32);
            const uint32 l_26 = shared_memory_0[l_25];
            const float l_27 = reinterpret_cast<float const&>(l_26);
            __syncthreads();

            const float l_28 = { __shfl_xor_sync(-1, l_27, uint32(16)) };
            const float l_29 = largest(l_27, l_28);
            const float l_30 = { __shfl_xor_sync(-1, l_29, uint32(8)) };
            const float l_31 = largest(l_29, l_30);
            const float l_32 = { __shfl_xor_sync(-1, l_31, uint32(4)) };
            const float l_33 = largest(l_31, l_32);
            const float l_34 = { __shfl_xor_sync(-1, l_33, uint32(2)) };
            const float l_35 = largest(l_33, l_34);
            const float l_36 = { __shfl_xor_sync(-1, l_35, uint32(1)) };
            const float l_37 = largest(l_35, l_36);
            l_mut_38 = float(0.0);

            for (uint32 l_mut_39 = threadIdx.x; l_mut_39 < uint32(40001); l_mut_39 += uint32(1024)) {
            const uint32 l_40 = l_1 + l_mut_39;
            const __nv_bfloat16 l_41 = buffer_0[l_40];
            const float l_42 = float(l_41);
            const float l_43 = l_42 - l_37;
            const float l_44 = exp(l_43);
            const float l_45 = l_mut_38 + l_44;
            l_mut_38 = l_45;
            }
            const float l_46 = l_mut_38;
            const float l_47 = { __shfl_xor_sync(-1, l_46, uint32(16)) };
            const float l_48 = l_46 + l_47;
            const float l_49 = { __shfl_xor_sync(-1, l_48, uint32(8)) };
            const float l_50 = l_48 + l_49;
            const float l_51 = { __shfl_xor_sync(-1, l_50, uint32(4)) };
            const float l_52 = l_50 + l_51;
            const float l_53 = { __shfl_xor_sync(-1, l_52, uint32(2)) };
            const float l_54 = l_52 + l_53;
            const float l_55 = { __shfl_xor_sync(-1, l_54, uint32(1)) };
            const float l_56 = l_54 + l_55;
            const uint32 l_57 = threadIdx.x / uint32(32);
            const uint32 l_58 = threadIdx.x % uint32(32);
            const bool l_59 = l_58 == uint32(0);
            if (l_59) {
            const uint32 l_60 = reinterpret_cast<uint32 const&>(l_56);
            shared_memory_0[l_57] = l_60;
            }
            __syncthreads();

            const uint32 l_61 = l_58 % uint32(32);
            const uint32 l_62 = shared_memory_0[l_61];
            const float l_63 = reinterpret_cast<float const&>(l_62);
            __syncthreads();

            const float l_64 = { __shfl_xor_sync(-1, l_63, uint32(16)) };
            const float l_65 = l_63 + l_64;
            const float l_66 = { __shfl_xor_sync(-1, l_65, uint32(8)) };
            const float l_67 = l_65 + l_66;
            const float l_68 = { __shfl_xor_sync(-1, l_67, uint32(4)) };
            const float l_69 = l_67 + l_68;
            const float l_70 = { __shfl_xor_sync(-1, l_69, uint32(2)) };
            const float l_71 = l_69 + l_70;
            const float l_72 = { __shfl_xor_sync(-1, l_71, uint32(1)) };
            const float l_73 = l_71 + l_72;

            for (uint32 l_mut_74 = threadIdx.x; l_mut_74 < uint32(40001); l_mut_74 += uint32(1024)) {
            const uint32 l_75 = l_1 + l_mut_74;
            const __nv_bfloat16 l_76 = buffer_0[l_75];
            const float l_77 = float(l_76);
            const float l_78 = l_77 - l_37;
            const float l_79 = exp(l_78);
            const float l_80 = abs(l_73);
            const bool l_81 = l_80 < float(7.888609052210118e-31);
            const bool l_82 = float(1.2676506002282294e30) < l_80;
            const float l_83 = (l_82) ? float(5.421010862427522e-20) : float(1.0);
            const float l_84 = (l_81) ? float(1.8446744073709552e19) : l_83;
            const float l_85 = l_73 * l_84;
            const float l_86 = float(1.0) / l_85;
            const float l_87 = l_79 * l_86;
            const float l_88 = l_87 * l_84;
            const __nv_bfloat16 l_89 = __nv_bfloat16(l_88);
            buffer_1[l_75] = l_89;
            }

            }
        "#]],
    );
}

#[test]
fn a_cross_entropy_row_checks_its_labels() {
    check_text(
        &cross_entropy(128, 2),
        expect![[r#"
            extern "C" __global__ void __launch_bounds__(32)row (
                float* buffer_0, const uint8* __restrict__ buffer_1, float* buffer_2, int32* buffer_3, float* buffer_4, uint32* buffer_5, const __grid_constant__ info_st info
            ) {
            uint32 blockIdxGlobal = (blockIdx.z * gridDim.y * gridDim.x) + (blockIdx.y * gridDim.x) + blockIdx.x;
            uint32 l_mut_68;
            const uint32 l_0 = blockIdxGlobal * uint32(32);
            const uint32 l_1 = l_0 + threadIdx.x;
            const bool l_2 = l_1 < info.scalars_uint32[0];
            const uint32 l_3 = info.scalars_uint32[0] - uint32(1);
            const uint32 l_4 = (l_2) ? l_1 : l_3;
            const uint32 l_5 = l_4 * uint32(2);
            const uint32 l_6 = l_5 + uint32(1);
            const uint8 l_7 = buffer_1[l_4];
            const int32 l_8 = int32(l_7);
            const bool l_9 = l_8 >= int32(2);
            const bool l_10 = l_8 < int32(0);
            const bool l_11 = l_10 || l_9;
            if (l_11) {
            uint32* l_12 = &buffer_5[uint32(1)];
            const uint32 l_13 = atomicAdd(l_12, uint32(0));
            const bool l_14 = l_13 == uint32(0);
            if (l_14) {
            uint32* l_15 = &buffer_5[uint32(0)];
            const uint32 l_16 = atomicExch(l_15, uint32(1));
            uint32* l_17 = &buffer_5[uint32(2)];
            const uint32 l_18 = atomicMax(l_17, uint32(4294967254));
            const bool l_19 = uint32(4294967254) >= l_18;
            if (l_19) {
            const bool l_20 = l_4 < uint32(4294967294);
            const uint32 l_21 = (l_20) ? l_4 : uint32(4294967294);
            const uint32 l_22 = ~l_21;
            uint32* l_23 = &buffer_5[uint32(1325)];
            const uint32 l_24 = atomicMax(l_23, l_22);
            const bool l_25 = l_24 < l_22;
            if (l_25) {
            uint32* l_26 = &buffer_5[uint32(3)];
            const uint32 l_27 = atomicAdd(l_26, uint32(1));
            const uint32 l_28 = l_27 % uint32(256);
            const uint32 l_29 = l_28 * uint32(5);
            const uint32 l_30 = uint32(l_8);
            const bool l_31 = l_8 < int32(0);
            const uint32 l_32 = (l_31) ? uint32(4294967295) : uint32(0);
            const uint32 l_33 = l_29 + uint32(4);
            uint32* l_34 = &buffer_5[l_33];
            const uint32 l_35 = atomicExch(l_34, uint32(41));
            const uint32 l_36 = l_29 + uint32(5);
            uint32* l_37 = &buffer_5[l_36];
            const uint32 l_38 = atomicExch(l_37, l_30);
            const uint32 l_39 = l_29 + uint32(6);
            uint32* l_40 = &buffer_5[l_39];
            const uint32 l_41 = atomicExch(l_40, l_32);
            const uint32 l_42 = l_29 + uint32(7);
            uint32* l_43 = &buffer_5[l_42];
            const uint32 l_44 = atomicExch(l_43, l_4);
            const uint32 l_45 = l_29 + uint32(8);
            uint32* l_46 = &buffer_5[l_45];
            const uint32 l_47 = atomicExch(l_46, uint32(0));
            }
            }
            }
            }
            const int32 l_48 = (l_11) ? int32(0) : l_8;
            const uint32 l_49 = l_4 * uint32(2);
            const uint32 l_50 = uint32(l_48);
            const uint32 l_51 = l_49 + l_50;
            const float l_52 = buffer_0[l_51];
             float_2 *_tmp_0 = reinterpret_cast< float_2*>(buffer_0);
            const float_2 l_53 = _tmp_0[l_4];
            const float l_54 = l_53.i_0;
            const float l_55 = l_53.i_1;
            const int32 l_56 = int32(uint32(0));
            const int32 l_57 = int32(uint32(1));
            const bool l_58 = l_56 == l_48;
            const bool l_59 = l_57 == l_48;
            const float l_60 = float(l_58);
            const float l_61 = float(l_59);
            const uint32 l_62 = uint32(4286578688);
            const float l_63 = reinterpret_cast<float const&>(l_62);
            const float l_64 = largest(l_54, l_55);
            const uint32 l_65 = uint32(4286578688);
            const float l_66 = reinterpret_cast<float const&>(l_65);
            const float l_67 = largest(l_54, l_55);
            l_mut_68 = uint32(2147483647);
            const bool l_69 = l_67 == l_67;
            const bool l_70 = l_67 != l_67;
            const bool l_71 = l_67 != l_67;
            const bool l_72 = l_70 && l_71;
            const bool l_73 = l_69 || l_72;
            if (l_73) {
            const uint32 l_74 = l_mut_68;
            const bool l_75 = l_55 == l_67;
            const bool l_76 = l_55 != l_55;
            const bool l_77 = l_67 != l_67;
            const bool l_78 = l_76 && l_77;
            const bool l_79 = l_75 || l_78;
            const uint32 l_80 = (l_79) ? uint32(1) : l_74;
            const bool l_81 = l_54 == l_67;
            const bool l_82 = l_54 != l_54;
            const bool l_83 = l_67 != l_67;
            const bool l_84 = l_82 && l_83;
            const bool l_85 = l_81 || l_84;
            const uint32 l_86 = (l_85) ? uint32(0) : l_80;
            l_mut_68 = l_86;
            }
            const uint32 l_87 = l_mut_68;
            const int32 l_88 = int32(l_87);
            const float l_89 = l_54 - l_64;
            const float l_90 = l_55 - l_64;
            const float l_91 = exp(l_89);
            const float l_92 = exp(l_90);
            const float l_93 = l_91 + l_92;
            const float l_94 = log(l_93);
            const float l_95 = l_94 + l_64;
            const float l_96 = l_95 - l_52;
            const float l_97 = abs(l_93);
            const bool l_98 = l_97 < float(7.888609052210118e-31);
            const bool l_99 = float(1.2676506002282294e30) < l_97;
            const float l_100 = (l_99) ? float(5.421010862427522e-20) : float(1.0);
            const float l_101 = (l_98) ? float(1.8446744073709552e19) : l_100;
            const float l_102 = l_93 * l_101;
            const float l_103 = float(1.0) / l_102;
            const float l_104 = l_91 * l_103;
            const float l_105 = l_104 * l_101;
            const float l_106 = abs(l_93);
            const bool l_107 = l_106 < float(7.888609052210118e-31);
            const bool l_108 = float(1.2676506002282294e30) < l_106;
            const float l_109 = (l_108) ? float(5.421010862427522e-20) : float(1.0);
            const float l_110 = (l_107) ? float(1.8446744073709552e19) : l_109;
            const float l_111 = l_93 * l_110;
            const float l_112 = float(1.0) / l_111;
            const float l_113 = l_92 * l_112;
            const float l_114 = l_113 * l_110;
            const float l_115 = l_105 - l_60;
            const float l_116 = l_114 - l_61;
            if (l_2) {
            const float_2 l_117 = float_2{l_115,l_116};
             float_2 *_tmp_1 = reinterpret_cast< float_2*>(buffer_4);
            _tmp_1[l_4] = reinterpret_cast< float_2 const&>(l_117);
            }
            if (l_2) {
            buffer_2[l_4] = l_96;
            buffer_3[l_4] = l_88;
            }

            }
        "#]],
    );
}

// ---- What the texts compute, on the host.

fn f32s(bytes: &[u8]) -> Vec<f32> {
    bytes.chunks_exact(4).map(|word| f32::from_le_bytes(word.try_into().unwrap())).collect()
}

fn i32s(bytes: &[u8]) -> Vec<i32> {
    bytes.chunks_exact(4).map(|word| i32::from_le_bytes(word.try_into().unwrap())).collect()
}

fn bytes(values: &[f32]) -> Vec<u8> {
    values.iter().flat_map(|x| x.to_le_bytes()).collect()
}

/// Numbers between -2 and 2 without a pattern.
fn numbers(n: usize) -> Vec<f32> {
    (0..n).map(|i| (i * 7919 % 1009) as f32 / 252.0 - 2.0).collect()
}

fn assert_close(found: &[f32], expected: impl IntoIterator<Item = f64>) {
    let expected: Vec<f64> = expected.into_iter().collect();
    assert_eq!(found.len(), expected.len());
    for (i, (&found, expected)) in found.iter().zip(expected).enumerate() {
        let is_close =
            found == expected as f32 || (found as f64 - expected).abs() <= 1e-5 * (1.0 + expected.abs());
        assert!(
            is_close || (found.is_nan() && expected.is_nan()),
            "element {i}: {found} instead of {expected}"
        );
    }
}

#[test]
fn a_map_computes_its_formula_and_keeps_nan() {
    let (mut x, b) = (numbers(70 * 10), numbers(10));
    x[33] = f32::NAN;
    let Some(buffers) = on_host::run(&scale_shift_relu(70, 10), &[bytes(&x), bytes(&[1.5]), bytes(&b)], 0)
    else {
        return;
    };
    let relu = |x: f64| if x < 0.0 { 0.0 } else { x };
    let expected = x.iter().enumerate().map(|(i, &x)| relu(x as f64 * 1.5 + b[i % 10] as f64));
    assert_close(&f32s(&buffers[3]), expected);
}

fn check_softmax(rows: usize, columns: usize) {
    let x = numbers(rows * columns);
    let Some(buffers) = on_host::run(&softmax(DType::F32, rows, columns), &[bytes(&x)], 0) else { return };
    let expected = x.chunks(columns).flat_map(|row| {
        let e: Vec<f64> = row.iter().map(|&x| (x as f64).exp()).collect();
        let sum: f64 = e.iter().sum();
        e.into_iter().map(move |e| e / sum)
    });
    assert_close(&f32s(&buffers[1]), expected);
}

#[test]
fn softmax_of_short_rows_shares_a_warp() {
    check_softmax(37, 10);
    check_softmax(3, 32);
}

#[test]
fn softmax_rows_stay_in_the_registers_of_a_warp_or_block() {
    check_softmax(9, 200);
    check_softmax(3, 1000);
}

#[test]
fn softmax_of_long_rows_reads_the_rows_again() {
    check_softmax(2, 40_001);
}

#[test]
fn a_cross_entropy_row_gives_loss_prediction_and_gradient() {
    let (rows, classes) = (21, 10);
    let x = numbers(rows * classes);
    let labels: Vec<u8> = (0..rows).map(|i| (i * 7 % 10) as u8).collect();
    let Some(buffers) = on_host::run(&cross_entropy(rows, classes), &[bytes(&x), labels.clone()], 0) else {
        return;
    };
    let exp: Vec<f64> = x.iter().map(|&x| (x as f64).exp()).collect();
    let sums: Vec<f64> = exp.chunks(classes).map(|row| row.iter().sum()).collect();
    let label = |row: usize| labels[row] as usize;
    assert_close(&f32s(&buffers[2]), (0..rows).map(|i| sums[i].ln() - x[i * classes + label(i)] as f64));
    let best =
        x.chunks(classes).map(|row| (0..classes).max_by(|&a, &b| row[a].total_cmp(&row[b])).unwrap() as i32);
    assert_eq!(i32s(&buffers[3]), best.collect::<Vec<_>>());
    let onehot = |at: usize| (at % classes == label(at / classes)) as u8 as f64;
    assert_close(&f32s(&buffers[4]), (0..x.len()).map(|at| exp[at] / sums[at / classes] - onehot(at)));
    assert_eq!(reported(&buffers[5]), None);
}

/// The expected result of a primitive for its operands.
type Formula<'f> = &'f dyn Fn(&[f64]) -> f64;

/// Runs a map of primitives over the same operands and compares each with its formula.
fn check_scalars(cases: &[(Scalar, Formula)], operands: &[&[f32]]) {
    let n = operands[0].len();
    let mut s = Sketch::new(1, n, 1);
    let args: Vec<usize> = operands.iter().map(|_| s.input(DType::F32, Class::Element)).collect();
    for (op, _) in cases {
        let y = s.scalar(op.clone(), &args);
        let y = s.scalar(Scalar::Cast(DType::F32), &[y]);
        s.store(y);
    }
    let inputs: Vec<Vec<u8>> = operands.iter().map(|values| bytes(values)).collect();
    let Some(buffers) = on_host::run(&s.map(), &inputs, 0) else { return };
    for ((op, formula), found) in cases.iter().zip(&buffers[operands.len()..]) {
        eprintln!("{}", op.name());
        let at = |i: usize| operands.iter().map(|values| values[i] as f64).collect::<Vec<_>>();
        assert_close(&f32s(found), (0..n).map(|i| formula(&at(i))));
    }
}

const SPECIAL: [f32; 16] = [
    0.0,
    -0.0,
    0.3,
    -0.3,
    0.999,
    -1.0,
    1.0,
    1.5,
    2.5,
    -2.5,
    7.25,
    -7.25,
    1e-6,
    f32::INFINITY,
    f32::NEG_INFINITY,
    f32::NAN,
];

#[test]
fn unary_primitives_follow_their_definitions() {
    type UnaryFormula = fn(f64) -> f64;
    let cases: [(Unary, UnaryFormula); 18] = [
        (Unary::Neg, |x| -x),
        (Unary::Abs, f64::abs),
        (Unary::Sign, |x| if x == 0.0 || x.is_nan() { x } else { x.signum() }),
        (Unary::Exp, f64::exp),
        (Unary::Expm1, f64::exp_m1),
        (Unary::Log, f64::ln),
        (Unary::Log1p, f64::ln_1p),
        (Unary::Sqrt, f64::sqrt),
        (Unary::Rsqrt, |x| 1.0 / x.sqrt()),
        (Unary::Recip, |x| 1.0 / x),
        (Unary::Sin, f64::sin),
        (Unary::Cos, f64::cos),
        (Unary::Tanh, f64::tanh),
        (Unary::Floor, f64::floor),
        (Unary::Ceil, f64::ceil),
        (Unary::Trunc, f64::trunc),
        (Unary::Round, f64::round_ties_even),
        (Unary::IsNan, |x| x.is_nan() as u8 as f64),
    ];
    let formulas = cases.map(|(op, formula)| (Scalar::Unary(op), move |x: &[f64]| formula(x[0])));
    let cases: Vec<(Scalar, Formula)> =
        formulas.iter().map(|(op, formula)| (op.clone(), formula as Formula)).collect();
    check_scalars(&cases, &[&SPECIAL]);
}

#[test]
fn binary_primitives_follow_their_definitions() {
    let pairs: Vec<(f32, f32)> = SPECIAL.iter().flat_map(|&a| SPECIAL.map(|b| (a, b))).collect();
    let (a, b): (Vec<f32>, Vec<f32>) = pairs.into_iter().unzip();
    let truth = |holds: bool| holds as u8 as f64;
    let nan_or = |x: &[f64], value: f64| if x[0].is_nan() || x[1].is_nan() { f64::NAN } else { value };
    let cases: [(Binary, Formula); 8] = [
        (Binary::Max, &|x| nan_or(x, x[0].max(x[1]))),
        (Binary::Min, &|x| nan_or(x, x[0].min(x[1]))),
        (Binary::Rem, &|x| x[0] % x[1]),
        (Binary::Pow, &|x| x[0].powf(x[1])),
        (Binary::Div, &|x| x[0] / x[1]),
        (Binary::Sub, &|x| x[0] - x[1]),
        (Binary::Le, &|x| truth(x[0] <= x[1])),
        (Binary::Ne, &|x| truth(x[0] != x[1])),
    ];
    check_scalars(&cases.map(|(op, formula)| (Scalar::Binary(op), formula)), &[&a, &b]);
}

#[test]
fn floats_become_integers_by_truncation_and_saturation() {
    let x = [0.0, -0.9, 2.9, -2.9, 255.5, 300.0, 3e9, 5e9, -3e9, f32::INFINITY, f32::NEG_INFINITY, f32::NAN];
    for dtype in [DType::U8, DType::I32, DType::U32] {
        let mut s = Sketch::new(1, x.len(), 1);
        let reg = s.input(DType::F32, Class::Element);
        let y = s.scalar(Scalar::Cast(dtype), &[reg]);
        s.store(y);
        let Some(buffers) = on_host::run(&s.map(), &[bytes(&x)], 0) else { return };
        // Rust's `as` has the same rule.
        let expected: Vec<u8> = x
            .iter()
            .flat_map(|&x| match dtype {
                DType::U8 => vec![x as u8],
                DType::U32 => (x as u32).to_le_bytes().to_vec(),
                _ => (x as i32).to_le_bytes().to_vec(),
            })
            .collect();
        assert_eq!(buffers[1], expected, "{dtype}");
    }
}

#[test]
fn half_precision_is_rounded_where_it_is_stored() {
    let mut s = Sketch::new(1, 3, 1);
    let x = s.input(DType::BF16, Class::Element);
    let third = s.constant(DType::BF16, 1.0 / 3.0);
    let y = s.binary(Binary::Mul, x, third);
    s.store(y);
    let inputs: Vec<u8> = [1.0f32, 2.0, -5.0].iter().flat_map(|x| x.to_le_bytes()[2..].to_vec()).collect();
    let Some(buffers) = on_host::run(&s.map(), &[inputs], 0) else { return };
    // 0.33333, 0.66667 and -1.66667 with 8 significant bits.
    assert_eq!(buffers[1], [0xAB, 0x3E, 0x2B, 0x3F, 0xD5, 0xBF]);
}

#[test]
fn padding_reads_its_fill_and_no_memory() {
    let mut s = Sketch::new(1, 6, 1);
    let pad = View::Pad { low: vec![1], high: vec![2], fill: Literal::Float(-1.0) };
    let x = s.load(DType::F32, 3, Access::dense(&[3]).then(&pad, &[6]), Class::Element);
    let nothing = s.load(
        DType::F32,
        0,
        Access::dense(&[0]).then(&View::Pad { low: vec![6], high: vec![0], fill: Literal::Float(0.5) }, &[6]),
        Class::Element,
    );
    let y = s.binary(Binary::Add, x, nothing);
    s.store(y);
    let Some(buffers) = on_host::run(&s.map(), &[bytes(&[1.0, 2.0, 3.0]), vec![]], 0) else { return };
    assert_eq!(f32s(&buffers[2]), [-0.5, 1.5, 2.5, 3.5, -0.5, -0.5]);
}

#[test]
fn a_reshaped_transpose_goes_through_two_levels() {
    let access = Access::dense(&[2, 3])
        .then(&View::Permute { perm: vec![1, 0] }, &[3, 2])
        .then(&View::Reshape, &[6])
        .then(&View::Slice { start: vec![5], step: vec![-2] }, &[3]);
    let mut s = Sketch::new(1, 3, 1);
    let x = s.load(DType::F32, 6, access, Class::Element);
    s.store(x);
    let x: Vec<f32> = (0..6).map(|i| i as f32).collect();
    let Some(buffers) = on_host::run(&s.map(), &[bytes(&x)], 0) else { return };
    assert_eq!(f32s(&buffers[1]), [5.0, 4.0, 3.0]);
}

fn random_bits(n: usize) -> Kernel {
    let mut s = Sketch::new(1, n, 1);
    let step = s.load(DType::I32, 1, Access::dense(&[1]), Class::Uniform);
    let random = FusedOp::Random { stream: 0xa4093822, step, iteration: None, access: Access::dense(&[n]) };
    let bits = s.push(random, DType::U32, Class::Element);
    s.store(bits);
    s.map()
}

#[test]
fn random_bits_are_those_of_the_reference_generator() {
    // Key [seed, stream], counter [element / 4, 0, step, 0]; the expected words are from a Philox in Python that
    // passes Random123's known-answer tests.
    let Some(buffers) = on_host::run(&random_bits(9), &[7i32.to_le_bytes().to_vec()], 0x299f31d0) else {
        return;
    };
    let found: Vec<u32> = i32s(&buffers[1]).into_iter().map(|word| word as u32).collect();
    assert_eq!(
        found,
        [
            0xf5cac6e8, 0x88596cb2, 0xa9715e4f, 0xa49912f4, 0xde2d3a6f, 0x94fe5530, 0x56f082b8, 0xc5148d15,
            0xec113432
        ]
    );
}

#[test]
fn extrema_of_rows_find_nan_and_the_first_of_equals() {
    let columns = 40;
    let mut s = Sketch::new(3, columns, 1);
    let x = s.input(DType::F32, Class::Element);
    let found = [Monoid::Max, Monoid::Min, Monoid::ArgMax, Monoid::ArgMin].map(|monoid| s.reduce(monoid, x));
    found.into_iter().for_each(|reg| s.store(reg));
    let mut x = vec![0.5; 3 * columns];
    (x[7], x[35], x[9], x[38]) = (2.0, 2.0, -1.0, -1.0);
    (x[columns + 33], x[columns + 39]) = (f32::NAN, f32::NAN);
    x[2 * columns..].fill(f32::NEG_INFINITY);
    let Some(buffers) = on_host::run(&s.row(), &[bytes(&x)], 0) else { return };
    assert_close(&f32s(&buffers[1]), [2.0, f64::NAN, f64::NEG_INFINITY]);
    assert_close(&f32s(&buffers[2]), [-1.0, f64::NAN, f64::NEG_INFINITY]);
    assert_eq!(i32s(&buffers[3]), [7, 33, 0]);
    assert_eq!(i32s(&buffers[4]), [9, 33, 0]);
}

#[test]
fn strided_rows_and_empty_rows_are_reduced() {
    let sums = |outer: usize, row: usize, inner: usize| {
        let mut s = Sketch::new(outer, row, inner);
        let x = s.input(DType::F32, Class::Element);
        let sum = s.reduce(Monoid::Sum, x);
        s.store(sum);
        let x: Vec<f32> = (0..outer * row * inner).map(|i| (i * 7919 % 13) as f32).collect();
        let Some(buffers) = on_host::run(&s.row(), &[bytes(&x)], 0) else { return };
        let at = |o: usize, r: usize, i: usize| x[(o * row + r) * inner + i] as f64;
        let expected = (0..outer * inner).map(|q| (0..row).map(|r| at(q / inner, r, q % inner)).sum());
        assert_close(&f32s(&buffers[1]), expected);
    };
    sums(2, 5, 7);
    sums(2, 100, 33);
    sums(1, 300, 40);
    sums(4, 0, 1);
    sums(1, 0, 3);
}

#[test]
fn several_warps_find_the_first_maximum_of_each_column() {
    let (row, inner) = (300, 3);
    let mut s = Sketch::new(1, row, inner);
    let x = s.input(DType::F32, Class::Element);
    let best = s.reduce(Monoid::ArgMax, x);
    s.store(best);
    let mut x = vec![0.0; row * inner];
    for (r, i, value) in [(299, 0, 1.0), (200, 1, 2.0), (45, 1, 2.0), (17, 2, f32::NAN), (3, 2, 9.0)] {
        x[r * inner + i] = value;
    }
    let Some(buffers) = on_host::run(&s.row(), &[bytes(&x)], 0) else { return };
    assert_eq!(i32s(&buffers[1]), [299, 45, 17]);
}

/// `p - rate·g` of tensors of these lengths, each with its own rate.
fn step_of_descent(lengths: &[usize]) -> Kernel {
    let mut s = Sketch::new(1, lengths[1], 1);
    let p = s.input(DType::F32, Class::Element);
    let g = s.input(DType::F32, Class::Element);
    let rate = s.constant(DType::F32, 0.1);
    let change = s.binary(Binary::Mul, g, rate);
    let next = s.binary(Binary::Sub, p, change);
    s.store(next);
    let n = lengths.len();
    let mut operands = vec![];
    for usage in [Use::Read, Use::Read, Use::Write] {
        operands.extend(lengths.iter().map(|&length| Operand {
            value: Value { node: 0, port: 0 },
            ty: TensorType::new(DType::F32, &[length]),
            usage,
        }));
    }
    let segments = lengths.iter().enumerate().map(|(i, &points)| Segment {
        operands: vec![i, n + i, 2 * n + i],
        points,
        constants: vec![Literal::Float(rate_of(i))],
    });
    kernel(KernelBody::Segmented { body: s.body, segments: segments.collect() }, operands)
}

fn rate_of(segment: usize) -> f64 {
    if segment == 0 { 0.1 } else { 0.2 }
}

fn check_descent(lengths: &[usize]) {
    check_descent_on(DeviceModel::H200, lengths);
}

fn check_descent_on(device: DeviceModel, lengths: &[usize]) {
    let n = lengths.len();
    let inputs: Vec<Vec<u8>> = (0..2 * n).map(|i| bytes(&numbers(lengths[i % n] + i)[i..])).collect();
    let Some(buffers) = on_host::run_on(&step_of_descent(lengths), device, &inputs, 0) else { return };
    for i in 0..n {
        let (p, g) = (f32s(&inputs[i]), f32s(&inputs[n + i]));
        let expected = p.iter().zip(g).map(|(&p, g)| p as f64 - rate_of(i) * g as f64);
        assert_close(&f32s(&buffers[2 * n + i]), expected);
    }
}

#[test]
fn a_segmented_map_updates_tensors_of_several_lengths() {
    check_descent(&[3, 600, 256]);
}

#[test]
fn a_primitive_without_gpu_code_is_an_error() {
    let mut s = Sketch::new(1, 2, 1);
    let x = s.input(DType::I32, Class::Element);
    let y = s.unary(Unary::Exp, x);
    s.store(y);
    assert_eq!(cuda_sources(&s.map()).unwrap_err().to_string(), "`exp` of i32 has no cube form");
}

fn scan(monoid: Monoid, dtype: DType, [outer, row, inner]: [usize; 3]) -> Kernel {
    let domain = Domain { outer, row, inner };
    let ty = TensorType::new(dtype, &[outer, row, inner]);
    let operand = |node, usage| Operand { value: Value { node, port: 0 }, ty: ty.clone(), usage };
    kernel(KernelBody::Scan { monoid, domain }, vec![operand(0, Use::Read), operand(1, Use::Write)])
}

#[test]
fn scans_run_along_rows_of_all_lengths() {
    for shape in [[5, 7, 1], [3, 9, 4], [2, 100, 1], [2, 3000, 1], [1, 1024, 1], [1, 1, 1]] {
        let [outer, row, inner] = shape;
        let x: Vec<f32> = numbers(outer * row * inner).iter().map(|x| x / 64.0).collect();
        for (monoid, plus) in [(Monoid::Sum, (|a, b| a + b) as fn(f64, f64) -> f64), (Monoid::Max, f64::max)]
        {
            let Some(buffers) = on_host::run(&scan(monoid, DType::F32, shape), &[bytes(&x)], 0) else {
                return;
            };
            let mut expected: Vec<f64> = x.iter().map(|&x| f64::from(x)).collect();
            for point in 0..expected.len() {
                if point / inner % row > 0 {
                    expected[point] = plus(expected[point - inner], expected[point]);
                }
            }
            assert_close(&f32s(&buffers[1]), expected);
        }
    }
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
