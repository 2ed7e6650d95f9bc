//! `InverseSqrt`: a schedule of learning rates.

use engine::core::pipeline::{Rate, ScheduleForm, Setting, SettingKind};

/// `InverseSqrt(start: 1e-2, every: 100)`: `start / √(1 + s / every)` at step s.
pub const INVERSE_SQRT: ScheduleForm = ScheduleForm {
    name: "InverseSqrt",
    summary: "Falls with the square root of the step.",
    settings: &[
        Setting { name: "start", kind: SettingKind::Number, default: None },
        Setting { name: "every", kind: SettingKind::Positive, default: Some(1.0) },
    ],
    rate: Rate::OfStep(|schedule, step, _last| {
        schedule.get("start") / (step / schedule.get("every") + 1.0).sqrt()
    }),
};
