//! The graph with its types, scalar bodies, primitive operations and nodes, and its text form.

mod attr_spec;
mod attrs;
mod body;
mod builder;
mod dim;
mod dtype;
mod graph;
mod handle;
mod issue;
mod join;
mod op;
mod prim;
mod pruned;
mod random;
mod scalar;
mod target;
mod text;
mod types;
mod verify;

pub use attr_spec::{AttrKind, AttrRange, AttrSpec};
pub use attrs::{Attr, Attrs, Literal};
pub use body::{Body, Inst};
pub use builder::Builder;
pub use dim::{Dim, Symbol};
pub use dtype::DType;
pub use graph::{
    Call, Graph, InputKind, Keep, Node, NodeId, NodeOp, Output, PART, RECOMPUTED, StateLink, Value,
    free_name, in_turn_with, written_path,
};
pub use handle::{E, Reg};
pub use issue::TypeIssue;
pub use op::{OpInterface, OpSet};
pub use prim::{Combine, MatmulSpec, Monoid, Requirement, View};
pub(crate) use pruned::{Needs, with_needs};
pub use random::stream_of;
pub use scalar::{Binary, Foreign, Scalar, Unary};
pub use target::{MOST_SELECTED, Target};
pub(crate) use text::NodeText;
pub use text::{TextError, parse, read_extent};
pub use types::{Type, broadcast_shapes, dense_strides};
pub use verify::{Level, Problem, verify};
