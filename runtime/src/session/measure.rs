//! Measuring the steps of stages: how long they take, and every kernel of them.

use std::sync::Arc;
use std::time::Instant;

use engine_core::ir::Symbol;
use engine_core::pipeline::{Stage, StageKind};
use engine_core::plan::Plan;

use super::Session;
use super::batches::{Batches, Layout};
use super::error::SessionError;
use super::inference::Inference;
use super::order::Order;
use super::search::Searcher;
use crate::device::{KernelTime, RunError};

/// What the steps of one stage took.
#[derive(Clone, Debug)]
pub struct StageMeasure {
    /// The stage.
    pub name: Symbol,
    /// The plan of a whole step.
    pub plan: Arc<Plan>,
    /// From the pipeline to plans, and from those to executables with their memory.
    pub compile_seconds: f64,
    /// Each step after the warm-up, in order; the mean of those that were given at once.
    pub steps: Vec<f64>,
    /// The part of each in which the host handed work in to a GPU; empty where the host does the work itself.
    pub host: Vec<f64>,
    /// By launch of the plan: its time in each step that was profiled.
    pub launches: Vec<Vec<f64>>,
}

/// How much to measure.
#[derive(Clone, Copy, Debug)]
pub struct Effort {
    /// Steps that are not counted.
    pub warmup: usize,
    /// Times that are taken, each of `at_once` steps.
    pub steps: usize,
    /// Steps that the device is given at once: with one, each pays for being waited for.
    pub at_once: usize,
    /// Steps of which every launch is timed.
    pub profiled: usize,
}

impl Session {
    /// Measures the stages that take steps (training, evaluation, search, `Run`), or the one of that name. Parameters and state
    /// change as in a run; nothing is saved.
    ///
    /// # Errors
    /// As for running these stages.
    pub fn measure(&mut self, only: Option<&str>, effort: Effort) -> Result<Vec<StageMeasure>, SessionError> {
        let pipeline = Arc::clone(&self.pipeline);
        let wanted = pipeline.stages.iter().filter(|stage| only.is_none_or(|name| *stage.name == *name));
        let mut measured = vec![];
        for stage in wanted {
            measured.extend(self.measure_stage(stage, effort)?);
        }
        Ok(measured)
    }

    fn measure_stage(&mut self, stage: &Stage, effort: Effort) -> Result<Option<StageMeasure>, SessionError> {
        let start = Instant::now();
        let Some(mut steps) = self.steps_of(stage)? else { return Ok(None) };
        let compile_seconds = start.elapsed().as_secs_f64();
        measure(&mut steps, effort)
            .map(|Times { steps: times, host, launches }| {
                let (name, plan) = (stage.name.clone(), Arc::clone(steps.plan()));
                Some(StageMeasure { name, plan, compile_seconds, steps: times, host, launches })
            })
            .map_err(|source| SessionError::Run { stage: stage.name.clone(), source })
    }

    /// The steps of a stage, made ready; none if it takes none.
    fn steps_of(&mut self, stage: &Stage) -> Result<Option<Steps>, SessionError> {
        Ok(Some(match &stage.kind {
            StageKind::Train(train) => {
                self.prefetch(&train.data)?;
                let shape = self.resident.shape(&train.data)?;
                let batch = (train.batch, train.accumulate);
                let layout = Layout::new(&stage.name, shape.n_rows, batch, train.last_batch)?;
                let mut order = self.order(&train.data, shape.n_rows)?;
                if let Some(order) = &mut order {
                    order.begin(0, &self.background)?;
                }
                self.resident.wait(&train.data)?;
                let rows = (&shape, layout, layout.steps() as u64);
                let batches = self.prepare_training(&stage.name, train, rows, order.as_ref())?;
                Steps::Batches { batches: Box::new(batches), _order: order }
            }
            StageKind::Evaluate(evaluation) => {
                let batches = self.prepare_evaluation(&stage.name, &stage.name, evaluation)?;
                Steps::Batches { batches: Box::new(batches), _order: None }
            }
            StageKind::Run(run) => Steps::Run(self.prepare_running(&stage.name, run)?),
            StageKind::Search(search) => Steps::Search(self.prepare_search(&stage.name, search)?),
            _ => return Ok(None),
        }))
    }
}

/// What a stage does again and again.
enum Steps {
    /// Batches; the order must live as long as the executables that read it.
    Batches {
        batches: Box<Batches>,
        _order: Option<Order>,
    },
    Run(Inference),
    /// The first batch of queries.
    Search(Searcher),
}

impl Steps {
    fn plan(&self) -> &Arc<Plan> {
        match self {
            Steps::Batches { batches, .. } => &batches.plan,
            Steps::Run(inference) => &inference.ready.plan.plan,
            Steps::Search(searcher) => &searcher.plan,
        }
    }

    /// Whole steps before the first comes again.
    fn n_whole(&self) -> u64 {
        match self {
            Steps::Batches { batches, .. } => batches.layout.n_full.max(1) as u64,
            Steps::Run(_) | Steps::Search(_) => u64::from(u32::MAX),
        }
    }

    fn run(&mut self, step: u64, n_steps: usize) -> Result<(), RunError> {
        match self {
            Steps::Batches { batches, .. } => {
                let mut n_done = 0;
                while n_done < n_steps {
                    n_done += batches.run(step + n_done as u64, n_steps - n_done)?;
                }
                Ok(())
            }
            Steps::Run(inference) => inference.ready.run(step as u32, n_steps as u32),
            Steps::Search(searcher) => searcher.run(step as u32, n_steps as u32),
        }
    }

    fn host_seconds(&self) -> Option<f64> {
        match self {
            Steps::Batches { batches, .. } => batches.host_seconds(),
            Steps::Run(inference) => inference.ready.executable.host_seconds(),
            Steps::Search(searcher) => searcher.executable.host_seconds(),
        }
    }

    fn profile(&mut self, step: u64) -> Result<Vec<KernelTime>, RunError> {
        match self {
            Steps::Batches { batches, .. } => batches.profile(step),
            Steps::Run(inference) => inference.ready.profile(step as u32),
            Steps::Search(searcher) => searcher.executable.profile(step as u32),
        }
    }
}

struct Times {
    steps: Vec<f64>,
    host: Vec<f64>,
    launches: Vec<Vec<f64>>,
}

fn measure(steps: &mut Steps, effort: Effort) -> Result<Times, RunError> {
    let n_whole = steps.n_whole();
    let at_once = effort.at_once.clamp(1, n_whole as usize);
    let mut step = 0;
    // Steps that are given at once do not reach over the end.
    let mut next = |n: usize| {
        let first = if step + n as u64 > n_whole { 0 } else { step };
        step = first + n as u64;
        first
    };
    for _ in 0..effort.warmup {
        steps.run(next(1), 1)?;
    }
    // What is prepared for many steps at once is prepared before the clock starts.
    steps.run(next(at_once), at_once)?;
    let mut times = Vec::with_capacity(effort.steps);
    let mut host = Vec::with_capacity(effort.steps);
    for _ in 0..effort.steps {
        let start = Instant::now();
        steps.run(next(at_once), at_once)?;
        times.push(start.elapsed().as_secs_f64() / at_once as f64);
        host.extend(steps.host_seconds().map(|seconds| seconds / at_once as f64));
    }
    let mut launches: Vec<Vec<f64>> = vec![vec![]; steps.plan().launches.len()];
    for _ in 0..effort.profiled {
        for time in steps.profile(next(1))? {
            launches[time.launch].push(time.seconds);
        }
    }
    Ok(Times { steps: times, host, launches })
}
