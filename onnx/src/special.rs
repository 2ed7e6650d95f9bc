//! Ops that the table cannot say: shapes, ranges, parts and branches.

use engine_core::diag::Diagnostic;
use engine_core::ir::DType;

use crate::attention::{attention, rotary};
use crate::fault::broken;
use crate::group_attention::group_query;
use crate::known::{Known, Number};
use crate::linear_attention::linear_attention;
use crate::literal::{list, of_number};
use crate::node::{Attribute, Node};
use crate::operands::{MOST_AXES, axis, cut, ints, numbers, operand, positions};
use crate::table::expression;
use crate::tensor::{Stored, element_from};
use crate::translate::{Translate, Translation};
use crate::{
    blocks, by_data, draws, fused_quantize, grid, heads, labels, linear_models, loops, optimizers, pads,
    picks, quantize, recurrent, regions, resize, roi, sequences, signal, trees, windows,
};

/// The ops of this file, by name.
pub(crate) const OPS: &[(&str, Translate)] = &[
    ("ai.onnx.ml.LabelEncoder", labels::encoder),
    ("ai.onnx.ml.LinearClassifier", linear_models::classifier),
    ("ai.onnx.ml.LinearRegressor", linear_models::regressor),
    ("ai.onnx.ml.SVMClassifier", linear_models::svm_classifier),
    ("ai.onnx.ml.SVMRegressor", linear_models::svm_regressor),
    ("ai.onnx.ml.TreeEnsemble", trees::ensemble),
    ("ai.onnx.ml.TreeEnsembleClassifier", trees::classifier),
    ("ai.onnx.ml.TreeEnsembleRegressor", trees::regressor),
    ("ai.onnx.ml.ZipMap", labels::columns),
    ("ai.onnx.preview.training.Adagrad", optimizers::adagrad),
    ("ai.onnx.preview.training.Adam", optimizers::adam),
    ("ai.onnx.preview.training.Momentum", optimizers::momentum),
    ("com.microsoft.Attention", heads::packed),
    ("com.microsoft.CausalConvWithState", causal_conv),
    ("com.microsoft.DecoderMaskedMultiHeadAttention", heads::decoder),
    ("com.microsoft.DequantizeLinear", quantize::dequantize),
    ("com.microsoft.DynamicQuantizeLSTM", recurrent::quantized_lstm),
    ("com.microsoft.DynamicQuantizeMatMul", fused_quantize::dynamic_matmul),
    ("com.microsoft.GatherBlockQuantized", blocks::gather),
    ("com.microsoft.GroupQueryAttention", group_query),
    ("com.microsoft.LinearAttention", plain_linear_attention),
    ("com.microsoft.MatMulBnb4", blocks::matmul_bnb4),
    ("com.microsoft.MatMulIntegerToFloat", fused_quantize::matmul_to_float),
    ("com.microsoft.MatMulNBits", blocks::matmul_n_bits),
    ("com.microsoft.MultiHeadAttention", heads::multi_head),
    ("com.microsoft.QAttention", fused_quantize::attention),
    ("com.microsoft.QGemm", fused_quantize::gemm),
    ("com.microsoft.QLinearConcat", fused_quantize::concat),
    ("com.microsoft.QuantizeLinear", quantize::quantize),
    ("com.microsoft.Range", range),
    ("com.microsoft.RotaryEmbedding", heads::rotary),
    ("AffineGrid", grid::affine_grid),
    ("Attention", attention),
    ("AveragePool", windows::average_pool),
    ("BitCast", by_data::bit_cast),
    ("CausalConvWithState", windows::causal_conv),
    ("Cast", cast),
    ("CastLike", cast),
    ("CenterCropPad", pads::center_crop_pad),
    ("Col2Im", windows::col2im),
    ("Constant", constant),
    ("Compress", picks::compress),
    ("ConcatFromSequence", sequences::concat),
    ("ConstantOfShape", constant_of_shape),
    ("Conv", windows::conv),
    ("ConvInteger", quantize::conv_integer),
    ("ConvTranspose", windows::conv_transpose),
    ("DFT", signal::dft),
    ("DequantizeLinear", quantize::dequantize),
    ("Det", roi::determinant),
    ("Dropout", draws::dropout),
    ("DynamicQuantizeLinear", quantize::dynamic),
    ("GRU", recurrent::gru),
    ("GatherND", picks::gather_nd),
    ("GridSample", grid::grid_sample),
    ("If", regions::branch),
    ("LRN", windows::response_norm),
    ("LSTM", recurrent::lstm),
    ("LinearAttention", linear_attention),
    ("Loop", loops::trips),
    ("LpPool", windows::lp_pool),
    ("MatMulInteger", quantize::matmul_integer),
    ("MaxPool", windows::max_pool),
    ("MaxUnpool", picks::max_unpool),
    ("MelWeightMatrix", signal::mel_weights),
    ("NonZero", by_data::non_zero),
    ("OneHot", one_hot),
    ("Optional", sequences::optional),
    ("OptionalGetElement", sequences::element),
    ("OptionalHasElement", sequences::has_element),
    ("Pad", pads::pad),
    ("QLinearConv", quantize::linear_conv),
    ("QLinearMatMul", quantize::linear_matmul),
    ("QuantizeLinear", quantize::quantize),
    ("Range", range),
    ("Resize", resize::resize),
    ("RNN", recurrent::rnn),
    ("ReverseSequence", picks::reverse_sequence),
    ("RoiAlign", roi::align),
    ("RotaryEmbedding", rotary),
    ("STFT", signal::stft),
    ("Scan", loops::scan),
    ("ScatterElements", picks::scatter_elements),
    ("ScatterND", picks::scatter_nd),
    ("SequenceAt", sequences::at),
    ("SequenceConstruct", sequences::construct),
    ("SequenceEmpty", sequences::construct),
    ("SequenceErase", sequences::erase),
    ("SequenceInsert", sequences::insert),
    ("SequenceLength", sequences::length),
    ("SequenceMap", sequences::map),
    ("Shape", shape),
    ("Size", size),
    ("Slice", slice),
    ("Split", split),
    ("SplitToSequence", sequences::split),
    ("TensorScatter", picks::tensor_scatter),
    ("Unique", by_data::unique),
    ("Upsample", resize::upsample),
];

/// `CausalConvWithState` of onnxruntime, as far as ONNX has it.
fn causal_conv(of: &mut Translation, node: &Node) -> Result<(), Diagnostic> {
    let further = ["state_update_capacity", "state_window", "state_length", "channels_last"];
    heads::expect_default(node, &further.map(|name| (name, 0)))?;
    heads::expect_default(node, &[("dilation", 1), ("ndim", 1), ("state_channels_last", -1)])?;
    heads::expect_default(node, &[("input_channel_offset", 0), ("input_channels", 0)])?;
    windows::causal_conv(of, node)
}

/// `LinearAttention` of onnxruntime, as far as ONNX has it.
fn plain_linear_attention(of: &mut Translation, node: &Node) -> Result<(), Diagnostic> {
    heads::expect_default(node, &[("state_window", 0)])?;
    linear_attention(of, node)
}

fn constant(of: &mut Translation, node: &Node) -> Result<(), Diagnostic> {
    let list = |items: &[f64]| items.iter().map(|&x| Number::Float(x)).collect::<Vec<_>>();
    let attribute = node.attributes.iter().next();
    let value = match attribute {
        Some((name, Attribute::Tensor(stored))) if name == "value" => {
            // A single number is a constant of the formula, no weight.
            match Known::of(stored).filter(|known| known.single().is_some() && stored.narrow.is_none()) {
                Some(known) => of.values.add_known(&node.outputs[0], known),
                None => of.values.add_stored(&node.outputs[0], stored.clone()),
            }
            return Ok(());
        }
        Some((_, Attribute::Int(n))) => Known::new(DType::I64, vec![], vec![Number::Int(*n)]),
        Some((_, Attribute::Float(x))) => Known::new(DType::F32, vec![], vec![Number::Float(*x)]),
        Some((_, Attribute::Ints(items))) => Known::new(DType::I64, vec![items.len()], ints(items)),
        Some((_, Attribute::Floats(items))) => Known::new(DType::F32, vec![items.len()], list(items)),
        _ => None,
    };
    let value = value.ok_or_else(|| node.fault("is no constant of numbers"))?;
    of.values.add_known(&node.outputs[0], value);
    Ok(())
}

/// `Cast(x)` to the type that an attribute names, and `CastLike(x, y)` to that of y.
fn cast(of: &mut Translation, node: &Node) -> Result<(), Diagnostic> {
    let (name, _) = operand(of, node, 0)?;
    let from = of.values.element(name);
    let to = match node.op.as_str() {
        "Cast" => element_from(node.int("to", 0)),
        _ => node.input(1).and_then(|like| of.values.element(like)),
    };
    let (Some((own, narrow)), Some((dtype, target))) = (from, to) else {
        return Err(node.fault("asks for an element type that the engine lacks"));
    };
    let output = &node.outputs[0];
    let list = of.values.stored(name).filter(|list| list.dims.len() == 1 && list.dims[0] <= MOST_AXES);
    let list = list.filter(|_| narrow.is_none() && target.is_none()).and_then(Known::of);
    let list = list.and_then(|list| Known::new(dtype, list.dims, list.elements));
    if own == dtype && (target.is_none() || target == narrow) {
        of.values.alias(output, name);
    } else {
        let x = of.values.operand(name, None)?;
        let expr = match target {
            Some(target) => target.cast(&x, own, node.int("saturate", 1) != 0),
            None => expression(&format!("cast({x}, dtype={dtype})")),
        };
        of.values.define(output, expr)?;
        of.values.set_listed(output, list);
    }
    of.values.set_narrow(output, target);
    Ok(())
}

/// `Shape(x, start, end)`
fn shape(of: &mut Translation, node: &Node) -> Result<(), Diagnostic> {
    let (_, extents) = operand(of, node, 0)?;
    let rank = extents.len() as i64;
    let clip = |at: i64| (if at < 0 { at.saturating_add(rank) } else { at }).clamp(0, rank) as usize;
    let (start, end) = (clip(node.int("start", 0)), clip(node.int("end", rank)));
    let part = extents.get(start..end.max(start)).unwrap_or_default();
    of.values.add_known(&node.outputs[0], Known::vector(part.to_vec()));
    Ok(())
}

fn size(of: &mut Translation, node: &Node) -> Result<(), Diagnostic> {
    let (_, extents) = operand(of, node, 0)?;
    let product = extents.iter().try_fold(Number::Int(1), |product, extent| product.times(extent));
    let product = product.ok_or_else(|| node.fault("has too many elements"))?;
    of.values.add_known(&node.outputs[0], Known { dtype: DType::I64, dims: vec![], elements: vec![product] });
    Ok(())
}

fn constant_of_shape(of: &mut Translation, node: &Node) -> Result<(), Diagnostic> {
    let shape = numbers(of, node, 0)?.unwrap_or_default();
    let narrow = match node.attributes.get("value") {
        Some(Attribute::Tensor(stored)) => stored.narrow,
        _ => None,
    };
    let (dtype, value) = match node.attributes.get("value") {
        None => (DType::F32, Number::Float(0.0)),
        Some(Attribute::Tensor(Stored { dtype, dims, bytes, .. })) if dims.iter().product::<usize>() == 1 => {
            let known = Known::of(&Stored::new(*dtype, vec![], bytes.clone()));
            let number = known.and_then(|known| Some(known.single()?.decimal(*dtype)));
            (*dtype, number.unwrap_or(Number::Int(0)))
        }
        Some(_) => {
            return Err(broken(
                format!("{} fills with more than one value", node.describe()),
                "export the model again",
            ));
        }
    };
    let dtype = if dtype == DType::F32 { String::new() } else { format!(", dtype={dtype}") };
    let expr = format!("full(value={}, shape={}{dtype})", of_number(&value), list(&shape));
    of.values.define(&node.outputs[0], expression(&expr))?;
    of.values.set_narrow(&node.outputs[0], narrow);
    Ok(())
}

/// `Range(start, limit, delta)`: the table's expressions need numbers, `iota` takes extents.
fn range(of: &mut Translation, node: &Node) -> Result<(), Diagnostic> {
    let dtype = node.input(0).and_then(|name| of.values.type_of(name)).map_or(DType::I64, |ty| ty.dtype);
    let scalar = |at| numbers(of, node, at).map(|found| found.and_then(|found| found.first().cloned()));
    let step = scalar(2)?.unwrap_or(Number::Int(1));
    let (Some(start), Some(limit)) = (scalar(0)?, scalar(1)?) else {
        return Err(broken(format!("{} lacks an operand", node.describe()), "export the model again"));
    };
    let is_open = |number: &Number| matches!(number, Number::Dim(_));
    let expr = match (&start, &step) {
        _ if ![&start, &limit, &step].into_iter().any(is_open) => {
            let limit = end_of_range(dtype, [&start, &limit, &step]).unwrap_or(limit);
            let [start, limit, step] = [&start, &limit, &step].map(of_number);
            expression(&format!("arange(start={start}, stop={limit}, step={step}, dtype={dtype})"))
        }
        (_, Number::Int(1)) if dtype.is_int() => positions(&start, &limit, dtype)
            .ok_or_else(|| node.fault("has bounds that are not known at import"))?,
        _ => return Err(node.fault("has a step other than 1 between extents that are open")),
    };
    of.values.define(&node.outputs[0], expr).map(drop)
}

/// An end by which a range of floats has as many elements as by its bounds in their type. Decimals may miss that by one.
fn end_of_range(dtype: DType, bounds: [&Number; 3]) -> Option<Number> {
    let count = |[start, limit, step]: [f64; 3]| ((limit - start) / step).ceil();
    let decimals = [bounds[0].float()?, bounds[1].float()?, bounds[2].float()?];
    let exact = |number: &Number| number.in_type(dtype)?.float();
    let n = count([exact(bounds[0])?, exact(bounds[1])?, exact(bounds[2])?]);
    let [start, _, step] = decimals;
    // The middle between the last element and the next is far from both.
    let middle = Number::Float(start + (n - 0.5) * step).decimal(dtype);
    (dtype.is_float() && count(decimals) != n).then_some(middle)
}

/// `x[…, start:end:step, …]`. Ends beyond the operand are left out, and ends relative to an open extent are negative.
fn slice(of: &mut Translation, node: &Node) -> Result<(), Diagnostic> {
    let (name, shape) = operand(of, node, 0)?;
    let listed = |at: usize, attr: &str| match node.ints(attr) {
        Some(items) => Ok(Some(ints(items))),
        None => numbers(of, node, at),
    };
    let (starts, ends) = (listed(1, "starts")?.unwrap_or_default(), listed(2, "ends")?.unwrap_or_default());
    let axes = listed(3, "axes")?.unwrap_or_else(|| (0..starts.len() as i64).map(Number::Int).collect());
    let steps = listed(4, "steps")?.unwrap_or_else(|| vec![Number::Int(1); starts.len()]);
    let is_even = [ends.len(), axes.len(), steps.len()].iter().all(|&n| n == starts.len());
    if !is_even || starts.len() > MOST_AXES {
        return Err(broken(
            format!("{} has bounds of unequal number", node.describe()),
            "export the model again",
        ));
    }
    let mut expr = of.values.operand(name, None)?;
    let mut is_whole = true;
    for (((start, end), along), step) in starts.iter().zip(&ends).zip(&axes).zip(&steps) {
        let (Some(along), Some(step)) = (along.int(), step.int()) else {
            return Err(node.fault("has axes or steps that are not known at import"));
        };
        let along = axis(node, along, shape.len())?;
        if let Some(part) = cut(&expr, &shape[along], (start, end), along, step)
            .ok_or_else(|| node.fault("has bounds that are not known at import"))?
        {
            (expr, is_whole) = (part, false);
        }
    }
    match is_whole {
        true => of.values.alias(&node.outputs[0], name),
        false => drop(of.values.define(&node.outputs[0], expr)?),
    }
    Ok(())
}

/// `Split(x, split)`: one part per result.
fn split(of: &mut Translation, node: &Node) -> Result<(), Diagnostic> {
    let (name, shape) = operand(of, node, 0)?;
    let along = axis(node, node.int("axis", 0), shape.len())?;
    let sizes = match (node.ints("split"), numbers(of, node, 1)?) {
        (Some(items), _) => items.to_vec(),
        (None, Some(items)) => items
            .iter()
            .map(Number::int)
            .collect::<Option<_>>()
            .ok_or_else(|| node.fault("has parts of open extents"))?,
        (None, None) => {
            let whole = shape[along].int().ok_or_else(|| node.fault("splits an open extent"))?;
            let n = node.outputs.len() as i64;
            let size = whole.checked_add(n - 1).map_or(0, |sum| sum / n.max(1));
            (0..n).map(|i| size.min(whole - size * i).max(0)).collect()
        }
    };
    let x = of.values.operand(name, None)?;
    let mut start = 0i64;
    for (output, size) in node.outputs.iter().zip(sizes) {
        let end = start.saturating_add(size);
        let (start_at, end_at) = (Number::Int(start), Number::Int(end));
        let part = cut(&x, &shape[along], (&start_at, &end_at), along, 1).flatten();
        start = end;
        match part {
            _ if output.is_empty() => {}
            Some(part) => drop(of.values.define(output, part)?),
            None => of.values.alias(output, name),
        }
    }
    Ok(())
}

/// `OneHot(indices, depth, values)`: indices beyond the depth give rows of the first value.
fn one_hot(of: &mut Translation, node: &Node) -> Result<(), Diagnostic> {
    let ((indices, shape), (values, _)) = (operand(of, node, 0)?, operand(of, node, 2)?);
    let depth = numbers(of, node, 1)?.and_then(|found| found.first().and_then(Number::float));
    let depth = depth.filter(|depth| (1.0..2f64.powi(31)).contains(depth));
    let depth = depth.ok_or_else(|| node.fault("has a depth that is open, or no number of classes"))? as i64;
    let is_float = of.values.type_of(indices).is_some_and(|ty| !ty.dtype.is_int());
    let (indices, values) = (of.values.tensor(indices)?.0, of.values.tensor(values)?.0);
    let indices = if is_float { format!("cast({indices}, dtype=i64)") } else { indices };
    let marks = format!("one_hot({indices}, classes={depth}, dtype=i32, oob=skip, wrap_negative=true) == 1");
    let rank = shape.len() as i64;
    let axis = axis(node, node.int("axis", -1), shape.len() + 1)? as i64;
    let axes = Number::vector((0..axis).chain([rank]).chain(axis..rank));
    let marks = if axis == rank { marks } else { format!("permute({marks}, axes={})", list(&axes)) };
    let expr = format!("where({marks}, select({values}, index=1), select({values}, index=0))");
    of.values.define(&node.outputs[0], expression(&expr)).map(drop)
}
