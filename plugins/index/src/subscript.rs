//! Subscripts: the text between the brackets of `x[…]`.

use engine_core::ir::{Dim, Type, broadcast_shapes};
use engine_core::op::{self, TypeIssue};

/// One item of a subscript.
#[derive(Clone, Debug, PartialEq)]
enum Item {
    /// `#`: the next index operand.
    Operand,
    /// One position. A negative one counts from the end.
    Position(i64),
    /// `start:stop:step` with any part left out.
    Range(Option<i64>, Option<i64>, i64),
    /// `...`: all remaining axes, whole.
    Rest,
    /// `new`: an axis of extent 1.
    New,
}

/// The part of one axis in a subscript.
#[derive(Clone, Debug, PartialEq)]
pub enum Part {
    /// The index operand with this number.
    Operand(usize),
    /// One position.
    Position(usize),
    /// Positions `start + j·step`, along axis `axis` of the result.
    Range {
        /// First position.
        start: usize,
        /// Stride; a negative one walks backwards.
        step: i64,
        /// Axis of the result.
        axis: usize,
    },
}

/// A subscript that fits its operand, by numpy's rules.
#[derive(Clone, Debug, PartialEq)]
pub struct Subscript {
    /// By axis of the operand, without trailing whole axes.
    pub parts: Vec<Part>,
    /// The axis of the result where the axes of the broadcast index operands begin.
    pub index_axis: usize,
    /// Their number.
    pub index_rank: usize,
    /// Extents of the result.
    pub shape: Vec<Dim>,
}

/// The subscript in which every index operand stands for a leading axis.
pub fn leading(n_operands: usize) -> String {
    vec!["#"; n_operands].join(", ")
}

impl Subscript {
    /// Reads `text`, such as `#, 1:-1, ..., #`, as the subscript of `x` with these index operands.
    ///
    /// # Errors
    /// If it is malformed or does not fit.
    pub fn fit(text: &str, x: &Type, operands: &[Type]) -> Result<Subscript, TypeIssue> {
        let items = text.split(',').map(|word| item(word.trim())).collect::<Result<Vec<_>, _>>()?;
        let n_given = items.iter().filter(|item| **item == Item::Operand).count();
        if n_given != operands.len() {
            return Err(TypeIssue::new(format!(
                "the subscript `{text}` has {n_given} `#` for {} index operands",
                operands.len()
            )));
        }
        let items = spelled_out(items, x, text)?;
        let indices = broadcast_shapes(operands).ok_or_else(|| mismatch(operands))?;
        let mut placed = place(&items, x, &indices)?;
        placed.drop_whole_tail(x);
        Ok(placed)
    }

    /// Drops trailing whole axes of the operand that stay last, since they move as one.
    fn drop_whole_tail(&mut self, x: &Type) {
        let index_end = self.index_axis + self.index_rank;
        while let Some(&Part::Range { start: 0, step: 1, axis }) = self.parts.last() {
            let last = x.rank() - self.parts.len() + 1;
            let is_whole = self.shape[axis] == x.shape[self.parts.len() - 1];
            if !is_whole || axis < index_end || axis != self.shape.len() - last {
                break;
            }
            self.parts.pop();
        }
    }
}

fn item(word: &str) -> Result<Item, TypeIssue> {
    let number = |word: &str| {
        word.trim().parse::<i64>().map_err(|_| {
            TypeIssue::new(format!("`{word}` means nothing in a subscript"))
                .help("write `#` for an index operand, a position, `start:stop:step`, `...` or `new`")
        })
    };
    let part = |word: &str| if word.trim().is_empty() { Ok(None) } else { number(word).map(Some) };
    match (word, word.split(':').collect::<Vec<_>>().as_slice()) {
        ("#", _) => Ok(Item::Operand),
        ("...", _) => Ok(Item::Rest),
        ("new", _) => Ok(Item::New),
        (_, [start, stop]) => Ok(Item::Range(part(start)?, part(stop)?, 1)),
        (_, [start, stop, step]) => Ok(Item::Range(part(start)?, part(stop)?, part(step)?.unwrap_or(1))),
        _ => number(word).map(Item::Position),
    }
}

/// Replaces `...` by whole axes, with one item for each axis of `x` and each new one. The ellipsis separates index
/// operands even if it stands for no axis, so it leaves a mark.
fn spelled_out(items: Vec<Item>, x: &Type, text: &str) -> Result<Vec<Item>, TypeIssue> {
    let n_taken = items.iter().filter(|item| !matches!(item, Item::Rest | Item::New)).count();
    let n_rests = items.iter().filter(|item| **item == Item::Rest).count();
    if n_taken > x.rank() || n_rests > 1 {
        return Err(TypeIssue::new(format!("the subscript `{text}` does not fit {x}"))
            .at(0, format!("this is {x}"))
            .help("it has at most one item for each axis, and one `...`"));
    }
    let whole = || (0..x.rank() - n_taken).map(|_| Item::Range(None, None, 1));
    let mut all = vec![];
    for item in items {
        match item {
            Item::Rest => {
                all.push(Item::Rest);
                all.extend(whole());
            }
            item => all.push(item),
        }
    }
    if n_rests == 0 {
        all.extend(whole());
    }
    Ok(all)
}

fn mismatch(operands: &[Type]) -> TypeIssue {
    let types: Vec<String> = operands.iter().map(Type::to_string).collect();
    TypeIssue::new(format!("index operands {} do not broadcast", types.join(" and ")))
        .help("trailing axes must agree or be 1")
}

/// Numpy's rule: the axes of the indices replace the first of them. They move to the front if items other than indices
/// and single positions stand between them.
fn place(items: &[Item], x: &Type, indices: &[Dim]) -> Result<Subscript, TypeIssue> {
    let is_index = |item: &Item| matches!(item, Item::Operand | Item::Position(_));
    let first = items.iter().position(is_index).unwrap_or(0);
    let last = items.iter().rposition(is_index).unwrap_or(0);
    let is_together = items[first..=last].iter().all(is_index);
    let mut placed = Subscript { parts: vec![], index_axis: 0, index_rank: indices.len(), shape: vec![] };
    if !is_together {
        placed.shape.extend_from_slice(indices);
    }
    let (mut axis, mut operand) = (0, 0);
    for (i, item) in items.iter().enumerate() {
        if is_together && i == first {
            placed.index_axis = placed.shape.len();
            placed.shape.extend_from_slice(indices);
        }
        let part = match *item {
            Item::Rest => continue,
            Item::New => {
                placed.shape.push(Dim::Fixed(1));
                continue;
            }
            Item::Operand => {
                operand += 1;
                Part::Operand(operand - 1)
            }
            Item::Position(at) => Part::Position(position(x, axis, at)?),
            Item::Range(start, stop, step) => {
                let (start, step, count) = range(x, axis, start, stop, step)?;
                placed.shape.push(count);
                Part::Range { start, step, axis: placed.shape.len() - 1 }
            }
        };
        placed.parts.push(part);
        axis += 1;
    }
    Ok(placed)
}

fn position(x: &Type, axis: usize, at: i64) -> Result<usize, TypeIssue> {
    let n = extent(x, axis)? as i64;
    if (-n..n).contains(&at) {
        return Ok(at.rem_euclid(n) as usize);
    }
    Err(TypeIssue::new(format!("axis {axis} of {x} has no index {at}")).at(0, format!("this is {x}")))
}

/// First position, stride and number of positions of a range, by Python's rules.
fn range(
    x: &Type,
    axis: usize,
    start: Option<i64>,
    stop: Option<i64>,
    step: i64,
) -> Result<(usize, i64, Dim), TypeIssue> {
    if (start, stop, step) == (None, None, 1) {
        return Ok((0, 1, x.shape[axis].clone()));
    }
    let range = op::Range::of(extent(x, axis)?, start, stop, step)?;
    Ok((range.start, range.step, Dim::Fixed(range.count)))
}

fn extent(x: &Type, axis: usize) -> Result<usize, TypeIssue> {
    x.shape[axis].fixed().ok_or_else(|| {
        TypeIssue::new(format!("axis {axis} of {x} cannot be cut before its extent is known"))
            .at(0, format!("this is {x}"))
            .help("give the extent as a number")
    })
}
