//! The text form of graphs: typed, one node per line, every operand a name.
//!
//! ```text
//! graph mlp {
//!   input x: f32[32, 64]
//!   param w: f32[64, 10]
//!   h: f32[32, 10] = relu(t.1)                                  a registered op
//!   d: f32[32, 10] = map(h, t.1) |a, b| select(b > 0.0, a, 0.0) a scalar body
//!   t.1: f32[32, 10] = .contract(x, w, contracted=[[1, 0]])     a primitive, hence the dot
//!   y: f32[10] = .loop(h, trips=3) {                            a node with a region
//!     graph body { … }
//!   }
//!   state w = w.next
//!   output loss = t.9
//! }
//! ```
//!
//! Attributes stand sorted, those that have their default are left out. A name that is not made of letters, digits,
//! `_` and inner dots is quoted. Nothing depends on hashing, time or addresses, and places in source files are not
//! part of the text: apart from them, reading a printed graph gives the same graph.

mod print;
#[cfg(test)]
mod tests;

use std::borrow::Cow;

pub(crate) use print::NodeText;

/// A name as it stands in the text: quoted unless it is made of letters, digits, `_` and inner dots.
fn written_name(name: &str) -> Cow<'_, str> {
    if is_plain_name(name) { name.into() } else { format!("{name:?}").into() }
}

fn is_plain_name(name: &str) -> bool {
    name.starts_with(is_name_start) && name.chars().all(is_name_char) && !name.ends_with('.')
}

fn is_name_start(c: char) -> bool {
    c == '_' || c.is_alphabetic()
}

fn is_name_char(c: char) -> bool {
    c == '_' || c == '.' || c.is_alphanumeric()
}
