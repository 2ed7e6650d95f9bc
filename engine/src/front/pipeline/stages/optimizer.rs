//! Optimizers, and groups of their parameters.

use super::super::constants::Constants;
use super::super::dims::Dims;
use super::super::names::Names;
use super::super::nodes::Setting;
use super::super::{nodes, settings};
use super::reader::StageReader;
use crate::diag::Code;
use crate::front::fields::report_unknown;
use crate::front::{Ron, RonKind};
use crate::ir::Attrs;
use crate::op::{OpForm, Role};
use crate::pipeline::{GroupRule, OptimizerDecl, ParamGroup, expect_match};
use std::sync::Arc;

impl StageReader<'_> {
    /// `Adam(lr: 1e-3, beta1: 0.9)`: the op `adam` and its settings.
    pub(super) fn optimizer(&mut self, value: &Ron, _: &str) -> Option<OptimizerDecl> {
        let form = self.optimizer_form(value)?;
        let mut fields = self.choice(value, "an optimizer", &["lr"])?;
        let lr = fields.required("lr", StageReader::schedule);
        let decay_bias = fields.or("decay_bias", true, StageReader::boolean);
        let groups = fields.optional("groups", |_, value, _| Some(value)).flatten();
        let rest = fields.rest();
        let given = nodes::settings(rest, fields.reader.diags);
        let attrs = given.as_deref().and_then(|given| fields.reader.attrs(&form, given, value));
        // A fault among the common settings would be reported again for each group.
        let groups = match (groups, &given, &attrs) {
            (Some(groups), Some(given), Some(_)) => fields.reader.groups(groups, &form, given),
            _ => Some(vec![]),
        };
        fields.finish();
        let (op, attrs, groups) = (form.name.clone(), attrs?, groups?);
        Some(OptimizerDecl { op, attrs, lr: lr?, decay_bias: decay_bias?, groups })
    }

    fn attrs(&mut self, form: &OpForm, given: &[Setting], value: &Ron) -> Option<Attrs> {
        let (names, dims) = (Names::new(), Dims::new());
        settings::read(form, given, value.span, Constants { names: &names, dims: &dims }, self.diags)
    }

    /// `[(params: "*.bias", weight_decay: 0), (params: ["embed.*", "head.w"], lr: 1e-4), (params: "*", frozen: true)]`
    fn groups(&mut self, value: &Ron, form: &OpForm, common: &[Setting]) -> Option<Vec<ParamGroup>> {
        let items = value.items("`groups`", self.diags)?;
        let groups: Vec<_> = items.iter().map(|item| self.group(item, form, common)).collect();
        groups.into_iter().collect()
    }

    fn group(&mut self, value: &Ron, form: &OpForm, common: &[Setting]) -> Option<ParamGroup> {
        let mut fields = self.fields(value, "a group of parameters")?;
        let params = fields.required("params", StageReader::patterns);
        let frozen = fields.or("frozen", false, StageReader::boolean);
        let lr = fields.optional("lr", StageReader::schedule);
        let other = fields.optional("optimizer", StageReader::optimizer);
        let rest = fields.rest();
        let given = nodes::settings(rest, fields.reader.diags);
        fields.finish();
        let (params, frozen, lr, other, mut given) = (params?, frozen?, lr?, other?, given?);
        if let Some(other) = other {
            if frozen || lr.is_some() || !given.is_empty() || !other.groups.is_empty() {
                let help = "its settings belong inside the optimizer, which has no groups";
                self.error(Code::E0206, value.span, "a group with an optimizer has no further fields", help);
                return None;
            }
            return Some(ParamGroup { params, rule: GroupRule::Other(Box::new(other)) });
        }
        if !frozen {
            let is_given = |name: &str| given.iter().any(|(known, _)| **known == *name);
            let others: Vec<_> = common.iter().filter(|(name, _)| !is_given(name)).cloned().collect();
            given.extend(others);
            let attrs = self.attrs(form, &given, value)?;
            return Some(ParamGroup { params, rule: GroupRule::Trained { attrs, lr } });
        }
        if lr.is_some() || !given.is_empty() {
            let help = "leave out its settings, or `frozen`";
            self.error(Code::E0206, value.span, "frozen parameters have no settings", help);
            return None;
        }
        Some(ParamGroup { params, rule: GroupRule::Frozen })
    }

    /// Patterns of names, each of which matches a parameter: `"*.bias"`, or a list of them.
    fn patterns(&mut self, value: &Ron, _: &str) -> Option<Vec<String>> {
        let items = match &value.kind {
            RonKind::List(items) => &items[..],
            _ => std::slice::from_ref(value),
        };
        let read = |item: &Ron| {
            let pattern = item.string("a pattern of names", self.diags)?.to_string();
            let found = expect_match(self.pipeline, &pattern);
            found.map_err(|issue| self.report_issue(issue, item.span)).ok()?;
            Some(pattern)
        };
        let patterns: Vec<_> = items.iter().map(read).collect();
        patterns.into_iter().collect()
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
            let known: Vec<String> = known.map(|op| written_name(&op.name)).collect();
            let known = known.iter().map(String::as_str);
            report_unknown(Code::E0207, head, "there is no optimizer", known, self.diags);
        }
        form
    }
}

/// The name of an optimizer in pipelines. An op's name does not show the capitals within a word.
fn written_name(op: &str) -> String {
    match op {
        "adamw" => "AdamW".to_string(),
        "rmsprop" => "RMSprop".to_string(),
        _ => camel_case(op),
    }
}

fn camel_case(name: &str) -> String {
    let word = |word: &str| {
        let mut chars = word.chars();
        chars.next().map_or(String::new(), |first| first.to_uppercase().collect::<String>() + chars.as_str())
    };
    name.split('_').map(word).collect()
}
