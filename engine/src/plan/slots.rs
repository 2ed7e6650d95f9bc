//! Slots of the arena, each shared by values with disjoint lives.

use super::memory::{Life, Need};
use crate::ir::Value;
use std::collections::HashMap;

/// Slots of the arena under construction.
pub struct Slots {
    /// The slot of each value.
    pub of: HashMap<Value, usize>,
    /// By slot: its first value and its need. Empty once the slot has been joined to another.
    pub needs: Vec<(Value, Need)>,
    /// By slot: its values in order.
    values: Vec<Vec<Value>>,
    n_streams: usize,
}

impl Slots {
    /// No slots yet.
    pub fn new(n_streams: usize) -> Slots {
        Slots { of: HashMap::new(), needs: vec![], values: vec![], n_streams }
    }

    /// The slot of a value, which is made if the value is new.
    pub fn slot_of(&mut self, value: Value, bytes: usize, is_output: bool) -> usize {
        if let Some(&slot) = self.of.get(&value) {
            return slot;
        }
        self.needs.push((value, Need { bytes, life: Life::unused(self.n_streams), is_output }));
        self.values.push(vec![value]);
        self.of.insert(value, self.needs.len() - 1);
        self.needs.len() - 1
    }

    /// Moves `target` into `slot`. The slot of `target` becomes empty.
    pub fn join(&mut self, slot: usize, target: usize) {
        let empty = Need { bytes: 0, life: Life::unused(self.n_streams), is_output: false };
        let need = std::mem::replace(&mut self.needs[target].1, empty);
        self.needs[slot].1.life.join(&need.life);
        self.needs[slot].1.is_output |= need.is_output;
        let values = std::mem::take(&mut self.values[target]);
        values.iter().for_each(|&value| _ = self.of.insert(value, slot));
        self.values[slot].extend(values);
    }
}
