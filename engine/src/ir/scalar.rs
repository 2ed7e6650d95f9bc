//! The scalar primitives, which run at one point of a fused kernel.

use super::{DType, Symbol};
use std::fmt;
use std::sync::Arc;

macro_rules! named_ops {
    ($(#[$meta:meta])* $name:ident { $($(#[$doc:meta])* $variant:ident = $text:literal),* $(,)? }) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum $name { $($(#[$doc])* $variant),* }

        impl $name {
            /// All of them, in order of declaration.
            pub const ALL: &'static [$name] = &[$($name::$variant),*];

            /// The name in the text form.
            pub const fn name(self) -> &'static str {
                match self { $($name::$variant => $text),* }
            }
        }
    };
}

named_ops! {
    /// Primitives of one operand. NaN in, NaN out.
    Unary {
        /// `-x`
        Neg = "neg",
        /// `|x|`
        Abs = "abs",
        /// -1, 0 or 1; zero keeps its sign, NaN stays.
        Sign = "sign",
        /// eˣ
        Exp = "exp",
        /// eˣ - 1, exact near 0.
        Expm1 = "expm1",
        /// ln x
        Log = "log",
        /// ln(1 + x), exact near 0.
        Log1p = "log1p",
        /// √x
        Sqrt = "sqrt",
        /// 1/√x
        Rsqrt = "rsqrt",
        /// 1/x
        Recip = "recip",
        /// sin x
        Sin = "sin",
        /// cos x
        Cos = "cos",
        /// tanh x
        Tanh = "tanh",
        /// The error function.
        Erf = "erf",
        /// Largest integer not above x.
        Floor = "floor",
        /// Smallest integer not below x.
        Ceil = "ceil",
        /// x towards zero.
        Trunc = "trunc",
        /// Nearest integer, halves to even.
        Round = "round",
        /// Logical not of a bool, bitwise not of an integer.
        Not = "not",
        /// The number of bits of an integer that are 1.
        Popcount = "popcount",
        /// Whether x is NaN.
        IsNan = "is_nan",
    }
}

named_ops! {
    /// Primitives of two operands of one type.
    Binary {
        /// a + b
        Add = "add",
        /// a - b
        Sub = "sub",
        /// a · b
        Mul = "mul",
        /// a / b; integers divide towards zero.
        Div = "div",
        /// Remainder with the sign of a.
        Rem = "rem",
        /// aᵇ
        Pow = "pow",
        /// The larger; NaN if either is NaN.
        Max = "max",
        /// The smaller; NaN if either is NaN.
        Min = "min",
        /// a = b
        Eq = "eq",
        /// a ≠ b
        Ne = "ne",
        /// a < b
        Lt = "lt",
        /// a ≤ b
        Le = "le",
        /// a > b
        Gt = "gt",
        /// a ≥ b
        Ge = "ge",
        /// Logical and of bools, bitwise and of integers.
        And = "and",
        /// Logical or of bools, bitwise or of integers.
        Or = "or",
        /// Exclusive or.
        Xor = "xor",
        /// Shift left.
        Shl = "shl",
        /// Shift right; zeros come in for unsigned types.
        Shr = "shr",
    }
}

impl Binary {
    /// Whether the result is a bool for operands of every type.
    pub const fn is_comparison(self) -> bool {
        matches!(self, Binary::Eq | Binary::Ne | Binary::Lt | Binary::Le | Binary::Gt | Binary::Ge)
    }

    /// Whether the result is discontinuous in an operand.
    pub const fn has_jumps(self) -> bool {
        self.is_comparison() || matches!(self, Binary::Rem)
    }

    /// Whether exchanging the operands leaves the result bit-identical.
    pub const fn is_commutative(self) -> bool {
        matches!(
            self,
            Binary::Add
                | Binary::Mul
                | Binary::Max
                | Binary::Min
                | Binary::Eq
                | Binary::Ne
                | Binary::And
                | Binary::Or
                | Binary::Xor
        )
    }
}

/// A scalar function of a plugin that the language lacks.
///
/// It is compared and hashed by `key` alone, never by function address. So the key must change when the function
/// changes.
pub struct Foreign {
    /// Unique name and version, such as `acme.bessel_j0@1`.
    pub key: Symbol,
    /// Number of operands. All have one float type, which is also the type of the result.
    pub arity: usize,
    /// The function of one element in double precision, for the oracle.
    pub f64: fn(&[f64]) -> f64,
    /// The function of a block of elements in single precision: operands of equal length, then the result.
    pub f32_slice: fn(&[&[f32]], &mut [f32]),
    /// Partial derivatives by operand, as scalar bodies of the operands.
    pub partials: fn(&[super::E]) -> Vec<super::E>,
    /// Appends the function to a CubeCL scope: operands in, result out, all `f32`.
    pub cube: fn(
        &mut cubecl_core::prelude::Scope,
        &[cubecl_core::prelude::NativeExpand<f32>],
    ) -> cubecl_core::prelude::NativeExpand<f32>,
}

impl fmt::Debug for Foreign {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.key)
    }
}
impl PartialEq for Foreign {
    fn eq(&self, other: &Self) -> bool {
        self.key == other.key
    }
}
impl Eq for Foreign {}
impl std::hash::Hash for Foreign {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        self.key.hash(state)
    }
}

/// One scalar primitive.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Scalar {
    /// One operand.
    Unary(Unary),
    /// Two operands.
    Binary(Binary),
    /// `select(c, a, b)`: a where c holds, else b. The unselected operand has no effect.
    Select,
    /// `mul_add(a, b, c)`: a·b + c, rounded once where the device can.
    MulAdd,
    /// Conversion. Float to integer truncates and saturates, NaN becomes 0; to bool is `x != 0`.
    Cast(DType),
    /// A plugin's function.
    Foreign(Arc<Foreign>),
}

impl Scalar {
    /// Whether float results are rounded. An operand, a sign or a truth value that is passed on is exact.
    pub fn is_rounded(&self) -> bool {
        match self {
            Scalar::Unary(op) => !matches!(
                op,
                Unary::Neg
                    | Unary::Abs
                    | Unary::Sign
                    | Unary::Floor
                    | Unary::Ceil
                    | Unary::Trunc
                    | Unary::Round
                    | Unary::Not
                    | Unary::Popcount
                    | Unary::IsNan
            ),
            Scalar::Binary(op) => matches!(
                op,
                Binary::Add | Binary::Sub | Binary::Mul | Binary::Div | Binary::Rem | Binary::Pow
            ),
            Scalar::Select => false,
            Scalar::Cast(dtype) => matches!(dtype, DType::F16 | DType::BF16),
            Scalar::MulAdd | Scalar::Foreign(_) => true,
        }
    }

    /// The primitive for truth values: a sum holds where one of them does, a product where both do.
    pub(super) fn of_truth_values(self) -> Scalar {
        match self {
            Scalar::Binary(Binary::Add) => Scalar::Binary(Binary::Or),
            Scalar::Binary(Binary::Mul) => Scalar::Binary(Binary::And),
            other => other,
        }
    }

    /// Number of operands.
    pub fn arity(&self) -> usize {
        match self {
            Scalar::Unary(_) | Scalar::Cast(_) => 1,
            Scalar::Binary(_) => 2,
            Scalar::Select | Scalar::MulAdd => 3,
            Scalar::Foreign(foreign) => foreign.arity,
        }
    }

    /// The name in the text form, without its [`setting`](Scalar::setting).
    pub(crate) fn word(&self) -> &str {
        match self {
            Scalar::Foreign(_) => "foreign",
            other => other.name(),
        }
    }

    /// The setting in the text form of a cast or a foreign function, after the operands.
    pub(crate) fn setting(&self) -> Option<String> {
        match self {
            Scalar::Cast(dtype) => Some(format!("dtype={dtype}")),
            Scalar::Foreign(foreign) => Some(format!("key={:?}", foreign.key)),
            _ => None,
        }
    }

    /// The name in messages and kernels. The name of a foreign function is its key.
    pub fn name(&self) -> &str {
        match self {
            Scalar::Unary(op) => op.name(),
            Scalar::Binary(op) => op.name(),
            Scalar::Select => "select",
            Scalar::MulAdd => "mul_add",
            Scalar::Cast(_) => "cast",
            Scalar::Foreign(foreign) => &foreign.key,
        }
    }

    /// The primitive with that name. Casts and foreign functions need a setting besides their name.
    pub fn from_name(name: &str) -> Option<Scalar> {
        if let Some(op) = Unary::ALL.iter().find(|op| op.name() == name) {
            return Some(Scalar::Unary(*op));
        }
        if let Some(op) = Binary::ALL.iter().find(|op| op.name() == name) {
            return Some(Scalar::Binary(*op));
        }
        match name {
            "select" => Some(Scalar::Select),
            "mul_add" => Some(Scalar::MulAdd),
            _ => None,
        }
    }

    /// The element type of the result for operands of these types.
    pub fn result(&self, operands: &[DType]) -> DType {
        match self {
            Scalar::Unary(Unary::IsNan) => DType::Bool,
            Scalar::Binary(op) if op.is_comparison() => DType::Bool,
            Scalar::Select => operands[1],
            Scalar::Cast(dtype) => *dtype,
            _ => operands[0],
        }
    }
}
