//! Attention of few rows in parts of the keys: a block for each part of a row, and a kernel that joins the parts.
//!
//! With one block per row, a few rows leave most SMs idle. A part has its own largest score and its own sum of exponentials. The
//! second kernel scales the parts to the largest score of the whole row, as the running sums of an online softmax are
//! scaled (flash decoding, Dao et al. 2023).

use crate::codegen::analysis::online_softmax::{OnlineSoftmax, Reference};
use crate::codegen::analysis::operands::with_registers;
use crate::device_model::DeviceModel;
use crate::fusion::{Access, AttentionBody, Class, Domain, FusedBody, FusedInst, FusedOp, Reg};
use crate::ir::{Binary, DType, Literal, Monoid, Scalar, Unary};
use std::collections::HashMap;

/// Blocks for each SM. Blocks of two parts on an SM hide each other's latency.
const BLOCKS_PER_PROCESSOR: usize = 2;
/// The fewest keys of a part. Shorter parts cost more to join than they save.
const FEWEST_KEYS: usize = 64;
/// The most parts of a row, which one thread joins.
const MOST_PARTS: usize = 32;

/// The parts of a row's keys: more than one if one block per row would leave SMs idle, or if a block does not hold the keys.
/// They divide the keys evenly, so a point has the same number in a part as in its row. None if no number of parts does.
pub fn n_parts(n_rows: usize, n_keys: usize, device: &DeviceModel) -> Option<usize> {
    let wanted = BLOCKS_PER_PROCESSOR * device.n_processors / n_rows.max(1);
    let fewest = n_keys.div_ceil(device.kernels.most_keys.max(1)).max(1);
    let most = wanted.min(n_keys / FEWEST_KEYS).clamp(1, MOST_PARTS).max(fewest);
    let divides = |parts: &usize| n_keys.is_multiple_of(*parts);
    (fewest..=most).rev().find(divides).or_else(|| (fewest..=MOST_PARTS).find(divides))
}

/// Whether the device has a kernel for an attention of few queries to more keys than a block holds.
pub fn takes(body: &AttentionBody, device: &DeviceModel) -> bool {
    let parts = n_parts(body.batch * body.m, body.n, device);
    parts.is_some_and(|parts| AttentionInParts::of(body, parts, 0).is_some())
}

/// The bodies of an attention in parts. Partial results lie in a workspace of `f32`: the weighed sums of values by part, then the
/// largest scores, then the sums of exponentials.
pub struct AttentionInParts {
    /// Parts of a row.
    pub parts: usize,
    /// Over rows of a part's scores, which are the operand after the workspace and are overwritten by their exponentials.
    pub rows: FusedBody,
    /// At each point of a part's weighed sums of values, which it stores.
    pub sums: FusedBody,
    /// Over rows of the result: joins the parts, and stores what the attention stores.
    pub joined: FusedBody,
    /// Elements of the workspace.
    pub n_elements: usize,
}

impl AttentionInParts {
    /// The bodies, if the rows are an online softmax in `f32`. `workspace` is the number of the operand with partial results.
    pub fn of(body: &AttentionBody, parts: usize, workspace: usize) -> Option<AttentionInParts> {
        let softmax = OnlineSoftmax::of(body)?;
        let all = Parts { body, softmax: &softmax, parts, workspace };
        Some(AttentionInParts {
            parts,
            rows: all.rows(),
            sums: all.sums(),
            joined: all.joined()?,
            n_elements: all.n_elements(),
        })
    }
}

/// What the bodies are made of.
struct Parts<'a> {
    body: &'a AttentionBody,
    softmax: &'a OnlineSoftmax,
    parts: usize,
    /// The operand number of the workspace.
    workspace: usize,
}

impl Parts<'_> {
    fn n_rows(&self) -> usize {
        self.body.batch * self.body.m
    }

    /// Parts of all rows.
    fn n_all(&self) -> usize {
        self.n_rows() * self.parts
    }

    fn n_elements(&self) -> usize {
        self.n_all() * (self.body.width + 2)
    }

    /// The first elements of the largest scores and of the sums of exponentials.
    fn starts(&self) -> [i64; 2] {
        let start = self.n_all() * self.body.width;
        [start, start + self.n_all()].map(|start| start as i64)
    }

    /// The body over rows of a part's scores, which lie in shared memory and are overwritten by their exponentials.
    fn rows(&self) -> FusedBody {
        let length = self.body.n / self.parts;
        let domain = Domain { outer: self.n_all(), row: length, inner: 1 };
        let in_shared = || Access::strided(&[domain.outer, domain.row], &[0, 1]);
        let scores = self.workspace + 1;
        let (element, score) = self.softmax.score_part(&self.body.rows, false);
        let mut insts = element.insts;
        for inst in &mut insts {
            match &mut inst.op {
                FusedOp::Accumulator => {
                    inst.op = FusedOp::Load { operand: scores, access: in_shared(), index: None };
                    inst.dtype = inst.dtype.accumulator();
                }
                op if inst.class == Class::Row => self.to_part(op),
                _ => {}
            }
        }
        let mut code = Insts { insts };
        let score = code.scalar(Scalar::Cast(DType::F32), &[score], Class::Element);
        let shifted = match self.softmax.reference {
            Reference::Zero => score,
            reference => {
                let largest = code.push(FusedOp::Reduce { monoid: Monoid::Max, value: score }, Class::Row);
                code.store(self.workspace, part_access(self.n_all(), self.starts()[0]), largest, Class::Row);
                // A part may be hidden even if its row is not.
                let reference = match reference {
                    Reference::FiniteOrZero => reference,
                    _ => Reference::LargestOrZero,
                };
                let shift = code.reference(reference, largest);
                code.scalar(Scalar::Binary(Binary::Sub), &[score, shift], Class::Element)
            }
        };
        let exp = code.scalar(Scalar::Unary(Unary::Exp), &[shifted], Class::Element);
        let sum = code.push(FusedOp::Reduce { monoid: Monoid::Sum, value: exp }, Class::Row);
        code.store(self.workspace, part_access(self.n_all(), self.starts()[1]), sum, Class::Row);
        code.store(scores, in_shared(), exp, Class::Element);
        FusedBody { domain, insts: code.insts }
    }

    /// Lets an instruction that runs once per row run once per part.
    fn to_part(&self, op: &mut FusedOp) {
        if let FusedOp::Load { access, .. } | FusedOp::Coord(access) | FusedOp::Random { access, .. } = op {
            let row_of_part = Access::strided(&[self.n_rows(), self.parts], &[1, 0]);
            access.levels.splice(0..0, row_of_part.levels);
            *access = access.normalized();
        }
    }

    /// Stores a part's weighed sums of values.
    fn sums(&self) -> FusedBody {
        let (outer, row) = (self.n_all(), self.body.width);
        let mut code = Insts { insts: vec![] };
        let sum = code.push(FusedOp::Accumulator, Class::Element);
        code.store(self.workspace, part_access(outer * row, 0), sum, Class::Element);
        FusedBody { domain: Domain { outer, row, inner: 1 }, insts: code.insts }
    }

    /// Joins the parts of each row. None if a weight is not computed in `f32`.
    fn joined(&self) -> Option<FusedBody> {
        let mut code = Insts { insts: vec![] };
        let shifts = self.of_parts(&mut code, self.starts()[0]);
        let (largest, scales) = match self.softmax.reference {
            Reference::Zero => (None, vec![None; self.parts]),
            reference => {
                let largest = code.folded(Binary::Max, &shifts, Class::Row);
                let whole = code.reference(reference, largest);
                let scale = |&shift: &Reg| Some(code.scale_of_part(reference, shift, whole));
                (Some(largest), shifts.iter().map(scale).collect())
            }
        };
        let sums = self.of_parts(&mut code, self.starts()[1]);
        let scaled = |code: &mut Insts, sum: Reg, scale: Option<Reg>, class: Class| match scale {
            Some(scale) => code.scalar(Scalar::Binary(Binary::Mul), &[sum, scale], class),
            None => sum,
        };
        let sums: Vec<Reg> = sums
            .into_iter()
            .zip(&scales)
            .map(|(sum, &scale)| scaled(&mut code, sum, scale, Class::Row))
            .collect();
        let sum = code.folded(Binary::Add, &sums, Class::Row);
        let factor = self.last(&mut code, largest, sum)?;
        let values: Vec<Reg> = (0..self.parts)
            .zip(&scales)
            .map(|(part, &scale)| {
                let value = code.load(self.workspace, self.values_of(part), Class::Element);
                scaled(&mut code, value, scale, Class::Element)
            })
            .collect();
        let value = code.folded(Binary::Add, &values, Class::Element);
        let value = code.scalar(Scalar::Binary(Binary::Mul), &[value, factor], Class::Element);
        let before = code.insts.len();
        let end = &self.body.end;
        code.insts.extend(end.insts.iter().map(|inst| match &inst.op {
            FusedOp::Accumulator => {
                FusedInst { op: FusedOp::Scalar(Scalar::Cast(inst.dtype), vec![value]), ..inst.clone() }
            }
            op => FusedInst { op: with_registers(op, |reg| reg + before), ..inst.clone() },
        }));
        Some(FusedBody { domain: end.domain, insts: code.insts })
    }

    /// What runs once a row after its last key. Returns the factor of the row's sum of values.
    fn last(&self, code: &mut Insts, largest: Option<Reg>, sum: Reg) -> Option<Reg> {
        let one = code.push(FusedOp::Const(Literal::Float(1.0)), Class::Uniform);
        let mut renamed = HashMap::from([(self.softmax.exp, one), (self.softmax.sum, sum)]);
        renamed.extend(self.softmax.largest.zip(largest));
        let mut factor = one;
        for &reg in &self.softmax.last {
            let inst = &self.body.rows.insts[reg];
            let is_of_weight = inst.class == Class::Element;
            if !renamed.contains_key(&reg) {
                match &inst.op {
                    // Conversions of weights would round the factor.
                    FusedOp::Scalar(Scalar::Cast(_), args) if is_of_weight => {
                        renamed.insert(reg, renamed[&args[0]]);
                    }
                    _ if is_of_weight && inst.dtype != DType::F32 => return None,
                    op => {
                        renamed.insert(reg, code.insts.len());
                        let op = with_registers(op, |arg| renamed[&arg]);
                        code.insts.push(FusedInst {
                            op,
                            dtype: inst.dtype,
                            class: inst.class.min(Class::Row),
                        });
                    }
                }
            }
            factor = if is_of_weight { renamed[&reg] } else { factor };
        }
        Some(factor)
    }

    /// A value of each part of the row.
    fn of_parts(&self, code: &mut Insts, start: i64) -> Vec<Reg> {
        let access = |part: usize| {
            let mut access = Access::strided(&[self.n_rows()], &[self.parts as i64]);
            access.levels[0].offset = start + part as i64;
            access
        };
        (0..self.parts).map(|part| code.load(self.workspace, access(part), Class::Row)).collect()
    }

    /// The weighed sums of values of a part.
    fn values_of(&self, part: usize) -> Access {
        let width = self.body.width;
        let mut access = Access::strided(&[self.n_rows(), width], &[(self.parts * width) as i64, 1]);
        access.levels[0].offset = (part * width) as i64;
        access
    }
}

/// `n` neighbouring elements from `start` on.
fn part_access(n: usize, start: i64) -> Access {
    let mut access = Access::strided(&[n], &[1]);
    access.levels[0].offset = start;
    access
}

/// Instructions in `f32`.
struct Insts {
    insts: Vec<FusedInst>,
}

impl Insts {
    fn push(&mut self, op: FusedOp, class: Class) -> Reg {
        self.insts.push(FusedInst { op, dtype: DType::F32, class });
        self.insts.len() - 1
    }

    fn scalar(&mut self, op: Scalar, args: &[Reg], class: Class) -> Reg {
        self.push(FusedOp::Scalar(op, args.to_vec()), class)
    }

    fn load(&mut self, operand: usize, access: Access, class: Class) -> Reg {
        self.push(FusedOp::Load { operand, access, index: None }, class)
    }

    fn store(&mut self, operand: usize, access: Access, value: Reg, class: Class) {
        self.push(FusedOp::Store { operand, access, value, index: None }, class);
    }

    /// Values combined from the first to the last.
    fn folded(&mut self, op: Binary, values: &[Reg], class: Class) -> Reg {
        let rest = values[1..].iter();
        rest.fold(values[0], |total, &value| self.scalar(Scalar::Binary(op), &[total, value], class))
    }

    /// What is subtracted from the scores of a row with this largest one.
    fn reference(&mut self, reference: Reference, largest: Reg) -> Reg {
        match reference {
            Reference::Zero => self.push(FusedOp::Const(Literal::Float(0.0)), Class::Uniform),
            Reference::Largest => largest,
            Reference::LargestOrZero => self.zero_at(largest, f64::NEG_INFINITY, largest),
            Reference::FiniteOrZero => {
                let size = self.scalar(Scalar::Unary(Unary::Abs), &[largest], Class::Row);
                self.zero_at(size, f64::INFINITY, largest)
            }
        }
    }

    /// `value`, or 0 where `tested` is `limit`.
    fn zero_at(&mut self, tested: Reg, limit: f64, value: Reg) -> Reg {
        let [limit, zero] =
            [limit, 0.0].map(|number| self.push(FusedOp::Const(Literal::Float(number)), Class::Uniform));
        let is_there = self.scalar(Scalar::Binary(Binary::Eq), &[tested, limit], Class::Row);
        self.insts[is_there].dtype = DType::Bool;
        self.scalar(Scalar::Select, &[is_there, zero, value], Class::Row)
    }

    /// The factor from the exponentials of a part to those of its row: `exp(shift - whole)`. A hidden part, whose largest score
    /// is `-inf`, counts nothing.
    fn scale_of_part(&mut self, reference: Reference, largest: Reg, whole: Reg) -> Reg {
        let shift = match reference {
            Reference::FiniteOrZero => self.zero_at(largest, f64::INFINITY, largest),
            _ => largest,
        };
        let difference = self.scalar(Scalar::Binary(Binary::Sub), &[shift, whole], Class::Row);
        self.scalar(Scalar::Unary(Unary::Exp), &[difference], Class::Row)
    }
}
