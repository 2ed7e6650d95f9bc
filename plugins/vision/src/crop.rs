//! `crop` and `center_crop`.

use crate::windows::per_axis;
use engine_core::ir::{Attrs, Builder, Dim, Literal, Type, Value};
use engine_core::op::{AttrKind, AttrSpec, OpForm, TypeIssue, checked};

/// A part of images, as torchvision's `crop` takes it: what lies outside of the image is zero.
pub fn crop() -> OpForm {
    OpForm::new("crop", "Takes a part of images; what lies outside of them is zero.")
        .follows_operands()
        .input("x", "[…, H, W]")
        .attr(AttrSpec::must("top", "the first row, negative above the image", AttrKind::Int))
        .attr(AttrSpec::must("left", "the first column, negative left of the image", AttrKind::Int))
        .attr(AttrSpec::must("height", "rows of the part", AttrKind::Int))
        .attr(AttrSpec::must("width", "columns of the part", AttrKind::Int))
        .types(|types, attrs| Ok(vec![cropped(&types[0], &placed(&types[0], attrs)?)]))
        .expand(|b, call| {
            let parts = checked(placed(b.ty(call.inputs[0]), call.attrs));
            vec![taken(b, call.inputs[0], &parts)]
        })
        .example(
            "two rows of three columns",
            "crop(a, top=1, left=0, height=2, width=3)",
            &[("i32[3, 4]", &[1., 2., 3., 4., 5., 6., 7., 8., 9., 10., 11., 12.])],
            &[("i32[2, 3]", &[5., 6., 7., 9., 10., 11.])],
        )
        .example(
            "over the edge",
            "crop(a, top=-1, left=1, height=2, width=2)",
            &[("f32[2, 2]", &[1., 2., 3., 4.])],
            &[("f32[2, 2]", &[0., 0., 2., 0.])],
        )
}

/// The middle of images, as torchvision's `center_crop` takes it: half a row or column is rounded to the even number.
pub fn center_crop() -> OpForm {
    OpForm::new("center_crop", "Takes the middle of images; smaller ones get a border of zeros.")
        .follows_operands()
        .input("x", "[…, H, W]")
        .attr(AttrSpec::must("size", "rows and columns, a number for both or one each", AttrKind::Ints))
        .types(|types, attrs| Ok(vec![cropped(&types[0], &centred(&types[0], attrs)?)]))
        .expand(|b, call| {
            let parts = checked(centred(b.ty(call.inputs[0]), call.attrs));
            vec![taken(b, call.inputs[0], &parts)]
        })
        .example(
            "the middle column",
            "center_crop(a, size=[2, 1])",
            &[("f32[2, 3]", &[1., 2., 3., 4., 5., 6.])],
            &[("f32[2, 1]", &[2., 5.])],
        )
        .example(
            "a border of zeros",
            "center_crop(a, size=[1, 4])",
            &[("f32[1, 2]", &[1., 2.])],
            &[("f32[1, 4]", &[0., 1., 2., 0.])],
        )
}

/// A part of one axis: zeros before, elements from one on, zeros behind.
struct Part {
    before: usize,
    from: usize,
    kept: usize,
    after: usize,
}

impl Part {
    /// `count` elements from `first` on, of `n`.
    fn new(n: usize, first: i64, count: usize) -> Part {
        let place = |at: i64| at.clamp(0, n as i64) as usize;
        let (from, to) = (place(first), place(first + count as i64));
        let before = (-first).clamp(0, count as i64) as usize;
        Part { before, from, kept: to - from, after: count - before - (to - from) }
    }

    fn count(&self) -> usize {
        self.before + self.kept + self.after
    }
}

fn placed(x: &Type, attrs: &Attrs) -> Result<[Part; 2], TypeIssue> {
    let [rows, columns] = image(x)?;
    let count = |name: &str| {
        let given = attrs.int(name);
        usize::try_from(given).ok().filter(|n| (1..1 << 31).contains(n)).ok_or_else(|| {
            TypeIssue::new(format!("`{name}` is a number from 1 on, not {given}")).at_setting(name)
        })
    };
    let first = |name: &str| {
        let given = attrs.int(name);
        match given.unsigned_abs() < 1 << 31 {
            true => Ok(given),
            false => Err(TypeIssue::new(format!("`{name}` cannot be {given}")).at_setting(name)),
        }
    };
    Ok([
        Part::new(rows, first("top")?, count("height")?),
        Part::new(columns, first("left")?, count("width")?),
    ])
}

fn centred(x: &Type, attrs: &Attrs) -> Result<[Part; 2], TypeIssue> {
    let extents = image(x)?;
    let sizes = per_axis(attrs, "size", 2, 1)?;
    let part = |axis: usize| {
        let (n, size) = (extents[axis] as i64, sizes[axis] as i64);
        let (rest, border) = ((n - size).max(0), (size - n).max(0));
        let middle = rest / 2 + i64::from(rest % 4 == 3);
        Part::new(extents[axis], middle - border / 2, sizes[axis])
    };
    Ok([part(0), part(1)])
}

/// The known extents of the last two axes.
fn image(x: &Type) -> Result<[usize; 2], TypeIssue> {
    let misfit = |message: String| TypeIssue::new(message).at(0, format!("this is {x}"));
    let [.., rows, columns] = &x.shape[..] else {
        return Err(misfit(format!("images have rows and columns, and {x} has fewer than 2 axes")));
    };
    let known = |dim: &Dim| {
        dim.fixed().ok_or_else(|| misfit(format!("{x} cannot be cropped before its extents are known")))
    };
    Ok([known(rows)?, known(columns)?])
}

fn cropped(x: &Type, parts: &[Part; 2]) -> Type {
    let mut shape = x.shape.clone();
    let last = shape.len() - 2;
    for (dim, part) in shape[last..].iter_mut().zip(parts) {
        *dim = Dim::Fixed(part.count());
    }
    Type { dtype: x.dtype, shape }
}

fn taken(b: &mut Builder, x: Value, parts: &[Part; 2]) -> Value {
    let whole = b.extents(x);
    let lead = whole.len() - 2;
    let spread = |of: fn(&Part) -> usize, rest: &[usize]| -> Vec<usize> {
        rest.iter().copied().chain(parts.iter().map(of)).collect()
    };
    let zeros = vec![0; lead];
    let kept = spread(|part| part.kept, &whole[..lead]);
    let from = spread(|part| part.from, &zeros);
    let x = if kept == whole { x } else { b.slice(x, &from, &kept, &vec![1; whole.len()]) };
    let (before, after) = (spread(|part| part.before, &zeros), spread(|part| part.after, &zeros));
    match parts.iter().any(|part| part.before + part.after > 0) {
        true => b.pad(x, &before, &after, Literal::Int(0)),
        false => x,
    }
}
