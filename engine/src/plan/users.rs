//! The kernels that write and read each value.

use crate::fusion::{Kernel, Use, checkers};
use crate::ir::Value;
use std::collections::HashMap;

/// Kernels by the values that they write, read and check.
#[derive(Default)]
pub struct Users {
    writer: HashMap<Value, usize>,
    readers: HashMap<Value, Vec<usize>>,
    checkers: Vec<usize>,
}

impl Users {
    /// The users among these kernels, by their numbers.
    pub fn new(kernels: &[Kernel]) -> Users {
        let mut users = Users { checkers: checkers(kernels), ..Users::default() };
        kernels.iter().enumerate().for_each(|(id, kernel)| users.add(id, kernel));
        users
    }

    /// Adds kernel `id`, which comes after all others and checks nothing.
    pub fn add(&mut self, id: usize, kernel: &Kernel) {
        for operand in &kernel.operands {
            match operand.usage {
                Use::Write => _ = self.writer.entry(operand.value).or_insert(id),
                Use::Read => {
                    let readers = self.readers.entry(operand.value).or_default();
                    if readers.last() != Some(&id) {
                        readers.push(id);
                    }
                }
            }
        }
    }

    /// The first kernel that writes a value.
    pub fn writer(&self, value: Value) -> Option<usize> {
        self.writer.get(&value).copied()
    }

    /// The kernels that read a value, ascending.
    pub fn readers(&self, value: Value) -> &[usize] {
        self.readers.get(&value).map_or(&[], Vec::as_slice)
    }

    /// Kernels that may end the run, without those that only repeat checks of others.
    pub fn checkers(&self) -> &[usize] {
        &self.checkers
    }
}
