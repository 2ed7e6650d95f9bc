//! A thread's row in a row kernel, and the groups of neighbours that the thread holds.

use crate::codegen::ir::builder::{Code, Term};
use crate::codegen::ops::body::Registers;
use crate::codegen::ops::vector_group::Group;
use crate::codegen::schedule::row_plan::RowPlan;
use crate::fusion::Domain;
use cubecl_core::ir::{Arithmetic, Builtin, Variable};

/// The row of a thread.
pub struct Place {
    /// The domain of the kernel.
    pub domain: Domain,
    /// The division of rows among threads.
    plan: RowPlan,
    /// The row; for threads past the last row, the last row.
    pub row: Variable,
    /// Whether the thread's row exists; none if always.
    pub is_row: Option<Variable>,
    /// Number of the thread within its row.
    pub lane: Variable,
    /// The point of the row's first element.
    first: Variable,
    /// The terms of that point, if rows are strided.
    first_terms: Vec<Term>,
    /// The number of the row's first group among all groups, if rows are whole groups. Vectors then lie at
    /// distances known at compile time.
    first_group: Option<Variable>,
}

/// A group of neighbours in the row, and their registers.
pub struct Held {
    /// Their positions in the row.
    pub positions: Vec<Variable>,
    /// Their points in the domain.
    pub group: Group,
    /// Whether the group is inside the row; none if always.
    pub is_inside: Option<Variable>,
    /// Element registers of each.
    pub registers: Vec<Registers>,
}

impl Place {
    /// The row of this thread in a grid of blocks.
    pub fn new(code: &mut Code, plan: RowPlan, domain: &Domain, n_rows: Variable) -> Place {
        let unit = code.builtin(Builtin::UnitPosX);
        let block = code.builtin(Builtin::CubePos);
        let (lane, within) = lane_and_row(code, plan, unit);
        let (row, is_row) = if plan.rows == 1 && code.device.has_exact_grid {
            (block, None)
        } else {
            let before = code.scaled(block, plan.rows as i64);
            let row = code.bin(Arithmetic::Add, before, within);
            let is_row = code.less(row, n_rows);
            // Threads past the last row compute that row, too: they take part in shuffles but store nothing.
            let one = code.at(1);
            let last = code.bin(Arithmetic::Sub, n_rows, one);
            (code.select(is_row, row, last), Some(is_row))
        };
        Place::of(code, plan, domain, row, (is_row, lane))
    }

    /// A row that exists, shared by the whole block.
    pub fn at_row(code: &mut Code, plan: RowPlan, domain: &Domain, row: Variable) -> Place {
        let lane = code.builtin(Builtin::UnitPosX);
        Place::of(code, plan, domain, row, (None, lane))
    }

    fn of(
        code: &mut Code,
        plan: RowPlan,
        domain: &Domain,
        row: Variable,
        (is_row, lane): (Option<Variable>, Variable),
    ) -> Place {
        let (first, first_terms) = if domain.inner == 1 {
            (code.scaled(row, domain.row as i64), vec![])
        } else {
            let outer = code.divided(row, domain.inner);
            let inner = code.modulo(row, domain.inner);
            let stride = domain.row * domain.inner;
            let start = code.scaled(outer, stride as i64);
            let terms = vec![
                Term { value: outer, extent: domain.outer, stride: stride as i64 },
                Term { value: inner, extent: domain.inner, stride: 1 },
            ];
            (code.add_at(start, inner), terms)
        };
        let is_even = domain.inner == 1 && plan.width > 1 && domain.row.is_multiple_of(plan.width);
        let first_group = is_even.then(|| code.scaled(row, (domain.row / plan.width) as i64));
        Place { domain: *domain, plan, row, is_row, lane, first, first_terms, first_group }
    }

    /// The `k`-th group of this thread, without registers.
    pub fn held(&self, code: &mut Code, k: usize, n_registers: usize) -> Held {
        let RowPlan { threads, width, .. } = self.plan;
        let offset = code.at((k * threads) as i64);
        let number = code.add_at(self.lane, offset);
        let position = code.scaled(number, width as i64);
        let group = self.first_group.map(|first| {
            let group = code.add_at(first, self.lane);
            code.add_at(group, offset)
        });
        let (position, group, is_inside) = if (k + 1) * threads * width <= self.domain.row {
            (position, group, None)
        } else {
            let end = code.at(self.domain.row as i64);
            let is_inside = code.less(position, end);
            let start = code.at(0);
            let group = group.zip(self.first_group);
            let group = group.map(|(group, first)| code.select(is_inside, group, first));
            (code.select(is_inside, position, start), group, Some(is_inside))
        };
        let (positions, group) = self.neighbours(code, position, group);
        Held { positions, group, is_inside, registers: vec![vec![None; n_registers]; width] }
    }

    /// The group that starts at a position, as positions and as points. `number` is its own among all groups.
    pub fn neighbours(
        &self,
        code: &mut Code,
        position: Variable,
        number: Option<Variable>,
    ) -> (Vec<Variable>, Group) {
        let width = self.plan.width;
        let positions = Group::from(code, position, width).points;
        let first = self.point(code, position);
        if let Some(number) = number {
            let start = code.at(0);
            code.note_place(first, width, number, start);
        }
        let group = Group::from(code, first, width);
        if self.domain.inner == 1 {
            for (&point, &position) in group.points.iter().zip(&positions) {
                code.note_place(point, self.domain.row, self.row, position);
            }
        }
        (positions, group)
    }

    fn point(&self, code: &mut Code, position: Variable) -> Variable {
        let Domain { row, inner, .. } = self.domain;
        let step = code.scaled(position, inner as i64);
        let point = code.add_at(self.first, step);
        if inner > 1 {
            let place = Term { value: position, extent: row, stride: inner as i64 };
            code.note_terms(point, self.first_terms.iter().copied().chain([place]).collect());
        }
        point
    }
}

/// The number of a thread in its row, and of the row in its block.
fn lane_and_row(code: &mut Code, plan: RowPlan, unit: Variable) -> (Variable, Variable) {
    match (plan.threads, plan.rows, plan.is_across) {
        (1, _, _) => (code.at(0), unit),
        (_, 1, _) => (unit, code.at(0)),
        (_, rows, true) => (code.divided(unit, rows), code.modulo(unit, rows)),
        (threads, _, false) => (code.modulo(unit, threads), code.divided(unit, threads)),
    }
}

impl Held {
    /// The point of its first element.
    pub fn first_point(&self) -> Variable {
        self.group.first()
    }
}
