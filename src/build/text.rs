//! The text of a built pipeline.

use std::collections::{HashMap, HashSet};
use std::fmt::Write;
use std::sync::Arc;

use super::pipeline::PipelineBuilder;
use super::terms::{Expr, Form, Value};

impl PipelineBuilder {
    /// The pipeline as a file of the format of `docs/graph-format.md`.
    ///
    /// ```
    /// use engine::build::PipelineBuilder;
    ///
    /// let mut p = PipelineBuilder::new("half");
    /// let x = p.input("x", "f32[B]");
    /// p.node("y", x / 2.0);
    /// assert!(p.text().contains(r#""y": "x / 2.0""#), "{}", p.text());
    /// ```
    pub fn text(&self) -> String {
        text(self)
    }
}

/// The text of a pipeline. Expressions that are used several times, or by a stage, become nodes.
fn text(pipeline: &PipelineBuilder) -> String {
    let mut names = Names::of(pipeline);
    let stages: Vec<(String, Value)> =
        pipeline.stages.iter().map(|(name, stage)| (name.clone(), names.by_name(stage))).collect();
    let layers = names.lines(&pipeline.layers);
    let nodes = names.lines(&pipeline.nodes);
    let mut out = String::from("(\n");
    for (name, value) in &pipeline.settings {
        let _ = writeln!(out, "    {name}: {},", ron(value));
    }
    for (field, entries) in [
        ("dims", &pipeline.dims),
        ("data", &pipeline.data),
        ("inputs", &pipeline.inputs),
        ("params", &pipeline.params),
        ("layers", &layers),
        ("nodes", &[names.chosen, nodes].concat()),
        ("stages", &stages),
    ] {
        if entries.is_empty() {
            continue;
        }
        let _ = writeln!(out, "    {field}: {{");
        for (name, value) in entries {
            let _ = writeln!(out, "        {}: {},", quoted(name), ron(value));
        }
        out.push_str("    },\n");
    }
    out + ")\n"
}

/// The names of expressions that become nodes.
struct Names {
    /// How often each expression is used, by address.
    uses: HashMap<*const Form, usize>,
    known: HashMap<*const Form, String>,
    taken: HashSet<String>,
    /// Nodes with chosen names, each after those that it reads.
    chosen: Vec<(String, Value)>,
}

impl Names {
    fn of(pipeline: &PipelineBuilder) -> Names {
        let named = [&pipeline.inputs, &pipeline.params].into_iter().flatten().map(|(name, _)| name);
        let written = [&pipeline.layers, &pipeline.nodes].into_iter().flatten();
        let taken = named.chain(written.clone().map(|(name, _)| name)).cloned().collect();
        let mut names = Names { uses: HashMap::new(), known: HashMap::new(), taken, chosen: vec![] };
        written.for_each(|(_, expr)| names.count(expr));
        pipeline.stages.iter().for_each(|(_, stage)| stage.tensors(&mut |expr| names.count(expr)));
        names
    }

    fn count(&mut self, expr: &Expr) {
        let uses = self.uses.entry(Arc::as_ptr(&expr.0)).or_insert(0);
        *uses += 1;
        if *uses > 1 {
            return;
        }
        match &*expr.0 {
            Form::Name(_) | Form::Number(_) => {}
            Form::Infix(_, operands) => operands.iter().for_each(|operand| self.count(operand)),
            Form::Minus(operand) => self.count(operand),
            Form::Call { operands, .. } => operands.iter().for_each(|operand| self.count(operand)),
        }
    }

    /// A value in which tensors are names.
    fn by_name(&mut self, value: &Value) -> Value {
        let fields = |names: &mut Names, fields: &[(String, Value)]| {
            fields.iter().map(|(name, value)| (name.clone(), names.by_name(value))).collect()
        };
        match value {
            Value::Tensor(expr) => Value::Text(self.name(expr)),
            Value::List(values) => Value::List(values.iter().map(|value| self.by_name(value)).collect()),
            Value::Word(word, of) => Value::Word(word.clone(), fields(self, of)),
            Value::Map(of) => Value::Map(fields(self, of)),
            other => other.clone(),
        }
    }

    fn lines(&mut self, entries: &[(String, Expr)]) -> Vec<(String, Value)> {
        entries.iter().map(|(name, expr)| (name.clone(), Value::Text(self.whole(expr)))).collect()
    }

    /// The name of an expression, which becomes a node unless it has one.
    fn name(&mut self, expr: &Expr) -> String {
        if let Some(name) = expr.name() {
            return name.to_owned();
        }
        let key = Arc::as_ptr(&expr.0);
        if let Some(name) = self.known.get(&key) {
            return name.clone();
        }
        let text = self.whole(expr);
        let stem = match &*expr.0 {
            Form::Call { op, .. } => op.to_lowercase(),
            _ => "value".to_owned(),
        };
        let numbered = (1..).map(|number| format!("{stem}_{number}"));
        let free = numbered.into_iter().find(|name| !self.taken.contains(name)).unwrap_or(stem);
        self.taken.insert(free.clone());
        self.known.insert(key, free.clone());
        self.chosen.push((free.clone(), Value::Text(text)));
        free
    }

    /// An expression as an operand.
    fn operand(&mut self, expr: &Expr) -> String {
        let is_shared = self.uses.get(&Arc::as_ptr(&expr.0)).is_some_and(|uses| *uses > 1);
        match &*expr.0 {
            Form::Name(_) | Form::Number(_) => self.whole(expr),
            _ if is_shared => self.name(expr),
            Form::Infix(..) | Form::Minus(_) => format!("({})", self.whole(expr)),
            Form::Call { .. } => self.whole(expr),
        }
    }

    fn whole(&mut self, expr: &Expr) -> String {
        match &*expr.0 {
            Form::Name(name) => name.clone(),
            Form::Number(number) => float(*number),
            Form::Infix(operator, [left, right]) => {
                format!("{} {operator} {}", self.operand(left), self.operand(right))
            }
            Form::Minus(operand) => format!("-{}", self.operand(operand)),
            Form::Call { op, operands, attrs } => {
                let mut args: Vec<String> = operands.iter().map(|operand| self.argument(operand)).collect();
                args.extend(attrs.iter().map(|(name, value)| format!("{name}={}", attr(value))));
                format!("{op}({})", args.join(", "))
            }
        }
    }

    /// An expression between the commas of a call.
    fn argument(&mut self, expr: &Expr) -> String {
        let text = self.operand(expr);
        let bare = text.strip_prefix('(').and_then(|text| text.strip_suffix(')'));
        match (&*expr.0, bare) {
            (Form::Infix(..) | Form::Minus(_), Some(bare)) => bare.to_owned(),
            _ => text,
        }
    }
}

fn float(number: f64) -> String {
    format!("{number:?}")
}

/// A value of an attribute of a call. Texts are words, such as element types and extents.
fn attr(value: &Value) -> String {
    match value {
        Value::Text(text) => text.clone(),
        Value::List(values) => format!("[{}]", values.iter().map(attr).collect::<Vec<_>>().join(", ")),
        other => ron(other),
    }
}

/// A value as RON.
fn ron(value: &Value) -> String {
    let joined = |parts: Vec<String>| parts.join(", ");
    match value {
        Value::Bool(truth) => truth.to_string(),
        Value::Int(number) => number.to_string(),
        Value::Float(number) => float(*number),
        Value::Text(text) => quoted(text),
        Value::Word(word, fields) if fields.is_empty() && !word.is_empty() => word.clone(),
        Value::Word(word, fields) => {
            let fields = fields.iter().map(|(name, value)| format!("{name}: {}", ron(value)));
            format!("{word}({})", joined(fields.collect()))
        }
        Value::List(values) => format!("[{}]", joined(values.iter().map(ron).collect())),
        Value::Map(entries) => {
            let entries = entries.iter().map(|(name, value)| format!("{}: {}", quoted(name), ron(value)));
            format!("{{{}}}", joined(entries.collect()))
        }
        Value::Tensor(expr) => quoted(expr.name().unwrap_or("?")),
    }
}

fn quoted(text: &str) -> String {
    let escaped = text.chars().map(|c| match c {
        '"' => "\\\"".to_owned(),
        '\\' => "\\\\".to_owned(),
        '\n' => "\\n".to_owned(),
        '\t' => "\\t".to_owned(),
        '\r' => "\\r".to_owned(),
        c => c.to_string(),
    });
    format!("\"{}\"", escaped.collect::<String>())
}
