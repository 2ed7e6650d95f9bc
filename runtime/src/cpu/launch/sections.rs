//! Launches of maps over joined tensors. An axis is cut where guards begin and end, and each section has a body of its own
//! without them: a point of a joined tensor reads the one part that it lies in.

use super::super::interp::{Layout, Program, ScratchSize, Sharing, Span, Spread, compile, stores_only};
use super::super::memory::Memory;
use super::super::pool::Pool;
use super::call::{Call, KernelLaunch};
use super::cut::chunk_points;
use super::scratch::{LaunchSize, WorkerScratch};
use crate::device::DeviceError;
use engine_core::codegen::with_registers;
use engine_core::fusion::{Access, Class, FusedBody, FusedInst, FusedOp, Reg};
use engine_core::ir::{Binary, Literal, Scalar};
use std::collections::HashMap;
use std::ops::Range;

/// The fewest guarded loads that are worth sections wherever they lie. Fewer may be the borders of a padded tensor.
const FEWEST_GUARDED: usize = 3;
/// The points of a block.
const BLOCK: usize = 2048;

/// A map with sections, ready to run.
pub struct SectionLaunch {
    axis: PointAxis,
    sections: Vec<Section>,
    /// The section and the rows of each chunk.
    chunks: Vec<(usize, Range<usize>)>,
}

struct Section {
    along: Range<usize>,
    program: Program,
    uniforms: Memory,
}

/// An axis of the points: its extent, and the points from one coordinate to the next.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
struct PointAxis {
    extent: usize,
    inner: usize,
}

impl KernelLaunch for SectionLaunch {
    fn size(&self) -> LaunchSize {
        let of = |section: &Section| {
            ScratchSize::of(&section.program, self.rows_per_block(section) * self.width(section), 1)
        };
        LaunchSize::of_programs(self.sections.iter().map(of).fold(ScratchSize::default(), ScratchSize::max))
    }

    unsafe fn run(&mut self, pool: &mut Pool, workers: &mut [WorkerScratch], call: Call) {
        let this = &*self;
        // SAFETY: the caller's; chunks are disjoint.
        unsafe {
            for Section { program, uniforms, .. } in &this.sections {
                call.frame(program, uniforms, 64).begin(&mut workers[0].worker, None);
            }
            pool.run_with(this.chunks.len(), workers, |chunk, scratch| {
                let _flushed = call.flushed();
                let (section, rows) = &this.chunks[chunk];
                let section = &this.sections[*section];
                let frame = call.frame(&section.program, &section.uniforms, 64);
                let worker = &mut scratch.worker;
                worker.has_next = false;
                for row in rows.clone().step_by(this.rows_per_block(section)) {
                    let height = this.rows_per_block(section).min(rows.end - row);
                    frame.run_insts(
                        worker,
                        &section.program.passes[0].element,
                        this.span(section, row, height),
                    );
                }
            });
        }
    }
}

impl SectionLaunch {
    /// Compiles a map whose loads are guarded along an axis; `None` for all other bodies. `sharing` is the memory that each
    /// operand shares.
    ///
    /// # Errors
    /// If memory does not suffice.
    pub fn new(body: &FusedBody, sharing: &[Sharing]) -> Result<Option<SectionLaunch>, DeviceError> {
        let is_map = body.insts.iter().all(|inst| inst.class != Class::Row);
        let n_points = body.domain.points(Class::Element);
        let is_apart = sharing.iter().all(|sharing| *sharing != Sharing::Overlaps);
        let cut = bounds(body).filter(|_| is_map && is_apart && n_points > 0);
        let Some((axis, bounds)) = cut else { return Ok(None) };
        let n_rows = n_points / (axis.extent * axis.inner);
        let layout = Layout { spread: Spread::One, is_resident: true, is_contiguous: false, sharing };
        let section = |along: Range<usize>| -> Result<Section, DeviceError> {
            let program = compile(&within(body, axis, &along), layout);
            let uniforms = Memory::new(8 * program.n_uniforms)?;
            Ok(Section { along, program, uniforms })
        };
        let sections =
            bounds.windows(2).map(|pair| section(pair[0]..pair[1])).collect::<Result<Vec<_>, _>>()?;
        let mut launch = SectionLaunch { axis, sections, chunks: vec![] };
        let chunks = launch.sections.iter().enumerate().flat_map(|(i, section)| {
            let width = launch.width(section);
            let step = (chunk_points(&section.program, n_rows * width) / width).max(1);
            (0..n_rows).step_by(step).map(move |row| (i, row..(row + step).min(n_rows)))
        });
        launch.chunks = chunks.collect();
        Ok(Some(launch))
    }

    /// The neighbouring points of a section.
    fn width(&self, section: &Section) -> usize {
        section.along.len() * self.axis.inner
    }

    fn rows_per_block(&self, section: &Section) -> usize {
        (BLOCK / self.width(section)).max(1)
    }

    fn span(&self, section: &Section, row: usize, height: usize) -> Span {
        let PointAxis { extent, inner } = self.axis;
        let start = (row * extent + section.along.start) * inner;
        Span { start, width: self.width(section), height, pitch: extent * inner, along: 0, bundle: height }
    }
}

/// The guards of an access along axes of the points.
fn guards(access: &Access) -> impl Iterator<Item = (PointAxis, Range<usize>)> + '_ {
    let [level] = &access.levels[..] else { return vec![].into_iter() };
    let of = |axis: usize| PointAxis {
        extent: level.axes[axis].extent,
        inner: level.axes[axis + 1..].iter().map(|axis| axis.extent).product(),
    };
    level.guards.iter().map(|guard| (of(guard.axis), guard.low..guard.high)).collect::<Vec<_>>().into_iter()
}

/// The axis that most loads are guarded along, and the coordinates where a section begins or ends, in order.
fn bounds(body: &FusedBody) -> Option<(PointAxis, Vec<usize>)> {
    let mut by_axis: HashMap<PointAxis, Vec<Range<usize>>> = HashMap::new();
    for inst in body.insts.iter().filter(|inst| inst.class == Class::Element) {
        if let FusedOp::Load { access, .. } = &inst.op {
            guards(access).for_each(|(axis, inside)| by_axis.entry(axis).or_default().push(inside));
        }
    }
    let (axis, inside) = by_axis.into_iter().max_by_key(|(axis, inside)| (inside.len(), *axis))?;
    let mut bounds: Vec<usize> = inside.iter().flat_map(|inside| [inside.start, inside.end]).collect();
    bounds.extend([0, axis.extent]);
    bounds.retain(|&bound| bound <= axis.extent);
    bounds.sort_unstable();
    bounds.dedup();
    let are_parts = matches!(&inside[..], [a, b] if a.end <= b.start || b.end <= a.start);
    (inside.len() >= FEWEST_GUARDED || are_parts).then_some((axis, bounds))
}

/// The body at the points of a section: loads without guards, or the values of points outside, and what follows from them.
fn within(body: &FusedBody, axis: PointAxis, along: &Range<usize>) -> FusedBody {
    let mut section = BodyOfSection { axis, along, insts: vec![], stands_for: vec![] };
    for (reg, inst) in body.insts.iter().enumerate() {
        let op = with_registers(&inst.op, |arg| section.stands_for[arg]);
        let known = section.known(&op, inst);
        section.stands_for.push(if let Some(Known::Register(other)) = known { other } else { reg });
        section.insts.push(match known {
            Some(Known::Constant(value)) => {
                FusedInst { op: FusedOp::Const(value), class: Class::Uniform, ..inst.clone() }
            }
            _ => FusedInst { op: section.without_guards(op), ..inst.clone() },
        });
    }
    stores_only(&FusedBody { insts: section.insts, ..body.clone() })
}

/// What is known of a register in a section.
enum Known {
    Constant(Literal),
    Register(Reg),
}

struct BodyOfSection<'a> {
    axis: PointAxis,
    along: &'a Range<usize>,
    insts: Vec<FusedInst>,
    /// For each register, the register with its value.
    stands_for: Vec<Reg>,
}

impl BodyOfSection<'_> {
    fn known(&self, op: &FusedOp, inst: &FusedInst) -> Option<Known> {
        match op {
            FusedOp::Load { access, .. } => self.fill(access).map(Known::Constant),
            FusedOp::Scalar(Scalar::Select, args) => match self.constant(args[0])? {
                Literal::Bool(holds) => Some(Known::Register(args[if holds { 1 } else { 2 }])),
                _ => None,
            },
            FusedOp::Scalar(Scalar::Binary(Binary::Lt), args) => {
                let ([least, most], bound) = (self.coordinates(args[0])?, self.constant(args[1])?.as_i64());
                ((least < bound) == (most < bound)).then_some(Known::Constant(Literal::Bool(least < bound)))
            }
            FusedOp::Scalar(Scalar::Binary(Binary::Add), args) if inst.dtype.is_float() => {
                self.sum(args[0], args[1])
            }
            _ => None,
        }
    }

    /// The value of points outside, if no point of the section lies inside.
    fn fill(&self, access: &Access) -> Option<Literal> {
        let outside = |(axis, inside): &(PointAxis, Range<usize>)| {
            *axis == self.axis && (self.along.end <= inside.start || inside.end <= self.along.start)
        };
        let [level] = &access.levels[..] else { return None };
        guards(access).position(|guard| outside(&guard)).map(|i| level.guards[i].fill)
    }

    fn constant(&self, reg: Reg) -> Option<Literal> {
        match self.insts[reg].op {
            FusedOp::Const(value) => Some(value),
            _ => None,
        }
    }

    /// The least and the greatest value of a coordinate along the axis.
    fn coordinates(&self, reg: Reg) -> Option<[i64; 2]> {
        let FusedOp::Coord(access) = &self.insts[reg].op else { return None };
        let [level] = &access.levels[..] else { return None };
        let mut moving =
            level.axes.iter().enumerate().filter(|(_, axis)| axis.stride != 0 && axis.extent > 1);
        let (at, axis) = moving.next().filter(|_| level.guards.is_empty())?;
        let inner = level.axes[at + 1..].iter().map(|axis| axis.extent).product();
        let is_own = moving.next().is_none() && self.axis == PointAxis { extent: axis.extent, inner };
        let value = |coordinate: usize| level.offset + coordinate as i64 * axis.stride;
        let ends = [value(self.along.start), value(self.along.end - 1)];
        is_own.then(|| [ends[0].min(ends[1]), ends[0].max(ends[1])])
    }

    /// A sum of zeros, or of a zero and a sum with a zero, which is not -0.
    fn sum(&self, a: Reg, b: Reg) -> Option<Known> {
        let is_zero = |reg: Reg| match self.constant(reg) {
            Some(Literal::Float(value)) => value.to_bits() == 0,
            Some(Literal::Int(value)) => value == 0,
            _ => false,
        };
        let is_sum = |reg: Reg| match &self.insts[reg].op {
            FusedOp::Scalar(Scalar::Binary(Binary::Add), args) => args.iter().any(|&arg| is_zero(arg)),
            _ => false,
        };
        match (is_zero(a), is_zero(b)) {
            (true, true) => Some(Known::Register(a)),
            (false, true) if is_sum(a) => Some(Known::Register(a)),
            (true, false) if is_sum(b) => Some(Known::Register(b)),
            _ => None,
        }
    }

    /// A load without the guards that hold in the whole section.
    fn without_guards(&self, op: FusedOp) -> FusedOp {
        let FusedOp::Load { operand, mut access, index } = op else { return op };
        let holds: Vec<bool> = guards(&access)
            .map(|(axis, inside)| {
                axis == self.axis && inside.start <= self.along.start && self.along.end <= inside.end
            })
            .collect();
        if let [level] = &mut access.levels[..] {
            let mut holds = holds.into_iter();
            level.guards.retain(|_| !holds.next().unwrap_or(false));
        }
        FusedOp::Load { operand, access, index }
    }
}
