//! From clusters to kernels.

use super::attention;
use super::body::BodyBuilder;
use super::edges::{RealGraph, contract_extents};
use super::groups::{FusionGroups, Kind, Place, row_domain};
use super::order::GroupOrder;
use super::scatter;
use super::{
    Access, Class, Domain, FusedBody, FusedOp, Kernel, KernelBody, MatmulBody, MatrixOperand, OpaqueBody,
    Operand, RowConsumer, RowsBody, Segment, Settings, SideSum, Use,
};
use crate::ir::{Contract, Graph, Literal, NodeId, NodeOp, Symbol, Value};
use crate::op::KernelCall;
use indexmap::IndexMap;
use std::collections::{HashMap, HashSet};

/// One kernel per cluster, in an order that respects dependencies. Maps that differ only in their tensors become one
/// segmented map if the settings say so.
pub fn kernels(real: &RealGraph, clusters: &FusionGroups, settings: &Settings) -> Vec<Kernel> {
    let ids: Vec<usize> =
        (0..clusters.clusters.len()).filter(|&id| !clusters.clusters[id].members.is_empty()).collect();
    let built = ids.iter().map(|&id| build(real, clusters, id, settings));
    // Whoever needs what a kernel computes may compute it once more: then it writes nothing.
    let built: Vec<Kernel> = built.filter(|kernel| uses(kernel, Use::Write).next().is_some()).collect();
    let kernels = if settings.runs("segments") { segmented(real, built) } else { built };
    let mut kernels = ordered(kernels);
    name_kernels(real, &mut kernels);
    kernels
}

fn uses(kernel: &Kernel, usage: Use) -> impl Iterator<Item = &Operand> {
    kernel.operands.iter().filter(move |operand| operand.usage == usage)
}

fn build(real: &RealGraph, clusters: &FusionGroups, id: usize, settings: &Settings) -> Kernel {
    let cluster = &clusters.clusters[id];
    let inside: HashSet<NodeId> = cluster.members.iter().map(|&(node, _)| node).collect();
    let anchor = match cluster.kind {
        Kind::Contract(anchor, _) => Some(anchor),
        _ => None,
    };
    let (body, operands) = match cluster.kind {
        Kind::Alone => scan(real, cluster.members[0].0),
        Kind::Scatter(node) => {
            let borrowed = clusters.borrowed.get(&id).into_iter().flatten();
            let computed = inside.iter().chain(borrowed).copied().collect();
            scatter::build(real, &computed, node, settings.deterministic)
        }
        Kind::Opaque => opaque(real, cluster.members[0].0),
        Kind::Map(n) => {
            let (tile, operands) = tile(real, clusters, id, &inside, anchor, map_domain(real, &inside, n));
            (tile_body(tile), operands)
        }
        Kind::Row(domain) => {
            let (tile, operands) = tile(real, clusters, id, &inside, anchor, domain);
            (KernelBody::Row(tile), operands)
        }
        Kind::Contract(node, domain) => contract(real, clusters, id, &inside, node, domain),
        Kind::Attention(number) => attention::build(real, clusters, &clusters.attentions[number]),
    };
    finish(real, body, operands, cluster.members.iter().map(|&(node, _)| node).collect())
}

/// A map whose indices are the same along trailing axes computes them once per row.
fn tile_body(tile: FusedBody) -> KernelBody {
    let by_row = tile.insts.iter().any(|inst| inst.class == Class::Row);
    if by_row {
        return KernelBody::Row(tile);
    }
    let domain = Domain { outer: 1, row: tile.domain.points(Class::Element), inner: 1 };
    KernelBody::Map(FusedBody { domain, ..tile })
}

fn map_domain(real: &RealGraph, inside: &HashSet<NodeId>, n: usize) -> Domain {
    let mut stack: Vec<NodeId> = inside.iter().copied().collect();
    stack.sort_unstable();
    let mut row = None;
    while let Some(node) = stack.pop() {
        let graph = real.graph;
        if let NodeOp::Gather { axis, .. } = graph.nodes[node].op {
            let source = graph.ty(graph.nodes[node].inputs[0]).extents();
            let trailing: usize = source[axis + 1..].iter().product();
            if trailing > 1 && n.is_multiple_of(trailing) && graph.ty(Value::of(node)).numel() == n {
                row = row.max(Some(trailing));
            }
        }
        let inputs = graph.nodes[node].inputs.iter().map(|input| input.node);
        stack.extend(inputs.filter(|&input| !real.real[input] && !real.is_input(input)));
    }
    let row = row.unwrap_or(n);
    Domain { outer: n.checked_div(row).unwrap_or(1), row, inner: 1 }
}

fn tile(
    real: &RealGraph,
    clusters: &FusionGroups,
    id: usize,
    inside: &HashSet<NodeId>,
    anchor: Option<NodeId>,
    domain: Domain,
) -> (FusedBody, Vec<Operand>) {
    let mut builder = BodyBuilder::new(real, inside, anchor, domain);
    let stores = stores(&mut builder, clusters, id, inside);
    builder.finish(stores)
}

fn stores(
    builder: &mut BodyBuilder,
    clusters: &FusionGroups,
    id: usize,
    inside: &HashSet<NodeId>,
) -> Vec<(Value, usize, Access, Class)> {
    let members = clusters.clusters[id].members.iter();
    let written = members.filter(|&&(node, place)| {
        !matches!(place, Place::Side | Place::Fold) && clusters.is_written(node, inside)
    });
    let written: Vec<(NodeId, Place)> = written.copied().collect();
    let mut stores = vec![];
    for (node, place) in written {
        let class = if place == Place::Row { Class::Row } else { Class::Element };
        let (reg, access) = builder.store(Value::of(node), class);
        stores.push((Value::of(node), reg, access, class));
    }
    stores
}

fn contract(
    real: &RealGraph,
    clusters: &FusionGroups,
    id: usize,
    inside: &HashSet<NodeId>,
    anchor: NodeId,
    domain: Domain,
) -> (KernelBody, Vec<Operand>) {
    let graph = real.graph;
    let NodeOp::Contract(spec) = &graph.nodes[anchor].op else { crate::bug!("anchor of a contraction") };
    let (batch, m, n, k) = contract_extents(graph, anchor, spec);
    let mut builder = BodyBuilder::new(real, inside, Some(anchor), domain);
    let lhs = matrix(real, &mut builder, anchor, spec, 0);
    let rhs = matrix(real, &mut builder, anchor, spec, 1);
    let members = &clusters.clusters[id].members;
    let folded = members.iter().find(|member| member.1 == Place::Fold).map(|member| member.0);
    if let Some(node) = folded {
        builder.fold(graph.nodes[node].inputs[0]);
    }
    let stores = stores(&mut builder, clusters, id, inside);
    let (epilogue, mut operands) = builder.finish(stores);
    let rows = folded.map(|node| Box::new(rows_body(graph, node, [batch, m, n], &mut operands)));
    let mut side_sums = vec![];
    for &(node, place) in &clusters.clusters[id].members {
        if place == Place::Side {
            let side =
                clusters.side_of(anchor, node).unwrap_or_else(|| crate::bug!("side sum without a side"));
            side_sums.push(SideSum { side, operand: operands.len() });
            let value = Value::of(node);
            operands.push(Operand { value, ty: graph.ty(value).clone(), usage: Use::Write });
        }
    }
    let dtype = graph.ty(graph.nodes[anchor].inputs[0]).dtype;
    let body = MatmulBody { batch, m, n, k, lhs, rhs, dtype, epilogue, side_sums, rows };
    (KernelBody::Matmul(body), operands)
}

/// What folds the rows of a contraction; its results become operands.
fn rows_body(graph: &Graph, node: NodeId, shape: [usize; 3], operands: &mut Vec<Operand>) -> RowsBody {
    let consumer = RowConsumer::of(graph, node)
        .unwrap_or_else(|| crate::bug!("{:?} folds no rows", graph.nodes[node].op));
    let first = operands.len();
    operands.extend((0..graph.nodes[node].outputs.len()).map(|port| {
        let value = Value { node, port };
        Operand { value, ty: graph.ty(value).clone(), usage: Use::Write }
    }));
    RowsBody::new(consumer, (first..operands.len()).collect(), shape)
}

/// An operand in canonical form. Contractions are canonical by now: at most one axis of each role, or axes that run on
/// from each other.
fn matrix(
    real: &RealGraph,
    builder: &mut BodyBuilder,
    node: NodeId,
    spec: &Contract,
    side: usize,
) -> MatrixOperand {
    let value = real.graph.nodes[node].inputs[side];
    let (buffer, window) = real
        .strided(value)
        .unwrap_or_else(|| crate::bug!("operand of `{}` is not strided", real.graph.nodes[node].name()));
    let level = &window.levels[0];
    let rank = real.graph.ty(value).rank();
    let pick = |pairs: &[(usize, usize)]| -> Vec<usize> {
        pairs.iter().map(|&(l, r)| if side == 0 { l } else { r }).collect()
    };
    let free = if side == 0 { spec.lhs_free(rank) } else { spec.rhs_free(rank) };
    let stride = |axes: &[usize]| joint_stride(axes.iter().map(|&axis| level.axes[axis]));
    let (free, contracted) = (stride(&free), stride(&pick(&spec.contracted)));
    let (row, col) = if side == 0 { (free, contracted) } else { (contracted, free) };
    let operand = builder.read(buffer);
    MatrixOperand { operand, offset: level.offset, batch: stride(&pick(&spec.batch)), row, col }
}

fn joint_stride(axes: impl Iterator<Item = super::Axis>) -> i64 {
    axes.filter(|axis| axis.extent != 1).last().map_or(0, |axis| axis.stride)
}

fn scan(real: &RealGraph, node: NodeId) -> (KernelBody, Vec<Operand>) {
    let graph = real.graph;
    let NodeOp::Scan { monoid, axis } = graph.nodes[node].op else {
        crate::bug!("{:?} does not stand alone", graph.nodes[node].op)
    };
    let operand = |value: Value, usage: Use| Operand { value, ty: graph.ty(value).clone(), usage };
    let operands =
        vec![operand(graph.nodes[node].inputs[0], Use::Read), operand(Value::of(node), Use::Write)];
    let domain = row_domain(&operands[0].ty.extents(), &[axis]);
    (KernelBody::Scan { monoid, domain }, operands)
}

fn opaque(real: &RealGraph, node: NodeId) -> (KernelBody, Vec<Operand>) {
    let graph = real.graph;
    let NodeOp::Call(call) = &graph.nodes[node].op else { crate::bug!("an opaque kernel of no call") };
    let read = |&value: &Value| {
        let value = real.dense(value).unwrap_or_else(|| crate::bug!("operand of `{}`", call.form.name));
        Operand { value, ty: graph.ty(value).clone(), usage: Use::Read }
    };
    let write = |port: usize| {
        let value = Value { node, port };
        Operand { value, ty: graph.ty(value).clone(), usage: Use::Write }
    };
    let node = &graph.nodes[node];
    let operands = node.inputs.iter().map(read).chain((0..node.outputs.len()).map(write)).collect();
    (KernelBody::Opaque(OpaqueBody::new(KernelCall::new(graph, node, call))), operands)
}

// ---- Figures.

fn finish(real: &RealGraph, body: KernelBody, operands: Vec<Operand>, nodes: Vec<NodeId>) -> Kernel {
    let written =
        operands.iter().filter(|operand| operand.usage == Use::Write).map(|o| o.ty.bytes() as u64).sum();
    let read = (0..operands.len()).filter(|&i| operands[i].usage == Use::Read);
    let bytes_read = read.map(|i| reached(&body, &operands, i)).sum();
    let flops = flops(&body);
    let ops = nodes.iter().map(|&node| op_name(&real.graph.nodes[node].op)).collect();
    Kernel { name: String::new(), body, operands, nodes, ops, bytes_read, bytes_written: written, flops }
}

/// Bytes of an operand that are reached at all.
fn reached(body: &KernelBody, operands: &[Operand], operand: usize) -> u64 {
    let ty = &operands[operand].ty;
    let tiles = match body {
        KernelBody::Map(tile) | KernelBody::Row(tile) => vec![tile],
        KernelBody::Matmul(body) if [body.lhs.operand, body.rhs.operand].contains(&operand) => {
            return ty.bytes() as u64;
        }
        KernelBody::Matmul(body) => vec![&body.epilogue],
        KernelBody::Attention(body) => body.tiles().to_vec(),
        KernelBody::Scatter(body) => vec![&body.base, &body.updates],
        _ => return ty.bytes() as u64,
    };
    let loaded: usize = tiles.into_iter().map(|tile| loaded(tile, operand)).sum();
    (loaded.min(ty.numel()) * ty.dtype.size()) as u64
}

/// Elements of an operand that a tile loads.
fn loaded(tile: &FusedBody, operand: usize) -> usize {
    let loads = tile.insts.iter().filter_map(|inst| match &inst.op {
        FusedOp::Load { operand: o, access, index } if *o == operand => Some(match index {
            Some(_) => tile.domain.points(inst.class),
            None => distinct(access),
        }),
        _ => None,
    });
    loads.sum()
}

fn distinct(access: &Access) -> usize {
    let axes = access.levels.iter().map(|level| {
        level.axes.iter().filter(|axis| axis.stride != 0).map(|axis| axis.extent).product::<usize>()
    });
    axes.min().unwrap_or(1)
}

fn flops(body: &KernelBody) -> u64 {
    let of_tile = |tile: &FusedBody| -> u64 {
        let counted = tile.insts.iter().filter(|inst| {
            matches!(inst.op, FusedOp::Scalar(..) | FusedOp::Reduce { .. }) && (inst.dtype.is_float())
        });
        counted
            .map(|inst| match inst.op {
                FusedOp::Reduce { .. } => tile.domain.points(Class::Element) as u64,
                _ => tile.domain.points(inst.class) as u64,
            })
            .sum()
    };
    match body {
        KernelBody::Map(tile) | KernelBody::Row(tile) => of_tile(tile),
        KernelBody::Segmented { tile, segments } => {
            let points: u64 = segments.iter().map(|segment| segment.points as u64).sum();
            let per_point =
                of_tile(&FusedBody { domain: Domain { outer: 1, row: 1, inner: 1 }, ..tile.clone() });
            per_point * points
        }
        KernelBody::Matmul(c) => 2 * (c.batch * c.m * c.n * c.k) as u64 + of_tile(&c.epilogue),
        KernelBody::Attention(a) => {
            let products = 2 * (a.batch * a.m * a.n * (a.k + a.width)) as u64;
            products + a.tiles().into_iter().map(of_tile).sum::<u64>()
        }
        KernelBody::Scatter(s) => {
            s.updates.domain.points(Class::Element) as u64 + of_tile(&s.base) + of_tile(&s.updates)
        }
        KernelBody::Scan { domain, .. } => domain.points(Class::Element) as u64,
        // What an opaque op does inside is its own business, and mostly comparisons.
        KernelBody::Opaque(_) => 0,
    }
}

/// What people call a primitive.
pub fn op_name(op: &NodeOp) -> String {
    match op {
        NodeOp::Input(_) => "input".into(),
        NodeOp::Const(_) => "fill".into(),
        NodeOp::Call(call) => call.form.name.clone(),
        NodeOp::Map(_) => "map".into(),
        NodeOp::Scalar(scalar) => scalar.name().into(),
        NodeOp::Iota { .. } => "iota".into(),
        NodeOp::Check(_) => "check".into(),
        NodeOp::View(_) => "copy".into(),
        NodeOp::Reduce { monoid, .. } => format!("reduce_{}", monoid.name()),
        NodeOp::Scan { monoid, .. } => format!("scan_{}", monoid.name()),
        NodeOp::Gather { .. } => "gather".into(),
        NodeOp::Scatter { .. } => "scatter".into(),
        NodeOp::Contract(_) => "gemm".into(),
        NodeOp::Random { .. } => "random".into(),
        NodeOp::Loop { .. } => "loop".into(),
        NodeOp::Cond => "cond".into(),
    }
}

// ---- Segmented maps.

/// What maps of one group have in common: the tile without its extents and constants.
#[derive(PartialEq, Eq, Hash)]
struct Shape {
    apart: Option<Symbol>,
    insts: Vec<String>,
    operands: Vec<(String, Use)>,
}

fn segmented(real: &RealGraph, kernels: Vec<Kernel>) -> Vec<Kernel> {
    let mut order = GroupOrder::new(successors(&kernels));
    // By shape: the first kernel of each group. Each of them needs the one before or is needed by it, or they would be
    // one group.
    let mut chains: HashMap<Shape, Vec<usize>> = HashMap::new();
    for (id, kernel) in kernels.iter().enumerate() {
        let Some(shape) = shape(real, kernel) else { continue };
        let chain = chains.entry(shape).or_default();
        let start = chain.partition_point(|&head| order.leads(head, id));
        let end = start + chain[start..].partition_point(|&head| !order.leads(id, head));
        match chain[start..end].iter().min() {
            Some(&head) => order.merge(&[head, id], head),
            None => chain.insert(start, id),
        }
    }
    let mut groups: IndexMap<usize, Vec<Kernel>> = IndexMap::new();
    for (&group, kernel) in order.groups().iter().zip(kernels) {
        groups.entry(group).or_default().push(kernel);
    }
    let join = |mut members: Vec<Kernel>| {
        if members.len() == 1 { members.remove(0) } else { join_segments(members) }
    };
    groups.into_values().map(join).collect()
}

/// The shape of a map whose points read and write only their own elements; nothing else can be segmented.
fn shape(real: &RealGraph, kernel: &Kernel) -> Option<Shape> {
    let KernelBody::Map(tile) = &kernel.body else { return None };
    let n_points = tile.domain.points(Class::Element);
    let mut insts = vec![];
    for inst in &tile.insts {
        let plain = |access: &Access, class: Class| match class {
            Class::Element => access.is_identity(n_points),
            _ => access.is_uniform(),
        };
        let op = match &inst.op {
            FusedOp::Load { operand, access, index: None } if plain(access, inst.class) => {
                format!("load {operand}")
            }
            FusedOp::Store { operand, access, value } if plain(access, inst.class) => {
                format!("store {operand} {value}")
            }
            FusedOp::Const(_) => "const".to_string(),
            FusedOp::Scalar(op, args) => format!("{op:?} {args:?}"),
            _ => return None,
        };
        insts.push(format!("{op} {} {:?}", inst.dtype, inst.class));
    }
    let slot = |operand: &Operand| {
        (format!("{} {}", operand.ty.dtype, operand.ty.numel() == n_points), operand.usage)
    };
    let apart = real.graph.nodes[kernel.nodes[0]].apart.clone();
    Some(Shape { apart, insts, operands: kernel.operands.iter().map(slot).collect() })
}

fn join_segments(members: Vec<Kernel>) -> Kernel {
    let mut operands: Vec<Operand> = vec![];
    let mut segments = vec![];
    for kernel in &members {
        let KernelBody::Map(tile) = &kernel.body else { crate::bug!("only maps are segmented") };
        let slots = kernel.operands.iter().map(|operand| {
            operands.iter().position(|known| known == operand).unwrap_or_else(|| {
                operands.push(operand.clone());
                operands.len() - 1
            })
        });
        let slots = slots.collect();
        segments.push(Segment {
            operands: slots,
            points: tile.domain.points(Class::Element),
            constants: constants(tile),
        });
    }
    reads_first(&mut operands, &mut segments);
    let KernelBody::Map(tile) = &members[0].body else { crate::bug!("only maps are segmented") };
    let longest = segments.iter().map(|segment| segment.points).max().unwrap_or(0);
    let tile = FusedBody { domain: Domain { outer: 1, row: longest, inner: 1 }, insts: tile.insts.clone() };
    let tile = unstrided(tile);
    let mut nodes: Vec<NodeId> = members.iter().flat_map(|kernel| kernel.nodes.clone()).collect();
    nodes.sort_unstable();
    let bytes = |operand: &Operand| operand.ty.bytes() as u64;
    let sum = |usage: Use| operands.iter().filter(|operand| operand.usage == usage).map(bytes).sum();
    Kernel {
        name: String::new(),
        bytes_read: sum(Use::Read),
        bytes_written: sum(Use::Write),
        flops: members.iter().map(|kernel| kernel.flops).sum(),
        ops: members[0].ops.clone(),
        nodes,
        body: KernelBody::Segmented { tile, segments },
        operands,
    }
}

/// Identity accesses span the longest segment, so that the tile does not depend on which came first.
fn unstrided(mut tile: FusedBody) -> FusedBody {
    let n_points = tile.domain.row;
    for inst in &mut tile.insts {
        if let (FusedOp::Load { access, .. } | FusedOp::Store { access, .. }, Class::Element) =
            (&mut inst.op, inst.class)
        {
            *access = Access::strided(&[n_points], &[1]);
        }
    }
    tile
}

fn constants(tile: &FusedBody) -> Vec<Literal> {
    let literal = |inst: &super::FusedInst| match inst.op {
        FusedOp::Const(literal) => Some(literal),
        _ => None,
    };
    tile.insts.iter().filter_map(literal).collect()
}

fn reads_first(operands: &mut Vec<Operand>, segments: &mut [Segment]) {
    let mut order: Vec<usize> = (0..operands.len()).collect();
    order.sort_by_key(|&i| operands[i].usage == Use::Write);
    let mut renamed = vec![0; operands.len()];
    for (new, &old) in order.iter().enumerate() {
        renamed[old] = new;
    }
    *operands = order.iter().map(|&old| operands[old].clone()).collect();
    for segment in segments {
        segment.operands.iter_mut().for_each(|slot| *slot = renamed[*slot]);
    }
}

// ---- Order and names.

fn successors(kernels: &[Kernel]) -> Vec<Vec<usize>> {
    let mut writer = IndexMap::new();
    for (id, kernel) in kernels.iter().enumerate() {
        for operand in kernel.operands.iter().filter(|operand| operand.usage == Use::Write) {
            writer.insert(operand.value, id);
        }
    }
    let mut successors: Vec<Vec<usize>> = vec![vec![]; kernels.len()];
    for (id, kernel) in kernels.iter().enumerate() {
        for operand in kernel.operands.iter().filter(|operand| operand.usage == Use::Read) {
            if let Some(&from) = writer.get(&operand.value) {
                successors[from].push(id);
            }
        }
    }
    successors
}

/// Kernels in dependency order; among those that are ready the one whose first node comes first.
fn ordered(kernels: Vec<Kernel>) -> Vec<Kernel> {
    let successors = successors(&kernels);
    let mut waiting = vec![0; kernels.len()];
    successors.iter().flatten().for_each(|&next| waiting[next] += 1);
    let key = |id: usize| (kernels[id].nodes[0], id);
    let mut ready: std::collections::BTreeSet<(NodeId, usize)> =
        (0..kernels.len()).filter(|&id| waiting[id] == 0).map(key).collect();
    let mut order = vec![];
    while let Some((_, id)) = ready.pop_first() {
        order.push(id);
        for &next in &successors[id] {
            waiting[next] -= 1;
            if waiting[next] == 0 {
                ready.insert(key(next));
            }
        }
    }
    assert_eq!(order.len(), kernels.len(), "bug in the engine: kernels depend on each other in a circle");
    let mut kernels: Vec<Option<Kernel>> = kernels.into_iter().map(Some).collect();
    order.into_iter().filter_map(|id| kernels[id].take()).collect()
}

fn name_kernels(real: &RealGraph, kernels: &mut [Kernel]) {
    let mut taken: HashSet<String> = HashSet::new();
    for kernel in kernels {
        let written = kernel.operands.iter().filter(|operand| operand.usage == Use::Write);
        let names: Vec<Symbol> = written.map(|operand| real.graph.name_of(operand.value).clone()).collect();
        // A name that a user gave says more than a derived one.
        let best =
            names.iter().min_by_key(|name| (name.contains('.'), name.len())).map_or("kernel", |name| name);
        let mut name = best.to_string();
        let mut n = 2;
        while !taken.insert(name.clone()) {
            name = format!("{best}#{n}");
            n += 1;
        }
        kernel.name = name;
    }
}
