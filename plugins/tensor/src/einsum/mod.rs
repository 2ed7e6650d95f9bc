//! `einsum`.

mod equation;
mod lower;
mod order;

use engine_core::ir::{DType, Type};
use engine_core::op::{AttrKind, AttrSpec, InputSpec, OpForm, TypeIssue, checked};
use equation::Equation;

/// The most operands of a call. The best order of all their contractions is found.
const MOST: usize = 8;

/// Sums of products, by Einstein's convention. In `ij,jk->ik`, a letter names an axis of each operand. Axes of one letter
/// go together: in each result element they have one position. Letters that the result lacks are summed.
///
/// - A letter twice in one operand takes its diagonal.
/// - `...` stands for any further axes, which broadcast. They are summed if a written result lacks `...`.
/// - Without `->`, the result has the axes of `...`, then all letters that stand alone, in alphabetical order.
/// - An extent of 1 repeats where another operand has more.
///
/// Operands are contracted in pairs, in the order of the fewest multiplications.
pub fn einsum() -> OpForm {
    OpForm::new("einsum", "Sums products of up to 8 tensors, whose axes are named by letters.")
        .rounds_operands()
        .inputs((0..MOST).map(|i| InputSpec {
            name: format!("x{i}"),
            doc: format!("factor {i}"),
            optional: i > 0,
            range: None,
        }))
        .attr(AttrSpec::must(
            "equation",
            "a letter for each axis, as in `ij,jk->ik`; letters that the result lacks are summed, and `...` stands for \
             further axes",
            AttrKind::Str,
        ))
        .types(|types, attrs| {
            expect_one_dtype(types)?;
            let equation = Equation::read(attrs.str("equation"), types)?;
            Ok(vec![equation.result(types[0].dtype)])
        })
        .expand(|b, call| {
            let types: Vec<Type> = call.inputs.iter().map(|&x| b.ty(x).clone()).collect();
            let equation = checked(Equation::read(call.attrs.str("equation"), &types));
            vec![lower::product(b, call.inputs, &equation)]
        })
        .example(
            "two matrices",
            "einsum(a, b, equation='ij,jk->ik')",
            &[("f32[2, 2]", &[1., 2., 3., 4.]), ("f32[2, 1]", &[5., 6.])],
            &[("f32[2, 1]", &[17., 39.])],
        )
        .example(
            "a trace",
            "einsum(a, equation='ii->')",
            &[("f32[2, 2]", &[1., 2., 3., 4.])],
            &[("f32[]", &[5.])],
        )
}

fn expect_one_dtype(types: &[Type]) -> Result<(), TypeIssue> {
    types[0].expect_dtype("einsum", 0, |dtype| dtype != DType::Bool, "numbers")?;
    match types.iter().position(|ty| ty.dtype != types[0].dtype) {
        None => Ok(()),
        Some(i) => Err(TypeIssue::new(format!("`einsum` of {} and {}", types[0], types[i]))
            .at(i, format!("this is {}", types[i]))
            .help("all must be of one type; convert with `cast`")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use engine_core::ir::{Attr, Attrs, Dim};

    /// The type of the result for matrices f32[2, 3] and f32[3, 4], or the message.
    fn typed(equation: &str) -> String {
        typed_for(equation, &[Type::new(DType::F32, &[2, 3]), Type::new(DType::F32, &[3, 4])])
    }

    fn typed_for(equation: &str, types: &[Type]) -> String {
        let attrs = Attrs::default().with("equation", Attr::from(equation));
        einsum().infer(types, &attrs).map_or_else(|issue| issue.message, |types| types[0].to_string())
    }

    #[test]
    fn equations_that_do_not_fit_are_refused() {
        for (equation, message) in [
            ("ij,jk->ik", "f32[2, 4]"),
            ("ij->ij", "the equation has 1 operands, 2 are given"),
            ("ij,jk->iq", "no operand has the axis `q` of the result"),
            ("ij,jk->ii", "the result names the axis `i` twice"),
            ("ij,ik->jk", "the axis `i` has the extents 2 and 3"),
            ("ij,jj->i", "the axis `j` has the extents 3 and 4"),
            ("ij,j->i", "1 letters do not name the axes of f32[3, 4]"),
            ("ijk...,jk->i", "3 letters do not name the axes of f32[2, 3]"),
            ("i1,1k->ik", "`1` in `i1` names no axis"),
            ("i...j...,jk->ik", "`.` in `i...j...` names no axis"),
            ("ij,jk->ik->", "`-` in `ik->` names no axis"),
            ("...,...->...", "the axis `...` has the extents 2 and 3"),
        ] {
            assert_eq!(typed(equation), message, "{equation}");
        }
        let deep = Type::new(DType::F32, &[1; 65]);
        assert_eq!(typed_for("...", &[deep]), "the operands have 65 axes that differ");
        let mixed = [Type::new(DType::F32, &[2]), Type::new(DType::I32, &[2])];
        assert_eq!(typed_for("i,i", &mixed), "`einsum` of f32[2] and i32[2]");
    }

    #[test]
    fn extents_may_be_named() {
        let rows = Type { dtype: DType::F32, shape: vec![Dim::Named("B".into()), Dim::Fixed(3)] };
        assert_eq!(typed_for("bi,ij->bj", &[rows.clone(), Type::new(DType::F32, &[3, 4])]), "f32[B, 4]");
        assert_eq!(typed_for("bi,bi->b", &[rows, Type::new(DType::F32, &[1, 3])]), "f32[B]");
    }
}
