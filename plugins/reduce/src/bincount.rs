//! Counting.

use engine_core::ir::{Combine, DType, Dim, Literal, Type};
use engine_core::op::{AttrKind, AttrSpec, OpForm, TypeIssue};

/// The number of occurrences of each of `0..bins`, `i32[bins]`. Any other value is an index error.
pub fn bincount() -> OpForm {
    OpForm::new("bincount", "Counts how often each bin number occurs.")
        .input("x", "bin numbers, of any shape")
        .results(&["counts"])
        .attr(AttrSpec::must("bins", "number of bins", AttrKind::Int))
        .types(|types, attrs| {
            types[0].expect_dtype("bincount", 0, DType::is_int, "integers")?;
            let n_bins = usize::try_from(attrs.int("bins"))
                .map_err(|_| TypeIssue::new(format!("there cannot be {} bins", attrs.int("bins"))))?;
            Ok(vec![Type { dtype: DType::I32, shape: vec![Dim::Fixed(n_bins)] }])
        })
        .expand(|b, call| {
            let n_bins = call.attrs.int("bins") as usize;
            let n_elements = b.ty(call.inputs[0]).numel();
            let bins = b.cast(call.inputs[0], DType::I32);
            let bins = b.reshape(bins, &[n_elements]);
            let bins = b.check_index(bins, n_bins);
            let zeros = b.full(Literal::Int(0), Type::new(DType::I32, &[n_bins]));
            let ones = b.full(Literal::Int(1), Type::new(DType::I32, &[n_elements]));
            vec![b.scatter(zeros, bins, ones, 0, 0, Combine::Add)]
        })
        .no_grad("counts are piecewise constant")
        .example(
            "four numbers in three bins",
            "bincount(a, bins=3)",
            &[("i32[4]", &[2., 0., 2., 2.])],
            &[("i32[3]", &[1., 0., 3.])],
        )
}
