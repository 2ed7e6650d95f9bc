//! The text form of graphs: typed, one node per line, every operand a name.
//!
//! ```text
//! graph mlp {
//!   input x: f32[32, 64]
//!   param w: f32[64, 10]
//!   t.1: f32[32, 10] = .matmul(x, w, contracted=[[1, 0]])       # a primitive, hence the dot
//!   h: f32[32, 10] = relu(t.1)                                  # a registered op
//!   d: f32[32, 10] = map(h, t.1) |a, b| select(b > 0.0, a, 0.0) # a scalar body
//!   y: f32[32, 10] = .loop(h, trips=3) {                        # a node with a region
//!     graph body {
//!       input acc: f32[32, 10]
//!       input i: i32[]
//!       output acc = acc
//!     }
//!   }
//!   state w = w
//!   output y = y
//! }
//! ```
//!
//! A line that begins with `[h]` belongs to a node `h` with `fuse: Never`. Settings are sorted, and defaults are
//! omitted. Names of letters, digits, `_` and inner dots and slashes stand unquoted; all others are quoted. `.max` and
//! `.min` with axes are reductions, without axes they are scalar primitives. Nothing printed depends on hashing, time
//! or addresses. Places in source files are not part of the text; all else reads back from a printed graph.

mod call;
mod error;
mod extent;
mod formula;
mod parse;
mod piece;
mod print;
#[cfg(test)]
mod tests;

use crate::text::lex::{is_name_char, is_name_start};
use std::borrow::Cow;

pub use error::TextError;
pub use extent::read_extent;
pub use parse::parse;
pub(crate) use print::NodeText;

/// A name as it stands in the text.
fn written_name(name: &str) -> Cow<'_, str> {
    if is_plain_name(name) { name.into() } else { format!("{name:?}").into() }
}

/// Whether a name can stand without quotes: parts of letters, digits and `_` between dots and slashes.
fn is_plain_name(name: &str) -> bool {
    let is_part = |part: &str| !part.is_empty() && part.chars().all(is_name_char);
    name.starts_with(is_name_start) && name.split(['.', '/']).all(is_part)
}
