//! The cost model of fusion: bytes moved, operations and launches.
//!
//! Legality says which groups can become one kernel. The cost model says which of them should: every decision to join,
//! recompute or duplicate asks it.

use crate::ir::{Binary, Node, NodeOp, Scalar, Unary};

/// The constants of the cost model. docs/decisions/096-measured-thresholds.md has whole steps with other constants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CostModel {
    /// Bytes that a device moves in the time of one launch.
    launch_bytes: usize,
    /// Operations that one division or transcendental costs.
    slow_op: usize,
    /// Most operations per point that a kernel computes again.
    ops_again: usize,
    /// Most elements of a node that is recomputed from inputs, which stay in cache for all kernels that do so.
    recomputed_elements: usize,
    /// Most tensors of the result's size that an epilogue reads besides the accumulator.
    epilogue_reads: usize,
    /// Most elements of a matmul's result for which a launch takes longer than the loads of an epilogue.
    launch_bound_elements: usize,
    /// Shortest row that a matmul passes to a row reduction.
    folded_row: usize,
    /// Most tensors that a scatter reads to compute its operands.
    pub scatter_reads: usize,
}

/// Launches have no price: bytes and operations alone decide. Not measured: three shipped graphs change with a price of 64 KiB
/// to 1 MiB, and the one that ran beside other programs on the CPU varied by more than any difference (096).
const LAUNCH_BYTES: usize = 0;

/// With 4 or 16, steps on an H200 stay within 1 %. With 4, a step of `recommender.ron` takes 1.46 times as long on the CPU (096).
const SLOW_OP: usize = 8;

/// The same bound for recomputed and for duplicated nodes. With 6 or 12, steps of three models on an H200 take 3 to 8 % longer.
/// With 48, a step of `recommender.ron` takes 1.45 times as long on the CPU (096).
const OPS_AGAIN: usize = 24;

/// An epilogue saves two transfers of the result: its store by the matmul and its load by the map. With more than two
/// further loads, the matmul would wait for its epilogue. With 0, steps on an H200 take up to 7 % longer, and a rollout 32 %;
/// no shipped graph has an epilogue that reads more than 2 (096).
const EPILOGUE_READS: usize = 2;

/// A load of so many `f32` takes 0.1 µs from the cache of an H100, a launch about 2 µs. With it and
/// other changes of a day, a step on an H200 became 2 % slower in `gru.ron` and 3 % faster in `mnist_cnn.ron`
/// (2026-11-25). With a quarter, a step of `gru.ron` takes 1 % less, and rollouts 4 to 5 % more (096).
const LAUNCH_BOUND_ELEMENTS: usize = 1 << 16;

/// So many halves take an H100 about as long to read as a launch. A step of a language model with 87 tensors of parameters had
/// 142 reductions of its gradients (2026-11-27).
const SHORT_ELEMENTS: usize = 1 << 21;

/// A matrix of shorter rows is small, and its reduction reads it from cache. The index of the smallest of 128 columns takes two
/// Zen 3 cores as long either way (2026-11-28); an H200 need not store them.
const FOLDED_ROW: usize = 128;

/// A GPU does some 20 operations in the time that a byte takes from memory. The bound is lower, since a transcendental takes
/// longer than the 8 operations that it counts. With 1, a step of `gpt.ron` on an H200 takes 13 % longer; with 8, one of
/// `gru.ron` takes 3.5 % longer (096).
const OPS_PER_BYTE: usize = 4;

/// With 1 or 6, no step changes by more than the noise (096); docs/decisions/089-gradients-of-weights-on-the-cpu.md has the
/// steps that it was chosen for.
const OPS_OF_A_TRANSFER: usize = 3;

/// The scatters of docs/decisions/039-scatter-fusion.md were measured with it. With 4, a step of `embedding.ron` on the CPU takes
/// as long, within the noise (096).
const SCATTER_READS: usize = 16;

/// Longest query, key or value of an attention: a limit of kernels, which keep a block of them and of as long sums in shared
/// memory or registers.
pub const MAX_DEPTH: usize = 512;

/// Longest sum by which a score is computed again rather than stored: 2·64 operations take the time of storing and
/// loading 4 bytes on a GPU with 20 operations per byte of memory traffic. With 16 or 128, steps of two language models stay
/// within 1 % on an H200, and within the noise on the CPU (096).
pub const SHORT_SCORES: usize = 64;

/// Most nodes that a search for the scores of an attention visits. Without a bound, each matmul of a long recurrence
/// would search all steps before it: a GRU of 200 steps took 26 s to compile, more than half of it for this search
/// (2026-11-23).
pub const ATTENTION_NODES: usize = 256;

impl CostModel {
    /// The cost model of a device that finds tensors of so many elements in cache.
    pub fn of(cached_elements: usize) -> CostModel {
        CostModel {
            launch_bytes: LAUNCH_BYTES,
            slow_op: SLOW_OP,
            ops_again: OPS_AGAIN,
            recomputed_elements: cached_elements,
            epilogue_reads: EPILOGUE_READS,
            launch_bound_elements: LAUNCH_BOUND_ELEMENTS,
            folded_row: FOLDED_ROW,
            scatter_reads: SCATTER_READS,
        }
    }
}

/// The difference that a decision makes to one step.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Change {
    /// Launches that are no longer needed.
    pub launches_saved: usize,
    /// Bytes that no longer move through memory.
    pub bytes_saved: usize,
    /// Bytes that move in addition.
    pub bytes_added: usize,
    /// Operations per point that are computed again.
    pub ops_added: usize,
}

impl CostModel {
    /// Whether a change makes a step no slower.
    pub fn pays(&self, change: Change) -> bool {
        let bytes_saved = change.bytes_saved + self.launch_bytes * change.launches_saved;
        change.ops_added <= self.ops_again && change.bytes_added <= bytes_saved
    }

    /// Whether an epilogue over so many points is worth so many loads of tensors of the result's size, besides the
    /// accumulator. A small result is launch-bound, so any number of loads pays.
    pub fn epilogue_pays(&self, n_reads: usize, n_points: usize) -> bool {
        n_reads <= self.epilogue_reads || self.is_launch_bound(n_points)
    }

    /// Whether a launch takes longer than a load or a store of so many elements of a matmul's result.
    pub fn is_launch_bound(&self, n_points: usize) -> bool {
        n_points <= self.launch_bound_elements
    }

    /// Whether a launch takes about as long as reading so many elements.
    pub fn is_short(&self, n_elements: usize) -> bool {
        n_elements <= SHORT_ELEMENTS
    }

    /// Whether later kernels should compute maps of so many elements again: it saves and adds these bytes of memory
    /// traffic, and takes so many operations per element.
    pub fn remaking_pays(&self, n_elements: usize, [saved, added]: [usize; 2], ops: usize) -> bool {
        let is_large = n_elements > self.recomputed_elements;
        is_large && ops * n_elements <= OPS_PER_BYTE * saved.saturating_sub(added)
    }

    /// Whether later kernels do so many operations per element again, rather than that one kernel stores their result and
    /// others load it.
    pub fn is_done_again(&self, ops: usize) -> bool {
        ops <= OPS_OF_A_TRANSFER
    }

    /// Whether a matmul should pass rows of such a length to a row reduction instead of storing them.
    pub fn fold_pays(&self, row: usize) -> bool {
        row >= self.folded_row
    }

    /// Operations per point of a primitive, where an addition is 1. Views only change addresses.
    pub fn ops(&self, op: &NodeOp) -> usize {
        match op {
            NodeOp::View(_) | NodeOp::Const(_) | NodeOp::Iota { .. } | NodeOp::Input(_) => 0,
            NodeOp::Scalar(scalar) if is_cheap(scalar) => 1,
            NodeOp::Gather { .. } | NodeOp::Check(_) => 2,
            _ => self.slow_op,
        }
    }

    /// Whether a primitive is fast enough to compute it at more points than it has.
    pub fn is_fast(&self, op: &NodeOp) -> bool {
        self.ops(op) < self.slow_op
    }

    /// Operations per point of a node that every user recomputes, without those of its operands; none if it is stored. A
    /// node that depends on coordinates alone, such as a causal mask, may have any size: loading it would take longer.
    pub fn recomputed_ops(&self, node: &Node, reads_inputs: bool) -> Option<usize> {
        let numel = node.outputs[0].ty.numel();
        let is_large = reads_inputs && numel > self.recomputed_elements;
        match &node.op {
            NodeOp::Const(_) | NodeOp::Iota { .. } | NodeOp::Input(_) => Some(0),
            _ if is_large => None,
            NodeOp::Scalar(_) if numel == 1 => Some(1),
            op => Some(self.ops(op)).filter(|&ops| ops < self.slow_op),
        }
    }
}

/// Whether a scalar primitive takes about as long as an addition.
fn is_cheap(scalar: &Scalar) -> bool {
    use Unary::{Abs, Ceil, Floor, IsNan, Neg, Not, Popcount, Round, Sign, Trunc};
    match scalar {
        Scalar::Unary(op) => {
            matches!(op, Neg | Abs | Sign | Floor | Ceil | Trunc | Round | Not | Popcount | IsNan)
        }
        Scalar::Binary(op) => !matches!(op, Binary::Pow | Binary::Div | Binary::Rem),
        Scalar::Select | Scalar::MulAdd | Scalar::Cast(_) => true,
        Scalar::Foreign(_) => false,
    }
}
