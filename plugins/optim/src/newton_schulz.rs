//! Approximate orthogonalisation by matmuls alone.

use engine_core::ir::{Attrs, Builder, DType, MatmulSpec, Unary, Value};
use engine_core::op::{AttrSpec, OpForm, TypeIssue};

/// Coefficients of the quintic that pulls singular values towards 1, from below and above (Jordan et al. 2024).
const QUINTIC: [f64; 3] = [3.4445, -4.775, 2.0315];

/// Brings the singular values of matrices [M, N] near 1 while keeping their singular vectors. It starts from X/(‖X‖ +
/// 1e-7) with the Frobenius norm, and takes steps `X ← aX + (bG + cG²)X` with G = X·Xᵀ. If M > N, it works on the
/// transpose. Matmuls are computed in `compute`, which may be a small float.
pub fn newton_schulz() -> OpForm {
    OpForm::new("newton_schulz", "Brings the singular values of a matrix near 1.")
        .input("x", "[M, N]")
        .attrs(attrs())
        .types(|types, attrs| {
            types[0].expect_dtype("newton_schulz", 0, DType::is_float, "floats")?;
            expect_steps(attrs)?;
            match types[0].rank() {
                2 => Ok(vec![types[0].clone()]),
                _ => {
                    Err(TypeIssue::new("`newton_schulz` takes a matrix")
                        .at(0, format!("this is {}", types[0])))
                }
            }
        })
        .expand(|b, call| vec![orthogonalised(b, call.inputs[0], call.attrs)])
        .tested_on(-1.0, 1.0)
        .example(
            "one step of a diagonal matrix",
            "newton_schulz(a, steps=1, compute=f32)",
            &[("f32[2, 2]", &[3., 0., 0., 4.])],
            &[("f32[2, 2]", &[1.1932694, 0., 0., 0.9764819])],
        )
}

/// The number of steps and their type.
pub fn attrs() -> Vec<AttrSpec> {
    vec![
        AttrSpec::int("steps", "number of steps", 5),
        AttrSpec::dtype("compute", "the float that products are computed in", DType::BF16),
    ]
}

/// Checks the settings of [`attrs`].
pub fn expect_steps(attrs: &Attrs) -> Result<(), TypeIssue> {
    match (0..=64).contains(&attrs.int("steps")) && attrs.dtype("compute").is_float() {
        true => Ok(()),
        false => Err(TypeIssue::new(format!(
            "{} steps in {} cannot be computed",
            attrs.int("steps"),
            attrs.dtype("compute")
        ))
        .help("take 0 to 64 steps in a float type")),
    }
}

/// The iteration on a matrix. The result has the operand's type.
pub fn orthogonalised(b: &mut Builder, given: Value, attrs: &Attrs) -> Value {
    let wide = b.widen(given);
    let squares = b.mul(wide, wide);
    let total = b.sum(squares, &[0, 1]);
    let norm = b.unary(Unary::Sqrt, total);
    let x = b.map(&[wide, norm], |v| v[0] / (v[1] + 1e-7));
    let mut x = b.cast(x, attrs.dtype("compute"));
    let extents = b.extents(x);
    let is_tall = extents[0] > extents[1];
    if is_tall {
        x = b.permute(x, &[1, 0]);
    }
    for _ in 0..attrs.int("steps") {
        x = step(b, x);
    }
    if is_tall {
        x = b.permute(x, &[1, 0]);
    }
    b.cast(x, b.dtype(given))
}

fn step(b: &mut Builder, x: Value) -> Value {
    let [linear, cubic, quintic] = QUINTIC;
    let gram = b.matmul(x, x, MatmulSpec::new(vec![], vec![(1, 1)]));
    let square = b.mm(gram, gram);
    let factor = b.map(&[gram, square], |v| v[0] * cubic + v[1] * quintic);
    let bent = b.mm(factor, x);
    b.map(&[x, bent], |v| v[0] * linear + v[1])
}
