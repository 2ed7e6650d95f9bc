//! The nodes of a model.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::path::Path;

use bytes::Bytes;
use engine_core::diag::Diagnostic;
use prost::Message;

use crate::fault::{broken, malformed, unsupported};
use crate::proto::{AttributeProto, GraphProto, NodeProto};
use crate::tensor::{self, Stored};

/// The help of faults that known operands or extents settle.
pub(crate) const SETTLE: &str =
    "make its operands constants, or give extents: `engine import --value NAME=[…] --dim B=8`";
/// The same for a model without open extents.
pub(crate) const SETTLE_VALUES: &str = "make its operands constants: `engine import --value NAME=[…]`";
/// The extent in such a help, in whose place those of the model stand.
pub(crate) const SOME_EXTENT: &str = " --dim B=8";

/// The value of an attribute.
#[derive(Clone, Debug)]
pub(crate) enum Attribute {
    Int(i64),
    Float(f64),
    Text(String),
    Texts(Vec<String>),
    Ints(Vec<i64>),
    Floats(Vec<f64>),
    Tensor(Stored),
    Graph(Box<GraphProto>),
    /// A kind that no translation reads.
    Other,
    /// The attribute of that name of the function around.
    Reference(String),
}

impl Attribute {
    /// The graph that it is.
    pub(crate) fn graph(&self) -> Option<&GraphProto> {
        match self {
            Attribute::Graph(graph) => Some(graph),
            _ => None,
        }
    }
}

/// A node. Operands that are left out have empty names.
#[derive(Clone, Debug)]
pub(crate) struct Node {
    pub(crate) op: String,
    /// The domain; empty for ONNX's own.
    pub(crate) domain: String,
    pub(crate) name: String,
    pub(crate) inputs: Vec<String>,
    pub(crate) outputs: Vec<String>,
    pub(crate) attributes: BTreeMap<String, Attribute>,
}

impl Node {
    /// Reads an encoded node.
    ///
    /// # Errors
    /// If it is malformed.
    pub(crate) fn read(bytes: &Bytes, folder: Option<&Path>) -> Result<Node, Diagnostic> {
        let proto = NodeProto::decode(bytes.clone()).map_err(|error| malformed("a node", &error))?;
        if proto.op_type.is_empty() {
            return Err(broken("a node names no op", "the file is damaged; export the model again"));
        }
        let domain = if proto.domain == "ai.onnx" { String::new() } else { proto.domain };
        Ok(Node {
            op: proto.op_type,
            domain,
            name: proto.name,
            inputs: proto.input,
            outputs: proto.output,
            attributes: attributes(proto.attribute, folder)?,
        })
    }

    /// `node "n" (Add)`
    pub(crate) fn describe(&self) -> String {
        let name = match self.name.is_empty() {
            true => self.outputs.first().map_or("", String::as_str),
            false => &self.name,
        };
        let domain = if self.domain.is_empty() { String::new() } else { format!("{}.", self.domain) };
        format!("node `{name}` ({domain}{})", self.op)
    }

    /// The name of the op in the table; that of another domain stands before it.
    pub(crate) fn key(&self) -> Cow<'_, str> {
        match self.domain.as_str() {
            "" => Cow::Borrowed(&self.op),
            domain => Cow::Owned(format!("{domain}.{}", self.op)),
        }
    }

    /// A fact about the node that keeps it from being translated.
    pub(crate) fn fault(&self, fact: &str) -> Diagnostic {
        self.refused(fact, SETTLE)
    }

    /// A fact about a part without a translation, which known operands would not change.
    pub(crate) fn lacking(&self, fact: &str) -> Diagnostic {
        self.refused(fact, "export the model without this part")
    }

    /// As [`Node::fault`], with other help.
    pub(crate) fn refused(&self, fact: &str, help: &str) -> Diagnostic {
        unsupported(format!("{} {fact}", self.describe()), help)
    }

    /// A whole number, or the default.
    pub(crate) fn int(&self, name: &str, default: i64) -> i64 {
        match self.attributes.get(name) {
            Some(Attribute::Int(n)) => *n,
            _ => default,
        }
    }

    /// A number, or the default.
    pub(crate) fn float(&self, name: &str, default: f64) -> f64 {
        match self.attributes.get(name) {
            Some(Attribute::Float(x)) => *x,
            _ => default,
        }
    }

    /// A word, or the default.
    pub(crate) fn text<'n>(&'n self, name: &str, default: &'n str) -> &'n str {
        match self.attributes.get(name) {
            Some(Attribute::Text(text)) => text,
            _ => default,
        }
    }

    /// A list of whole numbers.
    pub(crate) fn ints(&self, name: &str) -> Option<&[i64]> {
        match self.attributes.get(name) {
            Some(Attribute::Ints(items)) => Some(items),
            _ => None,
        }
    }

    /// An element of a list of whole numbers, by default 0.
    pub(crate) fn int_of(&self, name: &str, at: usize) -> i64 {
        self.ints(name).and_then(|items| items.get(at)).copied().unwrap_or(0)
    }

    /// The name of an operand that is not left out.
    pub(crate) fn input(&self, at: usize) -> Option<&str> {
        self.inputs.get(at).map(String::as_str).filter(|name| !name.is_empty())
    }
}

/// Attributes by name.
///
/// # Errors
/// If a tensor among them is malformed.
pub(crate) fn attributes(
    protos: Vec<AttributeProto>,
    folder: Option<&Path>,
) -> Result<BTreeMap<String, Attribute>, Diagnostic> {
    let read = |proto: AttributeProto| Ok((proto.name.clone(), read_attribute(proto, folder)?));
    protos.into_iter().map(read).collect()
}

/// `AttributeProto.AttributeType`: FLOAT 1, INT 2, STRING 3, TENSOR 4, GRAPH 5, FLOATS 6, INTS 7, STRINGS 8.
fn read_attribute(proto: AttributeProto, folder: Option<&Path>) -> Result<Attribute, Diagnostic> {
    if !proto.ref_attr_name.is_empty() {
        return Ok(Attribute::Reference(proto.ref_attr_name));
    }
    Ok(match (proto.r#type, proto.t, proto.g) {
        (1, ..) => Attribute::Float(single(proto.f)),
        (2, ..) => Attribute::Int(proto.i),
        (3, ..) => Attribute::Text(String::from_utf8_lossy(&proto.s).into_owned()),
        (4, Some(tensor), _) => Attribute::Tensor(tensor::read(&tensor, folder)?),
        (5, _, Some(graph)) => Attribute::Graph(graph),
        (6, ..) => Attribute::Floats(proto.floats.into_iter().map(single).collect()),
        (7, ..) => Attribute::Ints(proto.ints),
        (8, ..) => {
            let words = proto.strings.iter().map(|word| String::from_utf8_lossy(word).into_owned());
            Attribute::Texts(words.collect())
        }
        _ => Attribute::Other,
    })
}

/// The shortest decimal number that is this one in single precision.
pub(crate) fn single(x: f32) -> f64 {
    let short = x.to_string().parse().unwrap_or(f64::from(x));
    // The decimal digits of the largest numbers may lie beyond them.
    if f64::abs(short) <= f64::from(f32::MAX) { short } else { f64::from(x) }
}
