//! Probes of behaviour that WGSL does not guarantee, run once when a GPU is opened.
//!
//! WGSL leaves open the assignment of threads to subgroups, the rounding of halves, subnormal halves and the propagation of
//! NaN; and compilers err. Most GPUs behave as the engine needs. A GPU that fails a probe gets kernels without that assumption.

use crate::device::DeviceError;
use engine_core::device_model::DeviceModel;
use half::f16;

/// A kernel that shows how a GPU behaves.
pub struct Probe<'p> {
    /// The text, whose entry point is `probe`.
    pub text: String,
    /// The words that it reads.
    pub given: &'p [u32],
    /// The number of words that it writes.
    pub n_found: usize,
    /// Its workgroups.
    pub n_blocks: usize,
}

/// Runs a probe, and returns the words that it writes.
pub type Run<'r> = &'r dyn Fn(Probe) -> Result<Vec<u32>, DeviceError>;

/// The model of a GPU after all probes. `plane` is the subgroup size that the driver reports.
///
/// # Errors
/// If the GPU is lost.
pub fn found(model: DeviceModel, plane: Option<usize>, run: Run) -> Result<DeviceModel, DeviceError> {
    let plane = match plane {
        Some(plane) if is_so(is_plane(run, plane))? => plane,
        _ => 1,
    };
    let [reads_halves, writes_halves] = [is_so(reads_halves(run))?, is_so(writes_halves(run))?];
    let exp_keeps_nan = is_so(exp_keeps_nan(run))?;
    let compares_widened = !model.has_i64 || is_so(compares_widened(run))?;
    let model = DeviceModel { plane, reads_halves, writes_halves, exp_keeps_nan, compares_widened, ..model };
    Ok(model.with_kernel_limits())
}

/// The answer of a probe. A probe that does not compile or run answers no. A lost GPU is an error.
fn is_so(answer: Result<bool, DeviceError>) -> Result<bool, DeviceError> {
    match answer {
        Err(lost @ DeviceError::Lost { .. }) => Err(lost),
        answer => Ok(answer.unwrap_or(false)),
    }
}

/// The threads of a probe's workgroup.
const THREADS: usize = 256;

/// Whether each `plane` consecutive threads form a subgroup, in order.
fn is_plane(run: Run, plane: usize) -> Result<bool, DeviceError> {
    let text = format!(
        "{BINDINGS}
@compute @workgroup_size({THREADS}, 1, 1)
fn probe(
    @builtin(local_invocation_index) unit: u32,
    @builtin(subgroup_size) size: u32,
    @builtin(subgroup_invocation_id) lane: u32,
) {{
    let near = subgroupShuffleXor(unit, 1u);
    let far = subgroupShuffleXor(unit, {}u);
    found[unit] = size;
    found[unit + {THREADS}u] = lane;
    found[unit + {}u] = near;
    found[unit + {}u] = far;
}}
",
        plane / 2,
        2 * THREADS,
        3 * THREADS,
    );
    let words = run(Probe { text, given: &[0], n_found: 4 * THREADS, n_blocks: 1 })?;
    let is_as_hoped = |unit: usize| {
        let expected = [plane, unit % plane, unit ^ 1, unit ^ (plane / 2)];
        expected.iter().enumerate().all(|(i, &word)| words[unit + i * THREADS] as usize == word)
    };
    Ok(plane > 1 && THREADS.is_multiple_of(plane) && (0..THREADS).all(is_as_hoped))
}

/// Whether `unpack2x16float` converts every half exactly.
fn reads_halves(run: Run) -> Result<bool, DeviceError> {
    let text = format!(
        "{BINDINGS}
@compute @workgroup_size({THREADS}, 1, 1)
fn probe(@builtin(global_invocation_id) thread: vec3<u32>) {{
    let numbers = unpack2x16float(given[thread.x]);
    found[2u * thread.x] = bitcast<u32>(numbers.x);
    found[2u * thread.x + 1u] = bitcast<u32>(numbers.y);
}}
"
    );
    let halves: Vec<u16> = (0..=u16::MAX).collect();
    let packed: Vec<u32> =
        halves.as_chunks().0.iter().map(|&[low, high]| u32::from(low) | u32::from(high) << 16).collect();
    let words = run(Probe { text, given: &packed, n_found: halves.len(), n_blocks: packed.len() / THREADS })?;
    let is_same = |(&half, &word): (&u16, &u32)| {
        let (expected, found) = (f16::from_bits(half).to_f32(), f32::from_bits(word));
        expected.to_bits() == word || (expected.is_nan() && found.is_nan())
    };
    Ok(halves.iter().zip(&words).all(is_same))
}

/// Whether `pack2x16float` rounds to the nearest half.
fn writes_halves(run: Run) -> Result<bool, DeviceError> {
    let text = format!(
        "{BINDINGS}
@compute @workgroup_size({THREADS}, 1, 1)
fn probe(@builtin(global_invocation_id) thread: vec3<u32>) {{
    found[thread.x] = pack2x16float(vec2<f32>(bitcast<f32>(given[thread.x]), 0.0));
}}
"
    );
    let numbers = numbers_between_halves();
    let bits: Vec<u32> = numbers.iter().map(|number| number.to_bits()).collect();
    let words = run(Probe { text, given: &bits, n_found: bits.len(), n_blocks: bits.len() / THREADS })?;
    let is_same = |(&number, &word): (&f32, &u32)| {
        let (expected, found) = (f16::from_f32(number), f16::from_bits(word as u16));
        word >> 16 == 0 && (expected.to_bits() == found.to_bits() || (expected.is_nan() && found.is_nan()))
    };
    Ok(numbers.iter().zip(&words).all(is_same))
}

/// Whether `exp` propagates NaN, from an operand and from a difference.
fn exp_keeps_nan(run: Run) -> Result<bool, DeviceError> {
    let text = format!(
        "{BINDINGS}
@compute @workgroup_size({THREADS}, 1, 1)
fn probe(@builtin(global_invocation_id) thread: vec3<u32>) {{
    let x = bitcast<f32>(given[thread.x]);
    found[2u * thread.x] = bitcast<u32>(exp(x));
    found[2u * thread.x + 1u] = bitcast<u32>(exp(1.0 - x));
}}
"
    );
    // Quiet and signalling NaN of both signs.
    let payload = |number: u32| if number < 64 { number + 1 } else { 0x0040_0000 | number << 13 };
    let bits: Vec<u32> =
        (0..THREADS as u32).map(|number| (number % 2) << 31 | 0x7F80_0000 | payload(number / 2)).collect();
    let words = run(Probe { text, given: &bits, n_found: 2 * bits.len(), n_blocks: 1 })?;
    Ok(words.iter().all(|&word| f32::from_bits(word).is_nan()))
}

/// Whether comparisons with constants know the sign of a widened number. Mesa 22.3 folds them to the opposite.
fn compares_widened(run: Run) -> Result<bool, DeviceError> {
    let text = format!(
        "{BINDINGS}
@compute @workgroup_size({THREADS}, 1, 1)
fn probe(@builtin(global_invocation_id) thread: vec3<u32>) {{
    let x = i64(bitcast<i32>(given[thread.x]));
    found[thread.x] = select(0u, 1u, x < i64(5)) | select(0u, 2u, x > i64(0)) | select(0u, 4u, x >= i64(-7));
}}
"
    );
    let numbers: Vec<i32> =
        (0..THREADS as i32).map(|number| (number - 128).wrapping_mul(1 << (number % 25))).collect();
    let given: Vec<u32> = numbers.iter().map(|number| number.cast_unsigned()).collect();
    let words = run(Probe { text, given: &given, n_found: given.len(), n_blocks: 1 })?;
    let expected = |x: i32| u32::from(x < 5) | u32::from(x > 0) << 1 | u32::from(x >= -7) << 2;
    Ok(numbers.iter().zip(&words).all(|(&number, &word)| word == expected(number)))
}

/// All halves, the midpoints between neighbours, and the floats next to the midpoints; padded to a multiple of [`THREADS`].
fn numbers_between_halves() -> Vec<f32> {
    let mut numbers = vec![f32::NAN, f32::INFINITY, f32::NEG_INFINITY, f32::MAX, f32::MIN, 1e-30, -1e-30];
    for bits in 0..f16::INFINITY.to_bits() {
        let low = f16::from_bits(bits).to_f32();
        // Rounding treats the first number beyond the range as if it were a half.
        let high = if bits == f16::MAX.to_bits() { 65536.0 } else { f16::from_bits(bits + 1).to_f32() };
        let middle = (low + high) / 2.0;
        let sign = if bits % 2 == 0 { 1.0 } else { -1.0 };
        numbers.extend([low, middle.next_down(), middle, middle.next_up()].map(|number| sign * number));
    }
    numbers.resize(numbers.len().next_multiple_of(THREADS), 0.0);
    numbers
}

const BINDINGS: &str = "@group(0) @binding(0) var<storage, read_write> found: array<u32>;
@group(0) @binding(1) var<storage, read> given: array<u32>;";
