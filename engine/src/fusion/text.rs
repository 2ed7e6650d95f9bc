//! Kernels as text.

use super::access::Axis;
use super::domain::Class;
use super::kernel::attention::AttentionBody;
use super::kernel::body::{FusedBody, FusedInst, FusedOp};
use super::kernel::matmul::{MatmulBody, MatrixOperand, Side, UnevenAxes};
use super::kernel::operand::Use;
use super::kernel::scatter::ScatterBody;
use super::kernel::{Kernel, KernelBody};
use crate::ir::{Graph, Requirement, Scalar, Type};
use std::fmt::{self, Write};

impl Kernel {
    /// The kernel as `explain --stage kernels` shows it, with the names of the primitive graph.
    pub fn describe(&self, graph: &Graph) -> String {
        let mut text = format!("{} {}", self.kind(), self.name);
        let _ = writeln!(text, "  # {}", self.ops.join(" "));
        let _ = writeln!(
            text,
            "  reads {} B, writes {} B, {} flop",
            self.bytes_read, self.bytes_written, self.flops
        );
        for (i, operand) in self.operands.iter().enumerate() {
            let usage = if operand.usage == Use::Read { "read" } else { "write" };
            let _ = writeln!(text, "  {usage} @{i} {}: {}", graph.name_of(operand.value), operand.ty);
        }
        for line in body_lines(&self.body) {
            let _ = writeln!(text, "  {line}");
        }
        text
    }
}

impl Kernel {
    /// The body alone: operands by number, without names.
    pub fn body_text(&self) -> String {
        body_lines(&self.body).join("\n")
    }
}

fn body_lines(body: &KernelBody) -> Vec<String> {
    match body {
        KernelBody::Map(body) | KernelBody::Row(body) => lines_of(body),
        KernelBody::Segmented { body, segments } => {
            let table =
                segments.iter().map(|s| format!("segment of {}: operands {:?}", s.points, s.operands));
            table.chain(lines_of(body)).collect()
        }
        KernelBody::Matmul(body) => matmul_lines(body),
        KernelBody::Attention(body) => attention_lines(body),
        KernelBody::Scatter(body) => scatter_lines(body),
        KernelBody::Opaque(body) => {
            let types = |types: &[Type]| types.iter().map(Type::to_string).collect::<Vec<_>>().join(", ");
            let (inputs, outputs) = (types(&body.call.inputs), types(&body.call.outputs));
            let name = &body.call.call.form().name;
            vec![format!("{name}({inputs}) -> {outputs}, workspace {} B", body.workspace_bytes)]
        }
        KernelBody::Loop(body) => {
            let most = if body.until { "at most " } else { "" };
            let (n_carried, n_given) = (body.n_carried, body.n_given);
            vec![format!("{most}{} trips, {n_carried} values carried, {n_given} given", body.trips)]
        }
        KernelBody::Scan { monoid, domain } => {
            vec![format!("scan {} over [{}, {}, {}]", monoid.name(), domain.outer, domain.row, domain.inner)]
        }
    }
}

fn lines_of(body: &FusedBody) -> Vec<String> {
    body.to_string().lines().map(String::from).collect()
}

/// A body under a title, indented.
fn titled(title: String, body: &FusedBody) -> Vec<String> {
    let lines = lines_of(body).into_iter().map(|line| format!("  {line}"));
    [title].into_iter().chain(lines).collect()
}

fn matmul_lines(body: &MatmulBody) -> Vec<String> {
    let matrix = |m: &MatrixOperand, uneven: &Option<Box<UnevenAxes>>| match uneven {
        None => format!("@{} + {} strides [{}, {}, {}]", m.operand, m.offset, m.batch, m.row, m.col),
        Some(axes) => format!("@{} + {} {}", m.operand, m.offset, uneven_text(axes)),
    };
    let mut lines = vec![
        format!("batch {} m {} n {} k {} {}", body.batch, body.m, body.n, body.k, body.dtype),
        format!("lhs {}", matrix(&body.lhs, &body.uneven[0])),
        format!("rhs {}", matrix(&body.rhs, &body.uneven[1])),
    ];
    for sum in &body.side_sums {
        let side = if sum.side == Side::Lhs { "lhs" } else { "rhs" };
        lines.push(format!("@{} = sum of {side} over k", sum.operand));
    }
    if let Some(rows) = &body.rows {
        let results: Vec<String> = rows.results.iter().map(|operand| format!("@{operand}")).collect();
        let (results, name) = (results.join(", "), rows.consumer.name());
        lines.push(format!("{results} = {name} of each row, as it is computed"));
    }
    lines.extend(lines_of(&body.epilogue));
    lines
}

/// The axes of an uneven matrix, each as `extent:stride`, in the order batch, rows, columns.
fn uneven_text(UnevenAxes { batch, rows, columns }: &UnevenAxes) -> String {
    let axis = |axis: &Axis| format!("{}:{}", axis.extent, axis.stride);
    let axes = |axes: &[Axis]| axes.iter().map(axis).collect::<Vec<_>>().join(", ");
    format!("axes [{}] [{}] [{}]", axes(batch), axes(rows), axes(columns))
}

fn attention_lines(body: &AttentionBody) -> Vec<String> {
    let AttentionBody { batch, m, n, k, width, dtype, query, key, value, rows, weight, end } = body;
    let mut lines = vec![format!("batch {batch} m {m} n {n} k {k} width {width} {dtype}")];
    for (name, source) in [("query", query), ("key", key), ("value", value)] {
        lines.extend(titled(format!("{name} %{}", source.value), &source.body));
    }
    lines.extend(titled(format!("rows of scores, weight %{weight}"), rows));
    lines.extend(titled("end".into(), end));
    lines
}

fn scatter_lines(body: &ScatterBody) -> Vec<String> {
    let order = if body.in_order { ", in order" } else { "" };
    let mut lines = vec![format!("{:?} over {:?}{order}", body.combine, body.extents)];
    lines.extend(titled("base".into(), &body.base));
    lines.extend(titled(format!("update %{} at %{}", body.update, body.index), &body.updates));
    lines
}

/// One instruction per line: `%3: f32 element = mul(%1, %2)`.
impl fmt::Display for FusedBody {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "points [{}, {}, {}]", self.domain.outer, self.domain.row, self.domain.inner)?;
        for (reg, inst) in self.insts.iter().enumerate() {
            match &inst.op {
                FusedOp::Store { operand, access, value } => writeln!(f, "@{operand}{access} = %{value}")?,
                FusedOp::Fold { value } => writeln!(f, "fold %{value}")?,
                _ => writeln!(f, "%{reg}: {} {} = {}", inst.dtype, class_name(inst), OpText(&inst.op))?,
            }
        }
        Ok(())
    }
}

fn class_name(inst: &FusedInst) -> &'static str {
    match inst.class {
        Class::Uniform => "uniform",
        Class::Row => "row",
        Class::Element => "element",
    }
}

struct OpText<'a>(&'a FusedOp);

impl fmt::Display for OpText<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            FusedOp::Load { operand, access, index: None } => write!(f, "@{operand}{access}"),
            FusedOp::Load { operand, access, index: Some((reg, stride)) } => {
                write!(f, "@{operand}{access} + %{reg}*{stride}")
            }
            FusedOp::Const(literal) => write!(f, "{literal}"),
            FusedOp::Coord(access) => write!(f, "point{access}"),
            FusedOp::Random { stream, step, iteration, access } => {
                write!(f, "random(stream={stream}, step=%{step}")?;
                if let Some(iteration) = iteration {
                    write!(f, ", iteration=%{iteration}")?;
                }
                write!(f, ") at {access}")
            }
            FusedOp::Scalar(op, args) => {
                let args: Vec<String> = args.iter().map(|reg| format!("%{reg}")).collect();
                match op {
                    Scalar::Cast(dtype) => write!(f, "cast({}, dtype={dtype})", args.join(", ")),
                    _ => write!(f, "{}({})", op.name(), args.join(", ")),
                }
            }
            FusedOp::Check { value, requirement: Requirement::Index { bound }, .. } => {
                write!(f, "check(%{value}, bound={bound})")
            }
            FusedOp::Check { value, requirement: Requirement::Divisor, .. } => write!(f, "nonzero(%{value})"),
            FusedOp::Reduce { monoid, value } => write!(f, "reduce_{}(%{value})", monoid.name()),
            FusedOp::Accumulator => f.write_str("accumulator"),
            FusedOp::Store { .. } | FusedOp::Fold { .. } => f.write_str("store"),
        }
    }
}
