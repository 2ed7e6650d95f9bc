#![allow(clippy::unwrap_used)]
use super::*;
use expect_test::{Expect, expect};
use proptest::prelude::*;

const MLP: &str = "(\n    name: \"mlp\",\n    nodes: [\n        (name: \"y\", op: \"add\", inputs: [\"h\", \"b\"]),\n    ],\n)\n";

fn sources() -> (Sources, FileId) {
    let mut sources = Sources::new();
    let file = sources.add("graphs/mlp_block.ron", MLP);
    (sources, file)
}

/// The place of the first `needle` in the example.
fn place(file: FileId, needle: &str) -> Span {
    let at = MLP.find(needle).unwrap();
    Span::new(file, at, at + needle.len())
}

fn check(diags: &Diagnostics, sources: &Sources, expected: Expect) {
    expected.assert_eq(&diags.render(sources, Look::Plain));
}

#[test]
fn an_error_says_the_place_the_fact_and_the_fix() {
    let (sources, file) = sources();
    let mut diags = Diagnostics::new();
    diags
        .error(Code::E0102, place(file, "\"b\""), "cannot broadcast f32[32, 64] with f32[32]")
        .here("`b` is f32[32]")
        .also(place(file, "\"h\""), "`h` is f32[32, 64]")
        .help("trailing axes must agree: 64 vs 32; declare `b` as f32[64] or reshape it to f32[32, 1]");
    check(
        &diags,
        &sources,
        expect![[r#"
        error[E0102]: cannot broadcast f32[32, 64] with f32[32]
          ┌─ graphs/mlp_block.ron:4:46
          │
        4 │         (name: "y", op: "add", inputs: ["h", "b"]),
          │                                         ---  ^^^ `b` is f32[32]
          │                                         │
          │                                         `h` is f32[32, 64]
          │
          = help: trailing axes must agree: 64 vs 32; declare `b` as f32[64] or reshape it to f32[32, 1]
    "#]],
    );
}

#[test]
fn places_order_the_list_and_blocks_are_marked_on_their_first_line() {
    let (sources, file) = sources();
    let mut diags = Diagnostics::new();
    diags.warning(Code::E0303, place(file, "\"y\""), "`y` is never used");
    diags.error(Code::E0011, Span::new(file, 0, MLP.len()), "the pipeline has no `stages`");
    check(
        &diags,
        &sources,
        expect![[r#"
        error[E0011]: the pipeline has no `stages`
          ┌─ graphs/mlp_block.ron:1:1
          │
        1 │ (
          │ ^

        warning[E0303]: `y` is never used
          ┌─ graphs/mlp_block.ron:4:16
          │
        4 │         (name: "y", op: "add", inputs: ["h", "b"]),
          │                ^^^
    "#]],
    );
}

#[test]
fn diagnostics_beyond_the_limit_are_counted() {
    let (sources, file) = sources();
    let mut diags = Diagnostics::new();
    for i in 0..MAX_SHOWN + 3 {
        diags.error(Code::E0101, place(file, "\"h\""), format!("fault {i}")).help("kept or not, this works");
    }
    let text = diags.render(&sources, Look::Plain);
    assert!(text.contains("fault 49") && !text.contains("fault 50"), "{text}");
    assert!(text.ends_with("\n… and 3 more errors\n"), "{text}");
    assert!(diags.is_full() && diags.n_errors() == MAX_SHOWN + 3);
}

#[test]
fn a_file_on_one_long_line_is_not_printed() {
    let mut sources = Sources::new();
    let file = sources.add("long.ron", format!("[{}x]", "1, ".repeat(1000)));
    let mut diags = Diagnostics::new();
    diags
        .error(Code::E0101, Span::new(file, 3001, 3002), "unknown name `x`")
        .here("not defined")
        .help("try `y`");
    check(
        &diags,
        &sources,
        expect![[r#"
        long.ron:1:3002: error[E0101]: unknown name `x`
         = long.ron:1:3002: not defined
         = help: try `y`
    "#]],
    );
}

#[test]
fn bytes_that_are_not_text_are_an_error() {
    let mut sources = Sources::new();
    let mut diags = Diagnostics::new();
    sources.add_bytes("bad.ron", b"(name: \"caf\xe9\")".to_vec(), &mut diags);
    check(
        &diags,
        &sources,
        expect![[r#"
        error[E0001]: the file is not UTF-8 text
          ┌─ bad.ron:1:12
          │
        1 │ (name: "caf�")
          │            ^ byte 11 starts no character
          │
          = help: save the file in UTF-8
    "#]],
    );
}

#[test]
fn colours_are_ansi_codes_around_the_same_text() {
    let (sources, file) = sources();
    let mut diags = Diagnostics::new();
    diags.error(Code::E0105, place(file, "\"add\""), "unknown op `add`");
    let coloured = diags.render(&sources, Look::Coloured);
    assert!(coloured.contains("\u{1b}["));
    let mut plain = String::new();
    for part in coloured.split('\u{1b}') {
        plain += part.strip_prefix('[').and_then(|rest| rest.split_once('m')).map_or(part, |(_, text)| text);
    }
    assert_eq!(plain, diags.render(&sources, Look::Plain));
}

#[test]
fn a_span_that_fits_no_text_is_shortened() {
    let mut sources = Sources::new();
    let file = sources.add("é.ron", "é\r\n");
    let mut diags = Diagnostics::new();
    diags.error(Code::E0002, Span::new(file, 1, 900), "odd");
    diags.error(Code::E0002, Span::new(file, 700, 600), "odder");
    check(
        &diags,
        &sources,
        expect![[r#"
        error[E0002]: odd
          ┌─ é.ron:1:1
          │
        1 │ é
          │ ^

        error[E0002]: odder
          ┌─ é.ron:2:1
          │
        2 │
          │ ^
    "#]],
    );
}

#[test]
fn codes_are_sorted_unique_and_titled() {
    assert!(Code::ALL.windows(2).all(|pair| pair[0].name() < pair[1].name()));
    assert!(Code::ALL.iter().all(|code| code.name().len() == 5 && !code.title().ends_with('.')));
}

#[test]
fn near_names_are_found_and_far_ones_are_not() {
    let ops = ["relu", "gelu", "softmax", "log_softmax", "sum"];
    for (written, meant) in [
        ("rleu", Some("relu")),
        ("ReLU", Some("relu")),
        ("sofmax", Some("softmax")),
        ("log_sofmax", Some("log_softmax")),
        ("summ", Some("sum")),
        ("tanh", None),
        ("", None),
    ] {
        assert_eq!(nearest(written, ops), meant, "{written}");
    }
}

/// Files with terminal commands, and long diagnostics that quote them.
fn any_text() -> impl Strategy<Value = String> {
    let piece = prop_oneof![
        "[a-z`\"(){}:\u{1b}\u{9b}\u{202e}\u{7}\r ]{0,20}",
        Just("\n".to_string()),
        ("[a-z`\u{1b}\n]{1,3}", 0..800usize).prop_map(|(piece, n)| piece.repeat(n)),
    ];
    proptest::collection::vec(piece, 0..12).prop_map(|pieces| pieces.concat())
}

/// A line of a note is indented, which makes many short lines long.
#[test]
fn many_short_lines_are_cut() {
    let mut sources = Sources::new();
    let file = sources.add("f.ron", "a");
    let mut diagnostic = Diagnostic::error(Code::E0101, "`\n".repeat(400));
    diagnostic.help("a\n".repeat(400));
    (0..5).for_each(|_| _ = diagnostic.also(Span::new(file, 0, 1), "\n".repeat(200)));
    let mut diags = Diagnostics::new();
    diags.push(diagnostic);
    for look in [Look::Plain, Look::Coloured] {
        let shown = diags.render(&sources, look);
        assert!(shown.len() <= legible::MOST_BYTES && shown.ends_with("…\n"), "{} bytes", shown.len());
    }
}

proptest! {
    /// For every content of files, names and messages, the text holds no terminal command and at most 4 KB.
    #[test]
    fn no_diagnostic_holds_a_command_or_is_too_long(
        name in any_text(),
        text in any_text(),
        message in any_text(),
        help in any_text(),
        labels in proptest::collection::vec((any::<u16>(), any::<u16>(), any_text()), 0..12),
    ) {
        let mut sources = Sources::new();
        let file = sources.add(name, text);
        let mut diagnostic = Diagnostic::error(Code::E0101, message);
        diagnostic.help(help);
        for (start, len, remark) in labels {
            let start = start as usize % 3000;
            diagnostic.also(Span::new(file, start, start + len as usize), remark);
        }
        let mut diags = Diagnostics::new();
        diags.push(diagnostic);
        let shown = diags.render(&sources, Look::Plain);
        let hidden = |c: char| c.is_control() && c != '\n' || c == '\u{202e}';
        prop_assert!(!shown.contains(hidden), "{shown:?}");
        prop_assert!(shown.len() <= legible::MOST_BYTES, "{} bytes: {shown}", shown.len());
        // Colours are the only terminal commands.
        let coloured = diags.render(&sources, Look::Coloured);
        let is_no_colour = |c: char| hidden(c) && c != '\u{1b}';
        prop_assert!(!coloured.contains(is_no_colour), "{coloured:?}");
        prop_assert!(coloured.len() <= legible::MOST_BYTES, "{} bytes", coloured.len());
    }
}

/// Errors stay, also those that match.
#[test]
fn warnings_are_dismissed() {
    let (mut diags, (_, file)) = (Diagnostics::new(), sources());
    let span = place(file, "\"b\"");
    for name in ["a", "b"] {
        diags.warning(Code::E0303, span, name);
        diags.error(Code::E0101, span, name);
    }
    diags.dismiss_warnings(|diagnostic| diagnostic.message == "a");
    assert_eq!((diags.n_errors(), diags.n_warnings()), (2, 1));
    let left: Vec<&str> = diags.sorted().iter().map(|diagnostic| diagnostic.message.as_str()).collect();
    assert_eq!(left, ["a", "b", "b"]);
}
