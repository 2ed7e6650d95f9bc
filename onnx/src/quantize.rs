//! Quantised ops: integers with a scale and a zero point. They become arithmetic of floats, and of 32-bit integers.

use engine_core::diag::Diagnostic;
use engine_core::ir::DType;
use engine_core::text::expr::Expr;

use crate::fault::broken;
use crate::known::Number;
use crate::literal::list;
use crate::node::Node;
use crate::operands::{axis, ints, operand};
use crate::shapes;
use crate::table::expression;
use crate::tensor::{Element, element_from};
use crate::translate::Translation;
use crate::windows::{Windows, groups, sizes};

fn dtype_of(of: &Translation, node: &Node, at: usize) -> DType {
    node.input(at).and_then(|name| of.values.element(name)).map_or(DType::F32, |(dtype, _)| dtype)
}

/// An operand as numbers of a type.
pub(crate) fn converted(
    of: &mut Translation,
    node: &Node,
    at: usize,
    dtype: DType,
) -> Result<String, Diagnostic> {
    let (name, _) = operand(of, node, at)?;
    let x = of.values.operand(name, None)?;
    Ok(if dtype_of(of, node, at) == dtype { x.to_string() } else { format!("cast({x}, dtype={dtype})") })
}

/// A scale or a zero point as numbers of a type, beside an operand of this shape: one number, one for each place on an axis,
/// or one for each block of places.
pub(crate) fn beside(
    of: &mut Translation,
    node: &Node,
    (at, dtype): (usize, DType),
    shape: &[Number],
) -> Result<String, Diagnostic> {
    let (name, own) = operand(of, node, at)?;
    let is_one = own.iter().all(|extent| *extent == Number::Int(1));
    let number = of.values.known(name).and_then(|known| Some(known.single()?.decimal(known.dtype)));
    if let (true, Some(number)) = (is_one, number) {
        let number = if dtype.is_float() { number.float().map(Number::Float) } else { Some(number) };
        return Ok(number.map_or_else(String::new, |number| list(&[number]).replace(['[', ']'], "")));
    }
    let x = converted(of, node, at, dtype)?;
    let rank = shape.len();
    match own.len() {
        _ if is_one => Ok(format!("reshape({x}, shape=[])")),
        1 => {
            let along = axis(node, node.int("axis", 1), rank)?;
            let behind = vec![Number::Int(1); rank - along - 1];
            Ok(format!("reshape({x}, shape={})", list(&[own, behind].concat())))
        }
        n if n == rank => {
            let along = axis(node, node.int("axis", 1), rank)?;
            let block = node.int("block_size", 0);
            let repeated = format!("repeat_interleave({x}, repeats={block}, axis={along})");
            let is_cut = own[along].int().and_then(|n| n.checked_mul(block)) != shape[along].int();
            let (end, unfit) = (shape[along].int(), || node.fault("has blocks on an open extent"));
            let end = end.filter(|_| block > 0).ok_or_else(unfit)?;
            Ok(if is_cut { format!("slice({repeated}, axis={along}, stop={end})") } else { repeated })
        }
        _ => Err(broken(
            format!("{} has a scale of unexpected shape", node.describe()),
            "export the model again",
        )),
    }
}

/// The smallest and the largest number of a type of integers that a float may leave.
fn range((dtype, narrow): Element) -> Option<(i64, i64)> {
    match (narrow, dtype) {
        (Some(narrow), _) => narrow.range(),
        _ => dtype.int_range().filter(|_| dtype.size() < DType::I32.size()),
    }
}

/// A quotient by a scale as a number of a type.
pub(crate) fn rounded(quotient: &str, zero: Option<String>, element: Element, saturates: bool) -> Expr {
    let (dtype, narrow) = element;
    if let Some(narrow) = narrow.filter(|narrow| !narrow.is_int()) {
        return narrow.cast(&expression(quotient), DType::F32, saturates);
    }
    let zero = zero.filter(|zero| zero != "0.0").map(|zero| format!(" + {zero}")).unwrap_or_default();
    let whole = format!("round({quotient}){zero}");
    let limited =
        range(element).map_or(whole.clone(), |(min, max)| format!("clamp({whole}, min={min}, max={max})"));
    expression(&format!("cast({limited}, dtype={dtype})"))
}

/// The element type of a result: that of the zero point, or the one that an attribute names, or bytes.
pub(crate) fn element_of(of: &Translation, node: &Node, zero: usize) -> Result<Element, Diagnostic> {
    let found = match (node.input(zero), node.int("output_dtype", 0)) {
        (Some(name), _) => of.values.element(name),
        (None, 0) => Some((DType::U8, None)),
        (None, number) => element_from(number),
    };
    found.ok_or_else(|| node.fault("asks for an element type that the engine lacks"))
}

/// `QuantizeLinear(x, scale, zero)`
pub(crate) fn quantize(of: &mut Translation, node: &Node) -> Result<(), Diagnostic> {
    let (_, shape) = operand(of, node, 0)?;
    let element = element_of(of, node, 2)?;
    let x = converted(of, node, 0, DType::F32)?;
    let scale = beside(of, node, (1, DType::F32), &shape)?;
    let is_int = element.1.is_none_or(|narrow| narrow.is_int());
    let zero =
        node.input(2).filter(|_| is_int).map(|_| beside(of, node, (2, DType::F32), &shape)).transpose()?;
    let expr = rounded(&format!("{x} / {scale}"), zero, element, node.int("saturate", 1) != 0);
    of.values.define(&node.outputs[0], expr)?;
    of.values.set_narrow(&node.outputs[0], element.1);
    Ok(())
}

/// `DequantizeLinear(x, scale, zero)`
pub(crate) fn dequantize(of: &mut Translation, node: &Node) -> Result<(), Diagnostic> {
    let (_, shape) = operand(of, node, 0)?;
    let x = converted(of, node, 0, DType::F32)?;
    let scale = beside(of, node, (1, DType::F32), &shape)?;
    let x = match node.input(2) {
        Some(_) => match beside(of, node, (2, DType::F32), &shape)? {
            zero if zero == "0.0" => x,
            zero => format!("({x} - {zero})"),
        },
        None => x,
    };
    let dtype = match node.int("output_dtype", 0) {
        0 => dtype_of(of, node, 1),
        number => element_from(number).map_or(DType::F32, |(dtype, _)| dtype),
    };
    let expr = if dtype == DType::F32 {
        format!("{x} * {scale}")
    } else {
        format!("cast({x} * {scale}, dtype={dtype})")
    };
    of.values.define(&node.outputs[0], expression(&expr)).map(drop)
}

/// `DynamicQuantizeLinear(x)`: bytes, and the scale and zero point by which all elements and 0 fit.
pub(crate) fn dynamic(of: &mut Translation, node: &Node) -> Result<(), Diagnostic> {
    let (name, _) = operand(of, node, 0)?;
    let x = of.values.operand(name, None)?;
    let name = |at: usize, part: &str| match node.outputs.get(at).filter(|name| !name.is_empty()) {
        Some(name) => name.clone(),
        None => format!("{}.{part}", node.outputs[0]),
    };
    let least = of
        .values
        .define(&format!("{}.min", node.outputs[0]), expression(&format!("minimum(amin({x}), 0.0)")))?;
    let scale = format!("(maximum(amax({x}), 0.0) - {least}) / 255");
    let scale = of.values.define(&name(1, "scale"), expression(&scale))?;
    let zero = format!("cast(clamp(round(-{least} / {scale}), min=0, max=255), dtype=u8)");
    let zero = of.values.define(&name(2, "zero"), expression(&zero))?;
    let quotient = format!("{x} / {scale}");
    let expr = rounded(&quotient, Some(format!("cast({zero}, dtype=f32)")), (DType::U8, None), true);
    of.values.define(&node.outputs[0], expr).map(drop)
}

/// An operand of integers without its zero point. A zero point for each row stands beside rows, one for each column beside
/// columns: `shape` puts it there.
pub(crate) fn centred(
    of: &mut Translation,
    node: &Node,
    (at, zero): (usize, usize),
    dtype: DType,
    shape: impl Fn(Number) -> Vec<Number>,
) -> Result<String, Diagnostic> {
    let x = converted(of, node, at, dtype)?;
    if node.input(zero).is_none() {
        return Ok(x);
    }
    let (_, own) = operand(of, node, zero)?;
    let zero = match &own[..] {
        [n] if *n != Number::Int(1) => {
            format!("reshape({}, shape={})", converted(of, node, zero, dtype)?, list(&shape(n.clone())))
        }
        _ => beside(of, node, (zero, dtype), &own)?,
    };
    Ok(if matches!(zero.as_str(), "0" | "0.0") { x } else { format!("({x} - {zero})") })
}

fn product(of: &mut Translation, node: &Node, [a, b]: [(usize, usize); 2]) -> Result<String, Diagnostic> {
    let a = centred(of, node, a, DType::I32, |n| vec![n, Number::Int(1)])?;
    let b = centred(of, node, b, DType::I32, |n| vec![n])?;
    Ok(format!("{a} @ {b}"))
}

/// `MatMulInteger(a, b, zero of a, zero of b)`
pub(crate) fn matmul_integer(of: &mut Translation, node: &Node) -> Result<(), Diagnostic> {
    let product = product(of, node, [(0, 2), (1, 3)])?;
    of.values.define(&node.outputs[0], expression(&product)).map(drop)
}

/// `QLinearMatMul(a, scale, zero, b, scale, zero, scale of the result, zero of the result)`
pub(crate) fn linear_matmul(of: &mut Translation, node: &Node) -> Result<(), Diagnostic> {
    let product = product(of, node, [(0, 2), (3, 5)])?;
    rescaled(of, node, &format!("cast({product}, dtype=f32)"), &[])
}

/// A convolution of integers. It is computed in f64, which holds all sums of products.
fn convolved(of: &mut Translation, node: &Node, [x, w]: [(usize, usize); 2]) -> Result<String, Diagnostic> {
    let windows = Windows::of(of, node, &sizes(of, node, w.0)?)?;
    let n_axes = sizes(of, node, w.0)?.len();
    let x = centred(of, node, x, DType::F64, |n| vec![n])?;
    let w = centred(of, node, w, DType::F64, |n| [vec![n], vec![Number::Int(1); n_axes + 1]].concat())?;
    Ok(format!("conv({x}, {w}{}{})", windows.of_conv(), groups(node)))
}

/// `ConvInteger(x, w, zero of x, zero of w)`
pub(crate) fn conv_integer(of: &mut Translation, node: &Node) -> Result<(), Diagnostic> {
    let sums = convolved(of, node, [(0, 2), (1, 3)])?;
    of.values.define(&node.outputs[0], expression(&format!("cast({sums}, dtype=i32)"))).map(drop)
}

/// `QLinearConv(x, scale, zero, w, scale, zero, scale of the result, zero of the result, bias)`
pub(crate) fn linear_conv(of: &mut Translation, node: &Node) -> Result<(), Diagnostic> {
    let sums = convolved(of, node, [(0, 2), (3, 5)])?;
    let ones = vec![1; sizes(of, node, 3)?.len()];
    let sums = match node.input(8) {
        Some(_) => {
            let bias = converted(of, node, 8, DType::F64)?;
            let shape = list(&[vec![shapes::open()], ints(&ones)].concat());
            format!("{sums} + reshape({bias}, shape={shape})")
        }
        None => sums,
    };
    rescaled(of, node, &format!("cast({sums}, dtype=f32)"), &ones)
}

/// Sums of products in the scale of the result. Scales of the second operand may be one for each row of the result;
/// `behind` are the axes behind these.
fn rescaled(of: &mut Translation, node: &Node, sums: &str, behind: &[i64]) -> Result<(), Diagnostic> {
    let mut scales = vec![];
    for at in [1, 4, 6] {
        let (_, own) = operand(of, node, at)?;
        let scale = match &own[..] {
            [n] if *n != Number::Int(1) => {
                let shape = match at {
                    1 => vec![n.clone(), Number::Int(1)],
                    _ => [vec![n.clone()], ints(behind)].concat(),
                };
                format!("reshape({}, shape={})", converted(of, node, at, DType::F32)?, list(&shape))
            }
            _ => beside(of, node, (at, DType::F32), &own)?,
        };
        scales.push(scale);
    }
    let element = element_of(of, node, 7)?;
    let zero = node.input(7).map(|_| beside(of, node, (7, DType::F32), &[])).transpose()?;
    let quotient = format!("{sums} * ({} * {} / {})", scales[0], scales[1], scales[2]);
    of.values.define(&node.outputs[0], rounded(&quotient, zero, element, true))?;
    of.values.set_narrow(&node.outputs[0], element.1);
    Ok(())
}
