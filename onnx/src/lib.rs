//! ONNX models as pipelines.
//!
//! A model is a protobuf file (`proto`) with tensors, some in files beside it (`tensor`). Its nodes become expressions of
//! the engine one by one. The table `ops.ron` has an expression for most ops (`table`, `scope`, `template`); the others are
//! functions (`special`). Values that are known at import, such as shapes, are computed here (`known`, `fold`), with open
//! extents as names. Each expression is typed at once (`values`), so the translation of the next node sees its extents.
//!
//! In the other direction, the primitives of a graph become nodes of a model (`export`).
//!
//! **Invariant:** no input makes the importer panic, or allocate more than a small multiple of the file.

mod attention;
mod blocks;
mod body;
mod by_data;
mod compose;
mod draws;
mod export;
mod fault;
mod fold;
mod functions;
mod fused_quantize;
mod grid;
mod group_attention;
mod heads;
mod inline;
mod known;
mod labels;
mod linear_attention;
mod linear_models;
mod literal;
mod loops;
mod model;
mod names;
mod narrow;
mod node;
mod old;
mod operands;
mod optimizers;
mod pads;
mod picks;
mod places;
mod proto;
mod quantize;
mod recurrent;
mod regions;
mod resize;
mod roi;
mod scope;
mod scores;
mod seen;
mod sequences;
mod shapes;
mod signal;
mod special;
mod table;
mod template;
mod tensor;
mod translate;
mod trees;
mod values;
mod windows;
mod write;

pub use export::{EXPORTED_START, export};
pub use model::{Facts, Imported, NEWEST_OPSET, OLDEST_OPSET, import, ops};
pub use narrow::Narrow;
pub use seen::Seen;
pub use tensor::Stored;
pub use values::Param;
