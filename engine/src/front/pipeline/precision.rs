//! The setting `precision` of a pipeline and of its stages.

use crate::diag::{Code, Diagnostics};
use crate::front::fields::report_unknown;
use crate::front::{Fields, Ron};
use crate::pipeline::{LossScale, MixedPrecision};

/// `F32`, `Bf16`, `F16` or `F16(loss_scale: 65536, growth_interval: 2000)`.
pub(super) fn read_precision(value: &Ron, what: &str, diags: &mut Diagnostics) -> Option<MixedPrecision> {
    let choices = [
        ("F32", MixedPrecision::F32),
        ("Bf16", MixedPrecision::Bf16),
        ("F16", MixedPrecision::F16(LossScale::default())),
    ];
    let Some(head) = value.head() else { return value.choice(what, &choices, diags) };
    let Some((_, found)) = choices.iter().find(|(name, _)| *name == head.value) else {
        let names = choices.iter().map(|(name, _)| *name);
        report_unknown(Code::E0014, head, &format!("{what} cannot be"), names, diags);
        return None;
    };
    let order: &[&str] = if found.loss_scale().is_some() { &["loss_scale", "growth_interval"] } else { &[] };
    let mut fields = Fields::of_choice(value, what, order, diags)?;
    let precision = match found.loss_scale() {
        Some(default) => read_scale(&mut fields, default, diags).map(MixedPrecision::F16),
        None => Some(*found),
    };
    fields.finish(diags);
    precision
}

fn read_scale(fields: &mut Fields, default: LossScale, diags: &mut Diagnostics) -> Option<LossScale> {
    let most = i32::MAX as usize;
    let mut count = |name: &'static str, default: usize| match fields.optional(name) {
        Some(value) => Some((value.span, value.integer(&format!("`{name}`"), 1..=most, diags)?)),
        None => Some((fields.span, default)),
    };
    let (start, interval) =
        (count("loss_scale", default.start), count("growth_interval", default.growth_interval));
    let ((span, start), (_, growth_interval)) = (start?, interval?);
    if !start.is_power_of_two() {
        diags
            .error(Code::E0015, span, format!("`loss_scale` cannot be {start}"))
            .help("it is a power of two, which changes no digits of a gradient: 65536");
        return None;
    }
    Some(LossScale { start, growth_interval })
}
