//! Parts of forms that all families share: operands, attributes, axes, element types.

use super::{AttrKind, AttrRange, AttrSpec, Example, InputSpec, TypeIssue};
use crate::ir::{Attr, Attrs, DType, Literal, Type};

/// Unwraps a value that the type rule has checked, so that it cannot fail in the lowering.
pub fn checked<T>(found: Result<T, TypeIssue>) -> T {
    found.unwrap_or_else(|issue| crate::bug!("the type rule let this pass: {}", issue.message))
}

impl InputSpec {
    /// A required operand.
    pub fn required(name: &str, doc: &str) -> InputSpec {
        InputSpec { name: name.into(), doc: doc.into(), optional: false, range: None }
    }

    /// An optional operand.
    pub fn optional(name: &str, doc: &str) -> InputSpec {
        InputSpec { name: name.into(), doc: doc.into(), optional: true, range: None }
    }

    /// This operand with elements between two numbers.
    pub fn between(self, low: f64, high: f64) -> InputSpec {
        InputSpec { range: Some([low, high]), ..self }
    }
}

impl AttrSpec {
    /// An attribute with a default.
    pub fn with_default(name: &str, doc: &str, kind: AttrKind, default: impl Into<Attr>) -> AttrSpec {
        AttrSpec { name: name.into(), doc: doc.into(), kind, default: Some(default.into()), range: None }
    }

    /// A number with a default.
    pub fn float(name: &str, doc: &str, default: f64) -> AttrSpec {
        AttrSpec::with_default(name, doc, AttrKind::Float, default)
    }

    /// An integer with a default.
    pub fn int(name: &str, doc: &str, default: i64) -> AttrSpec {
        AttrSpec::with_default(name, doc, AttrKind::Int, default)
    }

    /// A truth value with a default.
    pub fn flag(name: &str, doc: &str, default: bool) -> AttrSpec {
        AttrSpec::with_default(name, doc, AttrKind::Bool, default)
    }

    /// An element of the result with a default.
    pub fn element(name: &str, doc: &str, default: impl Into<Attr>) -> AttrSpec {
        AttrSpec::with_default(name, doc, AttrKind::Element, default)
    }

    /// One of some words. The first is the default.
    pub fn choice(name: &str, doc: &str, words: &[&str]) -> AttrSpec {
        AttrSpec::with_default(name, doc, AttrKind::choice(words), words[0])
    }

    /// An element type with a default.
    pub fn dtype(name: &str, doc: &str, default: DType) -> AttrSpec {
        AttrSpec::with_default(name, doc, AttrKind::DType, default)
    }

    /// An optional attribute without a default.
    pub fn open(name: &str, doc: &str, kind: AttrKind) -> AttrSpec {
        AttrSpec { name: name.into(), doc: doc.into(), kind, default: Some(Attr::None), range: None }
    }

    /// Whether the op behaves as in training. Training stages train and all others do not, unless the call sets it.
    /// [`Attrs::trains`] reads it.
    pub fn mode(name: &str, doc: &str) -> AttrSpec {
        AttrSpec::open(name, doc, AttrKind::Mode)
    }

    /// This attribute for finite numbers of at least `low`.
    pub fn at_least(self, low: f64) -> AttrSpec {
        AttrSpec { range: Some(AttrRange { low, high: f64::INFINITY, is_closed: false }), ..self }
    }

    /// This attribute for numbers from `low` to `high`.
    pub fn between(self, low: f64, high: f64) -> AttrSpec {
        AttrSpec { range: Some(AttrRange { low, high, is_closed: true }), ..self }
    }

    /// This attribute for numbers from `low` to below `high`.
    pub fn below(self, low: f64, high: f64) -> AttrSpec {
        AttrSpec { range: Some(AttrRange { low, high, is_closed: false }), ..self }
    }

    /// A required attribute.
    pub fn must(name: &str, doc: &str, kind: AttrKind) -> AttrSpec {
        AttrSpec { name: name.into(), doc: doc.into(), kind, default: None, range: None }
    }
}

impl AttrKind {
    /// A choice of one word.
    pub fn choice(words: &[&str]) -> AttrKind {
        AttrKind::Choice(words.iter().map(|word| word.to_string()).collect())
    }
}

impl Example {
    /// An example from its call, operands and results, as (type, elements).
    pub fn new(
        title: &'static str,
        call: &'static str,
        inputs: &[(&'static str, &[f64])],
        outputs: &[(&'static str, &[f64])],
    ) -> Example {
        let owned = |tensors: &[(&'static str, &[f64])]| {
            tensors.iter().map(|(ty, elements)| (*ty, elements.to_vec())).collect()
        };
        Example { title, call, inputs: owned(inputs), outputs: owned(outputs) }
    }
}

impl From<i64> for Attr {
    fn from(n: i64) -> Attr {
        Attr::Lit(Literal::Int(n))
    }
}

impl From<f64> for Attr {
    fn from(x: f64) -> Attr {
        Attr::Lit(Literal::Float(x))
    }
}

impl From<bool> for Attr {
    fn from(b: bool) -> Attr {
        Attr::Lit(Literal::Bool(b))
    }
}

impl From<&str> for Attr {
    fn from(word: &str) -> Attr {
        Attr::Str(word.into())
    }
}

impl From<DType> for Attr {
    fn from(dtype: DType) -> Attr {
        Attr::DType(dtype)
    }
}

impl Type {
    /// The axis for a user's `axis`. Negative numbers count from the end.
    ///
    /// # Errors
    /// If the axis does not exist.
    pub fn axis(&self, axis: i64) -> Result<usize, TypeIssue> {
        let rank = self.rank() as i64;
        if (-rank..rank).contains(&axis) {
            return Ok(axis.rem_euclid(rank) as usize);
        }
        let has = match rank {
            0 => "it is a scalar".to_owned(),
            1 => "its only axis is 0".to_owned(),
            _ => format!("its axes are 0 to {}, or {} to -1 from the end", rank - 1, -rank),
        };
        Err(TypeIssue::new(format!("{self} has no axis {axis}")).at(0, format!("this is {self}")).help(has))
    }

    /// The axes in the attribute `axis`, ascending. All axes if the attribute is open.
    ///
    /// # Errors
    /// If one does not exist or is named twice.
    pub fn axes(&self, attrs: &Attrs) -> Result<Vec<usize>, TypeIssue> {
        let Some(given) = attrs.opt_ints("axis") else { return Ok((0..self.rank()).collect()) };
        let mut axes = given.iter().map(|&axis| self.axis(axis)).collect::<Result<Vec<_>, _>>()?;
        axes.sort_unstable();
        match axes.windows(2).find(|pair| pair[0] == pair[1]) {
            None => Ok(axes),
            Some(pair) => Err(TypeIssue::new(format!("axis {} of {self} is named twice", pair[0]))
                .at(0, format!("this is {self}"))),
        }
    }

    /// Checks that the element type is one that `op` takes.
    ///
    /// # Errors
    /// If it is not. The issue points at `operand`.
    pub fn expect_dtype(
        &self,
        op: &str,
        operand: usize,
        allowed: fn(DType) -> bool,
        wanted: &str,
    ) -> Result<(), TypeIssue> {
        if allowed(self.dtype) {
            return Ok(());
        }
        Err(TypeIssue::new(format!("`{op}` takes {wanted} here, not {}", self.dtype))
            .at(operand, format!("this is {self}"))
            .help("convert it with `cast`"))
    }
}
