#![allow(clippy::unwrap_used)]
//! Texts of hand-built kernels, and their results when a C++ compiler stands in for the GPU.

use super::*;
use crate::codegen::render::ordered::with_vectors_in_order;
use crate::codegen::schedule::{row_plan, scatter, scatter_sorted};
use crate::device_model::DeviceModel;
use crate::fusion::{
    Access, Class, Domain, FusedBody, FusedInst, FusedOp, Kernel, KernelBody, Operand, ScanBody, Segment,
    SegmentedBody, Settings, Use, fuse_with,
};
use crate::ir::{
    Binary, Builder, Combine, DType, Foreign, Graph, InputKind, Literal, Monoid, Requirement, Scalar,
    Type as TensorType, Unary, Value, View,
};
use crate::op::Registry;
use assertion::reported;
use expect_test::expect_file;
use primitives::{SPECIAL, check_scalars};
use values::{check_descent, check_descent_on, check_softmax, random_bits, step_of_descent};

mod assertion;
mod attention;
mod attention_parts;
mod folds;
mod nan;
mod on_host;
mod online_softmax;
mod primitives;
mod products;
mod rows;
mod scatters;
mod targets;
mod tensor_attention;
mod tensor_attention_gradient;
mod terms;
mod texts;
mod values;
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
        self.push(FusedOp::Store { operand, access: Access::dense(&[n]), value, index: None }, dtype, class);
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
