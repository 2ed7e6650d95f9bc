//! Random tensors: `uniform` and `normal`.

use engine_core::ir::{Attrs, Builder, DType, Dim, E, Literal, Type, Value};
use engine_core::op::{AttrKind, AttrSpec, Lowering, OpForm, TypeIssue};

/// Independent numbers from `low` up to, but without, `high`. Every step draws new ones.
pub fn uniform() -> OpForm {
    random(
        "uniform",
        "Draws uniform random numbers between two bounds.",
        "uniform(shape=[0])",
        vec![AttrSpec::float("low", "lower bound", 0.0), AttrSpec::float("high", "upper bound", 1.0)],
        |b, extents, attrs| {
            let (low, high) = (attrs.float("low"), attrs.float("high"));
            let u = random_uniform(b, "uniform", extents, attrs);
            // Numbers are drawn in `f32`.
            let dtype = if attrs.dtype("dtype") == DType::F64 { DType::F32 } else { attrs.dtype("dtype") };
            let last = Literal::Float(high).below(dtype);
            b.map(&[u], |u| {
                let y = u[0] * (high - low) + low;
                if reaches(low, high, last) { y.min(last) } else { y }
            })
        },
    )
}

/// Whether the largest number that can be drawn exceeds `last`, the last one below `high`.
fn reaches(low: f64, high: f64, last: f64) -> bool {
    let largest = 1.0 - 0.5f64.powi(24);
    let (span, low) = ((high - low) as f32, low as f32);
    let in_one = largest.mul_add(f64::from(span), f64::from(low)) as f32;
    let in_two = largest as f32 * span + low;
    f64::from(low) < high && f64::from(in_one.max(in_two)) > last
}

/// Independent normal numbers, drawn anew at every step: `mean + std · √(-2 ln u) · cos 2πv` for uniform u and v (Box
/// and Muller 1958).
pub fn normal() -> OpForm {
    random(
        "normal",
        "Draws normal random numbers.",
        "normal(shape=[0])",
        vec![
            AttrSpec::float("mean", "their mean", 0.0),
            AttrSpec::float("std", "their standard deviation", 1.0),
        ],
        |b, extents, attrs| {
            let (mean, std) = (attrs.float("mean"), attrs.float("std"));
            let radius = random_uniform(b, "radius", extents, attrs);
            let angle = random_uniform(b, "angle", extents, attrs);
            b.map(&[radius, angle], |v| {
                let z = (v[0].log() * -2.0).sqrt() * (v[1] * std::f64::consts::TAU).cos();
                z * std + mean
            })
        },
    )
}

/// The form of an op that draws `f32` numbers and rounds them to the requested type.
pub fn random(
    name: &'static str,
    summary: &str,
    empty_draw: &'static str,
    own_attrs: Vec<AttrSpec>,
    draw: fn(&mut Builder, &[usize], &Attrs) -> Value,
) -> OpForm {
    let common = [
        AttrSpec::must("shape", "extents of the result", AttrKind::Shape),
        AttrSpec::dtype("dtype", "type of the result, a float", DType::F32),
        AttrSpec::open(
            "seed",
            "the stream of the numbers: nodes of one seed draw the same ones; each node has its own by default",
            AttrKind::Int,
        ),
    ];
    OpForm::new(name, summary)
        .attrs(own_attrs)
        .attrs(common)
        .types(move |_, attrs| Ok(vec![random_type(name, attrs)?]))
        .expand(move |b, call| vec![drawn(b, call, draw)])
        .no_grad("random numbers depend on nothing")
        // An empty draw is the only one with a predictable result.
        .example("of nothing", empty_draw, &[], &[("f32[0]", &[])])
}

/// Uniform numbers in (0, 1), from the stream that the attributes name, or that of the node.
pub fn random_uniform(b: &mut Builder, salt: &str, extents: &[usize], attrs: &Attrs) -> Value {
    match attrs.opt_int("seed") {
        Some(seed) => b.random_uniform_of(seed, salt, extents),
        None => b.random_uniform(salt, extents),
    }
}

fn random_type(name: &str, attrs: &Attrs) -> Result<Type, TypeIssue> {
    let dtype = attrs.dtype("dtype");
    if !dtype.is_float() {
        return Err(
            TypeIssue::new(format!("`{name}` draws floats, not {dtype}")).help("cast them afterwards")
        );
    }
    Ok(Type { dtype, shape: attrs.shape("shape") })
}

fn drawn(b: &mut Builder, call: &Lowering, draw: fn(&mut Builder, &[usize], &Attrs) -> Value) -> Value {
    let shape: Vec<Dim> = call.attrs.shape("shape");
    let extents = Type { dtype: DType::F32, shape }.extents();
    let y = draw(b, &extents, call.attrs);
    b.cast(y, call.attrs.dtype("dtype"))
}

/// Standard Gumbel noise from uniform numbers in (0, 1): `-ln(-ln u)`, finite for every u that can be drawn.
pub fn gumbel_of(u: E) -> E {
    -(-u.log()).log()
}
