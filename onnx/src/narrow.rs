//! Element types of ONNX that the engine lacks. A type of the engine carries their numbers.

use bytes::Bytes;
use engine_core::ir::DType;
use engine_core::text::expr::{BinaryOp, Expr, ExprKind, UnaryOp};

use crate::table::expression;

/// A type that the engine lacks. Integers are kept within its range after arithmetic, floats are rounded by casts.
#[derive(Debug, PartialEq)]
pub struct Narrow {
    /// Its name in messages.
    pub(crate) name: &'static str,
    /// The type of the engine that carries its numbers.
    pub(crate) carrier: DType,
    bits: usize,
    kind: Kind,
}

#[derive(Debug, PartialEq)]
enum Kind {
    Unsigned,
    Signed,
    /// A float by the bits of its mantissa and the bias of its exponent, with its name as a format of `small_float`.
    Float(u32, i32, &'static str),
}

use Kind::{Float, Signed, Unsigned};

const fn int(name: &'static str, bits: usize, kind: Kind) -> Narrow {
    Narrow { name, carrier: DType::I32, bits, kind }
}

const fn float(name: &'static str, bits: usize, kind: Kind) -> Narrow {
    Narrow { name, carrier: DType::F32, bits, kind }
}

/// All of them. `u64` is exact below 2⁶³.
static NARROW: [Narrow; 10] = [
    Narrow { name: "u64", carrier: DType::I64, bits: 64, kind: Unsigned },
    int("u4", 4, Unsigned),
    int("i4", 4, Signed),
    int("u2", 2, Unsigned),
    int("i2", 2, Signed),
    float("float8e4m3fn", 8, Float(3, 7, "e4m3fn")),
    float("float8e4m3fnuz", 8, Float(3, 8, "e4m3fnuz")),
    float("float8e5m2", 8, Float(2, 15, "e5m2")),
    float("float8e5m2fnuz", 8, Float(2, 16, "e5m2fnuz")),
    float("float4e2m1", 4, Float(1, 1, "e2m1")),
];

/// Functions whose result may leave the range of their operand.
const LEAVING: [&str; 4] = ["abs", "left_shift", "pow", "square"];

impl Narrow {
    /// The type with that name.
    pub(crate) fn from_name(name: &str) -> Option<&'static Narrow> {
        NARROW.iter().find(|narrow| narrow.name == name)
    }

    /// The bits of an element.
    pub(crate) fn bits(&self) -> usize {
        self.bits
    }

    /// Whether its numbers are integers.
    pub(crate) fn is_int(&self) -> bool {
        !matches!(self.kind, Float(..))
    }

    /// The smallest and the largest integer, as far as the carrier has them.
    pub(crate) fn range(&self) -> Option<(i64, i64)> {
        let half = 1i64 << (self.bits.min(63) - 1);
        match self.kind {
            Signed => Some((-half, half - 1)),
            Unsigned if self.bits == 64 => Some((0, i64::MAX)),
            Unsigned => Some((0, 2 * half - 1)),
            Float(..) => None,
        }
    }

    /// The elements of encoded ones, in the carrier.
    pub(crate) fn decoded(&self, bytes: Bytes, n: usize) -> Bytes {
        match self.bits {
            64 => bytes,
            bits => {
                let per_byte = 8 / bits;
                let mask = (1u32 << bits) - 1;
                // The first element lies in the lowest bits.
                let element = |at: usize| u32::from(bytes[at / per_byte]) >> (at % per_byte * bits) & mask;
                (0..n).flat_map(|at| self.number(element(at))).collect()
            }
        }
    }

    /// The number of bits, in the bytes of the carrier.
    fn number(&self, bits: u32) -> [u8; 4] {
        match self.kind {
            Unsigned => bits.to_le_bytes(),
            Signed => {
                let above = 32 - self.bits;
                ((bits << above) as i32 >> above).to_le_bytes()
            }
            Float(mantissa, bias, _) => self.float(bits, mantissa, bias).to_le_bytes(),
        }
    }

    fn float(&self, bits: u32, mantissa: u32, bias: i32) -> f32 {
        let sign = 1u32 << (self.bits - 1);
        let rest = bits & (sign - 1);
        let is_nan = match self.name {
            "float8e4m3fn" => rest == 0x7f,
            "float8e5m2" => rest > 0x7c,
            "float8e4m3fnuz" | "float8e5m2fnuz" => bits == sign,
            _ => false,
        };
        let (exponent, fraction) = (rest >> mantissa, rest & ((1 << mantissa) - 1));
        // A subnormal number has the exponent of the smallest normal one, and no leading one.
        let whole = if exponent == 0 { fraction } else { fraction | 1 << mantissa };
        let size = whole as f32 * 2f32.powi(exponent.max(1) as i32 - bias - mantissa as i32);
        let size = if self.name == "float8e5m2" && rest == 0x7c { f32::INFINITY } else { size };
        match (is_nan, bits & sign != 0) {
            (true, _) => f32::NAN,
            (false, is_negative) => {
                if is_negative {
                    -size
                } else {
                    size
                }
            }
        }
    }

    /// A tensor of another type as one of this type.
    pub(crate) fn cast(&self, x: &Expr, from: DType, saturates: bool) -> Expr {
        let carried = if from == self.carrier {
            x.clone()
        } else {
            expression(&format!("cast({x}, dtype={})", self.carrier))
        };
        match self.kind {
            Float(_, _, format) => self.rounded(&carried, format, saturates),
            _ => self.wrapped(carried),
        }
    }

    fn rounded(&self, x: &Expr, format: &str, saturates: bool) -> Expr {
        let format = if format == "e4m3fn" { String::new() } else { format!(", format={format}") };
        let saturate = if saturates { "" } else { ", saturate=false" };
        expression(&format!("small_float({x}{format}{saturate})"))
    }

    /// Integers of the carrier, whose higher bits are dropped.
    pub(crate) fn wrapped(&self, x: Expr) -> Expr {
        match (&self.kind, self.bits) {
            (Signed, bits) => {
                let half = 1i64 << (bits - 1);
                expression(&format!("remainder(({x}) + {half}, {}) - {half}", 2 * half))
            }
            (Unsigned, bits @ 1..=16) => expression(&format!("remainder({x}, {})", 1i64 << bits)),
            _ => x,
        }
    }

    /// The result of an expression on numbers of this type.
    pub(crate) fn kept(&self, x: Expr) -> Expr {
        match self.is_int() && may_leave(&x) {
            true => self.wrapped(x),
            false => x,
        }
    }
}

/// Whether a result may leave the range that its operands lie in.
fn may_leave(x: &Expr) -> bool {
    match &x.kind {
        ExprKind::Unary(UnaryOp::Neg | UnaryOp::Not, _) => true,
        ExprKind::Binary { op, .. } => matches!(
            op.value,
            BinaryOp::Add
                | BinaryOp::Sub
                | BinaryOp::Mul
                | BinaryOp::Div
                | BinaryOp::Rem
                | BinaryOp::Pow
                | BinaryOp::MatMul
        ),
        ExprKind::Call { callee, args, .. } => {
            LEAVING.contains(&callee.value.as_str())
                || callee.value == "reshape" && args.iter().any(may_leave)
        }
        _ => false,
    }
}
