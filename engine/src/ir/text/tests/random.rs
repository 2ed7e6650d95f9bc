//! Random typed graphs and their ops.

use crate::ir::*;
use crate::numerics::Precision;
use crate::op::{
    AttrKind, AttrSpec, Grad, GradCheck, InputSpec, Lower, OpForm, Registry, Role, Rounding, TypeRule,
};
use std::sync::Arc;

fn op(name: &str, n_inputs: usize, attrs: &[(&str, AttrKind, Option<Attr>)]) -> OpForm {
    let input = |i: usize| InputSpec::required(&format!("x{i}"), "an operand");
    let attr = |(name, kind, default): &(&str, AttrKind, Option<Attr>)| AttrSpec {
        name: name.to_string(),
        doc: "a setting".into(),
        kind: kind.clone(),
        default: default.clone(),
        range: None,
    };
    OpForm {
        name: name.into(),
        family: "test".into(),
        summary: "Passes its first operand through.".into(),
        inputs: (0..n_inputs).map(input).collect(),
        outputs: vec!["y".into()],
        attrs: attrs.iter().map(attr).collect(),
        types: TypeRule::custom(|inputs, _| Ok(vec![inputs[0].clone()])),
        lower: Lower::expand(|_, call| vec![call.inputs[0]]),
        grad: Grad::Derive,
        check: GradCheck::None { why: "there is nothing to compute" },
        examples: vec![],
        role: Role::Plain,
        rounding: Rounding::Never,
    }
}

/// `relu` and `dense` are plain; `tuned` has an attribute of every kind; `twist` has a foreign scalar function.
pub fn registry() -> Registry {
    let mut registry = Registry::new();
    registry.add(op("relu", 1, &[]));
    registry.add(op("dense", 2, &[("bias", AttrKind::Bool, Some(Attr::Lit(Literal::Bool(false))))]));
    let choices = AttrKind::Choice(vec!["mean".into(), "sum".into()]);
    registry.add(op(
        "tuned",
        1,
        &[
            ("alpha", AttrKind::Float, Some(Attr::Lit(Literal::Float(0.5)))),
            ("axes", AttrKind::Ints, Some(Attr::Ints(vec![]))),
            ("axis", AttrKind::Int, Some(Attr::None)),
            ("dtype", AttrKind::DType, Some(Attr::DType(DType::F32))),
            ("fill", AttrKind::Element, Some(Attr::Lit(Literal::Int(0)))),
            ("label", AttrKind::Str, Some(Attr::Str("".into()))),
            ("reduction", choices, Some(Attr::Str("mean".into()))),
            ("shape", AttrKind::Shape, None),
        ],
    ));
    let mut twist = op("twist", 1, &[]);
    twist.lower = Lower::map(1, |x| E::apply(Scalar::Foreign(twisted()), &[x[0]]));
    registry.add(twist);
    registry
}

pub fn twisted() -> Arc<Foreign> {
    Arc::new(Foreign {
        key: "test.twist@1".into(),
        arity: 1,
        f64: |x| -x[0],
        f32_slice: |x, y| y.copy_from_slice(x[0]),
        partials: |_| vec![E::lit(Literal::Float(-1.0))],
        cube: |_, x| x[0].clone(),
    })
}

/// A small generator (xorshift64*), so that the seeds determine the graph.
pub struct Random(pub u64);

impl Random {
    pub fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    pub fn below(&mut self, n: usize) -> usize {
        (self.next() >> 33) as usize % n.max(1)
    }

    fn pick<T: Copy>(&mut self, items: &[T]) -> T {
        items[self.below(items.len())]
    }
}

const ODD_NAMES: [&str; 10] =
    ["an odd name", "h/x", "true", "inf", "é", "graph", "output", "\"", "a\\", "tab\there, (a=b) # |"];
const FLOATS: [f64; 10] =
    [-0.0, 0.0, 1.0, -1.0, 0.1, 1e-7, 1.5e300, f64::NAN, f64::INFINITY, f64::NEG_INFINITY];
const INTS: [i64; 6] = [0, 1, -1, 7, i64::MAX, i64::MIN];

/// A well-typed graph. The first number of each step selects the kind of a node, which is added if operands for it
/// exist.
pub fn graph_of(steps: &[(u8, u64)]) -> Graph {
    let registry = registry();
    let mut b = Builder::new(Graph::new("random"), &registry);
    b.input("x", InputKind::Data, Type::new(DType::F32, &[2, 3]));
    for (kind, seed) in steps {
        let mut random = Random(seed | 1 << 40);
        add_node(&mut b, &mut random, *kind);
    }
    let last = Value::of(b.graph.nodes.len() - 1);
    b.graph.outputs.push(("result".into(), last));
    let mut graph = b.graph;
    let computed = graph.nodes.iter_mut().filter(|node| !matches!(node.op, NodeOp::Input(_)));
    computed.step_by(5).for_each(|node| node.no_fuse = Some("not fused".into()));
    for (id, kind) in graph.inputs().collect::<Vec<_>>() {
        if let (InputKind::Param | InputKind::State, Some(next)) = (kind, twin(&graph, id)) {
            graph.state.push(StateLink { input: id, next });
        }
    }
    graph
}

/// The last value of a node's type, except the node itself.
fn twin(graph: &Graph, id: NodeId) -> Option<Value> {
    let ty = graph.ty(Value::of(id)).clone();
    let found = (0..graph.nodes.len()).rev().map(Value::of).find(|&value| *graph.ty(value) == ty)?;
    (found.node != id).then_some(found)
}

/// A value that fits. The latest values are preferred.
fn some(b: &Builder, random: &mut Random, fits: impl Fn(&Type) -> bool) -> Option<Value> {
    let values = b
        .graph
        .nodes
        .iter()
        .enumerate()
        .flat_map(|(node, n)| (0..n.outputs.len()).map(move |port| Value { node, port }));
    let fitting: Vec<Value> = values.filter(|&value| fits(b.ty(value))).collect();
    (!fitting.is_empty()).then(|| random.pick(&fitting))
}

fn is_bound(ty: &Type) -> bool {
    ty.is_bound()
}

fn ranked(ty: &Type) -> bool {
    ty.is_bound() && (1..4).contains(&ty.rank()) && !ty.extents().contains(&0)
}

fn random_type(random: &mut Random) -> Type {
    let extents: Vec<usize> = (0..random.below(4)).map(|_| 1 + random.below(3)).collect();
    Type::new(random.pick(&DType::ALL), &extents)
}

fn random_literal(random: &mut Random, dtype: DType) -> Literal {
    match dtype {
        DType::Bool => Literal::Bool(random.below(2) == 0),
        dtype if dtype.is_float() => Literal::Float(random.pick(&FLOATS)).cast(dtype),
        _ => Literal::Int(random.pick(&INTS)).cast(dtype),
    }
}

/// Adds one node of the kind number `kind`. `None` if no operand fits.
fn add_node(b: &mut Builder, random: &mut Random, kind: u8) -> Option<()> {
    match kind % 20 {
        0 => add_input(b, random),
        1 => {
            let ty = random_type(random);
            let literal = random_literal(random, ty.dtype);
            b.push(NodeOp::Const(literal), vec![], ty);
            Some(())
        }
        2 => {
            let x = some(b, random, |_| true)?;
            b.call("relu", &[x], Attrs::default()).ok().map(|_| ())
        }
        3 => add_tuned(b, random),
        4 | 5 => add_map(b, random),
        6 | 7 => add_scalar(b, random),
        8 => {
            let ty = random_type(random).with_dtype(random.pick(&[
                DType::I32,
                DType::U8,
                DType::I64,
                DType::I8,
                DType::U16,
            ]));
            let axis = random.below(ty.rank());
            (ty.rank() > 0).then(|| b.iota(axis, ty)).map(|_| ())
        }
        9 => {
            let idx = some(b, random, |ty| ty.dtype.is_int())?;
            match random.below(4) {
                0 => b.check_index(idx, random.below(100)),
                1 => b.check(idx, Requirement::Capacity { room: random.below(100) }),
                2 => b.check(idx, Requirement::Distance),
                _ => b.binary(Binary::Rem, idx, idx),
            };
            Some(())
        }
        10 => add_reshape(b, random),
        11 => add_broadcast(b, random),
        12 => add_slice_or_pad(b, random),
        13 => add_reduce(b, random),
        14 => {
            let x = some(b, random, |ty| ranked(ty) && ty.dtype != DType::Bool)?;
            let ty = b.ty(x).clone();
            let monoid = random.pick(&[Monoid::Sum, Monoid::Prod, Monoid::Max, Monoid::Min]);
            b.push(NodeOp::Scan { monoid, axis: random.below(ty.rank()) }, vec![x], ty);
            Some(())
        }
        15 => add_gather_or_scatter(b, random),
        16 => add_matmul(b, random),
        17 => {
            b.random_bits("salt", &[1 + random.below(4)]);
            Some(())
        }
        18 => add_loop(b, random),
        _ => add_cond(b, random),
    }
}

fn add_input(b: &mut Builder, random: &mut Random) -> Option<()> {
    let n_nodes = b.graph.nodes.len();
    let odd = random.pick(&ODD_NAMES);
    let name = if b.graph.find(odd).is_none() { odd.to_owned() } else { format!("in{n_nodes}") };
    let mut ty = random_type(random);
    if random.below(3) == 0 {
        ty.shape.insert(0, Dim::Named("B".into()));
    }
    let kind = random.pick(&[InputKind::Data, InputKind::Param, InputKind::State]);
    b.input(&name, kind, ty);
    Some(())
}

fn add_tuned(b: &mut Builder, random: &mut Random) -> Option<()> {
    let x = some(b, random, |_| true)?;
    let mut attrs = Attrs::default().with("shape", Attr::Shape(b.ty(x).shape.clone()));
    for (name, value) in [
        ("alpha", Attr::Lit(Literal::Float(random.pick(&FLOATS)))),
        ("axes", Attr::Ints(vec![random.pick(&INTS); random.below(3)])),
        ("axis", random.pick(&[None, Some(-1)]).map_or(Attr::None, |axis| Attr::Lit(Literal::Int(axis)))),
        ("dtype", Attr::DType(random.pick(&DType::ALL))),
        ("fill", Attr::Lit(random_literal(random, DType::Bool))),
        ("label", Attr::Str(random.pick(&ODD_NAMES).into())),
        ("reduction", Attr::Str(random.pick(&["mean", "sum"]).into())),
    ] {
        if random.below(2) == 0 {
            attrs = attrs.with(name, value);
        }
    }
    b.call("tuned", &[x], attrs).ok().map(|_| ())
}

fn add_scalar(b: &mut Builder, random: &mut Random) -> Option<()> {
    let x = some(b, random, is_bound)?;
    let ty = b.ty(x).clone();
    let y = some(b, random, |other| *other == ty)?;
    let condition = ty.with_dtype(DType::Bool);
    let foreign = Scalar::Foreign(twisted());
    let op = match random.below(6) {
        0 => Scalar::Cast(random.pick(&DType::ALL)),
        1 if ty.dtype.is_float() => random.pick(&[&foreign, &Scalar::Unary(Unary::Exp)]).clone(),
        2 if ty.dtype != DType::Bool => Scalar::MulAdd,
        3 if some(b, random, |other| *other == condition).is_some() => Scalar::Select,
        4 if ty.dtype.is_int() => Scalar::Binary(random.pick(&[Binary::Shl, Binary::Xor, Binary::Add])),
        _ => Scalar::Binary(random.pick(&[Binary::Max, Binary::Eq, Binary::Lt])),
    };
    let inputs = match op {
        Scalar::Select => vec![some(b, random, |other| *other == condition)?, x, y],
        _ => [x, y, x][..op.arity()].to_vec(),
    };
    b.scalar(op, &inputs);
    Some(())
}

fn add_reshape(b: &mut Builder, random: &mut Random) -> Option<()> {
    let x = some(b, random, ranked)?;
    let extents = b.extents(x);
    if random.below(2) == 0 {
        b.reshape(x, &[extents.iter().product(), 1]);
    } else {
        let perm: Vec<usize> = (0..extents.len()).rev().collect();
        b.permute(x, &perm);
    }
    Some(())
}

fn add_broadcast(b: &mut Builder, random: &mut Random) -> Option<()> {
    let x = some(b, random, |ty| ty.rank() < 4)?;
    let mut shape = b.ty(x).shape.clone();
    let rank = shape.len();
    shape.insert(0, Dim::Fixed(2));
    b.broadcast_axes(x, &(1..=rank).collect::<Vec<_>>(), &shape);
    Some(())
}

fn add_slice_or_pad(b: &mut Builder, random: &mut Random) -> Option<()> {
    let x = some(b, random, ranked)?;
    let extents = b.extents(x);
    let rank = extents.len();
    match random.below(3) {
        0 => b.slice(x, &vec![0; rank], &vec![1; rank], &vec![1; rank]),
        1 => {
            let last: Vec<usize> = extents.iter().map(|n| n - 1).collect();
            b.slice(x, &last, &extents, &vec![-1; rank])
        }
        _ => {
            let fill = random_literal(random, b.dtype(x));
            b.pad(x, &vec![1; rank], &vec![random.below(3); rank], fill)
        }
    };
    Some(())
}

fn add_reduce(b: &mut Builder, random: &mut Random) -> Option<()> {
    let x = some(b, random, |ty| ranked(ty) && ty.dtype != DType::Bool)?;
    let rank = b.ty(x).rank();
    let monoid = random.pick(&Monoid::ALL);
    let first = random.below(rank);
    let all: Vec<usize> = (0..rank).collect();
    b.reduce(monoid, x, if monoid.is_index() { &all[first..=first] } else { &all[first..] });
    Some(())
}

fn add_gather_or_scatter(b: &mut Builder, random: &mut Random) -> Option<()> {
    let src = some(b, random, ranked)?;
    let idx = some(b, random, |ty| ty.is_bound() && ty.dtype.is_int() && ty.rank() < 3)?;
    let axis = random.below(b.ty(src).rank());
    let shares_first = axis > 0 && b.ty(src).shape.first() == b.ty(idx).shape.first();
    let batch = usize::from(shares_first && random.below(2) == 0);
    let read = b.gather(src, idx, axis, batch);
    if random.below(2) == 0 {
        let combine = random.pick(&[Combine::Add, Combine::Set]);
        b.scatter(src, idx, read, axis, batch, combine);
    }
    Some(())
}

fn add_matmul(b: &mut Builder, random: &mut Random) -> Option<()> {
    let x = some(b, random, |ty| ranked(ty) && ty.dtype != DType::Bool)?;
    let last = b.ty(x).rank() - 1;
    let batch = if last > 0 && random.below(2) == 0 { vec![(0, 0)] } else { vec![] };
    let precision = random.pick(&[None, Some(Precision::F32), Some(Precision::Tf32)]);
    b.matmul(x, x, MatmulSpec::new(batch, vec![(last, last)]).with_precision(precision));
    Some(())
}

fn add_loop(b: &mut Builder, random: &mut Random) -> Option<()> {
    let x = some(b, random, is_bound)?;
    let ty = b.ty(x).clone();
    let mut region = Builder::new(Graph::new("body"), b.registry());
    let carried = region.input("carried", InputKind::Data, ty.clone());
    region.input("i", InputKind::Data, Type::scalar(DType::I32));
    let next = region.call("relu", &[carried], Attrs::default()).ok()?[0];
    region.graph.outputs.push(("carried".into(), next));
    let until = random.below(2) == 0;
    let mut outputs = vec![Output { name: b.fresh_name(), ty }];
    if until {
        let ends = region.input("ends", InputKind::Data, Type::scalar(DType::Bool));
        region.graph.outputs.push(("ends".into(), ends));
        outputs.push(Output { name: b.fresh_name(), ty: Type::scalar(DType::I32) });
    }
    let region = region.graph;
    let ends = until.then(|| b.full(Literal::Bool(true), Type::scalar(DType::Bool)));
    let op = NodeOp::Loop {
        trips: random.below(5),
        n_given: usize::from(until),
        until,
        counted: random.below(2) == 0,
        reverse: random.below(2) == 0,
        keep: [Keep::All, Keep::Sqrt, Keep::Carried][random.below(3)],
    };
    b.push_node(op, [x].into_iter().chain(ends).collect(), outputs);
    b.graph.nodes.last_mut()?.regions.push(region);
    Some(())
}

fn add_cond(b: &mut Builder, random: &mut Random) -> Option<()> {
    let x = some(b, random, is_bound)?;
    let ty = b.ty(x).clone();
    let on = b.full(Literal::Bool(true), Type::scalar(DType::Bool));
    let branch = |name: &str| {
        let mut region = Graph::new(name);
        let output = Output { name: "x".into(), ty: ty.clone() };
        let op = NodeOp::Input(InputKind::Data);
        region.push(Node {
            op,
            inputs: vec![],
            outputs: vec![output],
            regions: vec![],
            span: None,
            no_fuse: None,
        });
        region.outputs.push(("x".into(), Value::of(0)));
        region
    };
    let regions = vec![branch("then"), branch("an odd else")];
    b.push(NodeOp::Cond, vec![on, x], ty);
    b.graph.nodes.last_mut()?.regions = regions;
    Some(())
}

// ---- Scalar bodies.

fn add_map(b: &mut Builder, random: &mut Random) -> Option<()> {
    let x = some(b, random, is_bound)?;
    let ty = b.ty(x).clone();
    let y = some(b, random, |other| other.shape == ty.shape)?;
    let dtypes = [ty.dtype, b.dtype(y)];
    let body = Body::new(2, |params| {
        let wanted: Vec<DType> = (0..1 + random.below(2)).map(|_| random.pick(&DType::ALL)).collect();
        wanted.into_iter().map(|dtype| formula(random, params, &dtypes, dtype, 4)).collect()
    });
    b.map_body(&[x, y], Arc::new(body));
    Some(())
}

/// A random formula of a type.
fn formula(random: &mut Random, params: &[E], dtypes: &[DType; 2], dtype: DType, depth: usize) -> E {
    let sub = |random: &mut Random, dtype| formula(random, params, dtypes, dtype, depth.saturating_sub(1));
    if depth == 0 || random.below(6) == 0 {
        return leaf(random, params, dtypes, dtype);
    }
    let op = match random.below(5) {
        0 => {
            let from = random.pick(&DType::ALL);
            return sub(random, from).cast(dtype);
        }
        1 => {
            let condition = sub(random, DType::Bool);
            return E::select(condition, sub(random, dtype), sub(random, dtype));
        }
        2 if dtype.is_float() => {
            let foreign = Scalar::Foreign(twisted());
            random.pick(&[&Scalar::MulAdd, &foreign]).clone()
        }
        3 => Scalar::Unary(random.pick(unaries(dtype))),
        _ => Scalar::Binary(random.pick(binaries(dtype))),
    };
    let operand_dtype = match &op {
        Scalar::Binary(op) if op.is_comparison() => random.pick(&DType::ALL),
        Scalar::Unary(Unary::IsNan) => DType::F32,
        _ => dtype,
    };
    let operands: Vec<E> = (0..op.arity()).map(|_| sub(random, operand_dtype)).collect();
    E::apply(op, &operands)
}

/// A constant takes the type of its use. It is converted explicitly where it could be combined with another constant.
fn leaf(random: &mut Random, params: &[E], dtypes: &[DType; 2], dtype: DType) -> E {
    match dtypes.iter().position(|known| *known == dtype) {
        Some(i) if random.below(3) > 0 => params[i],
        _ => {
            let literal = E::lit(random_literal(random, dtype));
            let by_itself = matches!(dtype, DType::F32 | DType::I32 | DType::Bool);
            if by_itself { literal } else { literal.cast(dtype) }
        }
    }
}

fn unaries(dtype: DType) -> &'static [Unary] {
    match dtype {
        DType::Bool => &[Unary::Not, Unary::IsNan],
        dtype if dtype.is_float() => &[Unary::Neg, Unary::Neg, Unary::Exp, Unary::Erf, Unary::Sqrt],
        _ => &[Unary::Neg, Unary::Not, Unary::Abs, Unary::Popcount],
    }
}

fn binaries(dtype: DType) -> &'static [Binary] {
    match dtype {
        DType::Bool => &[Binary::And, Binary::Or, Binary::Xor, Binary::Eq, Binary::Lt, Binary::Ge],
        dtype if dtype.is_float() => {
            &[Binary::Add, Binary::Sub, Binary::Mul, Binary::Div, Binary::Rem, Binary::Pow, Binary::Min]
        }
        _ => &[Binary::Add, Binary::Sub, Binary::Shl, Binary::Shr, Binary::And, Binary::Or, Binary::Rem],
    }
}
