//! Products whose rows are folded, panel by panel.

use super::{Addresses, Drafts, FEWEST_FLOPS, KernelPart, Part, Pointer, Prepared, ProductPlace};
use crate::autotune::Choice;
use crate::cuda::autotune::{self, TuneKey};
use crate::cuda::product::{self, Places, Product};
use crate::device::DeviceError;
use cudarc::driver::sys::CUstream;
use engine_core::codegen::{KernelSpec, PANEL_BYTES, Panel, PanelFold};
use engine_core::fusion::{Domain, FusedBody, MatmulBody, RowsBody};
use engine_core::ir::Type;
use engine_core::plan::BufferId;

/// How panels of a product and what takes them in follow each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Panels {
    /// One after the other.
    InTurn,
    /// While one is taken in, the next is multiplied; two have to fit where one did.
    Overlapped,
}

impl Panels {
    fn n_places(self) -> usize {
        match self {
            Panels::InTurn => 1,
            Panels::Overlapped => 2,
        }
    }
}

impl Choice for Panels {
    fn to_text(&self) -> String {
        match self {
            Panels::InTurn => "in turn".to_string(),
            Panels::Overlapped => "overlapped".to_string(),
        }
    }

    fn from_text(text: &str) -> Option<Panels> {
        [Panels::InTurn, Panels::Overlapped].into_iter().find(|known| known.to_text() == text)
    }
}

/// A fold of rows: of the library's product, panel by panel, or of one that its own kernel adds up.
pub fn folded<'p>(
    body: &MatmulBody,
    rows: &RowsBody,
    draft: &dyn Fn() -> Drafts<'p>,
) -> Result<Prepared, DeviceError> {
    let n_flops = 2 * body.batch * body.m * body.n * body.k;
    let by = |way: Panels, most_panels: usize| draft().by_panels(body, rows, way, most_panels);
    let all = usize::MAX;
    let n_bytes = body.batch * body.m * body.n * body.dtype.accumulator().size();
    let whole = match n_flops < FEWEST_FLOPS {
        true => None,
        false => by(Panels::InTurn, all)?,
    };
    let Some(in_turn) = whole else { return draft().own_kernels() };
    if n_bytes < TRIED_PANELS * PANEL_BYTES {
        return Ok(in_turn);
    }
    let drafts = draft();
    let operands: Vec<&Type> = drafts.kernel.operands.iter().map(|operand| &operand.ty).collect();
    let question = TuneKey {
        subject: format!("panels of {}", product::text(body, drafts.precision)),
        details: format!("panels {:?} {operands:?} {:?}", body.epilogue, drafts.precision),
    };
    let way = autotune::recall(
        drafts.context,
        &question,
        |_| true,
        || {
            autotune::fastest(drafts.context, &[Panels::InTurn, Panels::Overlapped], |way| {
                match by(way, TRIED_PANELS * way.n_places())? {
                    Some(prepared) => prepared.seconds(&drafts),
                    None => engine_core::bug!("a product that the library has refused"),
                }
            })
        },
    );
    match way {
        // There is no room to try both on tensors of noise.
        Err(DeviceError::OutOfMemory { .. }) => Ok(in_turn),
        Err(error) => Err(error),
        Ok(Panels::InTurn) => Ok(in_turn),
        Ok(way) => match by(way, all)? {
            Some(overlapped) => Ok(overlapped),
            None => Ok(in_turn),
        },
    }
}

/// The first panels, on which both ways are tried.
const TRIED_PANELS: usize = 24;

/// A product that comes panel by panel, each taken in by a kernel before the next one is multiplied.
pub struct PanelPart {
    /// By shape of a panel.
    products: Vec<([usize; 2], Product)>,
    pub panels: Vec<PanelLaunch>,
    factors: [BufferId; 2],
    pub step: KernelPart,
    /// Where panels go, one after the other in turn, and what a step on each place is given.
    places: Vec<(usize, Vec<Pointer>)>,
}

/// One panel.
pub struct PanelLaunch {
    /// Index into the products.
    product: usize,
    /// Bytes from each factor's start to what is multiplied.
    offsets: [u64; 2],
    blocks: usize,
    info: Vec<u64>,
}

impl Drafts<'_> {
    /// The fold of so many of the panels at most. None if the library cannot compute it.
    fn by_panels(
        mut self,
        body: &MatmulBody,
        rows: &RowsBody,
        way: Panels,
        most_panels: usize,
    ) -> Result<Option<Prepared>, DeviceError> {
        let fold = KernelSpec::panel_fold(self.kernel, body, rows, PANEL_BYTES / way.n_places());
        let fold = fold.map_err(|error| self.not_emitted(&error))?;
        let PanelFold { ref panels, ref step, state_bytes, panel_bytes, .. } = fold;
        let mut products: Vec<([usize; 2], Product)> = vec![];
        let mut launches = vec![];
        for panel in panels.iter().take(most_panels) {
            let shape = [panel.rows[1], panel.columns[1]];
            let known = products.iter().position(|(known, _)| *known == shape);
            let number = match known {
                Some(number) => number,
                None => {
                    let Some(product) = self.panel_product(body, shape)? else { return Ok(None) };
                    products.push((shape, product));
                    products.len() - 1
                }
            };
            let (blocks, info) = fold.launch(body, panel, self.seed as u32);
            let offsets = panel_offsets(body, panel);
            launches.push(PanelLaunch { product: number, offsets, blocks, info });
        }
        let Some((_, product)) = products.first() else { return Ok(None) };
        let factors = product.operands().map(|operand| self.launch.buffers[operand]);
        let step = self.kernel_part(step, ProductPlace::Scratch)?;
        let places = (0..way.n_places()).map(|place| {
            let start = state_bytes + place * panel_bytes;
            let moved = |pointer: &Pointer| match pointer {
                Pointer::Scratch(at) if *at == state_bytes => Pointer::Scratch(start),
                pointer => *pointer,
            };
            (start, step.pointers.iter().map(moved).collect())
        });
        let places = places.collect();
        let part = PanelPart { products, panels: launches, factors, step, places };
        self.prepared.parts.push(Part::Panels(Box::new(part)));
        self.prepared.scratch_bytes = state_bytes + way.n_places() * panel_bytes;
        self.kernels(fold.finish.into_iter().collect(), ProductPlace::Scratch)?;
        self.side_sums().map(Some)
    }

    /// The product of a panel of that shape, wherever it is.
    fn panel_product(&self, body: &MatmulBody, [m, n]: [usize; 2]) -> Result<Option<Product>, DeviceError> {
        let epilogue = FusedBody { domain: Domain { outer: m, row: n, inner: 1 }, insts: vec![] };
        let panel = MatmulBody { batch: 1, m, n, epilogue, side_sums: vec![], rows: None, ..*body };
        Product::new(self.context, &panel, body.dtype.accumulator(), None, self.precision)
    }
}

/// Bytes from the start of each factor's first matrix to what a panel needs, in the library's order.
fn panel_offsets(body: &MatmulBody, panel: &Panel) -> [u64; 2] {
    let size = body.dtype.size() as i64;
    let (batch, row, column) = (panel.batch as i64, panel.rows[0] as i64, panel.columns[0] as i64);
    let right = body.rhs.batch * batch + body.rhs.col * column;
    let left = body.lhs.batch * batch + body.lhs.row * row;
    [right, left].map(|elements| (elements * size) as u64)
}

impl PanelPart {
    /// Starts everything.
    pub fn enqueue(&self, addresses: &Addresses, stream: CUstream) -> Result<(), DeviceError> {
        let place = |number: usize| &self.places[number % self.places.len()];
        let multiply = |number: usize, stream: CUstream| {
            let panel = &self.panels[number];
            let starts = self.factors.map(|factor| addresses.buffers[factor]);
            let places = Places {
                factors: [starts[0] + panel.offsets[0], starts[1] + panel.offsets[1]],
                result: addresses.lane.scratch.start() + place(number).0 as u64,
                bias: None,
            };
            self.products[panel.product].1.launch(places, &addresses.lane.workspace, stream)
        };
        let take = |number: usize, stream: CUstream| {
            let panel = &self.panels[number];
            self.step.start(addresses, stream, &place(number).1, panel.blocks, &panel.info)
        };
        let n_panels = self.panels.len();
        match self.places.len() {
            1 => (0..n_panels)
                .try_for_each(|number| multiply(number, stream).and_then(|()| take(number, stream))),
            _ => addresses.lane.pipelined(n_panels, multiply, take),
        }
    }
}
