//! Kernels that ops bring along.

use super::work::Work;
use crate::ir::Type;
use crate::op::KernelCall;

/// An op that brings its own kernel; the kernel's operands are those of the call, then its results.
#[derive(Clone, Debug, PartialEq)]
pub struct OpaqueBody {
    /// The call.
    pub call: KernelCall,
    /// Bytes of its workspace.
    pub workspace_bytes: usize,
}

impl OpaqueBody {
    /// The call, with the workspace that its form asks for.
    pub fn new(call: KernelCall) -> OpaqueBody {
        let workspace_bytes = (call.form().host)(&call).workspace_bytes;
        OpaqueBody { call, workspace_bytes }
    }
}

/// An opaque op does not declare its operations. Most are comparisons.
impl Work for OpaqueBody {
    fn kind(&self) -> &'static str {
        "kernel"
    }

    fn lines(&self) -> Vec<String> {
        let types = |types: &[Type]| types.iter().map(Type::to_string).collect::<Vec<_>>().join(", ");
        let (inputs, outputs) = (types(&self.call.inputs), types(&self.call.outputs));
        let name = &self.call.call.form().name;
        vec![format!("{name}({inputs}) -> {outputs}, workspace {} B", self.workspace_bytes)]
    }

    fn reads_whole(&self, _operand: usize) -> bool {
        true
    }

    fn workspace_bytes(&self) -> usize {
        self.workspace_bytes
    }
}
