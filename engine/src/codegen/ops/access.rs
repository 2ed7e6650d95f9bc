//! Access maps as instructions.
//!
//! Strides and inner extents are part of the text. The outermost extent of a level is not, as no point of the
//! domain reaches it. Batches of any size thus share a text.

use crate::codegen::ir::builder::{BOOL, Code, Term};
use crate::codegen::ops::coordinates::Number;
use crate::codegen::ops::scalar::literal;
use crate::fusion::{Access, Axis, Guard, Level};
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
    let mut guards = vec![];
    let mut number = Number::of(code, point);
    for level in &access.normalized().levels {
        number = through(code, level, &number, &mut guards);
    }
    Element { index: number.sum(code), guards }
}

/// The number that a level yields for a number. Its guards are added.
fn through(code: &mut Code, level: &Level, from: &Number, guards: &mut Vec<(Variable, Literal)>) -> Number {
    let is_used = |i: usize| level.axes[i].stride != 0 || level.guards.iter().any(|guard| guard.axis == i);
    let used: Vec<bool> = (0..level.axes.len()).map(is_used).collect();
    let mut terms = vec![];
    let coordinates = from.coordinates(code, &level.axes, &used);
    let mut rest = if coordinates.is_none() { from.sum(code) } else { code.at(0) };
    for (i, &Axis { extent, stride }) in level.axes.iter().enumerate().rev() {
        let value = match (&coordinates, used[i], i) {
            (Some(coordinates), ..) => coordinates[i],
            (None, false, _) => code.at(0),
            (None, true, 0) => rest,
            (None, true, _) => code.modulo(rest, extent),
        };
        if used[..i].contains(&true) {
            rest = code.divided(rest, extent);
        }
        for guard in level.guards.iter().filter(|guard| guard.axis == i) {
            guards.push((inside(code, guard, extent, value), guard.fill));
        }
        terms.push(Term { value, extent, stride });
    }
    Number { offset: level.offset, terms, whole: None }
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
