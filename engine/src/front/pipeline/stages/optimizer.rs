//! Optimizers and schedules of learning rates.

use super::super::constants::Constants;
use super::super::dims::Dims;
use super::super::names::Names;
use super::super::{nodes, settings};
use super::reader::{MANY, StageReader};
use crate::diag::Code;
use crate::front::Ron;
use crate::front::fields::report_unknown;
use crate::op::{OpForm, Role};
use crate::pipeline::{OptimizerDecl, Schedule, ScheduleForm, SettingKind};
use std::sync::Arc;

impl StageReader<'_> {
    /// `Adam(lr: 1e-3, beta1: 0.9)`: the op `adam` and its settings.
    pub(super) fn optimizer(&mut self, value: &Ron, _: &str) -> Option<OptimizerDecl> {
        let form = self.optimizer_form(value)?;
        let mut fields = self.choice(value, "an optimizer", &["lr"])?;
        let lr = fields.required("lr", StageReader::schedule);
        let decay_bias = fields.or("decay_bias", true, StageReader::boolean);
        let rest = fields.rest();
        let given = nodes::settings(rest, fields.reader.diags);
        fields.finish();
        let (names, dims) = (Names::new(), Dims::new());
        let known = Constants { names: &names, dims: &dims };
        let attrs = settings::read(&form, &given?, value.span, known, self.diags);
        Some(OptimizerDecl { op: form.name.clone(), attrs: attrs?, lr: lr?, decay_bias: decay_bias? })
    }

    fn optimizer_form(&mut self, value: &Ron) -> Option<Arc<OpForm>> {
        let Some(head) = value.head() else {
            value.word("`optimizer`", self.diags).inspect(|word| {
                self.diags
                    .error(Code::E0207, word.span, "an optimizer has settings")
                    .help("write `Adam(lr: 1e-3)`");
            });
            return None;
        };
        let is_optimizer = |form: &Arc<OpForm>| matches!(form.role, Role::Optimizer { .. });
        // `AdamW` is the op `adamw`, or `adam_w`.
        let squeezed = |op: &str| op.replace('_', "").eq_ignore_ascii_case(head.value);
        let form = self.registry.ops().find(|op| is_optimizer(op) && squeezed(&op.name)).cloned();
        if form.is_none() {
            let known = self.registry.ops().filter(|op| is_optimizer(op));
            let known: Vec<String> = known.map(|op| camel_case(&op.name)).collect();
            let known = known.iter().map(String::as_str);
            report_unknown(Code::E0207, head, "there is no optimizer", known, self.diags);
        }
        form
    }

    /// A number that depends on the step: `1e-3`, or `Cosine(start: 1e-3, warmup: 100)`.
    pub fn schedule(&mut self, value: &Ron, what: &str) -> Option<Schedule> {
        let Some(head) = value.head() else {
            return self.not_negative(value, what).map(Schedule::constant);
        };
        let registry = self.registry;
        let Some(form) = registry.form::<ScheduleForm>(head.value) else {
            let known = registry.forms::<ScheduleForm>().map(|form| form.name);
            report_unknown(Code::E0014, head, "there is no schedule", known, self.diags);
            return None;
        };
        let order: Vec<&'static str> = form.settings.iter().map(|setting| setting.name).collect();
        let mut fields = self.choice(value, "a schedule", &order)?;
        let values: Vec<Option<f64>> = form
            .settings
            .iter()
            .map(|setting| {
                let read = |reader: &mut StageReader, value: &Ron, what: &str| match setting.kind {
                    SettingKind::Number => reader.not_negative(value, what),
                    SettingKind::Count => value.integer(what, 0..=MANY, reader.diags).map(|n| n as f64),
                    SettingKind::Positive => reader.count(value, what).map(|n| n as f64),
                };
                match setting.default {
                    Some(default) => fields.or(setting.name, default, read),
                    None => fields.required(setting.name, read),
                }
            })
            .collect();
        fields.finish();
        Some(Schedule::new(form, values.into_iter().collect::<Option<Vec<f64>>>()?))
    }
}

fn camel_case(name: &str) -> String {
    let word = |word: &str| {
        let mut chars = word.chars();
        chars.next().map_or(String::new(), |first| first.to_uppercase().collect::<String>() + chars.as_str())
    };
    name.split('_').map(word).collect()
}
