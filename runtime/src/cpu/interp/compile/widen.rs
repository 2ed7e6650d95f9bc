//! Half precision as casts to f32 and back.

use engine_core::codegen::with_registers;
use engine_core::fusion::{Class, FusedBody, FusedInst, FusedOp, Reg};
use engine_core::ir::{DType, Monoid, Scalar};
use std::collections::HashMap;

/// The body with half precision computed in f32; each operation rounds to half again.
pub(super) fn widened(body: &FusedBody) -> FusedBody {
    let mut widening = Widening { insts: vec![], renamed: vec![], wide: HashMap::new() };
    body.insts.iter().for_each(|inst| widening.push(inst));
    FusedBody { insts: widening.insts, ..body.clone() }
}

struct Widening {
    insts: Vec<FusedInst>,
    renamed: Vec<Reg>,
    /// The f32 form of half registers.
    wide: HashMap<Reg, Reg>,
}

impl Widening {
    fn push(&mut self, inst: &FusedInst) {
        let op = with_registers(&inst.op, |arg| self.renamed[arg]);
        let reg = match &op {
            FusedOp::Scalar(Scalar::Cast(_) | Scalar::Select, _) => self.emit(op, inst.dtype, inst.class),
            FusedOp::Scalar(scalar, args) => {
                let args = args.iter().map(|&arg| self.widen(arg)).collect();
                self.narrowed(FusedOp::Scalar(scalar.clone(), args), inst)
            }
            FusedOp::Reduce { monoid, value } => {
                let value = self.reduced_value(*monoid, *value, inst.dtype);
                self.narrowed(FusedOp::Reduce { monoid: *monoid, value }, inst)
            }
            FusedOp::Accumulator | FusedOp::SecondAccumulator => self.narrowed(op, inst),
            _ => self.emit(op, inst.dtype, inst.class),
        };
        self.renamed.push(reg);
    }

    /// The value in the type that it is accumulated in.
    fn reduced_value(&mut self, monoid: Monoid, value: Reg, result: DType) -> Reg {
        let value = self.widen(value);
        let dtype = if monoid.is_index() { self.insts[value].dtype } else { result.accumulator() };
        if self.insts[value].dtype == dtype {
            return value;
        }
        self.emit(FusedOp::Scalar(Scalar::Cast(dtype), vec![value]), dtype, Class::Element)
    }

    /// Computes in f32 and rounds, if the result is half precision.
    fn narrowed(&mut self, op: FusedOp, inst: &FusedInst) -> Reg {
        let reg = self.emit(op, inst.dtype.accumulator(), inst.class);
        if inst.dtype.accumulator() == inst.dtype {
            return reg;
        }
        let narrow = FusedOp::Scalar(Scalar::Cast(inst.dtype), vec![reg]);
        self.emit(narrow, inst.dtype, inst.class)
    }

    fn widen(&mut self, reg: Reg) -> Reg {
        let FusedInst { dtype, class, .. } = self.insts[reg];
        if dtype.accumulator() == dtype {
            return reg;
        }
        if let Some(&wide) = self.wide.get(&reg) {
            return wide;
        }
        let wide = self.emit(FusedOp::Scalar(Scalar::Cast(DType::F32), vec![reg]), DType::F32, class);
        self.wide.insert(reg, wide);
        wide
    }

    fn emit(&mut self, op: FusedOp, dtype: DType, class: Class) -> Reg {
        self.insts.push(FusedInst { op, dtype, class });
        self.insts.len() - 1
    }
}
