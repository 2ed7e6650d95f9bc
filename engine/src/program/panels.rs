//! Programs of matmuls whose rows are folded: panels of the product that stay in the device's cache, each folded by a kernel
//! before its memory is needed again; or a kernel on tensor cores that keeps its scores in registers.
//!
//! The library multiplies panels, or a kernel of tiles on devices without one.

use super::choice::{Refusal, Tuner};
use super::kernels::{arguments, grid, kernels, own_kernels};
use super::library::MatmulCall;
use super::matmul::{FEWEST_ON_CORES, matmul_step, with_side_sums};
use super::site::Site;
use super::variant::{Choice, TuneKey, Variant};
use super::{Action, KernelStep, MatmulStep, Place, Program, Step};
use crate::codegen::{KernelSpec, PANEL_BYTES, Panel, PanelCut, PanelFold, ResultTile};
use crate::fusion::{MatmulBody, RowsBody};
use crate::plan::ALIGNMENT;
use std::sync::Arc;

/// The first panels, on which both variants are timed.
const TRIED_PANELS: usize = 24;
/// Fewest rows and operations of a product in panels without a library. The kernel of whole rows reads the right matrix for each
/// row, but needs a single launch.
const FEWEST_ROWS: usize = 32;
const FEWEST_FLOPS: usize = 1 << 26;

/// The program of a matmul whose rows are folded.
pub fn program<T: Tuner>(
    site: &Site,
    body: &MatmulBody,
    rows: &RowsBody,
    tuner: &T,
) -> Result<Program, Refusal<T::Error>> {
    let n_flops = 2 * body.batch * body.m * body.n * body.k;
    let has_panels = match site.device.library {
        Some(library) => n_flops >= library.fewest_flops,
        None => n_flops >= FEWEST_FLOPS && body.m >= FEWEST_ROWS && !site.is_guarded,
    };
    let in_turn = match has_panels {
        true => of_variant(site, (body, rows), Variant::PanelsInTurn, usize::MAX, tuner)?,
        false => None,
    };
    let Some(in_turn) = in_turn else { return Ok(own_kernels(site)?) };
    if site.device.library.is_none() {
        return Ok(in_turn);
    }
    let n_bytes = body.batch * body.m * body.n * body.dtype.accumulator().size();
    let on_cores = tiles(site, n_flops).into_iter().map(Variant::TensorCores);
    let overlaps = n_bytes >= TRIED_PANELS * PANEL_BYTES;
    let overlapped = overlaps.then_some(Variant::PanelsOverlapped);
    let of_rows = KernelSpec::panel_fold(site.kernel, body, rows, &site.device, PanelCut::WholeRows).is_ok();
    let of_rows = of_rows.then_some(Variant::PanelsOfRows);
    let in_order = of_rows.into_iter().chain([Variant::PanelsInTurn]).chain(overlapped);
    let variants: Vec<Variant> = in_order.chain(on_cores.clone()).collect();
    if variants.len() == 1 {
        return Ok(in_turn);
    }
    // The first panels of whole rows are another part of the product, and a kernel on tensor cores has no first part. So
    // whole programs are timed beside them.
    let is_whole = of_rows.is_some() || on_cores.len() > 0;
    let mut tried = |variant: Variant| match variant {
        Variant::TensorCores(tile) => Ok(on_tensor_cores(site, tile)),
        _ if is_whole => of_variant(site, (body, rows), variant, usize::MAX, tuner),
        _ => of_variant(site, (body, rows), variant, TRIED_PANELS * n_places(variant), tuner),
    };
    let fastest = tuner.fastest(site.kernel, &key(site, body, &variants), &variants, &mut tried)?;
    let variant = variants[fastest.unwrap_or(0)];
    let program = match variant {
        Variant::TensorCores(tile) => on_tensor_cores(site, tile),
        Variant::PanelsOverlapped | Variant::PanelsOfRows => {
            of_variant(site, (body, rows), variant, usize::MAX, tuner)?
        }
        _ => None,
    };
    let chosen = Choice { variant, variants, is_tuned: fastest.is_some() };
    Ok(Program { chosen: Some(chosen), ..program.unwrap_or(in_turn) })
}

/// The tiles of kernels on tensor cores that are worth trying.
pub fn tiles(site: &Site, n_flops: usize) -> Vec<ResultTile> {
    let is_tried = |&tile: &ResultTile| n_flops >= FEWEST_ON_CORES && on_tensor_cores(site, tile).is_some();
    let tiles = site.device.tensor_cores.map_or(&[][..], ResultTile::of);
    tiles.iter().copied().filter(is_tried).collect()
}

/// The fold on tensor cores, unless checks have to come first.
pub fn on_tensor_cores(site: &Site, tile: ResultTile) -> Option<Program> {
    if site.is_guarded {
        return None;
    }
    let launches = KernelSpec::fold_on_tensor_cores(site.kernel, site.precision, tile, site.device)?;
    let mut program = Program::default();
    kernels(site, &mut program, launches, None);
    Some(with_side_sums(site, program))
}

fn key(site: &Site, body: &MatmulBody, variants: &[Variant]) -> TuneKey {
    let call = MatmulCall::new(body, site.precision);
    let operands: Vec<String> = site.kernel.operands.iter().map(|operand| operand.ty.to_string()).collect();
    let is_special = |variant: &&Variant| matches!(variant, Variant::TensorCores(_) | Variant::PanelsOfRows);
    let special: Vec<String> =
        variants.iter().filter(is_special).map(|variant| format!("\n{variant}")).collect();
    TuneKey {
        subject: format!("panels of {}", call.shape()),
        details: format!(
            "panels {call}\n{}\n{}{}",
            operands.join(", "),
            site.kernel.body_text(),
            special.concat()
        ),
    }
}

/// Places of panels in the workspace: two if one is multiplied while the other is folded.
fn n_places(variant: Variant) -> usize {
    if variant == Variant::PanelsOverlapped { 2 } else { 1 }
}

/// The fold of at most so many panels; none if the device does not compute it.
fn of_variant<T: Tuner>(
    site: &Site,
    (body, rows): (&MatmulBody, &RowsBody),
    variant: Variant,
    most_panels: usize,
    tuner: &T,
) -> Result<Option<Program>, Refusal<T::Error>> {
    let n_places = n_places(variant);
    let cut = match variant {
        Variant::PanelsOfRows => PanelCut::WholeRows,
        _ => PanelCut::Bytes(PANEL_BYTES / n_places),
    };
    let fold = KernelSpec::panel_fold(site.kernel, body, rows, &site.device, cut)?;
    let mut shapes: Vec<([usize; 2], Product)> = vec![];
    let kernel = Arc::new(fold.step.clone().on(site.device));
    let mut panels = Panels { body, fold: &fold, kernel, n_places, program: Program::default() };
    for (number, panel) in fold.panels.iter().take(most_panels).enumerate() {
        let shape = [panel.rows[1], panel.columns[1]];
        let known = shapes.iter().find(|(known, _)| *known == shape).map(|(_, step)| step.clone());
        let step = match known {
            Some(step) => step,
            None => {
                let Some(step) = product(site, body, shape, panels.place(0), tuner)? else {
                    return Ok(None);
                };
                shapes.push((shape, step.clone()));
                step
            }
        };
        if !step.takes(panel_offsets(body, panel)) {
            return Ok(None);
        }
        panels.push(site, number, panel, step);
    }
    if shapes.is_empty() {
        return Ok(None);
    }
    let mut program = panels.program;
    let n_steps = program.steps.len();
    kernels(site, &mut program, fold.finish.clone().into_iter().collect(), None);
    if n_places > 1 {
        // The rest reads what the last fold on the other branch has written.
        program.steps[n_steps..].iter_mut().for_each(|step| step.waits = vec![n_steps - 1]);
    }
    program.workspace_bytes = fold.state_bytes + n_places * fold.panel_bytes;
    Ok(Some(with_side_sums(site, program)))
}

/// The product of panels of one shape.
#[derive(Clone)]
enum Product {
    Library(MatmulStep),
    Kernel(Arc<KernelSpec>),
}

impl Product {
    /// Whether it reads factors from these bytes on.
    fn takes(&self, offsets: [usize; 2]) -> bool {
        let is_aligned = |offset: &usize| offset.is_multiple_of(ALIGNMENT);
        matches!(self, Product::Library(_)) || offsets.iter().all(is_aligned)
    }

    /// The step that multiplies the parts of the factors from these bytes on.
    fn action(self, site: &Site, body: &MatmulBody, offsets: [usize; 2], result: Place) -> Option<Action> {
        let operands = [body.lhs.operand, body.rhs.operand];
        let part = |i: usize| Place::Operand { operand: operands[i], offset: offsets[i] };
        match self {
            Product::Library(step) => {
                let factors = [0, 1].map(|i| match step.factors[i] {
                    Place::Operand { .. } => part(i),
                    place => place,
                });
                Some(Action::Matmul(MatmulStep { factors, result, ..step }))
            }
            Product::Kernel(kernel) => {
                let n_points = kernel.n_points();
                let grid = grid(kernel.blocks_for(n_points), &site.device)?;
                let places = arguments(&kernel, None).into_iter().map(|place| match place {
                    Place::Operand { operand, .. } if operand < 2 => part(operand),
                    Place::Operand { .. } => result,
                    place => place,
                });
                let (arguments, scalars) = (places.collect(), kernel.schedule.scalars(n_points));
                Some(Action::Kernel(KernelStep { kernel, arguments, grid, scalars }))
            }
        }
    }
}

/// The product of panels of a shape, by the library if there is one.
fn product<T: Tuner>(
    site: &Site,
    body: &MatmulBody,
    shape: [usize; 2],
    result: Place,
    tuner: &T,
) -> Result<Option<Product>, Refusal<T::Error>> {
    if site.device.library.is_none() {
        // A panel starts behind the first byte of its matrices.
        if [body.lhs.batch, body.lhs.row, body.rhs.batch, body.rhs.col].iter().any(|&stride| stride < 0) {
            return Ok(None);
        }
        let kernel = KernelSpec::panel_product(site.kernel, body, shape, site.device);
        return Ok(Some(Product::Kernel(Arc::new(kernel.on(site.device)))));
    }
    Ok(matmul_step(panel_call(site, body, shape), result, tuner)?.map(Product::Library))
}

/// The product of a panel of that shape, wherever it lies.
fn panel_call(site: &Site, body: &MatmulBody, [m, n]: [usize; 2]) -> MatmulCall {
    MatmulCall { batch: 1, m, n, ..MatmulCall::new(body, site.precision) }
}

/// Panels on their way into a program.
struct Panels<'p> {
    body: &'p MatmulBody,
    fold: &'p PanelFold,
    kernel: Arc<KernelSpec>,
    n_places: usize,
    program: Program,
}

impl Panels<'_> {
    /// Where the panel of a number lies.
    fn place(&self, number: usize) -> Place {
        let bytes = self.fold.panel_bytes;
        Place::Workspace { start: self.fold.state_bytes + number % self.n_places * bytes, bytes }
    }

    /// Appends a panel: its product, then its fold. With two places, folds run on the other branch; a product waits for
    /// the fold that frees its place.
    fn push(&mut self, site: &Site, number: usize, panel: &Panel, product: Product) {
        let is_overlapped = self.n_places > 1;
        let at = self.program.steps.len();
        let result = self.place(number);
        let offsets = panel_offsets(self.body, panel);
        let (blocks, scalars) = self.fold.launch(self.body, panel);
        let action = product.action(site, self.body, offsets, result);
        let (Some(action), Some(grid)) = (action, grid(blocks, &site.device)) else { return };
        let frees = is_overlapped && number >= self.n_places;
        let waits = if frees { vec![at + 1 - 2 * self.n_places] } else { vec![] };
        self.program.steps.push(Step { action, branch: 0, waits });
        // The kernel names the first place; the panel may lie on the second.
        let first = self.place(0);
        let arguments = arguments(&self.kernel, None);
        let arguments = arguments.into_iter().map(|place| if place == first { result } else { place });
        let kernel =
            KernelStep { kernel: Arc::clone(&self.kernel), arguments: arguments.collect(), grid, scalars };
        let (branch, waits) = if is_overlapped { (1, vec![at]) } else { (0, vec![]) };
        self.program.steps.push(Step { action: Action::Kernel(kernel), branch, waits });
    }
}

/// Bytes from the start of the left and of the right operand to what a panel needs.
fn panel_offsets(body: &MatmulBody, panel: &Panel) -> [usize; 2] {
    let size = body.dtype.size() as i64;
    let (batch, row, column) = (panel.batch as i64, panel.rows[0] as i64, panel.columns[0] as i64);
    let left = body.lhs.batch * batch + body.lhs.row * row;
    let right = body.rhs.batch * batch + body.rhs.col * column;
    [left, right].map(|elements| (elements * size) as usize)
}
