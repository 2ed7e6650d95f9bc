//! Fusion: from a simplified primitive graph to kernels.

mod access;
mod kernel;

pub use access::{Access, Axis, Guard, Level};
pub use kernel::{
    Class, ContractBody, Domain, Kernel, KernelBody, MatrixOperand, Operand, Reg, ScatterBody, Segment, Side,
    SideSum, Tile, TileInst, TileOp, Use,
};
