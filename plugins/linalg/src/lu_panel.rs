//! `lu_panel`.

use crate::algorithm::{Algorithm, Grid, Operands, Real, Results, lowered};
use crate::matrices::known_extents;
use engine_core::cubecl;
use engine_core::cubecl::ir::Scope;
use engine_core::cubecl::prelude::*;
use engine_core::device_model::DeviceModel;
use engine_core::ir::DType;
use engine_core::op::gpu::GpuArguments;
use engine_core::op::kernel::KernelCall;
use engine_core::op::{OpForm, TypeIssue};

/// The most columns of a panel.
pub const PANEL: usize = 32;

/// The packed factors of `x[order] = L·U` for at most 32 columns: U in the upper triangle, and L, whose diagonal is 1, below
/// it. Rows are exchanged such that no element of L is above 1 in magnitude; of equal candidates the first is taken.
pub fn lu_panel() -> OpForm {
    OpForm::new("lu_panel", "Factors at most 32 columns with partial pivoting, for `lu_solve`.")
        .results(&["factors", "order"])
        .input("x", "[…, m, n] with m ≥ n")
        .types(|types, _| {
            let x = &types[0];
            let [m, n] = known_extents("lu_panel", x)?;
            if n > PANEL || m < n {
                return Err(TypeIssue::new(format!("`lu_panel` of {m} rows and {n} columns"))
                    .at(0, format!("this is {x}"))
                    .help(format!("it takes at most {PANEL} columns, and at least as many rows")));
            }
            let mut order = x.with_dtype(DType::I32);
            order.shape.pop();
            Ok(vec![x.clone(), order])
        })
        .lower(lowered::<Panel>())
        .no_grad("the order of rows is piecewise constant; `solve` has a gradient")
        .example(
            "rows must be exchanged",
            "lu_panel(a)",
            &[("f32[3, 2]", &[1., 3., 2., 4., 0., 5.])],
            &[("f32[3, 2]", &[2., 4., 0., 5., 0.5, 0.2]), ("i32[3]", &[1., 2., 0.])],
        )
}

/// The most threads of a block, which factors a panel.
const THREADS: usize = 512;
/// Threads that search for the largest of all candidates.
const SEARCHERS: usize = 16;

#[derive(Clone, Copy, Debug)]
struct Panel {
    m: usize,
    n: usize,
}

impl Algorithm for Panel {
    const NAME: &'static str = "lu_panel";

    fn of(call: &KernelCall) -> Panel {
        let extents = call.inputs[0].extents();
        let [m, n] = [2, 1].map(|from_end| extents[extents.len() - from_end]);
        Panel { m, n }
    }

    fn run<T: Real>(self, [x, _]: Operands<T>, results: Results<T>) {
        let Panel { m, n } = self;
        let ([lu, _], order) = (results.matrices, results.order);
        lu.copy_from_slice(x);
        (0..m).for_each(|row| order[row] = row as i32);
        for step in 0..n {
            let mut pivot = step;
            for row in step + 1..m {
                if size(lu[row * n + step]) > size(lu[pivot * n + step]) {
                    pivot = row;
                }
            }
            order.swap(step, pivot);
            for column in 0..n {
                lu.swap(step * n + column, pivot * n + column);
            }
            for row in step + 1..m {
                let by = lu[row * n + step] / lu[step * n + step];
                lu[row * n + step] = by;
                for column in step + 1..n {
                    lu[row * n + column] = lu[row * n + column] - by * lu[step * n + column];
                }
            }
        }
    }

    fn grid(self, count: usize, device: &DeviceModel) -> Grid {
        let threads = self.m.next_multiple_of(32).clamp(32, THREADS);
        Grid { cubes: count, threads: threads.min(device.most_threads) }
    }

    fn emit<F: Float>(self, scope: &mut Scope, given: &GpuArguments, threads: usize) {
        let [x, factors] = [0, 1].map(|argument| given.array::<F>(argument));
        let held = self.m.div_ceil(threads);
        eliminate::expand::<F>(scope, x, factors, given.array(2), self.m, self.n, held, threads);
    }
}

/// The magnitude by which candidates compare. NaN is as large as infinity.
fn size<T: Real>(x: T) -> T {
    let size = x.abs();
    if size <= T::MAX { size } else { T::MAX }
}

/// A column at a time. Each thread holds rows, which never move: it knows the place of each. After a step the columns of a
/// row shift by one to the left, and the column that is done follows the others. So all indices are constants.
#[cube]
fn eliminate<F: Float>(
    x: &Array<F>,
    factors: &mut Array<F>,
    order: &mut Array<i32>,
    #[comptime] m: usize,
    #[comptime] n: usize,
    #[comptime] held: usize,
    #[comptime] threads: usize,
) {
    let mut rows = Array::<F>::new(comptime!((held * n).max(1)));
    let mut places = Array::<usize>::new(held);
    let mut top = SharedMemory::<F>::new(comptime!(n.max(1)));
    let mut sizes = SharedMemory::<F>::new(threads);
    let mut spots = SharedMemory::<usize>::new(threads);
    load_rows::<F>(x, &mut rows, &mut places, m, n, held, threads);
    let mut step = 0usize.runtime();
    while step < n {
        let pivot = pivot_place::<F>(&rows, &places, &mut sizes, &mut spots, step, m, n, held, threads);
        #[unroll]
        for own in 0..held {
            let place = places[own];
            if place == pivot {
                #[unroll]
                for column in 0..n {
                    top[column] = rows[comptime!(own * n + column)];
                }
            }
            let other = select(place == step, pivot, place);
            places[own] = select(place == pivot, step, other);
        }
        sync_cube();
        #[unroll]
        for own in 0..held {
            let first = rows[comptime!(own * n)];
            let is_below = places[own] > step;
            let by = first / top[0];
            #[unroll]
            for column in 1..n {
                let element = rows[comptime!(own * n + column)];
                let less = element - by * top[column];
                let is_left = is_below && step + column < n;
                rows[comptime!(own * n + column - 1)] = select(is_left, less, element);
            }
            rows[comptime!(own * n + n - 1)] = select(is_below, by, first);
        }
        step += 1usize;
    }
    store_rows::<F>(factors, order, &rows, &places, m, n, held, threads);
}

/// Loads the rows of this thread.
#[cube]
fn load_rows<F: Float>(
    x: &Array<F>,
    rows: &mut Array<F>,
    places: &mut Array<usize>,
    #[comptime] m: usize,
    #[comptime] n: usize,
    #[comptime] held: usize,
    #[comptime] threads: usize,
) {
    let unit = UNIT_POS_X as usize;
    let of_x = CUBE_POS * m * n;
    #[unroll]
    for own in 0..held {
        let row = comptime!(own * threads) + unit;
        places[own] = row;
        #[unroll]
        for column in 0..n {
            rows[comptime!(own * n + column)] =
                if row < m { x[of_x + row * n + column] } else { F::new(0.0) };
        }
    }
}

/// Stores the rows of this thread at their places.
#[cube]
fn store_rows<F: Float>(
    factors: &mut Array<F>,
    order: &mut Array<i32>,
    rows: &Array<F>,
    places: &Array<usize>,
    #[comptime] m: usize,
    #[comptime] n: usize,
    #[comptime] held: usize,
    #[comptime] threads: usize,
) {
    let unit = UNIT_POS_X as usize;
    let of_x = CUBE_POS * m * n;
    #[unroll]
    for own in 0..held {
        let row = comptime!(own * threads) + unit;
        if row < m {
            let place = places[own];
            order[CUBE_POS * m + place] = row as i32;
            #[unroll]
            for column in 0..n {
                factors[of_x + place * n + column] = rows[comptime!(own * n + column)];
            }
        }
    }
}

/// The place of the row with the largest first element, from the place `step` on; the first one of several.
#[cube]
fn pivot_place<F: Float>(
    rows: &Array<F>,
    places: &Array<usize>,
    sizes: &mut SharedMemory<F>,
    spots: &mut SharedMemory<usize>,
    step: usize,
    #[comptime] m: usize,
    #[comptime] n: usize,
    #[comptime] held: usize,
    #[comptime] threads: usize,
) -> usize {
    let unit = UNIT_POS_X as usize;
    let mut largest = F::new(-1.0);
    let mut spot = m.runtime();
    #[unroll]
    for own in 0..held {
        let place = places[own];
        let element = F::abs(rows[comptime!(own * n)]);
        let size = select(element <= F::max_value(), element, F::max_value());
        let is_larger = size > largest || (size == largest && place < spot);
        if place >= step && place < m && is_larger {
            largest = size;
            spot = place;
        }
    }
    sizes[unit] = largest;
    spots[unit] = spot;
    sync_cube();
    if unit < SEARCHERS {
        #[unroll]
        for round in 1..comptime!(threads / SEARCHERS) {
            let other = unit + comptime!(round * SEARCHERS);
            let size = sizes[other];
            let place = spots[other];
            let is_larger = size > largest || (size == largest && place < spot);
            largest = select(is_larger, size, largest);
            spot = select(is_larger, place, spot);
        }
        sizes[unit] = largest;
        spots[unit] = spot;
    }
    sync_cube();
    largest = sizes[0];
    spot = spots[0];
    #[unroll]
    for other in 1..SEARCHERS {
        let size = sizes[other];
        let place = spots[other];
        let is_larger = size > largest || (size == largest && place < spot);
        largest = select(is_larger, size, largest);
        spot = select(is_larger, place, spot);
    }
    spot
}
