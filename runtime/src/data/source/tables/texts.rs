//! The cells of a column as texts.

/// The cells of a column.
#[derive(Default)]
pub(super) struct CellTexts {
    /// Each with a zero byte behind it, which no text holds.
    texts: String,
    /// (cell, its line) where the line is not the one after the cell before.
    breaks: Vec<(usize, usize)>,
    pub(super) n_cells: usize,
    next_line: usize,
}

impl CellTexts {
    pub(super) fn push(&mut self, line: usize, text: &str) {
        if line != self.next_line {
            self.breaks.push((self.n_cells, line));
        }
        self.next_line = line + 1;
        self.n_cells += 1;
        self.texts.push_str(text);
        self.texts.push('\0');
    }

    pub(super) fn cells(&self) -> impl Iterator<Item = TextCell<'_>> {
        let (mut breaks, mut next_line) = (self.breaks.iter().peekable(), 0);
        self.texts.split_terminator('\0').enumerate().map(move |(cell, text)| {
            let line = breaks.next_if(|(at, _)| *at == cell).map_or(next_line, |(_, line)| *line);
            next_line = line + 1;
            TextCell { line, text }
        })
    }
}

/// A cell of a column.
#[derive(Clone, Copy)]
pub(super) struct TextCell<'t> {
    pub(super) line: usize,
    pub(super) text: &'t str,
}
