//! Places that break a rule of tidiness, with the reason. These lists only shrink: an entry without an offence fails.
//!
//! One entry stands on one line, so that branches which remove different entries merge.

/// Files of more than 500 lines.
#[rustfmt::skip]
pub const LONG_FILES: &[(&str, &str)] = &[
];

/// Functions of more than 60 lines, as `path: name`.
#[rustfmt::skip]
pub const LONG_FUNCTIONS: &[(&str, &str)] = &[
    ("engine/src/text/expr/tests/faults.rs: faults_say_the_place_and_a_way_out", "a table of cases"),
    ("engine/src/front/fields/tests.rs: unknown_missing_and_repeated_fields", "a table of cases"),
    ("engine/src/front/fields/tests.rs: wrong_kinds_and_choices", "a table of cases"),
    ("engine/src/front/pipeline/tests/declarations.rs: faulty_declarations", "a table of cases"),
    ("engine/src/front/pipeline/tests/expressions.rs: circles_and_names", "a table of cases"),
    ("engine/src/front/pipeline/tests/expressions.rs: faults_in_expressions", "a table of cases"),
    ("engine/src/front/pipeline/tests/functions.rs: faulty_functions", "a table of cases"),
    ("engine/src/front/pipeline/tests/layers.rs: faulty_layers", "a table of cases"),
    ("engine/src/front/pipeline/tests/overrides.rs: wrong_overrides_are_told", "a table of cases"),
    ("engine/src/front/pipeline/tests/stages.rs: faulty_stages", "a table of cases"),
    ("engine/src/front/ron/tests/faults.rs: all_faults_of_a_file_are_shown_at_once", "a table of cases"),
    ("engine/src/ir/verify/tests.rs: broken_references_are_found", "a table of cases"),
    ("engine/src/ir/verify/tests/primitives.rs: elementwise_primitives_agree_with_their_operands", "a table of cases"),
    ("engine/src/ir/verify/tests/primitives.rs: reductions_indexing_and_products_agree_with_their_operands", "a table of cases"),
];

/// Modules of a folder that import each other in a circle, as `folder: modules`; `mod` is the folder's own file.
#[rustfmt::skip]
pub const CIRCLES: &[(&str, &str)] = &[
];

/// Beginnings of paths whose texts have banned words.
#[rustfmt::skip]
pub const OLD_WORDS: &[(&str, &str)] = &[
];
