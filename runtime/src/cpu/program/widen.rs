//! Half precision spelled out as casts.

use super::with_args;
use engine_core::fuse::{Class, Reg, Tile, TileInst, TileOp};
use engine_core::ir::{DType, Monoid, Scalar};
use std::collections::HashMap;

/// Computes in f32 what the tile computes in half precision; each operation rounds to half again.
pub(super) fn widened(tile: &Tile) -> Tile {
    let mut widening = Widening { insts: vec![], renamed: vec![], wide: HashMap::new() };
    tile.insts.iter().for_each(|inst| widening.push(inst));
    Tile { insts: widening.insts, ..tile.clone() }
}

struct Widening {
    insts: Vec<TileInst>,
    renamed: Vec<Reg>,
    /// The f32 form of half registers.
    wide: HashMap<Reg, Reg>,
}

impl Widening {
    fn push(&mut self, inst: &TileInst) {
        let op = with_args(&inst.op, |arg| self.renamed[arg]);
        let reg = match &op {
            TileOp::Scalar(Scalar::Cast(_) | Scalar::Select, _) => self.emit(op, inst.dtype, inst.class),
            TileOp::Scalar(scalar, args) => {
                let args = args.iter().map(|&arg| self.widen(arg)).collect();
                self.narrowed(TileOp::Scalar(scalar.clone(), args), inst)
            }
            TileOp::Reduce { monoid, value } => {
                let value = self.reduced_value(*monoid, *value, inst.dtype);
                self.narrowed(TileOp::Reduce { monoid: *monoid, value }, inst)
            }
            TileOp::Accumulator => self.narrowed(op, inst),
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
        self.emit(TileOp::Scalar(Scalar::Cast(dtype), vec![value]), dtype, Class::Element)
    }

    /// Computes in f32 and rounds, if the result is half precision.
    fn narrowed(&mut self, op: TileOp, inst: &TileInst) -> Reg {
        let reg = self.emit(op, inst.dtype.accumulator(), inst.class);
        if inst.dtype.accumulator() == inst.dtype {
            return reg;
        }
        let narrow = TileOp::Scalar(Scalar::Cast(inst.dtype), vec![reg]);
        self.emit(narrow, inst.dtype, inst.class)
    }

    fn widen(&mut self, reg: Reg) -> Reg {
        let TileInst { dtype, class, .. } = self.insts[reg];
        if dtype.accumulator() == dtype {
            return reg;
        }
        if let Some(&wide) = self.wide.get(&reg) {
            return wide;
        }
        let wide = self.emit(TileOp::Scalar(Scalar::Cast(DType::F32), vec![reg]), DType::F32, class);
        self.wide.insert(reg, wide);
        wide
    }

    fn emit(&mut self, op: TileOp, dtype: DType, class: Class) -> Reg {
        self.insts.push(TileInst { op, dtype, class });
        self.insts.len() - 1
    }
}
