//! From expressions to typed nodes.
//!
//! Numbers without a type take that of the operands beside them; arithmetic among such numbers is done here, exactly
//! where they are integers. A number that stands alone is `f32` if it has a fraction, else `i32`.

mod calls;
mod expressions;
mod loops;
mod manner;
mod names;
mod ops;
mod pattern;
mod reports;
mod state;
mod written;

pub(super) use reports::{check_declared, report_unknown_op};
pub(super) use state::Typing;
pub(super) use written::{Around, Place, Written};
