//! Fused kernels: what one launch does, in a form that every device can run or translate.

use super::Access;
use crate::ir::{Combine, DType, Graph, Literal, Monoid, NodeId, NodeOp, Requirement, Scalar, Type, Value};
use crate::op::gpu::Order;
use crate::op::{KernelCall, Role, RowFold, Selected, Selection, extreme_fold};

/// Index of an instruction within its tile; also names its result.
pub type Reg = usize;

/// What varies: how often a result is computed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Class {
    /// Once per kernel.
    Uniform,
    /// Once per row: `outer · inner` points.
    Row,
    /// At each of the `outer · row · inner` points.
    Element,
}

/// The points a kernel visits, row-major: `row` is the extent that reductions run over.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Domain {
    /// Points before the reduced extent.
    pub outer: usize,
    /// The reduced extent; for a map kernel, all points.
    pub row: usize,
    /// Points after the reduced extent; 1 when rows are contiguous.
    pub inner: usize,
}

impl Domain {
    /// Number of points of a class.
    pub fn points(&self, class: Class) -> usize {
        match class {
            Class::Uniform => 1,
            Class::Row => self.outer * self.inner,
            Class::Element => self.outer * self.row * self.inner,
        }
    }
}

/// One instruction of a tile.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum FusedOp {
    /// Element `access(point) + Σ index·stride` of an operand. Indices are in range already.
    Load {
        /// Index into the kernel's operands.
        operand: usize,
        /// From the class's points to elements.
        access: Access,
        /// A computed (integer) index and its stride in elements, for gathers.
        index: Option<(Reg, i64)>,
    },
    /// A constant.
    Const(Literal),
    /// The integer `access(point)`: a coordinate, or an element's number.
    Coord(Access),
    /// Random bits: Philox4x32-10 at element `access(point)`.
    Random {
        /// The stream of the node.
        stream: u32,
        /// The current step (`Uniform`).
        step: Reg,
        /// The loop iteration (`Uniform`), 0 when absent.
        iteration: Option<Reg>,
        /// From points to the element number in the node's own shape.
        access: Access,
    },
    /// One scalar primitive. Operands of a lower class repeat.
    Scalar(Scalar, Vec<Reg>),
    /// A check: raises the error of primitive node `site` if `value` is not as required, and yields the fallback then.
    /// Points that a guard of `access` keeps out are not looked at.
    Check {
        /// What is looked at.
        value: Reg,
        /// What it must be.
        requirement: Requirement,
        /// The node in the primitive graph.
        site: NodeId,
        /// From points to the element number in the node's own shape, for the error.
        access: Access,
    },
    /// Combines an `Element` register along the row into a `Row` result; in the accumulator type.
    Reduce {
        /// How.
        monoid: Monoid,
        /// What.
        value: Reg,
    },
    /// The accumulator of the contraction at this point; contract kernels only.
    Accumulator,
    /// Hands the value at each point to what folds the rows of a contraction. Has no result.
    Fold {
        /// What is handed over.
        value: Reg,
    },
    /// Writes to element `access(point)` of an operand. Has no result.
    Store {
        /// Index into the kernel's operands.
        operand: usize,
        /// From the class's points to elements.
        access: Access,
        /// What is written.
        value: Reg,
    },
}

/// An instruction with the type and class of its result (of its value, for a store).
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct FusedInst {
    /// What it does.
    pub op: FusedOp,
    /// Element type of the result.
    pub dtype: DType,
    /// How often it is computed.
    pub class: Class,
}

/// A straight-line program over the points of a domain. Instructions come in an order in which operands come first.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct FusedBody {
    /// The points.
    pub domain: Domain,
    /// The instructions.
    pub insts: Vec<FusedInst>,
}

impl FusedBody {
    /// Whether it may find a value that ends the run, such as an index out of bounds.
    pub fn has_checks(&self) -> bool {
        self.assertions().next().is_some()
    }

    /// The nodes that look for such values.
    pub fn assertions(&self) -> impl Iterator<Item = NodeId> {
        self.insts.iter().filter_map(|inst| match inst.op {
            FusedOp::Check { site, .. } => Some(site),
            _ => None,
        })
    }
}

/// How a kernel uses a buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Use {
    /// Only reads.
    Read,
    /// Only writes, every element once.
    Write,
}

/// A buffer that a kernel reads or writes. A written one may share memory with a read one if the plan says so: then
/// each point reads before it writes, and only its own element.
#[derive(Clone, Debug, PartialEq)]
pub struct Operand {
    /// The value in the primitive graph.
    pub value: Value,
    /// Its type, all extents known; dense, row-major.
    pub ty: Type,
    /// Read or written.
    pub usage: Use,
}

/// A matrix operand: element `(b, i, j)` lies at `offset + b·batch + i·row + j·col`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct MatrixOperand {
    /// Index into the kernel's operands.
    pub operand: usize,
    /// Elements before the first.
    pub offset: i64,
    /// Stride of the batch.
    pub batch: i64,
    /// Stride of the first matrix axis (m of the left, k of the right).
    pub row: i64,
    /// Stride of the second matrix axis (k of the left, n of the right).
    pub col: i64,
}

/// Which matrix a side reduction sums along the contracted axis.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Side {
    /// The left one, giving `[batch, m]`.
    Lhs,
    /// The right one, giving `[batch, n]`.
    Rhs,
}

/// A sum of an operand along the contracted axis, such as a bias gradient beside a weight gradient.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct SideSum {
    /// What is summed.
    pub side: Side,
    /// Index into the kernel's operands: where it goes, dense.
    pub operand: usize,
}

/// GEMM with what surrounds it: `acc[b, i, j] = Σ_k lhs[b, i, k] · rhs[b, k, j]`, then the epilogue at each point.
#[derive(Clone, Debug, PartialEq)]
pub struct MatmulBody {
    /// Number of matrices.
    pub batch: usize,
    /// Rows of the result.
    pub m: usize,
    /// Columns of the result.
    pub n: usize,
    /// Extent summed over.
    pub k: usize,
    /// Left matrix.
    pub lhs: MatrixOperand,
    /// Right matrix.
    pub rhs: MatrixOperand,
    /// Element type of the matrices.
    pub dtype: DType,
    /// Runs at each of the `batch · m · n` points (domain `outer = batch · m`, `row = n`, `inner = 1`), reads the
    /// accumulator, stores. `Row` class is per result row.
    pub epilogue: FusedBody,
    /// Sums taken along the way.
    pub side_sums: Vec<SideSum>,
    /// What takes in the rows of the epilogue's result in place of memory.
    pub rows: Option<Box<RowsBody>>,
}

/// What folds the rows of a contraction's result.
#[derive(Clone, Debug, PartialEq)]
pub enum RowConsumer {
    /// The extreme element, or its index, of rows of that type.
    Extreme(Monoid, DType),
    /// An op whose role is a row monoid.
    Call(KernelCall),
}

impl RowConsumer {
    /// What a node does with the rows of its one operand, if it takes them in piece by piece.
    pub fn of(graph: &Graph, node: NodeId) -> Option<RowConsumer> {
        let node = &graph.nodes[node];
        match &node.op {
            NodeOp::Reduce { monoid, .. } => {
                let dtype = graph.ty(node.inputs[0]).dtype;
                extreme_fold(*monoid, dtype).map(|_| RowConsumer::Extreme(*monoid, dtype))
            }
            NodeOp::Call(call) => (matches!(call.form.role, Role::RowReduction(_)) && node.inputs.len() == 1)
                .then(|| RowConsumer::Call(KernelCall::new(graph, node, call))),
            _ => None,
        }
    }

    /// What it selects from each row, if that is all it does. Of extremes, NaN is the first.
    pub fn selection(&self) -> Option<Selection> {
        match self {
            RowConsumer::Extreme(monoid, dtype) => {
                let is_descending = matches!(monoid, Monoid::Max | Monoid::ArgMax);
                let order = Order { dtype: *dtype, is_descending, is_nan_first: true };
                let selected = if monoid.is_index() { Selected::Indices } else { Selected::Values };
                Some(Selection { k: 1, order, results: vec![selected] })
            }
            RowConsumer::Call(call) => match &call.call.form.role {
                Role::RowReduction(monoid) => monoid.selection(call),
                _ => None,
            },
        }
    }

    /// The fold.
    pub fn fold(&self) -> Box<dyn RowFold> {
        let fold = match self {
            RowConsumer::Extreme(monoid, dtype) => extreme_fold(*monoid, *dtype),
            RowConsumer::Call(call) => match &call.call.form.role {
                Role::RowReduction(monoid) => Some(monoid.fold(call)),
                _ => None,
            },
        };
        fold.unwrap_or_else(|| crate::bug!("{} folds no rows", self.name()))
    }

    /// What people call it.
    pub fn name(&self) -> &str {
        match self {
            RowConsumer::Extreme(monoid, _) => monoid.name(),
            RowConsumer::Call(call) => &call.call.form.name,
        }
    }
}

/// A contraction that folds the rows of its result as they are computed, so that the result is never stored.
#[derive(Clone, Debug, PartialEq)]
pub struct RowsBody {
    /// What folds.
    pub consumer: RowConsumer,
    /// Kernel operands that its results go to.
    pub results: Vec<usize>,
    /// Rows that one worker takes at a time.
    pub panel_rows: usize,
    /// Pieces that each row is cut into, where rows alone are too few to go round.
    pub n_pieces: usize,
    /// Words of the state of one piece of one row.
    pub state_words: usize,
}

/// Chunks of work that balance well enough.
const FOLD_CHUNKS: usize = 16;
/// Rows of a panel: few enough for their states to stay in cache, many enough to be worth reading the right matrix for.
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
        let state_words = consumer.fold().state_words();
        RowsBody { consumer, results, panel_rows, n_pieces, state_words }
    }
}

/// A stack of matrices whose elements are computed where they are read; mostly a window on an operand, or rows of one
/// picked by an index.
#[derive(Clone, Debug, PartialEq)]
pub struct Source {
    /// Runs at each of the `batch · rows · columns` points (domain `outer = batch · rows`, `row = columns`); without
    /// reductions and stores.
    pub tile: FusedBody,
    /// The register that holds an element of the matrix.
    pub value: Reg,
}

/// A matrix of a source as elements of an operand.
#[derive(Clone, Debug, PartialEq)]
pub struct Window {
    /// Index into the kernel's operands.
    pub operand: usize,
    /// From points of the source to elements; evaluated at the first point of a matrix.
    pub access: Access,
    /// Strides of rows and columns.
    pub strides: [i64; 2],
    /// A computed index by row and its stride in elements.
    pub index: Option<(Reg, i64)>,
}

impl Source {
    /// The source as matrices of so many rows in an operand, if no element is computed. An index, if there is one, is the
    /// result of the other instructions.
    pub fn window(&self, rows: usize) -> Option<Window> {
        let FusedInst { op: FusedOp::Load { operand, access, index }, class: Class::Element, .. } =
            &self.tile.insts[self.value]
        else {
            return None;
        };
        if index.is_some_and(|(index, _)| self.tile.insts[index].class == Class::Element) {
            return None;
        }
        let strides = access.trailing_strides(&[rows, self.tile.domain.row])?;
        Some(Window {
            operand: *operand,
            access: access.clone(),
            strides: [strides[0], strides[1]],
            index: *index,
        })
    }
}

/// Rows between two contractions: `score[b, i, j] = Σ_d query[b, i, d] · key[b, j, d]`, a tile over rows of scores that
/// yields weights, and `end` at each point of `Σ_j weight[b, i, j] · value[b, j, w]`.
#[derive(Clone, Debug, PartialEq)]
pub struct AttentionBody {
    /// Number of matrices.
    pub batch: usize,
    /// Queries.
    pub m: usize,
    /// Keys, and values.
    pub n: usize,
    /// Extent of a query and a key.
    pub k: usize,
    /// Extent of a value.
    pub width: usize,
    /// Element type of the values and the result.
    pub dtype: DType,
    /// Queries, `[batch, m, k]`.
    pub query: Source,
    /// Keys, `[batch, n, k]`.
    pub key: Source,
    /// Values, `[batch, n, width]`.
    pub value: Source,
    /// Runs over rows of scores (domain `outer = batch · m`, `row = n`, `inner = 1`): the accumulator is a score. Stores
    /// values of rows only.
    pub rows: FusedBody,
    /// The register of `rows` that holds a weight.
    pub weight: Reg,
    /// Runs at each point of the result (domain `outer = batch · m`, `row = width`, `inner = 1`), and stores it.
    pub end: FusedBody,
}

impl AttentionBody {
    /// All tiles, in the order in which they run.
    pub fn tiles(&self) -> [&FusedBody; 5] {
        [&self.query.tile, &self.key.tile, &self.value.tile, &self.rows, &self.end]
    }
}

/// One tensor of a segmented map.
#[derive(Clone, Debug, PartialEq)]
pub struct Segment {
    /// Kernel operand of each operand slot of the tile.
    pub operands: Vec<usize>,
    /// Number of points.
    pub points: usize,
    /// Constants that replace the tile's constants of the same order where segments differ.
    pub constants: Vec<Literal>,
}

/// `out = base; out[…, idx, …] combine= updates` with shapes as in [`crate::ir::NodeOp::Scatter`]; base, indices and
/// updates are computed where they are needed, or read.
#[derive(Clone, Debug, PartialEq)]
pub struct ScatterBody {
    /// Extents: shared leading axes, free axes before the indexed one, the indexed axis, number of indices (per shared
    /// leading index), free axes after.
    pub extents: [usize; 5],
    /// What happens where indices meet.
    pub combine: Combine,
    /// Whether sums are taken in the order of the indices even where the device has a faster way. What is set is always
    /// the last in that order.
    pub in_order: bool,
    /// Stores the result as it is before the first update (domain `outer = leading · before · indexed`, `row = after`).
    pub base: FusedBody,
    /// Computes indices and updates (domain `outer = leading · before · indices`, `row = after`); stores nothing.
    pub updates: FusedBody,
    /// The register of `updates` that holds an index, one for each row. All before it are of rows as well.
    pub index: Reg,
    /// The register of `updates` that holds an update.
    pub update: Reg,
    /// The kernel operand of the result.
    pub result: usize,
}

impl ScatterBody {
    /// The operand that the base is a plain copy of, if it is.
    pub fn copied_base(&self) -> Option<usize> {
        match &self.base.insts[..] {
            [FusedInst { op: FusedOp::Load { operand, access, index: None }, .. }, _] => {
                access.is_identity(self.base.domain.points(Class::Element)).then_some(*operand)
            }
            _ => None,
        }
    }
}

/// An op that brings its own kernel; the kernel's operands are those of the call, then its results.
#[derive(Clone, Debug, PartialEq)]
pub struct OpaqueBody {
    /// The call.
    pub call: KernelCall,
    /// Bytes of scratch that it needs while it runs.
    pub workspace_bytes: usize,
}

impl OpaqueBody {
    /// Asks the op what workspace the call needs.
    pub fn new(call: KernelCall) -> OpaqueBody {
        let workspace_bytes = (call.form().host)(&call).workspace_bytes;
        OpaqueBody { call, workspace_bytes }
    }
}

/// What a kernel does.
#[derive(Clone, Debug, PartialEq)]
pub enum KernelBody {
    /// Any DAG of maps, views, gathers and randoms. No `Reduce`; domain `(1, n, 1)`.
    Map(FusedBody),
    /// Maps and reductions over rows.
    Row(FusedBody),
    /// One tile over a table of segments; the tile's operand numbers are slots. Domain row is the longest segment.
    /// Accesses of the tile are identity (`Element`) or uniform.
    Segmented {
        /// The program; `Load`/`Store` accesses are identities over the segment's own points.
        tile: FusedBody,
        /// The table.
        segments: Vec<Segment>,
    },
    /// GEMM with epilogue and side sums.
    Matmul(MatmulBody),
    /// Contraction, rows, contraction.
    Attention(Box<AttentionBody>),
    /// Indexed combine.
    Scatter(Box<ScatterBody>),
    /// Inclusive prefix combine along the row of a domain: operand 0 to operand 1.
    Scan {
        /// How to combine.
        monoid: Monoid,
        /// Rows run along `row`.
        domain: Domain,
    },
    /// An op that brings its own kernel.
    Opaque(OpaqueBody),
}

/// One launch, or one parallel region on the CPU.
#[derive(Clone, Debug, PartialEq)]
pub struct Kernel {
    /// Unique in its list; from the names of what it writes.
    pub name: String,
    /// What it does.
    pub body: KernelBody,
    /// The buffers: reads first, then writes.
    pub operands: Vec<Operand>,
    /// Primitive nodes it covers, ascending.
    pub nodes: Vec<NodeId>,
    /// What it covers, as op names in order, for people.
    pub ops: Vec<String>,
    /// Bytes it must read: each operand, or the part of it that is reached, once.
    pub bytes_read: u64,
    /// Bytes it writes.
    pub bytes_written: u64,
    /// Floating-point operations; a transcendental counts as one.
    pub flops: u64,
}

impl Kernel {
    /// Its name with its ops, for people.
    pub fn label(&self) -> String {
        format!("{}: {}", self.name, self.ops.join(" "))
    }

    /// The tiles that it runs, in order.
    pub fn tiles(&self) -> Vec<&FusedBody> {
        match &self.body {
            KernelBody::Map(tile) | KernelBody::Row(tile) | KernelBody::Segmented { tile, .. } => vec![tile],
            KernelBody::Matmul(body) => vec![&body.epilogue],
            KernelBody::Attention(body) => body.tiles().to_vec(),
            KernelBody::Scatter(body) => vec![&body.base, &body.updates],
            KernelBody::Scan { .. } | KernelBody::Opaque(_) => vec![],
        }
    }

    /// Whether any of its tiles has checks.
    pub fn has_checks(&self) -> bool {
        self.assertions().next().is_some()
    }

    /// The nodes whose checks its tiles run.
    pub fn assertions(&self) -> impl Iterator<Item = NodeId> {
        self.tiles().into_iter().flat_map(FusedBody::assertions)
    }

    /// Bytes of scratch that the plan sets aside while the kernel runs.
    pub fn workspace_bytes(&self) -> usize {
        match &self.body {
            KernelBody::Opaque(body) => body.workspace_bytes,
            KernelBody::Matmul(MatmulBody { batch, m, rows: Some(rows), .. }) => {
                8 * batch * m * rows.n_pieces * rows.state_words
            }
            _ => 0,
        }
    }

    /// Whether it adds floats where indices meet: a device may have a fast way to do so that keeps no order.
    pub fn adds_where_indices_meet(&self) -> bool {
        let KernelBody::Scatter(body) = &self.body else { return false };
        body.combine == Combine::Add && self.operands[body.result].ty.dtype.is_float()
    }

    /// `map`, `row`, `segmented map`, `contract`, `attend`, `scatter`, `scan` or `kernel`.
    pub fn kind(&self) -> &'static str {
        match self.body {
            KernelBody::Map(_) => "map",
            // A map may compute some of its values once per row; what makes a row kernel is a reduction.
            KernelBody::Row(ref tile)
                if tile.insts.iter().all(|inst| !matches!(inst.op, FusedOp::Reduce { .. })) =>
            {
                "map"
            }
            KernelBody::Row(_) => "row",
            KernelBody::Segmented { .. } => "segmented map",
            KernelBody::Matmul(_) => "contract",
            KernelBody::Attention(_) => "attend",
            KernelBody::Scatter(_) => "scatter",
            KernelBody::Scan { .. } => "scan",
            KernelBody::Opaque(_) => "kernel",
        }
    }
}
