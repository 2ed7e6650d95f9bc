//! The form of an op.

use super::attr::check_element;
use super::kernel::KernelForm;
use super::rounding::Rounding;
use super::rows::RowReduction;
use crate::diag::nearest;
use crate::ir::{AttrSpec, Attrs, Body, Builder, DType, Symbol, Type, TypeIssue, Value, broadcast_shapes};
use std::sync::Arc;

/// The complete definition of an op. Its checks, kernels, gradient, reference page and tests follow from it.
/// [`OpForm::new`] and other constructors fill in the fields that most ops share.
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
    /// How it takes part in mixed precision. [`OpForm::rounding_rule`] completes it.
    pub rounding: Rounding,
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
    /// The contents of the operand, half a sentence; of a function, its pattern and default, if it has any.
    pub doc: String,
    /// Whether the operand may be omitted. Only trailing operands can be.
    pub optional: bool,
    /// The bounds of the elements, if the op is defined only between them. The upper bound may be infinite. Elements
    /// are not checked; devices are compared on elements within the bounds.
    pub range: Option<[f64; 2]>,
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
    /// The subject of the example, half a sentence.
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
    /// A function of a pipeline. Its calls are written out when the pipeline is read.
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
        let results = self.result_types(inputs, attrs)?;
        if let Some(result) = results.first() {
            self.attrs
                .iter()
                .try_for_each(|spec| check_element(spec, attrs.0.get(&*spec.name), result.dtype))?;
        }
        Ok(results)
    }

    fn result_types(&self, inputs: &[Type], attrs: &Attrs) -> Result<Vec<Type>, TypeIssue> {
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
        given.filled(&self.attrs)
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
                return Err(issue(message, spec.wanted()));
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

    pub(crate) fn check_arity(&self, n_inputs: usize) -> Result<(), TypeIssue> {
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
