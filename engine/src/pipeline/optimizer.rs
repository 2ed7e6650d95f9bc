//! Optimizers, and groups of parameters that they treat in their own ways.

use super::{Pipeline, Schedule, StageIssue};
use crate::diag::Code;
use crate::ir::{Attrs, InputKind};

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
}

impl OptimizerDecl {
    /// The first group with a pattern that matches the parameter, and its number.
    pub fn group_of(&self, param: &str) -> Option<(usize, &ParamGroup)> {
        let is_member = |group: &ParamGroup| group.params.iter().any(|pattern| matches(pattern, param));
        self.groups.iter().enumerate().find(|(_, group)| is_member(group))
    }

    /// The attributes of the op for a parameter, and its learning rate.
    pub fn settings_of(&self, param: &str) -> (&Attrs, &Schedule) {
        match self.group_of(param).map(|(_, group)| &group.rule) {
            Some(GroupRule::Trained { attrs, lr }) => (attrs, lr.as_ref().unwrap_or(&self.lr)),
            Some(GroupRule::Frozen) | None => (&self.attrs, &self.lr),
        }
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
    if names.iter().any(|name| matches(pattern, name)) {
        return Ok(());
    }
    let plain = pattern.replace('*', "");
    let help = match names.iter().min_by_key(|name| strsim::osa_distance(&plain, name)) {
        Some(near) => format!("the nearest parameter is `{near}`; `*` stands for any run of characters"),
        None => "declare a parameter without `state: true`".to_owned(),
    };
    let issue = StageIssue::new(format!("`{pattern}` matches no trained parameter"), None).help(help);
    Err(StageIssue { code: Code::E0101, ..issue })
}

/// Whether a name is the pattern, in which `*` stands for any run of characters.
fn matches(pattern: &str, name: &str) -> bool {
    let mut parts = pattern.split('*');
    let Some(mut rest) = parts.next().and_then(|first| name.strip_prefix(first)) else { return false };
    let Some(last) = parts.next_back() else { return rest.is_empty() };
    for part in parts {
        let Some((_, after)) = rest.split_once(part) else { return false };
        rest = after;
    }
    rest.ends_with(last)
}

#[cfg(test)]
mod tests {
    use super::matches;

    #[test]
    fn stars_stand_for_any_run_of_characters() {
        for (pattern, name) in [
            ("w", "w"),
            ("*", ""),
            ("*", "a.b"),
            ("*.bias", "fc.1.bias"),
            ("embed.*", "embed."),
            ("a*b*c", "abc"),
            ("a*b*c", "a.b.b.c"),
            ("*ab", "aab"),
            ("**", "x"),
            ("a*a", "aa"),
        ] {
            assert!(matches(pattern, name), "{pattern} {name}");
        }
        for (pattern, name) in [
            ("w", "w1"),
            ("", "w"),
            ("*.bias", "bias"),
            ("embed.*", "head.embed.w"),
            ("a*a", "a"),
            ("a*b*c", "acb"),
            ("a*bc*c", "abc"),
        ] {
            assert!(!matches(pattern, name), "{pattern} {name}");
        }
    }
}
