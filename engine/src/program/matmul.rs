//! Programs of matmuls: the library with as much of the epilogue as it can run, the library on parts of long sums, a kernel
//! on matrix units, or kernels of code generation; and the sums beside the product.

use super::choice::{Refusal, Tuner};
use super::epilogue::absorbed;
use super::kernels::{kernels, own_kernels};
use super::library::{MatmulCall, Multiplier};
use super::matrix_units;
use super::site::Site;
use super::variant::{Choice, TuneKey, Variant};
use super::{Action, Capability, MatmulStep, Place, Program};
use crate::codegen::{CodegenError, KernelSpec, ResultTile};
use crate::fusion::{Class, FusedOp, Kernel, MatmulBody};
use crate::numerics::{Numerics, Precision};
use std::sync::Arc;

/// Up to this many points, a row of threads for each may be the fastest kernel of a product.
const FEW_POINTS: usize = 4096;

/// Fewest operations of a product on tensor cores. Smaller ones have too few tiles for the GPU.
pub const FEWEST_ON_CORES: usize = 1 << 28;

/// Fewest operations of a product in terms. Smaller ones end before their factors are split.
const FEWEST_IN_TERMS: usize = 1 << 30;

/// The most bytes of the terms of both factors.
const MOST_TERM_BYTES: usize = 1 << 31;

/// The program of a matmul, by the fastest variant.
pub fn program<T: Tuner>(site: &Site, body: &MatmulBody, tuner: &T) -> Result<Program, Refusal<T::Error>> {
    let variants = variants(site, body);
    let key = key(site, body, &variants);
    let mut of = |variant: Variant| of_variant(site, body, variant, tuner);
    match fastest(site.kernel, &key, variants, tuner, &mut of)? {
        Some(program) => Ok(program),
        None => Ok(without_choice(site)?),
    }
}

/// The program of the fastest variant, or of the only one; none if there is no first one. `of` makes the programs.
pub fn fastest<T: Tuner>(
    kernel: &Kernel,
    key: &TuneKey,
    variants: Vec<Variant>,
    tuner: &T,
    of: &mut dyn FnMut(Variant) -> Result<Option<Program>, Refusal<T::Error>>,
) -> Result<Option<Program>, Refusal<T::Error>> {
    let most_likely = match variants.first() {
        None => None,
        Some(&first) => of(first)?,
    };
    let Some(most_likely) = most_likely else { return Ok(None) };
    if let [_] = variants[..] {
        return Ok(Some(most_likely));
    }
    let fastest = tuner.fastest(kernel, key, &variants, of)?;
    let variant = variants[fastest.unwrap_or(0)];
    let chosen = Choice { variant, variants, is_tuned: fastest.is_some() };
    let program = if fastest.unwrap_or(0) == 0 { None } else { of(variant)? };
    Ok(Some(Program { chosen: Some(chosen), ..program.unwrap_or(most_likely) }))
}

/// A matmul too small for a library, or one that no library computes.
fn without_choice(site: &Site) -> Result<Program, CodegenError> {
    match site.device.library {
        Some(_) => own_kernel(site),
        None => own_kernels(site),
    }
}

/// The variants that are worth trying, the most likely one first; none if there is nothing to choose.
pub fn variants(site: &Site, body: &MatmulBody) -> Vec<Variant> {
    let Some(library) = site.device.library else {
        let blocks = matrix_units::blocks(body, &site.device).into_iter().map(Variant::MatrixUnits);
        let cuts = KernelSpec::splits(site.kernel, site.device).into_iter().map(Variant::Blocked);
        return blocks.chain(cuts).collect();
    };
    let n_flops = 2 * body.batch * body.m * body.n * body.k;
    if n_flops < library.fewest_flops {
        return vec![];
    }
    let parts = KernelSpec::library_splits(site.kernel, site.device);
    let parts = parts.into_iter().map(Variant::LibraryInParts);
    let is_sliced = !site.is_guarded && KernelSpec::sliced_product(site.kernel, site.device).is_some();
    // Where slices have many points, they are faster than a row of threads for each point.
    let has_few_points = body.batch * body.m * body.n <= FEW_POINTS;
    let is_small = n_flops <= library.most_own_flops && (has_few_points || !is_sliced);
    let own = is_small.then_some(Variant::OwnKernel);
    let sliced = is_sliced.then_some(Variant::Sliced);
    let is_large = n_flops >= FEWEST_ON_CORES;
    let is_on_cores = |&tile: &ResultTile| is_large && on_tensor_cores(site, tile).is_some();
    let tiles = site.device.tensor_cores.map_or(&[][..], ResultTile::of);
    let on_cores = tiles.iter().copied().filter(is_on_cores);
    let on_cores = on_cores.map(Variant::TensorCores);
    let is_in_terms = |&tile: &ResultTile| n_flops >= FEWEST_IN_TERMS && in_terms_of(site, tile).is_some();
    let in_terms = tiles.iter().copied().filter(is_in_terms).map(Variant::Terms);
    let library = [Variant::Library].into_iter().chain(parts);
    library.chain(on_cores).chain(in_terms).chain(sliced).chain(own).collect()
}

/// The launches of a product in terms, unless checks have to come first or each bit of a product in `f32` is asked for.
fn in_terms_of(site: &Site, tile: ResultTile) -> Option<Vec<KernelSpec>> {
    let is_exact = site.is_guarded || site.plan.numerics == Numerics::Strict;
    let is_asked = site.precision == Precision::F32 && !is_exact;
    let launches = is_asked.then(|| KernelSpec::in_terms(site.kernel, tile, site.device))??;
    let n_bytes = launches.iter().map(KernelSpec::workspace_bytes).max();
    (n_bytes <= Some(MOST_TERM_BYTES)).then_some(launches)
}

/// The kernel on tensor cores, unless checks have to come first.
fn on_tensor_cores(site: &Site, tile: ResultTile) -> Option<KernelSpec> {
    let spec = KernelSpec::on_tensor_cores(site.kernel, site.precision, tile, site.device);
    spec.filter(|_| !site.is_guarded)
}

/// What the choice between variants is recorded under.
pub fn key(site: &Site, body: &MatmulBody, variants: &[Variant]) -> TuneKey {
    let call = MatmulCall::new(body, site.precision);
    let operands: Vec<String> = site.kernel.operands.iter().map(|operand| operand.ty.to_string()).collect();
    let variants: Vec<String> = variants.iter().map(Variant::to_string).collect();
    let guard = if site.is_guarded { ", guarded" } else { "" };
    TuneKey {
        subject: format!("variant of {}", call.shape()),
        details: format!(
            "{call}{guard}\n{}\n{}\n{}",
            operands.join(", "),
            variants.join(", "),
            site.kernel.body_text()
        ),
    }
}

/// The program of a variant; none if the device does not compute it.
pub fn of_variant<T: Tuner>(
    site: &Site,
    body: &MatmulBody,
    variant: Variant,
    tuner: &T,
) -> Result<Option<Program>, Refusal<T::Error>> {
    let program = match variant {
        Variant::Library => library(site, body, MatmulCall::new(body, site.precision), tuner)?,
        Variant::LibraryInParts(parts) => in_parts(site, parts, tuner)?,
        Variant::OwnKernel => return Ok(Some(own_kernel(site)?)),
        Variant::Sliced => {
            KernelSpec::sliced_product(site.kernel, site.device).map(|spec| of_kernels(site, vec![spec]))
        }
        Variant::TensorCores(tile) => on_tensor_cores(site, tile).map(|spec| of_kernels(site, vec![spec])),
        Variant::Terms(tile) => in_terms_of(site, tile).map(|launches| of_kernels(site, launches)),
        Variant::Blocked(cut) => {
            Some(of_kernels(site, KernelSpec::split_k_product(site.kernel, site.device, cut)))
        }
        Variant::MatrixUnits(block) => {
            let call = MatmulCall::new(body, site.precision);
            on_units(site, MatmulCall { multiplier: Multiplier::MatrixUnits(block), ..call }, tuner)?
        }
        Variant::Convolution
        | Variant::Windows
        | Variant::PanelsInTurn
        | Variant::PanelsOfRows
        | Variant::PanelsOverlapped => None,
    };
    Ok(program.map(|program| with_side_sums(site, program)))
}

/// Launches without a library.
pub fn of_kernels(site: &Site, launches: Vec<KernelSpec>) -> Program {
    let mut program = Program::default();
    kernels(site, &mut program, launches, None);
    program
}

/// One kernel that adds up its own products, with the sums beside it. A guarded launch checks for all of it first.
fn own_kernel(site: &Site) -> Result<Program, CodegenError> {
    if site.is_guarded {
        return own_kernels(site);
    }
    let mut program = Program::default();
    kernels(site, &mut program, vec![KernelSpec::own_product(site.kernel, site.device)], None);
    Ok(with_side_sums(site, program))
}

/// Appends the sums beside a product: on the other branch, unless they have to wait for checks.
pub fn with_side_sums(site: &Site, mut program: Program) -> Program {
    let n_before = program.steps.len();
    kernels(site, &mut program, KernelSpec::side_sums(site.kernel, site.device), None);
    if !site.is_guarded && site.device.n_streams > 1 {
        program.steps[n_before..].iter_mut().for_each(|step| step.branch = 1);
    }
    program
}

/// A call of a library with all of the epilogue, or with a kernel behind it.
pub fn library<T: Tuner>(
    site: &Site,
    body: &MatmulBody,
    call: MatmulCall,
    tuner: &T,
) -> Result<Option<Program>, Refusal<T::Error>> {
    // A library does not know of failed assertions.
    let whole = if site.is_guarded { None } else { absorbed(site.kernel, body) };
    if let Some(whole) = whole {
        let result = site.kernel.operands[whole.result].ty.dtype;
        let call = MatmulCall { result, epilogue: whole.epilogue, ..call.clone() };
        let [added, bias] = [whole.added, whole.bias].map(|operand| operand.map(Place::operand));
        if let Some(step) = matmul_step(call, Place::operand(whole.result), tuner)? {
            let step = MatmulStep { added, bias, ..step };
            let mut program = Program::default();
            program.push(Action::Matmul(step));
            return Ok(Some(program));
        }
    }
    let call = MatmulCall { result: body.product_type(), ..call };
    let result = place_of_product(site, body);
    let product = result.unwrap_or(Place::Workspace { start: 0, bytes: call.result_bytes() });
    let epilogue = KernelSpec::epilogue(site.kernel, call.result, site.device);
    with_kernels(call, product, tuner, |program| kernels(site, program, vec![epilogue], Some(product)))
}

/// The library on parts of the contracted axis, summed by the epilogue.
fn in_parts<T: Tuner>(site: &Site, parts: usize, tuner: &T) -> Result<Option<Program>, Refusal<T::Error>> {
    let (body, sum) = KernelSpec::split_for_library(site.kernel, site.device, parts);
    let call = MatmulCall::new(&body, site.precision);
    let product = Place::Workspace { start: 0, bytes: call.result_bytes() };
    with_kernels(call, product, tuner, |program| kernels(site, program, vec![sum], Some(product)))
}

/// Matrix units, with the epilogue behind them.
fn on_units<T: Tuner>(
    site: &Site,
    call: MatmulCall,
    tuner: &T,
) -> Result<Option<Program>, Refusal<T::Error>> {
    let product = Place::Workspace { start: 0, bytes: call.result_bytes() };
    let epilogue = KernelSpec::epilogue(site.kernel, call.result, site.device);
    with_kernels(call, product, tuner, |program| kernels(site, program, vec![epilogue], Some(product)))
}

/// A call whose result goes to `product`, and the kernels behind it.
fn with_kernels<T: Tuner>(
    call: MatmulCall,
    product: Place,
    tuner: &T,
    append: impl FnOnce(&mut Program),
) -> Result<Option<Program>, Refusal<T::Error>> {
    let Some(step) = matmul_step(call, product, tuner)? else { return Ok(None) };
    let mut program = Program::default();
    if let Place::Workspace { start, bytes } = product {
        program.workspace_bytes = start + bytes;
    }
    program.push(Action::Matmul(step));
    append(&mut program);
    Ok(Some(program))
}

/// The step of a call, without what its epilogue reads; none if the device does not compute it.
pub fn matmul_step<T: Tuner>(
    call: MatmulCall,
    result: Place,
    tuner: &T,
) -> Result<Option<MatmulStep>, Refusal<T::Error>> {
    if !call.is_possible() {
        return Ok(None);
    }
    let algorithm = match tuner.capability(&call).map_err(Refusal::Tuner)? {
        Capability::None => return Ok(None),
        Capability::Open => None,
        Capability::Algorithm(text) => Some(text),
    };
    let factors = [call.lhs.operand, call.rhs.operand].map(Place::operand);
    let (added, bias) = (None, None);
    Ok(Some(MatmulStep { call: Arc::new(call), factors, result, added, bias, algorithm }))
}

/// The first result of the product's type and size, unless it must not be written before the checks, or is read as well.
fn place_of_product(site: &Site, body: &MatmulBody) -> Option<Place> {
    let n_points = body.batch * body.m * body.n;
    let dtype = body.product_type();
    let mut results = body.epilogue.insts.iter().filter_map(|inst| match &inst.op {
        FusedOp::Store { operand, access, index: None, .. }
            if inst.class == Class::Element && inst.dtype == dtype =>
        {
            access.is_identity(n_points).then_some(*operand)
        }
        _ => None,
    });
    let is_alone = |operand: &usize| {
        let buffer = site.buffers[*operand];
        site.buffers.iter().filter(|&&used| used == buffer).count() == 1
    };
    results.find(is_alone).filter(|_| !site.is_guarded).map(Place::operand)
}
