//! Bodies become programs, pass by pass.

mod direct;
pub mod parts;
mod passes;
mod prefetch;
mod slots;
mod superinstruction;
mod widen;

use super::program::{Layout, Program};
use engine_core::fusion::FusedBody;

/// Compiles a body.
pub fn compile(body: &FusedBody, layout: Layout) -> Program {
    // Half precision is computed in f32.
    let body = widen::widened(body);
    // Instructions are sorted into passes over the rows.
    let mut program = passes::sorted(&body, layout);
    // Chains of primitives share a loop.
    superinstruction::join(&mut program, &body, layout);
    // Results that are only stored are computed in their operand.
    direct::write_directly(&mut program, &body, layout);
    // Loads whose memory is overwritten before their last use copy their elements.
    direct::copy_overwritten(&mut program, layout.sharing);
    // Loops request the memory of the next block.
    prefetch::spread(&mut program, &body, layout);
    // All other results get a slot of scratch.
    slots::assign(&mut program, layout.is_resident);
    program
}
