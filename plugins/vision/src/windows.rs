//! Windows on spatial axes.

use engine_core::ir::{Attr, Attrs, Builder, Literal, Type, Value};
use engine_core::op::{AttrKind, AttrSpec, TypeIssue};

/// Items and channels.
pub const LEAD: usize = 2;

/// The windows on one spatial axis.
#[derive(Clone, Copy, Debug)]
pub struct Windows {
    /// Extent of the axis.
    pub extent: usize,
    /// Elements of a window.
    pub size: usize,
    /// Distance of neighbouring windows.
    pub stride: usize,
    /// Distance of neighbours within a window.
    pub dilation: usize,
    /// Elements that are added before and behind.
    pub padding: [usize; 2],
}

impl Windows {
    /// Elements from the first of a window to its last.
    pub fn reach(&self) -> usize {
        (self.size - 1) * self.dilation + 1
    }

    /// The number of windows.
    pub fn count(&self) -> usize {
        let padded = self.extent + self.padding[0] + self.padding[1];
        padded.checked_sub(self.reach()).map_or(0, |rest| rest / self.stride + 1)
    }
}

/// A setting of numbers.
pub fn list(name: &str, doc: &str, default: i64) -> AttrSpec {
    AttrSpec::with_default(name, doc, AttrKind::Ints, Attr::Ints(vec![default]))
}

/// The settings `stride`, `padding` and `dilation`.
pub fn settings() -> [AttrSpec; 3] {
    let padding = "elements added around: a number, one for each axis, or all before and then all behind";
    [
        list("stride", "distance of neighbouring windows, a number or one for each axis", 1),
        list("padding", padding, 0),
        list("dilation", "distance of neighbours within a window, a number or one for each axis", 1),
    ]
}

/// Numbers of a setting: the same for each of `n` axes, or one each.
pub fn per_axis(attrs: &Attrs, name: &str, n: usize, least: usize) -> Result<Vec<usize>, TypeIssue> {
    let given = attrs.ints(name);
    let numbers: Option<Vec<usize>> =
        given.iter().map(|&x| usize::try_from(x).ok().filter(|x| (least..1 << 31).contains(x))).collect();
    let wrong = |message: String| TypeIssue::new(message).at_setting(name);
    let numbers = numbers.ok_or_else(|| wrong(format!("`{name}` cannot be {given:?}")))?;
    let fault = || wrong(format!("`{name}` has {} numbers for {n} spatial axes", given.len()));
    match numbers.len() {
        1 => Ok(vec![numbers[0]; n]),
        found if found == n => Ok(numbers),
        found if found == 2 * n && name == "padding" => Ok(numbers),
        _ => Err(fault().help("give one number, or one for each axis")),
    }
}

/// The padding before and behind each of `n` axes.
pub fn paddings(attrs: &Attrs, n: usize) -> Result<Vec<[usize; 2]>, TypeIssue> {
    let given = per_axis(attrs, "padding", n, 0)?;
    let behind = given.len() - n;
    Ok((0..n).map(|i| [given[i], given[behind + i]]).collect())
}

/// The windows of these sizes on the spatial axes of an operand.
///
/// # Errors
/// If the operand has other axes, their extents are not known, or no window fits.
pub fn windows(op: &str, x: &Type, sizes: &[usize], attrs: &Attrs) -> Result<Vec<Windows>, TypeIssue> {
    let n = sizes.len();
    let padding = paddings(attrs, n)?;
    let (stride, dilation) = (per_axis(attrs, "stride", n, 1)?, per_axis(attrs, "dilation", n, 1)?);
    let extents = spatial(op, x, n)?;
    let of_axis = |i: usize| {
        let padding = padding[i];
        Windows { extent: extents[i], size: sizes[i], stride: stride[i], dilation: dilation[i], padding }
    };
    let windows: Vec<Windows> = (0..n).map(of_axis).collect();
    let fits = |windows: &Windows| windows.size > 0 && windows.count() > 0;
    match windows.iter().position(|windows| !fits(windows)) {
        None => Ok(windows),
        Some(i) => {
            let axis = i + LEAD;
            Err(TypeIssue::new(format!("no window of {} fits on axis {axis} of {x}", sizes[i]))
                .at(0, format!("this is {x}"))
                .help("make the window smaller, or add `padding`"))
        }
    }
}

/// The extents of `n` spatial axes.
pub fn spatial(op: &str, x: &Type, n: usize) -> Result<Vec<usize>, TypeIssue> {
    if n == 0 || n > 3 || x.rank() != n + LEAD {
        let message = format!("`{op}` takes [N, C, …] with one to three spatial axes, not {x}");
        return Err(TypeIssue::new(message).at(0, format!("this is {x}")));
    }
    let extents: Option<Vec<usize>> = x.shape[LEAD..].iter().map(|extent| extent.fixed()).collect();
    extents.ok_or_else(|| {
        TypeIssue::new(format!("the spatial axes of {x} are not known"))
            .at(0, format!("this is {x}"))
            .help("give their extents as numbers; items and channels may be open")
    })
}

/// The windows on an operand, padded by `fill`: `[…, windows, size, windows, size]`. The spatial axes are the last ones.
pub fn unfolded(b: &mut Builder, x: Value, windows: &[Windows], fill: f64) -> Value {
    let rank = b.ty(x).rank();
    let lead = rank - windows.len();
    let side = |which: usize| {
        let amounts = windows.iter().map(|windows| windows.padding[which]);
        vec![0; lead].into_iter().chain(amounts).collect::<Vec<usize>>()
    };
    let mut x = match windows.iter().all(|windows| windows.padding == [0, 0]) {
        true => x,
        false => b.pad(x, &side(0), &side(1), Literal::Float(fill)),
    };
    for (i, windows) in windows.iter().enumerate() {
        x = b.window(x, lead + 2 * i, windows.size, [windows.stride, windows.dilation]);
    }
    x
}

/// The axes of places within windows, of a tensor that [`unfolded`] made with `lead` axes before the spatial ones.
pub fn places(lead: usize, n: usize) -> Vec<usize> {
    (0..n).map(|i| lead + 2 * i + 1).collect()
}

/// Zeros between neighbours on an axis, so that they lie `step` apart.
pub fn spread(b: &mut Builder, x: Value, axis: usize, step: usize) -> Value {
    let mut extents = b.extents(x);
    let count = extents[axis];
    if step == 1 || count == 0 {
        return x;
    }
    extents.insert(axis + 1, 1);
    let x = b.reshape(x, &extents);
    let mut high = vec![0; extents.len()];
    high[axis + 1] = step - 1;
    let x = b.pad(x, &vec![0; extents.len()], &high, Literal::Float(0.0));
    extents.remove(axis + 1);
    extents[axis] = count * step;
    let x = b.reshape(x, &extents);
    extents[axis] = (count - 1) * step + 1;
    b.slice(x, &vec![0; extents.len()], &extents, &vec![1; extents.len()])
}

/// An axis with zeros before and behind, or cut: element `i` of the `n` of the result is element `i - low`.
pub fn shifted(b: &mut Builder, x: Value, axis: usize, low: i64, n: usize) -> Value {
    let mut extents = b.extents(x);
    let found = extents[axis] as i64;
    let (start, end) = ((-low).max(0), (n as i64 - low).min(found));
    let mut first = vec![0; extents.len()];
    (first[axis], extents[axis]) = (start as usize, (end - start).max(0) as usize);
    let x = b.slice(x, &first, &extents, &vec![1; extents.len()]);
    let (mut before, mut behind) = (vec![0; extents.len()], vec![0; extents.len()]);
    before[axis] = low.max(0) as usize;
    behind[axis] = n - before[axis] - extents[axis];
    b.pad(x, &before, &behind, Literal::Float(0.0))
}
