//! Fourier transforms.
//!
//! A complex number is a pair along a trailing axis of 2: its real and its imaginary part. This is `torch.view_as_real`.
//! Numbers of axes count without that trailing axis, so they are those of PyTorch's complex tensors.

mod chirp;
mod complex_mul;
mod gpu;
mod host;
mod lines;
mod rows;

pub use chirp::fft_chirp;
pub use complex_mul::complex_mul;
pub use rows::fft_rows;

use engine_core::ir::{Attrs, Builder, DType, Dim, E, Literal, Type, Value};
use engine_core::op::{AttrKind, AttrSpec, OpForm, TypeIssue, checked};
use lines::{expect_complex, resized};

/// `y[k] = Σⱼ x[j]·e^(-2πi·jk/n)` along axes.
pub fn fft() -> OpForm {
    of_complex("fft", "Fourier transform of complex numbers along axes.", false)
        .example(
            "a wave and a constant",
            "fft(a)",
            &[("f32[4, 2]", &[2., 0., 0., 0., 0., 0., 2., 0.])],
            &[("f32[4, 2]", &[4., 0., 2., 2., 0., 0., 2., -2.])],
        )
        .example(
            "both axes of an image, scaled to keep its norm",
            "fft(a, axis=[0, 1], norm=\"ortho\")",
            &[("f32[2, 2, 2]", &[1., 0., 2., 0., 3., 0., 4., 2.])],
            &[("f32[2, 2, 2]", &[5., 1., -1., -1., -2., -1., 0., 1.])],
        )
}

/// `y[j] = 1/n·Σₖ x[k]·e^(2πi·jk/n)` along axes.
pub fn ifft() -> OpForm {
    of_complex("ifft", "Inverse Fourier transform of complex numbers along axes.", true).example(
        "padded by zeros",
        "ifft(a, n=4)",
        &[("f32[2, 2]", &[4., 0., 2., 2.])],
        &[("f32[4, 2]", &[1.5, 0.5, 0.5, 0.5, 0.5, -0.5, 1.5, -0.5])],
    )
}

/// The first n/2 + 1 numbers of the transform of real numbers, along the last of the axes. The others are their
/// conjugates. Along further axes, a complex transform follows.
pub fn rfft() -> OpForm {
    form("rfft", "Fourier transform of real numbers along axes; half of it, which tells the rest.")
        .input("x", "real numbers, f32 or f64")
        .types(|types, attrs| {
            let x = &types[0];
            x.expect_dtype("rfft", 0, |dtype| matches!(dtype, DType::F32 | DType::F64), "f32 or f64")?;
            let lines = Lines::new("rfft", &x.shape, x, attrs)?;
            let mut shape = lines.extents();
            let last = lines.last();
            shape[last.axis] = Dim::Fixed(known("rfft", x, last)? / 2 + 1);
            Ok(vec![Type { dtype: x.dtype, shape: shape.into_iter().chain([Dim::Fixed(2)]).collect() }])
        })
        .expand(|b, call| {
            let x = call.inputs[0];
            let ty = b.ty(x).clone();
            let lines = checked(Lines::new("rfft", &ty.shape, &ty, call.attrs));
            let (rank, kept) = (ty.rank(), checked(known("rfft", &ty, lines.last())) / 2 + 1);
            let pairs = b.reshape(x, &[b.extents(x), vec![1]].concat());
            let mut behind = vec![0; rank + 1];
            behind[rank] = 1;
            let mut z = b.pad(pairs, &vec![0; rank + 1], &behind, Literal::Float(0.0));
            for (number, line) in lines.0.iter().enumerate().rev() {
                z = line.transformed(b, z, false, call.attrs);
                if number + 1 == lines.0.len() {
                    z = resized(b, z, line.axis, kept);
                }
            }
            vec![z]
        })
        .example(
            "of four numbers",
            "rfft(a)",
            &[("f32[4]", &[2., 0., 0., 2.])],
            &[("f32[3, 2]", &[4., 0., 2., 2., 0., 0.])],
        )
}

/// The real numbers whose transform starts with these, along the last of the axes: n of them, by default an even number.
/// The imaginary parts of the first number and, of an even n, of number n/2 do not count.
pub fn irfft() -> OpForm {
    form("irfft", "Real numbers from half of their Fourier transform along axes.")
        .input("x", "[…, n/2 + 1, …, 2]: complex numbers, f32 or f64")
        .types(|types, attrs| {
            let x = &types[0];
            let lines = of_real(x, attrs)?;
            known("irfft", x, lines.last())?;
            Ok(vec![Type { dtype: x.dtype, shape: lines.extents() }])
        })
        .expand(|b, call| {
            let x = call.inputs[0];
            let ty = b.ty(x).clone();
            let lines = checked(of_real(&ty, call.attrs));
            let last = lines.last();
            let (n, rank) = (checked(known("irfft", &ty, last)), ty.rank());
            let others = &lines.0[..lines.0.len() - 1];
            let z = others.iter().fold(x, |z, line| line.transformed(b, z, true, call.attrs));
            let half = resized(b, z, last.axis, n / 2 + 1);
            let doubled = with_conjugates(b, half, last.axis, n);
            let whole = resized(b, doubled, last.axis, n);
            let y = last.transformed(b, whole, true, call.attrs);
            let extents = b.extents(y);
            let real = b.slice(y, &vec![0; rank], &[&extents[..rank - 1], &[1]].concat(), &vec![1; rank]);
            vec![b.reshape(real, &extents[..rank - 1])]
        })
        .example(
            "of four numbers",
            "irfft(a)",
            &[("f32[3, 2]", &[4., 0., 2., 2., 0., 0.])],
            &[("f32[4]", &[2., 0., 0., 2.])],
        )
        .example(
            "of an odd number",
            "irfft(a, n=3)",
            &[("f32[2, 2]", &[6., 5., 0., 3.])],
            &[("f32[3]", &[2., 2. - 3f64.sqrt(), 2. + 3f64.sqrt()])],
        )
}

fn form(name: &str, summary: &str) -> OpForm {
    let axis = "the axes, without that of the two parts; negative from the end";
    let n = "numbers of each axis, which is cut or padded by zeros; by default all";
    let norm = "which direction divides: `backward` by n, `forward` by n, or both by √n (`ortho`)";
    OpForm::new(name, summary)
        .attr(AttrSpec::with_default("axis", axis, AttrKind::Ints, -1i64))
        .attr(AttrSpec::open("n", n, AttrKind::Ints))
        .attr(AttrSpec::choice("norm", norm, &["backward", "ortho", "forward"]))
}

fn of_complex(name: &'static str, summary: &str, is_inverse: bool) -> OpForm {
    form(name, summary)
        .input("x", "[…, 2]: complex numbers, f32 or f64")
        .types(move |types, attrs| {
            let x = &types[0];
            expect_complex(name, x)?;
            let lines = Lines::new(name, &x.shape[..x.rank() - 1], x, attrs)?;
            Ok(vec![Type {
                dtype: x.dtype,
                shape: lines.extents().into_iter().chain([Dim::Fixed(2)]).collect(),
            }])
        })
        .expand(move |b, call| {
            let ty = b.ty(call.inputs[0]).clone();
            let lines = checked(Lines::new(name, &ty.shape[..ty.rank() - 1], &ty, call.attrs));
            let of_axis = |z, line: &Line| line.transformed(b, z, is_inverse, call.attrs);
            vec![lines.0.iter().fold(call.inputs[0], of_axis)]
        })
}

/// An axis of a transform, with its extent before and in the transform.
#[derive(Clone)]
struct Line {
    axis: usize,
    given: Dim,
    n: Dim,
}

/// The axes of a call, and the extents of all axes without that of the two parts.
struct Lines(Vec<Line>, Vec<Dim>);

impl Lines {
    /// The axes of a transform of numbers of that shape. `x` is the operand, for messages.
    fn new(op: &str, shape: &[Dim], x: &Type, attrs: &Attrs) -> Result<Lines, TypeIssue> {
        let numbers = Type { dtype: x.dtype, shape: shape.to_vec() };
        let (axes, given) = (attrs.ints("axis"), attrs.opt_ints("n"));
        let axes = axes.iter().map(|&axis| numbers.axis(axis)).collect::<Result<Vec<_>, _>>()?;
        if axes.is_empty() || given.as_ref().is_some_and(|given| given.len() != axes.len()) {
            return Err(TypeIssue::new(format!("`{op}` along {} axes", axes.len()))
                .at_setting("n")
                .help("give at least one axis, and one `n` for each"));
        }
        let line = |(number, &axis): (usize, &usize)| {
            let n = match given.as_ref().map(|given| given[number]) {
                None => shape[axis].clone(),
                Some(n) => Dim::Fixed(usize::try_from(n).unwrap_or(0)),
            };
            match n {
                Dim::Fixed(0) => Err(TypeIssue::new(format!("`{op}` of no numbers along axis {axis}"))
                    .at(0, format!("this is {x}"))),
                n => Ok(Line { axis, given: shape[axis].clone(), n }),
            }
        };
        let lines = axes.iter().enumerate().map(line).collect::<Result<Vec<_>, _>>()?;
        Ok(Lines(lines, shape.to_vec()))
    }

    fn last(&self) -> &Line {
        &self.0[self.0.len() - 1]
    }

    /// The extents of the result.
    fn extents(&self) -> Vec<Dim> {
        let mut extents = self.1.clone();
        for line in &self.0 {
            extents[line.axis] = line.n.clone();
        }
        extents
    }
}

/// The axes of `irfft`. The last one has 2·(m - 1) numbers from m, unless `n` says so.
fn of_real(x: &Type, attrs: &Attrs) -> Result<Lines, TypeIssue> {
    expect_complex("irfft", x)?;
    let mut lines = Lines::new("irfft", &x.shape[..x.rank() - 1], x, attrs)?;
    let last = lines.0.len() - 1;
    if let (None, Dim::Fixed(m)) = (attrs.opt_ints("n"), &lines.0[last].given) {
        lines.0[last].n = Dim::Fixed(2 * (m - 1));
    }
    match lines.last().n {
        Dim::Fixed(0) => Err(TypeIssue::new(format!("`irfft` of {x}, which tells no numbers"))
            .at(0, format!("this is {x}"))
            .help("give their number: `n=1`")),
        _ => Ok(lines),
    }
}

/// The numbers along an axis, which the type of the result depends on.
fn known(op: &str, x: &Type, line: &Line) -> Result<usize, TypeIssue> {
    line.n.fixed().ok_or_else(|| {
        TypeIssue::new(format!("`{op}` along axis {} of {x}, whose extent is not known", line.axis))
            .at(0, format!("this is {x}"))
            .help("give the extent as a number or a name of `dims`, or give `n`")
    })
}

impl Line {
    /// The transform along the axis: cut or padded, and divided as `norm` says.
    fn transformed(&self, b: &mut Builder, z: Value, is_inverse: bool, attrs: &Attrs) -> Value {
        let n = self.n.fixed().unwrap_or_else(|| engine_core::bug!("an extent is not bound"));
        let z = resized(b, z, self.axis, n);
        // The axis next to that of the two parts; exchanging two axes is its own inverse.
        let mut order: Vec<usize> = (0..b.ty(z).rank()).collect();
        order.swap(self.axis, b.ty(z).rank() - 2);
        let z = b.permute(z, &order);
        let y = chirp::transformed(b, z, n, is_inverse);
        let y = b.permute(y, &order);
        match (attrs.str("norm"), is_inverse) {
            ("ortho", _) => b.scale(y, (n as f64).sqrt().recip()),
            ("forward", false) | ("backward", true) => b.scale(y, (n as f64).recip()),
            _ => y,
        }
    }
}

/// Numbers that have a conjugate among the other half count twice: all but the first and, of an even n, number n/2.
fn with_conjugates(b: &mut Builder, half: Value, axis: usize, n: usize) -> Value {
    let ty = b.ty(half).with_dtype(DType::I32);
    let number = b.iota(axis, ty);
    b.map(&[half, number], |v| {
        let is_single = v[1].eq(0i64) | (v[1] * E::from(2i64)).eq(n as i64);
        E::select(is_single, v[0], v[0] * 2.0)
    })
}
