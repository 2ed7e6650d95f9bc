//! Scalar primitives.

use engine_core::diag::Diagnostic;
use engine_core::ir::{Binary, DType, Node, Scalar, Unary, Value};

use super::writer::{Writer, int, text};
use crate::fault::unsupported;
use crate::known::{Known, Number};
use crate::tensor::number_of;

/// An op on one operand or several of one type; its operands broadcast.
struct Making<'w, 'g> {
    writer: &'w mut Writer<'g>,
    value: Value,
    dtype: DType,
}

impl Making<'_, '_> {
    fn of(&mut self, op: &str, inputs: &[&str]) -> String {
        self.writer.node(op, inputs, vec![], self.value)
    }

    fn number(&mut self, x: f64) -> String {
        let number = if self.dtype.is_float() { Number::Float(x) } else { Number::Int(x as i64) };
        self.writer.constant(Known { dtype: self.dtype, dims: vec![], elements: vec![number] })
    }

    fn unary(&mut self, op: Unary, x: &str) -> Option<String> {
        let is_bool = self.dtype == DType::Bool;
        let name = match op {
            Unary::Floor | Unary::Ceil | Unary::Round | Unary::Trunc if self.dtype.is_int() => {
                return Some(x.to_owned());
            }
            Unary::Neg => "Neg",
            Unary::Abs => "Abs",
            Unary::Sign => "Sign",
            Unary::Exp => "Exp",
            Unary::Log => "Log",
            Unary::Sqrt => "Sqrt",
            Unary::Recip => "Reciprocal",
            Unary::Sin => "Sin",
            Unary::Cos => "Cos",
            Unary::Tanh => "Tanh",
            Unary::Erf => "Erf",
            Unary::Floor => "Floor",
            Unary::Ceil => "Ceil",
            Unary::Round => "Round",
            Unary::Not => {
                if is_bool {
                    "Not"
                } else {
                    "BitwiseNot"
                }
            }
            Unary::IsNan => "IsNaN",
            Unary::Rsqrt => {
                let root = self.of("Sqrt", &[x]);
                return Some(self.of("Reciprocal", &[&root]));
            }
            Unary::Trunc => {
                let (sign, size) = (self.of("Sign", &[x]), self.of("Abs", &[x]));
                let whole = self.of("Floor", &[&size]);
                return Some(self.of("Mul", &[&sign, &whole]));
            }
            Unary::Expm1 => return Some(self.expm1(x)),
            Unary::Log1p => return Some(self.log1p(x)),
            Unary::Popcount => return None,
        };
        Some(self.of(name, &[x]))
    }

    /// eˣ - 1. Near 0, it is 2t / (1 - t) with t = tanh(x / 2).
    fn expm1(&mut self, x: &str) -> String {
        let [half, one, two] = [0.5, 1.0, 2.0].map(|n| self.number(n));
        let scaled = self.of("Mul", &[x, &half]);
        let t = self.of("Tanh", &[&scaled]);
        let (double, rest) = (self.of("Mul", &[&t, &two]), self.of("Sub", &[&one, &t]));
        let near = self.of("Div", &[&double, &rest]);
        let power = self.of("Exp", &[x]);
        let far = self.of("Sub", &[&power, &one]);
        let size = self.of("Abs", &[x]);
        let is_near = self.of("Less", &[&size, &half]);
        self.of("Where", &[&is_near, &near, &far])
    }

    /// ln(1 + x): the rounding of u = 1 + x is made up for by x / (u - 1).
    fn log1p(&mut self, x: &str) -> String {
        let one = self.number(1.0);
        let u = self.of("Add", &[x, &one]);
        let log = self.of("Log", &[&u]);
        let step = self.of("Sub", &[&u, &one]);
        let ratio = self.of("Div", &[x, &step]);
        let far = self.of("Mul", &[&log, &ratio]);
        let is_tiny = self.of("Equal", &[&u, &one]);
        let inexact = self.of("Where", &[&is_tiny, x, &far]);
        // x / (u - 1) has no value at infinity.
        let is_endless = self.of("IsInf", &[x]);
        self.of("Where", &[&is_endless, &log, &inexact])
    }

    fn binary(&mut self, op: Binary, a: &str, b: &str) -> Option<String> {
        let is_bool = self.dtype == DType::Bool;
        let by_type = |truth, bits| if is_bool { truth } else { bits };
        let name = match op {
            Binary::Add => "Add",
            Binary::Sub => "Sub",
            Binary::Mul => "Mul",
            Binary::Div => "Div",
            Binary::Pow => "Pow",
            Binary::Max => by_type("Or", "Max"),
            Binary::Min => by_type("And", "Min"),
            Binary::Eq => "Equal",
            Binary::Lt => "Less",
            Binary::Le => "LessOrEqual",
            Binary::Gt => "Greater",
            Binary::Ge => "GreaterOrEqual",
            Binary::And => by_type("And", "BitwiseAnd"),
            Binary::Or => by_type("Or", "BitwiseOr"),
            Binary::Xor => by_type("Xor", "BitwiseXor"),
            Binary::Ne => {
                let same = self.of("Equal", &[a, b]);
                return Some(self.of("Not", &[&same]));
            }
            Binary::Rem => return Some(self.writer.node("Mod", &[a, b], vec![int("fmod", 1)], self.value)),
            Binary::Shl | Binary::Shr if self.dtype.is_int() && !self.dtype.is_signed_int() => {
                let direction = text("direction", if op == Binary::Shl { "LEFT" } else { "RIGHT" });
                return Some(self.writer.node("BitShift", &[a, b], vec![direction], self.value));
            }
            Binary::Shl | Binary::Shr => return None,
        };
        Some(self.of(name, &[a, b]))
    }

    /// A conversion. Floats beyond the range of integers become the last one, and NaN becomes 0.
    fn cast(&mut self, x: &str, to: DType) -> String {
        let settings = vec![int("to", i64::from(number_of(to)))];
        let mut y = self.writer.node("Cast", &[x], settings, self.value);
        let Some((low, high)) = to.int_range().filter(|_| self.dtype.is_float()) else { return y };
        let whole = |making: &mut Self, n| {
            making.writer.constant(Known { dtype: to, dims: vec![], elements: vec![Number::Int(n)] })
        };
        let is_nan = self.of("IsNaN", &[x]);
        let bounds = [self.number(low as f64), self.number(high as f64)];
        let is_low = self.of("Less", &[x, &bounds[0]]);
        let is_high = self.of("GreaterOrEqual", &[x, &bounds[1]]);
        for (is_beyond, n) in [(is_low, low), (is_high, high), (is_nan, 0)] {
            let last = whole(self, n);
            y = self.of("Where", &[&is_beyond, &last, &y]);
        }
        y
    }

    fn select(&mut self, [c, a, b]: [&str; 3]) -> String {
        if self.dtype != DType::Bool {
            return self.of("Where", &[c, a, b]);
        }
        let not = self.of("Not", &[c]);
        let (first, second) = (self.of("And", &[c, a]), self.of("And", &[&not, b]));
        self.of("Or", &[&first, &second])
    }
}

/// One scalar primitive. Its operands are left narrow where they broadcast.
///
/// # Errors
/// If ONNX has no counterpart.
pub(super) fn scalar(
    writer: &mut Writer,
    (value, node): (Value, &Node),
    op: &Scalar,
) -> Result<(), Diagnostic> {
    let (names, whole): (Vec<String>, Vec<bool>) =
        node.inputs.iter().map(|&input| writer.narrow(input)).unzip();
    let dtype = node.inputs.last().map_or(node.outputs[0].ty.dtype, |&input| writer.ty(input).dtype);
    let mut making = Making { writer, value, dtype };
    let made = match (op, &names[..]) {
        (Scalar::Unary(op), [x]) => making.unary(*op, x),
        (Scalar::Binary(op), [a, b]) => making.binary(*op, a, b),
        (Scalar::Select, [c, a, b]) => Some(making.select([c, a, b])),
        (Scalar::MulAdd, [a, b, c]) => {
            let product = making.of("Mul", &[a, b]);
            Some(making.of("Add", &[&product, c]))
        }
        (Scalar::Cast(to), [x]) => Some(making.cast(x, *to)),
        _ => None,
    };
    let made = made.ok_or_else(|| {
        let fact =
            format!("the node `{}` computes `{}` of {dtype}, which ONNX lacks", node.name(), op.name());
        unsupported(fact, "export an output that does not depend on it")
    })?;
    match whole.iter().any(|is_whole| *is_whole) {
        true => writer.set_whole(value, made),
        false => writer.set_narrow(value, made),
    }
    Ok(())
}
