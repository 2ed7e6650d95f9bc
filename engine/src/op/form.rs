//! The form of an op. Every field is filled in, and no default is implied.

use super::kernel::KernelForm;
use super::rows::RowReduction;
use crate::diag::{Span, nearest};
use crate::ir::{Attr, Attrs, Body, Builder, DType, Literal, Symbol, Type, Value, broadcast_shapes};
use std::sync::Arc;

/// The complete definition of an op. Its checks, kernels, gradient, reference page and tests follow from it.
#[derive(Clone)]
pub struct OpForm {
    /// Unique, snake case.
    pub name: String,
    /// The family of the op, for the reference.
    pub family: String,
    /// One sentence, starting with a capital and ending with a full stop.
    pub summary: String,
    /// Operands, in order.
    pub inputs: Vec<InputSpec>,
    /// Names of the results, in order.
    pub outputs: Vec<String>,
    /// Compile-time settings.
    pub attrs: Vec<AttrSpec>,
    /// Types of the results from types of the operands.
    pub types: TypeRule,
    /// The lowering.
    pub lower: Lower,
    /// The gradient.
    pub grad: Grad,
    /// The test of the gradient.
    pub check: GradCheck,
    /// Worked examples. Each is a test on every device and is printed in the reference.
    pub examples: Vec<Example>,
    /// The role of the op beyond its lowering.
    pub role: Role,
}

impl std::fmt::Debug for OpForm {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.name)
    }
}

/// One operand of an op.
#[derive(Clone, Debug)]
pub struct InputSpec {
    /// Name, for messages and the reference.
    pub name: String,
    /// What the operand holds, half a sentence.
    pub doc: String,
    /// Whether the operand may be omitted. Only trailing operands can be.
    pub optional: bool,
    /// The bounds of the elements, if the op is defined only between them. The upper bound may be infinite. Elements
    /// are not checked; devices are compared on elements within the bounds.
    pub range: Option<[f64; 2]>,
}

/// The kind of an attribute's value.
#[derive(Clone, Debug, PartialEq)]
pub enum AttrKind {
    /// An integer.
    Int,
    /// A number.
    Float,
    /// A truth value.
    Bool,
    /// Whether the op behaves as in training. If it is open, the stage decides.
    Mode,
    /// Any text.
    Str,
    /// One word of a list.
    Choice(Vec<String>),
    /// An element type.
    DType,
    /// A list of integers. One integer counts as a list of one.
    Ints,
    /// A list of extents.
    Shape,
    /// An element of the result: a number or truth value of its type.
    Element,
    /// A number that is compared with elements of the result. Beyond the range of their type, it saturates.
    Bound,
}

/// Half a sentence for users: "a whole number".
impl std::fmt::Display for AttrKind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            AttrKind::Int => "a whole number",
            AttrKind::Float | AttrKind::Bound => "a number",
            AttrKind::Bool | AttrKind::Mode => "`true` or `false`",
            AttrKind::Str => "a string",
            AttrKind::Choice(choices) => return write!(f, "one of `{}`", choices.join("`, `")),
            AttrKind::DType => "an element type such as `f32`",
            AttrKind::Ints => "a list of whole numbers",
            AttrKind::Shape => "a list of extents such as `[B, 64]`",
            AttrKind::Element => "a number or a truth value",
        })
    }
}

/// One attribute of an op.
#[derive(Clone, Debug)]
pub struct AttrSpec {
    /// Name.
    pub name: String,
    /// The meaning of the attribute, half a sentence.
    pub doc: String,
    /// The kind of its value.
    pub kind: AttrKind,
    /// The default. `None` if the attribute is required, `Some(Attr::None)` if it is optional without a default.
    pub default: Option<Attr>,
    /// The range of its numbers; unlimited if `None`.
    pub range: Option<AttrRange>,
}

/// The range of an attribute's numbers.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct AttrRange {
    /// The lower end, which is in the range.
    pub low: f64,
    /// The upper end, which may be infinite.
    pub high: f64,
    /// Whether the upper end is in the range. Infinity never is.
    pub is_closed: bool,
}

impl AttrRange {
    /// Whether a number is in the range.
    pub fn contains(&self, x: f64) -> bool {
        x.is_finite() && self.low <= x && (x < self.high || self.is_closed && x == self.high)
    }
}

impl std::fmt::Display for AttrRange {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let AttrRange { low, high, is_closed } = self;
        match (high.is_finite(), is_closed) {
            (false, _) => write!(f, "a finite number of at least {low}"),
            (true, true) => write!(f, "a number between {low} and {high}"),
            (true, false) => write!(f, "a number from {low} to below {high}"),
        }
    }
}

impl AttrSpec {
    /// Whether a value is a number outside the attribute's range.
    pub fn is_out_of_range(&self, value: &Attr) -> bool {
        match (self.range, value) {
            (Some(range), Attr::Lit(literal)) => !range.contains(literal.as_f64()),
            _ => false,
        }
    }

    /// Whether the attribute can hold `value`.
    pub fn admits(&self, value: &Attr) -> bool {
        !self.is_out_of_range(value) && self.is_of_kind(value)
    }

    fn is_of_kind(&self, value: &Attr) -> bool {
        match (&self.kind, value) {
            (_, Attr::None) => self.default == Some(Attr::None),
            (AttrKind::Int | AttrKind::Float | AttrKind::Ints, Attr::Lit(Literal::Int(_))) => true,
            (AttrKind::Float, Attr::Lit(Literal::Float(_))) => true,
            (AttrKind::Bool | AttrKind::Mode, Attr::Lit(Literal::Bool(_)))
            | (AttrKind::Element, Attr::Lit(_)) => true,
            (AttrKind::Bound, Attr::Lit(Literal::Int(_) | Literal::Float(_))) => true,
            (AttrKind::Str, Attr::Str(_)) | (AttrKind::DType, Attr::DType(_)) => true,
            (AttrKind::Choice(words), Attr::Str(word)) => words.iter().any(|known| **known == **word),
            (AttrKind::Ints | AttrKind::Shape, Attr::Ints(_)) | (AttrKind::Shape, Attr::Shape(_)) => true,
            _ => false,
        }
    }
}

/// Why operands do not fit an op. The caller adds the place.
#[derive(Clone, Debug, PartialEq)]
pub struct TypeIssue {
    /// The fault: lower case, no full stop, with the types.
    pub message: String,
    /// The operand at fault, and the remark at its place.
    pub operand: Option<(usize, String)>,
    /// The setting at fault.
    pub setting: Option<Box<str>>,
    /// One concrete fix.
    pub help: Option<String>,
    /// The place within a function of the pipeline where the issue arose, and the remark at that place.
    pub inside: Option<Box<(Span, String)>>,
}

impl TypeIssue {
    /// An issue of the call as a whole.
    pub fn new(message: impl Into<String>) -> TypeIssue {
        TypeIssue { message: message.into(), operand: None, setting: None, help: None, inside: None }
    }

    /// Sets the operand at fault.
    pub fn at(mut self, operand: usize, note: impl Into<String>) -> TypeIssue {
        self.operand = Some((operand, note.into()));
        self
    }

    /// Sets the setting at fault.
    pub fn at_setting(mut self, name: &str) -> TypeIssue {
        self.setting = Some(name.into());
        self
    }

    /// Sets the help.
    pub fn help(mut self, help: impl Into<String>) -> TypeIssue {
        self.help = Some(help.into());
        self
    }
}

/// The signature of a custom type rule.
pub type TypeFn = Arc<dyn Fn(&[Type], &Attrs) -> Result<Vec<Type>, TypeIssue> + Send + Sync>;

/// Types of the results from types of the operands. Extents may still be named.
#[derive(Clone)]
pub enum TypeRule {
    /// Operands broadcast. All have one element type that `allowed` admits, and so has the one result.
    Broadcast {
        /// Whether an element type is allowed.
        allowed: fn(DType) -> bool,
    },
    /// Operands broadcast and have one element type. The one result is `bool`.
    Compare,
    /// Any other rule.
    Custom(TypeFn),
}

impl TypeRule {
    /// A custom rule.
    pub fn custom(
        rule: impl Fn(&[Type], &Attrs) -> Result<Vec<Type>, TypeIssue> + Send + Sync + 'static,
    ) -> TypeRule {
        TypeRule::Custom(Arc::new(rule))
    }
}

/// The call that a lowering function expands.
pub struct Lowering<'c> {
    /// Operands. Omitted optional operands are missing at the end.
    pub inputs: &'c [Value],
    /// Attributes, defaults filled in.
    pub attrs: &'c Attrs,
}

/// The signature of a body that depends on attributes.
pub type MapFn = Arc<dyn Fn(&Attrs) -> Body + Send + Sync>;

/// The signature of an expansion: results in terms of other ops and primitives.
pub type ExpandFn = Arc<dyn Fn(&mut Builder, &Lowering) -> Vec<Value> + Send + Sync>;

/// The lowering of an op.
#[derive(Clone)]
pub enum Lower {
    /// A scalar body over broadcast operands. Small floats compute in `f32` and are rounded once at the end.
    Map(MapFn),
    /// An expansion to other ops and primitives.
    Expand(ExpandFn),
    /// An opaque computation. Lowering keeps the call, which is a kernel by itself unless its role says more.
    Kernel(KernelForm),
}

impl Lower {
    /// A body without attributes.
    pub fn map(n_params: usize, formula: fn(&[crate::ir::E]) -> crate::ir::E) -> Lower {
        Lower::Map(Arc::new(move |_| Body::new(n_params, |x| vec![formula(x)])))
    }

    /// A body that depends on attributes.
    pub fn map_with(n_params: usize, formula: fn(&[crate::ir::E], &Attrs) -> crate::ir::E) -> Lower {
        Lower::Map(Arc::new(move |attrs| Body::new(n_params, |x| vec![formula(x, attrs)])))
    }

    /// An expansion to other ops and primitives.
    pub fn expand(rule: impl Fn(&mut Builder, &Lowering) -> Vec<Value> + Send + Sync + 'static) -> Lower {
        Lower::Expand(Arc::new(rule))
    }
}

/// The call that a gradient rule differentiates.
pub struct GradCall<'c> {
    /// Operands.
    pub inputs: &'c [Value],
    /// Results.
    pub outputs: &'c [Value],
    /// Upstream gradients by result; `None` if the loss does not depend on it.
    pub grads: &'c [Option<Value>],
    /// Attributes.
    pub attrs: &'c Attrs,
}

/// The signature of a gradient rule: gradients by operand, `None` where there is none.
pub type GradFn = Arc<dyn Fn(&mut Builder, &GradCall) -> Vec<Option<Value>> + Send + Sync>;

/// The gradient of an op.
#[derive(Clone)]
pub enum Grad {
    /// Derived from the lowering: bodies symbolically, expansions step by step.
    Derive,
    /// A rule of its own, which takes precedence over the lowering.
    Rule(GradFn),
    /// No gradient.
    None {
        /// The reason, shown to a user who asks for the gradient.
        why: &'static str,
    },
}

impl Grad {
    /// A gradient rule of the op's own.
    pub fn rule(
        rule: impl Fn(&mut Builder, &GradCall) -> Vec<Option<Value>> + Send + Sync + 'static,
    ) -> Grad {
        Grad::Rule(Arc::new(rule))
    }
}

/// The test of an op's gradient.
#[derive(Clone, Debug)]
pub enum GradCheck {
    /// Central differences in f64, on the op's examples and on random operands within these bounds. Operands keep away
    /// from discontinuities of the derivative.
    FiniteDifferences {
        /// Smallest and largest operand element.
        range: (f64, f64),
        /// Operand elements closer than 1e-2 to one of these are moved away.
        avoid: &'static [f64],
    },
    /// The gradient is a convention, not a limit.
    Convention {
        /// The convention.
        why: &'static str,
        /// The gradients by example and float operand, for the upstream gradients 1, 2, 3, ... of every float result.
        grads: Vec<Vec<Vec<f64>>>,
    },
    /// The gradient has no test.
    None {
        /// The reason.
        why: &'static str,
    },
}

/// A worked example. Numbers come from an independent implementation, never from this engine.
#[derive(Clone, Debug)]
pub struct Example {
    /// What the example shows, half a sentence.
    pub title: &'static str,
    /// The call in the expression syntax, operands named `a`, `b`, `c`, ...: `softmax(a, axis=1)`.
    pub call: &'static str,
    /// Operand types and elements, row-major: `("f32[2, 2]", &[1., 2., 3., 4.])`.
    pub inputs: Vec<(&'static str, Vec<f64>)>,
    /// Result types and elements.
    pub outputs: Vec<(&'static str, Vec<f64>)>,
}

/// The role of an op beyond its lowering.
#[derive(Clone, Debug, PartialEq)]
pub enum Role {
    /// No further role.
    Plain,
    /// A function of a pipeline. Its calls are inlined before a stage selects its nodes.
    Function,
    /// An optimizer, with operands (param, grad, lr, slots…) and results (param', slots'…). `slots` names the state
    /// that it keeps for each parameter. A slot has the parameter's type and starts at zero.
    Optimizer {
        /// Names of the slots: `["m", "v"]`.
        slots: Vec<String>,
    },
    /// A row reduction: the op folds the rows of its one operand, along the last axis, piece by piece.
    RowReduction(RowReduction),
}

impl OpForm {
    /// Types of the results. The number of operands and the attributes are checked first.
    pub fn infer(&self, inputs: &[Type], attrs: &Attrs) -> Result<Vec<Type>, TypeIssue> {
        self.check_arity(inputs.len())?;
        self.check_attrs(attrs)?;
        let results = self.results(inputs, attrs)?;
        if let Some(result) = results.first() {
            self.attrs
                .iter()
                .try_for_each(|spec| check_element(spec, attrs.0.get(&*spec.name), result.dtype))?;
        }
        Ok(results)
    }

    fn results(&self, inputs: &[Type], attrs: &Attrs) -> Result<Vec<Type>, TypeIssue> {
        match &self.types {
            TypeRule::Broadcast { allowed } => {
                let dtype = self.common_dtype(inputs)?;
                if !allowed(dtype) {
                    return Err(TypeIssue::new(format!("`{}` does not take {dtype}", self.name))
                        .at(0, format!("this is {}", inputs[0]))
                        .help("convert it with `cast(x, dtype=f32)`"));
                }
                Ok(vec![Type { dtype, shape: self.broadcast(inputs)? }])
            }
            TypeRule::Compare => {
                self.common_dtype(inputs)?;
                Ok(vec![Type { dtype: DType::Bool, shape: self.broadcast(inputs)? }])
            }
            TypeRule::Custom(rule) => rule(inputs, attrs),
        }
    }

    /// Attributes with defaults filled in. Given ones are unchanged.
    pub fn fill_attrs(&self, given: Attrs) -> Attrs {
        let mut attrs = given;
        for spec in &self.attrs {
            if let Some(default) = &spec.default {
                attrs.0.entry(spec.name.as_str().into()).or_insert_with(|| default.clone());
            }
        }
        attrs
    }

    /// The help for a setting that the op does not have.
    pub fn other_setting(&self, name: &str) -> String {
        let known: Vec<&str> = self.attrs.iter().map(|spec| spec.name.as_str()).collect();
        match (nearest(name, known.iter().copied()), known.is_empty()) {
            (Some(near), _) => format!("did you mean `{near}`?"),
            (None, true) => "it has none".to_owned(),
            (None, false) => format!("its settings are `{}`", known.join("`, `")),
        }
    }

    fn check_attrs(&self, attrs: &Attrs) -> Result<(), TypeIssue> {
        let is_known = |name: &Symbol| self.attrs.iter().any(|spec| *spec.name == **name);
        if let Some(name) = attrs.0.keys().find(|name| !is_known(name)) {
            let issue = TypeIssue::new(format!("`{}` has no setting `{name}`", self.name));
            return Err(issue.at_setting(name).help(self.other_setting(name)));
        }
        self.attrs.iter().try_for_each(|spec| {
            let issue = |message, help| TypeIssue::new(message).at_setting(&spec.name).help(help);
            let Some(value) = attrs.0.get(spec.name.as_str()) else {
                let message = format!("`{}` needs the setting `{}`", self.name, spec.name);
                return Err(issue(message, format!("add `{}=…`: {}", spec.name, spec.doc)));
            };
            let message = || format!("`{}` of `{}` cannot be {value}", spec.name, self.name);
            match (spec.range, spec.admits(value)) {
                (_, true) => Ok(()),
                (Some(range), _) if spec.is_out_of_range(value) => {
                    Err(issue(message(), format!("it is {range}")))
                }
                _ => Err(issue(message(), format!("it is {}", spec.kind))),
            }
        })
    }

    fn check_arity(&self, n_inputs: usize) -> Result<(), TypeIssue> {
        let needed = self.inputs.iter().filter(|input| !input.optional).count();
        if (needed..=self.inputs.len()).contains(&n_inputs) {
            return Ok(());
        }
        let names: Vec<&str> = self.inputs.iter().map(|input| input.name.as_str()).collect();
        let takes = if needed == self.inputs.len() {
            needed.to_string()
        } else {
            format!("{needed} to {}", names.len())
        };
        Err(TypeIssue::new(format!("`{}` takes {takes} operands, {n_inputs} given", self.name))
            .help(format!("it is called as `{}({})`", self.name, names.join(", "))))
    }

    fn common_dtype(&self, inputs: &[Type]) -> Result<DType, TypeIssue> {
        let dtype = inputs[0].dtype;
        match inputs.iter().position(|ty| ty.dtype != dtype) {
            None => Ok(dtype),
            Some(i) => Err(TypeIssue::new(format!("`{}` of {dtype} and {}", self.name, inputs[i].dtype))
                .at(i, format!("this is {}", inputs[i]))
                .help(format!("convert one of them, for example with `cast(x, dtype={dtype})`"))),
        }
    }

    fn broadcast(&self, inputs: &[Type]) -> Result<Vec<crate::ir::Dim>, TypeIssue> {
        for i in 1..inputs.len() {
            if broadcast_shapes(&inputs[..=i]).is_none() {
                return Err(TypeIssue::new(format!("cannot broadcast {} with {}", inputs[0], inputs[i]))
                    .at(i, format!("this is {}", inputs[i]))
                    .help("trailing axes must agree or be 1"));
            }
        }
        Ok(broadcast_shapes(inputs).unwrap_or_default())
    }
}

/// Checks that a setting can be an element of that type, or be compared with one.
fn check_element(spec: &AttrSpec, attr: Option<&Attr>, dtype: DType) -> Result<(), TypeIssue> {
    let Some(Attr::Lit(literal)) = attr else { return Ok(()) };
    let is_fit = match spec.kind {
        AttrKind::Element => literal.element(dtype).is_some(),
        AttrKind::Bound => dtype.is_float() || !literal.as_f64().is_nan(),
        _ => true,
    };
    if is_fit {
        return Ok(());
    }
    let issue = TypeIssue::new(format!("`{literal}` is no element of {dtype}")).at_setting(&spec.name);
    Err(issue.help(format!(
        "`{}` becomes an element of the result, which is {dtype}: {}",
        spec.name,
        range_of(dtype)
    )))
}

/// The elements of a type, in words for users.
fn range_of(dtype: DType) -> String {
    match dtype.int_range() {
        Some((low, high)) => format!("whole numbers from {low} to {high}"),
        None if dtype == DType::Bool => "`true` or `false`".into(),
        None => format!("numbers up to {:e}, and infinite ones", dtype.largest()),
    }
}
