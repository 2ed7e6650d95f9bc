//! Numbers that depend on the step, an open set of schedules.

use crate::ir::E;
use crate::op::Form;
use std::f64::consts::PI;
use std::fmt;

/// A schedule: a number that depends on the step.
pub struct ScheduleForm {
    /// The word that pipelines use: `Cosine`.
    pub name: &'static str,
    /// One sentence for listings.
    pub summary: &'static str,
    /// Its settings, in the order in which they may stand without names.
    pub settings: &'static [Setting],
    /// The number at a step, counted from 0; the last argument is the number of the last step. Settings are read by name.
    pub formula: fn(&Schedule, E, f64) -> E,
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
        &[CONSTANT, EXP, COSINE, LINEAR, STEPS]
    }
}

/// A schedule with its settings.
#[derive(Clone, PartialEq)]
pub struct Schedule {
    name: &'static str,
    formula: ScheduleFormula,
    settings: Vec<(&'static str, f64)>,
}

#[derive(Clone)]
struct ScheduleFormula(fn(&Schedule, E, f64) -> E);

impl PartialEq for ScheduleFormula {
    /// Schedules are told apart by their names.
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl fmt::Debug for Schedule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct(self.name);
        self.settings.iter().for_each(|(name, value)| _ = shown.field(name, value));
        shown.finish()
    }
}

impl Schedule {
    /// A schedule of that form; as many numbers as the form has settings, in their order.
    pub fn new(form: &ScheduleForm, values: impl IntoIterator<Item = f64>) -> Schedule {
        let settings = form.settings.iter().map(|setting| setting.name).zip(values).collect();
        Schedule { name: form.name, formula: ScheduleFormula(form.formula), settings }
    }

    /// The same number at every step.
    pub fn constant(value: f64) -> Schedule {
        Schedule::new(&CONSTANT, [value])
    }

    /// The number at a step, of which `last` is the last.
    pub fn at(&self, step: E, last: f64) -> E {
        (self.formula.0)(self, step, last)
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

const fn zero(name: &'static str, kind: SettingKind) -> Setting {
    Setting { name, kind, default: Some(0.0) }
}

const CONSTANT: ScheduleForm = ScheduleForm {
    name: "Constant",
    summary: "The same number at every step.",
    settings: &[required("value", SettingKind::Number)],
    formula: |schedule, _, _| schedule.get("value").into(),
};

const EXP: ScheduleForm = ScheduleForm {
    name: "Exp",
    summary: "`max(end, start · exp(-rate · s))` at step s.",
    settings: &[
        required("start", SettingKind::Number),
        zero("end", SettingKind::Number),
        required("rate", SettingKind::Number),
    ],
    formula: |schedule, step, _| {
        let (start, rate) = (schedule.get("start"), schedule.get("rate"));
        (start * (step * -rate).exp()).max(schedule.get("end"))
    },
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
    formula: |schedule, step, last| {
        let (start, end) = (schedule.get("start"), schedule.get("end"));
        let angle = progress(schedule, step, last) * PI;
        warmed(schedule, step, end + (start - end) * 0.5 * (1.0 + angle.cos()))
    },
};

const LINEAR: ScheduleForm = ScheduleForm {
    name: "Linear",
    summary: "Rises to `start` in `warmup` steps, then falls to `end` along a line.",
    settings: FALLING,
    formula: |schedule, step, last| {
        let (start, end) = (schedule.get("start"), schedule.get("end"));
        warmed(schedule, step, start + (end - start) * progress(schedule, step, last))
    },
};

const STEPS: ScheduleForm = ScheduleForm {
    name: "Steps",
    summary: "`start · factor^⌊s / every⌋` at step s.",
    settings: &[
        required("start", SettingKind::Number),
        required("factor", SettingKind::Number),
        required("every", SettingKind::Positive),
    ],
    formula: |schedule, step, _| {
        let every = schedule.get("every").max(1.0);
        schedule.get("start") * E::from(schedule.get("factor")).pow((step / every).floor())
    },
};

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
