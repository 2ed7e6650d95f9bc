#![allow(clippy::unwrap_used)]
mod faults;

use super::*;
use crate::diag::{FileId, Look, Sources};
use crate::front::{RonKind, parse_ron};
use crate::work::counted::assert_linear;
use expect_test::{Expect, expect};
use proptest::prelude::*;

/// A text that is a file of its own.
fn text_of(written: &str) -> (Text, Sources) {
    let mut sources = Sources::new();
    let file = sources.add("e", written);
    (Text::verbatim(file, 0, written), sources)
}

/// Fully bracketed, operators first: no precedence is left to guess.
fn show(expr: &Expr) -> String {
    let all = |items: &[Expr]| items.iter().map(show).collect::<Vec<_>>();
    match &expr.kind {
        ExprKind::Name(name) => name.clone(),
        ExprKind::Int(n) => n.to_string(),
        ExprKind::Float(x) => format!("{x:?}"),
        ExprKind::Bool(b) => b.to_string(),
        ExprKind::Str(text) => format!("{text:?}"),
        ExprKind::List(items) => format!("[{}]", all(items).join(" ")),
        ExprKind::Call { callee, args, named } => {
            let named = named.iter().map(|(name, value)| format!("{}={}", name.value, show(value)));
            let parts = [callee.value.clone()].into_iter().chain(all(args)).chain(named);
            format!("({})", parts.collect::<Vec<_>>().join(" "))
        }
        ExprKind::Unary(UnaryOp::Neg, operand) => format!("(neg {})", show(operand)),
        ExprKind::Unary(UnaryOp::Not, operand) => format!("(not {})", show(operand)),
        ExprKind::Binary { op, left, right } => format!("({} {} {})", op.value, show(left), show(right)),
        ExprKind::Port { base, port } => format!("{}.{}", show(base), port.value),
    }
}

#[track_caller]
fn check(written: &str, tree: &str) {
    let (text, sources) = text_of(written);
    let mut diags = Diagnostics::new();
    let expr = parse_expr(&text, &mut diags);
    assert_eq!(diags.render(&sources, Look::Plain), "", "{written}");
    assert_eq!(show(&expr.unwrap()), tree, "{written}");
}

/// The message for each of several faulty expressions.
fn check_faults<T>(written: &[&str], read: fn(&Text, &mut Diagnostics) -> Option<T>, expected: Expect) {
    let mut shown = vec![];
    for written in written {
        let (text, sources) = text_of(written);
        let mut diags = Diagnostics::new();
        assert!(read(&text, &mut diags).is_none(), "{written}");
        shown.push(diags.render(&sources, Look::Plain));
    }
    expected.assert_eq(&shown.join("\n"));
}

#[test]
fn operators_bind_as_in_other_languages() {
    for (written, tree) in [
        ("a + b * c", "(+ a (* b c))"),
        ("a - b - c", "(- (- a b) c)"),
        ("a ** b ** c", "(** a (** b c))"),
        ("-a ** b", "(neg (** a b))"),
        ("a ** -b", "(** a (neg b))"),
        ("-a * b", "(* (neg a) b)"),
        ("!a & b | c", "(| (& (not a) b) c)"),
        ("a < b + 1 & c >= d | e", "(| (& (< a (+ b 1)) (>= c d)) e)"),
        ("x @ w1 + b1", "(+ (@ x w1) b1)"),
        ("a * b @ c / d % e", "(% (/ (@ (* a b) c) d) e)"),
        ("(a + b) * (c)", "(* (+ a b) c)"),
        ("a == b", "(== a b)"),
        ("a != b", "(!= a b)"),
        ("(a < b) == (c < d)", "(== (< a b) (< c d))"),
    ] {
        check(written, tree);
    }
}

#[test]
fn names_numbers_lists_and_calls() {
    for (written, tree) in [
        ("digits.images", "digits.images"),
        ("h.1.2", "h.1.2"),
        ("[1, -1, 2.5, ]", "[1 -1 2.5]"),
        ("[-2 ** 2, - 3, --3]", "[(neg (** 2 2)) -3 (neg -3)]"),
        ("[1e3, .5, 1., 1_000, inf, -inf, nan]", "[1000.0 0.5 1.0 1000 inf -inf NaN]"),
        ("[9223372036854775807, -9223372036854775808]", "[9223372036854775807 -9223372036854775808]"),
        ("softmax(x, axis=-1, mode='row', exact=true)", "(softmax x axis=-1 mode=\"row\" exact=true)"),
        ("f()", "(f)"),
        ("f(a == b, n=[])", "(f (== a b) n=[])"),
        ("topk(x, k=3).indices + y", "(+ (topk x k=3).indices y)"),
        ("f(x, t.*, g(y).*)", "(f x t.* (g y).*)"),
        ("topk(x).0 + y", "(+ (topk x).0 y)"),
        (r#"f(s="a\"b\u{e9}", t='"')"#, r#"(f s="a\"bé" t="\"")"#),
        ("a # a remark\n + b", "(+ a b)"),
    ] {
        check(written, tree);
    }
}

#[test]
fn places_lead_into_the_file_past_escapes() {
    let file = r#"("f(\"é\", x\u{2a}y)")"#;
    let (mut sources, mut diags) = (Sources::new(), Diagnostics::new());
    let id = sources.add("f.ron", file);
    let RonKind::Tuple { items, .. } = parse_ron(id, file, &mut diags).kind else { panic!() };
    let RonKind::Str(text) = &items[0].kind else { panic!() };
    let expr = parse_expr(text, &mut diags).unwrap();
    assert_eq!(sources.slice(expr.span), r#"f(\"é\", x\u{2a}y)"#);
    let ExprKind::Call { args, .. } = &expr.kind else { panic!() };
    assert_eq!(sources.slice(args[0].span), r#"\"é\""#);
    assert_eq!(sources.slice(args[1].span), r"x\u{2a}y");
    let ExprKind::Binary { op, .. } = &args[1].kind else { panic!() };
    assert_eq!(sources.slice(op.span), r"\u{2a}");
}

#[test]
fn statements_and_types() {
    let (text, sources) = text_of(
        "# two layers\nh: f32[B, 128] = relu(\n  x @ w1\n)\ny = h +\n    1 \n\n(m: f32[], i: i32[3],) = argmax(y)\nbad: f32 = 1\ngood = 2\n= 3",
    );
    let mut diags = Diagnostics::new();
    let mut shown = String::new();
    for statement in parse_statements(&text, &mut diags) {
        for (name, ty) in &statement.targets {
            let ty = ty
                .as_ref()
                .map(|ty| format!(": {} {:?}", ty.dtype.value, ty.dims.iter().map(show).collect::<Vec<_>>()));
            shown += &format!("{}{} ", name.value, ty.unwrap_or_default());
        }
        shown += &format!("= {}\n", show(&statement.value));
    }
    shown += &diags.render(&sources, Look::Plain);
    expect![[r#"
        h: f32 ["B", "128"] = (relu (@ x w1))
        m: f32 [] i: i32 ["3"] = (argmax y)
        good = 2
        error[E0008]: expected a value, found the end
          ┌─ e:5:8
          │
        5 │ y = h +
          │        ^

        error[E0008]: expected a name, found `1`
          ┌─ e:6:5
          │
        6 │     1
          │     ^

        error[E0009]: `f32` is not a whole type
          ┌─ e:9:6
          │
        9 │ bad: f32 = 1
          │      ^^^
          │
          = help: write the extents: `f32[B, 784]`, or `f32[]` for a scalar

        error[E0008]: expected a name, found `=`
           ┌─ e:11:1
           │
        11 │ = 3
           │ ^
    "#]]
    .assert_eq(&shown);
}

#[test]
fn levels_are_limited() {
    let chain = |n: usize| vec!["a"; n].join(" + ");
    let nested = |n: usize| format!("{}a{}", "f(".repeat(n), ")".repeat(n));
    let n_errors = |written: &str| {
        let (text, _) = text_of(written);
        let mut diags = Diagnostics::new();
        parse_expr(&text, &mut diags);
        diags.n_errors()
    };
    assert_eq!(n_errors(&chain(MAX_LEVELS + 1)), 0);
    assert_eq!(n_errors(&chain(MAX_LEVELS + 2)), 1);
    assert_eq!(n_errors(&nested(MAX_LEVELS)), 0);
    assert_eq!(n_errors(&nested(MAX_LEVELS + 1)), 1);
    // A wide list of chains, each in parentheses, is not deep.
    assert_eq!(n_errors(&format!("[{}]", vec![format!("({})", chain(150)); 300].join(", "))), 0);
}

#[test]
fn hostile_repetitions_are_read_in_linear_time() {
    for piece in [
        "(", "-", "f(", "[", "a + ", "a ** ", "a.", "1.", "'", "'a' ", "\"\\", "a=", "€", "#", "a, ",
        "a: f32[", "a = b\n", "!", ")",
    ] {
        let repeated = |n: usize| text_of(&piece.repeat(n)).0;
        let read = |text: &Text| {
            let mut diags = Diagnostics::new();
            parse_expr(text, &mut diags);
            parse_statements(text, &mut diags);
            parse_type(text, &mut diags);
        };
        assert_linear(&format!("reading {piece}…"), 1024, repeated, read);
    }
}

// ---- Random trees, written with as few parentheses as the table of operators allows.

fn tree() -> impl Strategy<Value = Expr> {
    let nowhere = Sources::new().add("", "");
    let leaf = prop_oneof![
        "[a-z][a-z0-9_]{0,3}(\\.[a-z0-9]{1,2})?".prop_map(|name| word(&name)),
        (0..=i64::MAX).prop_map(ExprKind::Int),
        any::<f64>().prop_filter("finite", |x| x.is_finite()).prop_map(|x| ExprKind::Float(x.abs())),
        "\\PC{0,4}".prop_map(ExprKind::Str),
    ];
    let leaf = leaf.prop_map(move |kind| Expr::new(anywhere(nowhere), kind));
    leaf.prop_recursive(6, 60, 3, move |inner| {
        let pair = (inner.clone(), prop::sample::select(BinaryOp::ALL.to_vec()), inner.clone());
        let items = prop::collection::vec(inner.clone(), 0..4);
        let kinds = prop_oneof![
            4 => pair.prop_map(move |(left, op, right)| {
                let op = Spanned::new(anywhere(nowhere), op);
                ExprKind::Binary { op, left: Box::new(left), right: Box::new(right) }
            }),
            1 => inner.clone().prop_map(|operand| ExprKind::Unary(UnaryOp::Not, Box::new(operand))),
            1 => inner.clone().prop_map(|operand| ExprKind::Unary(UnaryOp::Neg, Box::new(operand))),
            1 => items.clone().prop_map(ExprKind::List),
            1 => (items, inner.clone()).prop_map(move |(args, value)| {
                let name = |name: &str| Spanned::new(anywhere(nowhere), name.to_owned());
                ExprKind::Call { callee: name("op"), args, named: vec![(name("n"), value)] }
            }),
        ];
        kinds.prop_map(move |kind| Expr::new(anywhere(nowhere), kind))
    })
}

fn anywhere(file: FileId) -> Span {
    Span::new(file, 0, 0)
}

/// Rows of the table of operators, loosest first.
fn row(expr: &Expr) -> usize {
    match &expr.kind {
        ExprKind::Binary { op, .. } => match op.value.symbol() {
            "|" => 0,
            "&" => 1,
            "+" | "-" => 3,
            "*" | "/" | "%" | "@" => 4,
            "**" => 6,
            _ => 2,
        },
        ExprKind::Unary(..) => 5,
        _ => 7,
    }
}

fn write(expr: &Expr) -> String {
    let within = |part: &Expr, loosest: usize| {
        let written = write(part);
        if row(part) < loosest { format!("({written})") } else { written }
    };
    let list = |items: &[Expr]| items.iter().map(write).collect::<Vec<_>>().join(",");
    match &expr.kind {
        ExprKind::Binary { op, left, right } => {
            let row = row(expr);
            // A unary operator may stand bare on the right of any operator.
            let bare = matches!(right.kind, ExprKind::Unary(..));
            let (l, r) = match row {
                6 => (7, if bare { 5 } else { 6 }),
                2 => (3, 3),
                _ => (row, row + 1),
            };
            format!("{} {} {}", within(left, l), op.value, within(right, r))
        }
        ExprKind::Unary(UnaryOp::Not, operand) => format!("!{}", within(operand, 5)),
        ExprKind::Unary(UnaryOp::Neg, operand) => {
            // Brackets keep a number apart from its sign.
            let literal = matches!(operand.kind, ExprKind::Int(_) | ExprKind::Float(_));
            if literal { format!("-({})", write(operand)) } else { format!("-{}", within(operand, 5)) }
        }
        ExprKind::List(items) => format!("[{}]", list(items)),
        ExprKind::Call { args, named, .. } => {
            let operands = args.iter().map(|arg| write(arg) + ",").collect::<String>();
            format!("op({operands}n={})", write(&named[0].1))
        }
        _ => show(expr),
    }
}

proptest! {
    #![proptest_config(crate::text::fuzz::config(400))]

    #[test]
    fn what_is_written_reads_back(tree in tree()) {
        check(&write(&tree), &show(&tree));
    }

    #[test]
    fn damaged_expressions_do_not_panic(tree in tree(), damage in prop::collection::vec((any::<prop::sample::Index>(), "[()\\[\\],=.+*!#'\"\\\\a1 \n]{0,2}", 0..3usize), 1..4)) {
        let mut chars: Vec<char> = write(&tree).chars().collect();
        for (at, inserted, removed) in damage {
            let at = at.index(chars.len() + 1);
            let end = (at + removed).min(chars.len());
            chars.splice(at..end, inserted.chars());
        }
        let (text, sources) = text_of(&chars.into_iter().collect::<String>());
        let mut diags = Diagnostics::new();
        let read = parse_expr(&text, &mut diags).is_some();
        prop_assert_eq!(read, !diags.has_errors());
        parse_statements(&text, &mut diags);
        parse_type(&text, &mut diags);
        diags.render(&sources, Look::Plain);
    }
}
