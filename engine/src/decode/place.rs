//! The part of an axis that counts the tokens.

/// The part of an axis that counts the tokens: the axis has the extent `outer · n · inner`, for n tokens.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Place {
    /// The axis.
    pub axis: usize,
    /// Elements of the axis by token.
    pub inner: usize,
}

impl Place {
    /// The place in `to` of the same elements, row-major, whose place in `from` this is. None if the tokens are divided
    /// among axes.
    pub fn reshaped(self, from: &[usize], to: &[usize], n: usize) -> Option<Place> {
        let outer = from[..self.axis].iter().product::<usize>() * self.outer(from, n)?;
        let inner = from[self.axis + 1..].iter().product::<usize>() * self.inner;
        (0..to.len()).find_map(|axis| {
            let before: usize = to[..axis].iter().product();
            let after: usize = to[axis + 1..].iter().product();
            let exact =
                |whole: usize, part: usize| (part > 0 && whole.is_multiple_of(part)).then(|| whole / part);
            let place = Place { axis, inner: exact(inner, after)? };
            (place.outer(to, n)? == exact(outer, before)?).then_some(place)
        })
    }

    /// How often the axis runs through the tokens.
    pub fn outer(self, extents: &[usize], n: usize) -> Option<usize> {
        let extent = *extents.get(self.axis)?;
        let once = n * self.inner;
        (once > 0 && extent > 0 && extent.is_multiple_of(once)).then(|| extent / once)
    }

    /// The extents with `n_new` of n tokens.
    pub fn shortened(self, extents: &[usize], n: usize, n_new: usize) -> Vec<usize> {
        let mut extents = extents.to_vec();
        extents[self.axis] = extents[self.axis] / n * n_new;
        extents
    }

    /// The extents with the tokens as an axis of their own, which is the next one after `axis`.
    pub fn split(self, extents: &[usize], n: usize) -> Vec<usize> {
        let outer = extents[self.axis] / (n * self.inner);
        [&extents[..self.axis], &[outer, n, self.inner], &extents[self.axis + 1..]].concat()
    }
}
