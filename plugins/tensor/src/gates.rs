//! The shared parts of recurrent cells: operands, their types, and the sums of the gates.

use engine_core::ir::{Attrs, Builder, DType, Dim, MatmulSpec, Type, Value};
use engine_core::op::{InputSpec, TypeIssue, checked};

/// Weights of `n` gates, side by side along the last axis, and their biases.
pub fn weights(n: usize) -> [InputSpec; 4] {
    [
        InputSpec::required("w_input", &format!("[in, {n}·H], weights of the input, gate by gate")),
        InputSpec::required("w_hidden", &format!("[H, {n}·H], weights of the hidden state")),
        InputSpec::optional("bias_input", &format!("[{n}·H], added to the sums over the input")),
        InputSpec::optional("bias_hidden", &format!("[{n}·H], added to the sums over the hidden state")),
    ]
}

/// Checks an input […, in], states […, H], and after them the operands of [`weights`]. All are of one float type.
pub fn expect_cell(op: &str, n_gates: usize, n_states: usize, types: &[Type]) -> Result<(), TypeIssue> {
    let (x, hidden) = (&types[0], &types[1]);
    x.expect_dtype(op, 0, DType::is_float, "floats")?;
    let (Some((n_in, lead)), Some(n_hidden)) = (x.shape.split_last(), hidden.shape.last()) else {
        return Err(TypeIssue::new(format!("`{op}` of {x} and {hidden}")).help("it takes […, in] and […, H]"));
    };
    let gates = match n_hidden.fixed() {
        Some(n) => Dim::Fixed(n_gates * n),
        None => {
            return Err(TypeIssue::new("the extent of a hidden state must be known")
                .at(1, format!("this is {hidden}")));
        }
    };
    let state: Vec<Dim> = lead.iter().chain([n_hidden]).cloned().collect();
    let weights = [vec![n_in.clone(), gates.clone()], vec![n_hidden.clone(), gates.clone()]];
    let biases = [vec![gates.clone()], vec![gates]];
    let wanted = std::iter::repeat_n(state, n_states).chain(weights).chain(biases);
    for (operand, (ty, shape)) in types[1..].iter().zip(wanted).enumerate() {
        let wanted = Type { dtype: x.dtype, shape };
        if *ty != wanted {
            return Err(TypeIssue::new(format!("`{op}` of {x} and {hidden} with {ty}"))
                .at(operand + 1, format!("this is {ty}"))
                .help(format!("it must be {wanted}")));
        }
    }
    Ok(())
}

/// `x·w + bias`, in f32 or wider, gate by gate.
pub fn sums<const N: usize>(b: &mut Builder, x: Value, w: Value, bias: Option<&Value>) -> [Value; N] {
    let contracted = vec![(b.ty(x).rank() - 1, 0)];
    let mut sums = b.matmul_wide(x, w, MatmulSpec::new(vec![], contracted));
    if let Some(&bias) = bias {
        let bias = b.widen(bias);
        sums = b.map(&[sums, bias], |v| v[0] + v[1]);
    }
    let mut extents = b.extents(sums);
    let last = extents.len() - 1;
    extents[last] /= N;
    std::array::from_fn(|gate| {
        let mut start = vec![0; extents.len()];
        start[last] = gate * extents[last];
        b.slice(sums, &start, &extents, &vec![1; extents.len()])
    })
}

/// The activation with that name.
pub fn activated(b: &mut Builder, name: &str, x: Value) -> Value {
    checked(b.call(name, &[x], Attrs::default()))[0]
}
