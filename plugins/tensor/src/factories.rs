//! Tensors without operands: `zeros`, `ones`, `full`, `arange`, `iota`.

use engine_core::ir::{Attrs, Builder, DType, Dim, Literal, Type, Value};
use engine_core::op::{AttrKind, AttrSpec, OpForm, TypeIssue, checked};

/// A tensor of zeros.
pub fn zeros() -> OpForm {
    filled("zeros", "Makes a tensor of zeros.", vec![], |_| Literal::Int(0)).example(
        "a row",
        "zeros(shape=[1, 2])",
        &[],
        &[("f32[1, 2]", &[0., 0.])],
    )
}

/// A tensor of ones.
pub fn ones() -> OpForm {
    filled("ones", "Makes a tensor of ones.", vec![], |_| Literal::Int(1)).example(
        "integers",
        "ones(shape=[2], dtype=i32)",
        &[],
        &[("i32[2]", &[1., 1.])],
    )
}

/// A tensor filled with one number, kept exactly: NaN, infinities and -0 included.
pub fn full() -> OpForm {
    filled(
        "full",
        "Makes a tensor filled with one number.",
        vec![AttrSpec::must("value", "the value of each element", AttrKind::Element)],
        |attrs| attrs.literal("value"),
    )
    .example("a vector", "full(value=2.5, shape=[2])", &[], &[("f32[2]", &[2.5, 2.5])])
}

fn filled(name: &str, summary: &str, own_attrs: Vec<AttrSpec>, value: fn(&Attrs) -> Literal) -> OpForm {
    OpForm::new(name, summary)
        .attrs(own_attrs)
        .attr(AttrSpec::must("shape", "its extents", AttrKind::Shape))
        .attr(AttrSpec::dtype("dtype", "its element type", DType::F32))
        .types(|_, attrs| Ok(vec![filled_type(attrs)]))
        .expand(move |b, call| vec![b.full(value(call.attrs), filled_type(call.attrs))])
        .no_grad("a constant depends on nothing")
}

fn filled_type(attrs: &Attrs) -> Type {
    Type { dtype: attrs.dtype("dtype"), shape: attrs.shape("shape") }
}

/// `start, start + step, …` up to and without `stop`; `max(0, ⌈(stop - start) / step⌉)` elements.
pub fn arange() -> OpForm {
    OpForm::new("arange", "Makes a vector of equally spaced numbers.")
        .attr(AttrSpec::element("start", "the first number", 0i64))
        .attr(AttrSpec::must("stop", "where it ends; not reached", AttrKind::Float))
        .attr(AttrSpec::element("step", "distance of neighbours, not 0", 1i64))
        .attr(AttrSpec::dtype("dtype", "its element type", DType::I32))
        .types(|_, attrs| Ok(vec![range_type(attrs)?]))
        .expand(|b, call| vec![range(b, call.attrs)])
        .no_grad("a constant depends on nothing")
        .example("from 0", "arange(stop=3)", &[], &[("i32[3]", &[0., 1., 2.])])
        .example(
            "backwards by halves",
            "arange(start=1, stop=0, step=-0.5, dtype=f32)",
            &[],
            &[("f32[2]", &[1., 0.5])],
        )
}

/// The position of each element along an axis. Extents may be open, where `arange` needs numbers.
pub fn iota() -> OpForm {
    OpForm::new("iota", "Numbers the positions along an axis, from 0.")
        .attr(AttrSpec::must("shape", "its extents", AttrKind::Shape))
        .attr(AttrSpec::int("axis", "the axis that is numbered", 0))
        .attr(AttrSpec::dtype("dtype", "its element type", DType::I32))
        .types(|_, attrs| Ok(vec![numbered_type(attrs)?]))
        .expand(|b, call| {
            let ty = checked(numbered_type(call.attrs));
            let axis = checked(ty.axis(call.attrs.int("axis")));
            let counter = counter(ty.dtype);
            let position = b.iota(axis, ty.with_dtype(counter));
            vec![b.cast(position, ty.dtype)]
        })
        .no_grad("a constant depends on nothing")
        .example("a vector", "iota(shape=[3])", &[], &[("i32[3]", &[0., 1., 2.])])
        .example(
            "columns",
            "iota(shape=[2, 3], axis=1, dtype=f32)",
            &[],
            &[("f32[2, 3]", &[0., 1., 2., 0., 1., 2.])],
        )
}

fn numbered_type(attrs: &Attrs) -> Result<Type, TypeIssue> {
    let ty = filled_type(attrs);
    ty.axis(attrs.int("axis"))?;
    match ty.dtype {
        DType::Bool => {
            Err(TypeIssue::new(format!("`iota` does not make {}", ty.dtype)).help("cast it afterwards"))
        }
        _ => Ok(ty),
    }
}

/// The type in which positions are counted: the own type of integers, except that small ones wrap.
fn counter(dtype: DType) -> DType {
    if dtype.is_int() && dtype.size() >= DType::I32.size() { dtype } else { DType::I32 }
}

fn range_type(attrs: &Attrs) -> Result<Type, TypeIssue> {
    let [start, stop, step] = ["start", "stop", "step"].map(|name| attrs.float(name));
    let count = ((stop - start) / step).ceil();
    let dtype = attrs.dtype("dtype");
    if dtype == DType::Bool {
        return Err(TypeIssue::new(format!("`arange` does not make {dtype}")).help("cast it afterwards"));
    }
    // Row indices are 32 bits wide.
    if !count.is_finite() || count > i32::MAX as f64 {
        return Err(TypeIssue::new(format!("`arange` from {start} to {stop} by {step} has no end")));
    }
    let last = start + (count - 1.0).max(0.0) * step;
    if Literal::Float(last).cast(dtype).as_f64() != last.trunc() && !dtype.is_float() {
        return Err(TypeIssue::new(format!("`arange` ends with {last}, which is no element of {dtype}"))
            .at_setting("stop")
            .help("give a wider `dtype`"));
    }
    Ok(Type { dtype, shape: vec![Dim::Fixed(count.max(0.0) as usize)] })
}

fn range(b: &mut Builder, attrs: &Attrs) -> Value {
    let ty = checked(range_type(attrs));
    let position = b.iota(0, ty.with_dtype(counter(ty.dtype)));
    // Small floats are rounded once, after the last operation.
    let wide = ty.dtype.accumulator();
    let position = b.cast(position, wide);
    let [first, distance] = ["start", "step"].map(|name| b.full(attrs.literal(name), ty.with_dtype(wide)));
    let offset = b.mul(position, distance);
    let y = b.add(first, offset);
    b.cast(y, ty.dtype)
}
