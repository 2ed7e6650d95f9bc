//! Tensors put one after the other, from padding and selection.

use super::{Builder, DType, Dim, E, Literal, Value};

impl Builder<'_> {
    /// Tensors of one type, except for the extent of `axis`, one after the other along that axis. Each is padded to the whole
    /// extent, and the result selects by position. So it keeps every bit, whereas a sum would lose the sign of -0.
    pub fn concat(&mut self, parts: &[Value], axis: usize) -> Value {
        let extents: Vec<usize> = parts.iter().map(|&part| self.extents(part)[axis]).collect();
        let total: usize = extents.iter().sum();
        let mut whole = self.ty(parts[0]).clone();
        whole.shape[axis] = Dim::Fixed(total);
        let (mut y, mut before) = (None, 0);
        for (&part, &extent) in parts.iter().zip(&extents).filter(|(_, extent)| **extent > 0) {
            let mut around = [vec![0; whole.rank()], vec![0; whole.rank()]];
            (around[0][axis], around[1][axis]) = (before, total - before - extent);
            let padded = match extent == total {
                true => part,
                false => self.pad(part, &around[0], &around[1], Literal::Int(0)),
            };
            y = Some(match y {
                None => padded,
                Some(earlier) => {
                    let position = self.iota(axis, whole.with_dtype(DType::I32));
                    self.map(&[position, earlier, padded], |v| E::select(v[0].lt(before as i64), v[1], v[2]))
                }
            });
            before += extent;
        }
        y.unwrap_or(parts[0])
    }
}
