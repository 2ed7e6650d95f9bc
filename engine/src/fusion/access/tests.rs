#![allow(clippy::unwrap_used)]
//! Access maps of views, point by point.

use super::*;

fn elements(access: &Access, n: usize) -> Vec<Option<i64>> {
    (0..n).map(|point| access.at(point).ok()).collect()
}

#[test]
fn a_transposed_matrix_reads_columns() {
    let access = Access::dense(&[2, 3]).then(&View::Permute { perm: vec![1, 0] }, &[3, 2]);
    assert_eq!(elements(&access, 6), [0, 3, 1, 4, 2, 5].map(Some));
}

#[test]
fn a_reshaped_transpose_needs_a_second_level() {
    let access = Access::dense(&[2, 3])
        .then(&View::Permute { perm: vec![1, 0] }, &[3, 2])
        .then(&View::Reshape, &[6])
        .then(&View::Slice { start: vec![5], step: vec![-2] }, &[3]);
    assert_eq!(access.levels.len(), 2);
    assert_eq!(elements(&access, 3), [5, 4, 3].map(Some));
}

/// Rows that were picked for each query of a head, taken as columns and back: the rows of a head are the same for all queries.
#[test]
fn levels_that_move_whole_axes_are_one() {
    let picked = Access::strided(&[2, 3, 4, 5], &[100, 0, 0, 1]);
    let columns = picked
        .then(&View::Permute { perm: vec![0, 1, 3, 2] }, &[2, 3, 5, 4])
        .then(&View::Reshape, &[6, 5, 4])
        .then(&View::Reshape, &[6, 20])
        .then(&View::Reshape, &[6, 5, 4])
        .then(&View::Permute { perm: vec![0, 2, 1] }, &[6, 4, 5]);
    let one = columns.normalized();
    assert_eq!(one.levels.len(), 1, "{columns} is {one}");
    assert_eq!(elements(&one, 120), elements(&columns, 120));
    assert_eq!(columns.trailing_strides(&[4, 5]), Some(vec![0, 1]));
}

#[test]
fn joined_levels_read_what_the_levels_read() {
    let permutations = [[0, 1, 2], [0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0]];
    let shapes: [&[usize]; 6] = [&[4, 3, 2], &[2, 2, 6], &[12, 2, 1], &[1, 8, 3], &[2, 3, 4], &[6, 1, 4]];
    let permuted = |shape: &[usize], perm: [usize; 3]| perm.map(|axis| shape[axis]);
    let mut n_joined = 0;
    for (first, second) in shapes.iter().flat_map(|a| shapes.iter().map(move |b| (a, b))) {
        for (p, q) in permutations.iter().flat_map(|p| permutations.iter().map(move |q| (p, q))) {
            let access = Access::dense(first)
                .then(&View::Permute { perm: p.to_vec() }, &permuted(first, *p))
                .then(&View::Reshape, second)
                .then(&View::Permute { perm: q.to_vec() }, &permuted(second, *q));
            let one = access.normalized();
            assert_eq!(elements(&one, 24), elements(&access, 24), "{access:?} is {one:?}");
            n_joined += (one.levels.len() < access.levels.len()) as usize;
        }
    }
    assert!(n_joined > 50, "{n_joined} were joined");
}

#[test]
fn splitting_and_joining_axes_stays_one_level() {
    let access = Access::dense(&[4, 6]).then(&View::Reshape, &[2, 2, 2, 3]).then(&View::Reshape, &[24]);
    assert!(access.is_identity(24));
}

#[test]
fn nothing_can_be_reshaped_to_nothing() {
    for extents in [vec![0, 2], vec![0], vec![2, 0, 3]] {
        let access = Access::dense(&[0]).then(&View::Reshape, &extents);
        assert_eq!(elements(&access, 0), []);
    }
}

#[test]
fn a_pad_reads_its_fill_outside() {
    let pad = View::Pad { low: vec![1], high: vec![2], fill: Literal::Float(0.0) };
    let access = Access::dense(&[3]).then(&pad, &[6]);
    assert_eq!(elements(&access, 6), [None, Some(0), Some(1), Some(2), None, None]);
    let back = access.then(&View::Slice { start: vec![5], step: vec![-2] }, &[3]);
    assert_eq!(elements(&back, 3), [None, Some(2), Some(0)]);
}

#[test]
fn an_access_that_is_constant_along_a_row_is_one_of_rows() {
    let access = Access::strided(&[2, 3, 4], &[0, 1, 0]);
    let rows = access.along_rows(Domain { outer: 6, row: 4, inner: 1 }).unwrap();
    assert_eq!(elements(&rows, 6), [0, 1, 2, 0, 1, 2].map(Some));
    assert_eq!(access.along_rows(Domain { outer: 2, row: 12, inner: 1 }), None);
    assert_eq!(Access::dense(&[6, 4]).along_rows(Domain { outer: 6, row: 4, inner: 1 }), None);
}

#[test]
fn the_last_axes_may_be_even_where_the_first_are_not() {
    let heads = Access::dense(&[2, 1, 4, 3]).then(&View::Broadcast { axes: vec![0, 1, 2, 3] }, &[2, 5, 4, 3]);
    let joined = heads.then(&View::Reshape, &[10, 4, 3]);
    assert_eq!(joined.trailing_strides(&[4, 3]), Some(vec![3, 1]));
    assert_eq!(joined.trailing_strides(&[10, 4, 3]), None);
    assert_eq!(Access::dense(&[6, 4]).trailing_strides(&[2, 1, 4]), Some(vec![4, 0, 1]));
}

#[test]
fn a_broadcast_row_repeats() {
    let access = Access::dense(&[3]).then(&View::Broadcast { axes: vec![1] }, &[2, 3]);
    assert_eq!(elements(&access, 6), [0, 1, 2, 0, 1, 2].map(Some));
    assert!(Access::dense(&[1]).then(&View::Broadcast { axes: vec![0] }, &[5]).is_uniform());
}

/// A row of elements and fills.
type Row = Vec<Result<i64, Literal>>;

fn padded(cells: &[Row], [top, left]: [usize; 2], [bottom, right]: [usize; 2], fill: Literal) -> Vec<Row> {
    let mut result = vec![vec![Err(fill); left + cells[0].len() + right]; top + cells.len() + bottom];
    for (row, from) in result[top..].iter_mut().zip(cells) {
        row[left..left + from.len()].copy_from_slice(from);
    }
    result
}

fn turned(cells: &[Row]) -> Vec<Row> {
    (0..cells[0].len()).map(|column| cells.iter().map(|row| row[column]).collect()).collect()
}

#[test]
fn each_of_several_pads_has_its_own_fill() {
    let values = [0.0, -0.0, f64::NEG_INFINITY, f64::NAN].map(Literal::Float);
    let sides = [[[0, 1], [0, 1]], [[1, 0], [1, 0]], [[1, 2], [0, 1]]];
    for fills in [[0, 2, 0], [2, 3, 3], [0, 0, 1], [3, 3, 3]] {
        // The sides of each of three pads, without transposes between them and with them.
        for number in 0..54 {
            let mut access = Access::dense(&[2, 2]);
            let mut cells: Vec<Row> = vec![vec![Ok(0), Ok(1)], vec![Ok(2), Ok(3)]];
            for (fill, divisor) in fills.into_iter().zip([1, 3, 9]) {
                let ([low, high], fill) = (sides[number / divisor % 3], values[fill]);
                cells = padded(&cells, low, high, fill);
                let pad = View::Pad { low: low.to_vec(), high: high.to_vec(), fill };
                access = access.then(&pad, &[cells.len(), cells[0].len()]);
                if number >= 27 {
                    cells = turned(&cells);
                    let turn = View::Permute { perm: vec![1, 0] };
                    access = access.then(&turn, &[cells.len(), cells[0].len()]);
                }
            }
            assert!(fills != [3, 3, 3] || access.levels.len() == 1, "{access}");
            let expected = cells.concat();
            for access in [access.normalized(), access] {
                let found: Vec<_> = (0..expected.len()).map(|point| access.at(point)).collect();
                assert_eq!(found, expected, "{access:?}");
            }
        }
    }
}

#[test]
fn a_repeated_place_is_in_the_pad_at_all_points_or_at_none() {
    let pad = View::Pad { low: vec![1], high: vec![0], fill: Literal::Float(0.0) };
    for (start, expected) in [(0, None), (1, Some(0)), (3, Some(2))] {
        let repeated = Access::dense(&[3])
            .then(&pad, &[4])
            .then(&View::Slice { start: vec![start], step: vec![1] }, &[1])
            .then(&View::Broadcast { axes: vec![0] }, &[5]);
        assert_eq!(elements(&repeated, 5), [expected; 5]);
    }
}

#[test]
fn a_pad_of_nothing_has_one_fill() {
    let pad = |low: [usize; 2], fill: f64| View::Pad {
        low: low.to_vec(),
        high: low.to_vec(),
        fill: Literal::Float(fill),
    };
    let access = Access::dense(&[2, 0]).then(&pad([1, 0], 0.0), &[4, 0]).then(&pad([0, 1], 1.0), &[4, 2]);
    assert_eq!(access.levels.len(), 1);
    assert!((0..8).all(|point| access.at(point) == Err(Literal::Float(1.0))), "{access}");
}
