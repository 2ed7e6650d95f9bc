//! The builder of bodies: one straight-line program per kernel.
//!
//! Values are emitted on demand, from the stores of a kernel back to its loads. A request names a value and the views
//! between it and the points of the kernel. A value that varies only by row, or not at all, is computed once per row or
//! once per kernel.

use crate::fusion::access::Access;
use crate::fusion::domain::{Class, Domain};
use crate::fusion::graph::{FusionGraph, through};
use crate::fusion::groups::FusionGroups;
use crate::fusion::kernel::body::{FusedBody, FusedInst, FusedOp, Reg};
use crate::fusion::kernel::operand::{Operand, Use};
use crate::fusion::place::Place;
use crate::fusion::shapes::gather_index_view;
use crate::ir::{Binary, DType, Graph, Literal, NodeId, NodeOp, Scalar, Value, View};
use std::collections::{HashMap, HashSet};

/// Views between a value and the points of the kernel, the one nearest to the points first.
pub type Chain = Vec<(View, Vec<usize>)>;

/// A stored value: its register, and the elements that the points of its class write.
pub type Store = (Value, Reg, Access, Class);

/// A body under construction, with the operands so far.
pub struct BodyBuilder<'r, 'g> {
    graph: &'r FusionGraph<'g>,
    members: &'r HashSet<NodeId>,
    anchor: Option<NodeId>,
    second_anchor: Option<NodeId>,
    domain: Domain,
    insts: Vec<FusedInst>,
    memo: HashMap<(Class, Value, Access), Reg>,
    known: HashMap<FusedInst, Reg>,
    /// Buffers in the order of first use.
    pub operands: Vec<Operand>,
}

impl<'r, 'g> BodyBuilder<'r, 'g> {
    /// For the nodes of one group; `anchor` is its matmul, if it has one.
    pub fn new(
        graph: &'r FusionGraph<'g>,
        members: &'r HashSet<NodeId>,
        anchor: Option<NodeId>,
        domain: Domain,
    ) -> BodyBuilder<'r, 'g> {
        let (insts, memo, known, operands, second_anchor) = Default::default();
        BodyBuilder { graph, members, anchor, second_anchor, domain, insts, memo, known, operands }
    }

    /// With a second matmul, whose result is the second accumulator.
    pub fn with_second_anchor(self, second: NodeId) -> BodyBuilder<'r, 'g> {
        BodyBuilder { second_anchor: Some(second), ..self }
    }

    /// Computes `value`, behind views, at every point.
    pub fn value(&mut self, value: Value, views: Chain) -> Reg {
        self.emit(Class::Element, value, &views)
    }

    /// Computes `value`, behind views, once per row.
    pub fn row_value(&mut self, value: Value, views: Chain) -> Reg {
        self.emit(Class::Row, value, &views)
    }

    /// Computes `value` at every point of its class and stores it.
    pub fn store(&mut self, value: Value, class: Class) -> (Reg, Access) {
        let reg = self.emit(class, value, &vec![]);
        (reg, Access::strided(&[self.domain.points(class)], &[1]))
    }

    /// Computes and collects the stores of all members that leave the kernel.
    pub fn stores(&mut self, groups: &FusionGroups, members: &[(NodeId, Place)]) -> Vec<Store> {
        let mut stores = vec![];
        for &(node, place) in members {
            let class = match place {
                Place::Element => Class::Element,
                Place::Row => Class::Row,
                Place::Side | Place::Fold => continue,
            };
            if groups.is_written(node, self.members) {
                let (reg, access) = self.store(Value::of(node), class);
                stores.push((Value::of(node), reg, access, class));
            }
        }
        stores
    }

    /// Computes `value` at every point for the row reduction of a matmul fold.
    pub fn fold(&mut self, value: Value) {
        let reg = self.emit(Class::Element, value, &vec![]);
        let value = self.at_element(reg);
        let dtype = self.insts[value].dtype;
        self.push(FusedOp::Fold { value }, dtype, Class::Element);
    }

    /// The body, with the stores last: no load may read an update in place.
    pub fn finish(mut self, stores: Vec<Store>) -> (FusedBody, Vec<Operand>) {
        for (value, reg, access, class) in stores {
            let operand = self.operands.len();
            self.operands.push(Operand::write(self.ir(), value));
            let dtype = self.operands[operand].ty.dtype;
            let op = FusedOp::Store { operand, access, value: reg, index: None };
            self.insts.push(FusedInst { op, dtype, class });
        }
        (FusedBody { domain: self.domain, insts: self.insts }, self.operands)
    }

    /// The operand number of a buffer that is read.
    pub fn read(&mut self, value: Value) -> usize {
        let found =
            self.operands.iter().position(|operand| operand.value == value && operand.usage == Use::Read);
        found.unwrap_or_else(|| {
            self.operands.push(Operand::read(self.ir(), value));
            self.operands.len() - 1
        })
    }

    fn ir(&self) -> &'g Graph {
        self.graph.ir
    }

    fn push(&mut self, op: FusedOp, dtype: DType, class: Class) -> Reg {
        let inst = FusedInst { op, dtype, class };
        if let Some(&reg) = self.known.get(&inst) {
            return reg;
        }
        self.insts.push(inst.clone());
        self.known.insert(inst, self.insts.len() - 1);
        self.insts.len() - 1
    }

    fn emit(&mut self, class: Class, value: Value, chain: &Chain) -> Reg {
        let extents = self.ir().ty(value).extents();
        let access =
            through(&extents, chain.iter().rev().map(|(view, shape)| (view, &shape[..]))).normalized();
        if class != Class::Uniform
            && access.is_uniform()
            && self.is_free(value)
            && extents.iter().product::<usize>() == 1
        {
            return self.emit(Class::Uniform, value, &vec![]);
        }
        if class == Class::Element && self.domain.points(Class::Row) > 1 && access.is_row_pattern(self.domain)
        {
            return self.emit(Class::Row, value, &vec![]);
        }
        if class == Class::Element && self.is_row_scalar(value) && access.is_uniform() {
            return self.emit(Class::Row, value, &vec![]);
        }
        let key = (class, value, access);
        if let Some(&reg) = self.memo.get(&key) {
            return reg;
        }
        let reg = self.emit_node(class, value, chain, &key.2);
        self.memo.insert(key, reg);
        reg
    }

    /// Whether a value is a member at the place of a row, in a kernel of a single row.
    fn is_row_scalar(&self, value: Value) -> bool {
        self.domain.points(Class::Row) == 1
            && self.members.contains(&value.node)
            && self.ir().ty(value).numel() == 1
    }

    /// Whether a value of one element can be computed before the kernel's points, since it depends on no reduction of the
    /// kernel.
    fn is_free(&self, value: Value) -> bool {
        !self.members.contains(&value.node)
            && (!self.graph.is_recomputed(value.node)
                || self.ir().nodes[value.node].inputs.iter().all(|&input| self.is_free(input)))
    }

    fn emit_node(&mut self, class: Class, value: Value, chain: &Chain, access: &Access) -> Reg {
        let node = &self.ir().nodes[value.node];
        let dtype = self.ir().ty(value).dtype;
        if self.is_outside(value) {
            let operand = self.read(value);
            return self.push(FusedOp::Load { operand, access: access.clone(), index: None }, dtype, class);
        }
        if self.anchor == Some(value.node) {
            return self.push(FusedOp::Accumulator, dtype, class);
        }
        if self.second_anchor == Some(value.node) {
            return self.push(FusedOp::SecondAccumulator, dtype, class);
        }
        match &node.op {
            NodeOp::Const(literal) => self.push(FusedOp::Const(*literal), dtype, Class::Uniform),
            NodeOp::Iota { axis } => {
                let access = self.along(value, chain, |i| (i == *axis) as i64);
                // A coordinate that is constant along a row is computed once per row.
                match access.along_rows(self.domain).filter(|_| class == Class::Element) {
                    Some(access) => self.push(FusedOp::Coord(access), dtype, Class::Row),
                    None => self.push(FusedOp::Coord(access), dtype, class),
                }
            }
            NodeOp::View(View::Pad { low, high, fill }) if !self.is_memory(node.inputs[0]) => {
                self.emit_padded(class, value, chain, ([&low[..], &high[..]], *fill))
            }
            NodeOp::View(view) => {
                let inner = pushed(chain, view.clone(), self.ir().ty(value).extents());
                self.emit(class, node.inputs[0], &inner)
            }
            NodeOp::Scalar(scalar) => {
                let args =
                    node.inputs.iter().map(|&input| self.emit(class, input, chain)).collect::<Vec<_>>();
                let class = args.iter().map(|&reg| self.insts[reg].class).max().unwrap_or(class);
                self.push(FusedOp::Scalar(scalar.clone(), args), dtype, class)
            }
            NodeOp::Check(requirement) => {
                let checked = self.emit(class, node.inputs[0], chain);
                let (requirement, access) = (*requirement, access.clone());
                let site = self.graph.first_site + value.node;
                let check = FusedOp::Check { value: checked, requirement, site, access };
                self.push(check, dtype, self.insts[checked].class)
            }
            NodeOp::Gather { axis, batch } => self.emit_gather(class, value, chain, *axis, *batch),
            NodeOp::Random { stream } => {
                let step = self.emit(Class::Uniform, node.inputs[0], &vec![]);
                let iteration = node.inputs.get(1).map(|&input| self.emit(Class::Uniform, input, &vec![]));
                let access = access.clone();
                self.push(FusedOp::Random { stream: *stream, step, iteration, access }, dtype, class)
            }
            NodeOp::Reduce { monoid, .. } => {
                let reg = self.emit(Class::Element, node.inputs[0], &vec![]);
                let value = self.at_element(reg);
                self.push(FusedOp::Reduce { monoid: *monoid, value }, dtype, Class::Row)
            }
            other => crate::bug!("`{}` cannot be part of a body: {other:?}", node.name()),
        }
    }

    /// Whether a value is stored outside of the kernel.
    fn is_outside(&self, value: Value) -> bool {
        !self.graph.is_recomputed(value.node) && !self.members.contains(&value.node)
    }

    /// Whether a value is read from memory, through views at most: then the guards of the load fill in pads.
    fn is_memory(&self, value: Value) -> bool {
        let node = &self.ir().nodes[value.node];
        self.is_outside(value) || matches!(&node.op, NodeOp::View(_)) && self.is_memory(node.inputs[0])
    }

    /// Selects the fill in the pad, and elsewhere the computed value: a function of the fill is not the fill.
    fn emit_padded(
        &mut self,
        class: Class,
        value: Value,
        chain: &Chain,
        ([low, high], fill): ([&[usize]; 2], Literal),
    ) -> Reg {
        let node = &self.ir().nodes[value.node];
        let dtype = self.ir().ty(value).dtype;
        // No point takes this fill. Pads with equal fills share a level of an access map.
        let unused = Literal::Int(0).cast(dtype);
        let inside = View::Pad { low: low.to_vec(), high: high.to_vec(), fill: unused };
        let inner = pushed(chain, inside, self.ir().ty(value).extents());
        let computed = self.emit(class, node.inputs[0], &inner);
        let mut ones = self.along(node.inputs[0], &inner, |_| 0);
        if let Some(last) = ones.levels.last_mut() {
            last.offset += 1;
        }
        let one = self.push(FusedOp::Coord(ones), DType::I32, class);
        let zero = self.push(FusedOp::Const(Literal::Int(0)), DType::I32, Class::Uniform);
        let is_inside = FusedOp::Scalar(Scalar::Binary(Binary::Ne), vec![one, zero]);
        let is_inside = self.push(is_inside, DType::Bool, class);
        let fill = self.push(FusedOp::Const(fill), dtype, Class::Uniform);
        self.push(FusedOp::Scalar(Scalar::Select, vec![is_inside, computed, fill]), dtype, class)
    }

    /// A register at every point. A value that is constant along the row is copied first.
    fn at_element(&mut self, reg: Reg) -> Reg {
        let FusedInst { dtype, class, .. } = self.insts[reg].clone();
        if class == Class::Element {
            return reg;
        }
        let copy = FusedOp::Scalar(Scalar::Cast(dtype), vec![reg]);
        self.push(copy, dtype, Class::Element)
    }

    /// The map from points to `Σ coordinate·weight` of a value behind a chain of views.
    fn along(&self, value: Value, chain: &Chain, weight: impl Fn(usize) -> i64) -> Access {
        let extents = self.ir().ty(value).extents();
        let weights: Vec<i64> = (0..extents.len()).map(weight).collect();
        let base = Access::strided(&extents, &weights);
        chain.iter().rev().fold(base, |access, (view, shape)| access.then(view, shape)).normalized()
    }

    fn emit_gather(&mut self, class: Class, value: Value, chain: &Chain, axis: usize, batch: usize) -> Reg {
        let node = &self.ir().nodes[value.node];
        let (source, window) = self
            .graph
            .strided(node.inputs[0])
            .unwrap_or_else(|| crate::bug!("the source of `{}` is not in memory", node.name()));
        let axes = &window.levels[0].axes;
        let n_index_axes = self.ir().ty(node.inputs[1]).rank() - batch;
        let stride = axes[axis].stride;
        let mut access = self.along(value, chain, |i| match i {
            i if i < axis => axes[i].stride,
            i if i < axis + n_index_axes => 0,
            i => axes[i - n_index_axes + 1].stride,
        });
        if let Some(last) = access.levels.last_mut() {
            last.offset += window.levels[0].offset;
        }
        let laid_out = gather_index_view(self.ir(), value.node, axis, batch);
        let index = self.emit(class, node.inputs[1], &pushed(chain, laid_out, self.ir().ty(value).extents()));
        let operand = self.read(source);
        let dtype = self.ir().ty(value).dtype;
        self.push(FusedOp::Load { operand, access, index: Some((index, stride)) }, dtype, class)
    }
}

fn pushed(chain: &Chain, view: View, shape: Vec<usize>) -> Chain {
    let mut chain = chain.clone();
    chain.push((view, shape));
    chain
}
