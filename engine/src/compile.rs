//! Compilation: the passes from a bound graph to a plan. Each pass is verified, and each form is kept for printing.

mod hoist;
mod invariant;
mod loops;
mod once;

use crate::codegen;
use crate::device_model::{DeviceModel, RowFolds};
use crate::fusion::{
    self, Fused, JOIN_PRODUCTS, Kernel, KernelBody, NotFused, copy_once, fuse_with, join_products,
    separate_scores, share_copies, split_columns, split_scans,
};
use crate::ir::{Graph, Level, MOST_SELECTED, NodeId, Symbol, Target};
use crate::last_rows::last_rows;
use crate::lower::primitives_for;
use crate::numerics::{Numerics, Precision};
use crate::op::Registry;
use crate::pass::{checked, sound};
use crate::plan::{self, Plan, plan, separate_states};
use crate::rules::{Settings, rules, simplify_counting};
use hoist::{HOIST, has_loops, hoist};
use loops::CompiledTrip;
use once::{HOIST_FROM_STEPS, Split, split};

/// Settings of the compiler.
#[derive(Clone, Debug)]
pub struct Options {
    /// The classes of rules that the simplifier applies.
    pub numerics: Numerics,
    /// Whether nodes are fused. If not, every materialized node is a kernel.
    pub fuse: bool,
    /// Names of [`switches`] that are off.
    pub without: Vec<String>,
    /// The maximum number of rewrites and joins of kernels, in the order in which they are made. It bisects a
    /// miscompile.
    pub fuel: usize,
    /// The device to compile for.
    pub device: DeviceModel,
    /// The precision of matmuls.
    pub matmul: Precision,
    /// Whether results are bit-identical in each run, even if the device has a faster way.
    pub deterministic: bool,
    /// Whether values that no step changes are computed before the first step ([`Plan::once`]). The names are those of data
    /// inputs that no step changes; parameters and states without a next value are such inputs as well.
    pub once: Option<Vec<Symbol>>,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            numerics: Numerics::Default,
            fuse: true,
            without: vec![],
            fuel: usize::MAX,
            device: DeviceModel::default(),
            matmul: Precision::default(),
            deterministic: false,
            once: None,
        }
    }
}

impl Options {
    /// What expansions know of the device.
    fn target(&self) -> Target {
        let DeviceModel { library, tensor_cores, has_matrix_units, kernels, has_f64, .. } = self.device;
        let folds_any = kernels.row_folds == RowFolds::Any;
        let everywhere = if kernels.most_queries == usize::MAX { usize::MAX } else { 0 };
        let on_tensor_cores = if tensor_cores.is_some() { usize::MAX } else { 0 };
        // Matrix units multiply halves faster.
        let halves_in_tiles = if has_matrix_units { 0 } else { kernels.columns_in_tiles };
        Target {
            matmul: self.matmul,
            // Only a library or tensor cores use less than `f32`.
            has_tf32: library.is_some() || tensor_cores.is_some(),
            folds_columns: folds_any,
            folds_columns_in_tf32: folds_any || tensor_cores.is_some(),
            folds_columns_of_halves: folds_any || tensor_cores.is_some(),
            attended_in_f32: everywhere.max(kernels.columns_in_tiles),
            attended_in_halves: everywhere.max(on_tensor_cores).max(halves_in_tiles),
            attended_in_f64: if kernels.attention_in_f64 { everywhere } else { 0 },
            most_selected: MOST_SELECTED,
            has_f64,
            ends_rows_early: folds_any,
        }
    }
}

/// Names that can be switched off: rules of the simplifier, passes of the fuser, both kinds of hoisting, and the join of
/// products.
pub fn switches() -> Vec<&'static str> {
    let optional = rules().into_iter().filter(|rule| !rule.is_needed).map(|rule| rule.name);
    optional
        .chain(fusion::PASSES.iter().map(|pass| pass.name()))
        .chain([HOIST, HOIST_FROM_STEPS, JOIN_PRODUCTS])
        .collect()
}

/// The forms of a compiled graph.
#[derive(Clone, Debug)]
pub struct Compiled {
    /// The bound and typed graph, with its gradient if it trains.
    pub typed: Graph,
    /// The lowered graph.
    pub primitives: Graph,
    /// The simplified graph.
    pub simplified: Graph,
    /// Kernels, launches and memory.
    pub plan: Plan,
    /// Edges between kernels, with the reason why they are not fused.
    pub not_fused: Vec<NotFused>,
    /// The trips of loops that stay loops.
    pub loops: Vec<CompiledLoop>,
    /// What is computed before the first step, if there is such a part. The forms from `simplified` on are those of the
    /// rest.
    pub once: Option<Box<CompiledOnce>>,
}

/// The part of a graph that is computed before the first step.
#[derive(Clone, Debug)]
pub struct CompiledOnce {
    /// The simplified graph before it was split.
    pub whole: Graph,
    /// The forms of this part.
    pub compiled: Compiled,
}

/// One trip of a loop.
#[derive(Clone, Debug)]
pub struct CompiledLoop {
    /// The node of the loop in the simplified graph.
    pub node: NodeId,
    /// Its forms.
    pub compiled: Compiled,
}

/// Runs all passes on a bound graph.
///
/// # Panics
/// If a pass yields an unsound graph. The message names the pass.
pub fn compile(graph: &Graph, registry: &Registry, options: &Options) -> Compiled {
    compile_from(graph, registry, options, 0)
}

/// As [`compile`], with the numbers of nodes that check from `first_site` on.
fn compile_from(graph: &Graph, registry: &Registry, options: &Options, first_site: NodeId) -> Compiled {
    let pass = |name, graph: &Graph, run: &mut dyn FnMut(&Graph) -> Graph| {
        checked(name, Level::Primitive, graph, run).unwrap_or_else(|broken| crate::bug!("{broken}"))
    };
    let mut fuel = options.fuel;
    let target = options.target();
    let primitives =
        pass("lower", graph, &mut |graph| primitives_for(&last_rows(graph, registry), registry, target));
    let settings = |fuel| Settings { numerics: options.numerics, without: options.without.clone(), fuel };
    let hoisted = match has_loops(&primitives) && !options.without.iter().any(|name| name == HOIST) {
        true => pass(HOIST, &primitives, &mut |graph| {
            hoist(graph, &|region| simplify_counting(region, &settings(fuel)).0).pruned()
        }),
        false => primitives.clone(),
    };
    let simplified = pass("simplify", &hoisted, &mut |graph| {
        let (simplified, left) = simplify_counting(graph, &settings(fuel));
        fuel = left;
        simplified
    });
    let simplified = pass("separate-states", &simplified, &mut separate_states);
    let (once, simplified) = match split_from_steps(&simplified, options) {
        Some(Split { once, step }) => {
            let [once, step] = [once, step].map(|graph| sound(HOIST_FROM_STEPS, Level::Primitive, graph));
            let compiled = compile_from(&once, registry, &Options { once: None, ..options.clone() }, 0);
            (Some(Box::new(CompiledOnce { whole: simplified, compiled })), step)
        }
        None => (None, simplified),
    };
    let (fuse, without, device) = (options.fuse, options.without.clone(), options.device);
    let deterministic = options.deterministic;
    let shared_attention = codegen::SHARED_ATTENTION;
    let settings =
        fusion::Settings { fuse, without, fuel, device, deterministic, shared_attention, first_site };
    let is_exact = options.numerics == Numerics::Strict;
    let (simplified, mut fused) = fused(simplified, &settings, is_exact);
    expect_none("fuse", fusion::verify(&simplified, &fused.kernels));
    let of_trip = Options { device: DeviceModel { n_streams: 1, ..options.device }, ..options.clone() };
    let (loops, trips) = loops::compile(&simplified, &mut fused.kernels, first_site, |trip, first_site| {
        let forms = compile_from(trip, registry, &of_trip, first_site);
        CompiledTrip { plan: forms.plan.clone(), n_sites: forms.n_sites(), forms }
    });
    let loops = loops.into_iter().map(|(node, compiled)| CompiledLoop { node, compiled }).collect();
    let plan = plan(&simplified, fused.kernels, options.device.n_streams);
    let plan = Plan { matmul: options.matmul, numerics: options.numerics, ..plan };
    let mut plan = loops::planned(plan, first_site, trips);
    expect_none("plan", plan::verify(&simplified, &plan));
    if let Some(once) = &once {
        plan.run_after(once.compiled.plan.clone());
    }
    Compiled { typed: graph.clone(), primitives, simplified, plan, not_fused: fused.not_fused, loops, once }
}

/// The graph as it is fused, and its kernels.
fn fused(graph: Graph, settings: &fusion::Settings, is_exact: bool) -> (Graph, Fused) {
    if !settings.fuse {
        let fused = fuse_with(&graph, settings);
        return (graph, fused);
    }
    let pass = |name, graph: &Graph, run: &mut dyn FnMut(&Graph) -> Graph| {
        checked(name, Level::Primitive, graph, run).unwrap_or_else(|broken| crate::bug!("{broken}"))
    };
    let graph = pass("separate-scores", &graph, &mut |graph| separated(graph, settings, is_exact));
    let joins = !is_exact && settings.runs(JOIN_PRODUCTS);
    let graph = if joins { pass(JOIN_PRODUCTS, &graph, &mut join_products) } else { graph };
    let mut graph = pass("share-copies", &graph, &mut share_copies);
    if let Some(copied) = copy_once(&graph, settings) {
        graph = pass("copy-once", &graph, &mut |_| copied.clone());
    }
    while let Some(split) = split_scans(&graph, settings) {
        graph = pass("split-scans", &graph, &mut |_| split.clone());
    }
    let mut fused = fuse_with(&graph, settings);
    while let Some(split) = split_columns(&graph, &fused.kernels, settings) {
        graph = pass("split-columns", &graph, &mut |_| split.clone());
        fused = fuse_with(&graph, settings);
    }
    (graph, fused)
}

/// The two parts of a simplified graph, if values are to be hoisted from steps.
fn split_from_steps(graph: &Graph, options: &Options) -> Option<Split> {
    let data = options.once.as_ref()?;
    let is_on = options.without.iter().all(|name| name != HOIST_FROM_STEPS);
    is_on.then(|| split(graph, data))?
}

/// The graph with scores of their own for users beside attentions. Gradients of a softmax that is spelled out are rewritten
/// if that yields a kernel of a gradient of attention.
fn separated(graph: &Graph, settings: &fusion::Settings, is_exact: bool) -> Graph {
    let plain = separate_scores(graph, false);
    if is_exact || !settings.has_attention_gradients() {
        return plain;
    }
    let rewritten = separate_scores(graph, true);
    if rewritten == plain {
        return plain;
    }
    let n_gradients = |graph: &Graph| {
        let kernels = fuse_with(graph, settings).kernels;
        kernels.iter().filter(|kernel| matches!(kernel.body, KernelBody::AttentionGradient(_))).count()
    };
    if n_gradients(&rewritten) > n_gradients(&plain) { rewritten } else { plain }
}

fn expect_none(pass: &str, problems: Vec<String>) {
    if let Some(first) = problems.first() {
        crate::bug!("pass `{pass}` has made what cannot run: {first}");
    }
}

impl Compiled {
    /// The kernels in launch order as text.
    pub fn kernels_text(&self) -> String {
        let launches = self.plan.launches.iter();
        let texts = launches.map(|launch| self.kernel_text(&self.plan.kernels[launch.kernel]));
        texts.collect::<Vec<_>>().join("\n")
    }

    /// The kernels with the forms that they belong to: those before the first step, then those of a step, with those of a
    /// trip in place of each loop.
    pub fn all_kernels(&self) -> Vec<(&Kernel, &Compiled)> {
        let mut kernels = self.once.as_ref().map(|once| once.compiled.all_kernels()).unwrap_or_default();
        for kernel in &self.plan.kernels {
            match self.trip_of(kernel) {
                Some(trip) => kernels.extend(trip.all_kernels()),
                None => kernels.push((kernel, self)),
            }
        }
        kernels
    }

    /// The nodes that may check: those of the graph and of the loops within it.
    fn n_sites(&self) -> usize {
        let within: usize = self.loops.iter().map(|trip| trip.compiled.n_sites()).sum();
        self.simplified.nodes.len() + within
    }

    /// The forms of a trip, if a kernel is a loop.
    fn trip_of(&self, kernel: &Kernel) -> Option<&Compiled> {
        let KernelBody::Loop(body) = &kernel.body else { return None };
        self.loops.iter().find(|trip| trip.node == body.node).map(|trip| &trip.compiled)
    }

    /// A kernel, with the kernels of a trip if it is a loop.
    fn kernel_text(&self, kernel: &Kernel) -> String {
        let mut text = kernel.describe(&self.simplified);
        let trip = self.trip_of(kernel).map(Compiled::kernels_text).unwrap_or_default();
        for line in trip.lines() {
            text.push_str(format!("  {line}").trim_end());
            text.push('\n');
        }
        text
    }

    /// One line per kernel: its kind, its reads and writes, and bytes. Graphs with equal plans have equal signatures,
    /// except for names.
    pub fn signature(&self) -> Vec<Signature> {
        let kernels = self.plan.launches.iter().map(|launch| &self.plan.kernels[launch.kernel]);
        kernels.map(Signature::of).collect()
    }

    /// The name of a value in the simplified graph.
    pub fn name(&self, value: crate::ir::Value) -> &Symbol {
        self.simplified.name_of(value)
    }
}

/// The memory traffic of a kernel: its kind, the types that it reads and writes, and bytes.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Signature {
    /// The kernel kind.
    pub kind: &'static str,
    /// Element types and numbers of elements read, sorted.
    pub reads: Vec<String>,
    /// Element types and numbers of elements written, sorted.
    pub writes: Vec<String>,
    /// Bytes read.
    pub bytes_read: u64,
    /// Bytes written.
    pub bytes_written: u64,
}

impl Signature {
    fn of(kernel: &crate::fusion::Kernel) -> Signature {
        use crate::fusion::Use;
        let types = |usage: Use| {
            let operands = kernel.operands.iter().filter(|operand| operand.usage == usage);
            // Buffers are flat: an additional axis of extent 1 does not change the memory.
            let flat =
                |operand: &crate::fusion::Operand| format!("{} x {}", operand.ty.dtype, operand.ty.numel());
            let mut types: Vec<String> = operands.map(flat).collect();
            types.sort();
            types
        };
        Signature {
            kind: kernel.kind(),
            reads: types(Use::Read),
            writes: types(Use::Write),
            bytes_read: kernel.bytes_read,
            bytes_written: kernel.bytes_written,
        }
    }
}

#[cfg(test)]
mod tests;
