//! The values at the points of a gradient of attention, in two phases: those that need the first product alone, which are
//! computed while the second one is multiplied, and the others.

use crate::codegen::analysis::operands::operands;
use crate::codegen::analysis::visible_keys::VisibleKeys;
use crate::codegen::error::CodegenError;
use crate::codegen::ir::builder::{Code, F32};
use crate::codegen::ops::body::{BodyCode, Registers};
use crate::codegen::schedule::tensor_core::{ROWS, point};
use crate::fusion::{Class, FusedBody, FusedOp, Reg};
use crate::ir::{DType, Scalar};
use cubecl_core::ir::Variable;

/// Queries of a tile.
pub const TILE: usize = 64;
/// Keys of a block.
pub const KEYS: usize = 2 * ROWS;

/// The points of a matrix.
pub struct Extents {
    /// Queries.
    pub m: usize,
    /// Keys.
    pub n: usize,
    /// Whether a query of tile `tile` may not see each key of the block, as an expression.
    pub edge: String,
}

/// The body over points, and its phases.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Points {
    pub body: FusedBody,
    /// The body where each key is visible, if that is another one.
    unmasked: Option<FusedBody>,
    /// The registers that are multiplied, before they are rounded, and the phase that computes each.
    pub values: Vec<(Reg, usize)>,
    /// Registers of the first phase that the second one reads.
    kept: Vec<Reg>,
    /// The queries after which the numbers of queries start again.
    pub period: usize,
    /// The first visible key and the first one after them, relative to the number of the query.
    pub bounds: [Option<i64>; 2],
}

/// A point of a thread: its number among the thread's, the number of its query among all, and which of its two keys and
/// of its two neighbouring queries it has.
struct Place {
    at: String,
    row: Variable,
    half: usize,
    query: usize,
}

impl Points {
    /// The phases of a body for these values; none if they are no numbers in `f32`, or too many of them would be kept.
    /// `n_queries` are those of all matrices, and of one.
    pub fn of(
        body: &FusedBody,
        values: &[Reg],
        visible: &VisibleKeys,
        n_queries: [usize; 2],
    ) -> Option<Points> {
        let [all, of_matrix] = n_queries;
        let bounds = [visible.first, visible.end];
        let period = if bounds == [None; 2] { of_matrix } else { visible.period.min(all) };
        // The last tile of a matrix may have fewer queries, but not that of an earlier period.
        let is_periodic =
            period == of_matrix || of_matrix.is_multiple_of(period) && period.is_multiple_of(TILE);
        let is_second = depends(body, |op| *op == FusedOp::SecondAccumulator);
        let values: Vec<(Reg, usize)> = values
            .iter()
            .map(|&value| unrounded(body, value))
            .map(|reg| (reg, is_second[reg].into()))
            .collect();
        let is_single = body.insts.iter().all(|inst| inst.dtype != DType::F64)
            && values.iter().all(|&(reg, _)| body.insts[reg].dtype == DType::F32);
        let kept = kept(body, &values, &is_second);
        let fits = kept.len() <= 1 && kept.iter().all(|&reg| body.insts[reg].dtype == DType::F32);
        (is_periodic && is_single && fits).then_some(Points {
            body: body.clone(),
            unmasked: visible.without_mask(body),
            values,
            kept,
            period,
            bounds,
        })
    }

    /// Defines `weigh`, the first phase, and `slope`, the second one, at the points of a thread in tile `tile`.
    pub fn define(&self, form: &Extents, code: &mut Code, body: &BodyCode) -> Result<(), CodegenError> {
        let n_points = TILE / 2;
        for reg in self.arrays() {
            code.line(format_args!("float value_{reg}[{n_points}];"));
        }
        for (phase, name) in ["weigh", "slope"].into_iter().enumerate() {
            code.line(format_args!(
                "const auto {name} = [&](const float (&products)[{n_points}], const unsigned int tile) {{"
            ));
            let edge = &form.edge;
            match &self.unmasked {
                Some(unmasked) if !edge.is_empty() => {
                    code.line(format_args!("if ({edge}) {{"));
                    self.at_points(form, code, body, phase)?;
                    code.line("} else {");
                    self.at_points(form, code, &BodyCode { body: unmasked, ..*body }, phase)?;
                    code.line("}");
                }
                _ => self.at_points(form, code, body, phase)?,
            }
            code.line("};");
        }
        Ok(())
    }

    /// The registers that are held at all points of a thread.
    fn arrays(&self) -> Vec<Reg> {
        let mut all: Vec<Reg> =
            self.kept.iter().copied().chain(self.values.iter().map(|value| value.0)).collect();
        all.sort_unstable();
        all.dedup();
        all
    }

    /// The values of a phase: those that are multiplied and, of the first one, those that are kept.
    fn of_phase(&self, phase: usize) -> Vec<Reg> {
        let values = self.values.iter().filter(|value| value.1 == phase).map(|value| value.0);
        let mut all: Vec<Reg> = self.kept.iter().copied().filter(|_| phase == 0).chain(values).collect();
        all.sort_unstable();
        all.dedup();
        all
    }

    /// A phase at the points of a thread: two queries of each eight, and two keys.
    fn at_points(
        &self,
        form: &Extents,
        code: &mut Code,
        body: &BodyCode,
        phase: usize,
    ) -> Result<(), CodegenError> {
        let wanted = self.of_phase(phase);
        if wanted.is_empty() {
            return Ok(());
        }
        let needed = needed(body.body, &wanted, |reg| self.is_given(body.body, reg, phase));
        let is_element = |reg: &Reg| body.body.insts[*reg].class == Class::Element;
        let (elements, others): (Vec<Reg>, Vec<Reg>) = needed.into_iter().partition(is_element);
        code.lines(&format!("#pragma unroll\nfor (int j = 0; j < {}; j++) {{\n", TILE / 8));
        for i in 0..2 {
            let (row, mut registers) = self.query(form, code, body, i);
            body.run(code, others.iter().copied(), row, &mut registers)?;
            for half in 0..2 {
                let place = Place { at: format!("4 * j + {}", 2 * half + i), row, half, query: i };
                let mut own = registers.clone();
                self.give(code, body.body, phase, &place, &mut own);
                self.at_key(form, code, body, &place, (&elements, &wanted), own)?;
            }
        }
        code.line("}");
        Ok(())
    }

    /// Whether a register is known before a phase: a product, or a value of the phase before.
    fn is_given(&self, body: &FusedBody, reg: Reg, phase: usize) -> bool {
        match body.insts[reg].op {
            FusedOp::Accumulator => phase == 0,
            FusedOp::SecondAccumulator => true,
            _ => phase == 1 && self.kept.contains(&reg),
        }
    }

    /// Sets the registers that are known before a phase.
    fn give(
        &self,
        code: &mut Code,
        body: &FusedBody,
        phase: usize,
        place: &Place,
        registers: &mut Registers,
    ) {
        for reg in (0..registers.len()).filter(|&reg| self.is_given(body, reg, phase)) {
            let array = if self.kept.contains(&reg) { format!("value_{reg}") } else { "products".into() };
            registers[reg] = Some(code.expression(F32, format_args!("{array}[{}]", place.at)));
        }
    }

    /// The wanted values at a point; 0 where there is no key or no query.
    fn at_key(
        &self,
        form: &Extents,
        code: &mut Code,
        body: &BodyCode,
        Place { at, row, half, query }: &Place,
        (elements, wanted): (&[Reg], &[Reg]),
        mut registers: Registers,
    ) -> Result<(), CodegenError> {
        let key = format!("own_key + {}", 8 * half);
        let outside = [
            (!form.n.is_multiple_of(KEYS)).then(|| format!("{key} >= {}", form.n)),
            form.has_ragged_queries().then(|| format!("{} >= {}", query_text(*query), form.m)),
        ];
        let outside: Vec<String> = outside.into_iter().flatten().collect();
        let is_ragged = !outside.is_empty();
        if is_ragged {
            let zeros: Vec<String> = wanted.iter().map(|reg| format!("value_{reg}[{at}] = ")).collect();
            code.line(format_args!("if ({}) {}0.0f; else {{", outside.join(" || "), zeros.concat()));
        }
        let key = code.expression(code.index, key);
        let place = point(code, form.n, [*row, key]);
        body.run(code, elements.iter().copied(), place, &mut registers)?;
        for &reg in wanted {
            let value = registers[reg].unwrap_or_else(|| crate::bug!("a point without its value"));
            let value = code.named(value);
            code.line(format_args!("value_{reg}[{at}] = {value};"));
        }
        if is_ragged {
            code.line("}");
        }
        Ok(())
    }

    /// The number of a query among those of all matrices, and registers that know nothing yet. Queries past the last read the
    /// values of the last.
    fn query(&self, form: &Extents, code: &mut Code, body: &BodyCode, i: usize) -> (Variable, Registers) {
        let mut query = query_text(i);
        if form.has_ragged_queries() {
            query = format!("min({query}, {}u)", form.m - 1);
        }
        let in_matrix = code.expression(code.index, query);
        let matrix = code.expression(code.index, "z");
        let start = code.scaled(matrix, form.m as i64);
        let row = code.add_at(start, in_matrix);
        code.note_place(row, form.m, matrix, in_matrix);
        (row, vec![None; body.body.insts.len()])
    }
}

impl Extents {
    /// Whether the last tile has queries that do not exist.
    fn has_ragged_queries(&self) -> bool {
        !self.m.is_multiple_of(TILE)
    }
}

/// The number in its matrix of one of two neighbouring queries of a thread.
fn query_text(i: usize) -> String {
    format!("tile * {TILE} + 8 * j + threadIdx.x % 4 * 2 + {i}")
}

/// By register: whether it depends on an operation of a kind.
fn depends(body: &FusedBody, is_root: impl Fn(&FusedOp) -> bool) -> Vec<bool> {
    let mut does = vec![false; body.insts.len()];
    for (reg, inst) in body.insts.iter().enumerate() {
        does[reg] = is_root(&inst.op) || operands(&inst.op).into_iter().any(|arg| does[arg]);
    }
    does
}

/// A value before it is rounded to the type of the other matrix.
fn unrounded(body: &FusedBody, value: Reg) -> Reg {
    match &body.insts[value].op {
        FusedOp::Scalar(Scalar::Cast(DType::F16 | DType::BF16), args) => args[0],
        _ => value,
    }
}

/// What the second phase reads of values that depend on the first product.
fn kept(body: &FusedBody, values: &[(Reg, usize)], is_second: &[bool]) -> Vec<Reg> {
    let is_first = depends(body, |op| *op == FusedOp::Accumulator);
    let roots: Vec<Reg> = values.iter().filter(|value| value.1 == 1).map(|value| value.0).collect();
    let readers = needed(body, &roots, |reg| !is_second[reg]);
    let read = readers.into_iter().flat_map(|reg| operands(&body.insts[reg].op));
    let mut kept: Vec<Reg> = read.filter(|&reg| is_first[reg] && !is_second[reg]).collect();
    kept.sort_unstable();
    kept.dedup();
    kept
}

/// The registers that some need, ascending, without those that are given.
fn needed(body: &FusedBody, roots: &[Reg], is_given: impl Fn(Reg) -> bool) -> Vec<Reg> {
    let mut is_needed = vec![false; body.insts.len()];
    roots.iter().for_each(|&root| is_needed[root] = true);
    for reg in (0..body.insts.len()).rev() {
        if is_needed[reg] && !is_given(reg) {
            operands(&body.insts[reg].op).into_iter().for_each(|arg| is_needed[arg] = true);
        }
    }
    (0..body.insts.len()).filter(|&reg| is_needed[reg] && !is_given(reg)).collect()
}
