//! The order and the names of finished kernels.

use crate::fusion::graph::FusionGraph;
use crate::fusion::kernel::Kernel;
use crate::fusion::kernel::operand::Use;
use crate::fusion::order::topological;
use crate::ir::{Symbol, Value};
use std::collections::{HashMap, HashSet};

/// Kernels in dependency order with unique names. Among those that are ready, the one with the lowest node comes first.
pub fn finish(graph: &FusionGraph, mut kernels: Vec<Kernel>) -> Vec<Kernel> {
    kernels.sort_by_key(|kernel| kernel.nodes[0]);
    let order = topological(&readers(&kernels));
    let mut kernels: Vec<Option<Kernel>> = kernels.into_iter().map(Some).collect();
    let mut kernels: Vec<Kernel> = order.into_iter().filter_map(|id| kernels[id].take()).collect();
    name_kernels(graph, &mut kernels);
    kernels
}

/// By kernel: the kernels that read from it.
pub fn readers(kernels: &[Kernel]) -> Vec<Vec<usize>> {
    let mut writer: HashMap<Value, usize> = HashMap::new();
    for (id, kernel) in kernels.iter().enumerate() {
        writer.extend(kernel.uses(Use::Write).map(|operand| (operand.value, id)));
    }
    let mut readers: Vec<Vec<usize>> = vec![vec![]; kernels.len()];
    for (id, kernel) in kernels.iter().enumerate() {
        for operand in kernel.uses(Use::Read) {
            if let Some(&from) = writer.get(&operand.value) {
                readers[from].push(id);
            }
        }
    }
    readers
}

fn name_kernels(graph: &FusionGraph, kernels: &mut [Kernel]) {
    let mut taken: HashSet<String> = HashSet::new();
    for kernel in kernels {
        let names: Vec<Symbol> =
            kernel.uses(Use::Write).map(|operand| graph.ir.name_of(operand.value).clone()).collect();
        // A name that a user gave says more than a derived one.
        let best =
            names.iter().min_by_key(|name| (name.contains('.'), name.len())).map_or("kernel", |name| name);
        let mut name = best.to_string();
        let mut n = 2;
        while !taken.insert(name.clone()) {
            name = format!("{best}#{n}");
            n += 1;
        }
        kernel.name = name;
    }
}
