//! Groups of neighbouring points: vector accesses, and unchanged results.

use super::*;
use crate::codegen::ops::vector_group::{Step, step, width};

fn is_vectorised(kernel: &Kernel) -> bool {
    only_source(kernel).text.contains("struct __align__(16)")
}

#[test]
fn the_step_of_an_access_is_even_or_not() {
    let dense = Access::dense(&[6, 8]);
    assert_eq!(step(&dense, 4), Step::Next);
    assert_eq!(step(&Access::strided(&[6, 8], &[0, 1]), 4), Step::Next);
    assert_eq!(step(&Access::strided(&[6, 8], &[1, 0]), 4), Step::Same);
    assert_eq!(step(&Access::strided(&[6, 8], &[8, 2]), 4), Step::Other);
    // Rows that start between multiples of four, and rows that end there.
    assert_eq!(step(&Access::strided(&[6, 8], &[9, 1]), 4), Step::Other);
    assert_eq!(step(&Access::strided(&[6, 10], &[16, 1]), 4), Step::Other);
    let mut shifted = dense.clone();
    shifted.levels[0].offset = 2;
    assert_eq!((step(&shifted, 4), step(&shifted, 2)), (Step::Other, Step::Next));
}

#[test]
fn a_group_fills_a_vector_of_the_largest_type() {
    let wide = |dtype: DType, length: usize| {
        let mut s = Sketch::new(1, length, 1);
        let x = s.input(dtype, Class::Element);
        let y = s.scalar(Scalar::Cast(DType::F32), &[x]);
        s.store(y);
        width(&s.body, length)
    };
    assert_eq!([DType::F16, DType::F32, DType::F64].map(|dtype| wide(dtype, 64)), [4, 4, 2]);
    assert_eq!([66, 65].map(|length| wide(DType::F32, length)), [2, 1]);
}

#[test]
fn a_large_map_uses_vectors_except_for_uneven_accesses() {
    for (rows, columns) in [(1024, 256), (26_216, 10)] {
        let (mut x, b) = (numbers(rows * columns), numbers(columns));
        x[33] = f32::NAN;
        let kernel = scale_shift_relu(rows, columns);
        assert!(is_vectorised(&kernel));
        let Some(buffers) = on_host::run(&kernel, &[bytes(&x), bytes(&[1.5]), bytes(&b)], 0) else { return };
        let relu = |x: f64| if x < 0.0 { 0.0 } else { x };
        let expected = x.iter().enumerate().map(|(i, &x)| relu(x as f64 * 1.5 + b[i % columns] as f64));
        assert_close(&f32s(&buffers[3]), expected);
    }
}

#[test]
fn a_group_stays_in_one_row_if_the_body_has_row_registers() {
    for (rows, columns) in [(70_000, 1), (600, 128), (6_000, 22)] {
        let mut s = Sketch::new(rows, columns, 1);
        let x = s.input(DType::F32, Class::Element);
        let a = s.input(DType::F32, Class::Row);
        let y = s.binary(Binary::Mul, x, a);
        s.store(y);
        let (x, a) = (numbers(rows * columns), numbers(rows));
        let Some(buffers) = on_host::run(&s.map(), &[bytes(&x), bytes(&a)], 0) else { return };
        let expected = x.iter().enumerate().map(|(i, &x)| x as f64 * a[i / columns] as f64);
        assert_close(&f32s(&buffers[2]), expected);
    }
}

#[test]
fn rows_of_groups_stay_in_registers_or_are_read_again() {
    // With and without a partial last round of groups, and too long for registers.
    for (rows, columns) in [(5, 100), (3, 2048), (2, 2052), (2, 40_000)] {
        assert!(is_vectorised(&softmax(DType::F32, rows, columns)));
        check_softmax(rows, columns);
    }
}

#[test]
fn a_group_of_four_takes_a_whole_block_of_random_words() {
    let n = 1 << 18;
    let step = 7i32.to_le_bytes().to_vec();
    let Some(groups) = on_host::run(&random_bits(n), std::slice::from_ref(&step), 0x299f31d0) else { return };
    let Some(ones) = on_host::run(&random_bits(n - 1), &[step], 0x299f31d0) else { return };
    assert!(is_vectorised(&random_bits(n)) && !is_vectorised(&random_bits(n - 1)));
    assert_eq!(groups[1][..ones[1].len()], ones[1][..]);
}

#[test]
fn the_last_group_of_a_segment_may_be_short() {
    let lengths = [3, 600, (1 << 18) + 2];
    let kernel = step_of_descent(&lengths);
    assert!(is_vectorised(&kernel));
    check_descent(&lengths);
}
