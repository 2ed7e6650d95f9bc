//! Convolutions among matmuls, found by the axes of their matrices.
//!
//! A convolution and its two gradients are matmuls of which the right matrix consists of windows. The axes say which
//! windows: a *place* axis steps from window to window, a *part* axis within a window, and both step along one axis of the
//! image. A library of convolutions takes the image instead, as a tensor `[items, channels, depth, height, width]`.

use super::access::{Access, Axis, Level};
use super::kernel::matmul::{MatmulBody, Side, UnevenAxes};
use crate::ir::dense_strides;
use std::fmt;

/// Axes of a tensor of a convolution: items, channels and three spatial axes. Absent spatial axes come first, with extent 1.
pub const N_AXES: usize = 5;
const N_SPATIAL: usize = N_AXES - 2;

/// A tensor of a convolution as it lies in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct TensorLayout {
    /// Items, channels of all groups, depth, height, width.
    pub extents: [usize; N_AXES],
    /// Elements from one to the next along each axis.
    pub strides: [i64; N_AXES],
}

/// The tensor that is computed from the two others.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Computed {
    /// The result: the left matrix holds the weights, the right one windows of the image.
    Result,
    /// The gradient of the image: the left matrix holds the weights, the right one windows of the result's gradient.
    Image,
    /// The gradient of the weights: the left matrix holds the result's gradient, the right one windows of the image.
    Weights,
}

/// `result[n, o, p] = Σ image[n, c, p·stride + r·dilation - padding] · weights[o, c, r]` over the channels `c` of the group of
/// `o` and the parts `r` of a window, or one of its gradients. What is computed is dense.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Convolution {
    /// What is computed.
    pub computed: Computed,
    /// Channels are convolved in so many groups.
    pub groups: usize,
    /// The image.
    pub image: TensorLayout,
    /// Extents of the weights, which are dense: channels of the result, channels of a group, and the window.
    pub weights: [usize; N_AXES],
    /// The result.
    pub result: TensorLayout,
    /// Distance of neighbouring windows along each spatial axis.
    pub stride: [usize; N_SPATIAL],
    /// Distance of neighbours within a window.
    pub dilation: [usize; N_SPATIAL],
    /// Zeros on both sides of the image.
    pub padding: [usize; N_SPATIAL],
    /// Elements of the right matrix's operand before the first one of its tensor.
    pub offset: i64,
}

impl Convolution {
    /// The convolution that computes the sums of a matmul; none if it is no convolution.
    pub fn of(body: &MatmulBody) -> Option<Convolution> {
        Convolution::of_axes([&body.axes(Side::Lhs), &body.axes(Side::Rhs)], body.rhs.offset)
    }

    /// The convolution of a left and a right matrix with these axes, the right one from an offset on.
    pub fn of_axes([lhs, rhs]: [&UnevenAxes; 2], offset: i64) -> Option<Convolution> {
        let found = of_items(lhs, rhs, offset).or_else(|| of_weights(lhs, rhs, offset))?;
        let tensors = [found.image, found.result];
        let is_small = tensors.iter().all(TensorLayout::is_small) && offset >= 0 && found.offset >= 0;
        is_small.then_some(found)
    }

    /// Elements from the first to the last of the left and of the right factor.
    pub fn factor_reaches(&self) -> [i64; 2] {
        let weights = self.weights.iter().product::<usize>() as i64 - 1;
        match self.computed {
            Computed::Result => [weights, self.image.reach()],
            Computed::Image => [weights, self.result.reach()],
            Computed::Weights => [self.result.reach(), self.image.reach()],
        }
    }

    /// Elements of all three tensors.
    pub fn n_elements(&self) -> usize {
        [self.image.extents, self.weights, self.result.extents]
            .iter()
            .map(|of| of.iter().product::<usize>())
            .sum()
    }

    /// What is computed of which sizes, without the places in memory.
    pub fn shape(&self) -> String {
        let extents = |extents: &[usize]| extents.iter().map(usize::to_string).collect::<Vec<_>>().join("x");
        let of = match self.computed {
            Computed::Result => "",
            Computed::Image => "image of ",
            Computed::Weights => "weights of ",
        };
        let mut text = format!("{of}{} by {}", extents(&self.image.extents), extents(&self.weights));
        for (name, values, default) in
            [("stride", self.stride, 1), ("dilation", self.dilation, 1), ("padding", self.padding, 0)]
        {
            if values != [default; N_SPATIAL] {
                text.push_str(&format!(", {name} {}", extents(&values)));
            }
        }
        if self.groups > 1 {
            text.push_str(&format!(", {} groups", self.groups));
        }
        text
    }
}

/// All of it in one line, with the strides of both tensors.
impl fmt::Display for Convolution {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (image, result) = (self.image.strides, self.result.strides);
        write!(f, "{}, image {image:?}, result {result:?} + {}", self.shape(), self.offset)
    }
}

/// The result of a convolution, or the gradient of its image: a matmul for each item.
fn of_items(lhs: &UnevenAxes, rhs: &UnevenAxes, offset: i64) -> Option<Convolution> {
    let (items, group) = match lhs.batch[..] {
        [] => (1, NONE),
        [items] if items.stride == 0 => (items.extent, NONE),
        [group] => (1, group),
        [items, group] if items.stride == 0 => (items.extent, group),
        _ => return None,
    };
    let [item_axis, group_axis] = split(&rhs.batch, &[items, group.extent])?[..] else { return None };
    let rows = numel(&lhs.rows);
    let windows = || with_and_without_first(&rhs.rows).into_iter();
    windows().find_map(|(channel, parts)| {
        all_owners(&rhs.columns, parts).find_map(|spatial| {
            let sizes = spatial.iter().map(|axis| axis.size);
            let tensor = TensorLayout::read(item_axis, group_axis, channel, &spatial)?;
            let is_reversed = spatial.iter().any(|axis| axis.is_reversed);
            let order: Vec<usize> = [channel.extent].into_iter().chain(sizes).collect();
            let columns = split(&lhs.columns, &order)?;
            let weights = match is_reversed {
                false => [&[group][..], &lhs.rows, &columns].concat(),
                true => [&[group, columns[0]][..], &lhs.rows, &columns[1..]].concat(),
            };
            if !is_dense(&weights) {
                return None;
            }
            let window = Windows::new(&spatial)?;
            match is_reversed {
                false => Some(window.result(tensor, group.extent, [rows, channel.extent], offset)),
                true => window.image(tensor, group.extent, [channel.extent, rows], offset),
            }
        })
    })
}

/// The gradient of the weights: one matmul over all items and windows, or one for each group.
fn of_weights(lhs: &UnevenAxes, rhs: &UnevenAxes, offset: i64) -> Option<Convolution> {
    let [group] = split(&lhs.batch, &[numel(&lhs.batch)])?[..] else { return None };
    let [image_group] = split(&rhs.batch, &[group.extent])?[..] else { return None };
    let [outputs] = split(&lhs.rows, &[numel(&lhs.rows)])?[..] else { return None };
    with_and_without_first(&rhs.rows).into_iter().find_map(|(items, places)| {
        with_and_without_first(&rhs.columns).into_iter().find_map(|(channel, parts)| {
            all_owners(places, parts).find_map(|spatial| {
                let image = TensorLayout::read(items, image_group, channel, &spatial)?;
                let extents: Vec<usize> =
                    [items.extent].into_iter().chain(spatial.iter().map(|axis| axis.places)).collect();
                let axes = split(&lhs.columns, &extents)?;
                let channels = joined(group, outputs)?;
                let result = TensorLayout::new(&[&[axes[0], channels][..], &axes[1..]].concat())?;
                let window = Windows::new(&spatial).filter(|window| !window.is_reversed)?;
                let weights = window.weights(channels.extent, channel.extent);
                let computed = Computed::Weights;
                Some(Convolution {
                    computed,
                    groups: group.extent,
                    image,
                    weights,
                    result,
                    offset,
                    ..window.base()
                })
            })
        })
    })
}

/// An axis that is not there.
const NONE: Axis = Axis { extent: 1, stride: 0 };

fn numel(axes: &[Axis]) -> usize {
    axes.iter().map(|axis| axis.extent).product()
}

/// Axes that run one within the other as axes of these extents; none if one of them would not be evenly spaced.
fn split(axes: &[Axis], extents: &[usize]) -> Option<Vec<Axis>> {
    if numel(axes) != extents.iter().product::<usize>() {
        return None;
    }
    let level = Level { offset: 0, axes: axes.to_vec(), guards: vec![] };
    let (_, parts) = Access { levels: vec![level] }.axes_by_axis(extents)?;
    parts.iter().map(|parts| if parts.is_empty() { Some(NONE) } else { one(parts) }).collect()
}

fn one(axes: &[Axis]) -> Option<Axis> {
    if let [axis] = *axes { Some(axis) } else { None }
}

/// The first axis and the others, and all of them without a first one.
fn with_and_without_first(axes: &[Axis]) -> Vec<(Axis, &[Axis])> {
    let first = axes.split_first().map(|(&first, rest)| (first, rest));
    first.into_iter().chain([(NONE, axes)]).collect()
}

/// The channels of all groups as one axis.
fn joined(group: Axis, channel: Axis) -> Option<Axis> {
    match (group.extent, channel.extent) {
        (1, _) => Some(channel),
        (_, 1) => Some(group),
        (groups, channels) => (group.stride == channel.stride * channels as i64)
            .then_some(Axis { extent: groups * channels, stride: channel.stride }),
    }
}

/// Whether axes, outermost first, step through a dense tensor.
fn is_dense(axes: &[Axis]) -> bool {
    let extents: Vec<usize> = axes.iter().map(|axis| axis.extent).collect();
    let dense = dense_strides(&extents);
    axes.iter().zip(dense).all(|(axis, stride)| axis.extent == 1 || axis.stride == stride as i64)
}

/// A spatial axis with its windows.
#[derive(Clone, Copy, Debug)]
struct Spatial {
    /// The number of windows.
    places: usize,
    /// The number of parts of a window.
    size: usize,
    stride: usize,
    dilation: usize,
    /// Whether later parts lie before earlier ones.
    is_reversed: bool,
    /// Elements from one to the next along the axis.
    step: i64,
}

impl Spatial {
    fn new(place: Axis, part: Axis) -> Option<Spatial> {
        let step = gcd(place.stride, part.stride.abs());
        (place.stride > 0 && (part.extent == 1 || part.stride != 0)).then(|| Spatial {
            places: place.extent,
            size: part.extent,
            stride: (place.stride / step) as usize,
            dilation: if part.extent == 1 { 1 } else { (part.stride.abs() / step) as usize },
            is_reversed: part.stride < 0,
            step,
        })
    }

    /// Elements from the first part of a window to the last.
    fn reach(&self) -> usize {
        (self.size - 1) * self.dilation
    }

    /// The axis up to the last element that a window reads.
    fn axis(&self) -> Axis {
        Axis { extent: (self.places - 1) * self.stride + self.reach() + 1, stride: self.step }
    }
}

fn gcd(a: i64, b: i64) -> i64 {
    if b == 0 { a } else { gcd(b, a % b) }
}

/// The spatial axes of these places, for each way in which the parts, in their order, can belong to them.
fn all_owners<'a>(places: &'a [Axis], parts: &'a [Axis]) -> impl Iterator<Item = Vec<Spatial>> + 'a {
    let n_ways = if places.len() <= N_SPATIAL { 1u32 << places.len() } else { 0 };
    let ways = (1..n_ways).filter(|owners| owners.count_ones() as usize == parts.len());
    ways.filter_map(|owners| {
        let mut parts = parts.iter();
        let of_place = |(at, &place): (usize, &Axis)| {
            let part = if owners >> at & 1 == 1 { *parts.next()? } else { NONE };
            Spatial::new(place, part)
        };
        places.iter().enumerate().map(of_place).collect()
    })
}

impl TensorLayout {
    /// A tensor with an axis of items, one of channels and spatial axes, none of which overlap.
    fn new(axes: &[Axis]) -> Option<TensorLayout> {
        let (lead, spatial) = axes.split_at(2);
        let absent = vec![NONE; N_SPATIAL.checked_sub(spatial.len())?];
        let axes = [lead, &absent, spatial].concat();
        let mut extents = [1; N_AXES];
        let mut strides = [1; N_AXES];
        for (at, axis) in axes.iter().enumerate().rev() {
            extents[at] = axis.extent;
            let behind = if at + 1 < N_AXES { strides[at + 1] * extents[at + 1] as i64 } else { 1 };
            strides[at] = if axis.extent == 1 { behind } else { axis.stride };
        }
        let mut present: Vec<Axis> = axes.into_iter().filter(|axis| axis.extent > 1).collect();
        present.sort_by_key(|axis| -axis.stride);
        let is_apart =
            present.windows(2).all(|pair| pair[0].stride >= pair[1].stride * pair[1].extent as i64);
        let is_forward = present.iter().all(|axis| axis.stride > 0);
        (is_apart && is_forward).then_some(TensorLayout { extents, strides })
    }

    /// The tensor that windows are read from.
    fn read(items: Axis, group: Axis, channel: Axis, spatial: &[Spatial]) -> Option<TensorLayout> {
        let spatial = spatial.iter().map(Spatial::axis);
        TensorLayout::new(&[items, joined(group, channel)?].into_iter().chain(spatial).collect::<Vec<_>>())
    }

    /// A dense tensor of these extents whose neighbours are channels.
    pub fn channels_last(extents: [usize; N_AXES]) -> TensorLayout {
        let [items, channels, depth, height, width] = extents;
        let [items, depth, height, width, channels] =
            TensorLayout::dense([items, depth, height, width, channels]).strides;
        TensorLayout { extents, strides: [items, channels, depth, height, width] }
    }

    /// A dense tensor of these extents.
    pub fn dense(extents: [usize; N_AXES]) -> TensorLayout {
        let mut strides = [1; N_AXES];
        for at in (0..N_AXES - 1).rev() {
            strides[at] = strides[at + 1] * extents[at + 1] as i64;
        }
        TensorLayout { extents, strides }
    }

    /// Elements from the first to the last.
    fn reach(&self) -> i64 {
        self.extents.iter().zip(self.strides).map(|(&extent, stride)| (extent as i64 - 1) * stride).sum()
    }

    /// Whether libraries that count in 32 bits reach all of it.
    fn is_small(&self) -> bool {
        let axes = self.extents.iter().zip(self.strides);
        let reach = axes.map(|(&extent, stride)| extent.saturating_mul(stride as usize)).max();
        reach.is_some_and(|reach| i32::try_from(reach).is_ok()) && !self.extents.contains(&0)
    }
}

/// Windows on three spatial axes.
struct Windows {
    axes: [Spatial; N_SPATIAL],
    is_reversed: bool,
}

impl Windows {
    /// None if no window has several parts, or some axes are reversed and others are not.
    fn new(spatial: &[Spatial]) -> Option<Windows> {
        let absent = Spatial { places: 1, size: 1, stride: 1, dilation: 1, is_reversed: false, step: 1 };
        let mut axes = [absent; N_SPATIAL];
        axes[N_SPATIAL - spatial.len()..].copy_from_slice(spatial);
        let is_reversed = spatial.iter().any(|axis| axis.is_reversed);
        let mut windows = spatial.iter().filter(|axis| axis.size > 1).peekable();
        let has_windows = windows.peek().is_some();
        let is_uniform = windows.all(|axis| axis.is_reversed == is_reversed);
        (has_windows && is_uniform).then_some(Windows { axes, is_reversed })
    }

    /// `[first, second]`, then a number of each axis.
    fn extents(&self, lead: [usize; 2], of: impl Fn(&Spatial) -> usize) -> [usize; N_AXES] {
        let [depth, height, width] = self.axes.each_ref().map(of);
        [lead[0], lead[1], depth, height, width]
    }

    fn weights(&self, outputs: usize, channels: usize) -> [usize; N_AXES] {
        self.extents([outputs, channels], |axis| axis.size)
    }

    /// A convolution of which only the windows are known.
    fn base(&self) -> Convolution {
        let empty = TensorLayout::dense([1; N_AXES]);
        Convolution {
            computed: Computed::Result,
            groups: 1,
            image: empty,
            weights: [1; N_AXES],
            result: empty,
            stride: self.axes.map(|axis| axis.stride),
            dilation: self.axes.map(|axis| axis.dilation),
            padding: [0; N_SPATIAL],
            offset: 0,
        }
    }

    /// The result of a convolution of an image. `outputs` and `channels` are those of a group.
    fn result(
        &self,
        image: TensorLayout,
        groups: usize,
        [outputs, channels]: [usize; 2],
        offset: i64,
    ) -> Convolution {
        let outputs = groups * outputs;
        let extents = self.extents([image.extents[0], outputs], |axis| axis.places);
        let (weights, result) = (self.weights(outputs, channels), TensorLayout::dense(extents));
        Convolution { groups, image, weights, result, offset, ..self.base() }
    }

    /// The gradient of an image, from reversed windows of the gradient of the result. The result begins so far before the first
    /// element of the matrix as a window reaches, and so does the image's padding.
    fn image(
        &self,
        result: TensorLayout,
        groups: usize,
        [outputs, channels]: [usize; 2],
        offset: i64,
    ) -> Option<Convolution> {
        let extents = self.extents([result.extents[0], groups * channels], |axis| axis.places);
        let weights = self.weights(groups * outputs, channels);
        let before: i64 = self.axes.iter().map(|axis| axis.reach() as i64 * axis.step).sum();
        let is_dense = self.axes.iter().all(|axis| axis.stride == 1);
        is_dense.then(|| Convolution {
            computed: Computed::Image,
            groups,
            image: TensorLayout::dense(extents),
            weights,
            result,
            padding: self.axes.map(|axis| axis.reach()),
            offset: offset - before,
            ..self.base()
        })
    }
}
