//! Ops whose results only the elements of their operand determine: extents, or numbers by their bits. The operand is a
//! constant.

use engine_core::diag::Diagnostic;
use engine_core::ir::DType;
use std::cmp::Ordering;

use crate::known::{Known, Number};
use crate::node::Node;
use crate::operands::{MOST_AXES, axis, operand};
use crate::table::expression;
use crate::tensor::{Stored, element_from};
use crate::translate::{IS_BY_DATA, Translation};
use crate::values::Item;

/// The first operand, whose elements must be known.
fn constant(of: &Translation, node: &Node) -> Result<Known, Diagnostic> {
    let (name, _) = operand(of, node, 0)?;
    let known = of.values.known(name).cloned();
    let known = known.or_else(|| of.values.stored(name).and_then(Known::of));
    let is_numbers = |known: &Known| !known.elements.iter().any(|element| matches!(element, Number::Dim(_)));
    known.filter(|known| is_numbers(known) && known.dims.len() <= MOST_AXES).ok_or_else(|| {
        node.refused(IS_BY_DATA, "a constant operand settles them: `engine import --value NAME=[…]`")
    })
}

/// `NonZero(x)`: the places of the elements other than 0, `[rank, n]`.
pub(crate) fn non_zero(of: &mut Translation, node: &Node) -> Result<(), Diagnostic> {
    let known = constant(of, node)?;
    let is_there = |element: &Number| element.float().is_some_and(|x| x != 0.0);
    let found: Vec<usize> =
        known.elements.iter().enumerate().filter(|(_, x)| is_there(x)).map(|(at, _)| at).collect();
    let rank = known.dims.len();
    let place = |along: usize, at: usize| {
        let stride: usize = known.dims[along + 1..].iter().product();
        (at / stride % known.dims[along]) as i64
    };
    let places = (0..rank).flat_map(|along| found.iter().map(move |&at| (along, at)));
    let elements = Number::vector(places.map(|(along, at)| place(along, at)));
    of.values
        .add_known(&node.outputs[0], Known { dtype: DType::I64, dims: vec![rank, found.len()], elements });
    Ok(())
}

/// `Unique(x, axis, sorted)`: the different elements, or slices along an axis; where each comes first, the number of each
/// element among them, and their counts.
pub(crate) fn unique(of: &mut Translation, node: &Node) -> Result<(), Diagnostic> {
    let known = constant(of, node)?;
    let narrow = of.values.element(&node.inputs[0]).and_then(|(_, narrow)| narrow);
    let (along, dims) = match node.attributes.contains_key("axis") {
        true => (axis(node, node.int("axis", 0), known.dims.len())?, known.dims.clone()),
        false => (0, vec![known.elements.len()]),
    };
    let (n, inner) = (dims[along], dims[along + 1..].iter().product::<usize>());
    let outer: usize = dims[..along].iter().product();
    let slice = |at: usize| -> Vec<&Number> {
        let of_outer = |o: usize| &known.elements[(o * n + at) * inner..][..inner];
        (0..outer).flat_map(of_outer).collect()
    };
    let slices: Vec<Vec<&Number>> = (0..n).map(slice).collect();
    let mut order: Vec<usize> = (0..n).collect();
    order.sort_by(|&a, &b| compared(&slices[a], &slices[b]).then(a.cmp(&b)));
    let mut groups: Vec<Vec<usize>> = vec![];
    for at in order {
        match groups.last_mut().filter(|group| compared(&slices[group[0]], &slices[at]).is_eq()) {
            Some(group) => group.push(at),
            None => groups.push(vec![at]),
        }
    }
    if node.int("sorted", 1) == 0 {
        groups.sort_by_key(|group| group[0]);
    }
    let mut inverse = vec![0; n];
    groups.iter().enumerate().for_each(|(to, group)| group.iter().for_each(|&at| inverse[at] = to as i64));
    let taken = |o: usize, group: &Vec<usize>| known.elements[(o * n + group[0]) * inner..][..inner].to_vec();
    let elements = (0..outer).flat_map(|o| groups.iter().flat_map(move |group| taken(o, group))).collect();
    let mut dims = dims;
    dims[along] = groups.len();
    let results = [
        Known { dtype: known.dtype, dims, elements },
        Known::vector(Number::vector(groups.iter().map(|group| group[0] as i64))),
        Known::vector(Number::vector(inverse)),
        Known::vector(Number::vector(groups.iter().map(|group| group.len() as i64))),
    ];
    for (at, (output, result)) in node.outputs.iter().zip(results).enumerate() {
        if !output.is_empty() {
            of.values.put(output, Item::of(result, narrow.filter(|_| at == 0)));
        }
    }
    Ok(())
}

/// The order of two slices of one length.
fn compared(a: &[&Number], b: &[&Number]) -> Ordering {
    // Both zeros are one number.
    let float = |x: &Number| x.float().unwrap_or(f64::NAN) + 0.0;
    let pair = |(a, b): (&&Number, &&Number)| match (a, b) {
        (Number::Int(a), Number::Int(b)) => a.cmp(b),
        _ => float(a).total_cmp(&float(b)),
    };
    a.iter().zip(b).map(pair).find(|order| order.is_ne()).unwrap_or(Ordering::Equal)
}

/// `BitCast(x, to)`: a constant by its bits, and integers of any values by their lowest bits.
pub(crate) fn bit_cast(of: &mut Translation, node: &Node) -> Result<(), Diagnostic> {
    let (name, _) = operand(of, node, 0)?;
    let lacks = || node.fault("asks for an element type that the engine lacks");
    let (Some((from, None)), Some((to, None))) = (of.values.element(name), element_from(node.int("to", 0)))
    else {
        return Err(lacks());
    };
    let output = &node.outputs[0];
    if from.size() != to.size() {
        return Err(node.fault("casts to a type of another size"));
    }
    if from == to {
        of.values.alias(output, name);
        return Ok(());
    }
    let stored = of.values.stored(name).cloned();
    let stored = stored.or_else(|| of.values.known(name).and_then(Known::stored));
    if let Some(Stored { dims, bytes, .. }) = stored {
        if to == DType::Bool && bytes.iter().any(|&byte| byte > 1) {
            return Err(node.fault("makes truth values of other bits than 0 and 1"));
        }
        of.values.add_stored(output, Stored::new(to, dims, bytes));
        return Ok(());
    }
    let x = of.values.tensor(name)?.0;
    let (wide, half) = match to.size() {
        _ if from.is_float() || to.is_float() || to == DType::Bool => {
            return Err(node.fault("reads the bits of values that are not known at import"));
        }
        4 => (DType::I64, 1i64 << 31),
        2 => (DType::I32, 1 << 15),
        _ => (DType::I32, 1 << 7),
    };
    let is_signed = to.int_range().is_some_and(|(least, _)| least < 0);
    let wide = format!("cast({x}, dtype={wide})");
    let kept = match is_signed {
        true => format!("remainder({wide} + {half}, {}) - {half}", 2 * half),
        false => format!("remainder({wide}, {})", 2 * half),
    };
    of.values.define(output, expression(&format!("cast({kept}, dtype={to})"))).map(drop)
}
