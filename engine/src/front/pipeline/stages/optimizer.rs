//! Optimizers and schedules of learning rates.

use super::super::typing::Names;
use super::super::{nodes, settings};
use super::{MANY, Reader};
use crate::diag::Code;
use crate::front::fields::suggestion;
use crate::front::{Fields, Ron};
use crate::op::{OpForm, Role};
use crate::pipeline::{OptimizerDecl, Schedule};
use std::sync::Arc;

impl Reader<'_> {
    /// `Adam(lr: 1e-3, beta1: 0.9)`: the op `adam` and its settings.
    pub(super) fn optimizer(&mut self, value: &Ron) -> Option<OptimizerDecl> {
        let form = self.optimizer_form(value)?;
        let mut fields = Fields::of_choice(value, "an optimizer", &["lr"], self.diags)?;
        let lr = fields.required("lr").and_then(|v| self.schedule(v));
        let decay_bias =
            fields.optional("decay_bias").map_or(Some(true), |v| v.boolean("`decay_bias`", self.diags));
        let given = nodes::settings(fields.rest(), self.diags);
        fields.finish(self.diags);
        let attrs =
            settings::read(&form, &given?, value.span, &Names::new(), &Default::default(), self.diags);
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
            let known: Vec<&str> = known.iter().map(String::as_str).collect();
            let help = suggestion(head.value, &known, self.diags);
            self.diags
                .error(Code::E0207, head.span, format!("there is no optimizer `{}`", head.value))
                .help(help);
        }
        form
    }

    fn schedule(&mut self, value: &Ron) -> Option<Schedule> {
        const KINDS: [&str; 5] = ["Constant", "Exp", "Cosine", "Linear", "Steps"];
        let Some(head) = value.head() else {
            return self.not_negative(value, "`lr`").map(Schedule::Constant);
        };
        let order: &[&str] = match head.value {
            "Constant" => &["value"],
            "Exp" => &["start", "end", "rate"],
            "Cosine" | "Linear" => &["start", "end", "warmup"],
            "Steps" => &["start", "factor", "every"],
            other => {
                let help = suggestion(other, &KINDS, self.diags);
                self.diags
                    .error(Code::E0014, head.span, format!("there is no schedule `{other}`"))
                    .help(help);
                return None;
            }
        };
        let mut fields = Fields::of_choice(value, "a schedule", order, self.diags)?;
        let schedule = self.schedule_of(head.value, &mut fields);
        fields.finish(self.diags);
        schedule
    }

    fn schedule_of(&mut self, kind: &str, fields: &mut Fields) -> Option<Schedule> {
        if kind == "Constant" {
            return self.required_number(fields, "value").map(Schedule::Constant);
        }
        let start = self.required_number(fields, "start");
        match kind {
            "Exp" => {
                let (end, rate) = (self.number_or_zero(fields, "end"), self.required_number(fields, "rate"));
                Some(Schedule::Exp { start: start?, end: end?, rate: rate? })
            }
            "Steps" => {
                let factor = self.required_number(fields, "factor");
                let every = fields.required("every").and_then(|v| self.count(v, "`every`"));
                Some(Schedule::Steps { start: start?, factor: factor?, every: every? })
            }
            _ => {
                let end = self.number_or_zero(fields, "end");
                let warmup = fields.optional("warmup");
                let warmup = warmup.map_or(Some(0), |v| v.integer("`warmup`", 0..=MANY, self.diags));
                let (start, end, warmup) = (start?, end?, warmup?);
                Some(match kind {
                    "Cosine" => Schedule::Cosine { start, end, warmup },
                    _ => Schedule::Linear { start, end, warmup },
                })
            }
        }
    }

    fn required_number(&mut self, fields: &mut Fields, name: &'static str) -> Option<f64> {
        fields.required(name).and_then(|v| self.not_negative(v, &format!("`{name}`")))
    }

    fn number_or_zero(&mut self, fields: &mut Fields, name: &'static str) -> Option<f64> {
        fields.optional(name).map_or(Some(0.0), |v| self.not_negative(v, &format!("`{name}`")))
    }
}

fn camel_case(name: &str) -> String {
    let word = |word: &str| {
        let mut chars = word.chars();
        chars.next().map_or(String::new(), |first| first.to_uppercase().collect::<String>() + chars.as_str())
    };
    name.split('_').map(word).collect()
}
