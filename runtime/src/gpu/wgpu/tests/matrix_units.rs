//! Tests of matmuls on matrix units.

use super::*;
use engine_core::fusion::MatrixOperand;
use engine_core::numerics::Precision;
use engine_core::program::{Epilogue, Multiplier};
use naga::valid::{Capabilities, ValidationFlags, Validator};

/// naga checks the texts without a GPU.
#[test]
fn matmuls_on_matrix_units_are_valid_wgsl() {
    for (is_lhs_along, is_rhs_along) in [(true, false), (true, true), (false, false), (false, true)] {
        let matrix = |operand, is_along: bool, is_lhs: bool, across: i64, along: i64| {
            let strides = if is_along { [along, 1] } else { [1, across] };
            let [row, col] = if is_lhs { strides } else { [strides[1], strides[0]] };
            MatrixOperand { operand, offset: 8, batch: 256 * 512, row, col }
        };
        let call = MatmulCall {
            batch: 3,
            m: 256,
            n: 128,
            k: 512,
            lhs: matrix(0, is_lhs_along, true, 256, 512),
            rhs: matrix(1, is_rhs_along, false, 128, 512),
            dtype: DType::F16,
            result: DType::F32,
            epilogue: Epilogue::default(),
            precision: Precision::F32,
            multiplier: Multiplier::Library,
        };
        for block in BLOCKS {
            let (Source { text, shared_bytes, .. }, grid) = wgsl::matmul(&block, &call).unwrap();
            let options =
                naga::front::wgsl::Options { parse_doc_comments: false, capabilities: Capabilities::all() };
            let module = naga::front::wgsl::Frontend::new_with_options(options).parse(&text);
            let module = module.unwrap_or_else(|error| panic!("{}", error.emit_to_string(&text)));
            let info = Validator::new(ValidationFlags::all(), Capabilities::all()).validate(&module);
            let info = info.unwrap_or_else(|error| panic!("{}", error.emit_to_string(&text)));
            naga::back::spv::write_vec(&module, &info, &naga::back::spv::Options::default(), None).unwrap();
            assert!(shared_bytes <= 32 << 10);
            assert_eq!(grid, [128 / block.sides[1], 256 / block.sides[0], 3]);
        }
    }
}
