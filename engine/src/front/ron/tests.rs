#![allow(clippy::unwrap_used)]
mod faults;

use super::*;
use crate::diag::{Look, Sources};
use crate::work::counted::assert_linear;
use expect_test::{Expect, expect};
use proptest::prelude::*;
use ron::Value;

fn read(text: &str) -> (Ron, Diagnostics, Sources) {
    let (mut sources, mut diags) = (Sources::new(), Diagnostics::new());
    let file = sources.add("a.ron", text);
    let ron = parse_ron(file, text, &mut diags);
    (ron, diags, sources)
}

/// Reads a text without faults and shows each value beside the characters of its span.
fn check(text: &str, expected: Expect) {
    let (ron, diags, sources) = read(text);
    assert_eq!(diags.render(&sources, Look::Plain), "");
    let mut lines = vec![];
    show(&ron, &sources, 0, &mut lines);
    expected.assert_eq(&(lines.join("\n") + "\n"));
}

/// Reads a faulty text and compares the messages.
fn check_faults(text: &str, expected: Expect) {
    let (_, diags, sources) = read(text);
    expected.assert_eq(&diags.render(&sources, Look::Plain));
}

fn show(ron: &Ron, sources: &Sources, depth: usize, lines: &mut Vec<String>) {
    let mut line = |what: String, span| {
        lines.push(format!(
            "{:indent$}{what} ← {}",
            "",
            sources.slice(span).escape_debug(),
            indent = 2 * depth
        ));
    };
    let name =
        |name: &Option<Spanned<String>>| name.as_ref().map_or(String::new(), |n| format!(" {}", n.value));
    match &ron.kind {
        RonKind::List(_) => line("list".into(), ron.span),
        RonKind::Map(_) => line("map".into(), ron.span),
        RonKind::Struct { name: n, .. } => line(format!("fields{}", name(n)), ron.span),
        RonKind::Tuple { name: n, .. } => line(format!("values{}", name(n)), ron.span),
        RonKind::Str(text) => line(format!("{:?}", text.value), text.whole()),
        leaf => line(format!("{leaf:?}"), ron.span),
    }
    match &ron.kind {
        RonKind::List(items) | RonKind::Tuple { items, .. } => {
            items.iter().for_each(|item| show(item, sources, depth + 1, lines));
        }
        RonKind::Map(entries) => entries.iter().flat_map(|(key, value)| [key, value]).for_each(|part| {
            show(part, sources, depth + 1, lines);
        }),
        RonKind::Struct { fields, .. } => fields.iter().for_each(|(name, value)| {
            lines.push(format!("{:indent$}.{}", "", name.value, indent = 2 * depth));
            assert!(sources.slice(name.span).ends_with(name.as_str()));
            show(value, sources, depth + 1, lines);
        }),
        _ => (),
    }
}

#[test]
fn every_value_knows_its_place() {
    let text = r##"#![enable(implicit_some)]
// A comment, /* and one within */
Graph(
    name: "mlp", /* blocks /* nest */ */
    seed: 0xff, lr: -1.5e-3, on: true, device: Auto,
    nodes: {"h": "relu(x)", r#a-b: r#"raw "text""#},
    init: Normal ( 0.0, .5 ), shape: [4_096, 64,], rest: (), c: 'é', o: Some(None), inf: -inf,
)
"##;
    check(
        text,
        expect![[r##"
        fields Graph ← Graph(\n    name: \"mlp\", /* blocks /* nest */ */\n    seed: 0xff, lr: -1.5e-3, on: true, device: Auto,\n    nodes: {\"h\": \"relu(x)\", r#a-b: r#\"raw \"text\"\"#},\n    init: Normal ( 0.0, .5 ), shape: [4_096, 64,], rest: (), c: \'é\', o: Some(None), inf: -inf,\n)
        .name
          "mlp" ← mlp
        .seed
          Int(255) ← 0xff
        .lr
          Float(-0.0015) ← -1.5e-3
        .on
          Bool(true) ← true
        .device
          Name("Auto") ← Auto
        .nodes
          map ← {\"h\": \"relu(x)\", r#a-b: r#\"raw \"text\"\"#}
            "h" ← h
            "relu(x)" ← relu(x)
            Name("a-b") ← r#a-b
            "raw \"text\"" ← raw \"text\"
        .init
          values Normal ← Normal ( 0.0, .5 )
            Float(0.0) ← 0.0
            Float(0.5) ← .5
        .shape
          list ← [4_096, 64,]
            Int(4096) ← 4_096
            Int(64) ← 64
        .rest
          values ← ()
        .c
          Char('é') ← \'é\'
        .o
          Option(Some(Ron { span: Span { file: FileId(0), start: 293, end: 297 }, kind: Option(None) })) ← Some(None)
        .inf
          Float(-inf) ← -inf
    "##]],
    );
}

#[test]
fn offsets_in_a_string_lead_back_to_the_file() {
    let text = "[\"a\\tb\\u{e9}\\\n    c \\\"d\\\"\"]";
    let (ron, _, sources) = read(text);
    let RonKind::List(items) = &ron.kind else { panic!() };
    let RonKind::Str(string) = &items[0].kind else { panic!() };
    assert_eq!(string.value, "a\tbéc \"d\"");
    for (part, source) in [
        ("a", "a"),
        ("\t", "\\t"),
        ("a\tb", "a\\tb"),
        ("é", "\\u{e9}"),
        ("bé", "b\\u{e9}"),
        ("c", "c"),
        ("éc", "\\u{e9}\\\n    c"),
        ("\"d\"", "\\\"d\\\""),
    ] {
        let at = string.value.find(part).unwrap();
        assert_eq!(sources.slice(string.span(at, at + part.len())), source);
    }
}

#[test]
fn depth_is_limited() {
    let nested = |depth: usize| format!("{}1{}", "[".repeat(depth), "]".repeat(depth));
    assert!(!read(&nested(MAX_DEPTH)).1.has_errors());
    check_faults(
        &nested(MAX_DEPTH + 1),
        expect![[r#"
        error[E0006]: more than 128 brackets in each other
          ┌─ a.ron:1:129
          │
        1 │ [[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[1]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]
          │                                                                                                                                 ^
          │
          = help: give inner parts names of their own
    "#]],
    );
    assert_eq!(read(&format!("{} \"]\" /* ] */", "(a:".repeat(100_000))).1.n_errors(), 2);
}

/// A node list as a program would write it.
fn big_file(n_nodes: usize) -> String {
    let mut text = String::from("(nodes: [\n");
    for i in 0..n_nodes {
        text += &format!(
            "    (name: \"n{i}\", op: \"add\", inputs: [\"n{}\", \"b\\t\"], attrs: {{\"k\": 1.5}}),\n",
            i / 2
        );
    }
    text + "])"
}

#[test]
fn many_nodes_are_read_in_linear_time() {
    assert_linear("reading nodes", 1024, big_file, |text| assert!(!read(text).1.has_errors()));
}

#[test]
fn hostile_repetitions_are_read_in_linear_time() {
    for piece in [
        "(", "[1 ", "(a:", "/*", "[ /*", "r#", "r##", "1-", "-", "\"\\", "'", "}", ",", "{1:2 ", "Some(",
        "é(", "a /*",
    ] {
        for opening in ["", "[", "(a: "] {
            let text = |n: usize| opening.to_owned() + &piece.repeat(n);
            let read_it = |text: &String| assert!(read(text).1.has_errors(), "{piece}");
            assert_linear(&format!("reading {opening}{piece}…"), 1024, text, read_it);
        }
    }
}

// ---- Comparison with the `ron` crate.

/// The value as the `ron` crate sees it, which keeps neither names of groups nor the order of fields.
fn to_value(ron: &Ron) -> Value {
    let map = |entries: Vec<(Value, Value)>| Value::Map(entries.into_iter().collect());
    match &ron.kind {
        RonKind::Bool(b) => Value::Bool(*b),
        RonKind::Int(i) => number(*i as f64),
        RonKind::Float(x) => number(*x),
        RonKind::Char(c) => Value::Char(*c),
        RonKind::Str(text) => Value::String(text.value.clone()),
        RonKind::Name(_) => Value::Unit,
        RonKind::Tuple { items, .. } if items.is_empty() => Value::Unit,
        RonKind::List(items) if items.is_empty() => Value::Unit,
        RonKind::List(items) | RonKind::Tuple { items, .. } => {
            Value::Seq(items.iter().map(to_value).collect())
        }
        RonKind::Map(entries) => map(entries.iter().map(|(k, v)| (to_value(k), to_value(v))).collect()),
        RonKind::Struct { fields, .. } => {
            map(fields.iter().map(|(name, v)| (Value::String(name.value.clone()), to_value(v))).collect())
        }
        RonKind::Option(inner) => Value::Option(inner.as_ref().map(|inner| Box::new(to_value(inner)))),
        RonKind::Error => panic!("an unreadable value without an error"),
    }
}

fn number(x: f64) -> Value {
    let x = if x.is_nan() { f64::NAN } else { x };
    Value::Number(ron::value::Number::F64(x.into()))
}

/// Makes the crate's value comparable: numbers as f64, and no difference between `()` and an empty sequence.
fn normal(value: Value) -> Value {
    match value {
        Value::Number(n) => number(n.into_f64()),
        Value::Seq(items) if items.is_empty() => Value::Unit,
        Value::Seq(items) => Value::Seq(items.into_iter().map(normal).collect()),
        Value::Map(map) => Value::Map(map.into_iter().map(|(k, v)| (normal(k), normal(v))).collect()),
        Value::Option(inner) => Value::Option(inner.map(|inner| Box::new(normal(*inner)))),
        leaf => leaf,
    }
}

/// Whether a text holds something of RON that this reader leaves out on purpose: byte strings, ranges, characters put
/// together from several `\x`; integers beyond 64 bits, which the crate turns into floats.
fn is_left_out(text: &str) -> bool {
    let long_number = text.split(|c: char| !c.is_ascii_digit()).any(|digits| digits.len() > 18);
    long_number || ["b\"", "b'", "br", "..", "\\x"].iter().any(|part| text.contains(part))
}

fn agrees_with_the_ron_crate(text: &str) {
    if is_left_out(text) {
        return;
    }
    let (ours, diags, sources) = read(text);
    let faults = diags.render(&sources, Look::Plain);
    match ron::from_str::<Value>(text) {
        Ok(theirs) => {
            assert_eq!(faults, "", "the crate reads this:\n{text}");
            assert_eq!(to_value(&ours), normal(theirs), "{text}");
        }
        Err(e) => assert!(diags.has_errors(), "the crate says {e} about this:\n{text}"),
    }
}

#[test]
fn numbers_agree_with_the_ron_crate() {
    let signs = ["", "-", "+", "--", "+-"];
    let bodies = [
        "0", "007", "1_000", "_1", "1_", "1.", ".5", ".", "1.5", "1._5", "1_.5", "1e5", "1E-5", "1e+_5",
        "1e", "1e5.5", "0x1F", "0X1F", "0x", "0x_1", "0xg", "0x1e+5", "0b101", "0b12", "0o17", "0o8", "inf",
        "NaN", "inff32", "NaNf64", "infx", "1f32", "0.1f32", "1.5f64", "1f16", "255u8", "256u8", "-1u8",
        "127i8", "128i8", "5i64", "5x", "1-2", "0x1f32", "0b1u8", "12abc", "1e5u8", "1__0", "00", "0_", "0e",
        "0.0",
    ];
    for (sign, body) in signs.iter().flat_map(|sign| bodies.iter().map(move |body| (sign, body))) {
        agrees_with_the_ron_crate(&format!("{sign}{body}"));
        agrees_with_the_ron_crate(&format!("[{sign}{body}, 1]"));
    }
}

/// The crate makes an infinity of it, which changes what was written.
#[test]
fn a_number_beyond_all_floats_is_malformed() {
    for text in ["1e400", "-1e400", "1e39f32", "[1, 2e999]"] {
        let (_, diags, sources) = read(text);
        let faults = diags.render(&sources, Look::Plain);
        assert!(
            faults.contains("this number is too large; an infinity is written `inf`"),
            "{text}: {faults}"
        );
    }
    for (text, value) in [("nan", f64::NAN), ("-inf", f64::NEG_INFINITY), ("inf", f64::INFINITY)] {
        let (read, diags, _) = read(text);
        let RonKind::Float(found) = read.kind else { panic!("{text}") };
        assert!(!diags.has_errors() && (found == value || found.is_nan() && value.is_nan()), "{text}");
    }
}

#[test]
fn small_texts_agree_with_the_ron_crate() {
    // All sequences of up to four of these pieces.
    let pieces = [
        "(", ")", "[", "]", "{", "}", ",", ":", " a", "Some", "\"s\"", " 1", "-", "r#", "None", "/**/", "'c'",
    ];
    let mut texts = vec![String::new()];
    let mut from = 0;
    for _ in 0..4 {
        let to = texts.len();
        for i in from..to {
            texts.extend(pieces.iter().map(|piece| texts[i].clone() + piece).collect::<Vec<_>>());
        }
        from = to;
    }
    texts.iter().for_each(|text| agrees_with_the_ron_crate(text));
}

fn text_of_a_value() -> impl Strategy<Value = String> {
    let space = prop_oneof![Just(""), Just(" "), Just("\n\t"), Just("/* c */"), Just(" // c\n")];
    let leaf = prop_oneof![
        any::<i64>().prop_map(|i| i.to_string()),
        any::<f64>().prop_map(|x| format!("{x:?}")),
        any::<bool>().prop_map(|b| b.to_string()),
        any::<char>().prop_map(|c| format!("'{}'", c.escape_unicode())),
        "[a-z \\PC]{0,8}".prop_map(|s| format!("{s:?}")),
        "[a-zA-Z_][a-z0-9_]{0,5}",
        Just("r##\"raw \"# text\"##".to_owned()),
        Just("None".to_owned()),
        Just("()".to_owned()),
    ];
    leaf.prop_recursive(4, 40, 5, move |inner| {
        let (s, t, u) = (space.clone(), space.clone(), space.clone());
        let items = proptest::collection::vec(inner.clone(), 0..5);
        let name = prop_oneof![Just(String::new()), "[A-Z][a-z]{0,4} ?"];
        let value = inner.clone();
        prop_oneof![
            (items.clone(), s).prop_map(|(items, s)| format!("[{s}{}{s}]", items.join(&format!("{s},{s}")))),
            (items.clone(), name.clone(), t).prop_map(|(items, name, t)| {
                let fields: Vec<_> =
                    items.iter().enumerate().map(|(i, v)| format!("f{i}{t}:{t}{v}")).collect();
                format!("{name}({t}{})", fields.join(","))
            }),
            (items.clone(), name).prop_map(|(items, name)| format!("{name}({})", items.join(", "))),
            (items, u).prop_map(|(items, u)| {
                let entries: Vec<_> =
                    items.iter().enumerate().map(|(i, v)| format!("{i}{u}:{v}{u},")).collect();
                format!("{{{u}{}}}", entries.concat())
            }),
            value.prop_map(|v| format!("Some({v})")),
        ]
    })
}

proptest! {
    #![proptest_config(crate::text::fuzz::config(400))]

    #[test]
    fn written_values_agree_with_the_ron_crate(text in text_of_a_value()) {
        agrees_with_the_ron_crate(&text);
    }

    #[test]
    fn damaged_texts_agree_with_the_ron_crate(
        text in text_of_a_value(),
        damage in proptest::collection::vec((any::<prop::sample::Index>(), "[()\\[\\]{},:\"'rS0-9a #/*\\-\\\\\n]{0,2}", 0..3usize), 1..4),
    ) {
        let mut chars: Vec<char> = text.chars().collect();
        for (at, inserted, removed) in damage {
            let at = at.index(chars.len() + 1);
            let end = (at + removed).min(chars.len());
            chars.splice(at..end, inserted.chars());
        }
        agrees_with_the_ron_crate(&chars.into_iter().collect::<String>());
    }

    #[test]
    fn no_bytes_make_it_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        let (mut sources, mut diags) = (Sources::new(), Diagnostics::new());
        let file = sources.add_bytes("noise.ron", bytes, &mut diags);
        parse_ron(file, sources.text(file), &mut diags);
        diags.render(&sources, Look::Plain);
    }
}
