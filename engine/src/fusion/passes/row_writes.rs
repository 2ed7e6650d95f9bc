//! Row writes: the kernel that computes or reads a row also writes it into a state.

use super::pass::{Example, FusionPass};
use crate::fusion::access::Access;
use crate::fusion::build::figures::{bytes_read, bytes_written, flops};
use crate::fusion::build::names::op_name;
use crate::fusion::build::sequence::readers;
use crate::fusion::domain::Class;
use crate::fusion::graph::FusionGraph;
use crate::fusion::kernel::body::{FusedBody, FusedInst, FusedOp, Reg};
use crate::fusion::kernel::operand::{Operand, Use};
use crate::fusion::kernel::scatter::ScatterBody;
use crate::fusion::kernel::{Kernel, KernelBody, checkers};
use crate::fusion::order::GroupOrder;
use crate::fusion::settings::Settings;
use crate::ir::{Combine, Graph, Value};

/// The pass `row-writes`.
pub struct RowWrites;

impl FusionPass for RowWrites {
    fn name(&self) -> &'static str {
        "row-writes"
    }

    fn about(&self) -> &'static str {
        "Lets the kernel that computes or reads a row also write it into a state, such as the stack of a loop."
    }

    fn example(&self) -> Example {
        Example {
            graph: "graph trip {
                state stack: f32[500, 64]
                input x: f32[64]
                input i: i32[]
                y: f32[64] = .tanh(x)
                next: f32[500, 64] = .scatter_set(stack, i, y, axis=0)
                output y = y
                state stack = next
            }",
            with: "map: x i -> y next",
            without: "map: x -> y\nscatter: i y stack -> next",
        }
    }

    fn join_kernels(&self, graph: &FusionGraph, settings: &Settings, kernels: Vec<Kernel>) -> Vec<Kernel> {
        // A failed check leaves states as they were, so kernels that check come before writes. A write is right in place
        // only, which is certain if no kernel that checks needs one that writes.
        let mut order = GroupOrder::new(readers(&kernels));
        let checkers = checkers(&kernels);
        let is_before_check =
            |order: &GroupOrder, id: usize| checkers.iter().any(|&to| id == to || order.leads(id, to));
        let mut writers = (0..kernels.len()).filter(|&id| writes_state(graph.ir, &kernels[id]));
        let is_checked_late = writers.any(|id| is_before_check(&order, id));
        if is_checked_late || kernels.iter().any(|kernel| has_checked_loop(graph.ir, kernel)) {
            return kernels;
        }
        let mut kernels: Vec<Option<Kernel>> = kernels.into_iter().map(Some).collect();
        for id in 0..kernels.len() {
            let Some(write) = RowWrite::of(graph, settings, &kernels, id) else { continue };
            let is_host = |&host: &usize| {
                let waits = !checkers.is_empty() && kernels[host].as_ref().is_some_and(must_not_wait);
                !waits && !is_before_check(&order, host) && !order.surrounds(&[host, id])
            };
            let found = write.hosts(&kernels).into_iter().filter(is_host);
            let joined = found.into_iter().find_map(|host| Some((host, write.joined(&kernels, host)?)));
            if let Some((host, joined)) = joined {
                order.merge(&[host, id], host);
                kernels[host] = Some(joined);
                kernels[id] = None;
            }
        }
        kernels.into_iter().flatten().collect()
    }
}

/// Whether a kernel should not wait for checks: its own would come too late, and products would miss the library.
fn must_not_wait(kernel: &Kernel) -> bool {
    kernel.has_checks() || matches!(kernel.body, KernelBody::Matmul(_))
}

/// Whether a kernel is a loop whose trips check anything.
fn has_checked_loop(graph: &Graph, kernel: &Kernel) -> bool {
    let regions = |node: usize| graph.nodes[node].regions.iter();
    kernel.nodes.iter().any(|&node| regions(node).any(Graph::has_checks))
}

/// Whether a kernel computes what a state becomes.
fn writes_state(graph: &Graph, kernel: &Kernel) -> bool {
    let is_next = |value: Value| graph.state.iter().any(|link| link.next == value);
    kernel.uses(Use::Write).any(|operand| is_next(operand.value))
}

/// A scatter that sets one row of a state.
struct RowWrite<'k, 'g> {
    graph: &'k FusionGraph<'g>,
    settings: &'k Settings,
    /// The number of the kernel.
    id: usize,
    kernel: &'k Kernel,
    body: &'k ScatterBody,
    /// The tensor whose elements are the row.
    row: Value,
    n_points: usize,
}

impl<'k, 'g> RowWrite<'k, 'g> {
    /// The write of a kernel, if it is one and the plan will let it work in place: nothing else reads the state.
    fn of(
        graph: &'k FusionGraph<'g>,
        settings: &'k Settings,
        kernels: &'k [Option<Kernel>],
        id: usize,
    ) -> Option<RowWrite<'k, 'g>> {
        let kernel = kernels[id].as_ref()?;
        let KernelBody::Scatter(body) = &kernel.body else { return None };
        let [n_batch, n_before, _, n_indices, n_after] = body.extents;
        let n_points = n_before * n_after;
        let (base, result) = (kernel.operands[body.copied_base()?].value, &kernel.operands[body.result]);
        let links: Vec<_> = graph.ir.state.iter().filter(|link| link.next == result.value).collect();
        let is_next = links.len() == 1 && Value::of(links[0].input) == base;
        let is_read = |kernel: &Kernel| kernel.uses(Use::Read).any(|operand| operand.value == base);
        let is_alone = kernels.iter().flatten().filter(|kernel| is_read(kernel)).count() == 1;
        let insts = body.updates.insts.iter().enumerate();
        let is_uniform = insts.clone().all(|(reg, inst)| reg == body.update || inst.class == Class::Uniform);
        let row = match &body.updates.insts[body.update].op {
            FusedOp::Load { operand, access, index: None } if access.is_identity(n_points) => *operand,
            _ => return None,
        };
        let is_plain = body.combine == Combine::Set && n_batch == 1 && n_indices == 1 && n_points > 0;
        let is_wide = !settings.packs(result.ty.dtype) && kernel.operands[row].ty.dtype == result.ty.dtype;
        (is_next && is_alone && is_uniform && is_plain && is_wide).then(|| {
            let row = kernel.operands[row].value;
            RowWrite { graph, settings, id, kernel, body, row, n_points }
        })
    }

    /// The kernels that may write the row: the one that computes it, then those that read it.
    fn hosts(&self, kernels: &[Option<Kernel>]) -> Vec<usize> {
        let uses = |usage: Use| {
            let uses = move |kernel: &Kernel| kernel.uses(usage).any(|operand| operand.value == self.row);
            (0..kernels.len()).filter(move |&id| id != self.id && kernels[id].as_ref().is_some_and(uses))
        };
        uses(Use::Write).chain(uses(Use::Read)).collect()
    }

    /// The kernel of a host that also writes the row.
    fn joined(&self, kernels: &[Option<Kernel>], host: usize) -> Option<Kernel> {
        let mut host = Host::new(self, kernels[host].as_ref()?)?;
        let index = host.add_index(self)?;
        let [_, n_before, n_axis, _, n_after] = self.body.extents;
        let access = Access::strided(&[n_before, n_after], &[(n_axis * n_after) as i64, 1]).normalized();
        let is_needed = self.graph.root[self.row.node]
            || self.graph.is_input(self.row.node)
            || kernels.iter().enumerate().any(|(id, kernel)| id != self.id && self.is_read_by(kernel));
        let result = self.kernel.operands[self.body.result].clone();
        let dtype = result.ty.dtype;
        let operand = host.result(result, (!is_needed).then_some(self.row));
        let store = FusedOp::Store { operand, access, value: host.row, index: Some((index, n_after as i64)) };
        host.stores.push(FusedInst { op: store, dtype, class: Class::Element });
        let pays = !host.is_matmul() || !is_needed || self.graph.cost.is_launch_bound(self.n_points);
        let fits = host.operands.len() <= self.settings.most_operands();
        (pays && fits).then(|| host.finish(self))
    }

    fn is_read_by(&self, kernel: &Option<Kernel>) -> bool {
        kernel.as_ref().is_some_and(|kernel| kernel.uses(Use::Read).any(|operand| operand.value == self.row))
    }
}

/// A kernel that takes a row write in.
struct Host {
    body: KernelBody,
    operands: Vec<Operand>,
    nodes: Vec<usize>,
    /// The instructions of its body, without the stores.
    insts: Vec<FusedInst>,
    stores: Vec<FusedInst>,
    /// The register of the row.
    row: Reg,
}

impl Host {
    /// A kernel over the points of the row, which has it in a register.
    fn new(write: &RowWrite, kernel: &Kernel) -> Option<Host> {
        let nodes = &write.graph.ir.nodes;
        let body = body_of(&kernel.body)?;
        let is_over_points = body.domain.points(Class::Element) == write.n_points;
        if !is_over_points || nodes[kernel.nodes[0]].no_fuse != nodes[write.kernel.nodes[0]].no_fuse {
            return None;
        }
        let is_row = |operand: usize, access: &Access| {
            kernel.operands[operand].value == write.row && access.is_identity(write.n_points)
        };
        let row = body.insts.iter().enumerate().find_map(|(reg, inst)| match &inst.op {
            _ if inst.class != Class::Element => None,
            FusedOp::Load { operand, access, index: None } => is_row(*operand, access).then_some(reg),
            FusedOp::Store { operand, access, value, index: None } => {
                is_row(*operand, access).then_some(*value)
            }
            _ => None,
        })?;
        let is_store = |inst: &FusedInst| matches!(inst.op, FusedOp::Store { .. });
        let (stores, insts) = body.insts.iter().cloned().partition(is_store);
        let (operands, nodes) = (kernel.operands.clone(), kernel.nodes.clone());
        Some(Host { body: kernel.body.clone(), operands, nodes, insts, stores, row })
    }

    fn is_matmul(&self) -> bool {
        matches!(self.body, KernelBody::Matmul(_))
    }

    /// Appends the instructions that compute the index of a write, and returns its register.
    fn add_index(&mut self, write: &RowWrite) -> Option<Reg> {
        let mut regs: Vec<Reg> = vec![];
        for (reg, inst) in write.body.updates.insts.iter().enumerate() {
            let op = match &inst.op {
                _ if reg == write.body.update => {
                    regs.push(self.row);
                    continue;
                }
                FusedOp::Load { operand, access, index: None } => {
                    let operand = self.read(&write.kernel.operands[*operand]);
                    FusedOp::Load { operand, access: access.clone(), index: None }
                }
                FusedOp::Scalar(op, args) => {
                    FusedOp::Scalar(op.clone(), args.iter().map(|&arg| regs[arg]).collect())
                }
                FusedOp::Const(literal) => FusedOp::Const(*literal),
                _ => return None,
            };
            let inst = FusedInst { op, ..inst.clone() };
            let known = self.insts.iter().position(|known| *known == inst);
            regs.push(known.unwrap_or_else(|| {
                self.insts.push(inst);
                self.insts.len() - 1
            }));
        }
        Some(regs[write.body.index])
    }

    /// The number of an operand that is read. A new one follows the others that are read.
    fn read(&mut self, operand: &Operand) -> usize {
        if let Some(known) = self.operands.iter().position(|known| known == operand) {
            return known;
        }
        let at = self.operands.iter().filter(|operand| operand.usage == Use::Read).count();
        self.operands.insert(at, operand.clone());
        let moved = |operand: &mut usize| *operand += usize::from(*operand >= at);
        for inst in self.insts.iter_mut().chain(&mut self.stores) {
            if let FusedOp::Load { operand, .. } | FusedOp::Store { operand, .. } = &mut inst.op {
                moved(operand);
            }
        }
        if let KernelBody::Matmul(body) = &mut self.body {
            moved(&mut body.lhs.operand);
            moved(&mut body.rhs.operand);
            body.side_sums.iter_mut().for_each(|sum| moved(&mut sum.operand));
        }
        at
    }

    /// The number of a new result, which may take the place of one that nothing reads.
    fn result(&mut self, result: Operand, unread: Option<Value>) -> usize {
        let is_unread = |operand: &Operand| operand.usage == Use::Write && Some(operand.value) == unread;
        let Some(at) = self.operands.iter().position(is_unread) else {
            self.operands.push(result);
            return self.operands.len() - 1;
        };
        self.operands[at] = result;
        self.stores.retain(|inst| !matches!(inst.op, FusedOp::Store { operand, .. } if operand == at));
        at
    }

    fn finish(mut self, write: &RowWrite) -> Kernel {
        let insts = [self.insts, self.stores].concat();
        if let Some(body) = body_of_mut(&mut self.body) {
            body.insts = insts;
        }
        self.nodes.extend(&write.kernel.nodes);
        self.nodes.sort_unstable();
        Kernel {
            name: String::new(),
            bytes_read: bytes_read(&self.body, &self.operands),
            bytes_written: bytes_written(&self.body, &self.operands),
            flops: flops(&self.body),
            ops: self.nodes.iter().map(|&node| op_name(write.graph.op(node))).collect(),
            nodes: self.nodes,
            body: self.body,
            operands: self.operands,
        }
    }
}

/// The body that computes the results of a kernel.
fn body_of(kernel: &KernelBody) -> Option<&FusedBody> {
    match kernel {
        KernelBody::Map(body) | KernelBody::Row(body) => Some(body),
        KernelBody::Matmul(body) => body.rows.is_none().then_some(&body.epilogue),
        _ => None,
    }
}

fn body_of_mut(kernel: &mut KernelBody) -> Option<&mut FusedBody> {
    match kernel {
        KernelBody::Map(body) | KernelBody::Row(body) => Some(body),
        KernelBody::Matmul(body) => Some(&mut body.epilogue),
        _ => None,
    }
}
