//! Programs of matmuls of which blocks of columns are reduced: a kernel on tensor cores that keeps its scores in registers, or
//! the library's product in memory with kernels behind it.

use super::choice::{Refusal, Tuner};
use super::kernels::kernels;
use super::library::MatmulCall;
use super::matmul::{fastest, key, matmul_step, with_side_sums};
use super::panels::{on_tensor_cores, tiles};
use super::site::Site;
use super::variant::Variant;
use super::{Action, Place, Program};
use crate::codegen::{CodegenError, KernelSpec};
use crate::fusion::MatmulBody;

/// Most bytes of a product that is stored where tensor cores can fold it. A larger one may not fit beside its factors.
const MOST_STORED: usize = 4 << 30;

/// The program of a matmul of which blocks of columns are reduced.
pub fn program<T: Tuner>(site: &Site, body: &MatmulBody, tuner: &T) -> Result<Program, Refusal<T::Error>> {
    let n_flops = 2 * body.batch * body.m * body.n * body.k;
    let on_cores = tiles(site, n_flops).into_iter().map(Variant::TensorCores);
    let is_stored =
        on_cores.len() == 0 || MatmulCall::new(body, site.precision).result_bytes() <= MOST_STORED;
    let library = is_stored.then_some(Variant::Library);
    let variants: Vec<Variant> = library.into_iter().chain(on_cores).collect();
    let recorded = key(site, body, &variants);
    let mut of = |variant: Variant| match variant {
        Variant::TensorCores(tile) => Ok(on_tensor_cores(site, tile)),
        _ => in_memory(site, body, true, tuner),
    };
    if let Some(program) = fastest(site.kernel, &recorded, variants, tuner, &mut of)? {
        return Ok(program);
    }
    in_memory(site, body, false, tuner)?.ok_or(Refusal::Codegen(CodegenError::Fold))
}

/// The product in memory, by the library or by a kernel, and the kernels behind it.
fn in_memory<T: Tuner>(
    site: &Site,
    body: &MatmulBody,
    by_library: bool,
    tuner: &T,
) -> Result<Option<Program>, Refusal<T::Error>> {
    let Some(launches) = KernelSpec::column_blocks(site.kernel, site.device) else { return Ok(None) };
    let call = MatmulCall::new(body, site.precision);
    let product = Place::Workspace { start: 0, bytes: call.result_bytes() };
    let mut program = Program { workspace_bytes: call.result_bytes(), ..Program::default() };
    if by_library {
        let Some(step) = matmul_step(call, product, tuner)? else { return Ok(None) };
        program.push(Action::Matmul(step));
    } else {
        let alone = vec![KernelSpec::product_alone(site.kernel, site.device)];
        kernels(site, &mut program, alone, Some(product));
    }
    kernels(site, &mut program, launches, Some(product));
    Ok(Some(with_side_sums(site, program)))
}
