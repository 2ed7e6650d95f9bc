//! Access maps as instructions.
//!
//! Strides and inner extents are part of the text. The outermost extent of a level is not, as no point of the
//! domain reaches it. Batches of any size thus share a text.

use crate::codegen::ir::builder::{BOOL, Code};
use crate::codegen::ops::scalar::literal;
use crate::fusion::{Access, Guard, Level};
use crate::ir::{DType, Literal};
use cubecl_core::ir::{Comparison, Variable};

/// An element number, and the guards that replace the element by a fill value.
pub struct Element {
    /// The number; meaningless where a guard excludes the point.
    pub index: Variable,
    /// By guard: whether the point is inside, and the fill value if not. Earlier guards take precedence.
    guards: Vec<(Variable, Literal)>,
}

/// The element that `access` maps `point` to.
pub fn element(code: &mut Code, access: &Access, point: Variable) -> Element {
    let mut element = Element { index: point, guards: vec![] };
    for level in &access.normalized().levels {
        element = through(code, level, element);
    }
    element
}

fn through(code: &mut Code, level: &Level, from: Element) -> Element {
    let Element { index: mut rest, mut guards } = from;
    let mut address = code.at(level.offset);
    let is_used = |i: usize| level.axes[i].stride != 0 || level.guards.iter().any(|guard| guard.axis == i);
    for (i, axis) in level.axes.iter().enumerate().rev() {
        let coordinate = match (is_used(i), i) {
            (false, _) => code.at(0),
            (true, 0) => rest,
            (true, _) => code.modulo(rest, axis.extent),
        };
        if (0..i).any(is_used) {
            rest = code.divided(rest, axis.extent);
        }
        for guard in level.guards.iter().filter(|guard| guard.axis == i) {
            guards.push((inside(code, guard, axis.extent, coordinate), guard.fill));
        }
        let step = code.scaled(coordinate, axis.stride);
        address = code.add_at(address, step);
    }
    Element { index: address, guards }
}

fn inside(code: &mut Code, guard: &Guard, extent: usize, coordinate: Variable) -> Variable {
    let [low, high] = [guard.low, guard.high].map(|bound| code.at(bound as i64));
    match (guard.low > 0, guard.high < extent) {
        (false, false) => code.bool(true),
        (false, true) => code.less(coordinate, high),
        (true, false) => code.cmp(Comparison::GreaterEqual, coordinate, low),
        (true, true) => {
            let above = code.cmp(Comparison::GreaterEqual, coordinate, low);
            let below = code.less(coordinate, high);
            code.and(above, below)
        }
    }
}

impl Element {
    /// The number, or 0 where a guard excludes the point.
    pub fn safe(&self, code: &mut Code) -> Variable {
        let Some(inside) = self.inside(code) else { return self.index };
        let first = code.at(0);
        code.select(inside, self.index, first)
    }

    /// `value`, or the fill value of the guard that excludes the point.
    pub fn filled(&self, code: &mut Code, dtype: DType, value: Variable) -> Variable {
        self.guards.iter().rev().fold(value, |value, &(inside, fill)| {
            let fill = literal(code, dtype, fill);
            code.select(inside, value, fill)
        })
    }

    /// Whether no guard excludes the point; none if there is no guard.
    pub fn inside(&self, code: &mut Code) -> Option<Variable> {
        let all = self.guards.iter().map(|&(inside, _)| inside);
        all.reduce(|all, inside| {
            debug_assert_eq!(all.elem_type(), BOOL);
            code.and(all, inside)
        })
    }
}
