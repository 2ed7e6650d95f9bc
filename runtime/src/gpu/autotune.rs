//! Autotuning of programs: the variants of a kernel are timed by turns on noise, and the fastest is recorded.
//!
//! The speed of a matmul depends on its data, so operands hold noise. Variants sum in different orders, so choices are stored
//! on disk and in checkpoints.

use crate::autotune::{Choice, Tuner};
use crate::cache::DiskCache;
use crate::device::DeviceError;
use engine_core::fusion::Kernel;
use engine_core::program::{self, Capability, MatmulCall, Program, Refusal, TuneKey, Variant};

/// The number of measurements of each candidate. Candidates take turns, so that a slow phase of the device affects all of
/// them, and the least time of each counts.
const N_ROUNDS: usize = 3;

/// A device that times programs.
pub trait Bench {
    /// Memory of a kernel's operands.
    type Operands;
    /// A compiled program.
    type Trial;

    /// The choices of the device.
    fn choices(&self) -> Choices<'_>;

    /// How the device computes a call, if it can.
    ///
    /// # Errors
    /// If the device fails.
    fn capability(&self, call: &MatmulCall) -> Result<Capability, DeviceError>;

    /// Operands that hold noise; indices are all 0.
    ///
    /// # Errors
    /// If memory does not suffice.
    fn operands(&self, kernel: &Kernel) -> Result<Self::Operands, DeviceError>;

    /// Compiles a program.
    ///
    /// # Errors
    /// If the device refuses it.
    fn trial(&self, kernel: &Kernel, program: Program) -> Result<Self::Trial, DeviceError>;

    /// The time of a program in seconds. `least` is its least time so far, infinite at first.
    ///
    /// # Errors
    /// If the program fails.
    fn seconds(&self, operands: &Self::Operands, trial: &Self::Trial, least: f64)
    -> Result<f64, DeviceError>;
}

/// The choices of a device.
#[derive(Clone, Copy)]
pub struct Choices<'b> {
    pub tuner: &'b Tuner,
    /// The choices of earlier runs.
    pub disk: &'b DiskCache,
    /// Whether timing is useful.
    pub can_time: bool,
}

/// The tuner of a device that times programs.
pub struct Timed<B>(pub B);

impl Choices<'_> {
    /// Whether the fastest variant of a kernel is recorded.
    pub fn recall(&self, key: &TuneKey, variants: &[Variant]) -> bool {
        self.tuner.recalls(self.disk, key, |known: &Recorded| known.position(variants).is_some())
    }
}

impl<B: Bench> program::Tuner for Timed<B> {
    type Error = DeviceError;

    fn capability(&self, call: &MatmulCall) -> Result<Capability, DeviceError> {
        self.0.capability(call)
    }

    fn fastest(
        &self,
        kernel: &Kernel,
        key: &TuneKey,
        variants: &[Variant],
        program: &mut dyn FnMut(Variant) -> Result<Option<Program>, Refusal<DeviceError>>,
    ) -> Result<Option<usize>, Refusal<DeviceError>> {
        let Choices { tuner, disk, can_time, .. } = self.0.choices();
        if !can_time {
            return Ok(None);
        }
        let is_possible = |known: &Recorded| known.position(variants).is_some();
        let found = tuner.recall(disk, key, is_possible, || {
            let mut programs = vec![];
            for &variant in variants {
                programs.push(match program(variant) {
                    Ok(program) => program,
                    Err(Refusal::Codegen(_)) => None,
                    Err(Refusal::Tuner(error)) => return Err(error),
                });
            }
            let refused = |variant: usize, error: &DeviceError| {
                let why = error.to_string();
                let why = why.lines().next().unwrap_or_default();
                disk.note(&format!("`{}` is not tried as `{}`: {why}", kernel.name, variants[variant]));
            };
            Ok(Recorded(variants[fastest(&self.0, kernel, programs, refused)?].to_string()))
        });
        match found {
            // A plan may fit into memory that does not suffice for its trial.
            Err(DeviceError::OutOfMemory { .. }) => Ok(None),
            found => Ok(found.map_err(Refusal::Tuner)?.position(variants)),
        }
    }
}

/// The position of the fastest program. A program that the device refuses counts as infinitely slow, and is reported to
/// `refused`.
///
/// # Errors
/// If no program runs.
pub fn fastest<B: Bench>(
    bench: &B,
    kernel: &Kernel,
    programs: Vec<Option<Program>>,
    refused: impl Fn(usize, &DeviceError),
) -> Result<usize, DeviceError> {
    let operands = bench.operands(kernel)?;
    let trial = |program: Option<Program>| program.map(|program| bench.trial(kernel, program)).transpose();
    let trials: Vec<_> = programs.into_iter().map(trial).collect();
    for (i, trial) in trials.iter().enumerate() {
        trial.as_ref().err().into_iter().for_each(|error| refused(i, error));
    }
    fastest_of(trials.len(), |i, least| match &trials[i] {
        Ok(Some(trial)) => bench.seconds(&operands, trial, least),
        Ok(None) => Ok(f64::INFINITY),
        Err(error) => Err(error.clone()),
    })
}

/// The position with the least time of `n` candidates, which are timed by turns. `seconds` receives a position and its
/// least time so far, infinite at first. A candidate that fails counts as infinitely slow.
///
/// # Errors
/// If every candidate fails.
pub fn fastest_of(
    n: usize,
    mut seconds: impl FnMut(usize, f64) -> Result<f64, DeviceError>,
) -> Result<usize, DeviceError> {
    let mut least = vec![f64::INFINITY; n];
    let mut refused = None;
    for _ in 0..N_ROUNDS {
        for (i, least) in least.iter_mut().enumerate() {
            match seconds(i, *least) {
                Ok(time) => *least = least.min(time),
                Err(error) => refused = Some(error),
            }
        }
    }
    let best = (0..n).min_by(|&a, &b| least[a].total_cmp(&least[b]));
    match (best.filter(|&best| least[best].is_finite()), refused) {
        (Some(best), _) => Ok(best),
        (None, Some(error)) => Err(error),
        (None, None) => engine_core::bug!("no candidate to choose from"),
    }
}

/// The recorded text of a variant.
struct Recorded(String);

impl Recorded {
    fn position(&self, variants: &[Variant]) -> Option<usize> {
        variants.iter().position(|variant| variant.to_string() == self.0)
    }
}

impl Choice for Recorded {
    fn to_text(&self) -> String {
        self.0.clone()
    }

    fn from_text(text: &str) -> Option<Recorded> {
        Some(Recorded(text.to_string()))
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use engine_core::fusion::fuse;
    use engine_core::ir::{Builder, DType, Graph, InputKind, Type, Unary};
    use engine_core::op::Registry;
    use engine_core::program::Tuner as _;
    use std::cell::Cell;

    /// A bench that reports the bytes of a program's workspace as its seconds, and may fail with an error.
    struct Fake {
        tuner: Tuner,
        disk: DiskCache,
        error: Option<DeviceError>,
        n_timed: Cell<usize>,
    }

    impl Bench for Fake {
        type Operands = ();
        type Trial = usize;
        fn choices(&self) -> Choices<'_> {
            Choices { tuner: &self.tuner, disk: &self.disk, can_time: true }
        }
        fn capability(&self, _: &MatmulCall) -> Result<Capability, DeviceError> {
            Ok(Capability::Open)
        }
        fn operands(&self, _: &Kernel) -> Result<(), DeviceError> {
            self.error.clone().map_or(Ok(()), Err)
        }
        fn trial(&self, _: &Kernel, program: Program) -> Result<usize, DeviceError> {
            Ok(program.workspace_bytes)
        }
        fn seconds(&self, (): &(), bytes: &usize, _: f64) -> Result<f64, DeviceError> {
            self.n_timed.set(self.n_timed.get() + 1);
            Ok(*bytes as f64)
        }
    }

    fn fake(folder: &tempfile::TempDir, error: Option<DeviceError>) -> Timed<Fake> {
        let (tuner, disk) = (Tuner::new("model".into()), DiskCache::within(folder.path()));
        Timed(Fake { tuner, disk, error, n_timed: Cell::new(0) })
    }

    const VARIANTS: [Variant; 3] = [Variant::Library, Variant::LibraryInParts(4), Variant::OwnKernel];

    /// The chosen position among programs of 3 and 1 seconds and a third, which has no program.
    fn chosen(timed: &Timed<Fake>) -> Result<Option<usize>, Refusal<DeviceError>> {
        let registry = Registry::new();
        let mut b = Builder::new(Graph::new("map"), &registry);
        let x = b.input("x", InputKind::Data, Type::new(DType::F32, &[8]));
        let y = b.unary(Unary::Exp, x);
        b.graph.outputs = vec![("y".into(), y)];
        let kernel = fuse(&b.graph.pruned(), true).kernels.remove(0);
        let key = TuneKey { subject: "product".into(), details: "2x2".into() };
        timed.fastest(&kernel, &key, &VARIANTS, &mut |variant| {
            let bytes =
                [Some(3), Some(1), None][VARIANTS.iter().position(|&known| known == variant).unwrap()];
            Ok(bytes.map(|workspace_bytes| Program { workspace_bytes, ..Program::default() }))
        })
    }

    #[test]
    fn the_fastest_variant_is_recorded_and_timed_once() {
        let folder = tempfile::tempdir().unwrap();
        let timed = fake(&folder, None);
        assert_eq!(chosen(&timed), Ok(Some(1)));
        assert_eq!(timed.0.n_timed.get(), 2 * N_ROUNDS);
        let texts: Vec<String> = timed.0.tuner.tuning().unwrap().choices.into_values().collect();
        assert_eq!(texts, ["library in parts: 4"]);
        let later = fake(&folder, None);
        assert_eq!((chosen(&later), later.0.n_timed.get()), (Ok(Some(1)), 0));
    }

    /// Trials need memory in addition to the plan's.
    #[test]
    fn without_memory_nothing_is_timed_and_other_errors_are_returned() {
        let folder = tempfile::tempdir().unwrap();
        let full = DeviceError::out_of_memory("a GPU", 1 << 40, None);
        let timed = fake(&folder, Some(full));
        assert_eq!((chosen(&timed), timed.0.tuner.tuning()), (Ok(None), None));
        let lost = DeviceError::Lost { device: "a GPU".into(), why: "unplugged".into() };
        assert_eq!(chosen(&fake(&folder, Some(lost.clone()))), Err(Refusal::Tuner(lost)));
    }
}
