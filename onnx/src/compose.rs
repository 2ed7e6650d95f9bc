//! Rows of the table whose results are calls of other ops of ONNX: each call becomes a node of its own.

use std::collections::BTreeMap;

use engine_core::diag::Diagnostic;
use engine_core::text::expr::{Expr, ExprKind};

use crate::known::Number;
use crate::node::{Attribute, Node};
use crate::scope::{Scope, Setting};
use crate::table::Row;
use crate::values::Values;

/// A node of the standard domain, beside another one.
pub(crate) fn node_of(
    outer: &Node,
    op: &str,
    inputs: Vec<String>,
    outputs: Vec<String>,
    attributes: impl IntoIterator<Item = (&'static str, Attribute)>,
) -> Node {
    Node {
        op: op.to_owned(),
        domain: String::new(),
        name: outer.name.clone(),
        inputs,
        outputs,
        attributes: attributes.into_iter().map(|(name, value)| (name.to_owned(), value)).collect(),
    }
}

/// The nodes that a row calls for a node.
///
/// # Errors
/// If a setting is not known, or a result is no call.
pub(crate) fn compose(values: &Values, node: &Node, row: &Row) -> Result<Vec<Node>, Diagnostic> {
    let scope = Scope { node, row, values };
    let mut composer = Composer { scope, nodes: vec![], first: None };
    for (output, result) in node.outputs.iter().zip(&row.results).filter(|(output, _)| !output.is_empty()) {
        composer.result(result, output)?;
        composer.first.get_or_insert(output.clone());
    }
    Ok(composer.nodes)
}

/// Calls on their way to nodes.
struct Composer<'s> {
    scope: Scope<'s>,
    nodes: Vec<Node>,
    /// The name of the first result, for the further ones.
    first: Option<String>,
}

impl Composer<'_> {
    fn node(&self) -> &Node {
        self.scope.node
    }

    /// Gives a result its name.
    fn result(&mut self, expr: &Expr, output: &str) -> Result<(), Diagnostic> {
        let found = self.value(expr, Some(output))?;
        if found != output {
            let copy = node_of(self.node(), "Identity", vec![found], vec![output.to_owned()], []);
            self.nodes.push(copy);
        }
        Ok(())
    }

    /// The name of the value that an expression stands for; empty if it is left out. A call gives its result the wanted name.
    fn value(&mut self, expr: &Expr, wanted: Option<&str>) -> Result<String, Diagnostic> {
        match &expr.kind {
            ExprKind::Name(name) if name == "y" && self.first.is_some() => {
                Ok(self.first.clone().unwrap_or_default())
            }
            ExprKind::Name(name) => match self.scope.operand(name) {
                Some(names) => Ok(names.first().map(|name| (*name).to_owned()).unwrap_or_default()),
                None => self.number(expr),
            },
            ExprKind::Call { callee, args, .. } if callee.value == "when" && args.len() == 3 => {
                let chosen = if self.scope.condition(&args[0])? { &args[1] } else { &args[2] };
                self.value(chosen, wanted)
            }
            ExprKind::Call { callee, args, .. } if callee.value == "activated" && args.len() == 3 => {
                let x = self.value(&args[0], None)?;
                self.activated(x, [&args[1], &args[2]], wanted)
            }
            ExprKind::Call { callee, args, named } => {
                let mut inputs = vec![];
                for arg in args {
                    inputs.push(self.value(arg, None)?);
                }
                let mut attributes = BTreeMap::new();
                for (name, value) in named {
                    if let Some(attribute) = self.attribute(value)? {
                        attributes.insert(name.value.clone(), attribute);
                    }
                }
                let call = node_of(self.node(), &callee.value, inputs, vec![], []);
                Ok(self.push(Node { attributes, ..call }, wanted))
            }
            _ => self.number(expr),
        }
    }

    /// Adds a node, and returns the name of its result.
    fn push(&mut self, node: Node, wanted: Option<&str>) -> String {
        let stem = self.node().outputs.iter().find(|name| !name.is_empty()).map_or("", String::as_str);
        let name = wanted.map_or_else(|| format!("{stem}/{}", self.nodes.len()), str::to_owned);
        self.nodes.push(Node { outputs: vec![name.clone()], ..node });
        name
    }

    /// A setting as a constant; an empty name if it is left out.
    fn number(&mut self, expr: &Expr) -> Result<String, Diagnostic> {
        let (name, value) = match self.attribute(expr)? {
            Some(value @ Attribute::Int(_)) => ("value_int", value),
            Some(value @ Attribute::Float(_)) => ("value_float", value),
            Some(value @ Attribute::Ints(_)) => ("value_ints", value),
            Some(value @ Attribute::Floats(_)) => ("value_floats", value),
            None => return Ok(String::new()),
            _ => return Err(self.scope.fault(format!("has no number `{expr}`"))),
        };
        let constant = node_of(self.node(), "Constant", vec![], vec![], [(name, value)]);
        Ok(self.push(constant, None))
    }

    /// A setting as an attribute; nothing if it is left out.
    fn attribute(&self, expr: &Expr) -> Result<Option<Attribute>, Diagnostic> {
        let unfit = || self.scope.fault(format!("has an unexpected `{expr}`"));
        Ok(Some(match self.scope.setting(expr)? {
            Setting::Absent => return Ok(None),
            Setting::Text(text) => Attribute::Text(text),
            Setting::Number(Number::Float(x)) => Attribute::Float(x),
            Setting::Number(number) => Attribute::Int(number.int().ok_or_else(unfit)?),
            Setting::List(items) => match items.iter().map(Number::int).collect::<Option<_>>() {
                Some(ints) => Attribute::Ints(ints),
                None => Attribute::Floats(
                    items.iter().map(Number::float).collect::<Option<_>>().ok_or_else(unfit)?,
                ),
            },
        }))
    }

    /// A value under the activation function that an attribute names, with its parameters.
    fn activated(
        &mut self,
        x: String,
        [kind, params]: [&Expr; 2],
        wanted: Option<&str>,
    ) -> Result<String, Diagnostic> {
        let kind = match self.scope.setting(kind)? {
            Setting::Text(kind) if !kind.is_empty() => kind,
            _ => return Ok(x),
        };
        let params = match self.scope.setting(params)? {
            Setting::List(items) => items.iter().filter_map(Number::float).collect(),
            _ => vec![],
        };
        let names: &[&'static str] = match kind.as_str() {
            "Relu" | "Sigmoid" | "Tanh" | "Softplus" | "Softsign" | "HardSwish" | "Gelu" | "Swish" => &[],
            "LeakyRelu" | "Elu" | "ThresholdedRelu" => &["alpha"],
            "HardSigmoid" => &["alpha", "beta"],
            "Clip" => return self.clipped(x, &params, wanted),
            other => return Err(self.scope.fault(format!("has the activation `{other}`"))),
        };
        let attributes = names.iter().zip(params).map(|(name, value)| (*name, Attribute::Float(value)));
        let call = node_of(self.node(), &kind, vec![x], vec![], attributes);
        Ok(self.push(call, wanted))
    }

    fn clipped(&mut self, x: String, params: &[f64], wanted: Option<&str>) -> Result<String, Diagnostic> {
        let mut inputs = vec![x];
        for bound in params.iter().take(2) {
            let value = [("value_float", Attribute::Float(*bound))];
            let constant = node_of(self.node(), "Constant", vec![], vec![], value);
            inputs.push(self.push(constant, None));
        }
        let call = node_of(self.node(), "Clip", inputs, vec![], []);
        Ok(self.push(call, wanted))
    }
}
