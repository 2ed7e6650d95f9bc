//! Names of a model, made into names of a pipeline.

use std::collections::{HashMap, HashSet};

/// Names that have a meaning of their own.
const RESERVED: [&str; 7] = ["step", "true", "false", "inf", "nan", "none", "order"];

/// Names that are taken.
#[derive(Default)]
pub(crate) struct Names {
    taken: HashSet<String>,
    /// The first words of taken names of several words.
    heads: HashSet<String>,
    /// The beginnings of names of inputs and parameters: `a` and `a.b` of `a.b.c`. A node of that name would own them.
    reserved: HashSet<String>,
    /// Names whose results and nodes have names that begin with them.
    owners: HashSet<String>,
    /// The number that the next name of a kind takes.
    next: HashMap<String, usize>,
}

impl Names {
    /// A valid name like this one that is not taken yet.
    pub(crate) fn unique(&mut self, name: &str) -> String {
        let mut valid = valid(name);
        if let Some((head, rest)) = valid.split_once('.') {
            match self.owners.contains(head) {
                true => valid = format!("{head}_{rest}"),
                false => _ = self.heads.insert(head.to_owned()),
            }
        }
        self.free(valid, |names, free| !names.reserved.contains(free))
    }

    /// A valid name of an input or a parameter.
    pub(crate) fn source(&mut self, name: &str) -> String {
        let valid = valid(name);
        let is_owned = valid.match_indices('.').any(|(dot, _)| self.taken.contains(&valid[..dot]));
        let name = self.unique(&if is_owned { valid.replace('.', "_") } else { valid });
        self.reserved.extend(name.match_indices('.').map(|(dot, _)| name[..dot].to_owned()));
        name
    }

    /// A valid name of one word that is not taken yet, and that no other name of several words begins with.
    pub(crate) fn owner(&mut self, name: &str) -> String {
        let word = valid(name).replace('.', "_");
        let owner =
            self.free(word, |names, free| !names.heads.contains(free) && !names.reserved.contains(free));
        self.owners.insert(owner.clone());
        owner
    }

    /// Takes the name, or the first numbered one that is free and fits.
    fn free(&mut self, valid: String, fits: impl Fn(&Names, &str) -> bool) -> String {
        let mut free = valid.clone();
        while !fits(self, &free) || !self.taken.insert(free.clone()) {
            let number = self.next.entry(valid.clone()).or_insert(1);
            *number += 1;
            free = format!("{valid}_{number}");
        }
        free
    }
}

/// `/m/layer.0/attn/Add_output_0` becomes `m.layer_0.attn.Add`: words of letters, digits and `_`, joined by dots.
pub(crate) fn valid(name: &str) -> String {
    let name = name.strip_suffix("_output_0").unwrap_or(name);
    let name = name.strip_prefix("onnx::").unwrap_or(name);
    let is_word = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let mut valid = String::new();
    for word in name.split(|c: char| !is_word(c)).filter(|word| !word.is_empty()) {
        let starts_well = word.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_');
        match (valid.is_empty(), starts_well) {
            (true, true) => {}
            (true, false) => valid.push('n'),
            (false, true) => valid.push('.'),
            (false, false) => valid.push('_'),
        }
        valid.push_str(word);
    }
    match valid.as_str() {
        "" => "value".to_owned(),
        word if RESERVED.contains(&word) => format!("{word}_"),
        _ => valid,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_valid_and_unique() {
        let mut names = Names::default();
        let made = [
            "/m/layer.0/attn/Add_output_0",
            "m.layer_0.attn.Add",
            "onnx::MatMul_269",
            "12",
            "",
            "step",
            "µ§",
            "a b",
        ];
        let made = made.map(|name| names.unique(name));
        let expected = [
            "m.layer_0.attn.Add",
            "m.layer_0.attn.Add_2",
            "MatMul_269",
            "n12",
            "value",
            "step_",
            "value_2",
            "a.b",
        ];
        assert_eq!(made, expected);
    }

    #[test]
    fn names_of_results_belong_to_their_owner() {
        let mut names = Names::default();
        assert_eq!(names.unique("loop.a"), "loop.a");
        assert_eq!(names.owner("/loop"), "loop_2");
        assert_eq!(names.unique("loop_2/a.b"), "loop_2_a.b");
        assert_eq!(names.owner("a.b"), "a_b");
    }

    #[test]
    fn nodes_do_not_own_inputs() {
        let mut names = Names::default();
        assert_eq!(names.source("conv.w"), "conv.w");
        assert_eq!(names.unique("conv"), "conv_2");
        assert_eq!(names.unique("conv.y"), "conv.y");
        assert_eq!(names.source("conv_2.b"), "conv_2_b");
    }
}
