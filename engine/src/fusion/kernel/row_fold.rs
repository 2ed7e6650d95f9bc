//! Matmul folds: a row reduction that consumes the rows of a matmul.

use crate::device_model::DeviceModel;
use crate::fusion::domain::Domain;
use crate::ir::{DType, Graph, Monoid, NodeId, NodeOp};
use crate::op::{KernelCall, Role, RowFold, RowReduction, extreme_fold};

/// The row reduction of a matmul fold.
#[derive(Clone, Debug, PartialEq)]
pub enum RowConsumer {
    /// The extreme element, or its index, of rows of that type.
    Extreme(Monoid, DType),
    /// An op with the role of a row reduction.
    Call(KernelCall),
    /// A reduction of each block of so many neighbouring elements, of rows of that type.
    Blocks {
        /// The largest or smallest element, or the sum.
        monoid: Monoid,
        /// The type of the elements.
        dtype: DType,
        /// Elements of a block.
        columns: usize,
    },
}

/// Elements of a block that a matmul reduces in registers; all divide its tiles.
const BLOCKS: [usize; 4] = [16, 32, 64, 128];

impl RowConsumer {
    /// The row reduction that a node applies to its one operand, if it is one.
    pub fn of(graph: &Graph, node: NodeId) -> Option<RowConsumer> {
        let node = &graph.nodes[node];
        match &node.op {
            NodeOp::Reduce { monoid, .. } => {
                let dtype = graph.ty(node.inputs[0]).dtype;
                extreme_fold(*monoid, dtype).map(|_| RowConsumer::Extreme(*monoid, dtype))
            }
            NodeOp::Call(call) => (matches!(call.form().role, Role::RowReduction(_))
                && node.inputs.len() == 1)
                .then(|| RowConsumer::Call(KernelCall::new(graph, node, call))),
            _ => None,
        }
    }

    /// The row reduction that a node applies to rows of `n` elements, or to blocks of these.
    pub fn behind(graph: &Graph, node: NodeId, n: usize) -> Option<RowConsumer> {
        let NodeOp::Reduce { monoid, axes, .. } = &graph.nodes[node].op else {
            return RowConsumer::of(graph, node);
        };
        let ty = graph.ty(graph.nodes[node].inputs[0]);
        let Domain { row: columns, inner, .. } = Domain::of_reduction(&ty.extents(), axes);
        let is_reduced = matches!(monoid, Monoid::Max | Monoid::Min | Monoid::Sum);
        let is_block = columns < n && inner == 1 && BLOCKS.contains(&columns) && n.is_multiple_of(columns);
        match is_reduced && is_block {
            true => Some(RowConsumer::Blocks { monoid: *monoid, dtype: ty.dtype, columns }),
            false => RowConsumer::of(graph, node),
        }
    }

    /// The row reduction of an op, with its call; none for an extreme.
    pub fn reduction(&self) -> Option<(&RowReduction, &KernelCall)> {
        match self {
            RowConsumer::Call(call) => match &call.call.form().role {
                Role::RowReduction(reduction) => Some((reduction, call)),
                _ => None,
            },
            RowConsumer::Extreme(..) | RowConsumer::Blocks { .. } => None,
        }
    }

    /// Whether blocks of a GPU can compute it. Every GPU has a block fold for extremes.
    pub fn has_block_fold(&self, device: &DeviceModel) -> bool {
        self.reduction().is_none_or(|(reduction, call)| reduction.block_fold(call, device).is_ok())
    }

    /// The number of the result that holds positions in the row, if one does.
    pub fn positions(&self) -> Option<usize> {
        match self {
            RowConsumer::Extreme(monoid, _) => monoid.is_index().then_some(0),
            RowConsumer::Call(_) => self.reduction()?.0.positions(),
            RowConsumer::Blocks { .. } => None,
        }
    }

    /// Its functions.
    pub fn fold(&self) -> Box<dyn RowFold> {
        let fold = match self {
            RowConsumer::Extreme(monoid, dtype) => extreme_fold(*monoid, *dtype),
            _ => self.reduction().map(|(reduction, call)| reduction.fold(call)),
        };
        fold.unwrap_or_else(|| crate::bug!("{} folds no rows", self.name()))
    }

    /// Its name for users.
    pub fn name(&self) -> &str {
        match self {
            RowConsumer::Extreme(monoid, _) | RowConsumer::Blocks { monoid, .. } => monoid.name(),
            RowConsumer::Call(call) => &call.call.form().name,
        }
    }
}

/// How a matmul fold cuts and reduces its rows. The result of the matmul is never stored.
#[derive(Clone, Debug, PartialEq)]
pub struct RowsBody {
    /// The row reduction.
    pub consumer: RowConsumer,
    /// Kernel operands that its results go to.
    pub results: Vec<usize>,
    /// Rows that one worker processes at a time.
    pub panel_rows: usize,
    /// Pieces that each row is cut into, where there are fewer panels than workers.
    pub n_pieces: usize,
    /// Words of the state of one piece of one row.
    pub state_words: usize,
}

/// Chunks of work that keep all workers busy.
const FOLD_CHUNKS: usize = 16;
/// Rows of a panel. The states of so few rows stay in cache, and reading the right matrix pays off for so many.
const PANEL_ROWS: std::ops::RangeInclusive<usize> = 256..=1024;
/// Columns of a piece, at least.
const PIECE_COLUMNS: usize = 1024;

impl RowsBody {
    /// For `batch` products of `m` rows of `n` elements; the cut follows from the shape alone.
    pub fn new(consumer: RowConsumer, results: Vec<usize>, [batch, m, n]: [usize; 3]) -> RowsBody {
        let panel_rows =
            m.div_ceil(FOLD_CHUNKS).next_multiple_of(64).clamp(*PANEL_ROWS.start(), *PANEL_ROWS.end());
        let n_panels = batch * m.div_ceil(panel_rows);
        let n_pieces = FOLD_CHUNKS.div_ceil(n_panels.max(1)).min(n.div_ceil(PIECE_COLUMNS)).max(1);
        let state_words = match consumer {
            RowConsumer::Blocks { .. } => 0,
            _ => consumer.fold().state_words(),
        };
        RowsBody { consumer, results, panel_rows, n_pieces, state_words }
    }
}
