//! The translation of programs: kernels are compiled, library calls described.

use super::api::{Gpu, GpuProgram, Matmul};
use super::prepared::{Prepared, PreparedStep, Work};
use super::source::Source;
use crate::device::DeviceError;
use engine_core::codegen::KernelSpec;
use engine_core::fusion::Kernel;
use engine_core::plan::Plan;
use engine_core::program::{Action, KernelStep, MatmulCall, MatmulStep, Place, Program, Programs, Step};
use std::collections::HashMap;
use std::sync::Arc;

/// The programs of all launches of a plan. Their kernels are compiled together.
///
/// # Errors
/// If the GPU lacks an operation, or a kernel does not compile.
pub fn of_plan<G: Gpu>(
    gpu: &Arc<G>,
    plan: &Plan,
    programs: &Programs,
    seed: u64,
) -> Result<Vec<GpuProgram<G>>, DeviceError> {
    let mut translated = vec![];
    for (launch, program) in plan.launches.iter().zip(&programs.programs) {
        let kernel = &plan.kernels[launch.kernel];
        let name = |operand: usize| format!("`{}`", plan.buffers[launch.buffers[operand]].name);
        translated.push((kernel.label(), translate(gpu, kernel, &name, program, seed)?));
    }
    compiled(gpu, translated)
}

/// A program of a kernel outside of a plan.
///
/// # Errors
/// As [`of_plan`].
pub fn of_kernel<G: Gpu>(
    gpu: &Arc<G>,
    kernel: &Kernel,
    program: &Program,
) -> Result<GpuProgram<G>, DeviceError> {
    let translated = translate(gpu, kernel, &|operand| format!("operand {operand}"), program, 0)?;
    let prepared = compiled(gpu, vec![(kernel.name.to_string(), translated)])?.pop();
    Ok(prepared.unwrap_or_else(|| engine_core::bug!("one program for one translation")))
}

/// The kernels of a program outside of a plan, with the name of its kernel.
///
/// # Errors
/// As [`of_plan`].
pub fn sources<G: Gpu>(
    gpu: &Arc<G>,
    kernel: &Kernel,
    program: &Program,
) -> Result<Vec<(String, Source)>, DeviceError> {
    let translated = translate(gpu, kernel, &|operand| format!("operand {operand}"), program, 0)?;
    Ok(translated.sources.into_iter().map(|source| (kernel.name.to_string(), source)).collect())
}

/// Compiles the kernels of programs, each of which comes with the name of its owner.
fn compiled<G: Gpu>(
    gpu: &Arc<G>,
    translated: Vec<(String, Translated<G>)>,
) -> Result<Vec<GpuProgram<G>>, DeviceError> {
    let mut sources = vec![];
    let mut programs = vec![];
    for (owner, program) in translated {
        let start = sources.len();
        sources.extend(program.sources.into_iter().map(|source| (owner.clone(), source)));
        programs.push((start..sources.len(), program.products, program.steps));
    }
    let kernels = gpu.state().kernels.load(&sources, |owner, source| gpu.compile(owner, source))?;
    let prepared = programs.into_iter().map(|(range, products, steps)| {
        let kernels = kernels[range].to_vec();
        Prepared { kernels, products, steps }
    });
    Ok(prepared.collect())
}

/// A program whose kernels are texts.
struct Translated<G: Gpu> {
    sources: Vec<Source>,
    products: Vec<G::Product>,
    steps: Vec<PreparedStep>,
}

fn translate<G: Gpu>(
    gpu: &Arc<G>,
    kernel: &Kernel,
    name_of: &dyn Fn(usize) -> String,
    program: &Program,
    seed: u64,
) -> Result<Translated<G>, DeviceError> {
    let translated = Translated { sources: vec![], products: vec![], steps: vec![] };
    let mut translation = Translation {
        gpu,
        kernel,
        name_of,
        seed,
        translated,
        kernels: HashMap::new(),
        matmuls: HashMap::new(),
    };
    for step in &program.steps {
        let step = translation.step(step)?;
        translation.translated.steps.push(step);
    }
    Ok(translation.translated)
}

/// The translation of a program. Steps that share a kernel or a matmul call share its translation.
struct Translation<'p, G: Gpu> {
    gpu: &'p Arc<G>,
    kernel: &'p Kernel,
    /// The names of operands, for errors.
    name_of: &'p dyn Fn(usize) -> String,
    seed: u64,
    translated: Translated<G>,
    /// By shared kernel: its position.
    kernels: HashMap<*const KernelSpec, usize>,
    /// By shared matmul call: its position.
    matmuls: HashMap<*const MatmulCall, KnownMatmul>,
}

/// The position of a translated matmul.
#[derive(Clone, Copy)]
enum KnownMatmul {
    Product(usize),
    /// A kernel, with its grid.
    Kernel(usize, [usize; 3]),
}

impl<G: Gpu> Translation<'_, G> {
    fn step(&mut self, step: &Step) -> Result<PreparedStep, DeviceError> {
        let work = self.work(&step.action)?;
        self.check(&work)?;
        Ok(PreparedStep { work, branch: step.branch, waits: step.waits.clone() })
    }

    fn work(&mut self, action: &Action) -> Result<Work, DeviceError> {
        Ok(match action {
            Action::Kernel(step) => self.kernel(step)?,
            Action::Matmul(step) => self.matmul(step)?,
            &Action::Copy { from, to, bytes } => Work::Copy { from, to, bytes },
            &Action::Fill { to, bytes, byte } => Work::Fill { to, bytes, byte },
            &Action::Loop { ref body, trips, until, number, .. } => {
                let steps = body.iter().map(|step| self.step(step));
                Work::Loop { body: steps.collect::<Result<_, _>>()?, trips, until, number }
            }
            Action::Collective(_) => return Err(self.unsupported("it is one GPU, without others")),
        })
    }

    fn kernel(&mut self, step: &KernelStep) -> Result<Work, DeviceError> {
        let KernelStep { kernel, arguments, grid, scalars } = step;
        let number = match self.kernels.get(&Arc::as_ptr(kernel)) {
            Some(&known) => known,
            None => {
                let source = self.gpu.source(&self.kernel.name, kernel)?;
                let added = self.add(source);
                self.kernels.insert(Arc::as_ptr(kernel), added);
                added
            }
        };
        let info = kernel.info_of(scalars, self.seed as u32);
        Ok(Work::Kernel { kernel: number, arguments: arguments.clone(), grid: api_grid(*grid), info })
    }

    fn matmul(&mut self, step: &MatmulStep) -> Result<Work, DeviceError> {
        let &MatmulStep { ref call, factors, result, added, bias, .. } = step;
        let known = match self.matmuls.get(&Arc::as_ptr(call)) {
            Some(&known) => known,
            None => {
                let made = self.made(call)?;
                self.matmuls.insert(Arc::as_ptr(call), made);
                made
            }
        };
        Ok(match known {
            KnownMatmul::Product(product) => Work::Product { product, factors, result, added, bias },
            KnownMatmul::Kernel(kernel, grid) => Work::Kernel {
                kernel,
                arguments: factors.into_iter().chain([result]).collect(),
                grid: api_grid(grid),
                // A binding has at least one word.
                info: vec![0],
            },
        })
    }

    fn made(&mut self, call: &MatmulCall) -> Result<KnownMatmul, DeviceError> {
        Ok(match self.gpu.matmul(call)? {
            Some(Matmul::Library(product)) => {
                self.translated.products.push(product);
                KnownMatmul::Product(self.translated.products.len() - 1)
            }
            Some(Matmul::Kernel(source, grid)) => KnownMatmul::Kernel(self.add(source), grid),
            None => return Err(self.unsupported("it has no implementation of this matmul")),
        })
    }

    fn add(&mut self, source: Source) -> usize {
        self.translated.sources.push(source);
        self.translated.sources.len() - 1
    }

    /// Checks a step against the API and against the largest tensor of the GPU.
    fn check(&self, work: &Work) -> Result<(), DeviceError> {
        if let Some(reason) = G::refusal(work) {
            return Err(self.unsupported(reason));
        }
        let largest = self.gpu.state().model.most_tensor_bytes;
        for place in work.places() {
            let (name, bytes) = match place {
                Place::Operand { operand, .. } => {
                    ((self.name_of)(operand), self.kernel.operands[operand].ty.bytes() as u64)
                }
                Place::Workspace { bytes, .. } => ("its workspace".to_string(), bytes as u64),
                Place::Assertions => continue,
            };
            if bytes > largest {
                let [bytes, largest] = [bytes, largest].map(amount);
                let reason =
                    format!("{name} takes {bytes}, and a kernel reaches at most {largest} of a tensor");
                return Err(self.unsupported(&reason));
            }
        }
        Ok(())
    }

    fn unsupported(&self, reason: &str) -> DeviceError {
        DeviceError::unsupported(&self.gpu.state().name, &self.kernel.name, reason.to_string())
    }
}

/// A grid in the integers of the APIs. A grid that exceeds them is refused by the API.
fn api_grid(grid: [usize; 3]) -> [u32; 3] {
    grid.map(|n| u32::try_from(n).unwrap_or(u32::MAX))
}

/// A number of bytes, for the user.
fn amount(bytes: u64) -> String {
    if bytes >> 20 == 0 { format!("{bytes} bytes") } else { format!("{} MiB", bytes >> 20) }
}
