//! Programs of matmuls whose matrices are windows of an image: a kernel that reads a few rows of windows where they lie, a
//! library of convolutions, which takes the image, or a matmul of copies of the windows.

use super::choice::{Refusal, Tuner};
use super::kernels::kernels;
use super::library::{MatmulCall, Multiplier};
use super::loops::action_at;
use super::matmul;
use super::matmul::fastest;
use super::panels;
use super::site::Site;
use super::variant::{TuneKey, Variant};
use super::{Place, Program, Step};
use crate::codegen::{CodegenError, KernelSpec};
use crate::fusion::{
    Access, Axis, Class, Convolution, Domain, FusedBody, FusedInst, FusedOp, Guard, Kernel, KernelBody,
    Level, MatmulBody, MatrixOperand, Operand, Side, UnevenAxes, Use,
};
use crate::ir::{DType, Literal, Type};
use crate::plan::ALIGNMENT;

/// The program of a matmul with uneven matrices, by the fastest variant.
pub fn program<T: Tuner>(site: &Site, body: &MatmulBody, tuner: &T) -> Result<Program, Refusal<T::Error>> {
    let copies = Copies::new(site, body)?;
    let even = Site { kernel: &copies.kernel, ..*site };
    let KernelBody::Matmul(even_body) = &even.kernel.body else { crate::bug!("a copied matmul is none") };
    let mut variants = matmul::variants(&even, even_body);
    let by_library = match convolution_call(&even, body).filter(|_| !variants.is_empty()) {
        Some(call) => matmul::library(&even, body, call.clone(), tuner)?.map(|program| (call, program)),
        None => None,
    };
    let (call, by_library) = by_library.unzip();
    let by_library = by_library.map(|program| matmul::with_side_sums(&even, program));
    let by_windows = windows(site);
    if by_library.is_none() && (by_windows.is_none() || even_body.rows.is_some()) {
        let program = match &even_body.rows {
            None => matmul::program(&even, even_body, tuner)?,
            Some(rows) => panels::program(&even, even_body, rows, tuner)?,
        };
        return Ok(copies.before(program));
    }
    variants.splice(..0, by_library.iter().map(|_| Variant::Convolution));
    variants.splice(..0, by_windows.iter().map(|_| Variant::Windows));
    let TuneKey { subject, details } = matmul::key(&even, even_body, &variants);
    let axes = format!("{:?}", body.uneven);
    let key =
        TuneKey { subject, details: format!("{}\n{details}", call.map_or(axes, |call| call.to_string())) };
    let mut of = |variant: Variant| match variant {
        Variant::Convolution => Ok(by_library.clone()),
        Variant::Windows => Ok(by_windows.clone()),
        _ => {
            let program = matmul::of_variant(&even, even_body, variant, tuner)?;
            Ok(program.map(|program| copies.before(program)))
        }
    };
    let found = fastest(site.kernel, &key, variants, tuner, &mut of)?;
    Ok(found.unwrap_or_else(|| crate::bug!("the first variant has a program")))
}

/// The kernel that reads a few windows where they lie, unless checks have to come first.
fn windows(site: &Site) -> Option<Program> {
    let spec = KernelSpec::of_windows(site.kernel, site.device).filter(|_| !site.is_guarded)?;
    Some(matmul::of_kernels(site, vec![spec]))
}

/// The call of a library of convolutions, if there is one and the matmul is one of its convolutions.
fn convolution_call(site: &Site, body: &MatmulBody) -> Option<MatmulCall> {
    let convolution = Convolution::of(body).filter(|_| site.device.kernels.convolutions)?;
    let rhs = MatrixOperand { offset: convolution.offset, ..body.rhs };
    let multiplier = Multiplier::Convolution(Box::new(convolution));
    Some(MatmulCall { rhs, multiplier, ..MatmulCall::new(body, site.precision) })
}

/// Bytes at whose multiples the rows of a copy start. Kernels for tensor cores need it.
const ROW_BYTES: usize = 16;
/// How many times as large another matrix is at least, if a matrix is copied beside it for the alignment of its rows.
const SMALL: usize = 8;

/// Copies of uneven matrices in the workspace, and the matmul of them.
struct Copies {
    /// The matmul, whose last operands are the copies.
    kernel: Kernel,
    /// Where the copies lie, by operand from the first copy on.
    places: Vec<Place>,
    /// What makes them.
    steps: Vec<Step>,
    workspace_bytes: usize,
}

impl Copies {
    fn new(site: &Site, body: &MatmulBody) -> Result<Copies, CodegenError> {
        let mut even = MatmulBody { uneven: [None, None], ..body.clone() };
        let (mut operands, mut places) = (site.kernel.operands.clone(), vec![]);
        let mut made = Program::default();
        let mut end = 0;
        for side in [Side::Lhs, Side::Rhs].into_iter().filter(|&side| is_copied(body, side)) {
            let matrix = if side == Side::Lhs { &mut even.lhs } else { &mut even.rhs };
            let copy = CopiedMatrix::new(site.kernel, &body.axes(side), matrix);
            let place = Place::Workspace { start: end, bytes: copy.ty.bytes() };
            end += copy.ty.bytes().next_multiple_of(ALIGNMENT);
            made.steps.extend(copy.steps(site, matrix.operand, place)?);
            let value = operands[matrix.operand].value;
            *matrix = MatrixOperand { operand: operands.len(), ..copy.matrix };
            operands.push(Operand { value, ty: copy.ty, usage: Use::Read });
            places.push(place);
        }
        let kernel = Kernel { body: KernelBody::Matmul(even), operands, ..site.kernel.clone() };
        Ok(Copies { kernel, places, steps: made.steps, workspace_bytes: end })
    }

    /// A program of the matmul behind the copies that it reads.
    fn before(&self, program: Program) -> Program {
        let n_operands = self.kernel.operands.len() - self.places.len();
        let moved = |place: Place| match place {
            Place::Operand { operand, offset } if operand >= n_operands => {
                match self.places[operand - n_operands] {
                    Place::Workspace { start, bytes } => {
                        Place::Workspace { start: start + offset, bytes: bytes - offset }
                    }
                    place => place,
                }
            }
            Place::Workspace { start, bytes } => {
                Place::Workspace { start: start + self.workspace_bytes, bytes }
            }
            place => place,
        };
        let n_copies = self.steps.len();
        let behind = program.steps.into_iter().map(|step| Step {
            action: action_at(step.action, &moved),
            waits: step.waits.into_iter().map(|wait| wait + n_copies).collect(),
            ..step
        });
        Program {
            steps: self.steps.iter().cloned().chain(behind).collect(),
            workspace_bytes: self.workspace_bytes + program.workspace_bytes,
            chosen: program.chosen,
        }
    }
}

/// Whether a matrix is copied: it is uneven, or its rows are not aligned and it is small beside one that is copied.
fn is_copied(body: &MatmulBody, side: Side) -> bool {
    let [left, right] = [body.m, body.n].map(|extent| extent * body.k);
    let (matrix, numel, beside) = match side {
        Side::Lhs => (body.lhs, left, right),
        Side::Rhs => (body.rhs, right, left),
    };
    let is_aligned = matrix.row.rem_euclid(row_elements(body.dtype) as i64) == 0;
    let is_small = matrix.col == 1 && matrix.batch == 0 && SMALL * numel <= beside;
    body.uneven[side as usize].is_some() || (!is_aligned && is_small)
}

/// Elements at whose multiples rows start at multiples of [`ROW_BYTES`].
fn row_elements(dtype: DType) -> usize {
    ROW_BYTES / dtype.size()
}

/// A matrix and its dense copy, whose rows start at multiples of [`ROW_BYTES`].
struct CopiedMatrix {
    /// From the elements of the copy to those of the operand.
    access: Access,
    /// The type of the copy.
    ty: Type,
    /// The copy as a matrix; its operand is not known yet.
    matrix: MatrixOperand,
}

impl CopiedMatrix {
    /// A matrix that all of a batch share is copied once.
    fn new(
        kernel: &Kernel,
        UnevenAxes { batch, rows, columns }: &UnevenAxes,
        of: &MatrixOperand,
    ) -> CopiedMatrix {
        let is_shared = batch.iter().all(|axis| axis.stride == 0);
        let batch = if is_shared { &[][..] } else { batch };
        let numel = |axes: &[Axis]| axes.iter().map(|axis| axis.extent).product::<usize>();
        let dtype = kernel.operands[of.operand].ty.dtype;
        let (n_rows, n_columns) = (numel(rows), numel(columns));
        let row = n_columns.next_multiple_of(row_elements(dtype));
        let level = Level { offset: of.offset, axes: [batch, rows, columns].concat(), guards: vec![] };
        let dense = Level {
            offset: 0,
            axes: vec![
                Axis { extent: numel(batch) * n_rows, stride: n_columns as i64 },
                Axis { extent: row, stride: 1 },
            ],
            guards: vec![Guard { axis: 1, low: 0, high: n_columns, fill: Literal::Float(0.0).cast(dtype) }],
        };
        CopiedMatrix {
            access: Access { levels: if row == n_columns { vec![level] } else { vec![dense, level] } },
            ty: Type::new(dtype, &[numel(batch), n_rows, row]),
            matrix: MatrixOperand {
                operand: of.operand,
                offset: 0,
                batch: if is_shared { 0 } else { (n_rows * row) as i64 },
                row: row as i64,
                col: 1,
            },
        }
    }

    /// The steps that copy it from an operand.
    fn steps(&self, site: &Site, operand: usize, to: Place) -> Result<Vec<Step>, CodegenError> {
        let numel = self.ty.numel();
        let load = FusedOp::Load { operand: 0, access: self.access.clone(), index: None };
        let store =
            FusedOp::Store { operand: 1, access: Access::strided(&[numel], &[1]), value: 0, index: None };
        let inst = |op: FusedOp| FusedInst { op, dtype: self.ty.dtype, class: Class::Element };
        let body = FusedBody {
            domain: Domain { outer: 1, row: numel, inner: 1 },
            insts: [load, store].map(inst).to_vec(),
        };
        let from = site.kernel.operands[operand].clone();
        let copy = Operand { value: from.value, ty: self.ty.clone(), usage: Use::Write };
        let kernel =
            Kernel { body: KernelBody::Map(body), operands: vec![from, copy], ..site.kernel.clone() };
        let mut program = Program::default();
        let unguarded = Site { is_guarded: false, ..*site };
        kernels(&unguarded, &mut program, KernelSpec::launches(&kernel, site.device)?, None);
        let moved = |place: Place| match place {
            Place::Operand { operand: 0, .. } => Place::operand(operand),
            Place::Operand { .. } => to,
            place => place,
        };
        Ok(program
            .steps
            .into_iter()
            .map(|step| Step { action: action_at(step.action, &moved), ..step })
            .collect())
    }
}
