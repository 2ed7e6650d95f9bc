//! Matmul folds: row reductions of a product that is never stored.
//!
//! A library computes the product in panels that stay in the L2 cache. After each panel, a launch runs the
//! epilogue on it and folds it into the state of each row. Without a library, one launch computes the products of
//! whole rows.

use crate::codegen::error::CodegenError;
use crate::codegen::ir::builder::Code;
use crate::codegen::kernel::{KernelCode, KernelSpec, Schedule};
use crate::codegen::operand::{Argument, OperandForm};
use crate::codegen::ops::body::{BodyCode, Registers};
use crate::codegen::ops::buffers::Buffers;
use crate::codegen::ops::integers::within_type;
use crate::codegen::ops::scalar::widened;
use crate::codegen::ops::vector_group::Group;
use crate::codegen::schedule::by_column::by_column;
use crate::codegen::schedule::extreme_fold::extreme_fold;
use crate::codegen::schedule::matmul_point::ProductForm;
use crate::codegen::schedule::panel::{Panel, PanelCut, panels};
use crate::codegen::schedule::row_fold::{AnyFold, Filter, RowBlock, columns_of_piece, pieces, round};
use crate::device_model::DeviceModel;
use crate::fusion::{Class, Domain, FusedBody, FusedOp, Kernel, MatmulBody, Reg, RowConsumer, RowsBody};
use crate::ir::DType;
use crate::op::gpu::{BlockFoldCode, BlockState};
use cubecl_core::ir::{Arithmetic, Builtin, Variable};

/// The schedule of a matmul fold.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct MatmulFold {
    fold: AnyFold,
    /// The folded register; none in a launch that merges pieces.
    value: Option<Reg>,
    accumulator: DType,
    /// The matrices, if no library computes the product.
    product: Option<ProductForm>,
    /// By result: its operand and its type.
    results: Vec<(usize, DType)>,
    /// The operands that follow those of the kernel.
    panel: Option<usize>,
    states: Option<usize>,
    /// Whether the epilogue depends on the column alone and has only a row of points.
    is_by_column: bool,
    /// Groups of neighbours that each thread of a block compares with the state's bound first. Mostly none is
    /// within it, and the block ends. 0 to skip this filter.
    n_filter_groups: usize,
    n_rows: usize,
    n_pieces: usize,
    /// The scalars of a launch on all columns.
    scalars: Vec<usize>,
}

/// The launches of a fold on a product that a library computes.
#[derive(Clone, Debug)]
pub struct PanelFold {
    /// The panels in their order.
    pub panels: Vec<Panel>,
    /// The launch that folds a panel; [`PanelFold::launch`] gives its blocks and scalars.
    pub step: KernelSpec,
    fold: MatmulFold,
    /// The launch that writes the results at the end; none if each panel has whole rows.
    pub finish: Option<KernelSpec>,
    /// Bytes of the rows' states, at the start of the workspace.
    pub state_bytes: usize,
    /// Bytes of the largest panel.
    pub panel_bytes: usize,
}

/// The most groups of neighbours that the filter reads per thread.
const MOST_FILTER_GROUPS: usize = 12;

/// The launches of a fold without a library, without side sums.
///
/// # Errors
/// If the fold has no kernel on the device.
pub fn launches(
    kernel: &Kernel,
    body: &MatmulBody,
    rows: &RowsBody,
    device: &DeviceModel,
) -> Result<Vec<KernelSpec>, CodegenError> {
    let fold = Fold::new(kernel, body, rows, device)?;
    let n_rows = body.batch * body.m;
    let [n_pieces, length] = pieces(n_rows, body.n, round(&*fold.fold));
    let states = fold.states(n_rows * n_pieces);
    let keeps_state = n_pieces > 1;
    let by_column = by_column(&body.epilogue);
    let form = MatmulFold {
        product: Some(ProductForm::of(body)),
        states: keeps_state.then_some(kernel.operands.len()),
        is_by_column: by_column.is_some(),
        n_rows,
        n_pieces,
        scalars: vec![0, 0, body.n, length, n_pieces, 1],
        ..fold.form()
    };
    let more = keeps_state.then_some(states).into_iter().collect();
    let step = fold.kernel(form, by_column.unwrap_or_else(|| body.epilogue.clone()), more);
    let finish = keeps_state.then(|| fold.merge(n_rows, n_pieces));
    Ok([step].into_iter().chain(finish).collect())
}

impl KernelSpec {
    /// The fold of a matmul whose product a library computes in panels, without side sums.
    ///
    /// # Errors
    /// If the fold has no kernel on the device, or does not need whole rows.
    pub fn panel_fold(
        kernel: &Kernel,
        body: &MatmulBody,
        rows: &RowsBody,
        device: &DeviceModel,
        cut: PanelCut,
    ) -> Result<PanelFold, CodegenError> {
        let fold = Fold::new(kernel, body, rows, device)?;
        let dtype = body.dtype.accumulator();
        let extents = cut.extents([body.m, body.n], dtype.size(), fold.fold.state_words());
        let panels = panels([body.batch, body.m, body.n], extents.ok_or(CodegenError::Fold)?);
        let Some(&Panel { rows: [_, most_rows], columns: [_, most_columns], .. }) = panels.first() else {
            return Err(CodegenError::Fold);
        };
        let n_rows = body.batch * body.m;
        let [n_pieces, _] = match cut {
            PanelCut::Bytes(_) => pieces(most_rows, most_columns, round(&*fold.fold)),
            PanelCut::WholeRows => [1, most_columns],
        };
        let keeps_state = n_pieces > 1 || most_columns < body.n;
        let n_filter_groups =
            most_columns.div_ceil(n_pieces).div_ceil(fold.fold.threads() * fold.fold.neighbours());
        let has_filter =
            keeps_state && fold.fold.vote_word().is_some() && n_filter_groups <= MOST_FILTER_GROUPS;
        let states = fold.states(n_rows * n_pieces);
        let state_bytes = if keeps_state {
            (4 * n_rows * n_pieces * fold.fold.state_words()).next_multiple_of(256)
        } else {
            0
        };
        let panel_bytes = most_rows * most_columns * dtype.size();
        let panel = OperandForm {
            argument: Argument::Workspace { start: state_bytes, bytes: panel_bytes },
            dtype,
            ..OperandForm::words(0, 0)
        };
        let by_column = by_column(&body.epilogue);
        let form = MatmulFold {
            panel: Some(kernel.operands.len()),
            states: keeps_state.then_some(kernel.operands.len() + 1),
            is_by_column: by_column.is_some(),
            n_filter_groups: if has_filter { n_filter_groups } else { 0 },
            n_rows,
            n_pieces,
            ..fold.form()
        };
        let more = [panel].into_iter().chain(keeps_state.then_some(states)).collect();
        let step = fold.kernel(form.clone(), by_column.unwrap_or_else(|| body.epilogue.clone()), more);
        let finish = keeps_state.then(|| fold.merge(n_rows, n_pieces));
        Ok(PanelFold { panels, fold: form, step, finish, state_bytes, panel_bytes })
    }
}

impl PanelFold {
    /// Blocks of the launch on a panel, and the scalars that it passes by value.
    pub fn launch(&self, body: &MatmulBody, panel: &Panel) -> (usize, Vec<usize>) {
        let Panel { batch, rows: [row, n_rows], columns: [column, n_columns] } = *panel;
        let MatmulFold { n_pieces, ref fold, .. } = self.fold;
        let length = n_columns.div_ceil(n_pieces).next_multiple_of(round(&**fold));
        let first_row = batch * body.m + row;
        let scalars = vec![first_row, column, n_columns, length, n_pieces, usize::from(column == 0)];
        (n_rows * n_pieces, scalars)
    }
}

/// The parts that the launches of a fold have in common.
pub struct Fold<'k> {
    kernel: &'k Kernel,
    device: DeviceModel,
    fold: AnyFold,
    value: Reg,
    accumulator: DType,
    results: Vec<(usize, DType)>,
}

impl<'k> Fold<'k> {
    /// The parts of a fold.
    ///
    /// # Errors
    /// If the fold has no kernel on the device.
    pub fn new(
        kernel: &'k Kernel,
        body: &MatmulBody,
        rows: &RowsBody,
        device: &DeviceModel,
    ) -> Result<Fold<'k>, CodegenError> {
        let fold = match &rows.consumer {
            RowConsumer::Extreme(monoid, dtype) => extreme_fold(*monoid, *dtype, body.n, device),
            _ => match rows.consumer.reduction() {
                Some((reduction, call)) => reduction.block_fold(call, device),
                None => return Err(CodegenError::Fold),
            },
        };
        let op = rows.consumer.name().to_owned();
        let insts = &body.epilogue.insts;
        if insts.iter().any(|inst| matches!(inst.op, FusedOp::Store { .. })) {
            return Err(CodegenError::Fold);
        }
        let folded = body.epilogue.folded();
        Ok(Fold {
            kernel,
            device: *device,
            fold: AnyFold(fold.map_err(|why| CodegenError::Opaque { op, why })?),
            value: folded.unwrap_or_else(|| crate::bug!("the epilogue of `{}` has no fold", kernel.name)),
            accumulator: body.dtype.accumulator(),
            results: rows.results.iter().map(|&to| (to, kernel.operands[to].ty.dtype)).collect(),
        })
    }

    fn form(&self) -> MatmulFold {
        MatmulFold {
            fold: self.fold.clone(),
            value: Some(self.value),
            accumulator: self.accumulator,
            product: None,
            results: self.results.clone(),
            panel: None,
            states: None,
            is_by_column: false,
            n_filter_groups: 0,
            n_rows: 0,
            n_pieces: 1,
            scalars: vec![],
        }
    }

    /// The states of pieces in the workspace.
    pub fn states(&self, n_states: usize) -> OperandForm {
        OperandForm::words(0, n_states * self.fold.state_words())
    }

    /// The launch that merges the states of each row's pieces.
    pub fn merge(&self, n_rows: usize, n_pieces: usize) -> KernelSpec {
        let form = MatmulFold {
            fold: AnyFold(self.fold.merging(n_pieces, &self.device)),
            value: None,
            states: Some(self.kernel.operands.len()),
            n_rows,
            scalars: vec![n_pieces],
            ..self.form()
        };
        let body = FusedBody { domain: Domain { outer: n_rows, row: 1, inner: 1 }, insts: vec![] };
        self.kernel(form, body, vec![self.states(n_rows * n_pieces)])
    }

    fn kernel(&self, form: MatmulFold, body: FusedBody, more: Vec<OperandForm>) -> KernelSpec {
        let mut operands = OperandForm::of(self.kernel);
        operands.extend(more);
        KernelSpec::new(body, form, operands, self.device)
    }
}

impl Schedule for MatmulFold {
    fn entry(&self) -> &'static str {
        "fold"
    }

    fn threads(&self, _: &KernelSpec) -> usize {
        self.fold.threads()
    }

    fn blocks(&self, _: &KernelSpec, n_blocks: usize) -> usize {
        n_blocks
    }

    /// Blocks of a launch on all columns.
    fn n_points(&self, _: &KernelSpec) -> usize {
        self.n_rows * self.n_pieces
    }

    fn n_scalars(&self) -> usize {
        if self.value.is_some() { 6 } else { 1 }
    }

    fn scalars(&self, _: usize) -> Vec<usize> {
        self.scalars.clone()
    }

    fn emit(&self, code: &mut Code, kernel: &KernelCode) -> Result<(), CodegenError> {
        kernel.in_grid(code, |code| self.block(code, kernel))
    }
}

impl MatmulFold {
    fn block(&self, code: &mut Code, kernel: &KernelCode) -> Result<(), CodegenError> {
        let (body, buffers, scalars) = (&kernel.kernel.body, kernel.buffers, kernel.scalars);
        let results = self.results.iter().map(|&(to, dtype)| (buffers.operands[to].clone(), dtype)).collect();
        let states = self.states.map(|states| buffers.operands[states].array);
        let block = code.builtin(Builtin::CubePos);
        let (value, states) = match (self.value, states) {
            (Some(value), states) => (value, states),
            (None, Some(states)) => {
                let fold = &*self.fold;
                let block =
                    RowBlock { fold, row: block, state: None, operands: vec![], results, looks_first: false };
                block.merge(code, states, scalars[0]);
                return Ok(());
            }
            (None, None) => crate::bug!("pieces of rows without memory"),
        };
        let &[first_row, first_column, n_columns, length, n_pieces, is_first] = scalars else {
            crate::bug!("a fold is given {} numbers", scalars.len())
        };
        let panel_row = code.bin(Arithmetic::Div, block, n_pieces);
        let piece = code.bin(Arithmetic::Modulo, block, n_pieces);
        let row = code.add_at(first_row, panel_row);
        let columns = columns_of_piece(code, piece, length, n_columns);
        // A launch on all columns starts from empty states.
        let is_first = self.panel.map(|_| is_first);
        let state = states.map(|words| {
            let before = code.bin(Arithmetic::Mul, row, n_pieces);
            BlockState { words, number: code.add_at(before, piece), is_first }
        });
        let body_code = BodyCode { body, buffers, shared: buffers };
        let mut base = vec![None; body.insts.len()];
        let of_rows = (0..body.insts.len()).filter(|&reg| body.insts[reg].class != Class::Element);
        body_code.run(code, of_rows, row, &mut base)?;
        let start = if self.is_by_column { code.at(0) } else { code.scaled(row, body.domain.row as i64) };
        let panel_start = code.bin(Arithmetic::Mul, panel_row, n_columns);
        let rows = FoldRows { form: self, value, body_code, buffers, row, base };
        let place = |code: &mut Code, column: Variable| {
            let in_row = code.add_at(first_column, column);
            [in_row, code.add_at(start, in_row), code.add_at(panel_start, column)]
        };
        let mut filter =
            |code: &mut Code, steps: &dyn BlockFoldCode| rows.any_within_bound(code, steps, columns, &place);
        let filter: Option<Filter<CodegenError>> =
            if self.n_filter_groups > 0 { Some(&mut filter) } else { None };
        // A panel's state has a bound already, and a product would be computed twice.
        RowBlock { fold: &*self.fold, row, state, operands: vec![], results, looks_first: false }.fold(
            code,
            columns,
            filter,
            &mut |code, column| {
                let place = place(code, column);
                Ok((rows.values(code, place)?, place[0]))
            },
        )
    }
}

/// The rows of a product that a fold reads.
struct FoldRows<'k> {
    form: &'k MatmulFold,
    value: Reg,
    body_code: BodyCode<'k>,
    buffers: &'k Buffers,
    /// The row of the block.
    row: Variable,
    base: Registers,
}

impl FoldRows<'_> {
    /// Whether this thread has an element that may be within the bound of the state in memory.
    fn any_within_bound(
        &self,
        code: &mut Code,
        steps: &dyn BlockFoldCode,
        [start, end]: [Variable; 2],
        place: &dyn Fn(&mut Code, Variable) -> [Variable; 3],
    ) -> Result<Variable, CodegenError> {
        let Some(bound) = steps.bound(code.scope) else { return Ok(code.bool(true)) };
        let unit = code.builtin(Builtin::UnitPosX);
        let width = self.form.fold.neighbours();
        let own = code.scaled(unit, width as i64);
        let first = code.add_at(start, own);
        let mut any = bound.is_open;
        for group in 0..self.form.n_filter_groups {
            let offset = code.at((group * width * self.form.fold.threads()) as i64);
            let column = code.add_at(first, offset);
            let is_inside = code.less(column, end);
            // Outside, the panel's first columns are read instead; at worst the block does unnecessary work.
            let first_column = code.at(0);
            let column = code.select(is_inside, column, first_column);
            let place = place(code, column);
            for value in self.values(code, place)? {
                let is_within = (bound.admits)(code.scope, value);
                any = code.or(any, is_within);
            }
        }
        Ok(any)
    }

    /// The folded values at neighbouring points, given the first one's column, point and place in the panel.
    fn values(
        &self,
        code: &mut Code,
        [column, point, in_panel]: [Variable; 3],
    ) -> Result<Vec<Variable>, CodegenError> {
        let width = self.form.fold.neighbours();
        let group = Group::from(code, point, width);
        let products = self.products(code, width, [column, in_panel]);
        let insts = &self.body_code.body.insts;
        let mut registers: Vec<Registers> = vec![];
        for product in products {
            let mut own = self.base.clone();
            for (reg, inst) in insts.iter().enumerate() {
                if inst.op == FusedOp::Accumulator {
                    own[reg] = Some(within_type(code, inst.dtype, product));
                }
            }
            registers.push(own);
        }
        let elements = (0..insts.len()).filter(|&reg| {
            insts[reg].class == Class::Element
                && !matches!(insts[reg].op, FusedOp::Accumulator | FusedOp::Fold { .. })
        });
        self.body_code.run_group(code, elements, &group, &mut registers)?;
        let missing = || crate::bug!("the folded register is not computed");
        Ok(registers.iter().map(|own| own[self.value].unwrap_or_else(missing)).collect())
    }

    fn products(&self, code: &mut Code, width: usize, [column, in_panel]: [Variable; 2]) -> Vec<Variable> {
        let MatmulFold { accumulator, product, panel, .. } = self.form;
        let product_behind = |code: &mut Code, product: &ProductForm, i: usize| {
            let column = code.at_offset(column, i);
            product.in_row(code, self.buffers, self.row, column)
        };
        match (product, panel) {
            (Some(product), _) => (0..width).map(|i| product_behind(code, product, i)).collect(),
            (None, Some(panel)) => {
                let buffer = self.buffers.operands[*panel].array;
                let stored = match width {
                    1 => vec![code.load(buffer, in_panel)],
                    width => code.load_vector(buffer, in_panel, width),
                };
                stored.into_iter().map(|stored| widened(code, *accumulator, stored)).collect()
            }
            (None, None) => crate::bug!("a fold without a product, {accumulator}"),
        }
    }
}
