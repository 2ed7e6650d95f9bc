//! The points that programs run over.

/// The points that instructions run over: `height` runs of `width` neighbours, `pitch` points apart.
#[derive(Clone, Copy, Debug)]
pub struct Span {
    /// The first point.
    pub start: usize,
    /// The points of a run.
    pub width: usize,
    /// The number of runs.
    pub height: usize,
    /// The distance of runs.
    pub pitch: usize,
    /// The coordinate of the first point along the row.
    pub along: usize,
    /// Where rows run across runs, the runs of a bundle of rows; the next bundle has rows of its own.
    pub bundle: usize,
}

impl Span {
    /// One run of neighbours.
    pub fn line(start: usize, len: usize) -> Span {
        Span { start, width: len, height: 1, pitch: len, along: 0, bundle: 1 }
    }

    /// The number of points.
    pub fn len(&self) -> usize {
        self.width * self.height
    }

    /// The length and number of the runs, as few as possible.
    pub fn runs(&self) -> (usize, usize) {
        match self.pitch == self.width || self.height == 1 {
            true => (self.len(), 1),
            false => (self.width, self.height),
        }
    }
}
