//! Sequences and optional values. They exist at import only, so their parts and positions must be known.

use std::rc::Rc;

use engine_core::diag::Diagnostic;
use engine_core::ir::DType;

use crate::fault::broken;
use crate::known::{Known, Number};
use crate::node::Node;
use crate::operands::{axis, cut, numbers, operand};
use crate::regions::{graph, side_by_side, uneven};
use crate::shapes;
use crate::table::expression;
use crate::translate::Translation;
use crate::values::{Content, Item};

/// The most parts of a split.
const MOST_PARTS: i64 = 1 << 12;

impl Item {
    fn parts(&self) -> Option<&[Rc<Item>]> {
        match &self.content {
            Some(Content::Sequence(parts)) => Some(parts),
            _ => None,
        }
    }
}

/// The parts of an operand.
fn parts(of: &Translation, node: &Node, at: usize) -> Result<Vec<Rc<Item>>, Diagnostic> {
    let item = node.input(at).and_then(|name| of.values.item(name));
    let parts = item.as_ref().and_then(Item::parts);
    parts.map(<[_]>::to_vec).ok_or_else(|| node.fault("reads a value that is no sequence"))
}

fn put(of: &mut Translation, node: &Node, parts: Vec<Rc<Item>>) -> Result<(), Diagnostic> {
    of.count(parts.len())?;
    of.values.put(&node.outputs[0], Item::without_tensor(Content::Sequence(parts)));
    Ok(())
}

/// A position among `n`, by default the last.
fn position(of: &Translation, node: &Node, at: usize, n: usize) -> Result<usize, Diagnostic> {
    let given = match node.input(at) {
        None => Some(-1),
        Some(_) => numbers(of, node, at)?.and_then(|found| found.first().and_then(Number::int)),
    };
    let given = given.ok_or_else(|| node.fault("needs a position that is known at import"))?;
    shapes::axis(given, n, 0).ok_or_else(|| {
        broken(format!("{} has position {given} of {n}", node.describe()), "export the model again")
    })
}

/// `SequenceEmpty()` and `SequenceConstruct(parts…)`
pub(crate) fn construct(of: &mut Translation, node: &Node) -> Result<(), Diagnostic> {
    let item = |name: &String| of.values.item(name).map(Rc::new).ok_or_else(|| uneven(node));
    let parts = node.inputs.iter().map(item).collect::<Result<_, _>>()?;
    put(of, node, parts)
}

/// `SequenceInsert(sequence, part, position)`, by default at the end.
pub(crate) fn insert(of: &mut Translation, node: &Node) -> Result<(), Diagnostic> {
    let mut parts = parts(of, node, 0)?;
    let part = node.input(1).and_then(|name| of.values.item(name)).ok_or_else(|| uneven(node))?;
    let at = position(of, node, 2, parts.len() + 1)?;
    // Negative positions count from the present end.
    let is_negative = matches!(numbers(of, node, 2)?.as_deref(), Some([n]) if n.int().is_some_and(|n| n < 0));
    let at = match is_negative {
        true => at.checked_sub(1).ok_or_else(|| uneven(node))?,
        false => at,
    };
    parts.insert(at, Rc::new(part));
    put(of, node, parts)
}

/// `SequenceErase(sequence, position)`
pub(crate) fn erase(of: &mut Translation, node: &Node) -> Result<(), Diagnostic> {
    let mut parts = parts(of, node, 0)?;
    let at = position(of, node, 1, parts.len())?;
    parts.remove(at);
    put(of, node, parts)
}

/// `SequenceAt(sequence, position)`
pub(crate) fn at(of: &mut Translation, node: &Node) -> Result<(), Diagnostic> {
    let parts = parts(of, node, 0)?;
    let at = position(of, node, 1, parts.len())?;
    of.values.put(&node.outputs[0], (*parts[at]).clone());
    Ok(())
}

/// `SequenceLength(sequence)`
pub(crate) fn length(of: &mut Translation, node: &Node) -> Result<(), Diagnostic> {
    let n = parts(of, node, 0)?.len() as i64;
    let known = Known { dtype: DType::I64, dims: vec![], elements: vec![Number::Int(n)] };
    of.values.add_known(&node.outputs[0], known);
    Ok(())
}

/// `SplitToSequence(x, split)`: parts of one size or of given sizes, or single positions.
pub(crate) fn split(of: &mut Translation, node: &Node) -> Result<(), Diagnostic> {
    let (name, shape) = operand(of, node, 0)?;
    let along = axis(node, node.int("axis", 0), shape.len())?;
    let whole = shape[along].int().ok_or_else(|| node.fault("splits an open extent"))?;
    let given = numbers(of, node, 1)?;
    let is_list = node.input(1).and_then(|name| of.values.type_of(name)).is_some_and(|ty| ty.rank() > 0);
    let size = given.as_ref().map_or(Some(1), |given| given.first().and_then(Number::int));
    let sizes: Option<Vec<i64>> = match (&given, size) {
        (Some(given), _) if is_list => given.iter().map(Number::int).collect(),
        (_, Some(size)) if size >= 1 && whole / size < MOST_PARTS => {
            Some((0..whole).step_by(size as usize).map(|start| size.min(whole - start)).collect())
        }
        _ => None,
    };
    let sizes = sizes.ok_or_else(|| node.fault("splits into parts of unknown size, or too many"))?;
    if sizes.iter().any(|size| *size < 0)
        || sizes.iter().try_fold(0i64, |sum, n| sum.checked_add(*n)) != Some(whole)
    {
        return Err(broken(
            format!("{} has parts that are not the whole", node.describe()),
            "export the model again",
        ));
    }
    let narrow = of.values.element(name).and_then(|(_, narrow)| narrow);
    let x = of.values.operand(name, None)?;
    let (mut parts, mut start) = (vec![], 0i64);
    for size in sizes {
        let bounds = (&Number::Int(start), &Number::Int(start + size));
        let part = match given.is_none() && node.int("keepdims", 1) == 0 {
            true => Some(expression(&format!("select({x}, axis={along}, index={start})"))),
            false => cut(&x, &shape[along], bounds, along, 1).flatten(),
        };
        let label = format!("{}_{start}", node.outputs[0]);
        parts.push(Rc::new(match part {
            Some(part) => of.values.derive(&label, &part.to_string(), narrow)?,
            None => of.values.item(name).ok_or_else(|| uneven(node))?,
        }));
        start += size;
    }
    put(of, node, parts)
}

/// `ConcatFromSequence(sequence)`: along an axis, or along a new one.
pub(crate) fn concat(of: &mut Translation, node: &Node) -> Result<(), Diagnostic> {
    let parts = parts(of, node, 0)?;
    let is_new = node.int("new_axis", 0) != 0;
    let narrow = parts.first().and_then(|part| part.narrow);
    let mut texts = vec![];
    let mut rank = 0;
    for (at, part) in parts.iter().enumerate() {
        let (name, ty) = of.values.tensor_of(&format!("{}_{at}", node.outputs[0]), (**part).clone())?;
        rank = ty.rank();
        texts.push(name);
    }
    if texts.is_empty() {
        return Err(node.fault("joins the parts of an empty sequence"));
    }
    let along = axis(node, node.int("axis", 0), rank + usize::from(is_new))?;
    let item = of.values.derive(&node.outputs[0], &side_by_side(texts, is_new, along), narrow)?;
    of.values.put(&node.outputs[0], item);
    Ok(())
}

/// `SequenceMap(sequence, further…)`: a graph for each part.
pub(crate) fn map(of: &mut Translation, node: &Node) -> Result<(), Diagnostic> {
    let body = graph(node, "body")?;
    let n = parts(of, node, 0)?.len();
    let operands = node.inputs.iter().map(|name| of.values.item(name).ok_or_else(|| uneven(node)));
    let operands = operands.collect::<Result<Vec<_>, _>>()?;
    let mut results: Vec<Vec<Rc<Item>>> = vec![vec![]; node.outputs.len()];
    for at in 0..n {
        let part = |operand: &Item| match operand.parts() {
            Some(parts) => parts.get(at).map(|part| (**part).clone()).ok_or_else(|| uneven(node)),
            None => Ok(operand.clone()),
        };
        let inputs = operands.iter().map(part).collect::<Result<Vec<_>, _>>()?;
        let found = of.region(node, body, &inputs)?;
        results.iter_mut().zip(found).for_each(|(parts, item)| parts.push(Rc::new(item)));
    }
    for (output, parts) in node.outputs.iter().zip(results) {
        of.count(parts.len())?;
        of.values.put(output, Item::without_tensor(Content::Sequence(parts)));
    }
    Ok(())
}

/// `Optional(x)`: the value itself, or nothing.
pub(crate) fn optional(of: &mut Translation, node: &Node) -> Result<(), Diagnostic> {
    let nothing = Item::without_tensor(Content::Nothing);
    let item = node.input(0).map_or(Some(nothing), |name| of.values.item(name));
    of.values.put(&node.outputs[0], item.ok_or_else(|| uneven(node))?);
    Ok(())
}

fn is_nothing(of: &Translation, node: &Node) -> bool {
    let item = node.input(0).and_then(|name| of.values.item(name));
    item.is_none_or(|item| matches!(item.content, Some(Content::Nothing)))
}

/// `OptionalHasElement(x)`
pub(crate) fn has_element(of: &mut Translation, node: &Node) -> Result<(), Diagnostic> {
    let truth = Number::Bool(!is_nothing(of, node));
    of.values.add_known(&node.outputs[0], Known { dtype: DType::Bool, dims: vec![], elements: vec![truth] });
    Ok(())
}

/// `OptionalGetElement(x)`
pub(crate) fn element(of: &mut Translation, node: &Node) -> Result<(), Diagnostic> {
    match (node.input(0), is_nothing(of, node)) {
        (Some(name), false) => of.values.alias(&node.outputs[0], name),
        _ => {
            return Err(broken(
                format!("{} reads an optional value that is empty", node.describe()),
                "export the model again",
            ));
        }
    }
    Ok(())
}
