//! Ops that read or write elements at computed places.

use engine_core::diag::Diagnostic;
use engine_core::ir::DType;

use crate::fault::broken;
use crate::known::{Known, Number};
use crate::literal::{list, of_number};
use crate::node::{Attribute, Node};
use crate::operands::{MOST_AXES, axis, ints, numbers, operand};
use crate::table::expression;
use crate::translate::{IS_BY_DATA, Translation};
use crate::values::Item;

/// Extents of 1, except at some axes.
fn extents_at(rank: usize, given: &[(usize, &Number)]) -> String {
    let mut extents = vec![Number::Int(1); rank];
    given.iter().for_each(|(axis, n)| extents[*axis] = (*n).clone());
    list(&extents)
}

/// The positions along an axis, beside a tensor of that rank.
fn positions(rank: usize, axis: usize, n: &Number, dtype: DType) -> String {
    format!("iota(shape={}, axis={axis}, dtype={dtype})", extents_at(rank, &[(axis, n)]))
}

/// `ReverseSequence(x, lengths)`: the first positions of each item in reverse.
pub(crate) fn reverse_sequence(of: &mut Translation, node: &Node) -> Result<(), Diagnostic> {
    let ((name, shape), (lengths, _)) = (operand(of, node, 0)?, operand(of, node, 1)?);
    let batch = axis(node, node.int("batch_axis", 1), shape.len())?;
    let time = axis(node, node.int("time_axis", 0), shape.len())?;
    let narrow = of.values.element(name).and_then(|(_, narrow)| narrow);
    let dtype = of.values.type_of(lengths).map_or(DType::I64, |ty| ty.dtype);
    let (x, lengths) = (of.values.tensor(name)?.0, of.values.tensor(lengths)?.0);
    let lengths = format!("reshape({lengths}, shape={})", extents_at(shape.len(), &[(batch, &shape[batch])]));
    let at = positions(shape.len(), time, &shape[time], dtype);
    let places = format!("where({at} < {lengths}, {lengths} - 1 - {at}, {at})");
    let label = format!("{}/places", node.outputs[0]);
    of.values.define(&label, expression(&format!("broadcast_to({places}, shape={})", list(&shape))))?;
    let places = of.values.tensor(&label)?.0;
    of.values.define(&node.outputs[0], expression(&format!("gather({x}, {places}, axis={time})")))?;
    of.values.set_narrow(&node.outputs[0], narrow);
    Ok(())
}

/// `TensorScatter(cache, update, starts)`: the cache, with the update along an axis from the start of each item on. What
/// reaches beyond the end is left out, or goes on at the front of a circular cache.
pub(crate) fn tensor_scatter(of: &mut Translation, node: &Node) -> Result<(), Diagnostic> {
    let ((name, shape), (update, given)) = (operand(of, node, 0)?, operand(of, node, 1)?);
    let along = axis(node, node.int("axis", -2), shape.len())?;
    let starts = node.input(2).map(|_| operand(of, node, 2)).transpose()?;
    let is_like = |at: usize| at == along || shape[at] == given[at];
    let is_fit = given.len() == shape.len()
        && (0..shape.len()).all(is_like)
        && along > 0
        && starts.as_ref().is_none_or(|(_, extents)| extents[..] == shape[..1]);
    if !is_fit {
        let message = format!("{} has operands of unexpected shapes", node.describe());
        return Err(broken(
            message,
            "the update and the cache differ along `axis` alone, which is not the first",
        ));
    }
    let n = given[along].int().ok_or_else(|| node.fault("has an update of open length"))?;
    if n == 0 {
        of.values.alias(&node.outputs[0], name);
        return Ok(());
    }
    let narrow = of.values.element(name).and_then(|(_, narrow)| narrow);
    let mut dtype = DType::I32;
    let mut start = String::new();
    if let Some((starts, _)) = starts {
        dtype = of.values.type_of(starts).map_or(DType::I64, |ty| ty.dtype);
        let starts = of.values.tensor(starts)?.0;
        start = format!(" - reshape({starts}, shape={})", extents_at(shape.len(), &[(0, &shape[0])]));
    }
    let mut place = format!("{}{start}", positions(shape.len(), along, &shape[along], dtype));
    if node.text("mode", "linear") == "circular" {
        place = format!("remainder({place}, {})", of_number(&shape[along]));
    }
    let label = format!("{}/places", node.outputs[0]);
    let place = of.values.derive(&label, &format!("broadcast_to({place}, shape={})", list(&shape)), None)?;
    let place = of.values.tensor_of(&label, place)?.0;
    let (cache, update) = (of.values.tensor(name)?.0, of.values.tensor(update)?.0);
    let taken = format!("gather({update}, clamp({place}, min=0, max={}), axis={along})", n - 1);
    let expr = format!("where(({place} >= 0) & ({place} < {n}), {taken}, {cache})");
    of.values.define(&node.outputs[0], expression(&expr))?;
    of.values.set_narrow(&node.outputs[0], narrow);
    Ok(())
}

/// `Compress(x, condition)`: the elements or slices where a known condition holds.
pub(crate) fn compress(of: &mut Translation, node: &Node) -> Result<(), Diagnostic> {
    let (name, shape) = operand(of, node, 0)?;
    let condition = node.input(1).and_then(|name| of.values.known(name)).and_then(Known::ints);
    let condition = condition.ok_or_else(|| {
        node.refused(IS_BY_DATA, "a constant condition settles them: `engine import --value NAME=[…]`")
    })?;
    let chosen = condition.iter().enumerate().filter(|(_, truth)| **truth != 0).map(|(at, _)| at as i64);
    let chosen = Item::of(Known::vector(Number::vector(chosen)), None);
    let (chosen, _) = of.values.tensor_of(&format!("{}/places", node.outputs[0]), chosen)?;
    let x = of.values.tensor(name)?.0;
    let expr = match node.attributes.contains_key("axis") {
        true => {
            let along = axis(node, node.int("axis", 0), shape.len())?;
            format!("index_select({x}, {chosen}, axis={along})")
        }
        false => format!("index_select(reshape({x}, shape=[_]), {chosen})"),
    };
    of.values.define(&node.outputs[0], expression(&expr)).map(drop)
}

/// A vector with updates at places, combined as the node asks for.
fn scattered(node: &Node, [x, places, updates]: [&str; 3]) -> Result<String, Diagnostic> {
    let (op, setting) = match node.text("reduction", "none") {
        "none" => ("scatter", ""),
        "add" => ("scatter_add", ""),
        "mul" => ("scatter_reduce", ", reduce=prod"),
        "max" => ("scatter_reduce", ", reduce=amax"),
        "min" => ("scatter_reduce", ", reduce=amin"),
        other => return Err(node.fault(&format!("has the reduction `{other}`"))),
    };
    Ok(format!("{op}(reshape({x}, shape=[_]), {places}, reshape({updates}, shape=[_]){setting})"))
}

/// The place of an index from the front.
fn wrapped(index: &str, n: &Number) -> String {
    format!("where({index} < 0, {index} + {}, {index})", of_number(n))
}

/// The elements of extents behind each axis.
fn strides(node: &Node, shape: &[Number]) -> Result<Vec<i64>, Diagnostic> {
    let mut strides = vec![1i64; shape.len()];
    for at in (1..shape.len()).rev() {
        let extent = shape[at].int().ok_or_else(|| node.fault("reduces along open extents"))?;
        strides[at - 1] = strides[at].saturating_mul(extent);
    }
    Ok(strides)
}

/// `ScatterElements(x, indices, updates)`, on the vector of the elements unless the engine has that form.
pub(crate) fn scatter_elements(of: &mut Translation, node: &Node) -> Result<(), Diagnostic> {
    let ((name, shape), (indices, extents)) = (operand(of, node, 0)?, operand(of, node, 1)?);
    let (updates, _) = operand(of, node, 2)?;
    let along = axis(node, node.int("axis", 0), shape.len())?;
    if extents.len() != shape.len() {
        let message = format!("{} has indices of another rank", node.describe());
        return Err(broken(message, "export the model again"));
    }
    let dtype = of.values.type_of(indices).map_or(DType::I64, |ty| ty.dtype);
    let narrow = of.values.element(name).and_then(|(_, narrow)| narrow);
    let [x, indices, updates] = [name, indices, updates].map(|name| of.values.tensor(name));
    let (x, indices, updates) = (x?.0, indices?.0, updates?.0);
    let op = match node.text("reduction", "none") {
        "none" => Some("scatter"),
        "add" => Some("scatter_add"),
        _ => None,
    };
    let others = (0..shape.len()).filter(|at| *at != along).collect::<Vec<_>>();
    let expr = match op.filter(|_| others.iter().all(|at| shape[*at] == extents[*at])) {
        Some(op) => format!("{op}({x}, {indices}, {updates}, axis={along}, wrap_negative=true)"),
        None => {
            let strides = strides(node, &shape)?;
            let mut sum = format!("({}) * {}", wrapped(&indices, &shape[along]), strides[along]);
            for at in others {
                sum += &format!(" + {} * {}", positions(shape.len(), at, &extents[at], dtype), strides[at]);
            }
            let places = places(of, node, &sum)?;
            format!("reshape({}, shape={})", scattered(node, [&x, &places, &updates])?, list(&shape))
        }
    };
    let expr = expression(&expr);
    let kept = narrow.filter(|_| op != Some("scatter"));
    of.values.define(&node.outputs[0], kept.map_or(expr.clone(), |narrow| narrow.kept(expr))).map(drop)
}

/// The vector of places.
fn places(of: &mut Translation, node: &Node, sum: &str) -> Result<String, Diagnostic> {
    let label = format!("{}/places", node.outputs[0]);
    let places = of.values.derive(&label, &format!("reshape(({sum}), shape=[_])"), None)?;
    of.values.tensor_of(&label, places).map(|(name, _)| name)
}

/// The parts of index vectors, one for each leading axis of the data. Those of batch axes are the places there.
fn columns(of: &mut Translation, node: &Node) -> Result<Vec<String>, Diagnostic> {
    let (name, shape) = operand(of, node, 1)?;
    let n = shape
        .last()
        .and_then(Number::int)
        .filter(|n| (1..=MOST_AXES as i64).contains(n))
        .ok_or_else(|| node.fault("has indices of open length"))?;
    let n_batch = node.int("batch_dims", 0);
    if !(0..shape.len() as i64).contains(&n_batch) {
        return Err(broken(format!("{} has too many batch axes", node.describe()), "export the model again"));
    }
    let dtype = of.values.type_of(name).map_or(DType::I64, |ty| ty.dtype);
    let place = |axis: usize| {
        let mut extents = vec![Number::Int(1); shape.len() - 1];
        extents[axis] = shape[axis].clone();
        format!("iota(shape={}, axis={axis}, dtype={dtype})", list(&extents))
    };
    let places: Vec<String> = (0..n_batch as usize).map(place).collect();
    let indices = of.values.operand(name, None)?;
    let picked = (0..n).map(|at| format!("select({indices}, axis=-1, index={at})"));
    Ok(places.into_iter().chain(picked).collect())
}

pub(crate) fn gather_nd(of: &mut Translation, node: &Node) -> Result<(), Diagnostic> {
    let (name, _) = operand(of, node, 0)?;
    let columns = columns(of, node)?;
    let x = of.values.operand(name, None)?;
    of.values.define(&node.outputs[0], expression(&format!("index({x}, {})", columns.join(", ")))).map(drop)
}

pub(crate) fn scatter_nd(of: &mut Translation, node: &Node) -> Result<(), Diagnostic> {
    let adds = match node.attributes.get("reduction") {
        None => "",
        Some(Attribute::Text(text)) if text == "none" => "",
        Some(Attribute::Text(text)) if text == "add" => ", accumulate=true",
        Some(_) => return scatter_rows(of, node),
    };
    let ((name, _), (updates, _)) = (operand(of, node, 0)?, operand(of, node, 2)?);
    let columns = columns(of, node)?;
    let [x, updates] = [name, updates].map(|name| of.values.operand(name, None));
    let expr = format!("index_put({}, {}, {}{adds})", x?, updates?, columns.join(", "));
    of.values.define(&node.outputs[0], expression(&expr)).map(drop)
}

/// `ScatterND(x, indices, updates)` with a reduction, on the vector of the elements.
fn scatter_rows(of: &mut Translation, node: &Node) -> Result<(), Diagnostic> {
    let ((name, shape), (indices, _), (updates, _)) =
        (operand(of, node, 0)?, operand(of, node, 1)?, operand(of, node, 2)?);
    let columns = columns(of, node)?;
    let strides = strides(node, &shape)?;
    let dtype = of.values.type_of(indices).map_or(DType::I64, |ty| ty.dtype);
    let [x, updates] = [name, updates].map(|name| of.values.tensor(name));
    let (x, updates) = (x?.0, updates?.0);
    let mut terms = vec![];
    for ((column, n), stride) in columns.iter().zip(&shape).zip(&strides) {
        let label = format!("{}/index", node.outputs[0]);
        let column = of.values.derive(&label, column, None)?;
        let column = of.values.tensor_of(&label, column)?.0;
        terms.push(format!("({}) * {stride}", wrapped(&column, n)));
    }
    // The elements of a row lie behind each other.
    let row = columns.len().checked_sub(1).and_then(|last| strides.get(last)).copied();
    let row = row.ok_or_else(|| node.fault("has more indices than its operand has axes"))?;
    let within = positions(2, 1, &Number::Int(row), dtype);
    let places = places(of, node, &format!("reshape(({}), shape=[_, 1]) + {within}", terms.join(" + ")))?;
    let reduced = scattered(node, [&x, &places, &updates])?;
    of.values
        .define(&node.outputs[0], expression(&format!("reshape({reduced}, shape={})", list(&shape))))
        .map(drop)
}

/// `MaxUnpool(x, places, shape)`: elements at their places among zeros.
pub(crate) fn max_unpool(of: &mut Translation, node: &Node) -> Result<(), Diagnostic> {
    let ((name, shape), (places, _)) = (operand(of, node, 0)?, operand(of, node, 1)?);
    let known = |n: &Number| n.int().ok_or_else(|| node.fault("spreads open extents"));
    let shape = shape.iter().map(known).collect::<Result<Vec<_>, _>>()?;
    let sizes = node.ints("kernel_shape").unwrap_or_default().to_vec();
    let n = sizes.len();
    let unfit = || {
        broken(
            format!("{} has windows that do not fit its operand", node.describe()),
            "export the model again",
        )
    };
    let per_axis = |name: &str, n: usize, default: i64| {
        let given = node.ints(name).map_or_else(|| vec![default; n], <[i64]>::to_vec);
        let is_fit = given.len() == n && given.iter().all(|x| (0..1 << 31).contains(x));
        is_fit.then_some(given).ok_or_else(unfit)
    };
    let (strides, pads) = (per_axis("strides", n, 1)?, per_axis("pads", 2 * n, 0)?);
    if shape.len() != n + 2 {
        return Err(unfit());
    }
    let mut whole = shape[..2].to_vec();
    for at in 0..n {
        let extent = (shape[at + 2] - 1).saturating_mul(strides[at]).saturating_add(sizes[at]);
        whole.push(extent.saturating_sub(pads[at] + pads[n + at]).max(0));
    }
    let dtype = of.values.type_of(name).map_or(DType::F32, |ty| ty.dtype);
    let (x, places) = (of.values.tensor(name)?.0, of.values.tensor(places)?.0);
    let count = whole.iter().try_fold(1i64, |n, extent| n.checked_mul(*extent)).ok_or_else(unfit)?;
    let flat = |x: &str| format!("reshape({x}, shape=[_])");
    let zeros = format!("full(value=0, shape=[{count}], dtype={dtype})");
    let spread = format!("scatter({zeros}, {}, {})", flat(&places), flat(&x));
    let mut expr = format!("reshape({spread}, shape={})", list(&ints(&whole)));
    if let Some(wanted) = numbers(of, node, 2)? {
        let wanted = wanted.iter().map(known).collect::<Result<Vec<_>, _>>()?;
        let is_larger =
            wanted.len() == whole.len() && wanted.iter().zip(&whole).all(|(wanted, own)| wanted >= own);
        if !is_larger {
            return Err(unfit());
        }
        let after: Vec<i64> = wanted.iter().zip(&whole).map(|(wanted, own)| wanted - own).collect();
        expr = format!(
            "pad({expr}, before={}, after={}, value=0)",
            list(&ints(&vec![0; n + 2])),
            list(&ints(&after))
        );
    }
    of.values.define(&node.outputs[0], expression(&expr)).map(drop)
}
