//! Scaled losses, whose small gradients `f16` can hold (Micikevicius et al. 2018).
//!
//! The loss is multiplied by a factor before it is differentiated, and gradients of parameters are divided by it in `f32`.
//! A step whose gradients are not all finite is skipped and halves the factor. After a number of finite steps in a row,
//! the factor doubles.

use super::own::own_input;
use crate::ir::{Binary, Builder, DType, E, InputKind, Monoid, Scalar, StateLink, Symbol, Type, Value};
use crate::pipeline::{LossScale, StageIssue};

/// The largest and the smallest factor.
const BOUNDS: [f64; 2] = [1.0 / (1 << 24) as f64, (1u64 << 60) as f64];

/// The states of a stage that scales its loss.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScaleStates {
    /// `f32[]`: the factor, 0 before the first step.
    pub factor: Symbol,
    /// `i32[]`: finite steps since the factor has changed.
    pub finite: Symbol,
    /// `i32[]`: steps taken, without those that were skipped.
    pub taken: Symbol,
}

impl ScaleStates {
    /// The states, which have one name in all stages.
    pub fn named() -> ScaleStates {
        let name = |part: &str| Symbol::from(format!("loss_scale{part}"));
        ScaleStates { factor: name(""), finite: name(".finite"), taken: name(".taken") }
    }

    /// All of them.
    pub fn all(&self) -> [&Symbol; 3] {
        [&self.factor, &self.finite, &self.taken]
    }
}

/// The present factor.
pub(super) struct Factor {
    setting: LossScale,
    state: Value,
    value: Value,
}

impl Factor {
    /// Reads the factor.
    pub(super) fn read(b: &mut Builder, setting: LossScale) -> Result<Factor, StageIssue> {
        let name = ScaleStates::named().factor;
        let state = own_input(b, &name, InputKind::State, Type::scalar(DType::F32))?;
        b.set_scope(&name, None);
        let start = setting.start as f64;
        let value = b.map(&[state], |s| E::select(s[0].eq(0.0), start, s[0]));
        Ok(Factor { setting, state, value })
    }

    /// The factor in a graph with other numbers of nodes.
    pub(super) fn moved(self, map: &[Vec<Value>]) -> Factor {
        let [state, value] = [self.state, self.value].map(|value| map[value.node][value.port]);
        Factor { state, value, ..self }
    }

    /// The loss times the factor.
    pub(super) fn scaled(&self, b: &mut Builder, loss: Value) -> Value {
        b.set_scope(&ScaleStates::named().factor, None);
        let factor = b.cast(self.value, b.dtype(loss));
        b.mul(loss, factor)
    }

    /// Gradients divided by the factor.
    pub(super) fn unscaled(&self, b: &mut Builder, grads: Vec<Value>) -> Vec<Value> {
        b.set_scope(&ScaleStates::named().factor, None);
        let inverse = b.map(&[self.value], |s| s[0].recip());
        let divide = |grad| {
            let inverse = b.cast(inverse, b.dtype(grad).accumulator());
            let wide = b.widen(grad);
            let product = b.mul(wide, inverse);
            b.cast(product, b.dtype(grad))
        };
        grads.into_iter().map(divide).collect()
    }

    /// Counts a step with these gradients, which are unscaled, and adapts the factor.
    pub(super) fn step(self, b: &mut Builder, grads: &[Value]) -> Result<Guard, StageIssue> {
        let names = ScaleStates::named();
        let counter = Type::scalar(DType::I32);
        let run = own_input(b, &names.finite, InputKind::State, counter.clone())?;
        let taken = own_input(b, &names.taken, InputKind::State, counter)?;
        b.set_scope(&names.factor, None);
        let is_finite = are_finite(b, grads);
        let interval = self.setting.growth_interval as i64;
        let grows = b.map(&[is_finite, run], |v| v[0] & (v[1] + E::from(1i64)).ge(interval));
        let [low, high] = BOUNDS;
        let factor = b.map(&[is_finite, grows, self.value], |v| {
            let up = E::select(v[1], (v[2] * 2.0).min(high), v[2]);
            E::select(v[0], up, (v[2] * 0.5).max(low))
        });
        let run_next =
            b.map(&[is_finite, grows, run], |v| E::select(v[0] & !v[1], v[2] + E::from(1i64), E::from(0i64)));
        let taken_next = b.map(&[is_finite, taken], |v| E::select(v[0], v[1] + E::from(1i64), v[1]));
        for (state, next) in [(self.state, factor), (run, run_next), (taken, taken_next)] {
            b.graph.state.push(StateLink { input: state.node, next });
        }
        Ok(Guard { is_finite, taken })
    }
}

/// Whether a step is taken, and the number of those before it.
pub(super) struct Guard {
    is_finite: Value,
    /// Steps taken, `i32[]`.
    pub(super) taken: Value,
}

impl Guard {
    /// Lets the updates from `first` on, and those of the states `held`, keep their values in a skipped step.
    pub(super) fn hold(&self, b: &mut Builder, first: usize, held: &[Symbol]) {
        for at in 0..b.graph.state.len() {
            let StateLink { input, next } = b.graph.state[at];
            let name = b.graph.nodes[input].name().clone();
            if at >= first || held.contains(&name) {
                b.set_scope(&name, None);
                let next = b.scalar(Scalar::Select, &[self.is_finite, next, Value::of(input)]);
                b.graph.state[at].next = next;
            }
        }
    }
}

/// Whether all elements are finite.
fn are_finite(b: &mut Builder, grads: &[Value]) -> Value {
    let mut worst = b.constant(0.0, DType::F32);
    for &grad in grads {
        let wide = b.cast(grad, DType::F32);
        let largest = DType::F32.largest();
        let faults = b.map(&[wide], |g| E::select(g[0].abs().le(largest), 0.0, 1.0));
        let axes: Vec<usize> = (0..b.ty(faults).rank()).collect();
        let fault = b.reduce(Monoid::Max, faults, &axes);
        worst = b.binary(Binary::Max, worst, fault);
    }
    b.map(&[worst], |w| w[0].eq(0.0))
}
