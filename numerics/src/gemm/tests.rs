//! Products against f64.

use super::direct::DirectKernel;
use super::few_windows::WindowsKernel;
use super::kernel::TileKernel;
use super::*;
use engine_core::fusion::{Axis, UnevenAxes};
use engine_core::op::simd::{Level, dispatch_on, dispatch_pairs_on, has_pairs};

fn wave(len: usize, step: usize) -> Vec<f32> {
    (0..len).map(|i| ((i * step) % 1013) as f32 / 1013.0 - 0.5).collect()
}

/// The product in f64, by its definition.
fn reference(a: Matrix<f32>, b: Matrix<f32>) -> Vec<f64> {
    let at = |m: &Matrix<f32>, i: usize, j: usize| unsafe { *m.at(i, j) } as f64;
    let element = |i, j| (0..a.n_columns).map(|p| at(&a, i, p) * at(&b, p, j)).sum();
    (0..a.n_rows).flat_map(|i| (0..b.n_columns).map(move |j| (i, j))).map(|(i, j)| element(i, j)).collect()
}

/// The product in f64 by the kernel itself, on an instruction set.
fn product_f64(level: Level, a: Matrix<f64>, b: Matrix<f64>) -> Vec<f64> {
    let mut out = vec![f64::NAN; a.n_rows * b.n_columns];
    let mut tile = TileMut::new(&mut out, a.n_rows, b.n_columns, b.n_columns);
    let scratch = &mut *Scratch::new();
    dispatch_on(level, TileKernel { scratch, a, b: b.into(), out: &mut tile, is_added: false });
    out
}

fn assert_close(got: &[f32], exact: &[f64], k: usize, what: &str) {
    for (i, (&got, &exact)) in got.iter().zip(exact).enumerate() {
        assert!(
            (got as f64 - exact).abs() <= 1e-6 * (k as f64).sqrt().max(1.0),
            "{what}: {got} for {exact} at {i}"
        );
    }
}

fn product(level: Level, a: Matrix<f32>, b: Matrix<f32>) -> Vec<f32> {
    let mut out = vec![f32::NAN; a.n_rows * b.n_columns];
    let mut tile = TileMut::new(&mut out, a.n_rows, b.n_columns, b.n_columns);
    let scratch = &mut *Scratch::new();
    dispatch_on(level, TileKernel { scratch, a, b: b.into(), out: &mut tile, is_added: false });
    out
}

#[test]
fn every_edge_and_every_transpose_on_every_instruction_set() {
    let shapes = [[1, 1, 1], [8, 32, 3], [9, 33, 257], [7, 10, 300], [13, 47, 16], [3, 100, 1], [17, 16, 40]];
    let few_rows = [[1, 70, 300], [2, 16, 16], [3, 9, 35], [4, 1045, 50]];
    // More rows, columns and products than are packed at a time.
    let large = [[270, 290, 260]];
    // Columns behind whole vectors of 16: 1, 4 and 2.
    let thin = [[9, 49, 300], [17, 68, 90], [5, 2, 270]];
    for [m, n, k] in shapes.into_iter().chain(thin).chain(few_rows).chain(large) {
        let (a_data, b_data) = (wave(m * k, 7), wave(k * n, 31));
        for a in [Matrix::row_major(&a_data, m, k), Matrix::row_major(&a_data, k, m).transposed()] {
            for b in [Matrix::row_major(&b_data, k, n), Matrix::row_major(&b_data, n, k).transposed()] {
                let exact = reference(a, b);
                for level in Level::available() {
                    let what = format!("{m}×{n}×{k} on {level:?}, strides {} {}", a.row_stride, b.row_stride);
                    assert_close(&product(level, a, b), &exact, k, &what);
                }
            }
        }
    }
}

/// Windows of images, whose rows are shorter or longer than a vector.
#[test]
fn windows_on_every_instruction_set() {
    for (width, step) in [(4, 1), (7, 1), (7, 2), (14, 1), (20, 2), (5, 3), (33, 1)] {
        let (channels, m) = (9, 37);
        let padded = (width - 1) * step + 3;
        let axes = |axes: &[(usize, usize)]| {
            axes.iter().map(|&(extent, stride)| Axis { extent, stride: stride as i64 }).collect()
        };
        let axes = UnevenAxes {
            batch: axes(&[]),
            rows: axes(&[(channels, padded * padded), (3, padded), (3, 1)]),
            columns: axes(&[(width, step * padded), (width, step)]),
        };
        let [k, n] = [9 * channels, width * width];
        let (a_data, image) = (wave(m * k, 7), wave(channels * padded * padded, 31));
        let at = |p: usize, j: usize| {
            let (y, x) = (j / width * step + p / 3 % 3, j % width * step + p % 3);
            image[(p / 9 * padded + y) * padded + x]
        };
        let windows: Vec<f32> = (0..k * n).map(|i| at(i / n, i % n)).collect();
        let a = Matrix::row_major(&a_data, m, k);
        let exact = reference(a, Matrix::row_major(&windows, k, n));
        let offsets = Offsets::new(0, &axes);
        for level in Level::available() {
            for (is_direct, tiles) in
                [(false, Tiles::new(m, n, 100 * k, false)), (true, Tiles::direct(m, n, 100 * k))]
            {
                let mut out = vec![f32::NAN; m * n];
                for (rows, columns) in (0..tiles.len()).map(|tile| tiles.tile(tile)) {
                    let b = offsets.matrix(&image, 0, columns.clone());
                    let first = &mut out[rows.start * n + columns.start..];
                    let out = &mut TileMut::new(first, rows.len(), columns.len(), n);
                    let (scratch, a) = (&mut *Scratch::new(), a.part(rows, 0..k));
                    match b {
                        Right::Uneven(b) if is_direct => {
                            dispatch_on(level, DirectKernel { scratch, a, b, out })
                        }
                        _ => dispatch_on(level, TileKernel { scratch, a, b, out, is_added: false }),
                    }
                }
                assert_close(&out, &exact, k, &format!("{width} windows, step {step} on {level:?}"));
            }
        }
    }
}

/// Windows of one image, `3 × 3` of them, and what they are multiplied by: the windows as columns of a product, or as its
/// contraction.
#[test]
fn few_rows_of_windows_on_every_instruction_set() {
    for (width, step) in [(4, 1), (7, 1), (7, 2), (14, 1), (20, 2), (5, 3), (16, 1), (33, 1)] {
        let padded = (width - 1) * step + 3;
        let axes = |axes: &[(usize, usize)]| -> Vec<Axis> {
            axes.iter().map(|&(extent, stride)| Axis { extent, stride: stride as i64 }).collect()
        };
        let batch = axes(&[]);
        let (parts, places) = (axes(&[(3, padded), (3, 1)]), axes(&[(width, step * padded), (width, step)]));
        let image = wave(padded * padded, 31);
        let forward = UnevenAxes { batch: batch.clone(), rows: parts.clone(), columns: places.clone() };
        let backward = UnevenAxes { batch, rows: places, columns: parts };
        for (axes, [k, n], m) in [(&forward, [9, width * width]), (&backward, [width * width, 9])]
            .into_iter()
            .flat_map(|(axes, shape)| (1..=4).map(move |m| (axes, shape, m)))
        {
            let offsets = Offsets::new(0, axes);
            let a_data = wave(m * k, 7);
            let a = Matrix::row_major(&a_data, m, k);
            let Right::Uneven(whole) = offsets.matrix(&image, 0, 0..n) else { panic!("even") };
            let windows: Vec<f32> = (0..k * n).map(|i| whole.at(i / n, i % n)).collect();
            let exact = reference(a, Matrix::row_major(&windows, k, n));
            let Some(along) = whole.windows.along else {
                assert!(step == 3 || (step == 2 && n == 9), "{width} windows, step {step}");
                continue;
            };
            for (level, cut) in Level::available().flat_map(|level| [n, n / 2 + 1].map(|cut| (level, cut))) {
                let mut out = vec![f32::NAN; m * n];
                for columns in [0..cut, cut..n] {
                    let Right::Uneven(b) = offsets.matrix(&image, 0, columns.clone()) else { panic!("even") };
                    let out = &mut out[columns.start..];
                    let out =
                        &mut TileMut::new(out, if columns.is_empty() { 0 } else { m }, columns.len(), n);
                    if !columns.is_empty() {
                        dispatch_on(level, WindowsKernel { a, b, out, along });
                    }
                }
                assert_close(
                    &out,
                    &exact,
                    k,
                    &format!("{width} windows, step {step}, {m} rows on {level:?}"),
                );
            }
        }
    }
}

/// A B that no cache holds is packed in panels.
#[test]
fn a_far_matrix_on_every_instruction_set() {
    let ([m, n, k], row) = ([9, 290, 300], 1100);
    let (a_data, b_data) = (wave(m * k, 7), wave(k * row, 31));
    let a = Matrix::row_major(&a_data, m, k);
    let b = Matrix::new(&b_data, 5, [k, n], [row as isize, 1]);
    let exact = reference(a, b);
    for level in Level::available() {
        assert_close(&product(level, a, b), &exact, k, &format!("{level:?}"));
    }
}

#[test]
fn f64_products_of_transposed_matrices_on_every_instruction_set() {
    let [m, n, k] = [5, 40, 37];
    let (a_data, b_data) = (wave(m * k, 7), wave(k * n, 31));
    let exact = reference(Matrix::row_major(&a_data, m, k), Matrix::row_major(&b_data, n, k).transposed());
    let wide = |data: &[f32]| data.iter().map(|&x| x as f64).collect::<Vec<f64>>();
    let (a_data, b_data) = (wide(&a_data), wide(&b_data));
    let (a, b) = (Matrix::row_major(&a_data, m, k), Matrix::row_major(&b_data, n, k).transposed());
    for level in Level::available() {
        let got = product_f64(level, a, b);
        let error = got.iter().zip(&exact).map(|(got, exact)| (got - exact).abs()).fold(0.0, f64::max);
        assert!(error < 1e-14, "{error} on {level:?}");
    }
}

#[test]
fn tiles_cover_the_output_once() {
    for ([m, n, k], whole_rows) in [([130, 300, 70], false), ([130, 300, 70], true), ([1000, 10, 64], false)]
    {
        let (a_data, b_data) = (wave(m * k, 7), wave(k * n, 31));
        let (a, b) = (Matrix::row_major(&a_data, m, k), Matrix::row_major(&b_data, k, n));
        let (mut out, mut n_writes) = (vec![f32::NAN; m * n], vec![0; m * n]);
        let tiles = Tiles::new(m, n, k, whole_rows);
        assert!(tiles.len() > 1);
        for (rows, columns) in (0..tiles.len()).map(|tile| tiles.tile(tile)) {
            assert!(!whole_rows || columns == (0..n));
            let first = rows.start * n + columns.start;
            rows.clone().for_each(|i| n_writes[i * n..][columns.clone()].iter_mut().for_each(|n| *n += 1));
            let mut tile = TileMut::new(&mut out[first..], rows.len(), columns.len(), n);
            gemm_tile(&mut Scratch::new(), a.part(rows, 0..k), b.part(0..k, columns).into(), &mut tile);
        }
        assert!(n_writes.iter().all(|&n| n == 1));
        assert_close(&out, &reference(a, b), k, "by tiles");
    }
}

#[test]
fn an_empty_contraction_gives_zeros_and_an_empty_output_is_left_alone() {
    for [m, n, k] in [[3, 4, 0], [0, 4, 5], [3, 0, 5]] {
        let (a, b) = (vec![1.0f64; m * k], vec![1.0; k * n]);
        let mut out = vec![7.0; m * n];
        let (a, b) = (Matrix::row_major(&a, m, k), Matrix::row_major(&b, k, n));
        gemm_tile(&mut Scratch::new(), a, b.into(), &mut TileMut::new(&mut out, m, n, n));
        assert!(out.iter().all(|&v| v == 0.0));
    }
}

/// Pairs of bf16 along rows of whole numbers, which bf16 holds.
fn pairs(numbers: &[f32], length: usize) -> Vec<f32> {
    let halves = |row: &[f32]| {
        let half = |i: usize| row.get(i).map_or(0, |x| x.to_bits() >> 16);
        (0..length.div_ceil(2))
            .map(|p| f32::from_bits(half(2 * p) | half(2 * p + 1) << 16))
            .collect::<Vec<_>>()
    };
    numbers.chunks(length).flat_map(halves).collect()
}

#[test]
fn pairs_of_bf16_are_multiplied_at_every_edge() {
    if !has_pairs() {
        return;
    }
    let whole =
        |len: usize, step: usize| (0..len).map(|i| ((i * step) % 201) as f32 - 100.0).collect::<Vec<_>>();
    let few_rows = [[1, 64, 64], [2, 48, 96], [3, 40, 70]];
    for [m, n, k] in [
        [1, 1, 1],
        [8, 32, 3],
        [9, 33, 515],
        [7, 10, 600],
        [13, 47, 16],
        [17, 68, 181],
        [40, 300, 90],
        [33, 52, 1100],
        [80, 45, 64],
    ]
    .into_iter()
    .chain(few_rows)
    {
        let (a_data, b_data) = (whole(m * k, 7), whole(n * k, 31));
        let exact =
            reference(Matrix::row_major(&a_data, m, k), Matrix::row_major(&b_data, n, k).transposed());
        let ([a, b], p) = ([pairs(&a_data, k), pairs(&b_data, k)], k.div_ceil(2));
        let mut turned = vec![0.0; n * p];
        (0..n * p).for_each(|i| turned[i % p * n + i / p] = b[i]);
        let rights = [Matrix::row_major(&b, n, p).transposed(), Matrix::row_major(&turned, p, n)];
        for b in rights {
            let check = |multiply: &dyn Fn(&mut TileMut<f32>)| {
                let mut out = vec![f32::NAN; m * n];
                multiply(&mut TileMut::new(&mut out, m, n, n));
                for (got, exact) in out.iter().zip(&exact) {
                    assert_eq!(f64::from(*got), *exact, "{m}×{n}×{k}");
                }
            };
            let (a, b) = (Matrix::row_major(&a, m, p), b.into());
            check(&|tile| gemm_tile_of_pairs(&mut Scratch::new(), a, b, tile));
            for level in Level::available().filter(|level| *level > Level::Baseline) {
                check(&|out| {
                    let scratch = &mut *Scratch::new();
                    dispatch_pairs_on(level, TileKernel { scratch, a, b, out, is_added: false });
                });
            }
        }
    }
}

#[test]
fn a_product_is_added_to_a_tile() {
    for ([m, n, k], is_turned) in [
        ([9, 35, 300], false),
        ([3, 4, 0], false),
        ([5, 16, 7], false),
        ([2, 35, 301], false),
        ([3, 18, 45], true),
    ] {
        let (a_data, b_data) = (wave(m * k, 7), wave(k * n, 31));
        let (a, b) = match is_turned {
            true => (Matrix::row_major(&a_data, m, k), Matrix::row_major(&b_data, n, k).transposed()),
            false => (Matrix::row_major(&a_data, k, m).transposed(), Matrix::row_major(&b_data, k, n)),
        };
        let mut out = vec![2.0f32; m * n];
        add_gemm_tile(&mut Scratch::new(), a, b, &mut TileMut::new(&mut out, m, n, n));
        let exact: Vec<f64> = reference(a, b).into_iter().map(|sum| sum + 2.0).collect();
        assert_close(&out, &exact, k, "added");
    }
}

#[test]
fn f64_products_are_f64_products() {
    let third = [1.0 / 3.0; 40];
    let mut out = [0.0];
    let mut tile = TileMut::new(&mut out, 1, 1, 1);
    gemm_tile(
        &mut *Scratch::new(),
        Matrix::row_major(&third, 1, 40),
        Matrix::row_major(&third, 40, 1).into(),
        &mut tile,
    );
    assert!((out[0] - 40.0 / 9.0f64).abs() < 1e-14);
}

#[test]
#[should_panic]
fn a_matrix_beyond_its_slice_is_refused() {
    Matrix::new(&[0.0; 11], 0, [3, 4], [4, 1]);
}
