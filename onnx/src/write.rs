//! The text of an imported pipeline.

use std::collections::HashSet;
use std::fmt::Write;

use engine_core::ir::{Dim, Symbol, Type};

use crate::values::{Body, Defined, Param};

/// The parts of an imported pipeline.
pub(crate) struct Parts {
    pub(crate) origin: String,
    pub(crate) name: String,
    pub(crate) inputs: Vec<(String, Type)>,
    pub(crate) params: Vec<Param>,
    pub(crate) bodies: Vec<Body>,
    pub(crate) nodes: Vec<Defined>,
    /// The names of outputs in the model, and of their nodes.
    pub(crate) outputs: Vec<(String, String)>,
    /// The types of the outputs.
    pub(crate) types: Vec<Type>,
    /// The open extents that need a value in the pipeline.
    pub(crate) settled: HashSet<String>,
}

/// The rows that a `Predict` stage of an imported pipeline computes at once.
const BATCH: usize = 32;
/// The value of an extent that the model leaves open, other than the number of rows.
const OPEN: usize = 16;

impl Parts {
    /// The text of the pipeline. `weights` is the file that its parameters come from. `given` has values of open extents.
    pub(crate) fn text(&self, weights: Option<&str>, given: &[(Symbol, usize)]) -> String {
        let mut out = format!("// {}\n(\n    name: {},\n", self.origin, quoted(&self.name));
        let rows = self.rows();
        let value = |extent: &Symbol, default| {
            given.iter().find(|(known, _)| known == extent).map_or(default, |(_, value)| *value)
        };
        let open = self.open_extents().into_iter().filter(|extent| Some(extent) != rows);
        let dims: Vec<String> =
            open.map(|extent| format!("{}: {}", quoted(&extent), value(&extent, OPEN))).collect();
        if !dims.is_empty() {
            out.push_str("    // The model leaves these extents open: `--set dims.NAME=N` changes one.\n");
            let _ = writeln!(out, "    dims: {{{}}},", dims.join(", "));
        }
        section(&mut out, "functions", self.bodies.iter().map(function));
        let inputs =
            self.inputs.iter().map(|(name, ty)| format!("{}: {}", quoted(name), quoted(&ty.to_string())));
        section(&mut out, "inputs", inputs);
        section(&mut out, "params", self.params.iter().map(param));
        section(&mut out, "nodes", self.nodes.iter().map(node));
        let rows = rows.map(|rows| (rows, value(rows, 1)));
        section(&mut out, "stages", self.stages(weights, rows).into_iter());
        out + ")\n"
    }

    fn stages(&self, weights: Option<&str>, rows: Option<(&Symbol, usize)>) -> Vec<String> {
        let load = weights.filter(|_| !self.params.is_empty());
        let load = load.map(|path| format!("\"weights\": Load(path: {})", quoted(path)));
        let outputs: Vec<String> =
            self.outputs.iter().map(|(label, node)| format!("{}: {}", quoted(label), quoted(node))).collect();
        let outputs = format!("outputs: {{{}}}", outputs.join(", "));
        let dims = rows.map(|(rows, n)| format!(", dims: {{{}: {n}}}", quoted(rows))).unwrap_or_default();
        let run = format!("\"run\": Run({outputs}{dims})");
        let predict = rows.map(|_| format!("\"predict\": Predict(batch: {BATCH}, {outputs})"));
        load.into_iter().chain([run]).chain(predict).collect()
    }

    /// The open extents of inputs, each once.
    fn open_extents(&self) -> Vec<Symbol> {
        let mut open: Vec<Symbol> = vec![];
        for name in self.inputs.iter().flat_map(|(_, ty)| &ty.shape).filter_map(Dim::name) {
            if !open.contains(name) {
                open.push(name.clone());
            }
        }
        open
    }

    /// The open leading extent that all inputs and outputs have.
    fn rows(&self) -> Option<&Symbol> {
        fn leading(ty: &Type) -> Option<&Symbol> {
            ty.shape.first().and_then(Dim::name)
        }
        let rows = self.inputs.first().and_then(|(_, ty)| leading(ty));
        let rows = rows.filter(|rows| !self.settled.contains(&***rows));
        let mut types = self.inputs.iter().map(|(_, ty)| ty).chain(&self.types);
        rows.filter(|_| types.all(|ty| leading(ty) == rows))
    }
}

fn section(out: &mut String, name: &str, entries: impl Iterator<Item = String>) {
    let entries: Vec<String> = entries.collect();
    if entries.is_empty() {
        return;
    }
    let _ = writeln!(out, "    {name}: {{");
    for entry in entries {
        let _ = writeln!(out, "        {entry},");
    }
    out.push_str("    },\n");
}

fn node(node: &Defined) -> String {
    format!("{}: {}", quoted(&node.name), quoted(&node.expr.to_string()))
}

/// The body of a loop. Patterns of its operands give names to open extents.
fn function(body: &Body) -> String {
    let extent = |dim: &Dim| if let Dim::Polynomial(_) = dim { "_".to_owned() } else { dim.to_string() };
    let pattern = |ty: &Type| {
        let extents: Vec<String> = ty.shape.iter().map(extent).collect();
        format!("{}[{}]", ty.dtype, extents.join(", "))
    };
    let inputs = body.inputs.iter().map(|(name, ty)| format!("{}: {}", quoted(name), quoted(&pattern(ty))));
    let inputs: Vec<String> = inputs.collect();
    let nodes: String =
        body.nodes.iter().map(|inner| format!("                {},\n", node(inner))).collect();
    let nodes =
        if nodes.is_empty() { nodes } else { format!("            nodes: {{\n{nodes}            }},\n") };
    let outputs = body.outputs.iter().map(|(label, result)| format!("{}: {}", quoted(label), quoted(result)));
    let outputs: Vec<String> = outputs.collect();
    format!(
        "{}: (\n            inputs: {{{}}},\n{nodes}            outputs: {{{}}},\n        )",
        quoted(&body.name),
        inputs.join(", "),
        outputs.join(", ")
    )
}

/// Parameters of floats are trained; all others are state.
fn param(param: &Param) -> String {
    let ty = Type::new(param.value.dtype, &param.value.dims);
    let (name, ty_text) = (quoted(&param.name), quoted(&ty.to_string()));
    match ty.dtype.is_float() {
        true => format!("{name}: {ty_text}"),
        false => format!("{name}: (type: {ty_text}, state: true)"),
    }
}

fn quoted(text: &str) -> String {
    let escaped = text.chars().map(|c| match c {
        '"' => "\\\"".to_owned(),
        '\\' => "\\\\".to_owned(),
        c if c.is_control() => format!("\\u{{{:x}}}", u32::from(c)),
        c => c.to_string(),
    });
    format!("\"{}\"", escaped.collect::<String>())
}
