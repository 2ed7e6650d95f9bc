//! The parts of a model that is written, and the names of its values.

use std::collections::{HashMap, HashSet};

use bytes::Bytes;
use engine_core::diag::Diagnostic;
use engine_core::ir::{Graph, Literal, Type, Value};
use prost::Message;

use crate::fault::unsupported;
use crate::known::{Known, Number};
use crate::proto::{
    AttributeProto, DimensionProto, GraphProto, ModelProto, NodeProto, OperatorSetIdProto, TensorProto,
    TensorShapeProto, TensorTypeProto, TypeProto, ValueInfoProto,
};
use crate::tensor::{Stored, number_of};

/// The opset of exported models.
const OPSET: i64 = 20;
/// The version of the format that belongs to it.
const FORMAT: i64 = 9;
/// The most bytes of a protobuf message.
const MOST_BYTES: usize = (1 << 31) - 1;

/// A value in the model: a tensor of its shape, or one that broadcasts to it.
#[derive(Clone, Debug)]
struct Named {
    name: String,
    is_whole: bool,
}

/// A model that is written.
pub(super) struct Writer<'g> {
    pub(super) graph: &'g Graph,
    /// The outputs of the model come first among those of the graph.
    n_outputs: usize,
    nodes: Vec<Bytes>,
    initializers: Vec<Bytes>,
    inputs: Vec<ValueInfoProto>,
    values: HashMap<Value, Named>,
    constants: HashMap<(i32, Vec<usize>, Bytes), String>,
    taken: HashSet<String>,
    n_bytes: usize,
}

impl<'g> Writer<'g> {
    pub(super) fn new(graph: &'g Graph, n_outputs: usize) -> Writer<'g> {
        let outputs = graph.outputs[..n_outputs].iter().map(|(label, _)| label.to_string());
        let inputs = graph.inputs().map(|(id, _)| graph.nodes[id].name().to_string());
        Writer {
            graph,
            n_outputs,
            nodes: vec![],
            initializers: vec![],
            inputs: vec![],
            values: HashMap::new(),
            constants: HashMap::new(),
            taken: outputs.chain(inputs).collect(),
            n_bytes: 0,
        }
    }

    /// Whether a value is given.
    pub(super) fn has(&self, value: Value) -> bool {
        self.values.contains_key(&value)
    }

    pub(super) fn ty(&self, value: Value) -> &'g Type {
        self.graph.ty(value)
    }

    /// A free name like that one.
    fn free(&mut self, stem: &str) -> String {
        let tries = (1..).map(|n| if n == 1 { stem.to_owned() } else { format!("{stem}.{n}") });
        let name = tries.into_iter().find(|name| !self.taken.contains(name)).unwrap_or_default();
        self.taken.insert(name.clone());
        name
    }

    /// The name of a value is that of the output, if it is one.
    fn name_for(&mut self, value: Value) -> String {
        let name = self.graph.name_of(value).to_string();
        let is_output = self.graph.outputs[..self.n_outputs]
            .iter()
            .any(|(label, node)| **label == *name && *node == value);
        if is_output { name } else { self.free(&name) }
    }

    /// Declares an input.
    pub(super) fn input(&mut self, value: Value) {
        let name = self.graph.name_of(value).to_string();
        self.inputs.push(info(&name, self.ty(value)));
        self.values.insert(value, Named { name, is_whole: true });
    }

    /// Adds the value of a parameter.
    pub(super) fn weight(&mut self, value: Value, stored: Stored) {
        let name = self.graph.name_of(value).to_string();
        self.initializer(&name, &stored);
        self.values.insert(value, Named { name, is_whole: true });
    }

    fn initializer(&mut self, name: &str, stored: &Stored) {
        let tensor = TensorProto {
            dims: stored.dims.iter().map(|&n| n as i64).collect(),
            data_type: number_of(stored.dtype),
            name: name.to_owned(),
            raw_data: stored.bytes.clone(),
            ..TensorProto::default()
        };
        self.n_bytes += stored.bytes.len();
        self.initializers.push(tensor.encode_to_vec().into());
    }

    /// A tensor of known numbers. Equal ones are stored once.
    pub(super) fn constant(&mut self, known: Known) -> String {
        let Some(stored) = known.stored() else { engine_core::bug!("a constant has open extents") };
        let key = (number_of(stored.dtype), stored.dims.clone(), stored.bytes.clone());
        if let Some(name) = self.constants.get(&key) {
            return name.clone();
        }
        let name = self.free("constant");
        self.initializer(&name, &stored);
        self.constants.insert(key, name.clone());
        name
    }

    /// A vector of whole numbers.
    pub(super) fn ints(&mut self, items: &[i64]) -> String {
        self.constant(Known::vector(Number::vector(items.iter().copied())))
    }

    /// Adds a node with one result.
    pub(super) fn node(
        &mut self,
        op: &str,
        inputs: &[&str],
        attributes: Vec<AttributeProto>,
        value: Value,
    ) -> String {
        let output = self.free(&format!("{}.{}", self.graph.name_of(value), op.to_lowercase()));
        self.push(op, inputs, attributes, vec![output.clone()]);
        output
    }

    /// Adds a node that gives a value.
    pub(super) fn give(&mut self, op: &str, inputs: &[&str], attributes: Vec<AttributeProto>, value: Value) {
        let output = self.name_for(value);
        self.push(op, inputs, attributes, vec![output.clone()]);
        self.values.insert(value, Named { name: output, is_whole: true });
    }

    pub(super) fn push(
        &mut self,
        op: &str,
        inputs: &[&str],
        attributes: Vec<AttributeProto>,
        outputs: Vec<String>,
    ) {
        let node = NodeProto {
            input: inputs.iter().map(|name| (*name).to_owned()).collect(),
            name: outputs.first().cloned().unwrap_or_default(),
            output: outputs,
            op_type: op.to_owned(),
            attribute: attributes,
            ..NodeProto::default()
        };
        self.nodes.push(node.encode_to_vec().into());
    }

    /// Lets a tensor that broadcasts to its shape stand for a value.
    pub(super) fn set_narrow(&mut self, value: Value, name: String) {
        let is_whole = self.ty(value).rank() == 0;
        self.values.insert(value, Named { name, is_whole });
    }

    /// Lets a tensor of its shape stand for a value.
    pub(super) fn set_whole(&mut self, value: Value, name: String) {
        self.values.insert(value, Named { name, is_whole: true });
    }

    /// Lets a value stand for another one.
    pub(super) fn same(&mut self, value: Value, other: Value) {
        if let Some(named) = self.values.get(&other).cloned() {
            self.values.insert(value, named);
        }
    }

    /// A tensor that broadcasts to the shape of a value, and whether it has that shape.
    pub(super) fn narrow(&self, value: Value) -> (String, bool) {
        let Some(named) = self.values.get(&value) else {
            engine_core::bug!("a value is read before it is given")
        };
        (named.name.clone(), named.is_whole)
    }

    /// A tensor of the shape of a value.
    pub(super) fn whole(&mut self, value: Value) -> String {
        let (name, is_whole) = self.narrow(value);
        if is_whole {
            return name;
        }
        let shape: Vec<i64> = self.ty(value).extents().iter().map(|&n| n as i64).collect();
        let shape = self.ints(&shape);
        let whole = self.node("Expand", &[&name, &shape], vec![], value);
        self.set_whole(value, whole.clone());
        whole
    }

    /// The bytes of the model.
    pub(super) fn finish(mut self) -> Result<Vec<u8>, Diagnostic> {
        if self.n_bytes > MOST_BYTES / 2 * 2 - (1 << 20) {
            let help = "export an output with fewer parameters, or in f16";
            return Err(unsupported("the model would have more than 2 GiB, the limit of its format", help));
        }
        let mut outputs = vec![];
        for (label, value) in &self.graph.outputs[..self.n_outputs] {
            let value = *value;
            let name = self.whole(value);
            if *name != **label {
                self.push("Identity", &[&name], vec![], vec![label.to_string()]);
            }
            outputs.push(info(label, self.ty(value)));
        }
        let graph = GraphProto {
            node: self.nodes,
            name: self.graph.name.clone(),
            initializer: self.initializers,
            input: self.inputs,
            output: outputs,
            sparse_initializer: vec![],
        };
        let model = ModelProto {
            ir_version: FORMAT,
            producer_name: "engine".to_owned(),
            graph: Some(graph),
            opset_import: vec![OperatorSetIdProto { domain: String::new(), version: OPSET }],
            functions: vec![],
        };
        Ok(model.encode_to_vec())
    }
}

/// A name with its type.
fn info(name: &str, ty: &Type) -> ValueInfoProto {
    let dim = |n: usize| DimensionProto { dim_value: Some(n as i64), dim_param: String::new() };
    let shape = TensorShapeProto { dim: ty.extents().into_iter().map(dim).collect() };
    let tensor = TensorTypeProto { elem_type: number_of(ty.dtype), shape: Some(shape) };
    ValueInfoProto { name: name.to_owned(), r#type: Some(TypeProto { tensor_type: Some(tensor) }) }
}

/// A literal as a number.
pub(super) fn number(literal: &Literal) -> Number {
    match *literal {
        Literal::Bool(truth) => Number::Bool(truth),
        Literal::Int(n) => Number::Int(n),
        Literal::Float(x) => Number::Float(x),
    }
}

/// An attribute of a whole number.
pub(super) fn int(name: &str, i: i64) -> AttributeProto {
    AttributeProto { name: name.to_owned(), i, r#type: 2, ..AttributeProto::default() }
}

/// An attribute of whole numbers.
pub(super) fn ints(name: &str, ints: Vec<i64>) -> AttributeProto {
    AttributeProto { name: name.to_owned(), ints, r#type: 7, ..AttributeProto::default() }
}

/// An attribute of a word.
pub(super) fn text(name: &str, word: &'static str) -> AttributeProto {
    AttributeProto {
        name: name.to_owned(),
        s: Bytes::from_static(word.as_bytes()),
        r#type: 3,
        ..AttributeProto::default()
    }
}
