//! Shared parts of losses that compare elements: one type for all operands, and the setting `reduction`.

use engine_core::ir::{Attrs, Builder, DType, E, Type, Value};
use engine_core::op::{AttrSpec, OpForm, TypeIssue};

/// The reductions that all losses have. The first is the default.
pub const REDUCTIONS: &[&str] = &["mean", "sum", "none"];

/// A loss of each element of `x` against one of `target`, computed in f32 or wider and by default averaged. Both operands
/// have one float type, and the result has its element type. `docs` describe the operands.
pub fn elementwise(
    name: &'static str,
    summary: &str,
    docs: [&str; 2],
    loss: fn(x: E, target: E, attrs: &Attrs) -> E,
) -> OpForm {
    OpForm::new(name, summary)
        .input("x", docs[0])
        .input("target", docs[1])
        .results(&["loss"])
        .attr(reduction(REDUCTIONS))
        .types(move |types, attrs| {
            expect_alike(name, types)?;
            Ok(vec![reduced_type(&types[0], attrs)])
        })
        .expand(move |b, call| {
            let operands = [0, 1].map(|operand| b.widen(call.inputs[operand]));
            let losses = b.map(&operands, |v| loss(v[0], v[1], call.attrs));
            vec![reduced(b, losses, b.dtype(call.inputs[0]), call.attrs)]
        })
}

/// `reduction`, one of these words. The first is the default.
pub fn reduction(words: &[&str]) -> AttrSpec {
    AttrSpec::choice("reduction", "the reduction of the losses", words)
}

/// Checks that all operands have the type of the first, one of floats.
pub fn expect_alike(op: &str, types: &[Type]) -> Result<(), TypeIssue> {
    types[0].expect_dtype(op, 0, DType::is_float, "floats")?;
    match types.iter().position(|ty| *ty != types[0]) {
        None => Ok(()),
        Some(other) => Err(TypeIssue::new(format!("`{op}` of {} and {}", types[0], types[other]))
            .at(other, format!("this is {}", types[other]))
            .help(format!("it must be {} too: convert it with `cast` or `reshape`", types[0]))),
    }
}

/// The type of losses of type `elements` after their reduction.
pub fn reduced_type(elements: &Type, attrs: &Attrs) -> Type {
    match attrs.str("reduction") {
        "none" => elements.clone(),
        _ => Type::scalar(elements.dtype),
    }
}

/// Reduces losses and converts the result. `batchmean` divides their sum by the first extent.
pub fn reduced(b: &mut Builder, losses: Value, dtype: DType, attrs: &Attrs) -> Value {
    let axes: Vec<usize> = (0..b.ty(losses).rank()).collect();
    let y = match attrs.str("reduction") {
        "none" => losses,
        "mean" => b.mean(losses, &axes),
        "batchmean" => {
            let n_rows = b.extents(losses).first().copied().unwrap_or(1);
            let total = b.sum(losses, &axes);
            b.map(&[total], |v| v[0] / n_rows as f64)
        }
        _ => b.sum(losses, &axes),
    };
    b.cast(y, dtype)
}

/// `max(0, x)`, whose slope at 0 is 0: a margin that is met exactly has no gradient.
pub fn positive_part(x: E) -> E {
    E::from(0.0).max(x)
}
