//! Faults in expressions, types and statements.

use super::*;

#[test]
fn faults_say_the_place_and_a_way_out() {
    check_faults(
        &[
            "relu(x",
            "relu(x]",
            "a +",
            "a b",
            "a && b",
            "a = b",
            "mean(round(a) = b)",
            "a < b < c",
            "x ^ 2",
            "f(n=1, x)",
            "x[0]",
            "(a, b)",
            "()",
            "a // b",
            "not a",
            "\"open",
            "'\\q'",
            "1.2.3",
            "99999999999999999999",
            "9223372036854775808",
            "1e999",
            "f(x)(y)",
            "",
            "f(x).",
            "a € b",
            "[1, 2))",
        ],
        parse_expr,
        expect![[r#"
            error[E0008]: expected `,` or `)`, found the end
              ┌─ e:1:7
              │
            1 │ relu(x
              │     - ^
              │     │
              │     opened here

            error[E0008]: expected `,` or `)`, found `]`
              ┌─ e:1:7
              │
            1 │ relu(x]
              │     - ^
              │     │
              │     opened here

            error[E0008]: expected a value, found the end
              ┌─ e:1:4
              │
            1 │ a +
              │    ^

            error[E0008]: expected an operator or the end, found `b`
              ┌─ e:1:3
              │
            1 │ a b
              │   ^

            error[E0008]: expected a value, found `&`
              ┌─ e:1:4
              │
            1 │ a && b
              │    ^
              │
              = help: `and` is written `a & b`

            error[E0008]: expected an operator or the end, found `=`
              ┌─ e:1:3
              │
            1 │ a = b
              │   ^
              │
              = help: equality is written `a == b`

            error[E0008]: expected `,` or `)`, found `=`
              ┌─ e:1:15
              │
            1 │ mean(round(a) = b)
              │     -         ^
              │     │
              │     opened here
              │
              = help: equality is written `a == b`

            error[E0008]: comparisons cannot stand in a row
              ┌─ e:1:7
              │
            1 │ a < b < c
              │       ^
              │
              = help: write `(a < b) & (b < c)`

            error[E0008]: `^` has no meaning here
              ┌─ e:1:3
              │
            1 │ x ^ 2
              │   ^
              │
              = help: write a power as `x ** y`

            error[E0008]: an operand stands behind a setting
              ┌─ e:1:8
              │
            1 │ f(n=1, x)
              │        ^
              │
              = help: operands come first: `f(a, b, n=1)`

            error[E0008]: expected an operator or the end, found `[`
              ┌─ e:1:2
              │
            1 │ x[0]
              │  ^
              │
              = help: a part of a tensor is taken by an op such as `slice`

            error[E0008]: parentheses hold one expression
              ┌─ e:1:5
              │
            1 │ (a, b)
              │     ^
              │
              = help: a list stands in brackets: `[a, b]`

            error[E0008]: there is nothing in these parentheses
              ┌─ e:1:2
              │
            1 │ ()
              │  ^

            error[E0008]: expected a value, found `/`
              ┌─ e:1:4
              │
            1 │ a // b
              │    ^
              │
              = help: a quotient rounded down is `floor(a / b)`; comments start with `#`

            error[E0008]: expected an operator or the end, found `a`
              ┌─ e:1:5
              │
            1 │ not a
              │     ^
              │
              = help: `not` is written `!a`

            error[E0003]: this string is not closed
              ┌─ e:1:1
              │
            1 │ "open
              │ ^^^^^
              │
              = help: add the closing `"`

            error[E0004]: unknown escape in a string
              ┌─ e:1:2
              │
            1 │ '\q'
              │  ^^
              │
              = help: escapes are \n, \r, \t, \0, \\, \", \', \x41 and \u{e9}

            error[E0005]: `1.2.3` is not a number
              ┌─ e:1:1
              │
            1 │ 1.2.3
              │ ^^^^^
              │
              = help: write `3`, `0.5` or `1e-3`

            error[E0005]: `99999999999999999999` is not a number
              ┌─ e:1:1
              │
            1 │ 99999999999999999999
              │ ^^^^^^^^^^^^^^^^^^^^
              │
              = help: integers have 64 bits; write a float: `1e20`

            error[E0005]: this number is too large
              ┌─ e:1:1
              │
            1 │ 9223372036854775808
              │ ^^^^^^^^^^^^^^^^^^^
              │
              = help: integers have 64 bits; write a float: `1e20`

            error[E0005]: `1e999` is not a number
              ┌─ e:1:1
              │
            1 │ 1e999
              │ ^^^^^
              │
              = help: write `3`, `0.5` or `1e-3`

            error[E0008]: expected an operator or the end, found `(`
              ┌─ e:1:5
              │
            1 │ f(x)(y)
              │     ^

            error[E0008]: expected a value, found the end
              ┌─ e:1:1
              │
            1 │
              │ ^

            error[E0008]: expected the name of a result, found the end
              ┌─ e:1:6
              │
            1 │ f(x).
              │      ^

            error[E0008]: `€` has no meaning here
              ┌─ e:1:3
              │
            1 │ a € b
              │   ^

            error[E0008]: expected `,` or `]`, found `)`
              ┌─ e:1:6
              │
            1 │ [1, 2))
              │ -    ^
              │ │
              │ opened here
        "#]],
    );
}

#[test]
fn faulty_types() {
    check_faults(
        &["f32", "f32[", "f32[B 2]", "f32[-1]", "f32[B]]", "[2]"],
        parse_type,
        expect![[r#"
            error[E0009]: `f32` is not a whole type
              ┌─ e:1:1
              │
            1 │ f32
              │ ^^^
              │
              = help: write the extents: `f32[B, 784]`, or `f32[]` for a scalar

            error[E0009]: expected an extent, found the end
              ┌─ e:1:5
              │
            1 │ f32[
              │     ^
              │
              = help: an extent is a number, a name such as `B`, or arithmetic of them

            error[E0008]: expected `,` or `]`, found `2`
              ┌─ e:1:7
              │
            1 │ f32[B 2]
              │    -  ^
              │    │
              │    opened here

            error[E0009]: expected an extent, found `-`
              ┌─ e:1:5
              │
            1 │ f32[-1]
              │     ^
              │
              = help: an extent is a number, a name such as `B`, or arithmetic of them

            error[E0008]: expected an operator or the end, found `]`
              ┌─ e:1:7
              │
            1 │ f32[B]]
              │       ^
              │
              = help: no bracket is open here

            error[E0008]: expected a type such as `f32[B, 784]`, found `[`
              ┌─ e:1:1
              │
            1 │ [2]
              │ ^
        "#]],
    );
}

#[test]
fn faulty_statements() {
    check_faults(
        &["a: f32[] 3", "3 = a", "(a, b = c", "a ="],
        parse_statement,
        expect![[r#"
        error[E0008]: expected `=` and an expression, found `3`
          ┌─ e:1:10
          │
        1 │ a: f32[] 3
          │          ^

        error[E0008]: expected a name, found `3`
          ┌─ e:1:1
          │
        1 │ 3 = a
          │ ^

        error[E0008]: expected `,` or `)`, found `=`
          ┌─ e:1:7
          │
        1 │ (a, b = c
          │ -     ^
          │ │
          │ opened here

        error[E0008]: expected a value, found the end
          ┌─ e:1:4
          │
        1 │ a =
          │    ^
    "#]],
    );
}
