//! Faults in RON.

use super::*;

#[test]
fn all_faults_of_a_file_are_shown_at_once() {
    check_faults(
        r#"(
    name: "a\qb",
    seed: 12_34x,
    nodes: [
        (name: "h" op: "relu"),
        (name: %, op: "tanh", "inputs": ["h"])
        (name: "y", op:),
    ],
    lr: 0x,
    what: Some(1, 2),
    last: 'ab',
)
more"#,
        expect![[r#"
            error[E0004]: unknown escape in a string
              ┌─ a.ron:2:13
              │
            2 │     name: "a\qb",
              │             ^^
              │
              = help: escapes are \n, \r, \t, \0, \\, \", \', \x41 and \u{e9}

            error[E0005]: `12_34x` is not a number
              ┌─ a.ron:3:11
              │
            3 │     seed: 12_34x,
              │           ^^^^^^ a number has digits, and `_` between them, only

            error[E0002]: expected `,` or `)`, found `op`
              ┌─ a.ron:5:20
              │
            5 │         (name: "h" op: "relu"),
              │                   -^^
              │                   │
              │                   a comma belongs here

            error[E0002]: expected a value, found `%`
              ┌─ a.ron:6:16
              │
            6 │         (name: %, op: "tanh", "inputs": ["h"])
              │                ^

            error[E0002]: expected the name of a field, found a string
              ┌─ a.ron:6:31
              │
            6 │         (name: %, op: "tanh", "inputs": ["h"])
              │                               ^^^^^^^^
              │
              = help: a field is `name: value`, without quotes; a map stands in braces: `{"name": value}`

            error[E0002]: expected `,` or `]`, found `(`
              ┌─ a.ron:7:9
              │
            6 │         (name: %, op: "tanh", "inputs": ["h"])
              │                                               - a comma belongs here
            7 │         (name: "y", op:),
              │         ^

            error[E0002]: expected a value, found `)`
              ┌─ a.ron:7:24
              │
            7 │         (name: "y", op:),
              │                        ^

            error[E0005]: `0x` is not a number
              ┌─ a.ron:9:9
              │
            9 │     lr: 0x,
              │         ^^ hexadecimal digits are 0 to 9 and a to f

            error[E0002]: `Some` takes one value
               ┌─ a.ron:10:11
               │
            10 │     what: Some(1, 2),
               │           ^^^^^^^^^^
               │
               = help: write a group of fields as `Some((a: 1, b: 2))`

            error[E0004]: this is not one character
               ┌─ a.ron:11:11
               │
            11 │     last: 'ab',
               │           ^^
               │
               = help: strings stand in double quotes: `"…"`

            error[E0002]: the file goes on after its value
               ┌─ a.ron:13:1
               │
            13 │ more
               │ ^^^^
               │
               = help: a file holds one value; put all of it into one `( … )`
        "#]],
    );
}

#[test]
fn brackets_that_do_not_match() {
    check_faults(
        "(a: [1, 2, b: (3)",
        expect![[r#"
        error[E0003]: `[` is not closed
          ┌─ a.ron:1:5
          │
        1 │ (a: [1, 2, b: (3)
          │     ^            - found the end of the file instead of `]`
          │     │
          │     opened here

        error[E0002]: expected `,` or `]`, found `:`
          ┌─ a.ron:1:13
          │
        1 │ (a: [1, 2, b: (3)
          │             ^
    "#]],
    );
    check_faults(
        "(a: [1, 2), b: {3: 4)",
        expect![[r#"
        error[E0003]: `[` is not closed
          ┌─ a.ron:1:5
          │
        1 │ (a: [1, 2), b: {3: 4)
          │     ^    - found `)` instead of `]`
          │     │
          │     opened here
    "#]],
    );
    check_faults(
        "[1, 2}, 3]",
        expect![[r#"
        error[E0002]: expected `,` or `]`, found `}`
          ┌─ a.ron:1:6
          │
        1 │ [1, 2}, 3]
          │      ^
    "#]],
    );
    check_faults(
        "[1, ",
        expect![[r#"
        error[E0003]: `[` is not closed
          ┌─ a.ron:1:1
          │
        1 │ [1,
          │ ^   - found the end of the file instead of `]`
          │ │
          │ opened here
    "#]],
    );
}

#[test]
fn things_that_do_not_end() {
    check_faults(
        "(a: \"open, b: [1])",
        expect![[r#"
        error[E0003]: this string is not closed
          ┌─ a.ron:1:5
          │
        1 │ (a: "open, b: [1])
          │     ^^^^^^^^^^^^^^ opened here
          │
          = help: add the closing `"`
    "#]],
    );
    check_faults(
        "(a: r#\"open\", b: [1])",
        expect![[r#"
        error[E0003]: this raw string is not closed
          ┌─ a.ron:1:5
          │
        1 │ (a: r#"open", b: [1])
          │     ^^^^^^^^^^^^^^^^^ opened here
          │
          = help: it ends with `"` and as many `#` as it starts with
    "#]],
    );
    check_faults(
        "(a: 1, /* open /* */ b: [1])",
        expect![[r#"
        error[E0003]: this comment is not closed
          ┌─ a.ron:1:8
          │
        1 │ (a: 1, /* open /* */ b: [1])
          │        ^^^^^^^^^^^^^^^^^^^^^ opened here
          │
          = help: add the closing `*/`
    "#]],
    );
    check_faults(
        "",
        expect![[r#"
        error[E0002]: expected a value, found the end of the file
          ┌─ a.ron:1:1
          │
        1 │
          │ ^
    "#]],
    );
}

#[test]
fn odd_attributes_and_words() {
    check_faults(
        "#![enable(explicit)]\n#![allow]\n(a: Some, b: None(1))",
        expect![[r#"
        error[E0007]: unknown attribute of the file
          ┌─ a.ron:1:1
          │
        1 │ #![enable(explicit)]
          │ ^^^^^^^^^^^^^^^^^^^^
          │
          = help: `#![enable(implicit_some)]` is known, and can be left out

        error[E0007]: unknown attribute of the file
          ┌─ a.ron:2:1
          │
        2 │ #![allow]
          │ ^^^^^^^^^
          │
          = help: `#![enable(implicit_some)]` is known, and can be left out

        error[E0002]: expected `(` after `Some`, found `,`
          ┌─ a.ron:3:9
          │
        3 │ (a: Some, b: None(1))
          │         ^

        error[E0002]: expected `,` or `)`, found `(`
          ┌─ a.ron:3:18
          │
        3 │ (a: Some, b: None(1))
          │                  ^

        error[E0002]: expected the name of a field, found `(`
          ┌─ a.ron:3:18
          │
        3 │ (a: Some, b: None(1))
          │                  ^
          │
          = help: a field is `name: value`, without quotes; a map stands in braces: `{"name": value}`
    "#]],
    );
    check_faults(
        "Some(a: 1)",
        expect![[r#"
        error[E0002]: `Some` takes one value
          ┌─ a.ron:1:1
          │
        1 │ Some(a: 1)
          │ ^^^^^^^^^^
          │
          = help: write a group of fields as `Some((a: 1, b: 2))`
    "#]],
    );
}
