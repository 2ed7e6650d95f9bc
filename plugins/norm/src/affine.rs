//! Shared parts of normalisations: the axis, weights and a bias along it.

use engine_core::ir::{Attrs, Builder, DType, Dim, Type, Value};
use engine_core::op::{AttrSpec, InputSpec, TypeIssue};

/// The axis; by default, the last one.
pub fn axis() -> AttrSpec {
    AttrSpec::int("axis", "axis along which rows lie, negative from the end", -1)
}

/// Weights and a bias, both optional.
pub fn per_element() -> [InputSpec; 2] {
    [
        InputSpec::optional("weight", "a factor for each element of a row"),
        InputSpec::optional("bias", "a summand for each element of a row"),
    ]
}

/// Checks that `x` is of floats, has the axis, and that weights and bias fit along it.
pub fn expect_affine(op: &str, x: &Type, weights: &[Type], attrs: &Attrs) -> Result<(), TypeIssue> {
    x.expect_dtype(op, 0, DType::is_float, "floats")?;
    let along = &x.shape[x.axis(attrs.int("axis"))?];
    for ty in weights {
        if ty.shape != std::slice::from_ref(along) || ty.dtype != x.dtype {
            let wanted = Type { dtype: x.dtype, shape: vec![along.clone()] };
            return Err(TypeIssue::new(format!("`{op}` of {x} with weights {ty}"))
                .help(format!("weights and bias hold a number for each element of a row: {wanted}")));
        }
    }
    Ok(())
}

/// The type of one number per row: of extent 1 along the axis, in the type of the computation.
pub fn row_type(x: &Type, attrs: &Attrs) -> Result<Type, TypeIssue> {
    let mut ty = x.with_dtype(x.dtype.accumulator());
    let axis = x.axis(attrs.int("axis"))?;
    ty.shape[axis] = Dim::Fixed(1);
    Ok(ty)
}

/// One number per row with the axis put back, of extent 1.
pub fn spread(b: &mut Builder, per_row: Value, axis: usize) -> Value {
    let mut extents = b.extents(per_row);
    extents.insert(axis, 1);
    b.reshape(per_row, &extents)
}

/// Multiplies by the weights and adds the bias, if they are given.
pub fn affine(b: &mut Builder, x: Value, weights: &[Value], axis: usize) -> Value {
    let shape = b.ty(x).shape.clone();
    let mut along = |weight: Value| {
        let wide = b.widen(weight);
        b.broadcast_axes(wide, &[axis], &shape)
    };
    let weights: Vec<Value> = weights.iter().map(|&weight| along(weight)).collect();
    match weights[..] {
        [weight, bias] => b.map(&[x, weight, bias], |v| v[0] * v[1] + v[2]),
        [weight] => b.mul(x, weight),
        _ => x,
    }
}
