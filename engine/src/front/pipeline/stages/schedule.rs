//! Schedules of learning rates.

use super::super::names::{Meaning, Names};
use super::super::typing::{Around, Place, Typing, Written};
use super::reader::{MANY, StageReader};
use crate::diag::Code;
use crate::front::fields::report_unknown;
use crate::front::{Ron, RonKind};
use crate::ir::{Builder, DType, Graph, Symbol, Type};
use crate::pipeline::{Schedule, ScheduleForm, Setting, SettingKind};
use crate::text::expr::parse_expr;

impl StageReader<'_> {
    /// A number that changes in the course of training: `1e-3`, `Cosine(start: 1e-3, warmup: 100)`, or an expression of
    /// the step, which is `f32[]` there: `"1e-3 / sqrt(step + 1)"`.
    pub fn schedule(&mut self, value: &Ron, what: &str) -> Option<Schedule> {
        let Some(head) = value.head() else {
            return match &value.kind {
                RonKind::Str(_) => self.expression_of_step(value, what),
                _ => self.not_negative(value, what).map(Schedule::constant),
            };
        };
        let registry = self.registry;
        let Some(form) = registry.form::<ScheduleForm>(head.value) else {
            let known = registry.forms::<ScheduleForm>().map(|form| form.name);
            report_unknown(Code::E0014, head, "there is no schedule", known, self.diags);
            return None;
        };
        let order: Vec<&'static str> = form.settings.iter().map(|setting| setting.name).collect();
        let mut fields = self.choice(value, "a schedule", &order)?;
        let mut values = vec![];
        for setting in form.settings {
            let read =
                |reader: &mut StageReader, value: &Ron, what: &str| reader.setting(setting, value, what);
            values.push(match setting.default {
                Some(default) => fields.or(setting.name, default, read),
                None => fields.required(setting.name, read),
            });
        }
        fields.finish();
        Some(Schedule::new(form, values.into_iter().collect::<Option<Vec<f64>>>()?))
    }

    fn setting(&mut self, setting: &Setting, value: &Ron, what: &str) -> Option<f64> {
        match setting.kind {
            SettingKind::Number => self.not_negative(value, what),
            SettingKind::MoreThanZero => {
                self.not_negative(value, what).and_then(|_| self.positive(value, what))
            }
            SettingKind::Share => self.share(value, what),
            SettingKind::Count => value.integer(what, 0..=MANY, self.diags).map(|n| n as f64),
            SettingKind::Positive => self.count(value, what).map(|n| n as f64),
        }
    }

    /// A number from 0 to 1.
    fn share(&mut self, value: &Ron, what: &str) -> Option<f64> {
        let number = value.number(what, self.diags)?;
        if !(0.0..=1.0).contains(&number) {
            let message = format!("{what} cannot be {number}");
            self.diags.error(Code::E0015, value.span, message).help("it lies between 0 and 1");
            return None;
        }
        Some(number)
    }

    fn expression_of_step(&mut self, value: &Ron, what: &str) -> Option<Schedule> {
        let text = value.string(what, self.diags)?;
        let expr = parse_expr(text, self.diags)?;
        let mut builder = Builder::new(Graph::new("rate"), self.registry);
        let step = builder.step();
        let step = builder.cast(step, DType::F32);
        let names = Names::from([(Symbol::from("step"), Meaning::Value(step))]);
        let faulty_ops = &self.functions.faulty;
        let (mut written, place) = (Written::default(), Place::default());
        let mut typing = Typing {
            builder: &mut builder,
            names: &names,
            dims: self.dims,
            faulty_ops,
            written: &mut written,
            around: Around { scope: self.registry, place: &place },
            diags: self.diags,
        };
        let rate = typing.define("rate", &expr)?;
        let ty = builder.ty(rate);
        if *ty != Type::scalar(DType::F32) {
            let message = format!("{what} is one number of type f32, this expression is {ty}");
            let help = "`step` is f32[] here; write numbers with a point, as in `1.0`";
            self.diags.error(Code::E0205, value.span, message).help(help);
            return None;
        }
        if let Some((path, _)) = written.params.first() {
            let message = format!("{what} has no parameters such as `{path}`");
            self.diags.error(Code::E0404, value.span, message).help("call ops and functions, but no layers");
            return None;
        }
        let mut graph = builder.graph;
        graph.outputs.push(("rate".into(), rate));
        Some(Schedule::expression(text, graph.pruned()))
    }
}
