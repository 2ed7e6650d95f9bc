//! Numeric settings that become elements keep their value, or are refused at their place. Bounds saturate at the limits
//! of the type.

use super::{Graph, HashMap, InputKind, OracleTensor, Type, Value, compile, run};
use engine::Engine;
use engine::core::compile::Options;
use engine::core::diag::{Diagnostics, Look, Sources};
use engine::core::ir::{Attr, Attrs, Builder, DType, Dim, Literal};
use engine::core::op::{AttrKind, Registry};
use engine::core::front;
use engine::runtime::cpu::CpuDevice;

/// An op, its setting, and the effect of the setting on an element.
type Row = (&'static str, &'static str, fn(f64, f64) -> f64);

const TABLE: [Row; 12] = [
    ("full", "value", |_, v| v),
    ("full_like", "value", |_, v| v),
    ("clamp", "min", larger),
    ("clamp", "max", smaller),
    ("hardtanh", "min_val", |x, v| smaller(larger(x, v), 1.0)),
    ("hardtanh", "max_val", |x, v| smaller(larger(x, -1.0), v)),
    ("threshold", "threshold", |x, v| if x <= v { 0.0 } else { x }),
    ("threshold", "value", |x, v| if x <= 0.0 { v } else { x }),
    ("threshold_backward", "threshold", |x, v| if x > v { x } else { 0.0 }),
    ("addcmul", "value", |x, v| x + v),
    ("addcdiv", "value", |x, v| x + v),
    ("arange", "start", |_, v| v),
];

fn larger(a: f64, b: f64) -> f64 {
    if a.is_nan() || b.is_nan() { f64::NAN } else { a.max(b) }
}

fn smaller(a: f64, b: f64) -> f64 {
    if a.is_nan() || b.is_nan() { f64::NAN } else { a.min(b) }
}

const NUMBERS: [f64; 23] = [
    -1e300,
    -4e9,
    -3.0,
    -1.0,
    -0.5,
    0.0,
    0.5,
    1.0,
    2.0,
    255.0,
    256.0,
    300.0,
    65504.0,
    7e4,
    2_147_483_647.0,
    2_147_483_648.0,
    4_294_967_296.0,
    9_223_372_036_854_775_808.0,
    1e12,
    1e39,
    f64::INFINITY,
    f64::NEG_INFINITY,
    f64::NAN,
];

/// The smallest and the largest number of a type.
fn range(dtype: DType) -> (f64, f64) {
    match dtype {
        DType::Bool => (0.0, 1.0),
        DType::U8 => (0.0, 255.0),
        DType::I8 => (-128.0, 127.0),
        DType::I16 => (-32768.0, 32767.0),
        DType::U16 => (0.0, 65535.0),
        DType::U32 => (0.0, 4_294_967_295.0),
        DType::I32 => (-2_147_483_648.0, 2_147_483_647.0),
        // The float below 2⁶³.
        DType::I64 => (-9_223_372_036_854_775_808.0, 9_223_372_036_854_774_784.0),
        DType::F16 => (-65504.0, 65504.0),
        DType::BF16 => (-3.3895313892515355e38, 3.3895313892515355e38),
        DType::F32 => (-3.4028234663852886e38, 3.4028234663852886e38),
        DType::F64 => (f64::MIN, f64::MAX),
    }
}

fn is_element(v: f64, dtype: DType) -> bool {
    let (low, high) = range(dtype);
    match dtype.is_float() {
        true => !v.is_finite() || (low..=high).contains(&v),
        false => v.fract() == 0.0 && (low..=high).contains(&v),
    }
}

/// The bound in the type. A float beyond the range rounds to an infinity.
fn bound(v: f64, dtype: DType) -> f64 {
    let (low, high) = range(dtype);
    match dtype.is_float() {
        true if v.abs() > high => f64::INFINITY.copysign(v),
        true => v,
        // As a float, the largest 64-bit integer becomes its successor.
        false => v.trunc().clamp(low, if dtype == DType::I64 { -low } else { high }),
    }
}

/// A call with one setting, or the reason why its types refuse it.
fn call(registry: &Registry, row: &Row, literal: Literal, dtype: DType) -> Result<Graph, Option<String>> {
    let (op, setting, _) = row;
    let form = registry.op(op).unwrap();
    let mut b = Builder::new(Graph::new("case"), registry);
    let x = b.input("x", InputKind::Data, Type::new(dtype, &[4]));
    let one = b.input("one", InputKind::Data, Type::new(dtype, &[1]));
    let operands = match form.inputs.len() {
        0 => vec![],
        1 => vec![x],
        2 => vec![x, x],
        _ => vec![x, one, one],
    };
    let mut attrs = Attrs::default().with(setting, Attr::Lit(literal));
    if operands.is_empty() {
        attrs = attrs.with("dtype", Attr::DType(dtype));
    }
    match *op {
        "full" => attrs = attrs.with("shape", Attr::Shape(vec![Dim::Fixed(4)])),
        // A single number, since a second one would not be within a step.
        "arange" => {
            let start = literal.as_f64();
            let stop = if start.is_finite() { start + start.abs().max(1.0) } else { 1.0 };
            let step = if dtype.is_float() || stop - start <= 1.0 { (stop - start).min(3e4) } else { 1e300 };
            if step >= 1e300 || (stop - start) / step > 4.0 {
                return Err(None);
            }
            attrs = attrs.with("stop", Attr::from(stop)).with("step", Attr::from(step.max(1.0)));
        }
        _ => {}
    }
    let found: Vec<Value> = b.call(op, &operands, attrs).map_err(|issue| issue.setting.map(String::from))?;
    let first = b.ty(found[0]).numel().min(4);
    let y = if *op == "arange" { b.slice(found[0], &[0], &[first.min(1)], &[1]) } else { found[0] };
    b.graph.outputs = vec![("y".into(), y)];
    Ok(b.graph.pruned())
}

fn elements(dtype: DType) -> [f64; 4] {
    match dtype {
        DType::Bool => [0.0, 1.0, 1.0, 0.0],
        _ if dtype.is_float() => [-2.5, 0.0, 1.0, 300.0],
        _ => [0.0, 1.0, 5.0, 200.0],
    }
}

#[test]
fn numeric_settings_are_taken_exactly_or_refused() {
    let registry = Engine::new().registry;
    let device = CpuDevice::new(Some(1)).unwrap();
    let (mut failures, mut n_run, mut n_refused) = (vec![], 0, 0);
    for row in &TABLE {
        let (op, setting, expected) = row;
        let form = registry.op(op).unwrap();
        let kind = form.attrs.iter().find(|attr| attr.name == *setting).unwrap().kind.clone();
        for (dtype, v) in DType::ALL.into_iter().flat_map(|dtype| NUMBERS.map(|v| (dtype, v))) {
            let is_fit = match kind {
                AttrKind::Bound => dtype.is_float() || !v.is_nan(),
                _ => is_element(v, dtype),
            };
            let what = format!("{op}({setting}={v}) of {dtype}");
            let graph = match call(&registry, row, Literal::Float(v), dtype) {
                Ok(_) if !is_fit => {
                    failures.push(format!("{what} is taken"));
                    continue;
                }
                Ok(graph) => graph,
                Err(Some(_)) if is_fit => {
                    failures.push(format!("{what} is refused"));
                    continue;
                }
                // The setting is refused, or the type is.
                Err(_) => {
                    n_refused += 1;
                    continue;
                }
            };
            n_run += 1;
            let inputs = HashMap::from([
                ("x".to_string(), OracleTensor::new(dtype, &[4], &elements(dtype))),
                ("one".to_string(), OracleTensor::new(dtype, &[1], &[1.0])),
            ]);
            let compiled = compile(&graph, &registry, &Options::default());
            let found = run(&device, &compiled, &inputs).unwrap();
            let v = if kind == AttrKind::Bound { bound(v, dtype) } else { v };
            for (&x, &y) in elements(dtype).iter().zip(&found["y"]) {
                let wanted = expected(x, v);
                let (low, high) = range(dtype);
                // Sums wrap, which other tests cover.
                let is_beyond = !(low..=high).contains(&wanted) && op.starts_with("addc");
                let near = (y - wanted).abs() <= 1e-2 * wanted.abs() * f64::from(dtype.is_float());
                if !(y == wanted || near || is_beyond || (y.is_nan() && wanted.is_nan())) {
                    failures.push(format!("{what} makes {y} of {x}, not {wanted}"));
                }
            }
        }
    }
    assert!(failures.is_empty(), "{} failures:\n{}", failures.len(), failures.join("\n"));
    assert!(n_run > 900 && n_refused > 300, "{n_run} were run, {n_refused} refused");
}

/// A new op with such a setting must be added to the table.
#[test]
fn all_numeric_settings_are_in_the_table() {
    let registry = Engine::new().registry;
    let is_known =
        |op: &str, attr: &str| TABLE.iter().any(|(known, setting, _)| *known == op && *setting == attr);
    let settings = registry.ops().flat_map(|form| {
        let numeric =
            form.attrs.iter().filter(|attr| matches!(attr.kind, AttrKind::Element | AttrKind::Bound));
        numeric.map(|attr| (form.name.clone(), attr.name.clone())).collect::<Vec<_>>()
    });
    let missing: Vec<_> = settings.filter(|(op, attr)| !is_known(op, attr)).collect();
    assert_eq!(missing, [("arange".to_string(), "step".to_string())]);
}

#[test]
fn an_invalid_element_is_reported_at_its_place() {
    let said = |nodes: &str, params: &str| {
        let text = format!(
            "(\n params: {{{params}}},\n nodes: {{{nodes}}},\n stages: {{\"go\": Run(outputs: [\"y\"])}},\n)"
        );
        let (mut sources, mut diags) = (Sources::new(), Diagnostics::new());
        let file = sources.add("graph.ron", text);
        front::load(&mut sources, file, &mut Engine::new().registry, &[], &[], &mut diags);
        diags.render(&sources, Look::Plain)
    };
    let x = r#""x": (type: "u8[2]", state: true)"#;
    for (node, place) in [
        ("full(value=300, shape=[2], dtype=u8)", "graph.ron:3:27"),
        ("full_like(x, value=-1)", "graph.ron:3:35"),
        ("threshold(x, threshold=0.5)", "graph.ron:3:39"),
        ("clamp(x, min=nan)", "graph.ron:3:29"),
    ] {
        let said = said(&format!(r#""y": "{node}""#), x);
        assert!(said.contains("error[E0114]") && said.contains(place), "{said}");
    }
    let said = said(r#""y": "copy(x)""#, r#""x": (type: "u8[2]", init: Constant(300), state: true)"#);
    assert!(
        said.contains("error[E0114]: `300` is no element of u8") && said.contains("graph.ron:2:38"),
        "{said}"
    );
}
