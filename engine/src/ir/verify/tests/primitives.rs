//! Faults of primitives.

use super::*;

#[test]
fn elementwise_primitives_agree_with_their_operands() {
    check_lines(
        &[
            "y: f32[3] = .add(w, x)",
            "y: f32[2, 3] = .add(x)",
            "y: f32[2, 3] = .neg(x, x)",
            "y: f32[3] = .neg(x)",
            "y: i32[2, 3] = .neg(x)",
            "y: f32[2, 3] = .eq(x, x)",
            "y: f32[2, 3] = .and(x, x)",
            "y: i32[2] = .exp(i)",
            "y: f32[2, 3] = .shl(x, x)",
            "y: bool[] = .add(on, on)",
            "y: f32[2, 3] = .select(x, x, x)",
            "y: f32[2, 3] = .cast(x, dtype=i32)",
            "y: f32[] = .const(1)",
            "y: i32[] = .const(1.0)",
            "y: f32[2] = .iota(axis=0)",
            "y: i32[2] = .iota(axis=1)",
            "y: f32[2, 3] = .check(x, bound=2)",
            "y: i64[2] = .check(i, bound=2)",
            "y: u32[2] = .random(i, stream=1)",
            "s: i32[] = .const(1)\n  y: i32[2] = .random(s, stream=1)",
            "(y: f32[3], z: f32[3]) = .neg(w)",
            "step s: i32[1]",
        ],
        expect![[r#"
            y: f32[3] = .add(w, x)
                operand 1 is f32[2, 3], which is not of the result's shape
            y: f32[2, 3] = .add(x)
                the number of operands is 1, not 2
            y: f32[2, 3] = .neg(x, x)
                the number of operands is 2, not 1
            y: f32[3] = .neg(x)
                operand 0 is f32[2, 3], which is not of the result's shape
            y: i32[2, 3] = .neg(x)
                the result is f32[2, 3], not i32[2, 3]
            y: f32[2, 3] = .eq(x, x)
                the result is bool[2, 3], not f32[2, 3]
            y: f32[2, 3] = .and(x, x)
                `and` does not take f32, f32
            y: i32[2] = .exp(i)
                `exp` does not take i32
            y: f32[2, 3] = .shl(x, x)
                `shl` does not take f32, f32
            y: bool[] = .add(on, on)
                `add` does not take bool, bool
            y: f32[2, 3] = .select(x, x, x)
                `select` does not take f32, f32, f32
            y: f32[2, 3] = .cast(x, dtype=i32)
                the result is i32[2, 3], not f32[2, 3]
            y: f32[] = .const(1)
                1 is not a literal of f32; 1.0 is
            y: i32[] = .const(1.0)
                1.0 is not a literal of i32; 1 is
            y: f32[2] = .iota(axis=0)
                indices are integers, not f32
            y: i32[2] = .iota(axis=1)
                i32[2] has no axis 1
            y: f32[2, 3] = .check(x, bound=2)
                indices are integers, not f32
            y: i64[2] = .check(i, bound=2)
                the result is i32[2], not i64[2]
            y: u32[2] = .random(i, stream=1)
                the step is i32[2]
            s: i32[] = .const(1)
              y: i32[2] = .random(s, stream=1)
                random bits are u32, not i32
            (y: f32[3], z: f32[3]) = .neg(w)
                the number of results is 2, not 1
            step s: i32[1]
                the result is i32[], not i32[1]
        "#]],
    );
}

#[test]
fn views_stay_inside_their_operand() {
    check_lines(
        &[
            "y: f32[5] = .reshape(x)",
            "y: i32[6] = .reshape(x)",
            "y: f32[B, 4] = .reshape(named)",
            "y: f32[2, 3] = .permute(x, perm=[0, 0])",
            "y: f32[2, 3] = .permute(x, perm=[1, 0])",
            "y: f32[2, 3] = .broadcast(w, axes=[2])",
            "y: f32[3, 2] = .broadcast(w, axes=[1])",
            "y: f32[3, 2, 3] = .broadcast(x, axes=[2, 1])",
            "y: f32[2, 3] = .broadcast(x, axes=[0])",
            "y: f32[2, 3] = .slice(x, start=[0])",
            "y: f32[2, 3] = .slice(x, start=[0, 1])",
            "y: f32[2, 3] = .slice(x, start=[0, 1], step=[1, -1])",
            "y: f32[1, 3] = .slice(named, start=[0, 0])",
            "y: f32[4] = .pad(w, fill=0.0, high=[0], low=[2])",
            "y: f32[4] = .pad(w, fill=0, high=[0], low=[1])",
            "y: f32[4, 4] = .pad(w, fill=0.0, high=[0], low=[1])",
            "y: f32[B, 3] = .pad(named, fill=0.0, high=[0, 0], low=[1, 0])",
        ],
        expect![[r#"
            y: f32[5] = .reshape(x)
                f32[2, 3] and f32[5] differ in size
            y: i32[6] = .reshape(x)
                a view of f32[2, 3] cannot be i32[6]
            y: f32[B, 4] = .reshape(named)
                f32[B, 3] and f32[B, 4] differ in size
            y: f32[2, 3] = .permute(x, perm=[0, 0])
                [0, 0] does not permute the axes of f32[2, 3]
            y: f32[2, 3] = .permute(x, perm=[1, 0])
                the result is f32[3, 2], not f32[2, 3]
            y: f32[2, 3] = .broadcast(w, axes=[2])
                f32[2, 3] has no axis 2
            y: f32[3, 2] = .broadcast(w, axes=[1])
                f32[3] does not broadcast to f32[3, 2] along axes [1]
            y: f32[3, 2, 3] = .broadcast(x, axes=[2, 1])
                axes [2, 1] do not ascend
            y: f32[2, 3] = .broadcast(x, axes=[0])
                f32[2, 3] has 2 axes
            y: f32[2, 3] = .slice(x, start=[0])
                a slice of f32[2, 3] has 2 starts, steps and extents
            y: f32[2, 3] = .slice(x, start=[0, 1])
                the slice leaves f32[2, 3] on axis 1
            y: f32[2, 3] = .slice(x, start=[0, 1], step=[1, -1])
                the slice leaves f32[2, 3] on axis 1
            y: f32[1, 3] = .slice(named, start=[0, 0])
                the slice leaves f32[B, 3] on axis 0
            y: f32[4] = .pad(w, fill=0.0, high=[0], low=[2])
                the result is f32[5], not f32[4]
            y: f32[4] = .pad(w, fill=0, high=[0], low=[1])
                0 is not a literal of f32; 0.0 is
            y: f32[4, 4] = .pad(w, fill=0.0, high=[0], low=[1])
                f32[3] is padded on 1 axes
            y: f32[B, 3] = .pad(named, fill=0.0, high=[0, 0], low=[1, 0])
                f32[B, 3] is padded on an axis of unknown extent
        "#]],
    );
}

#[test]
fn reductions_indexing_and_products_agree_with_their_operands() {
    check_lines(
        &[
            "y: f32[3] = .sum(x, axes=[1])",
            "y: f32[] = .sum(x, axes=[1, 0])",
            "y: f32[] = .sum(x, axes=[0, 2])",
            "y: bool[] = .sum(on, axes=[])",
            "y: f32[2] = .argmax(x, axes=[1])",
            "y: i32[] = .argmax(x, axes=[0, 1])",
            "e: f32[0] = .const(0.0)\n  y: f32[] = .max(e, axes=[0])",
            "y: f32[2, 3] = .scan_sum(x, axis=2)",
            "y: f32[2, 3] = .scan_argmax(x, axis=1)",
            "y: f32[2, 2] = .gather(x, i, axis=0)",
            "y: f32[2] = .gather(x, x, axis=0)",
            "y: f32[2] = .gather(x, i, axis=2)",
            "y: f32[2] = .gather(x, i, axis=0, batch=1)",
            "y: f32[2, 3] = .scatter_add(x, i, w, axis=0)",
            "y: f32[3, 2] = .scatter_set(x, i, x, axis=0)",
            "y: f32[2] = .matmul(x, x, contracted=[[1, 1]])",
            "y: f32[2, 2] = .matmul(x, x, contracted=[[0, 1]])",
            "y: f32[2, 2] = .matmul(x, x, contracted=[[1, 1], [1, 0]])",
            "y: f32[2] = .matmul(x, i, contracted=[[0, 0]])",
        ],
        expect![[r#"
            y: f32[3] = .sum(x, axes=[1])
                the result is f32[2], not f32[3]
            y: f32[] = .sum(x, axes=[1, 0])
                axes [1, 0] do not ascend
            y: f32[] = .sum(x, axes=[0, 2])
                f32[2, 3] has no axis 2
            y: bool[] = .sum(on, axes=[])
                `sum` does not take bool
            y: f32[2] = .argmax(x, axes=[1])
                the result is i32[2], not f32[2]
            y: i32[] = .argmax(x, axes=[0, 1])
                `argmax` goes along one axis, not 2
            e: f32[0] = .const(0.0)
              y: f32[] = .max(e, axes=[0])
                `max` of nothing has no value
            y: f32[2, 3] = .scan_sum(x, axis=2)
                f32[2, 3] has no axis 2
            y: f32[2, 3] = .scan_argmax(x, axis=1)
                there is no scan by argmax
            y: f32[2, 2] = .gather(x, i, axis=0)
                the result is f32[2, 3], not f32[2, 2]
            y: f32[2] = .gather(x, x, axis=0)
                indices are integers, not f32
            y: f32[2] = .gather(x, i, axis=2)
                f32[2, 3] has no axis 2
            y: f32[2] = .gather(x, i, axis=0, batch=1)
                f32[2, 3] and i32[2] do not go along in their first axes, batch=1 before axis=0
            y: f32[2, 3] = .scatter_add(x, i, w, axis=0)
                the updates are f32[3], not f32[2, 3]
            y: f32[3, 2] = .scatter_set(x, i, x, axis=0)
                the result is f32[2, 3], not f32[3, 2]
            y: f32[2] = .matmul(x, x, contracted=[[1, 1]])
                the result is f32[2, 2], not f32[2]
            y: f32[2, 2] = .matmul(x, x, contracted=[[0, 1]])
                axis 0 of f32[2, 3] and axis 1 of f32[2, 3] differ in extent
            y: f32[2, 2] = .matmul(x, x, contracted=[[1, 1], [1, 0]])
                axis 1 of f32[2, 3] is named twice
            y: f32[2] = .matmul(x, i, contracted=[[0, 0]])
                no matmul of f32[2, 3] with i32[2]
        "#]],
    );
}
