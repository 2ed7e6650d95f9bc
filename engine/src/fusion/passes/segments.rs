//! Segments: maps that differ only in their tensors become one kernel.

use super::pass::{Example, FusionPass};
use crate::fusion::access::Access;
use crate::fusion::build::figures::{bytes_read, bytes_written};
use crate::fusion::build::sequence::readers;
use crate::fusion::domain::{Class, Domain};
use crate::fusion::graph::FusionGraph;
use crate::fusion::kernel::body::{FusedBody, FusedInst, FusedOp};
use crate::fusion::kernel::operand::{Operand, Use};
use crate::fusion::kernel::segmented::{Segment, SegmentedBody};
use crate::fusion::kernel::{Kernel, KernelBody};
use crate::fusion::order::GroupOrder;
use crate::fusion::settings::Settings;
use crate::ir::{Literal, NodeId, Symbol};
use indexmap::IndexMap;
use std::collections::HashMap;

/// The pass `segments`.
pub struct Segments;

impl FusionPass for Segments {
    fn name(&self) -> &'static str {
        "segments"
    }

    fn about(&self) -> &'static str {
        "Joins maps that differ only in their tensors, such as the updates of all parameters, into one segmented map."
    }

    fn example(&self) -> Example {
        Example {
            graph: "graph updates {
                input x: f32[300, 300]
                input y: f32[200, 300]
                a: f32[300, 300] = .exp(x)
                b: f32[200, 300] = .exp(y)
                output a = a
                output b = b
            }",
            with: "segmented map: x y -> a b",
            without: "map: x -> a\nmap: y -> b",
        }
    }

    fn join_kernels(&self, graph: &FusionGraph, _: &Settings, kernels: Vec<Kernel>) -> Vec<Kernel> {
        let mut order = GroupOrder::new(readers(&kernels));
        // By shape: the first kernel of each segmented map. A path connects each of them with the next, or they would be
        // one segmented map.
        let mut chains: HashMap<Shape, Vec<usize>> = HashMap::new();
        for (id, kernel) in kernels.iter().enumerate() {
            let Some(shape) = shape(graph, kernel) else { continue };
            let chain = chains.entry(shape).or_default();
            let start = chain.partition_point(|&head| order.leads(head, id));
            let end = start + chain[start..].partition_point(|&head| !order.leads(id, head));
            match chain[start..end].iter().min() {
                Some(&head) => order.merge(&[head, id], head),
                None => chain.insert(start, id),
            }
        }
        let mut joined: IndexMap<usize, Vec<Kernel>> = IndexMap::new();
        for (&group, kernel) in order.groups().iter().zip(kernels) {
            joined.entry(group).or_default().push(kernel);
        }
        let join = |mut members: Vec<Kernel>| {
            if members.len() == 1 { members.remove(0) } else { join_segments(members) }
        };
        joined.into_values().map(join).collect()
    }
}

/// The common part of the maps of one segmented map: the body without its extents and constants.
#[derive(PartialEq, Eq, Hash)]
struct Shape {
    no_fuse: Option<Symbol>,
    insts: Vec<String>,
    operands: Vec<(String, Use)>,
}

/// The shape of a map whose points read and write only their own elements; nothing else can be segmented.
fn shape(graph: &FusionGraph, kernel: &Kernel) -> Option<Shape> {
    let KernelBody::Map(body) = &kernel.body else { return None };
    let n_points = body.domain.points(Class::Element);
    let mut insts = vec![];
    for inst in &body.insts {
        let plain = |access: &Access, class: Class| match class {
            Class::Element => access.is_identity(n_points),
            _ => access.is_uniform(),
        };
        let op = match &inst.op {
            FusedOp::Load { operand, access, index: None } if plain(access, inst.class) => {
                format!("load {operand}")
            }
            FusedOp::Store { operand, access, value, index: None } if plain(access, inst.class) => {
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
    let no_fuse = graph.ir.nodes[kernel.nodes[0]].no_fuse.clone();
    Some(Shape { no_fuse, insts, operands: kernel.operands.iter().map(slot).collect() })
}

fn join_segments(members: Vec<Kernel>) -> Kernel {
    let mut operands: Vec<Operand> = vec![];
    let mut slot = |operand: &Operand| {
        operands.iter().position(|known| known == operand).unwrap_or_else(|| {
            operands.push(operand.clone());
            operands.len() - 1
        })
    };
    let segment = |kernel: &Kernel| {
        let body = map_body(kernel);
        let operands = kernel.operands.iter().map(&mut slot).collect();
        Segment { operands, points: body.domain.points(Class::Element), constants: constants(body) }
    };
    let mut segments: Vec<Segment> = members.iter().map(segment).collect();
    reads_first(&mut operands, &mut segments);
    let longest = segments.iter().map(|segment| segment.points).max().unwrap_or(0);
    let body = unstrided(FusedBody { domain: Domain::flat(longest), ..map_body(&members[0]).clone() });
    let mut nodes: Vec<NodeId> = members.iter().flat_map(|kernel| kernel.nodes.clone()).collect();
    nodes.sort_unstable();
    let body = KernelBody::Segmented(SegmentedBody { body, segments });
    Kernel {
        name: String::new(),
        bytes_read: bytes_read(&body, &operands),
        bytes_written: bytes_written(&body, &operands),
        flops: members.iter().map(|kernel| kernel.flops).sum(),
        ops: members[0].ops.clone(),
        nodes,
        body,
        operands,
    }
}

fn map_body(kernel: &Kernel) -> &FusedBody {
    match &kernel.body {
        KernelBody::Map(body) => body,
        _ => crate::bug!("only maps are segmented"),
    }
}

/// Identity accesses span the longest segment, so that the body does not depend on their order.
fn unstrided(mut body: FusedBody) -> FusedBody {
    let n_points = body.domain.row;
    for inst in &mut body.insts {
        if let (FusedOp::Load { access, .. } | FusedOp::Store { access, .. }, Class::Element) =
            (&mut inst.op, inst.class)
        {
            *access = Access::strided(&[n_points], &[1]);
        }
    }
    body
}

fn constants(body: &FusedBody) -> Vec<Literal> {
    let literal = |inst: &FusedInst| match inst.op {
        FusedOp::Const(literal) => Some(literal),
        _ => None,
    };
    body.insts.iter().filter_map(literal).collect()
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
