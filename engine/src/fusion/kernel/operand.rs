//! The buffers of a kernel.

use crate::ir::{Type, Value};

/// How a kernel uses a buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Use {
    /// Only reads.
    Read,
    /// Only writes, every element once.
    Write,
}

/// A buffer that a kernel reads or writes. The plan may place a written buffer in the memory of a read one. Then each
/// point reads before it writes, and only its own element.
#[derive(Clone, Debug, PartialEq)]
pub struct Operand {
    /// The value in the primitive graph.
    pub value: Value,
    /// Its type, all extents known; dense, row-major.
    pub ty: Type,
    /// Read or written.
    pub usage: Use,
}
