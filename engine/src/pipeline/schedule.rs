//! Numbers that change in the course of training, an open set of schedules.

use super::Goal;
use crate::ir::{E, Graph, Symbol};
use crate::op::Form;
use std::f64::consts::PI;
use std::fmt;
use std::sync::Arc;

/// A schedule: a number that depends on the step, or on the metric of the epochs so far.
pub struct ScheduleForm {
    /// The word that pipelines use: `Cosine`.
    pub name: &'static str,
    /// One sentence for listings.
    pub summary: &'static str,
    /// Its settings, in the order in which they may stand without names.
    pub settings: &'static [Setting],
    /// What the number depends on. Settings are read by name.
    pub rate: Rate,
}

/// What a schedule depends on.
#[derive(Clone, Debug)]
pub enum Rate {
    /// The number at a step, counted from 0; the last argument is the number of the last step.
    OfStep(fn(&Schedule, E, f64) -> E),
    /// A number that each epoch may change.
    OfMetric(MetricRate),
    /// The one output of a graph, `f32[]`, whose one input is the step.
    Expression(Arc<Graph>),
}

/// A number that depends on the monitored metric of the epochs so far.
#[derive(Clone, Copy, Debug)]
pub struct MetricRate {
    /// The number that training starts with, then any others that are carried from epoch to epoch. Checkpoints keep it.
    pub begin: fn(&Schedule) -> Vec<f64>,
    /// Changes these numbers after an epoch, given its metric and the better direction.
    pub next: fn(&Schedule, &mut [f64], f64, Goal),
}

/// A number that a schedule is given.
pub struct Setting {
    /// Its name.
    pub name: &'static str,
    /// Which numbers it may be.
    pub kind: SettingKind,
    /// Its value if it is left out; none: it must be given.
    pub default: Option<f64>,
}

/// Which numbers a setting may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SettingKind {
    /// Any finite number of at least 0.
    Number,
    /// A finite number of more than 0.
    MoreThanZero,
    /// A number from 0 to 1.
    Share,
    /// A whole number of at least 0.
    Count,
    /// A whole number of at least 1.
    Positive,
}

impl Form for ScheduleForm {
    const SET: &'static str = "schedule";

    fn name(&self) -> &str {
        self.name
    }

    fn builtin() -> &'static [Self] {
        &[CONSTANT, EXP, COSINE, LINEAR, STEPS, ONE_CYCLE, PLATEAU]
    }
}

/// A schedule with its settings.
#[derive(Clone)]
pub struct Schedule {
    name: Symbol,
    rate: Rate,
    settings: Vec<(&'static str, f64)>,
}

impl PartialEq for Schedule {
    /// Schedules are told apart by their names. The name of an expression is its text.
    fn eq(&self, other: &Self) -> bool {
        (&self.name, &self.settings) == (&other.name, &other.settings)
    }
}

impl fmt::Debug for Schedule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct(&self.name);
        self.settings.iter().for_each(|(name, value)| _ = shown.field(name, value));
        shown.finish()
    }
}

impl Schedule {
    /// A schedule of that form; as many numbers as the form has settings, in their order.
    pub fn new(form: &ScheduleForm, values: impl IntoIterator<Item = f64>) -> Schedule {
        let settings = form.settings.iter().map(|setting| setting.name).zip(values).collect();
        Schedule { name: form.name.into(), rate: form.rate.clone(), settings }
    }

    /// The value of an expression of the step, written as `text`; see [`Rate::Expression`].
    pub fn expression(text: &str, graph: Graph) -> Schedule {
        Schedule { name: text.into(), rate: Rate::Expression(Arc::new(graph)), settings: vec![] }
    }

    /// The same number at every step.
    pub fn constant(value: f64) -> Schedule {
        Schedule::new(&CONSTANT, [value])
    }

    /// What it depends on.
    pub fn rate(&self) -> &Rate {
        &self.rate
    }

    /// Its rule, if it depends on a metric.
    pub fn metric_rate(&self) -> Option<MetricRate> {
        match self.rate {
            Rate::OfMetric(rate) => Some(rate),
            Rate::OfStep(_) | Rate::Expression(_) => None,
        }
    }

    /// The setting of that name.
    ///
    /// # Panics
    /// If the form has no such setting.
    pub fn get(&self, name: &str) -> f64 {
        let found = self.settings.iter().find(|(known, _)| *known == name);
        found.unwrap_or_else(|| crate::bug!("schedule `{}` has no setting `{name}`", self.name)).1
    }
}

const fn required(name: &'static str, kind: SettingKind) -> Setting {
    Setting { name, kind, default: None }
}

const fn optional(name: &'static str, kind: SettingKind, default: f64) -> Setting {
    Setting { name, kind, default: Some(default) }
}

const fn zero(name: &'static str, kind: SettingKind) -> Setting {
    optional(name, kind, 0.0)
}

const CONSTANT: ScheduleForm = ScheduleForm {
    name: "Constant",
    summary: "The same number at every step.",
    settings: &[required("value", SettingKind::Number)],
    rate: Rate::OfStep(|schedule, _, _| schedule.get("value").into()),
};

const EXP: ScheduleForm = ScheduleForm {
    name: "Exp",
    summary: "`max(end, start · exp(-rate · s))` at step s.",
    settings: &[
        required("start", SettingKind::Number),
        zero("end", SettingKind::Number),
        required("rate", SettingKind::Number),
    ],
    rate: Rate::OfStep(|schedule, step, _| {
        let (start, rate) = (schedule.get("start"), schedule.get("rate"));
        (start * (step * -rate).exp()).max(schedule.get("end"))
    }),
};

/// The settings of schedules that rise from 0 to `start` during `warmup` steps, and fall to `end` at the last step.
const FALLING: &[Setting] = &[
    required("start", SettingKind::Number),
    zero("end", SettingKind::Number),
    zero("warmup", SettingKind::Count),
];

const COSINE: ScheduleForm = ScheduleForm {
    name: "Cosine",
    summary: "Rises to `start` in `warmup` steps, then falls to `end` along half a cosine.",
    settings: FALLING,
    rate: Rate::OfStep(|schedule, step, last| {
        let (start, end) = (schedule.get("start"), schedule.get("end"));
        warmed(schedule, step, half_cosine(start, end, progress(schedule, step, last)))
    }),
};

const LINEAR: ScheduleForm = ScheduleForm {
    name: "Linear",
    summary: "Rises to `start` in `warmup` steps, then falls to `end` along a line.",
    settings: FALLING,
    rate: Rate::OfStep(|schedule, step, last| {
        let (start, end) = (schedule.get("start"), schedule.get("end"));
        warmed(schedule, step, start + (end - start) * progress(schedule, step, last))
    }),
};

const STEPS: ScheduleForm = ScheduleForm {
    name: "Steps",
    summary: "`start · factor^⌊s / every⌋` at step s.",
    settings: &[
        required("start", SettingKind::Number),
        required("factor", SettingKind::Number),
        required("every", SettingKind::Positive),
    ],
    rate: Rate::OfStep(|schedule, step, _| {
        let every = schedule.get("every").max(1.0);
        schedule.get("start") * E::from(schedule.get("factor")).pow((step / every).floor())
    }),
};

/// `OneCycleLR` of PyTorch with cosine annealing in two phases (Smith and Topin 2018).
const ONE_CYCLE: ScheduleForm = ScheduleForm {
    name: "OneCycle",
    summary: "Rises from `max / div_factor` to `max`, then falls to a fraction of the first rate, both along half a cosine.",
    settings: &[
        required("max", SettingKind::Number),
        optional("pct_start", SettingKind::Share, 0.3),
        optional("div_factor", SettingKind::MoreThanZero, 25.0),
        optional("final_div_factor", SettingKind::MoreThanZero, 1e4),
    ],
    rate: Rate::OfStep(|schedule, step, last| {
        let max = schedule.get("max");
        let start = max / schedule.get("div_factor");
        let end = start / schedule.get("final_div_factor");
        let peak = schedule.get("pct_start") * (last + 1.0) - 1.0;
        let rising = || half_cosine(start, max, step / peak);
        let falling = || half_cosine(max, end, (step - peak) / (last - peak));
        match (peak > 0.0, peak < last) {
            (true, true) => E::select(step.le(peak), rising(), falling()),
            (true, false) => rising(),
            (false, _) => falling(),
        }
    }),
};

/// `ReduceLROnPlateau` of PyTorch. A metric that is not finite is never better.
const PLATEAU: ScheduleForm = ScheduleForm {
    name: "Plateau",
    summary: "Multiplied by `factor` after more than `patience` epochs without a better metric.",
    settings: &[
        required("start", SettingKind::Number),
        optional("factor", SettingKind::Share, 0.1),
        optional("patience", SettingKind::Count, 10.0),
        optional("threshold", SettingKind::Number, 1e-4),
        zero("cooldown", SettingKind::Count),
        zero("end", SettingKind::Number),
    ],
    rate: Rate::OfMetric(MetricRate {
        begin: |schedule| vec![schedule.get("start"), f64::NAN, 0.0, 0.0],
        next: |schedule, numbers, metric, goal| {
            let [rate, best, n_bad, cooldown] = numbers else { crate::bug!("a plateau has four numbers") };
            let is_better = match best.is_nan() {
                true => metric.is_finite(),
                false => goal.improves(metric, *best, schedule.get("threshold") * best.abs()),
            };
            (*best, *n_bad) = if is_better { (metric, 0.0) } else { (*best, *n_bad + 1.0) };
            if *cooldown > 0.0 {
                (*cooldown, *n_bad) = (*cooldown - 1.0, 0.0);
            }
            if *n_bad > schedule.get("patience") {
                *rate = (*rate * schedule.get("factor")).max(schedule.get("end").min(*rate));
                (*cooldown, *n_bad) = (schedule.get("cooldown"), 0.0);
            }
        },
    }),
};

/// From `from` at 0 to `to` at 1 along half a cosine.
fn half_cosine(from: f64, to: f64, share: E) -> E {
    to + (from - to) * 0.5 * (1.0 + (share * PI).cos())
}

/// From 0 at the first step after the warm-up to 1 at the last step.
fn progress(schedule: &Schedule, step: E, last: f64) -> E {
    let warmup = schedule.get("warmup");
    let span = (last - warmup).max(1.0);
    ((step - warmup) / span).max(0.0).min(1.0)
}

/// A rise from 0 at the first step to `start` at the step after the warm-up, then `after`.
fn warmed(schedule: &Schedule, step: E, after: E) -> E {
    let warmup = schedule.get("warmup");
    if warmup == 0.0 {
        return after;
    }
    let rising = step * (schedule.get("start") / warmup);
    E::select(step.lt(warmup), rising, after)
}
