//! Kernels as text.

use super::domain::Class;
use super::kernel::Kernel;
use super::kernel::body::{FusedBody, FusedInst, FusedOp};
use super::kernel::operand::Use;
use crate::ir::{Graph, Requirement, Scalar};
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
        for line in self.body.work().lines() {
            let _ = writeln!(text, "  {line}");
        }
        text
    }
}

impl Kernel {
    /// The body alone: operands by number, without names.
    pub fn body_text(&self) -> String {
        self.body.work().lines().join("\n")
    }
}

/// One instruction per line: `%3: f32 element = mul(%1, %2)`.
impl fmt::Display for FusedBody {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "points [{}, {}, {}]", self.domain.outer, self.domain.row, self.domain.inner)?;
        for (reg, inst) in self.insts.iter().enumerate() {
            match &inst.op {
                FusedOp::Store { operand, access, value, index } => {
                    let index = index.map(|(reg, stride)| format!(" + %{reg}*{stride}")).unwrap_or_default();
                    writeln!(f, "@{operand}{access}{index} = %{value}")?
                }
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
            FusedOp::Check { value, requirement: Requirement::Capacity { room }, .. } => {
                write!(f, "capacity(%{value}, {room})")
            }
            FusedOp::Check { value, requirement: Requirement::Distance, .. } => {
                write!(f, "distance(%{value})")
            }
            FusedOp::Check { value, requirement: Requirement::Condition, .. } => {
                write!(f, "condition(%{value})")
            }
            FusedOp::Reduce { monoid, value } => write!(f, "reduce_{}(%{value})", monoid.name()),
            FusedOp::Accumulator => f.write_str("accumulator"),
            FusedOp::SecondAccumulator => f.write_str("second accumulator"),
            FusedOp::Store { .. } | FusedOp::Fold { .. } => f.write_str("store"),
        }
    }
}
