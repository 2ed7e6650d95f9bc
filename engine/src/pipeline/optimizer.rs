//! Optimizers, and groups of parameters that they treat in their own ways.

use super::pattern::{matches_stars, nearest_to};
use super::{MetricRate, Pipeline, Schedule, StageIssue};
use crate::diag::Code;
use crate::ir::{Attrs, InputKind, Symbol};

/// An optimizer op and its settings.
#[derive(Clone, Debug, PartialEq)]
pub struct OptimizerDecl {
    /// A registered op of role `Optimizer`.
    pub op: String,
    /// Its attributes, defaults filled in.
    pub attrs: Attrs,
    /// The learning rate by step.
    pub lr: Schedule,
    /// Parameters of at most one axis are exempt from the `weight_decay` attribute if this is false.
    pub decay_bias: bool,
    /// Parameters with a treatment of their own.
    pub groups: Vec<ParamGroup>,
}

/// Some parameters of a stage, and their treatment.
#[derive(Clone, Debug, PartialEq)]
pub struct ParamGroup {
    /// Names of parameters, in which `*` stands for any run of characters.
    pub params: Vec<String>,
    /// Their treatment.
    pub rule: GroupRule,
}

/// The treatment of a group.
#[derive(Clone, Debug, PartialEq)]
pub enum GroupRule {
    /// The parameters have no gradient and no state of the optimizer.
    Frozen,
    /// The optimizer steps with these settings.
    Trained {
        /// Attributes of the op, defaults filled in.
        attrs: Attrs,
        /// The learning rate by step; none for that of the optimizer.
        lr: Option<Schedule>,
    },
    /// Another optimizer steps, which has no groups.
    Other(Box<OptimizerDecl>),
}

/// How the optimizer of a parameter steps.
#[derive(Clone, Debug, PartialEq)]
pub struct StepSettings<'o> {
    /// The op.
    pub op: &'o str,
    /// Its attributes.
    pub attrs: &'o Attrs,
    /// Whether `weight_decay` applies to parameters of at most one axis.
    pub decay_bias: bool,
    /// The name of the learning rate among [`OptimizerDecl::rates`].
    pub lr: Symbol,
}

impl OptimizerDecl {
    /// The first group with a pattern that matches the parameter, and its number.
    pub fn group_of(&self, param: &str) -> Option<(usize, &ParamGroup)> {
        let is_member = |group: &ParamGroup| group.params.iter().any(|pattern| matches_stars(pattern, param));
        self.groups.iter().enumerate().find(|(_, group)| is_member(group))
    }

    /// How the optimizer of a parameter steps.
    pub fn settings_of(&self, param: &str) -> StepSettings<'_> {
        let group = self.group_of(param).map(|(place, group)| (place + 1, &group.rule));
        let (by, attrs, number) = match group {
            Some((number, GroupRule::Other(other))) => (&**other, &other.attrs, Some(number)),
            Some((number, GroupRule::Trained { attrs, lr })) => (self, attrs, lr.as_ref().map(|_| number)),
            Some((_, GroupRule::Frozen)) | None => (self, &self.attrs, None),
        };
        let lr = number.map_or("lr".into(), |number| format!("lr.{number}").into());
        StepSettings { op: &by.op, attrs, decay_bias: by.decay_bias, lr }
    }

    /// The learning rates: `lr`, and `lr.N` for the group of number N, counted from 1.
    pub fn rates(&self) -> impl Iterator<Item = (Symbol, &Schedule)> {
        let of_groups = self.groups.iter().zip(1..).filter_map(|(group, number)| match &group.rule {
            GroupRule::Trained { lr, .. } => Some((format!("lr.{number}").into(), lr.as_ref()?)),
            GroupRule::Other(other) => Some((format!("lr.{number}").into(), &other.lr)),
            GroupRule::Frozen => None,
        });
        [(Symbol::from("lr"), &self.lr)].into_iter().chain(of_groups)
    }

    /// Those that depend on the monitored metric.
    pub fn metric_rates(&self) -> impl Iterator<Item = (Symbol, &Schedule, MetricRate)> {
        self.rates().filter_map(|(name, schedule)| Some((name, schedule, schedule.metric_rate()?)))
    }

    /// Whether the parameter keeps its value.
    pub fn freezes(&self, param: &str) -> bool {
        self.group_of(param).is_some_and(|(_, group)| group.rule == GroupRule::Frozen)
    }
}

/// Checks that a pattern matches a parameter that can be trained.
///
/// # Errors
/// If it matches none. The issue names the nearest parameter.
pub fn expect_match(pipeline: &Pipeline, pattern: &str) -> Result<(), StageIssue> {
    let params = pipeline.params.iter().filter(|param| param.kind == InputKind::Param);
    let names: Vec<&str> = params.map(|param| &*param.name).collect();
    if names.iter().any(|name| matches_stars(pattern, name)) {
        return Ok(());
    }
    let help = match nearest_to(pattern, names) {
        Some(near) => format!("the nearest parameter is `{near}`; `*` stands for any run of characters"),
        None => "declare a parameter without `state: true`".to_owned(),
    };
    let issue = StageIssue::new(format!("`{pattern}` matches no trained parameter"), None).help(help);
    Err(StageIssue { code: Code::E0101, ..issue })
}
